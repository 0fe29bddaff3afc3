//! What commands tell of what they change: the events that redis-server 7.0 publishes.

use crate::testing::Bench;

#[test]
fn events_are_those_of_redis() {
    let mut bench = Bench::new();
    for (request, events) in EVENTS {
        bench.resp(format!("{request}\r\n").as_bytes());
        assert_eq!(bench.take_events(), *events, "{request}");
    }
}

#[test]
fn events_of_what_memcached_stores() {
    let mut bench = Bench::new();
    for (request, events) in [
        ("set k 7 100 1|5", "k:set k:expire"),
        ("add k 0 0 1|5", ""),
        ("incr k 3", "k:incrby"),
        ("append k 0 0 1|0", "k:append"),
        ("gets k", ""),
        ("touch k 50", "k:expire"),
        ("gat 0 k", "k:persist"),
        ("ms k 1 T9|x", "k:set k:expire"),
        ("md k I", ""),
        ("mg k v", ""),
        ("md k", "k:del"),
        ("mg new v N30", "new:set new:expire"),
        ("delete new", "new:del"),
        ("delete new", ""),
    ] {
        bench.memcached(format!("{request}|").replace('|', "\r\n").as_bytes());
        assert_eq!(bench.take_events(), events, "{request}");
    }
}

/// Requests, and the events that each is told by, in order.
const EVENTS: &[(&str, &str)] = &[
    ("SET a 1", "a:set"),
    ("SET a 2 EX 100", "a:set a:expire"),
    ("SET a 3 KEEPTTL", "a:set"),
    ("SET a 3 NX", ""),
    ("SETNX b 1", "b:set"),
    ("SETEX b 100 1", "b:set b:expire"),
    ("PSETEX b 100000 1", "b:set b:expire"),
    ("GETSET b 5", "b:set"),
    ("GETEX b", ""),
    ("GETEX b EX 50", "b:expire"),
    ("GETEX b PERSIST", "b:persist"),
    ("GETEX b PERSIST", ""),
    ("GETEX b PXAT 1", "b:del"),
    ("MSET a 1 b 2", "a:set b:set"),
    ("MSETNX a 1 b 2", ""),
    ("MSETNX x 1 y 2", "x:set y:set"),
    ("APPEND a 1", "a:append"),
    ("APPEND new text", "new:append"),
    ("SETRANGE a 2 zz", "a:setrange"),
    ("SETRANGE a 2 ''", ""),
    ("INCR n", "n:incrby"),
    ("DECR n", "n:incrby"),
    ("INCRBY n 5", "n:incrby"),
    ("DECRBY n 5", "n:incrby"),
    ("INCRBYFLOAT n 0.5", "n:incrbyfloat"),
    ("SETBIT bits 7 1", "bits:setbit"),
    ("SETBIT bits 7 1", ""),
    ("SETBIT bits 7 0", "bits:setbit"),
    ("BITFIELD bits SET u8 0 255", "bits:setbit"),
    ("BITFIELD bits SET u8 0 255", ""),
    ("BITFIELD bits GET u8 0", ""),
    ("BITOP NOT d bits", "d:set"),
    ("BITOP AND d none none", "d:del"),
    ("BITOP AND d none none", ""),
    ("PFADD p x", "p:pfadd"),
    ("PFADD p x", ""),
    ("PFCOUNT p", ""),
    ("PFMERGE q p", "q:pfadd"),
    ("EXPIRE a 100", "a:expire"),
    ("EXPIRE a 100 NX", ""),
    ("PERSIST a", "a:persist"),
    ("PERSIST a", ""),
    ("EXPIRE a -1", "a:del"),
    ("RENAME b c", "b:rename_from c:rename_to"),
    ("RENAMENX c x", ""),
    ("RENAME c c", ""),
    ("COPY c e", "e:copy_to"),
    ("COPY c e", ""),
    ("COPY c e DB 1 REPLACE", "e:copy_to"),
    ("MOVE c 2", "c:move_from c:move_to"),
    ("GETDEL e", "e:del"),
    ("DEL x y none", "x:del y:del"),
    ("UNLINK n", "n:del"),
    ("GETDEL none", ""),
    ("DEL none", ""),
];
