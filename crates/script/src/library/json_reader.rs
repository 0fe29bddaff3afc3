//! Reading JSON as lua-cjson does, with its error messages.

use crate::bounds::Meter;
use mlua::{Lua, Value};

pub(super) struct Reader<'a> {
    json: &'a [u8],
    at: usize,
    depth: i64,
    most_depth: i64,
    /// Whether numbers that JSON does not allow are accepted, such as NaN or 0x10.
    reads_invalid: bool,
    meter: Meter,
}

/// The next element of the text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    Wrong(&'static str),
}

impl Token {
    /// The token's name in errors.
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
            Token::Wrong(text) => text,
        }
    }
}

/// A token, and the offset at which it begins.
type Placed = (Token, usize);

impl<'a> Reader<'a> {
    pub(super) fn new(json: &'a [u8], most_depth: i64, reads_invalid: bool, meter: Meter) -> Self {
        Reader { json, at: 0, depth: 0, most_depth, reads_invalid, meter }
    }

    /// Reads the whole text as one value.
    pub(super) fn document(&mut self, lua: &Lua) -> Result<Value, String> {
        if let [first, second, ..] = self.json
            && (*first == 0 || *second == 0)
        {
            return Err("JSON parser does not support UTF-16 or UTF-32".to_owned());
        }
        let first = self.next();
        let value = self.value(lua, first)?;
        match self.next() {
            (Token::End, _) => Ok(value),
            other => Err(expected("the end", &other)),
        }
    }

    fn value(&mut self, lua: &Lua, token: Placed) -> Result<Value, String> {
        self.meter.take(1)?;
        Ok(match token {
            (Token::Text(text), _) => Value::String(lua.create_string(text).map_err(plain)?),
            (Token::Number(number), _) => Value::Number(number),
            (Token::Boolean(value), _) => Value::Boolean(value),
            (Token::Null, _) => Value::NULL,
            (Token::ObjectBegin, _) => self.object(lua)?,
            (Token::ArrayBegin, _) => self.array(lua)?,
            other => return Err(expected("value", &other)),
        })
    }

    fn descend(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > self.most_depth {
            return Err(format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            ));
        }
        Ok(())
    }

    fn object(&mut self, lua: &Lua) -> Result<Value, String> {
        self.descend()?;
        let table = lua.create_table().map_err(plain)?;
        let mut token = self.next();
        if !matches!(token.0, Token::ObjectEnd) {
            loop {
                let (Token::Text(key), _) = token else {
                    return Err(expected("object key string", &token));
                };
                match self.next() {
                    (Token::Colon, _) => {}
                    other => return Err(expected("colon", &other)),
                }
                let next = self.next();
                let value = self.value(lua, next)?;
                let key = lua.create_string(key).map_err(plain)?;
                table.raw_set(key, value).map_err(plain)?;
                match self.next() {
                    (Token::ObjectEnd, _) => break,
                    (Token::Comma, _) => token = self.next(),
                    other => return Err(expected("comma or object end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self, lua: &Lua) -> Result<Value, String> {
        self.descend()?;
        let table = lua.create_table().map_err(plain)?;
        let mut token = self.next();
        if !matches!(token.0, Token::ArrayEnd) {
            for index in 1.. {
                let value = self.value(lua, token)?;
                table.raw_set(index, value).map_err(plain)?;
                match self.next() {
                    (Token::ArrayEnd, _) => break,
                    (Token::Comma, _) => token = self.next(),
                    other => return Err(expected("comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn next(&mut self) -> Placed {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        let single = match self.peek() {
            None => return (Token::End, at),
            Some(b'{') => Token::ObjectBegin,
            Some(b'}') => Token::ObjectEnd,
            Some(b'[') => Token::ArrayBegin,
            Some(b']') => Token::ArrayEnd,
            Some(b':') => Token::Colon,
            Some(b',') => Token::Comma,
            Some(b'"') => {
                self.at += 1;
                let token = self.text();
                let at = if matches!(token, Token::Wrong(_)) { self.at } else { at };
                return (token, at);
            }
            Some(b'-' | b'0'..=b'9') => return (self.number(), at),
            Some(_) => return (self.word(), at),
        };
        self.at += 1;
        (single, at)
    }

    fn word(&mut self) -> Token {
        let rest = self.json.get(self.at..).unwrap_or_default();
        let words = [
            (b"true".as_slice(), Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        let is_number = self.reads_invalid
            && rest.first().is_some_and(|byte| matches!(byte, b'i' | b'I' | b'n' | b'N'));
        match is_number {
            true => match self.number() {
                Token::Number(number) => Token::Number(number),
                _ => Token::Wrong("invalid token"),
            },
            false => Token::Wrong("invalid token"),
        }
    }

    /// Reads a number of JSON or, if `reads_invalid`, one in the syntax of C's `strtod`.
    fn number(&mut self) -> Token {
        let rest = self.json.get(self.at..).unwrap_or_default();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let body = rest.get(sign..).unwrap_or_default();
        let lower: Vec<u8> = body.iter().take(8).map(u8::to_ascii_lowercase).collect();
        let is_valid = match body {
            [b'0', b'0'..=b'9' | b'x' | b'X', ..] => false,
            [b'0'..=b'9', ..] => true,
            _ => false,
        };
        if !is_valid && !self.reads_invalid {
            return Token::Wrong("invalid number");
        }
        let (len, number) = if lower.starts_with(b"infinity") {
            (8, f64::INFINITY)
        } else if lower.starts_with(b"inf") {
            (3, f64::INFINITY)
        } else if lower.starts_with(b"nan") {
            (3, f64::NAN)
        } else if lower.starts_with(b"0x") {
            let digits = body.iter().skip(2).take_while(|byte| byte.is_ascii_hexdigit());
            let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0);
            let (len, number) = digits.fold((2, 0.0), |(len, number), byte| {
                (len + 1, number * 16.0 + f64::from(digit(byte)))
            });
            (len, number)
        } else {
            let len = decimal_len(body);
            let digits = std::str::from_utf8(body.get(..len).unwrap_or_default());
            match digits.ok().and_then(|digits| digits.parse().ok()) {
                Some(number) => (len, number),
                None => return Token::Wrong("invalid number"),
            }
        };
        self.at += sign + len;
        Token::Number(if sign == 1 { -number } else { number })
    }

    fn text(&mut self) -> Token {
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None => return Token::Wrong("unexpected end of string"),
                Some(b'"') => {
                    self.at += 1;
                    return Token::Text(text);
                }
                Some(b'\\') => match self.escape(&mut text) {
                    Ok(()) => {}
                    Err(wrong) => return Token::Wrong(wrong),
                },
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = match self.json.get(self.at + 1) {
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'u') => return self.unicode(text),
            None => {
                self.at += 1;
                return Err("unexpected end of string");
            }
            Some(_) => return Err("invalid escape code"),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }

    fn unicode(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        const WRONG: &str = "invalid unicode escape code";
        let first = self.code_unit(self.at).ok_or(WRONG)?;
        let (code, len) = match first {
            0xd800..=0xdbff => {
                let second = self.code_unit(self.at + 6).ok_or(WRONG)?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(WRONG);
                }
                (0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff), 12)
            }
            0xdc00..=0xdfff => return Err(WRONG),
            code => (code, 6),
        };
        let character = char::from_u32(code).ok_or(WRONG)?;
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        Ok(())
    }

    /// The value of the escape at `at`, which has four hexadecimal digits.
    fn code_unit(&self, at: usize) -> Option<u32> {
        let digits = self.json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
        let digits = std::str::from_utf8(digits).ok()?;
        digits.bytes().all(|byte| is_digit(&byte)).then(|| u32::from_str_radix(digits, 16).ok())?
    }
}

/// The number of bytes that `strtod` would read of a decimal number.
fn decimal_len(text: &[u8]) -> usize {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut len = digits(0);
    if text.get(len) == Some(&b'.') {
        len += 1 + digits(len + 1);
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    len
}

fn expected(what: &str, (token, at): &Placed) -> String {
    format!("Expected {what} but found {} at character {}", token.name(), at + 1)
}

fn plain(error: mlua::Error) -> String {
    error.to_string()
}
