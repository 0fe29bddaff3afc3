//! Strings at the limit of 512 MB. A batch creates such a string, reads it and removes it again, so
//! that no other command encounters it.

use harness::Random;

/// Commands that create such a string.
const MAKING: [&[&str]; 4] = [
    &["SETRANGE", "giant", "536870911", "x"],
    &["SETBIT", "giant", "4294967295", "1"],
    &["BITFIELD", "giant", "SET", "u1", "4294967295", "1"],
    &["BITFIELD", "giant", "SET", "i64", "#67108863", "-2"],
];

/// Commands that read the string and have short replies.
const ASKING: [&[&str]; 29] = [
    &["SETRANGE", "giant", "536870912", "x"],
    &["SETRANGE", "giant", "536870912", ""],
    &["SETRANGE", "giant", "536870911", "xy"],
    &["SETRANGE", "giant", "536870909", "xyz"],
    &["SETRANGE", "giant", "-1", "x"],
    &["SETRANGE", "giant", "268435456", "middle"],
    &["SETBIT", "giant", "4294967296", "1"],
    &["SETBIT", "giant", "4294967295", "0"],
    &["SETBIT", "giant", "2147483648", "1"],
    &["GETBIT", "giant", "4294967295"],
    &["GETBIT", "giant", "4294967296"],
    &["BITFIELD", "giant", "SET", "u8", "4294967288", "255"],
    &["BITFIELD", "giant", "SET", "u8", "4294967289", "255"],
    &["BITFIELD", "giant", "GET", "u63", "4294967290"],
    &["BITFIELD", "giant", "INCRBY", "i64", "#67108863", "-1"],
    &["BITFIELD", "giant", "INCRBY", "i64", "#67108864", "1"],
    &["BITFIELD_RO", "giant", "GET", "i64", "#67108864"],
    &["APPEND", "giant", "x"],
    &["APPEND", "giant", ""],
    &["STRLEN", "giant"],
    &["GETRANGE", "giant", "-3", "-1"],
    &["GETRANGE", "giant", "536870909", "9223372036854775807"],
    &["SUBSTR", "giant", "536870912", "-1"],
    &["BITCOUNT", "giant", "-9", "-1"],
    &["BITCOUNT", "giant"],
    &["BITPOS", "giant", "1", "268435456"],
    &["BITPOS", "giant", "1", "-8", "-1", "BIT"],
    &["OBJECT", "ENCODING", "giant"],
    &["INCR", "giant"],
];

/// Returns the commands of a batch.
pub(super) fn batch(random: &mut Random, length: u64) -> Vec<Vec<Vec<u8>>> {
    let making = random.choose(&MAKING);
    let asking = (2..length).map(|_| random.choose(&ASKING));
    let all = std::iter::once(making).chain(asking).chain([&["DEL", "giant"][..]]);
    all.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect()).collect()
}
