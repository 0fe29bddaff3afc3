//! SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) for contiguous
//! bytes.
//!
//! Every request hashes a key. A general hasher, which accepts its input in pieces, spends a
//! quarter of its instructions on that.

/// The initial state for a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SipHash13([u64; 4]);

impl SipHash13 {
    pub(crate) fn new(first: u64, second: u64) -> Self {
        // The letters of "somepseudorandomlygeneratedbytes".
        SipHash13([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let SipHash13(mut state) = *self;
        let (words, _) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut state, u64::from_le_bytes(*word));
        }
        absorb(&mut state, (bytes.len() as u64) << 56 | tail(bytes));
        state[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut state);
        }
        let [a, b, c, d] = state;
        a ^ b ^ c ^ d
    }
}

/// Returns the bytes after the last whole word, as a number.
#[inline]
fn tail(bytes: &[u8]) -> u64 {
    let len = bytes.len() % 8;
    match bytes.last_chunk::<8>() {
        _ if len == 0 => 0,
        // Reads some bytes of the last whole word again, and drops them.
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * len),
        None => bytes.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte)),
    }
}

#[inline]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline]
fn round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32).wrapping_add(d);
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    proptest! {
        #[test]
        fn siphash_equals_another_implementation(
            first: u64,
            second: u64,
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let expected = SipHasher13::new_with_keys(first, second).hash(&bytes);
            prop_assert_eq!(SipHash13::new(first, second).hash(&bytes), expected);
        }
    }
}
