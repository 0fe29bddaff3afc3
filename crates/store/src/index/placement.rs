//! The location of a hash: its shard, its position there, and the fingerprint stored beside its
//! entry's pointer.
//!
//! Everything is in hash order: shards own consecutive ranges of hashes, a position is the hash's
//! offset within its shard's range, and directories and buckets divide positions in order. So a
//! cursor is a plain number that stays valid across splits and merges.
//!
//! The widths of ranges differ by up to a factor of two, in steps of 2^(1/n). With equal ranges and
//! a uniform hash, all hash tables would become full, and split, at about the same time.

/// The number of bits of a position.
pub(crate) const POSITION_BITS: u32 = 40;

/// The number of leading bits of a hash that index the first guess of its shard.
const GUESS_BITS: u32 = 12;

/// Maps hashes to shards and positions.
#[derive(Debug)]
pub(crate) struct Placement {
    /// By the hash's leading bits: the first shard that may contain such a hash.
    guesses: Box<[u16]>,
    ranges: Box<[Range]>,
}

/// The hashes of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The first hash of the shard.
    start: u64,
    /// 2^(64 + [`POSITION_BITS`]) divided by the width of the range.
    scale: u64,
}

impl Placement {
    pub(crate) fn new(shards: usize) -> Self {
        assert!(shards.is_power_of_two() && shards <= 8192, "a power of two up to 8192: {shards}");
        let ranges: Box<[Range]> = (0..shards).map(|shard| Range::new(shard, shards)).collect();
        let guesses = (0..1_u64 << GUESS_BITS)
            .map(|head| {
                let hash = head << (64 - GUESS_BITS);
                let shard = ranges.partition_point(|range| range.start <= hash) - 1;
                u16::try_from(shard).unwrap_or(u16::MAX)
            })
            .collect();
        Placement { guesses, ranges }
    }

    /// Returns the shard of a hash.
    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> usize {
        let head = (hash >> (64 - GUESS_BITS)) as usize;
        let mut shard = usize::from(self.guesses.get(head).copied().unwrap_or_default());
        while self.ranges.get(shard + 1).is_some_and(|next| next.start <= hash) {
            shard += 1;
        }
        shard
    }

    /// Returns the ranges of all shards, in order.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }
}

impl Range {
    /// Returns the position of a hash within its shard, below 2^[`POSITION_BITS`].
    #[inline]
    pub(crate) fn position(&self, hash: u64) -> u64 {
        let offset = hash.wrapping_sub(self.start);
        ((u128::from(offset) * u128::from(self.scale)) >> 64) as u64
    }

    /// Returns the number of entries in all shards together, if each had the density of this range
    /// with `entries` entries.
    pub(crate) fn density(&self, entries: usize) -> u64 {
        let density = (entries as u128 * u128::from(self.scale)) >> POSITION_BITS;
        u64::try_from(density).unwrap_or(u64::MAX)
    }

    fn new(shard: usize, shards: usize) -> Self {
        let (start, end) = (boundary(shard, shards), boundary(shard + 1, shards));
        let scale = (1_u128 << (64 + POSITION_BITS)) / (end - start);
        Range { start: start as u64, scale: u64::try_from(scale).unwrap_or(u64::MAX) }
    }
}

/// Returns the first hash of a shard: 2^64 * (2^(shard / shards) - 1), to the precision of a
/// double.
fn boundary(shard: usize, shards: usize) -> u128 {
    if shard == shards {
        return 1 << 64;
    }
    let fraction = (shard as f64 / shards as f64).exp2() - 1.0;
    (fraction * 2_f64.powi(64)) as u128
}

/// Returns the part of a hash that is stored beside the entry's pointer. Positions do not use these
/// bits.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u16 {
    hash as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_shard_begins_at_position_zero_and_ends_just_below_the_limit() {
        for shards in [1, 2, 256, 1024] {
            let placement = Placement::new(shards);
            for shard in 0..shards {
                let first = boundary(shard, shards) as u64;
                let last = (boundary(shard + 1, shards) - 1) as u64;
                for (hash, positions) in [(first, 0..1), (last, (1 << 40) - 2..1 << 40)] {
                    assert_eq!(placement.shard(hash), shard);
                    assert!(positions.contains(&placement.ranges()[shard].position(hash)));
                }
            }
        }
    }

    #[test]
    fn the_widest_shard_is_twice_the_narrowest() {
        let width = |shard| (boundary(shard + 1, 256) - boundary(shard, 256)) as f64;
        let ratio = width(255) / width(0);
        assert!((1.98..2.0).contains(&ratio), "{ratio}");
    }

    proptest! {
        #[test]
        fn positions_keep_the_order_of_hashes(a: u64, b: u64) {
            let placement = Placement::new(256);
            let at = |hash| {
                let shard = placement.shard(hash);
                (shard, placement.ranges()[shard].position(hash))
            };
            prop_assert!(at(a.min(b)) <= at(a.max(b)));
        }
    }
}
