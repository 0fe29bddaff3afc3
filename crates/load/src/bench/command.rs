//! Command templates given by users, with placeholders for keys, values and numbers: `HSET h:{key}
//! f {value:100}`.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use super::names::Names;
use super::protocol::Protocol;
use super::sizes::Sizes;
use super::values::Values;

/// A command template with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// How often the command is sent, relative to the other commands.
    pub weight: u32,
    text: String,
    words: Vec<Word>,
}

/// The pieces of one argument.
type Word = Vec<Piece>;

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(Vec<u8>),
    Key,
    Value(Option<Sizes>),
    Number(u64, u64),
}

/// The contents of a command's placeholders.
pub(crate) struct Filling<'a> {
    pub(crate) names: &'a Names,
    pub(crate) values: &'a Values,
    /// The number of the key for `{key}`.
    pub(crate) key: u64,
}

impl Command {
    /// Returns the length in bytes of the largest value that the command can contain.
    pub(crate) fn largest_value(&self) -> usize {
        let places = self.words.iter().flatten().map(|piece| match piece {
            Piece::Value(Some(sizes)) => sizes.largest(),
            _ => 0,
        });
        places.max().unwrap_or(0)
    }

    /// Whether the command has a placeholder for a key.
    pub(crate) fn has_key(&self) -> bool {
        self.words.iter().flatten().any(|piece| *piece == Piece::Key)
    }

    /// # Errors
    /// The command cannot be expressed in memcached's protocol.
    pub(crate) fn check(&self, protocol: Protocol) -> Result<(), String> {
        let is_value = |piece: &Piece| matches!(piece, Piece::Value(_));
        let is_mixed = |word: &&Word| word.len() > 1 && word.iter().any(is_value);
        if protocol == Protocol::Memcached
            && (self.words.iter().any(|word| is_mixed(&word))
                || self.words.iter().flatten().filter(|piece| is_value(piece)).count() > 1)
        {
            return Err(format!(
                "{self}: with memcached one {{value}} stands alone for its length"
            ));
        }
        Ok(())
    }

    /// Appends the request with its placeholders replaced.
    pub(crate) fn append(
        &self,
        protocol: Protocol,
        filling: &Filling<'_>,
        random: &mut Rng,
        out: &mut Vec<u8>,
    ) {
        match protocol {
            Protocol::Memcached => self.append_line(filling, random, out),
            Protocol::Resp | Protocol::Http => self.append_array(filling, random, out),
        }
    }

    fn append_array(&self, filling: &Filling<'_>, random: &mut Rng, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*{}\r\n", self.words.len()).as_bytes());
        let mut word = Vec::new();
        for pieces in &self.words {
            word.clear();
            for piece in pieces {
                let bytes = filling.append(piece, random, &mut word);
                filling.append_value(bytes, &mut word);
            }
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(&word);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends memcached's request: a line with the length in place of the value, followed by the
    /// value.
    fn append_line(&self, filling: &Filling<'_>, random: &mut Rng, out: &mut Vec<u8>) {
        let mut value = None;
        for (index, pieces) in self.words.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            for piece in pieces {
                if let Some(bytes) = filling.append(piece, random, out) {
                    out.extend_from_slice(bytes.to_string().as_bytes());
                    value = Some(bytes);
                }
            }
        }
        out.extend_from_slice(b"\r\n");
        if value.is_some() {
            filling.append_value(value, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Filling<'_> {
    /// Appends the text of a piece. For a value, appends nothing and returns the value's length in
    /// bytes.
    fn append(&self, piece: &Piece, random: &mut Rng, out: &mut Vec<u8>) -> Option<usize> {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Key => self.names.append(self.key, out),
            Piece::Number(from, to) => {
                out.extend_from_slice(random.u64(from..=to).to_string().as_bytes());
            }
            Piece::Value(Some(sizes)) => return Some(sizes.draw(random)),
            Piece::Value(None) => return Some(self.values.draw_size(random)),
        }
        None
    }

    fn append_value(&self, bytes: Option<usize>, out: &mut Vec<u8>) {
        if let Some(bytes) = bytes {
            let mut key = Vec::new();
            self.names.append(self.key, &mut key);
            self.values.append(&key, 0, bytes, out);
        }
    }
}

impl FromStr for Command {
    type Err = String;

    /// Parses `[WEIGHT:]WORD...`. Double quotes enclose a word that contains blanks.
    fn from_str(text: &str) -> Result<Self, String> {
        let (weight, rest) = match text.split_once(':') {
            Some((weight, rest)) if weight.bytes().all(|byte| byte.is_ascii_digit()) => {
                let weight = weight.parse().ok().filter(|weight| *weight > 0);
                (weight.ok_or("a weight is a number above 0")?, rest)
            }
            _ => (1, text),
        };
        let words = split(rest)?.iter().map(|word| pieces(word)).collect::<Result<Vec<_>, _>>()?;
        if words.is_empty() {
            return Err("the command has no words".to_owned());
        }
        if text.contains(['\r', '\n']) {
            return Err("a command is one line".to_owned());
        }
        Ok(Command { weight, text: rest.to_owned(), words })
    }
}

fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for letter in text.chars() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quoted {
        return Err(format!("{text}: a quote is not closed"));
    }
    words.extend(word);
    Ok(words)
}

fn pieces(word: &str) -> Result<Word, String> {
    let (mut found, mut rest) = (Vec::new(), word);
    if word.is_empty() {
        found.push(Piece::Text(Vec::new()));
    }
    while let Some((before, after)) = rest.split_once('{') {
        if !before.is_empty() {
            found.push(Piece::Text(before.as_bytes().to_vec()));
        }
        let (place, after) =
            after.split_once('}').ok_or_else(|| format!("{word}: the }} is missing"))?;
        found.push(place_of(place)?);
        rest = after;
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest.as_bytes().to_vec()));
    }
    Ok(found)
}

fn place_of(place: &str) -> Result<Piece, String> {
    Ok(match place.split_once(':') {
        None if place == "key" => Piece::Key,
        None if place == "value" => Piece::Value(None),
        Some(("value", sizes)) => Piece::Value(Some(sizes.parse()?)),
        Some(("number", range)) => {
            let bounds = range
                .split_once('-')
                .and_then(|(from, to)| Some((from.parse::<u64>().ok()?, to.parse::<u64>().ok()?)));
            let (from, to) = bounds
                .filter(|(from, to)| from <= to)
                .ok_or_else(|| format!("{{{place}}}: expected {{number:1-100}}"))?;
            Piece::Number(from, to)
        }
        _ => {
            return Err(format!(
                "{{{place}}} is none of {{key}}, {{value}}, {{value:SIZES}} and {{number:A-B}}"
            ));
        }
    })
}

impl fmt::Display for Command {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weight {
            1 => out.write_str(&self.text),
            weight => write!(out, "{weight}:{}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(protocol: Protocol, text: &str) -> String {
        let command: Command = text.parse().unwrap();
        command.check(protocol).unwrap();
        let names = Names::numbered(100, 6).unwrap();
        let values = Values::new(Sizes::Fixed(3), command.largest_value(), 1, false);
        let filling = Filling { names: &names, values: &values, key: 42 };
        let mut out = Vec::new();
        command.append(protocol, &filling, &mut Rng::with_seed(1), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn places_are_filled() {
        let seven = String::from_utf8(super::super::values::letters(7, 1)).unwrap();
        let three = &seven[..3];
        assert_eq!(
            request(Protocol::Resp, "HSET h:{key}:x \"a b\" {value:7}"),
            format!("*4\r\n$4\r\nHSET\r\n$10\r\nh:key:42:x\r\n$3\r\na b\r\n$7\r\n{seven}\r\n")
        );
        assert_eq!(
            request(Protocol::Resp, "APPEND {key} \"\""),
            "*3\r\n$6\r\nAPPEND\r\n$6\r\nkey:42\r\n$0\r\n\r\n"
        );
        assert_eq!(
            request(Protocol::Memcached, "3:set {key} 0 60 {value}"),
            format!("set key:42 0 60 3\r\n{three}\r\n")
        );
        let number = request(Protocol::Memcached, "incr {key} {number:5-9}");
        let number = number.strip_prefix("incr key:42 ").unwrap().trim_end();
        assert!((5..=9).contains(&number.parse().unwrap()), "{number}");
    }

    #[test]
    fn commands_read_back_as_written() {
        for text in ["GET {key}", "3:SET {key} {value}"] {
            let command: Command = text.parse().unwrap();
            assert_eq!(command.to_string(), text);
        }
        assert_eq!("3:SET x".parse::<Command>().unwrap().weight, 3);
        for text in ["", "0:GET x", "GET {ke}", "GET {key", "GET \"x", "X {number:9-1}", "A\r\nB"] {
            assert!(text.parse::<Command>().is_err(), "{text}");
        }
        let two: Command = "set {key} 0 0 {value}{value}".parse().unwrap();
        assert!(two.check(Protocol::Memcached).is_err());
    }
}
