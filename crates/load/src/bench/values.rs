//! What values hold, and whether one that was read is that of its key.

use fastrand::Rng;

use super::sizes::Sizes;

/// Digits of the checksum at the start of a value.
const CHECKSUM_BYTES: usize = 16;

/// Makes values, and knows them again.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// The longest value.
    letters: Vec<u8>,
    sizes: Sizes,
    /// Whether a value begins with the checksum of its key.
    are_verified: bool,
}

impl Values {
    /// Values up to `largest` bytes, of `sizes` where nothing else is asked for.
    pub(crate) fn new(sizes: Sizes, largest: usize, seed: u64, are_verified: bool) -> Self {
        let largest = largest.max(sizes.largest());
        Values { letters: letters(largest, seed), sizes, are_verified }
    }

    pub(crate) fn draw_size(&self, random: &mut Rng) -> usize {
        self.sizes.draw(random)
    }

    /// Appends a value of so many bytes for `key`.
    pub(crate) fn append(&self, key: &[u8], bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.letters.get(..bytes).unwrap_or(&self.letters));
        if self.are_verified {
            let digits = checksum(key);
            for (to, from) in out.get_mut(start..).unwrap_or_default().iter_mut().zip(digits) {
                *to = from;
            }
        }
    }

    /// Whether `value` is one that was made for `key`, whatever its length.
    pub(crate) fn is_of(&self, key: &[u8], value: &[u8]) -> bool {
        if !self.are_verified {
            return true;
        }
        let split = value.len().min(CHECKSUM_BYTES);
        let (head, tail) = value.split_at(split);
        let digits = checksum(key);
        digits.get(..split) == Some(head) && self.letters.get(split..value.len()) == Some(tail)
    }
}

/// FNV-1a over the key, finished by murmur3's mixer so that keys that differ in their last
/// byte differ in every digit, in hexadecimal.
fn checksum(key: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    let mut digits = [0; CHECKSUM_BYTES];
    for (index, digit) in digits.iter_mut().enumerate() {
        let four = (hash >> (60 - 4 * index)) as u8 & 15;
        *digit = if four < 10 { b'0' + four } else { b'a' + four - 10 };
    }
    digits
}

/// Letters that do not compress to nothing.
pub(crate) fn letters(len: usize, seed: u64) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    let mut random = Rng::with_seed(seed ^ 0x7661_6c75_6500);
    (0..len).map(|_| LETTERS.get(random.usize(..64)).copied().unwrap_or(b'x')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_key_and_no_other() {
        let values = Values::new(Sizes::Fixed(100), 100, 1, true);
        for bytes in [8, 16, 17, 100] {
            let mut value = Vec::new();
            values.append(b"key:1", bytes, &mut value);
            assert_eq!(value.len(), bytes);
            assert!(values.is_of(b"key:1", &value));
            assert!(!values.is_of(b"key:2", &value), "{bytes}");
            *value.last_mut().unwrap() ^= 1;
            assert!(!values.is_of(b"key:1", &value), "{bytes}: a damaged byte");
        }
        assert!(!values.is_of(b"key:1", &[b'x'; 200]), "longer than any value");
    }
}
