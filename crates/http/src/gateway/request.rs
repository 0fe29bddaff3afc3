//! Commands as paths, in the format of webdis: `/COMMAND/argument/argument.ext?option=value`.

use super::format::Kind;
use super::worker_connection::HEAD_BYTES as REQUEST_BYTES;
use hyper::body::Bytes;

/// The command in a request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathCommand {
    pub(super) database: usize,
    /// The command's name as written, and its arguments.
    pub(super) words: Vec<Bytes>,
    pub(super) options: Options,
}

/// The options of the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) kind: Kind,
    /// The media type, in place of the format's own.
    pub(super) media_type: Option<String>,
    /// The separator between the elements of an array, as text.
    pub(super) separator: Vec<u8>,
    /// The file name under which a browser saves the reply.
    pub(super) filename: Option<String>,
    /// The JSONP function.
    pub(super) callback: Option<String>,
}

/// Errors of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadPath {
    /// It names no command.
    Empty,
    /// A percent sign is not followed by two hexadecimal digits.
    Percent,
    /// `type` is not a media type of the form token/token.
    MediaType,
    /// The name of a file or of a function has other characters than letters, digits and `._-`.
    Name,
}

impl BadPath {
    pub(super) fn reason(self) -> &'static str {
        match self {
            BadPath::Empty => "the path names no command: /COMMAND/argument/...",
            BadPath::Percent => "a percent sign must be followed by two hex digits",
            BadPath::MediaType => "type must be a media type such as text/plain",
            BadPath::Name => "filename, jsonp and callback may have letters, digits and ._- only",
        }
    }
}

/// Parses the path and the query of a request.
///
/// # Errors
/// The fault of the path or query.
pub(super) fn parse(path: &str, query: &str) -> Result<PathCommand, BadPath> {
    let mut options = read_query(query)?;
    let path = path.strip_prefix('/').unwrap_or(path);
    let (database, path) = match path.split_once('/') {
        Some((first, rest)) if is_number(first) => (first.parse().unwrap_or(usize::MAX), rest),
        _ => (0, path),
    };
    let extension = path.rsplit_once('.').and_then(|(rest, name)| Some((rest, Kind::named(name)?)));
    let path = match extension {
        Some((rest, kind)) => {
            options.kind = kind;
            rest
        }
        None => path,
    };
    let words = path.split('/').map(decode).collect::<Result<Vec<_>, _>>()?;
    if words.first().is_none_or(Bytes::is_empty) {
        return Err(BadPath::Empty);
    }
    if let (Kind::Json, Some(_)) = (options.kind, &options.media_type) {
        // A media type applies to plain bytes, as with an extension that has one.
        options.kind = Kind::Text("text/plain; charset=utf-8");
    }
    Ok(PathCommand { database, words, options })
}

/// Parses a path in the format of Upstash's REST interface: without an extension, and with literal
/// plus signs.
///
/// # Errors
/// The fault of the path.
pub(super) fn parse_plain(path: &str, kind: Kind) -> Result<PathCommand, BadPath> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let words = path.split('/').map(|word| percent_decoded(word, b'+'));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    if words.first().is_none_or(Bytes::is_empty) {
        return Err(BadPath::Empty);
    }
    Ok(PathCommand { database: 0, words, options: Options { kind, ..Options::default() } })
}

/// The approximate maximum memory of the words of a path, in bytes: a copy of each, and an entry in
/// a list with room for twice as many; and the request to the worker.
pub(super) fn parsed_bytes(path: &str) -> usize {
    let words = path.bytes().filter(|byte| *byte == b'/').count() + 1;
    2 * path.len() + words * (2 * size_of::<Bytes>() + REQUEST_BYTES)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_query(query: &str) -> Result<Options, BadPath> {
    let mut options = Options::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value)?;
        let text = || String::from_utf8(value.to_vec()).map_err(|_| BadPath::Name);
        match name {
            "type" => options.media_type = Some(media_type(&value)?),
            "sep" => options.separator = value.to_vec(),
            "filename" => options.filename = Some(text().and_then(plain_name)?),
            "jsonp" | "callback" => options.callback = Some(text().and_then(plain_name)?),
            _ => {}
        }
    }
    Ok(options)
}

/// Whether a query has Upstash's token, in any spelling.
pub(super) fn has_token(query: &str) -> bool {
    query.split('&').any(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        decode(name).is_ok_and(|name| name.eq_ignore_ascii_case(b"_token"))
    })
}

/// Checks a name that must need no quoting anywhere.
fn plain_name(name: String) -> Result<String, BadPath> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-$".contains(&byte);
    let is_fine = !name.is_empty() && name.len() <= 128 && name.bytes().all(is_plain);
    if is_fine { Ok(name) } else { Err(BadPath::Name) }
}

/// `token/token` (RFC 9110, 8.3.1), without parameters.
fn media_type(value: &[u8]) -> Result<String, BadPath> {
    let is_token = |text: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !text.is_empty() && text.len() <= 127 && text.bytes().all(is_letter)
    };
    let text = std::str::from_utf8(value).map_err(|_| BadPath::MediaType)?;
    match text.split_once('/') {
        Some((kind, form)) if is_token(kind) && is_token(form) => Ok(text.to_owned()),
        _ => Err(BadPath::MediaType),
    }
}

/// Decodes `%41` and `+`.
pub(super) fn decode(text: &str) -> Result<Bytes, BadPath> {
    percent_decoded(text, b' ')
}

/// Decodes `%41`, with the byte `plus` in place of each `+`.
fn percent_decoded(text: &str, plus: u8) -> Result<Bytes, BadPath> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(plus),
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or(BadPath::Percent)?;
                let digits = std::str::from_utf8(digits).map_err(|_| BadPath::Percent)?;
                if digits.starts_with('+') {
                    return Err(BadPath::Percent);
                }
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| BadPath::Percent)?);
                rest = after;
            }
            byte => bytes.push(*byte),
        }
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(path: &str) -> Vec<String> {
        let command = parse(path, "").unwrap();
        command.words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn a_path_is_a_command() {
        assert_eq!(words("/SET/a%20b+c/x%2Fy"), ["SET", "a b c", "x/y"]);
        assert_eq!(words("/DEL/a/"), ["DEL", "a", ""]);
        assert_eq!(words("/GET/a.b.json"), ["GET", "a.b"]);
        assert_eq!(words("/GET/a.b"), ["GET", "a.b"]);
        assert_eq!(words("/GET/a%2Etxt"), ["GET", "a.txt"]);
        let command = parse("/7/GET/x.png", "sep=%2C&type=a/b&filename=x.pdf&other").unwrap();
        assert_eq!((command.database, command.words.len()), (7, 2));
        assert_eq!(command.options.kind, Kind::named("png").unwrap());
        assert_eq!(command.options.separator, b",");
        assert_eq!(command.options.media_type.as_deref(), Some("a/b"));
        assert_eq!(parse("/99999999999999999999/GET/x", "").unwrap().database, usize::MAX);
    }

    #[test]
    fn tokens_are_found_however_they_are_spelt() {
        for query in ["_token=x", "a=b&_token=", "%5ftoken=x", "%5Ftoke%6E", "_TOKEN=x"] {
            assert!(has_token(query), "{query}");
        }
        for query in ["", "token=x", "a=_token", "%5token=x"] {
            assert!(!has_token(query), "{query}");
        }
    }

    #[test]
    fn a_plain_path_is_its_words() {
        let words = |path: &str| parse_plain(path, Kind::Events).map(|command| command.words);
        let expected: Vec<Bytes> = ["7", "a+b.json", "c/d"].map(Bytes::from).into();
        assert_eq!(words("/7/a+b.json/c%2Fd"), Ok(expected));
        assert_eq!(words("/"), Err(BadPath::Empty));
        assert_eq!(words("/x/%"), Err(BadPath::Percent));
    }

    proptest! {
        #[test]
        fn any_path_is_a_command_or_wrong(path in "/?[ -~]{0,40}", query in "[ -~]{0,40}") {
            if let Ok(command) = parse(&path, &query) {
                prop_assert!(!command.words.is_empty() && !command.words[0].is_empty());
            }
        }

        #[test]
        fn what_is_encoded_is_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let encoded: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(decode(&encoded), Ok(Bytes::from(bytes)));
        }
    }

    #[test]
    fn bad_paths_are_reported() {
        for (path, query, fault) in [
            ("/", "", BadPath::Empty),
            ("/7/", "", BadPath::Empty),
            ("//x", "", BadPath::Empty),
            ("/GET/%", "", BadPath::Percent),
            ("/GET/%4", "", BadPath::Percent),
            ("/GET/%+1", "", BadPath::Percent),
            ("/GET/%zz", "", BadPath::Percent),
            ("/GET/x", "type=a", BadPath::MediaType),
            ("/GET/x", "type=a/b%0d%0aSet-Cookie:", BadPath::MediaType),
            ("/GET/x", "filename=%22", BadPath::Name),
            ("/GET/x", "jsonp=a(b", BadPath::Name),
        ] {
            assert_eq!(parse(path, query), Err(fault), "{path}?{query}");
        }
    }
}
