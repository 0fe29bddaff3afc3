//! Compares streams with an ordered map and groups with a map of owners, and loads damaged streams.

use super::group::Group;
use super::*;
use std::collections::BTreeMap;

type Model = BTreeMap<Id, Vec<Vec<u8>>>;

fn id(ms: u64, seq: u64) -> Id {
    Id { ms, seq }
}

fn entries(stream: &Stream, from: Id, to: Id, back: bool) -> Vec<(Id, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    let mut visit = |entry: StreamEntry<'_>| {
        let text = |it: crate::value::string::StringValue<'_>| it.with_bytes(<[u8]>::to_vec);
        let fields = entry.fields().flat_map(|(name, value)| [text(name), text(value)]).collect();
        all.push((entry.id, fields));
        ControlFlow::<()>::Continue(())
    };
    if back {
        stream.walk_back(from, to, &mut visit);
    } else {
        stream.walk(from, to, &mut visit);
    }
    all
}

fn ids(stream: &Stream, from: Id) -> Vec<Id> {
    let mut all = Vec::new();
    stream.walk_ids(from, |id| {
        all.push(id);
        ControlFlow::<()>::Continue(())
    });
    all
}

/// Builds a stream from the parts of another, read `stride` at a time.
fn rebuilt(stream: &Stream, stride: u64) -> Option<Stream> {
    let mut builder = StreamBuilder::new();
    let mut skipped = 0;
    while skipped < stream.parts() {
        let mut left = stride;
        stream.walk_parts(skipped, |part| {
            assert!(builder.add(part), "{part:?}");
            skipped += 1;
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    builder.end()
}

fn parts(stream: &Stream) -> Vec<String> {
    let mut all = Vec::new();
    stream.walk_parts::<()>(0, |part| {
        all.push(format!("{part:?}"));
        ControlFlow::Continue(())
    });
    all
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn fields(random: &mut Random) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match random.below(3) {
        0 => &[b"a", b"b"],
        1 => &[b"a"],
        _ => &[b"x", b"7", b"a"],
    };
    let values = [b"1".to_vec(), b"-300".to_vec(), b"text".to_vec(), vec![b'v'; 300]];
    let value = |random: &mut Random| values[random.below(4) as usize].clone();
    names.iter().flat_map(|name| [name.to_vec(), value(random)]).collect()
}

#[test]
fn stream_equals_an_ordered_map() {
    const LIMITS: StreamLimits = StreamLimits { node_bytes: 700, node_entries: 10 };
    let mut random = Random(11);
    let (mut stream, mut model) = (Stream::default(), Model::new());
    let (mut kept, mut kept_model) = (stream.clone(), model.clone());
    let mut now_ms = 1000;
    for step in 0..if cfg!(miri) { 400 } else { 20_000 } {
        now_ms += random.below(3);
        let any = |random: &mut Random| id(1000 + random.below(now_ms - 990), random.below(3));
        match random.below(12) {
            0..6 => {
                let fields = fields(&mut random);
                let new: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
                let added = stream.add(NewId::Next, now_ms, &NewEntry::new(&new), LIMITS).unwrap();
                assert!(model.keys().all(|it| *it < added));
                model.insert(added, fields);
            }
            6..9 => {
                let id = any(&mut random);
                assert_eq!(stream.delete(id), model.remove(&id).is_some());
            }
            9 => {
                let (from, to) = (any(&mut random), any(&mut random));
                assert!(ids(&stream, from).iter().eq(model.range(from..).map(|(id, _)| id)));
                let mut expected: Vec<_> = model.iter().map(|(k, v)| (*k, v.clone())).collect();
                expected.retain(|(it, _)| from <= *it && *it <= to);
                assert_eq!(entries(&stream, from, to, false), expected);
                assert_eq!(stream.count(from, to), expected.len() as u64);
                expected.reverse();
                assert_eq!(entries(&stream, from, to, true), expected);
            }
            10 if random.below(8) == 0 => {
                let keep = match random.below(2) {
                    0 => Keep::Last(random.below(300)),
                    _ => Keep::From(id(now_ms - random.below(300).min(now_ms), 0)),
                };
                let is_approximate = random.below(2) == 0;
                let before = stream.len();
                let removed = stream.trim(&Trim { keep, is_approximate, limit: 0 });
                assert_eq!(before - removed, stream.len());
                let goes = match keep {
                    Keep::Last(count) => model.len().saturating_sub(count as usize),
                    Keep::From(id) => model.range(..id).count(),
                };
                assert!(removed as usize <= goes && (is_approximate || removed as usize == goes));
                (0..removed).for_each(|_| drop(model.pop_first()));
            }
            _ => {}
        }
        assert_eq!(stream.len(), model.len() as u64);
        if step % 97 == 0 {
            let all: Vec<_> = model.clone().into_iter().collect();
            assert_eq!(entries(&stream, Id::MIN, Id::MAX, false), all);
            let kept_all: Vec<_> = kept_model.into_iter().collect();
            assert_eq!(entries(&kept, Id::MIN, Id::MAX, false), kept_all);
            (kept, kept_model) = (stream.clone(), model.clone());
            assert_eq!(stream.first_id(), model.keys().next().copied().unwrap_or_default());
            assert_eq!(stream.last_entry_id(), model.keys().last().copied().unwrap_or_default());
            let again = rebuilt(&stream, 1 + random.below(7)).unwrap();
            assert_eq!(parts(&again), parts(&stream));
        }
    }
}

#[test]
fn groups_record_the_owner_of_each_pending_entry() {
    let mut random = Random(3);
    let mut group = Group::new(Id::MIN, Some(0));
    let mut model: BTreeMap<Id, &str> = BTreeMap::new();
    let names = ["a", "b", "c"];
    for _ in 0..5000 {
        let entry = id(random.below(60), 0);
        let name = names[random.below(3) as usize];
        match random.below(10) {
            0..6 => {
                group.add_consumer(name.as_bytes(), 5);
                group.assign(entry, name.as_bytes(), 7, 1);
                model.insert(entry, name);
            }
            6..9 => assert_eq!(group.acknowledge(entry), model.remove(&entry).is_some()),
            _ if random.below(5) == 0 => {
                let mut taken = 0;
                loop {
                    let (more, is_gone) = group.remove_consumer(name.as_bytes(), 4);
                    taken += more as usize;
                    if is_gone {
                        break;
                    }
                }
                let before = model.len();
                model.retain(|_, it| *it != name);
                assert_eq!(taken, before - model.len());
            }
            _ => {}
        }
        assert!(group.is_consistent());
        assert_eq!(group.pending.len(), model.len() as u64);
        let owner = group.pending.get(&entry).and_then(|it| group.name_of(it));
        assert_eq!(owner.map(|it| &**it), model.get(&entry).map(|it| it.as_bytes()));
    }
    let mut stream = Stream::default();
    stream.add_group(b"g", group.clone());
    stream.add_group(b"h", Group::new(id(1, 1), None));
    for stride in [1, 2, 3, 1000] {
        let again = rebuilt(&stream, stride).unwrap();
        assert_eq!(parts(&again), parts(&stream));
    }
    let mut builder = StreamBuilder::new();
    assert!(!builder.add(StreamPart::Owned(id(1, 1))));
    assert!(StreamBuilder::new().end().is_none());
}

#[test]
fn damaged_nodes_are_refused() {
    let mut stream = Stream::default();
    let limits = StreamLimits { node_bytes: 4096, node_entries: 100 };
    for at in 0..5 {
        let new: [&[u8]; 2] = [b"name", if at == 3 { b"12345" } else { b"value" }];
        stream.add(NewId::Next, 10 + at, &NewEntry::new(&new), limits).unwrap();
    }
    let mut listpack = Vec::new();
    stream.walk_parts(0, |part| {
        if let StreamPart::Node { listpack: bytes, .. } = part {
            listpack = bytes.to_vec();
        }
        ControlFlow::Break(())
    });
    assert!(Node::read(id(10, 0), listpack.clone()).is_some());
    let mut refused = 0;
    for at in 0..listpack.len() {
        assert!(Node::read(id(10, 0), listpack[..at].to_vec()).is_none());
        for byte in [0, 1, 0x7f, 0x80, 0xf0, 0xf4, 0xff] {
            let mut damaged = listpack.clone();
            damaged[at] = byte;
            match Node::read(id(10, 0), damaged) {
                None => refused += 1,
                Some(node) => drop(node.entries(id(10, 0)).count()),
            }
        }
    }
    assert!(refused > listpack.len());
}

/// A large entry has a separate node, to which nothing is added.
#[test]
fn large_entries_are_nodes_of_their_own() {
    let mut stream = Stream::default();
    let limits = StreamLimits { node_bytes: 0, node_entries: 0 };
    let large = vec![b'x'; 100_000];
    for at in 0..6 {
        let value: &[u8] = if at % 2 == 0 { &large } else { b"small" };
        let new: [&[u8]; 2] = [b"name", value];
        stream.add(NewId::Next, 10 + at, &NewEntry::new(&new), limits).unwrap();
    }
    assert_eq!((stream.len(), stream.nodes()), (6, 6));
    assert_eq!(entries(&stream, Id::MIN, Id::MAX, false)[2].1[1], large);
    assert_eq!(ids(&stream, id(11, 1)), [12, 13, 14, 15].map(|ms| id(ms, 0)));
    assert!(stream.bytes() > 300_000);
}

/// Returns the ids that a selection shows, and whether they exist, if it is interrupted after every
/// `stride` of them.
fn shown(mut selection: Selection, stride: u64) -> Vec<(Id, bool)> {
    let mut all = Vec::new();
    while selection.left() > 0 {
        let (before, mut shown) = (selection.left(), 0);
        selection.show(|id, entry| {
            all.push((id, entry.is_some_and(|entry| entry.id == id)));
            shown += 1;
            if shown == stride { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(selection.left(), before - shown);
    }
    all
}

#[test]
fn a_selection_continues_where_it_was_interrupted() {
    let mut stream = Stream::default();
    let limits = StreamLimits { node_bytes: 0, node_entries: 3 };
    let fields: [&[u8]; 2] = [b"name", b"value"];
    for at in 10..20 {
        stream.add(NewId::Next, at, &NewEntry::new(&fields), limits).unwrap();
    }
    assert!(stream.delete(id(14, 0)));
    let mut expected: Vec<_> = (11..=18).map(|ms| (id(ms, 0), ms != 14)).collect();
    let asked: Vec<Id> = expected.iter().map(|(id, _)| *id).collect();
    for stride in [1, 2, 3, 100] {
        assert_eq!(shown(Selection::of_ids(stream.clone(), asked.clone()), stride), expected);
    }
    expected.retain(|(_, exists)| *exists);
    for backwards in [false, true] {
        for (stride, most) in [(1, None), (2, None), (100, None), (1, Some(5)), (100, Some(5))] {
            let ends = (id(11, 0), id(18, 7));
            let selection = Selection::interval(stream.clone(), ends, most, backwards);
            let count = most.map_or(expected.len(), |most| most as usize);
            assert_eq!(shown(selection, stride), expected[..count], "{stride} {most:?}");
        }
        expected.reverse();
    }
}
