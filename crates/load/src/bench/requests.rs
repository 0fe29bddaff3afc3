//! Requests by template: a request is a copy of bytes prepared once, with the digits of its key
//! written over.

use nagi_client::Protocol;

use fastrand::Rng;

/// memcached's longest key, in bytes.
const MEMCACHED_KEY_BYTES: usize = 250;

/// What every request of a run has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) protocol: Protocol,
    pub(crate) keys: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

/// Encodes the requests of one run.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    get: Template,
    set: Template,
}

#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    /// Where the last digit of the key ends.
    key_end: usize,
}

impl Requests {
    /// # Errors
    /// The keys cannot be told apart in so few bytes, or are longer than the protocol allows.
    pub(crate) fn new(shape: &Shape) -> Result<Self, String> {
        let digits =
            shape.keys.saturating_sub(1).checked_ilog10().map_or(1, |log| log as usize + 1);
        let Shape { keys, key_bytes, .. } = *shape;
        if digits > key_bytes {
            return Err(format!("{keys} keys do not fit into keys of {key_bytes} bytes"));
        }
        if shape.protocol == Protocol::Memcached && key_bytes > MEMCACHED_KEY_BYTES {
            return Err(format!("memcached's keys have at most {MEMCACHED_KEY_BYTES} bytes"));
        }
        let mut key = vec![b'0'; key_bytes];
        if key_bytes - digits >= 4 {
            key.splice(..4, *b"key:");
        }
        let value = value(shape.value_bytes, shape.seed);
        Ok(match shape.protocol {
            Protocol::Resp => Requests {
                get: Template::new(format!("*2\r\n$3\r\nGET\r\n${key_bytes}\r\n"), &key, b"\r\n"),
                set: Template::new(
                    format!("*3\r\n$3\r\nSET\r\n${key_bytes}\r\n"),
                    &key,
                    &[format!("\r\n${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat(),
                ),
            },
            Protocol::Memcached => Requests {
                get: Template::new("get ".to_owned(), &key, b"\r\n"),
                set: Template::new(
                    "set ".to_owned(),
                    &key,
                    &[format!(" 0 0 {}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat(),
                ),
            },
        })
    }

    /// Appends a request for the value of key number `key`.
    pub(crate) fn get(&self, key: u64, out: &mut Vec<u8>) {
        self.get.append(key, out);
    }

    /// Appends a request that stores key number `key`.
    pub(crate) fn set(&self, key: u64, out: &mut Vec<u8>) {
        self.set.append(key, out);
    }

    /// Bytes of the longer request.
    pub(crate) fn longest(&self) -> usize {
        self.set.bytes.len()
    }
}

impl Template {
    fn new(head: String, key: &[u8], tail: &[u8]) -> Self {
        let key_end = head.len() + key.len();
        Template { bytes: [head.as_bytes(), key, tail].concat(), key_end }
    }

    fn append(&self, key: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.key_end;
        out.extend_from_slice(&self.bytes);
        let mut rest = key;
        for digit in out.get_mut(..end).unwrap_or_default().iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
    }
}

/// Letters that do not compress to nothing.
fn value(len: usize, seed: u64) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    let mut random = Rng::with_seed(seed ^ 0x7661_6c75_6500);
    (0..len).map(|_| LETTERS.get(random.usize(..64)).copied().unwrap_or(b'x')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(protocol: Protocol, keys: u64, key_bytes: usize) -> String {
        let shape = Shape { protocol, keys, key_bytes, value_bytes: 3, seed: 1 };
        let requests = Requests::new(&shape).unwrap();
        let mut out = Vec::new();
        requests.get(0, &mut out);
        requests.get(keys - 1, &mut out);
        requests.set(keys / 2, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn resp_requests_are_encoded_with_their_keys() {
        let value = String::from_utf8(value(3, 1)).unwrap();
        assert_eq!(
            encode(Protocol::Resp, 1000, 8),
            format!(
                "*2\r\n$3\r\nGET\r\n$8\r\nkey:0000\r\n*2\r\n$3\r\nGET\r\n$8\r\nkey:0999\r\n\
                 *3\r\n$3\r\nSET\r\n$8\r\nkey:0500\r\n$3\r\n{value}\r\n"
            )
        );
    }

    #[test]
    fn memcached_requests_are_encoded_with_their_keys() {
        let value = String::from_utf8(value(3, 1)).unwrap();
        assert_eq!(
            encode(Protocol::Memcached, 1000, 6),
            format!("get 000000\r\nget 000999\r\nset 000500 0 0 3\r\n{value}\r\n")
        );
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        let shape =
            Shape { protocol: Protocol::Resp, keys: 1001, key_bytes: 3, value_bytes: 3, seed: 1 };
        assert!(Requests::new(&shape).unwrap_err().contains("1001 keys"));
        let long = Shape { protocol: Protocol::Memcached, key_bytes: 251, ..shape };
        assert!(Requests::new(&long).unwrap_err().contains("250"));
    }
}
