//! The order in which one transaction or script serves the clients that are blocked on its keys.

use harness::{Connection, Reply, Server, until};

use crate::blocking::until_blocked;

#[test]
fn keys_serve_clients_in_the_order_in_which_they_became_ready() {
    for server in [Server::nagi(), Server::redis()] {
        for requests in [
            &["DEL k1", "RPUSH k3 a", "RPUSH k1 b"][..],
            &["EXISTS k1", "SELECT 0", "RPUSH k3 a", "LPUSH k1 b"],
        ] {
            check_order(&server, requests);
        }
    }
}

/// Checks that `k3` serves the first of the clients that wait for it, although the second waits for
/// `k1` as well: after a transaction of these requests, a script of them, and a transaction with
/// that script.
fn check_order(server: &Server, requests: &[&str]) {
    let calls = requests.iter().map(|request| {
        let arguments = request.split(' ').map(|word| format!("'{word}'"));
        format!("redis.call({}) ", arguments.collect::<Vec<_>>().join(","))
    });
    let script: String = calls.collect();
    let queued: Vec<Vec<&str>> = requests.iter().map(|it| it.split(' ').collect()).collect();
    let whole = format!("redis.call('DBSIZE') {script}");
    let evals = [&script, &whole].map(|script| vec![vec!["EVAL", script, "0"]]);
    check_service(server, &queued, true);
    for eval in &evals {
        check_service(server, eval, false);
        check_service(server, eval, true);
    }
}

fn check_service(server: &Server, requests: &[Vec<&str>], is_queued: bool) {
    let [mut runner, mut one, mut two] = [(); 3].map(|()| server.connect_resp());
    for (count, waiter, request) in
        [(1, &mut one, "BLPOP k3 0\r\n"), (2, &mut two, "BLPOP k3 k1 0\r\n")]
    {
        waiter.send(request);
        until_blocked(&mut runner, count);
    }
    let ends = if is_queued { ["MULTI", "EXEC"] } else { ["PING"; 2] };
    runner.run(ends[0]);
    requests.iter().for_each(|words| drop(runner.run_words(words)));
    runner.run(ends[1]);
    let served = || (runner.info::<u32>("blocked_clients") == 0).then_some(());
    until("both clients are served", served).unwrap();
    let key = |client: &mut Connection| client.reply().list().first().map(Reply::text);
    let keys = [key(&mut one), key(&mut two)].map(Option::unwrap_or_default);
    assert_eq!(keys, ["k3", "k1"], "{requests:?} queued: {is_queued}");
}

#[test]
fn a_stream_without_new_entries_ends_no_wait() {
    for server in [Server::nagi(), Server::redis()] {
        for requests in [
            &["LPUSH a 1", "XDEL b 1-1"][..],
            &["MULTI", "LPUSH a 1", "RPUSH b x", "EXEC"],
            &["MULTI", "EXPIRE b 100", "LPUSH a 1", "EXEC"],
            &["LPUSH a 1", "XGROUP CREATE b g $"],
            &["LPUSH a 1", "SELECT 1", "FLUSHDB", "SWAPDB 2 3", "SELECT 0"],
        ] {
            check_wait(&server, requests);
        }
    }
}

/// Checks that a client that waits for the streams `a` and `b` is not told of the list `a` before
/// `b` has a new entry.
fn check_wait(server: &Server, requests: &[&str]) {
    let [mut runner, mut waiter] = [(); 2].map(|()| server.connect_resp());
    runner.run("FLUSHALL");
    runner.run("XADD b 1-1 f v");
    waiter.send("XREAD BLOCK 0 STREAMS a b $ $\r\n");
    until_blocked(&mut runner, 1);
    requests.iter().for_each(|request| drop(runner.run(request)));
    assert_eq!(runner.info::<u32>("blocked_clients"), 1, "{requests:?}");
    runner.run("XADD b * f v");
    // Redis 8 reports the list, Redis 7 sends the entry.
    waiter.reply();
}
