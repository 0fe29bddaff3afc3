//! Parses RESP2 and RESP3 replies, independently of nagi's own protocol code.

/// One reply of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR ...`, without the dash; also RESP3's `!`
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$3`; also RESP3's verbatim `=`, with its `txt:` prefix
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or RESP3's `_`
    Null,
    /// `*2`
    Array(Vec<Reply>),
    /// `%1`, with keys and values alternating
    Map(Vec<Reply>),
    /// `~2`
    Set(Vec<Reply>),
    /// `>2`
    Push(Vec<Reply>),
    /// `,1.5`, with its digits unchanged
    Double(String),
    /// `#t`
    Boolean(bool),
    /// `(123`, with its digits unchanged
    BigNumber(String),
}

impl Reply {
    /// Returns the first reply in `bytes` and its length in bytes; `None` while it is incomplete.
    ///
    /// # Panics
    /// `bytes` cannot be the start of a reply.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let line_length = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        // An error may contain bytes that a client sent.
        let line = String::from_utf8_lossy(&bytes[1..line_length]);
        let after_line = line_length + 2;
        let number = || -> i64 { line.parse().expect("a length or an integer") };
        let simple = |reply| Some((reply, after_line));
        match bytes[0] {
            b'+' => simple(Self::Simple(line.into_owned())),
            b'-' => simple(Self::Error(line.into_owned())),
            b':' => simple(Self::Integer(number())),
            b',' => simple(Self::Double(line.into_owned())),
            b'(' => simple(Self::BigNumber(line.into_owned())),
            b'#' => simple(Self::Boolean(line == "t")),
            b'_' => simple(Self::Null),
            b'$' | b'*' if line == "-1" => simple(Self::Null),
            b'$' | b'=' | b'!' => {
                let end = after_line + usize::try_from(number()).expect("a length");
                if bytes.len() < end + 2 {
                    return None;
                }
                assert_eq!(&bytes[end..end + 2], b"\r\n", "a bulk string ends its line");
                let content = bytes[after_line..end].to_vec();
                let reply = match bytes[0] {
                    b'!' => Self::Error(String::from_utf8_lossy(&content).into_owned()),
                    _ => Self::Bulk(content),
                };
                Some((reply, end + 2))
            }
            kind @ (b'*' | b'%' | b'~' | b'>') => {
                let pairs = if kind == b'%' { 2 } else { 1 };
                let (items, length) = Self::items(bytes, after_line, number() * pairs)?;
                let reply = match kind {
                    b'*' => Self::Array(items),
                    b'%' => Self::Map(items),
                    b'~' => Self::Set(items),
                    _ => Self::Push(items),
                };
                Some((reply, length))
            }
            _ => panic!("not a RESP reply: {}", bytes.escape_ascii()),
        }
    }

    fn items(bytes: &[u8], mut at: usize, count: i64) -> Option<(Vec<Self>, usize)> {
        let mut items = Vec::new();
        for _ in 0..count {
            let (item, length) = Self::parse(&bytes[at..])?;
            items.push(item);
            at += length;
        }
        Some((items, at))
    }

    /// Returns the text of a simple or bulk string.
    ///
    /// # Panics
    /// The reply is of another type.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("expected a string, not {other:?}"),
        }
    }

    /// Returns the value of an integer.
    ///
    /// # Panics
    /// The reply is of another type.
    #[must_use]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            other => panic!("expected an integer, not {other:?}"),
        }
    }

    /// Returns the items of an array, a map (keys and values alternating), a set or a push.
    ///
    /// # Panics
    /// The reply is of another type.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::Array(items) | Self::Map(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("expected a list, not {other:?}"),
        }
    }
}
