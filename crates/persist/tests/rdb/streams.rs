//! Reads streams of real servers, and builds them from their parts.

use crate::golden::{SERVERS, golden};
use crate::old::{file, listpack_of, text};
use nagi_persist::rdb::{Element, Item, Reader, Rejected};
use nagi_store::{Stream, StreamBuilder, StreamId};

/// The streams of a file.
fn streams(file: &[u8]) -> Vec<Stream> {
    let mut reader = Reader::new(file, true).unwrap();
    let mut all = Vec::new();
    loop {
        match reader.next_item().unwrap() {
            Item::Key(record) if record.value_type.name() == "stream" => {
                let mut builder = StreamBuilder::new();
                let mut add = |element: Element<'_>| match element {
                    Element::Part(part) if builder.add(part) => Ok(()),
                    _ => Err(Rejected::Duplicate),
                };
                reader.elements(&mut add).unwrap();
                all.push(builder.end().expect("all parts have come"));
            }
            Item::End => return all,
            _ => {}
        }
    }
}

#[test]
fn entries_and_groups_of_files_of_real_servers_are_read() {
    for server in SERVERS {
        let streams = streams(&golden(&format!("{server}.rdb")));
        let [stream] = &streams[..] else { panic!("{server}: {} streams", streams.len()) };
        // Two of 120 were deleted, the last one among them.
        assert_eq!((stream.len(), stream.last_id()), (118, StreamId { ms: 1, seq: 120 }));
        let entry = stream.get(StreamId { ms: 1, seq: 57 }).unwrap();
        let text = |it: nagi_store::StringValue<'_>| it.with_bytes(<[u8]>::to_vec);
        let fields: Vec<_> =
            entry.fields().map(|(name, value)| (text(name), text(value))).collect();
        assert_eq!(fields, [(b"field".to_vec(), b"value57".to_vec())], "{server}");
        let group = stream.view_group(b"group").unwrap();
        assert_eq!((group.last_id(), group.pending_count()), (StreamId { ms: 1, seq: 11 }, 9));
        // A group that begins among deleted entries has an unknown number of entries read.
        assert_eq!((group.entries_read(), group.lag()), (None, None), "{server}");
        // One of the five entries delivered to alice has been acknowledged.
        for (name, pending) in [(&b"alice"[..], 4), (b"bob", 5)] {
            let consumer = group.consumer(name).unwrap();
            assert_eq!(consumer.pending_count(), pending, "{server}");
            assert!(consumer.seen_ms() > 0 && consumer.active_ms().is_some(), "{server}");
        }
    }
}

#[test]
fn counters_missing_in_older_files_are_estimated() {
    let number = |number: u8| vec![number, 1];
    let field = [&b"\x81f"[..], &[2]].concat();
    // Two entries of the field that the node has at its start, at 5-0 and 6-0.
    let start = [number(2), number(0), number(1), field.clone(), number(0)];
    let entry = |ms: u8| [number(2), number(ms), number(0), field.clone(), number(4)];
    let node = listpack_of(&[&start[..], &entry(0), &entry(1)].concat());
    let first = [[0; 7].as_slice(), &[5], &[0; 8]].concat();
    let group = |name: &[u8], ms: u8| [text(name), vec![ms, 0, 0, 0]].concat();
    let stream = [
        &b"\x0f\x01x\x01"[..],
        &text(&first),
        &text(&node),
        b"\x02\x06\x00\x03",
        &group(b"all", 6),
        &group(b"none", 0),
        &group(b"one", 5),
    ];
    let streams = streams(&file(9, &stream.concat()));
    let [stream] = &streams[..] else { panic!("{} streams", streams.len()) };
    assert_eq!((stream.len(), stream.entries_added()), (2, 2));
    for (name, read, lag) in [(&b"all"[..], 2, 0), (b"none", 0, 2), (b"one", 1, 1)] {
        let group = stream.view_group(name).unwrap();
        assert_eq!((group.entries_read(), group.lag()), (Some(read), Some(lag)));
    }
}
