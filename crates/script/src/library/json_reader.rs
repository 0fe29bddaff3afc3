//! Reading JSON as lua-cjson does, with its error messages.

use super::answer::plain;
use crate::bounds::Meter;
use crate::strtod;
use mlua::{Lua, Value};
use std::ffi::CStr;

struct Reader<'a> {
    json: &'a CStr,
    at: usize,
    depth: i32,
    most_depth: i32,
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

/// Reads a whole text as one value, with a maximum nesting, and with numbers that JSON does not
/// allow or without them. Like lua-cjson, reads up to the first zero byte.
pub(super) fn read(
    lua: &Lua,
    mut json: Vec<u8>,
    (most_depth, reads_invalid): (i32, bool),
) -> Result<Value, String> {
    if let [first, second, ..] = &*json
        && (*first == 0 || *second == 0)
    {
        return Err("JSON parser does not support UTF-16 or UTF-32".to_owned());
    }
    json.push(0);
    let json = CStr::from_bytes_until_nul(&json).unwrap_or_default();
    let meter = Meter::new(lua);
    Reader { json, at: 0, depth: 0, most_depth, reads_invalid, meter }.document(lua)
}

impl Reader<'_> {
    fn document(&mut self, lua: &Lua) -> Result<Value, String> {
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
            (Token::Text(text), _) => {
                Value::String(lua.create_string(text).map_err(|error| plain(&error))?)
            }
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
        let table = lua.create_table().map_err(|error| plain(&error))?;
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
                let key = lua.create_string(key).map_err(|error| plain(&error))?;
                table.raw_set(key, value).map_err(|error| plain(&error))?;
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
        let table = lua.create_table().map_err(|error| plain(&error))?;
        let mut token = self.next();
        if !matches!(token.0, Token::ArrayEnd) {
            for index in 1.. {
                let value = self.value(lua, token)?;
                table.raw_set(index, value).map_err(|error| plain(&error))?;
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
        self.rest().first().copied()
    }

    fn rest(&self) -> &[u8] {
        self.json.to_bytes().get(self.at..).unwrap_or_default()
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
            Some(b'-' | b'0'..=b'9') => {
                let is_refused = is_invalid(self.rest()) && !self.reads_invalid;
                return (if is_refused { WRONG_NUMBER } else { self.number() }, at);
            }
            Some(_) => return (self.word(), at),
        };
        self.at += 1;
        (single, at)
    }

    fn word(&mut self) -> Token {
        let words = [
            (b"true".as_slice(), Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        match self.reads_invalid && is_invalid(self.rest()) {
            true => self.number(),
            false => Token::Wrong("invalid token"),
        }
    }

    /// Reads a number in the syntax of C's `strtod`.
    fn number(&mut self) -> Token {
        let (number, len) = strtod::number_at(self.json.to_bytes_with_nul(), self.at);
        self.at += len;
        if len == 0 { WRONG_NUMBER } else { Token::Number(number) }
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
        let byte = match self.rest().get(1) {
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'u') => return self.unicode(text),
            _ => return Err("invalid escape code"),
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
        let digits = self.json.to_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
        let digits = std::str::from_utf8(digits).ok()?;
        digits.bytes().all(|byte| is_digit(&byte)).then(|| u32::from_str_radix(digits, 16).ok())?
    }
}

const WRONG_NUMBER: Token = Token::Wrong("invalid number");

/// Whether a text begins like a number that `strtod` reads, but JSON does not allow.
fn is_invalid(text: &[u8]) -> bool {
    let body = text.strip_prefix(b"-").unwrap_or(text);
    let is_word = |word: &[u8]| body.get(..3).is_some_and(|it| it.eq_ignore_ascii_case(word));
    matches!(text, [b'+', ..])
        || matches!(body, [b'0', b'0'..=b'9' | b'x' | b'X', ..])
        || is_word(b"inf")
        || is_word(b"nan")
}

fn expected(what: &str, (token, at): &Placed) -> String {
    format!("Expected {what} but found {} at character {}", token.name(), at + 1)
}
