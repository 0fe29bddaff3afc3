//! Invariants that must hold for arbitrary bytes as ACL rules or as queries of the status page;
//! used by fuzz targets and by this crate's property tests.

use crate::catalogue::command_table;
use crate::error::Error;
use crate::runtime::user_file::{parse, text};
use crate::state::users::{Acl, UsersByName, is_name};
use std::sync::Arc;

/// Checks a query of the status page, and text on the page.
pub fn list_options(data: &[u8]) {
    crate::status::fuzzing::list_options(data);
}

/// Parses an ACL file, or arguments of ACL SETUSER, one per line. Bits of the first byte select
/// which of them, and whether new users may use all channels. Accepted input must be unchanged
/// after writing and parsing it.
pub fn acl_file(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let acl = Acl::new(command_table(), kind & 1 != 0);
    if kind & 2 == 0 {
        if let Ok(users) = parse(data, "a", &acl) {
            comes_back(&acl, &users);
        }
        return;
    }
    let mut words = data.split(|byte| *byte == b'\n');
    let name = words.next().unwrap_or_default();
    let mut user = acl.new_user();
    if is_name(name) && acl.apply_all(&mut user, words).is_ok() {
        let users = UsersByName::from([
            (name.into(), Arc::new(user)),
            (b"default".as_slice().into(), Arc::new(acl.new_user())),
        ]);
        comes_back(&acl, &users);
    }
}

/// Checks that users are unchanged after writing and parsing them.
fn comes_back<H>(acl: &Acl<'_, H>, users: &UsersByName) {
    let text = text(users);
    let told = |error: Error| String::from_utf8_lossy(&error.0).into_owned();
    let again = parse(&text, "a", acl).map_err(told);
    assert_eq!(again.as_ref(), Ok(users), "{}", String::from_utf8_lossy(&text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rules and parts of them.
    const RULE: &str = "on|nopass|>[ab]|<[ab]|resetpass|reset|allkeys|resetkeys|resetchannels\
        |[~&][ab*)]{0,2}|%(R|W|RW)~[ab*]|[+-](get|config|config\\|get|@read|@all|@write)\
        |\\+get\\|[aB)(é ]|clearselectors\
        |\\((~[ab)*]|\\+get|&a|-@all)( (%R~b|\\+@read|\\+set\\|b))?\\)";

    #[test]
    fn inputs_found_by_fuzzing_survive_a_round_trip() {
        for lines in [
            // A user without a name.
            "\non",
            // A pattern that ends like a selector, in one.
            "a\n(~a))",
            // All keys, by a pattern that is shown like the rule for all of them.
            "a\n%RW~*\n~b",
            // First arguments in capitals, with spaces, on a separate line.
            "a\n+get|B",
            "a\n+get|b c",
            "a\n+get|b\x0bc",
            // First arguments that are given twice, and one that begins like another.
            "a\n+get|b\n+get|c\n+get|b",
            "a\n+get|b|c\n+get|b",
            // A pattern with a quote, in a selector.
            "a\n(&J\":\\'n\")",
        ] {
            acl_file(&[b"\x02", lines.as_bytes()].concat());
        }
        acl_file(b"\x02a\n+get|\xff");
    }

    proptest! {
        #[test]
        fn users_come_back_from_their_lines(
            kind in 0..4_u8,
            name in "[ab#)]{0,2}",
            rules in proptest::collection::vec(RULE, 0..6),
        ) {
            let lines = format!("{name}\n{}", rules.join("\n"));
            acl_file(&[&[kind | 2], lines.as_bytes()].concat());
            let line = format!("user {name} {}\n", rules.join(" "));
            acl_file(&[&[kind & 1], line.as_bytes()].concat());
        }

        #[test]
        fn queries_lead_to_the_same_list(
            query in "((page|limit|sort|state|filter)=([0-9]{1,20}|id|idle|[%+A-Z<é]{0,3})&){0,4}",
        ) {
            list_options(query.as_bytes());
        }
    }
}
