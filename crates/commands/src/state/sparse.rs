//! Shrinking sparse tables: their unused capacity is not charged to any entry, and would count as
//! data.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Minimum capacity that is kept.
const KEPT: usize = 8;

/// Shrinks a table that has become sparse. The cost is amortized: growing and shrinking again take
/// at least as many changes as entries are moved.
pub(crate) fn shrink<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    if table.capacity() > KEPT && table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_empties_gives_its_room_back() {
        let mut table: HashMap<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        for key in 0..10_000 {
            table.remove(&key);
            shrink(&mut table);
            assert!(table.capacity() <= 10_000 * 2 && table.len() == 9_999 - key as usize);
        }
        assert!(table.capacity() <= KEPT, "{}", table.capacity());
    }
}
