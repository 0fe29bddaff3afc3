//! The contents of values, and the verification of values that were read.
//!
//! With --verify, a value begins with a head of 32 letters in base 64: a hash of its key (11), the
//! sequence number of its write (10), and a checksum of the hash, the number and the rest of the
//! value (11). The rest is a copy of random letters whose start differs between writes, so that a
//! mixture of two values does not match its checksum. A value shorter than 32 letters contains only
//! the beginning of the head, of which only the hash of the key can be checked.

use fastrand::Rng;

use super::sizes::Sizes;

/// Numbers of base-64 digits: of the hash and of the checksum, and of the write's sequence number.
const HASH_DIGITS: usize = 11;
const NUMBER_DIGITS: usize = 10;
const HEAD_BYTES: usize = 2 * HASH_DIGITS + NUMBER_DIGITS;

/// The number of positions in the random letters at which the rest of a value can start.
const PLACES: usize = 4096;

const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Generates and checks values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// Random letters, enough for the longest value.
    letters: Vec<u8>,
    sizes: Sizes,
    /// Whether values can be verified.
    are_verified: bool,
}

/// The result of checking a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The value belongs to the requested key and to the write with this sequence number. `None` if
    /// the value is too short to contain the number.
    Written(Option<u64>),
    /// The value is intact, but belongs to another key.
    OfAnotherKey,
    /// The value was never written.
    Damaged,
}

impl Values {
    /// Creates a generator for values of up to `largest` bytes, or of the largest of `sizes` if
    /// that is more.
    pub(crate) fn new(sizes: Sizes, largest: usize, seed: u64, are_verified: bool) -> Self {
        let largest = largest.max(sizes.largest());
        let spare = if are_verified { PLACES } else { 0 };
        Values { letters: letters(largest + spare, seed), sizes, are_verified }
    }

    pub(crate) fn draw_size(&self, random: &mut Rng) -> usize {
        self.sizes.draw(random)
    }

    /// Appends a value of `bytes` bytes for `key`, written by the write with number `sequence`.
    pub(crate) fn append(&self, key: &[u8], sequence: u64, bytes: usize, out: &mut Vec<u8>) {
        if !self.are_verified {
            out.extend_from_slice(self.letters.get(..bytes).unwrap_or(&self.letters));
            return;
        }
        let start = out.len();
        let hash = hash_of(key);
        let mut head = [0; HEAD_BYTES];
        let (left, check) = head.split_at_mut(HASH_DIGITS + NUMBER_DIGITS);
        let (left, number) = left.split_at_mut(HASH_DIGITS);
        write_digits(hash, left);
        write_digits(sequence, number);
        let place = mixed(hash ^ sequence) as usize % PLACES;
        let rest = bytes.saturating_sub(HEAD_BYTES);
        let rest = self.letters.get(place..place + rest).unwrap_or(&self.letters);
        write_digits(checksum(left, number, rest), check);
        out.extend_from_slice(&head);
        out.extend_from_slice(rest);
        out.truncate(start + bytes);
    }

    /// Checks `value`, which was the answer to a read of `key`.
    pub(crate) fn read(key: &[u8], value: &[u8]) -> Reading {
        let mut hash = [0; HASH_DIGITS];
        write_digits(hash_of(key), &mut hash);
        let Some((head, rest)) = value.split_at_checked(HEAD_BYTES) else {
            let known = value.len().min(HASH_DIGITS);
            let is_its_own = value.get(..known) == hash.get(..known);
            return if is_its_own { Reading::Written(None) } else { Reading::Damaged };
        };
        let (left, check) = head.split_at(HASH_DIGITS + NUMBER_DIGITS);
        let (left, number) = left.split_at(HASH_DIGITS);
        if read_digits(check) != Some(checksum(left, number, rest)) {
            Reading::Damaged
        } else if left == hash {
            Reading::Written(read_digits(number))
        } else {
            Reading::OfAnotherKey
        }
    }
}

/// Hashes a key. Keys of equal length that differ in one byte have different hashes.
pub(crate) fn hash_of(key: &[u8]) -> u64 {
    digest(0, key)
}

fn checksum(hash: &[u8], number: &[u8], rest: &[u8]) -> u64 {
    digest(digest(digest(1, hash), number), rest)
}

/// Hashes eight bytes at a time. The hash depends on each byte, on its position and on the length.
fn digest(start: u64, bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(start ^ bytes.len() as u64, |hash, word| {
        mixed(hash.rotate_left(5) ^ u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    mixed(hash.rotate_left(5) ^ u64::from_le_bytes(last))
}

/// The finalizer of murmur3 (Appleby), after which every bit depends on every other.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Writes a number in base 64, six bits per letter, the lowest six bits at the end.
fn write_digits(number: u64, digits: &mut [u8]) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = LETTERS.get(rest as usize % 64).copied().unwrap_or(b'0');
        rest /= 64;
    }
}

fn read_digits(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        let six = LETTERS.iter().position(|letter| letter == digit)? as u64;
        number.checked_mul(64)?.checked_add(six)
    })
}

/// Returns random letters, which do not compress well.
pub(crate) fn letters(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed ^ 0x7661_6c75_6500);
    (0..len).map(|_| LETTERS.get(random.usize(..64)).copied().unwrap_or(b'x')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &[u8], sequence: u64, bytes: usize) -> Vec<u8> {
        let mut value = Vec::new();
        Values::new(Sizes::Fixed(300), 300, 1, true).append(key, sequence, bytes, &mut value);
        assert_eq!(value.len(), bytes);
        value
    }

    #[test]
    fn a_value_is_identified_by_its_key_and_write() {
        for bytes in [32, 33, 40, 300] {
            for sequence in [0, 1, (1 << 60) - 1] {
                let value = value(b"key:1", sequence, bytes);
                assert_eq!(Values::read(b"key:1", &value), Reading::Written(Some(sequence)));
                assert_eq!(Values::read(b"key:2", &value), Reading::OfAnotherKey);
                assert!(value.iter().all(u8::is_ascii_graphic), "a value that can be read");
            }
        }
    }

    #[test]
    fn any_change_is_seen() {
        let whole = value(b"key:1", 77, 100);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] = if damaged[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(Values::read(b"key:1", &damaged), Reading::Damaged, "byte {at}");
        }
        assert_eq!(Values::read(b"key:1", &whole[..99]), Reading::Damaged, "cut short");
        let longer = [whole.as_slice(), b"x"].concat();
        assert_eq!(Values::read(b"key:1", &longer), Reading::Damaged, "too long");
        let other = value(b"key:1", 78, 100);
        let spliced = [&whole[..60], &other[60..]].concat();
        assert_eq!(Values::read(b"key:1", &spliced), Reading::Damaged, "parts of two");
        assert_eq!(Values::read(b"key:1", b""), Reading::Written(None), "no room for anything");
    }

    #[test]
    fn short_values_are_identified_by_their_key() {
        for bytes in [4, 11, 12, 31] {
            let value = value(b"key:1", 77, bytes);
            assert_eq!(Values::read(b"key:1", &value), Reading::Written(None), "{bytes}");
            assert_eq!(Values::read(b"key:2", &value), Reading::Damaged, "{bytes}");
        }
    }

    #[test]
    fn values_are_random_letters_if_nothing_is_verified() {
        let mut out = Vec::new();
        Values::new(Sizes::Fixed(10), 10, 1, false).append(b"k", 0, 10, &mut out);
        assert_eq!(out, letters(10, 1));
    }
}
