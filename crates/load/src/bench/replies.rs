//! Extracts the values of a reply, for checks beyond hit or miss.

use super::protocol::Protocol;
use nagi_proto::split_line;

/// Calls `found` with each value of the reply, and with `None` for a missing value, which memcached
/// does not report. Replies over HTTP are not parsed.
pub(crate) fn each_value(protocol: Protocol, reply: &[u8], mut found: impl FnMut(Option<&[u8]>)) {
    match protocol {
        Protocol::Resp => {
            let mut rest = reply;
            if let [b'*', ..] = reply {
                rest = split_line(reply).map_or(&[], |(_, after)| after);
            }
            while let [b'$' | b'_', ..] = rest {
                let Some((header, after)) = split_line(rest) else { return };
                let value = number(header.get(1..).unwrap_or_default())
                    .and_then(|len| after.split_at_checked(len));
                found(value.map(|(value, _)| value));
                rest = match value {
                    Some((_, after)) => after.get(2..).unwrap_or_default(),
                    None => after,
                };
            }
        }
        Protocol::Memcached => {
            let mut rest = reply;
            while rest.starts_with(b"VALUE ") {
                let Some((header, after)) = split_line(rest) else { return };
                let len = header.split(|byte| *byte == b' ').nth(3).and_then(number);
                let Some((value, after)) = len.and_then(|len| after.split_at_checked(len)) else {
                    return;
                };
                found(Some(value));
                rest = after.get(2..).unwrap_or_default();
            }
        }
        Protocol::Http => {}
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(protocol: Protocol, reply: &str) -> Vec<Option<String>> {
        let mut all = Vec::new();
        each_value(protocol, reply.as_bytes(), |value| {
            all.push(value.map(|value| String::from_utf8(value.to_vec()).unwrap()));
        });
        all
    }

    #[test]
    fn values_are_found_in_every_protocol() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(values(Protocol::Resp, "$4\r\na\r\nb\r\n"), [some("a\r\nb")]);
        assert_eq!(values(Protocol::Resp, "$-1\r\n"), [None]);
        assert_eq!(
            values(Protocol::Resp, "*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n"),
            [some("a"), None, some("")]
        );
        assert_eq!(values(Protocol::Resp, "+OK\r\n"), []);
        assert_eq!(
            values(Protocol::Memcached, "VALUE k 0 2\r\nab\r\nVALUE l 0 0\r\n\r\nEND\r\n"),
            [some("ab"), some("")]
        );
        assert_eq!(values(Protocol::Memcached, "END\r\n"), []);
        assert_eq!(values(Protocol::Resp, "$9\r\nshort\r\n"), [None], "never beyond the reply");
    }
}
