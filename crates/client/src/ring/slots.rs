//! The slots of Redis Cluster, which are distributed over its servers.

use crc::{CRC_16_XMODEM, Crc, Table};

static CRC16: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// The number of slots in a cluster.
///
/// ```
/// assert_eq!(nagi_client::ring::SLOTS, 16384);
/// ```
pub const SLOTS: u16 = 16384;

/// Returns the slot of a key. If the key contains a non-empty text between the first `{` and the
/// next `}`, only this hash tag is hashed, so that keys with the same tag are on one server.
///
/// ```
/// use nagi_client::ring::slot_of;
/// assert_eq!(slot_of(b"123456789"), 0x31c3);
/// assert_eq!(slot_of(b"{user:1}:name"), slot_of(b"{user:1}:mail"));
/// ```
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    CRC16.checksum(hash_tag(key).unwrap_or(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = key.get(open + 1..)?;
    let close = rest.iter().position(|&byte| byte == b'}')?;
    rest.get(..close).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_tags_follow_the_cluster_specification() {
        for (key, tag) in [
            ("{user1000}.following", Some("user1000")),
            ("foo{}{bar}", None),
            ("foo{{bar}}zap", Some("{bar")),
            ("foo{bar}{zap}", Some("bar")),
            ("}{", None),
            ("plain", None),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.map(str::as_bytes), "{key}");
        }
    }
}
