//! Counting and finding bits. The first bit is the highest bit of the first byte.

use std::ops::Range;

/// Counts the set bits in a range, which must lie within the bytes.
pub(crate) fn count(bytes: &[u8], bits: Range<usize>) -> u64 {
    let (first, last) = (bits.start / 8, bits.end.div_ceil(8));
    let bytes = bytes.get(first..last).unwrap_or_default();
    let before = bytes.first().map_or(0, |byte| u16::from(*byte) >> (8 - bits.start % 8));
    let after = bytes.last().map_or(0, |byte| byte & ((1_u16 << (last * 8 - bits.end)) - 1) as u8);
    let (words, rest) = bytes.as_chunks();
    let in_words = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones()));
    let in_rest = rest.iter().map(|byte| u64::from(byte.count_ones()));
    let all = in_words.sum::<u64>() + in_rest.sum::<u64>();
    all - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// Finds the first set or clear bit in a range, which must lie within the bytes.
pub(crate) fn find(bytes: &[u8], bits: Range<usize>, set: bool) -> Option<usize> {
    /// The number of bytes compared at once.
    const STRIDE: usize = 64;
    let skipped = if set { 0 } else { 0xff };
    let is_skipped = |stride: &[u8]| stride.iter().fold(0, |all, byte| all | (byte ^ skipped)) == 0;
    let (first, last) = (bits.start / 8, bits.end.div_ceil(8));
    let bytes = bytes.get(first..last)?;
    // Bits of the first byte before the range do not count.
    let head = bytes.first().map(|byte| (byte ^ skipped) & 0xff >> (bits.start % 8))?;
    let place = if head != 0 {
        first * 8 + head.leading_zeros() as usize
    } else {
        let rest = bytes.get(1..)?;
        let strides = rest.chunks(STRIDE).take_while(|stride| is_skipped(stride)).count();
        let at = strides * STRIDE;
        let within = rest.get(at..)?.iter().position(|byte| *byte != skipped)?;
        let byte = rest.get(at + within)? ^ skipped;
        (first + 1 + at + within) * 8 + byte.leading_zeros() as usize
    };
    (place < bits.end).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit(bytes: &[u8], at: usize) -> bool {
        bytes[at / 8] >> (7 - at % 8) & 1 == 1
    }

    proptest! {
        #[test]
        fn counting_and_finding_equal_a_loop_over_bits(
            bytes in proptest::collection::vec(
                prop_oneof![4 => Just(0_u8), 4 => Just(255), 1 => any::<u8>()], 1..200,
            ),
            one in 0..1600_usize,
            other in 0..1600_usize,
            set: bool,
        ) {
            let end = bytes.len() * 8;
            let range = one.min(other).min(end)..one.max(other).min(end);
            let expected = range.clone().filter(|at| bit(&bytes, *at)).count();
            if !range.is_empty() {
                prop_assert_eq!(count(&bytes, range.clone()), expected as u64);
                let expected = range.clone().find(|at| bit(&bytes, *at) == set);
                prop_assert_eq!(find(&bytes, range, set), expected);
            }
        }
    }
}
