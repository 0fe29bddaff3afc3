//! Tests the statistics and checks of files.

use crate::files::{Known, OPTIONS, write};
use crate::golden::golden;
use crate::old::{file, listpack_of, text};
use nagi_persist::inspect::{Expiry, Group, Grouping, check, stats};

const NOW_MS: u64 = 2_000_000_000_000;

fn grouping(top: usize) -> Grouping {
    Grouping { top, separator: b':', depth: 1, now_ms: NOW_MS }
}

/// Returns keys with these prefixes and lengths.
fn keys() -> Vec<Known> {
    let mut all = Vec::new();
    for (prefix, count, len) in [("a:", 3, 10), ("b:x:", 2, 1000), ("", 1, 5)] {
        for number in 0..count {
            let left_ms: [Option<i64>; 3] = [None, Some(-1), Some(3_600_000)];
            all.push(Known {
                database: if prefix.is_empty() { 7 } else { 0 },
                key: format!("{prefix}{number}").into_bytes(),
                value: b"v".repeat(len),
                expire_at_ms: left_ms[number].and_then(|left| NOW_MS.checked_add_signed(left)),
                ..Known::default()
            });
        }
    }
    all
}

#[test]
fn keys_are_grouped_by_database_prefix_and_expiry() {
    let file = write(&keys(), OPTIONS, 10);
    let found = stats(&file[..], grouping(2), &mut |_, _| {}).unwrap();
    let group = |keys, bytes, expiring, file_bytes| Group {
        keys,
        elements: keys,
        bytes,
        file_bytes,
        expiring,
    };
    let sums = |group: &Group| (group.keys, group.bytes, group.expiring);
    assert_eq!(found.all.keys, 6);
    assert_eq!(found.databases.keys().copied().collect::<Vec<_>>(), [0, 7]);
    assert_eq!(found.databases[&7], group(1, 6, 0, 9));
    let prefixes: Vec<_> =
        found.prefixes.iter().map(|it| (&it.name[..], sums(&it.group))).collect();
    assert_eq!(prefixes, [("b:*", (2, 2010, 1)), ("a:*", (3, 39, 2)), ("-", (1, 6, 0))]);
    let expiry: Vec<_> = found.expiry.iter().map(|it| (it.name, it.group.keys)).collect();
    assert_eq!(expiry, [(Expiry::Expired, 2), (Expiry::WithinHour, 1), (Expiry::Never, 3)]);
    let biggest: Vec<_> = found.biggest.iter().map(|it| (&it.key[..], it.bytes)).collect();
    assert_eq!(biggest, [(&b"b:x:0"[..], 1005), (b"b:x:1", 1005)]);

    let deeper = Grouping { depth: 2, ..grouping(1) };
    let found = stats(&file[..], deeper, &mut |_, _| {}).unwrap();
    let prefixes: Vec<_> =
        found.prefixes.iter().map(|it| (&it.name[..], sums(&it.group))).collect();
    assert_eq!(prefixes, [("b:x:*", (2, 2010, 1)), ("-", (1, 6, 0)), ("*", (3, 39, 2))]);
}

#[test]
fn prefixes_beyond_the_limit_are_merged() {
    let mut all: Vec<Known> = (0..250_000)
        .map(|number| Known { key: format!("{number}:x").into_bytes(), ..Known::default() })
        .collect();
    for number in 0..100 {
        let key = format!("big:{number}").into_bytes();
        all.insert(number * 2000, Known { key, value: vec![1; 100], ..Known::default() });
    }
    let file = write(&all, OPTIONS, 1000);
    let found = stats(&file[..], grouping(1), &mut |_, _| {}).unwrap();
    let prefixes: Vec<_> = found.prefixes.iter().map(|it| (&it.name[..], it.group.keys)).collect();
    assert_eq!(prefixes, [("big:*", 100), ("*", 250_000)]);
}

#[test]
fn statistics_as_csv_and_as_text() {
    let file = write(&keys(), OPTIONS, 10);
    let found = stats(&file[..], grouping(2), &mut |_, _| {}).unwrap();
    let csv = found.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.iter().all(|line| line.split(',').count() == 11), "{csv}");
    assert_eq!(lines[1].split(',').next(), Some("all"));
    assert!(lines.contains(&"prefix,b:*,,,,2,2,2010,59,1,"), "{csv}");
    let text = found.to_string();
    assert!(text.contains("  within an hour\n") && text.contains("biggest keys\n"), "{text}");
}

#[test]
fn check_reports_keys_and_faults() {
    let file = golden("redis-8.0.6.rdb");
    let checking = check(&file[..], NOW_MS, &mut |_, _| {});
    assert!(checking.fault.is_none());
    let said = checking.to_string();
    for line in [
        "[offset 9] AUX FIELD redis-ver = '8.0.6'",
        "Checksum OK",
        "[info] 24 keys read",
        "[info] 1 expires",
        "[info] 0 already expired",
        "[info] 1 keys of type hash (listpackex), 3 elements",
        "[info] 1 function libraries",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let checking = check(&file[..5000], NOW_MS, &mut |_, _| {});
    let said = checking.to_string();
    assert_eq!(checking.fault.map(|fault| fault.offset()), Some(5000));
    assert!(said.contains("--- RDB ERROR DETECTED ---\n[offset 5000] expected "), "{said}");
    assert!(said.contains("[additional info] Last key: '"), "{said}");
    let plain = check(&golden("valkey-9.1-plain.rdb")[..], NOW_MS, &mut |_, _| {}).to_string();
    assert!(plain.contains("The file has no checksum"), "{plain}");
}

#[test]
fn duplicate_members_are_found() {
    let long = "x".repeat(60);
    for (members, is_right) in
        [(&["a", "7", "b"][..], true), (&["a", "b", "a"], false), (&[&long, "a", &long], false)]
    {
        let mut body = vec![2, 1, b'k', u8::try_from(members.len() + 1).unwrap()];
        members.iter().for_each(|member| body.extend_from_slice(&text(member.as_bytes())));
        body.extend_from_slice(&[0xc0, 9]);
        let checking = check(&file(10, &body)[..], NOW_MS, &mut |_, _| {});
        assert_eq!(checking.fault.is_none(), is_right, "{members:?}");
    }
    // As an integer and as digits.
    let checking = check(&file(10, b"\x02\x01k\x02\xc0\x07\x017")[..], NOW_MS, &mut |_, _| {});
    let said = checking.fault.map(|fault| fault.to_string());
    let expected = "byte 12: expected a set without a member that is there twice, \
                    found something else";
    assert_eq!(said.as_deref(), Some(expected));
}

/// The server refuses to load such streams.
#[test]
fn a_stream_whose_parts_contradict_each_other_is_found() {
    let number = |number: u8| vec![number, 1];
    let field = [&b"\x81f"[..], &[2]].concat();
    // Two entries of the field that the node has at its start, at 5-0 and 6-0.
    let start = [number(2), number(0), number(1), field.clone(), number(0)];
    let entry = |ms: u8| [number(2), number(ms), number(0), field.clone(), number(4)];
    let node = listpack_of(&[&start[..], &entry(0), &entry(1)].concat());
    let id = |ms: u8| [&[0; 7][..], &[ms], &[0; 8]].concat();
    let pending = |ms: u8| [&id(ms)[..], &[0; 8], &[1]].concat();
    let consumer = |ms: u8| [&b"\x01"[..], &text(b"reader"), &[0; 8], &[1], &id(ms)].concat();
    for (len, last, consumer, problem) in [
        (2, 6, consumer(5), None),
        (3, 6, consumer(5), Some("there are two entries")),
        (2, 5, consumer(5), Some("the last entry is later")),
        (2, 6, vec![0], Some("no consumer has the pending entry")),
        (2, 6, consumer(6), Some("that entry is not pending")),
    ] {
        let stream = [
            &b"\x0f\x01x\x01"[..],
            &text(&id(5)),
            &text(&node),
            &[len, last, 0, 1],
            &text(b"group"),
            &[6, 0, 1],
            &pending(5),
            &consumer,
        ];
        let file = file(9, &stream.concat());
        let checking = check(&file[..], NOW_MS, &mut |_, _| {});
        let said = checking.fault.map(|fault| fault.to_string());
        assert_eq!(said.is_some(), problem.is_some(), "{problem:?}: {said:?}");
        if let Some(said) = said {
            assert!(said.contains("a stream whose parts fit together"), "{problem:?}: {said}");
        }
        let entries = checking.found.types.get(&("stream", "stream")).copied();
        assert_eq!(entries, problem.is_none().then_some((1, 2)));
    }
}

#[test]
fn progress_is_reported() {
    let all: Vec<Known> = (0..10_000)
        .map(|number: u32| Known { key: number.to_string().into_bytes(), ..Known::default() })
        .collect();
    let file = write(&all, OPTIONS, 100);
    let mut told = Vec::new();
    check(&file[..], NOW_MS, &mut |bytes, keys| told.push((bytes, keys)));
    assert_eq!(told.iter().map(|(_, keys)| *keys).collect::<Vec<_>>(), [4096, 8192]);
    assert!(told.is_sorted() && told.iter().all(|(bytes, _)| *bytes < file.len() as u64));
}
