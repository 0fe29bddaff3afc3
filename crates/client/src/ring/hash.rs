//! The key hashes of libmemcached, bit for bit as version 1.1.4 computes them on x86-64.
//!
//! On x86-64 a `char` is signed: four of the hashes extend the sign of bytes above 127, which
//! affects keys in UTF-8.

use std::fmt;
use std::str::FromStr;

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use md5::{Digest, Md5};

static CRC32: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

/// A hash of libmemcached, which maps a key to 32 bits.
///
/// ```
/// use nagi_client::ring::Hash;
/// assert_eq!(Hash::Crc.of(b"key"), 0x0a90);
/// assert_eq!("fnv1a_32".parse(), Ok(Hash::Fnv1a32));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hash {
    /// Jenkins' one-at-a-time.
    #[default]
    OneAtATime,
    /// The first four bytes of MD5, little-endian.
    Md5,
    /// Fifteen bits of CRC-32.
    Crc,
    /// The lower half of 64-bit FNV-1.
    Fnv1_64,
    /// FNV-1a with 64-bit constants, truncated to 32 bits.
    Fnv1a64,
    /// 32-bit FNV-1.
    Fnv1_32,
    /// 32-bit FNV-1a.
    Fnv1a32,
    /// Jenkins' lookup3.
    Jenkins,
    /// MurmurHash2, seeded with the length.
    Murmur,
    /// 32-bit MurmurHash3, seeded with the length.
    Murmur3,
}

impl Hash {
    /// Every hash, in libmemcached's order.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Hash::ALL.len(), 10);
    /// ```
    pub const ALL: [Hash; 10] = [
        Hash::OneAtATime,
        Hash::Md5,
        Hash::Crc,
        Hash::Fnv1_64,
        Hash::Fnv1a64,
        Hash::Fnv1_32,
        Hash::Fnv1a32,
        Hash::Murmur,
        Hash::Jenkins,
        Hash::Murmur3,
    ];

    /// Returns the name of the hash in configurations.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Hash::OneAtATime.name(), "default");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Hash::OneAtATime => "default",
            Hash::Md5 => "md5",
            Hash::Crc => "crc",
            Hash::Fnv1_64 => "fnv1_64",
            Hash::Fnv1a64 => "fnv1a_64",
            Hash::Fnv1_32 => "fnv1_32",
            Hash::Fnv1a32 => "fnv1a_32",
            Hash::Jenkins => "jenkins",
            Hash::Murmur => "murmur",
            Hash::Murmur3 => "murmur3",
        }
    }

    /// Hashes `key`.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Hash::Fnv1a32.of(b""), 0x811c_9dc5);
    /// ```
    #[must_use]
    pub fn of(self, key: &[u8]) -> u32 {
        match self {
            Hash::OneAtATime => one_at_a_time(key),
            Hash::Md5 => little_endian(Md5::digest(key).as_slice()),
            Hash::Crc => (CRC32.checksum(key) >> 16) & 0x7fff,
            Hash::Fnv1_64 => key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
                hash.wrapping_mul(0x0100_0000_01b3) ^ i64::from(byte as i8) as u64
            }) as u32,
            Hash::Fnv1a64 => fnv1a(key, 0x8422_2325, 0x01b3),
            Hash::Fnv1_32 => key.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
                hash.wrapping_mul(0x0100_0193) ^ sign_extended(byte)
            }),
            Hash::Fnv1a32 => fnv1a(key, 0x811c_9dc5, 0x0100_0193),
            Hash::Jenkins => jenkins(key),
            Hash::Murmur => murmur2(key),
            Hash::Murmur3 => murmur3(key, 0xdead_beef_u32.wrapping_mul(key.len() as u32)),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "hsieh" {
            return Err("libmemcached is built without the hash hsieh".to_owned());
        }
        let found = Hash::ALL.into_iter().find(|hash| hash.name() == name);
        found.ok_or_else(|| {
            let names = Hash::ALL.map(Hash::name).join(", ");
            format!("unknown hash {name}; known are {names}")
        })
    }
}

/// The CRC-32 of zlib.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    CRC32.checksum(bytes)
}

fn sign_extended(byte: u8) -> u32 {
    i32::from(byte as i8) as u32
}

/// Reads up to four bytes as a little-endian number.
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, &byte| (word << 8) | u32::from(byte))
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = key.iter().fold(0_u32, |hash, &byte| {
        let hash = hash.wrapping_add(sign_extended(byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

fn fnv1a(key: &[u8], start: u32, prime: u32) -> u32 {
    key.iter().fold(start, |hash, &byte| (hash ^ sign_extended(byte)).wrapping_mul(prime))
}

/// Bob Jenkins' lookup3, `hashlittle`, with libmemcached's initial value.
fn jenkins(key: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(13);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = key;
    loop {
        let (block, after) = rest.split_at(rest.len().min(12));
        let mut words = block.chunks(4).map(little_endian);
        let mut word = || words.next().unwrap_or_default();
        a = a.wrapping_add(word());
        b = b.wrapping_add(word());
        c = c.wrapping_add(word());
        if after.is_empty() {
            break;
        }
        rest = after;
        for turns in [[4, 6, 8], [16, 19, 4]] {
            for turn in turns {
                a = a.wrapping_sub(c) ^ c.rotate_left(turn);
                c = c.wrapping_add(b);
                (a, b, c) = (b, c, a);
            }
        }
    }
    if key.is_empty() {
        return c;
    }
    for turn in [14, 11, 25, 16, 4, 14, 24] {
        c = (c ^ b).wrapping_sub(b.rotate_left(turn));
        (a, b, c) = (b, c, a);
    }
    // After seven rounds, `b` is the word that changed last.
    b
}

fn murmur2(key: &[u8]) -> u32 {
    const FACTOR: u32 = 0x5bd1_e995;
    let len = key.len() as u32;
    let mut hash = 0xdead_beef_u32.wrapping_mul(len) ^ len;
    let (blocks, tail) = key.as_chunks::<4>();
    for block in blocks {
        let mut word = u32::from_le_bytes(*block).wrapping_mul(FACTOR);
        word ^= word >> 24;
        hash = hash.wrapping_mul(FACTOR) ^ word.wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        hash = (hash ^ little_endian(tail)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

/// 32-bit MurmurHash3.
pub(super) fn murmur3(key: &[u8], seed: u32) -> u32 {
    let scrambled =
        |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, tail) = key.as_chunks::<4>();
    let mut hash = blocks.iter().fold(seed, |hash, block| {
        let hash = (hash ^ scrambled(u32::from_le_bytes(*block))).rotate_left(13);
        hash.wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    hash ^= scrambled(little_endian(tail)) ^ key.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
