//! Requests with numbers that are filled in. A server whose CPU time is measured must not wait for
//! its client, so most of the work of encoding a request is done once.

/// The number of different keys for `{key}`.
pub(super) const KEYS: u64 = 1000;
/// The number of different elements for `{index}`.
pub(super) const ELEMENTS: u64 = 1000;

/// A part of a word.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Clone, Copy, Debug)]
enum Placeholder {
    /// `{}`: a number of ten digits that differs in each request.
    Number,
    /// `{key}`: a number below [`KEYS`].
    Key,
    /// `{index}`: a number of nine digits below [`ELEMENTS`].
    Index,
}

const PLACEHOLDERS: [(&str, Placeholder); 3] =
    [("{}", Placeholder::Number), ("{key}", Placeholder::Key), ("{index}", Placeholder::Index)];

/// A RESP request with placeholders.
#[derive(Debug)]
pub(super) struct Template {
    words: Vec<Vec<Part>>,
    /// The word that is being encoded.
    word: Vec<u8>,
}

impl Template {
    /// Prepares a request whose words are separated by blanks.
    pub(super) fn new(request: &str) -> Self {
        Template { words: request.split_whitespace().map(parts).collect(), word: Vec::new() }
    }

    /// Appends the request of the number `number`.
    pub(super) fn encode(&mut self, number: u64, out: &mut Vec<u8>) {
        // Numbers are scattered, so that consecutive requests do not have neighbouring keys.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
        out.push(b'*');
        push_decimal(self.words.len() as u64, 1, out);
        for word in &self.words {
            self.word.clear();
            for part in word {
                match part {
                    Part::Text(text) => self.word.extend_from_slice(text.as_bytes()),
                    Part::Placeholder(it) => it.push(spread, &mut self.word),
                }
            }
            out.extend_from_slice(b"\r\n$");
            push_decimal(self.word.len() as u64, 1, out);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&self.word);
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Placeholder {
    fn push(self, spread: u64, out: &mut Vec<u8>) {
        match self {
            Placeholder::Number => push_decimal(spread, 10, out),
            Placeholder::Key => push_decimal(spread % KEYS, 1, out),
            Placeholder::Index => push_decimal(spread % ELEMENTS, 9, out),
        }
    }
}

fn parts(word: &str) -> Vec<Part> {
    let first = PLACEHOLDERS
        .iter()
        .filter_map(|(name, it)| word.split_once(name).map(|(before, after)| (before, *it, after)))
        .min_by_key(|(before, ..)| before.len());
    let Some((before, placeholder, after)) = first else {
        return vec![Part::Text(word.to_owned())];
    };
    let mut found = vec![Part::Text(before.to_owned()), Part::Placeholder(placeholder)];
    found.extend(parts(after));
    found
}

/// Appends a number with leading zeros up to `width` digits.
fn push_decimal(number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let (mut rest, mut used) = (number, 0);
    for digit in digits.iter_mut().rev() {
        if rest == 0 && used >= width {
            break;
        }
        *digit += (rest % 10) as u8;
        (rest, used) = (rest / 10, used + 1);
    }
    out.extend(digits.iter().skip(digits.len() - used));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let mut out = Vec::new();
        let mut template = Template::new("SADD set:{key} <{}> {index}/{\"a\":{}} {key}");
        template.encode(0, &mut out);
        let words = ["SADD", "set:0", "<0000000000>", "000000000/{\"a\":0000000000}", "0"];
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(
            out.escape_ascii().to_string(),
            crate::bench::client::request(&words).escape_ascii().to_string()
        );
        out.clear();
        Template::new("{} {key} {index}").encode(1, &mut out);
        let expected = "*3\r\n$10\r\n0663608942\r\n$3\r\n942\r\n$9\r\n000000942\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
