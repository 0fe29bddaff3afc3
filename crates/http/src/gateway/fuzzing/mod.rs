//! Invariants for arbitrary bytes that clients send over HTTP, for fuzz targets and this crate's
//! property tests: paths, bodies, headers, and replies that become responses.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "a fault is told by a panic")]

mod replies;
mod requests;

/// Checks input from a client: the first byte chooses how the rest is interpreted.
pub fn request(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    match kind % 5 {
        0 => requests::address(data),
        1 => requests::list(data),
        2 => requests::socket(data),
        3 => requests::headers(data),
        _ => replies::reply(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PART: &str = "(\\+[ -~]{0,4}|-[ -~]{0,4}|:[0-9]|\\$-1|\\$2\r\n[ -~\r\n]{2}|\\*[0-3])\r\n";

    proptest! {
        #[test]
        fn addresses_are_commands_or_wrong(
            path in "/?[0-9]{0,2}/?[ -~]{0,12}(/[ -~ü]{0,6}){0,3}(\\.(json|raw|txt|html|svg))?",
            query in "((type=[a-z+%#/]{1,9}|sep=[,%+]{0,3}|filename=[a-z.]{1,3}|jsonp=a)&){0,3}",
        ) {
            requests::address(format!("{path}?{query}").as_bytes());
        }

        #[test]
        fn lists_are_commands_or_wrong(
            kind in any::<u8>(), body in "[\\[\\]{}\",:a1.e -]{0,40}", tail in any::<Vec<u8>>(),
        ) {
            requests::list(&[&[kind], body.as_bytes(), tail.as_slice()].concat());
            requests::list(&[&[kind], body.as_bytes()].concat());
        }

        #[test]
        fn headers_are_permitted_or_refused(
            head in any::<[u8; 2]>(), names in any::<Vec<u8>>(), value in "[ -~]{0,30}",
        ) {
            let line = |name: &u8| [&[*name], value.as_bytes(), b"\n"].concat();
            let lines = names.iter().take(4).flat_map(line);
            requests::headers(&head.into_iter().chain(lines).collect::<Vec<u8>>());
        }

        #[test]
        fn replies_are_the_same_in_pieces(
            head in any::<[u8; 2]>(),
            parts in proptest::collection::vec(PART, 0..9),
        ) {
            replies::reply(&[&head, parts.concat().as_bytes()].concat());
        }
    }
}
