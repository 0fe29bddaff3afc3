//! Compares how two client configurations place keys on servers.

use nagi_client::Address;
use nagi_client::ring::{ClientConfiguration, Server, place_differently};
use nagi_findings::observation::Placement;
use nagi_load::target::Target;

/// The number of keys that are compared: enough to show a difference that affects one of a hundred
/// servers.
const KEYS: u64 = 10_000;

/// Compares two client configurations, each over its own servers or, if it names none, over the
/// servers of the URLs.
///
/// # Errors
/// A configuration has no servers; the error is one line.
pub(crate) fn compare(
    one: &ClientConfiguration,
    other: &ClientConfiguration,
    targets: &[Target],
) -> Result<Placement, String> {
    let usual = targets.iter().map(|target| server_of(&target.address));
    let usual: Vec<Server> = usual.collect::<Result<_, _>>()?;
    let (first, second) = (one.ring(&usual), other.ring(&usual));
    let differs =
        |number: &u64| place_differently(&first, &second, format!("key:{number}").as_bytes());
    Ok(Placement {
        one: one.to_string(),
        other: other.to_string(),
        keys: KEYS,
        different: (0..KEYS).filter(differs).count() as u64,
    })
}

/// Converts an address to the server's name as clients use it, because rings hash the name.
fn server_of(address: &Address) -> Result<Server, String> {
    match address {
        Address::Tcp { name, .. } => name.parse(),
        Address::Unix(path) => path.to_string_lossy().parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_two_configurations_place_differently_are_counted() {
        let targets = ["memcached://127.0.0.1:1", "memcached://127.0.0.1:2"];
        let targets = targets.map(|url| Target::parse(url, None).unwrap());
        let different = |one: &str, other: &str| {
            compare(&one.parse().unwrap(), &other.parse().unwrap(), &targets).unwrap().different
        };
        assert_eq!(different("php-ketama", "pylibmc,weighted"), 0);
        assert_eq!(different("php", "php@127.0.0.1:1,127.0.0.1:2"), 0);
        let half = different("php", "php@127.0.0.1:2,127.0.0.1:1");
        assert_eq!(half, 10_000);
        assert!((2000..8000).contains(&different("php", "php-ketama")));
    }
}
