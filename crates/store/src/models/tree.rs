//! Tests a list in the form of a tree of several nodes, while a writer changes it, a consumer pops
//! from it, a saver reads it as it was at the cut, and COPY shares it with another key that is then
//! changed.

use super::{Contents, Saved, World, check, shown, spawn};
use crate::types::list::Push;
use crate::types::relocation::Relocated;
use crate::{Database, ListLimit, Side, Text};
use std::sync::Arc;

/// More than the bytes of two leaves.
const ELEMENTS: usize = 24;
const ELEMENT_BYTES: usize = 400;
const LIMIT: ListLimit = ListLimit::Bytes(8192);

/// A change of the list or its copy. A thread makes its changes in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// RPUSH a w
    Push,
    /// LPOP a
    Pop,
    /// COPY a b
    Copy,
    /// RPUSH b c
    PushToCopy,
}

/// A thread that changes the list while the saver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Writer,
    Consumer,
    Copier,
}

impl Role {
    fn changes(self) -> &'static [Change] {
        match self {
            Role::Writer => &[Change::Push],
            Role::Consumer => &[Change::Pop],
            Role::Copier => &[Change::Copy, Change::PushToCopy],
        }
    }
}

fn element(name: &str) -> String {
    format!("{name:.<ELEMENT_BYTES$}")
}

fn push(db: Database<'_>, key: &str, names: &[&str]) -> u64 {
    let texts: Vec<String> = names.iter().map(|name| element(name)).collect();
    let elements: Vec<Text<'_>> = texts.iter().map(|it| Text::to_store(it.as_bytes())).collect();
    let bytes = texts.iter().map(String::len).sum();
    let push = Push {
        elements: &elements,
        side: Side::End,
        announced: Some((elements.len(), bytes)),
        is_last: true,
        only_existing: false,
        limit: LIMIT,
    };
    db.push(db.key(key.as_bytes()), &push).unwrap().unwrap()
}

/// Pops the first element, and reads it after the latch has been released.
fn pop(db: Database<'_>) -> Option<String> {
    let popped = db.pop(db.key(b"a"), Side::Start, 1, LIMIT, |popped| popped.share());
    let popped = popped.unwrap()?;
    let mut element = None;
    popped.read()?.show(0, 1, |it| element = Some(shown(it)));
    element
}

/// Makes a change. Returns the reply that a client would receive.
fn make(change: Change, db: Database<'_>) -> String {
    match change {
        Change::Push => push(db, "a", &["w"]).to_string(),
        Change::Pop => pop(db).unwrap(),
        Change::Copy => {
            let done = db.copy(db.key(b"a"), 0, db.key(b"b"), false);
            assert_eq!(done, Relocated::Done);
            String::new()
        }
        Change::PushToCopy => push(db, "b", &["c"]).to_string(),
    }
}

/// Makes a change to the model. Returns the expected reply.
fn expect(change: Change, contents: &mut Contents) -> String {
    let list = |contents: &Contents, key: &str| contents.get(key).cloned().unwrap_or_default();
    let (key, mut changed) = match change {
        Change::Push | Change::Pop => ("a", list(contents, "a")),
        Change::Copy => ("b", list(contents, "a")),
        Change::PushToCopy => ("b", list(contents, "b")),
    };
    let reply = match change {
        Change::Pop => changed.remove(0),
        Change::Copy => String::new(),
        Change::Push | Change::PushToCopy => {
            changed.push(if change == Change::Push { "w" } else { "c" }.to_owned());
            changed.len().to_string()
        }
    };
    contents.insert(key.to_owned(), changed);
    reply
}

/// Returns all interleavings of the changes of several threads.
fn orders(threads: &[&[Change]]) -> Vec<Vec<Change>> {
    let mut orders = Vec::new();
    for (place, changes) in threads.iter().enumerate() {
        let Some((first, rest)) = changes.split_first() else { continue };
        let mut left = threads.to_vec();
        left[place] = rest;
        for order in self::orders(&left) {
            orders.push([&[*first], &order[..]].concat());
        }
    }
    if orders.is_empty() { vec![Vec::new()] } else { orders }
}

/// A change that a thread has made.
#[derive(Debug)]
struct Made {
    change: Change,
    reply: String,
    /// The steps just before and just after the change.
    between: [usize; 2],
}

#[derive(Debug)]
struct Seen {
    made: Vec<Made>,
    saved: Saved,
    left: Contents,
}

impl Seen {
    fn made(&self, change: Change) -> &Made {
        self.made.iter().find(|made| made.change == change).expect("all were made")
    }

    /// Whether some order of the changes explains all replies and the final contents, and the
    /// snapshot contains exactly the changes before some cut in that order.
    fn is_explained(&self, roles: &[Role]) -> bool {
        let threads: Vec<&[Change]> = roles.iter().map(|role| role.changes()).collect();
        orders(&threads).into_iter().any(|order| {
            let mut contents = Contents::from([("a".to_owned(), names())]);
            let mut is_saved = self.is_cut(&contents, (&[], &order));
            for (place, change) in order.iter().enumerate() {
                if expect(*change, &mut contents) != self.made(*change).reply {
                    return false;
                }
                is_saved |= self.is_cut(&contents, order.split_at(place + 1));
            }
            is_saved && contents == self.left
        })
    }

    /// Whether the cut may lie between these changes; `contents` are the contents at that point.
    fn is_cut(&self, contents: &Contents, (before, after): (&[Change], &[Change])) -> bool {
        let Saved { before_cut, counted, .. } = self.saved;
        self.saved.contents == *contents
            && before.iter().all(|change| self.made(*change).between[0] < counted)
            && after.iter().all(|change| self.made(*change).between[1] > before_cut)
    }
}

fn names() -> Vec<String> {
    (0..ELEMENTS).map(|number| number.to_string()).collect()
}

fn change_while_saved(preemptions: usize, roles: &'static [Role]) {
    check(preemptions, move || {
        let world = World::new();
        let names = names();
        let bytes_alone = world.run(0, |db| {
            push(db, "a", &names.iter().map(String::as_str).collect::<Vec<_>>()[..1]);
            db.delete(db.key(b"a"));
            world.store.page_bytes()
        });
        world.run(0, |db| {
            push(db, "a", &names.iter().map(String::as_str).collect::<Vec<_>>());
            let encoding = db.get(db.key(b"a"), |it| it.map(|it| it.encoding_name()));
            assert_eq!(encoding, Some("quicklist"));
        });
        let threads: Vec<_> = (roles.iter().enumerate())
            .map(|(worker, role)| {
                let world = Arc::clone(&world);
                let make = move |change: &Change| {
                    let begun = world.step();
                    let reply = world.run(worker, |db| make(*change, db));
                    Made { change: *change, reply, between: [begun, world.step()] }
                };
                spawn(move || role.changes().iter().map(make).collect::<Vec<_>>())
            })
            .collect();
        let saved = world.save();
        let made = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let left = world.contents();
        let seen = Seen { made, saved, left };
        assert!(seen.is_explained(roles), "{seen:?}");
        world.run(0, |db| db.delete_many(&[db.key(b"a"), db.key(b"b")]));
        assert_eq!(world.store.page_bytes(), bytes_alone, "all nodes are free");
    });
}

#[test]
fn a_writer_and_a_consumer_beside_a_saver() {
    change_while_saved(2, &[Role::Writer, Role::Consumer]);
}

#[test]
fn a_copy_that_is_changed_beside_a_saver() {
    change_while_saved(2, &[Role::Copier]);
}

#[test]
fn a_consumer_and_a_copy_that_is_changed_beside_a_saver() {
    change_while_saved(2, &[Role::Consumer, Role::Copier]);
}

#[test]
fn a_writer_a_consumer_and_a_copy_that_is_changed_beside_a_saver() {
    change_while_saved(1, &[Role::Writer, Role::Consumer, Role::Copier]);
}
