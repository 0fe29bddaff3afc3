//! Networks in settings: addresses, with an optional prefix length, as in `10.0.0.0/8 ::1`.

use super::kinds::Fault;
use std::net::IpAddr;

/// The addresses that share a prefix of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// The number of host bits, which may have any value.
    free_bits: u32,
}

impl Network {
    fn parse(word: &str) -> Option<Self> {
        let (address, length) = match word.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (word, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => bits,
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().ok()?
            }
            Some(_) => return None,
        };
        Some(Network { address, free_bits: u32::checked_sub(bits, length)? })
    }

    fn has(self, address: IpAddr) -> bool {
        let begin_alike =
            |one: u128, other: u128| (one ^ other).checked_shr(self.free_bits).unwrap_or(0) == 0;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                begin_alike(u32::from(one).into(), u32::from(other).into())
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => begin_alike(one.into(), other.into()),
            _ => false,
        }
    }
}

/// Checks that each word is a network.
pub(crate) fn check(given: &str) -> Result<String, Fault> {
    let mut words = Vec::new();
    for word in given.split_whitespace() {
        if Network::parse(word).is_none() {
            let fault = format!("{word} is no address and no network such as 10.0.0.0/8");
            return Err(fault.into());
        }
        words.push(word);
    }
    Ok(words.join(" "))
}

/// Whether one of these networks contains an address. Invalid networks contain none.
#[must_use]
pub fn has_address(networks: &str, address: IpAddr) -> bool {
    let mut networks = networks.split_whitespace().filter_map(Network::parse);
    networks.any(|network| network.has(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_addresses_that_begin_as_they_do() {
        for (networks, address, expected) in [
            ("", "127.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("192.0.2.128/25", "192.0.2.127", false),
            ("192.0.2.128/25", "192.0.2.255", true),
            ("0.0.0.0/0", "198.51.100.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1 10.0.0.0/8", "::1", true),
            ("nonsense 10.0.0.0/8", "10.0.0.1", true),
        ] {
            assert_eq!(has_address(networks, address.parse().unwrap()), expected, "{networks}");
        }
    }

    #[test]
    fn malformed_networks_are_refused() {
        assert_eq!(check(" ::1   10.0.0.0/8 ").unwrap(), "::1 10.0.0.0/8");
        assert_eq!(check("").unwrap(), "");
        for wrong in [
            "localhost",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10/8",
        ] {
            assert!(check(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
