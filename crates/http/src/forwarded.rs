//! The client's address of a request forwarded by trusted proxies.
//!
//! Each proxy appends the address of its peer, so that only the end of the list can be trusted: the
//! client is the last address that is not a trusted proxy's itself.

use crate::site::Site;
use hyper::header::{FORWARDED, HeaderMap, HeaderName, VIA};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of a client whose proxy does not report it.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Two headers have different clients: one of them comes from the client itself and was not removed
/// by the proxy, and it is unknown which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

/// Whether a proxy has forwarded the request.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    let mut names = headers.keys();
    names.any(|it| it == FORWARDED || it == VIA || it.as_str().starts_with("x-forwarded-"))
}

/// The address of the client of a request from `peer`. For a forwarded request, the port is 0, and
/// the address is 0.0.0.0 if the proxy does not report it.
///
/// # Errors
/// The headers contradict each other.
pub(crate) fn client(
    site: &dyn Site,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<SocketAddr, Contradiction> {
    if !site.is_trusted_proxy(peer.ip()) || !is_forwarded(headers) {
        return Ok(peer);
    }
    let by_standard = farthest(site, headers, FORWARDED, forwarded_for);
    let by_custom = farthest(site, headers, X_FORWARDED_FOR, address_of);
    match (by_standard, by_custom) {
        (Some(one), Some(other)) if one != other => Err(Contradiction),
        (Some(client), _) | (None, Some(client)) => Ok(client),
        (None, None) => Ok(UNKNOWN),
    }
}

/// The client according to one header, whose elements `address` parses; `None` if there is no such
/// header.
fn farthest(
    site: &dyn Site,
    headers: &HeaderMap,
    name: HeaderName,
    address: fn(&str) -> Option<IpAddr>,
) -> Option<SocketAddr> {
    let mut farthest = None;
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    for line in lines.into_iter().rev() {
        let Ok(line) = line.to_str() else { return Some(UNKNOWN) };
        let mut hops: Vec<&str> = split(line, ',').map(str::trim).collect();
        hops.retain(|hop| !hop.is_empty());
        for hop in hops.into_iter().rev() {
            let Some(address) = address(hop) else { return Some(UNKNOWN) };
            let client = SocketAddr::new(address, 0);
            if !site.is_trusted_proxy(address) {
                return Some(client);
            }
            farthest = Some(client);
        }
    }
    farthest
}

/// The address in an element of Forwarded (RFC 7239), as in `for="[2001:db8::1]:4711";proto=https`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = split(element, ';').filter_map(|pair| pair.split_once('='));
    let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let node = node.trim();
    let quoted = node.strip_prefix('"').and_then(|node| node.strip_suffix('"'));
    address_of(quoted.unwrap_or(node))
}

/// An address with an optional port. Other identifiers are unknown.
fn address_of(node: &str) -> Option<IpAddr> {
    if let Some(rest) = node.strip_prefix('[') {
        let (address, _) = rest.split_once(']')?;
        return address.parse::<Ipv6Addr>().ok().map(|it| IpAddr::V6(it).to_canonical());
    }
    let with_port = || node.split_once(':')?.0.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    let address = node.parse::<IpAddr>().ok().or_else(with_port)?;
    Some(address.to_canonical())
}

/// The parts of a text between separators that are not in quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter| {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match letter {
            _ if was_escaped => false,
            '\\' => {
                is_escaped = is_quoted;
                false
            }
            '"' => {
                is_quoted = !is_quoted;
                false
            }
            letter => letter == separator && !is_quoted,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_from_elements() {
        for (element, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", Some("192.0.2.60")),
            ("proto=https; For=\"192.0.2.60:47011\"", Some("192.0.2.60")),
            ("for=\"[2001:db8:cafe::17]:4711\"", Some("2001:db8:cafe::17")),
            ("for=\"[::ffff:192.0.2.1]\"", Some("192.0.2.1")),
            ("host=\"a;for=192.0.2.1\";for=192.0.2.2", Some("192.0.2.2")),
            ("host=\"\\\";for=192.0.2.1\";for=192.0.2.2", Some("192.0.2.2")),
            ("for=unknown", None),
            ("for=_hidden", None),
            ("for=\"[2001:db8::1\"", None),
            ("for=", None),
            ("proto=http", None),
            ("nonsense", None),
        ] {
            let expected = expected.map(|it| it.parse::<IpAddr>().unwrap());
            assert_eq!(forwarded_for(element), expected, "{element}");
        }
        for (node, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1:80", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("host.example", None),
            ("192.0.2.1:80:81:x", Some("192.0.2.1")),
            ("300.0.0.1", None),
        ] {
            let expected = expected.map(|it| it.parse::<IpAddr>().unwrap());
            assert_eq!(address_of(node), expected, "{node}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_split_at_each_separator_out_of_quotes(text in "[a,;=\"\\\\: ]{0,40}") {
            let parts: Vec<&str> = split(&text, ',').collect();
            prop_assert_eq!(parts.join(","), text.clone());
            let _ = forwarded_for(&text);
            let _ = address_of(&text);
        }
    }
}
