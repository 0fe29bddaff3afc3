//! Scripts: their replies, which must be those of redis-server, and the requests that they delay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::persistence::Folder;
use harness::{Connection, Random, Reply, Server, encode_command, tool, until, words};

/// A script that runs until it is killed.
pub(crate) const ENDLESS: &str = "while true do end";

/// Sends commands one after another to an empty nagi and an empty redis-server. Both must reply
/// with the same bytes, in both versions of RESP.
pub(crate) fn same_as_redis(commands: &[&str]) {
    let mut faults = Vec::new();
    for hello in ["HELLO 2", "HELLO 3"] {
        let (nagi, redis) = (Server::nagi(), Server::redis());
        let (mut nagi, mut redis) = (nagi.connect_resp(), redis.connect_resp());
        nagi.run(hello);
        redis.run(hello);
        for command in commands {
            let request = encode_command(&words(command));
            redis.send(&request);
            nagi.send(&request);
            let (_, expected) = redis.reply_and_bytes();
            let (_, replied) = nagi.reply_and_bytes();
            let [replied, expected] =
                [replied, expected].map(|bytes| bytes.escape_ascii().to_string());
            if replied != expected {
                faults.push(format!("{hello}: {command}\n  {replied}\n  not\n  {expected}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Compares the replies to one command whose words may be any bytes.
fn same_words_as_redis(words: &[&str]) {
    let [nagi, redis] = [Server::nagi(), Server::redis()].map(|server| {
        let mut client = server.connect_resp();
        client.send(encode_command(words));
        client.reply_and_bytes().1.escape_ascii().to_string()
    });
    assert_eq!(nagi, redis, "{words:?}");
}

#[test]
fn values_are_converted() {
    same_as_redis(&[
        "EVAL \"return {1, 2.7, -3.9, 'a', false, true, {3, nil, 4}, {ok='fine'}}\" 0",
        "EVAL \"return {KEYS, ARGV, #KEYS}\" 2 a b c d",
        "EVAL \"return {err='My Error'}\" 0",
        "EVAL \"return redis.error_reply('My Error')\" 0",
        "EVAL \"return redis.error_reply('-My Error')\" 0",
        "EVAL \"return redis.error_reply('Error')\" 0",
        "EVAL \"return redis.error_reply(1)\" 0",
        "EVAL \"return redis.status_reply('fine')\" 0",
        "EVAL \"return {double=3.25}\" 0",
        "EVAL \"return {map={a=1}}\" 0",
        "EVAL \"return {set={a=true}}\" 0",
        "EVAL \"return {big_number='12345'}\" 0",
        "EVAL \"return {verbatim_string={string='a', format='txt'}}\" 0",
        "EVAL \"redis.setresp(3) return {true, false}\" 0",
        "EVAL \"return nil\" 0",
        "EVAL \"return\" 0",
        "EVAL \"return {}\" 0",
        "EVAL \"return redis.sha1hex('text')\" 0",
        "EVAL \"return {1/0 > 1, 2^53, 'x' .. 1.5, tostring(10/3)}\" 0",
        "EVAL \"return redis.call('SET', 'k', 'v')\" 0",
        "EVAL \"return {redis.call('GET', 'k'), redis.call('GET', 'none')}\" 0",
        "EVAL \"return type(redis.call('GET', 'none'))\" 0",
        "EVAL \"redis.setresp(3) return type(redis.call('GET', 'none'))\" 0",
        "EVAL \"return redis.call('INCRBYFLOAT', 'f', 1.5)\" 0",
        "EVAL \"return redis.call('INCRBY', 'i', 7.0)\" 0",
        "EVAL \"redis.call('HSET', 'h', 'a', 1) return redis.call('HGETALL', 'h')\" 0",
        "EVAL \"redis.setresp(3) return redis.call('HGETALL', 'h')\" 0",
        "EVAL \"redis.setresp(3) return redis.call('HGETALL', 'h').map.a\" 0",
        "SADD s x",
        "SADD words b aa a ab aaa c",
        "EVAL \"return redis.call('SORT', 'words', 'BY', 'nosort')\" 0",
        "EVAL \"return redis.call('SORT_RO', 'words', 'BY', 'nosort', 'LIMIT', 1, 2)\" 0",
        "COMMAND GETKEYS EVAL x 0",
        "COMMAND GETKEYSANDFLAGS FCALL_RO x 0",
        "COMMAND GETKEYS EVAL x 1 k",
        "EVAL \"redis.setresp(3) return redis.call('SMEMBERS', 's')\" 0",
        "ZADD z 1.5 x",
        "EVAL \"redis.setresp(3) return redis.call('ZSCORE', 'z', 'x')\" 0",
        "EVAL \"return redis.call('ZSCORE', 'z', 'x')\" 0",
        "EVAL \"return redis.pcall('LPUSH', 'k', 1)\" 0",
        "EVAL \"return redis.pcall('LPUSH', 'k', 1).err\" 0",
        "EVAL \"return redis.call('SELECT', 3)\" 0",
        "GET k",
        "EVAL \"redis.call('SELECT', 3) return redis.call('GET', 'k')\" 0",
        "EVAL \"return {redis.REPL_ALL, redis.LOG_WARNING, redis.replicate_commands()}\" 0",
        "EVAL \"return {type(redis.REDIS_VERSION), type(redis.REDIS_VERSION_NUM)}\" 0",
        "EVAL \"return {math.floor(2.5), string.format('%d', 3), table.concat({1,2}, ',')}\" 0",
        "EVAL_RO \"return redis.call('GET', 'k')\" 1 k",
    ]);
}

#[test]
fn a_transaction_changes_what_its_scripts_have_read() {
    let reads = "EVAL_RO \"return redis.call('GET', 'k')\" 0";
    let says_so = "EVAL \"#!lua flags=no-writes\nreturn redis.call('GET', 'k')\" 0";
    let writes = "EVAL \"return redis.call('INCR', 'k')\" 0";
    let reads_declared = "EVAL_RO \"return redis.call('GET', KEYS[1])\" 1 k";
    same_as_redis(&[
        "MULTI",
        reads,
        writes,
        says_so,
        writes,
        reads,
        "EXEC",
        "MULTI",
        reads_declared,
        "EXEC",
        "MULTI",
        "GET k",
        reads,
        reads_declared,
        "EXEC",
    ]);
}

#[test]
fn errors_are_worded_as_by_redis() {
    same_as_redis(&[
        "EVAL \"return redis.call('NOSUCH')\" 0",
        "EVAL \"return redis.call('GET')\" 0",
        "EVAL \"return redis.call('CONFIG', 'NOSUCH')\" 0",
        "EVAL \"return redis.call('XGROUP')\" 0",
        "EVAL \"return redis.pcall('client')\" 0",
        "EVAL \"return redis.call('MULTI')\" 0",
        "EVAL \"return redis.call('EVAL', 'return 1', 0)\" 0",
        "EVAL \"return redis.call('SUBSCRIBE', 'x')\" 0",
        "EVAL \"return redis.call()\" 0",
        "EVAL \"return redis.call({})\" 0",
        "EVAL \"return redis.pcall()\" 0",
        "EVAL \"error('x')\" 0",
        "EVAL \"error({err='MY x'})\" 0",
        "EVAL \"return nosuch\" 0",
        "EVAL \"x = 1\" 0",
        "EVAL \"KEYS = 1\" 0",
        "EVAL \"redis.call = nil\" 0",
        "EVAL \"retur x\" 0",
        "EVAL \"return redis.call('SET', 'k', 'v') .. {}\" 0",
        "EVAL \"redis.call('SET', 'k', 'v') return redis.call('LPUSH', 'k', 1)\" 0",
        "EVAL \"\n\nredis.call('LPUSH', 'k', 1)\" 0",
        "EVAL \"local ok, e = pcall(redis.call, 'LPUSH', 'k', 1) return e\" 0",
        "EVAL \"local ok, e = pcall(error, 'x') return {ok, e}\" 0",
        "EVAL \"return redis.sha1hex()\" 0",
        "EVAL \"return redis.log(1)\" 0",
        "EVAL \"return redis.setresp(4)\" 0",
        "EVAL \"return redis.setresp()\" 0",
        "EVAL \"return redis.set_repl(9)\" 0",
        "EVAL \"return setmetatable(_G, {})\" 0",
        "EVAL \"loadstring('error(1)')()\" 0",
        "EVAL \"return string.rep()\" 0",
        "EVAL \"return 1\" x",
        "EVAL \"return 1\" 2 a",
        "EVAL \"return 1\" -1",
        "EVAL \"return 1\"",
        "EVALSHA abc 0",
        "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
        "EVAL_RO \"return redis.call('SET', 'a', 1)\" 0",
        "EVAL \"#!lua flags=no-writes\nreturn redis.call('SET', 'a', 1)\" 0",
        "EVAL \"#!lua flags=nosuch\nreturn 1\" 0",
        "EVAL \"#!lua x=y\nreturn 1\" 0",
        "EVAL \"#!lua\nreturn 1\" 0",
        "EVAL_RO \"#!lua\nreturn 1\" 0",
        "SCRIPT LOAD \"retur 1\"",
        "SCRIPT NOSUCH",
        "SCRIPT KILL",
        "SCRIPT FLUSH nosuch",
    ]);
}

#[test]
fn scripts_are_remembered_until_they_are_forgotten() {
    let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    same_as_redis(&[
        "SCRIPT LOAD \"return 1\"",
        &format!("SCRIPT EXISTS {name} {} nonsense", name.to_uppercase()),
        &format!("EVALSHA {} 0", name.to_uppercase()),
        &format!("EVALSHA_RO {name} 0"),
        "EVAL \"return 2\" 0",
        "SCRIPT EXISTS 7f923f79fe76194c868d7e1d0820de36700eb649",
        "SCRIPT FLUSH ASYNC",
        &format!("EVALSHA {name} 0"),
        &format!("SCRIPT EXISTS {name}"),
        "SCRIPT FLUSH",
    ]);
}

/// Calls of the libraries' functions with single values as arguments.
const LIBRARIES: &[&str] = &[
    "EVAL \"math.randomseed(1) return {tostring(math.random()), math.random(1000000)}\" 0",
    "EVAL \"math.randomseed(-7.9) return {math.random(10), math.random(-5.5, 9.5)}\" 0",
    "EVAL \"math.randomseed(2^31 + 5) return {math.random(10), math.random(-5, 9)}\" 0",
    "EVAL \"local j = cjson.new() j.encode_number_precision(3) \
     return {j.encode(1/3), cjson.encode(1/3)}\" 0",
    "EVAL \"return cjson.encode({1, 'a', {b = {1, 2}}, true})\" 0",
    "EVAL \"return cjson.encode({'/', '\\\\', string.char(0, 1, 31, 127, 200)})\" 0",
    "EVAL \"return cjson.encode({[1] = 1, [2] = 2, [30] = 3})\" 0",
    "EVAL \"return cjson.encode({[1] = 1, [2] = 2, [5] = 3})\" 0",
    "EVAL \"return cjson.encode({[1.5] = 1})\" 0",
    "EVAL \"return cjson.encode({[true] = 1})\" 0",
    "EVAL \"return cjson.encode(1/0)\" 0",
    "EVAL \"return cjson.encode(0/0)\" 0",
    "EVAL \"return cjson.encode(print)\" 0",
    "EVAL \"return cjson.encode(tostring)\" 0",
    "EVAL \"return cjson.encode()\" 0",
    "EVAL \"return cjson.encode(nil)\" 0",
    "EVAL \"return cjson.encode(cjson.null)\" 0",
    "EVAL \"return {type(cjson.null), cjson.decode('null') == cjson.null}\" 0",
    "EVAL \"local t = {} t.t = t return cjson.encode(t)\" 0",
    "EVAL \"return cjson.decode(('['):rep(1001))\" 0",
    "EVAL \"return cjson.decode()\" 0",
    "EVAL \"return cjson.decode({})\" 0",
    "EVAL \"return {cjson.encode_sparse_array(true, 5, 6)}\" 0",
    "EVAL \"return cjson.encode({[1] = 1, [100] = 2})\" 0",
    "EVAL \"return cjson.encode_number_precision(3)\" 0",
    "EVAL \"return cjson.encode({1/3, 100000})\" 0",
    "EVAL \"return cjson.encode_max_depth(2)\" 0",
    "EVAL \"return cjson.encode({{{}}})\" 0",
    "EVAL \"return cjson.encode_max_depth(0)\" 0",
    "EVAL \"return cmsgpack.pack()\" 0",
    "EVAL \"return cmsgpack.pack(1, 'a', {})\" 0",
    "EVAL \"return {cmsgpack.unpack(cmsgpack.pack(1, 'a', {2}))}\" 0",
    "EVAL \"return {cmsgpack.unpack_one(cmsgpack.pack(1, 'a'))}\" 0",
    "EVAL \"return {cmsgpack.unpack_one(cmsgpack.pack(1, 'a'), 1)}\" 0",
    "EVAL \"return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}\" 0",
    "EVAL \"return cmsgpack.unpack_one('a', 9)\" 0",
    "EVAL \"return cmsgpack.unpack_one('a', -1)\" 0",
    "EVAL \"local a = {} for i = 1, 7999 do a[i] = 1 end \
     return redis.call('RPUSH', KEYS[1], unpack(a))\" 1 many",
    "EVAL \"return cmsgpack.unpack('')\" 0",
    "EVAL \"return cmsgpack.unpack(string.char(0xda, 1))\" 0",
    "EVAL \"return cmsgpack.unpack(string.char(0xc1))\" 0",
    "EVAL \"return cmsgpack.unpack(nil)\" 0",
    "EVAL \"local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)\" 0",
    "EVAL \"return struct.pack('s', 'abc')\" 0",
    "EVAL \"return {struct.unpack('s', 'abc')}\" 0",
    "EVAL \"return {struct.unpack('sb', struct.pack('sb', 'abc', 5))}\" 0",
    "EVAL \"return struct.pack('c5', 'abc')\" 0",
    "EVAL \"return struct.pack('bc0', 3, 'abc')\" 0",
    "EVAL \"return {struct.unpack('bc0', struct.pack('bc0', 3, 'abc'))}\" 0",
    "EVAL \"return {struct.unpack('c0', 'abc')}\" 0",
    "EVAL \"return struct.unpack('i', 'abc')\" 0",
    "EVAL \"return struct.unpack('b', 'abc', 0)\" 0",
    "EVAL \"return struct.pack('i33', 1)\" 0",
    "EVAL \"return struct.pack('i99999999999', 1)\" 0",
    "EVAL \"return struct.pack('!3', 1)\" 0",
    "EVAL \"return struct.pack('y', 1)\" 0",
    "EVAL \"return struct.pack('i')\" 0",
    "EVAL \"return struct.size('s')\" 0",
    "EVAL \"return struct.size('c0')\" 0",
    "EVAL \"return bit.band()\" 0",
    "EVAL \"return bit.tobit('x')\" 0",
    "EVAL \"return bit.tobit('7')\" 0",
];

#[test]
fn libraries_are_those_of_redis() {
    let bit = "local t = {} for _, f in ipairs({'band', 'bor', 'bxor', 'lshift', 'rshift', \
               'arshift', 'rol', 'ror'}) do for _, p in ipairs({{1, 2}, {-1, 31}, {255, 8}, \
               {2^31, 1}, {2^32 + 5, 33}, {0.5, 1.5}, {-2^40, 4}}) do \
               t[#t + 1] = tostring(bit[f](p[1], p[2])) end end \
               for _, v in ipairs({0, 1, -1, 2^31, 2^33 + 7, 1.5, 2.5}) do \
               t[#t + 1] = bit.tobit(v) t[#t + 1] = bit.bnot(v) t[#t + 1] = bit.bswap(v) \
               t[#t + 1] = bit.tohex(v) t[#t + 1] = bit.tohex(v, 4) t[#t + 1] = bit.tohex(v, -8) \
               end t[#t + 1] = bit.band(7, 5, 4) return t";
    let round_trip = "local t = {} for _, text in ipairs(ARGV) do \
                      local ok, value = pcall(cjson.decode, text) \
                      if ok then value = cjson.encode(value) end \
                      t[#t + 1] = tostring(value) end return t";
    let values = "{1, -1, 1.5, 127, 128, 255, 256, 65535, 65536, 2^32, 2^53, -32, -33, -128, -129, \
                  -32768, -32769, -2^31, -2^31 - 1, 1e300, 0.1, true, false, 'text', \
                  ('x'):rep(31), ('x'):rep(32), ('x'):rep(256), ('x'):rep(65536), {}, {1, 2, 3}, \
                  {a = 1}, {1, {2, {3}}}, {[1] = 1, [2] = 2}, {[1] = 1, [3] = 3}}";
    let packs = format!(
        "local t = {{}} for _, v in ipairs({values}) do t[#t + 1] = cmsgpack.pack(v) \
         t[#t + 1] = cjson.encode({{cmsgpack.unpack(cmsgpack.pack(v))}}) end return t"
    );
    let structs = "local t = {} for _, f in ipairs({'b', 'B', 'h', 'H', 'l', 'L', 'i', 'I', 'i3', \
                   '>i4', '<i4', '>h', 'f', 'd', '>d', 'i8', 'T', '!8bd', '>!4bi', 'bxh'}) do \
                   for _, v in ipairs({0, 1, -1, 127, 128, 255, 65535, 1.5}) do \
                   local ok, p = pcall(struct.pack, f, v, v) t[#t + 1] = tostring(p) \
                   if ok then local a, b, c = struct.unpack(f, p) \
                   t[#t + 1] = tostring(a) .. ' ' .. tostring(b) .. ' ' .. tostring(c) end end \
                   t[#t + 1] = struct.size(f) end return t";
    let commands = [
        format!("EVAL \"{bit}\" 0"),
        format!("EVAL \"{packs}\" 0"),
        format!("EVAL \"{structs}\" 0"),
        format!(
            "EVAL \"{round_trip}\" 0 1 -1 1.5 1e3 1e14 1e15 123456789012345678 0.1 null \
             true false [] {{}} [1,2,[3,null]] [null] [1,null] 01 1. .5 -.5 +1 0x10 -0x1f \
             inf nan -inf infinity 1e \
             tru nul [1,] [1 [ {{ }} {{1:2}} {{,}} [,] ] x 1x [1]x"
        ),
    ];
    let commands: Vec<_> = commands.iter().map(String::as_str).collect();
    same_as_redis(&commands);
    let texts = [
        r#""a\u0041\u00e9\u20ac\ud83d\ude00 \/ \b\f\n\r\t\\""#,
        r#""\ud83d""#,
        r#""\udc00""#,
        r#""\u12""#,
        r#""\x""#,
        r#""open"#,
        r#"{"a":1}"#,
        r#"{"a" 1}"#,
        r#"{"a":1,}"#,
        r#"{"a":{"b":[1,2,{"c":null}]}}"#,
        "\0\0",
        " [ 1 , 2 ] ",
    ];
    let words: Vec<_> = ["EVAL", round_trip, "0"].into_iter().chain(texts).collect();
    same_words_as_redis(&words);
    same_as_redis(LIBRARIES);
}

#[test]
fn scripts_have_the_rights_of_their_client() {
    for server in [Server::redis(), Server::nagi()] {
        let mut client = server.connect_resp();
        let user = "ACL SETUSER limited on nopass ~mine* +eval +get +set +multi +exec";
        client.check(user, "+OK\r\n");
        client.check("AUTH limited x", "+OK\r\n");
        let may = "redis.acl_check_cmd('GET', 'mine') and not redis.acl_check_cmd('GET', 'other') \
                   and not redis.acl_check_cmd('DEL', 'mine')";
        client.check(&format!("EVAL \"return {may}\" 0"), ":1\r\n");
        client.check("EVAL \"return redis.call('SET', 'mine', 1)\" 0", "+OK\r\n");
        for command in ["'GET', 'other'", "'DEL', 'mine'"] {
            let request = format!("EVAL \"return redis.call({command})\" 0");
            let refused = error(&client.run(&request));
            assert!(refused.contains("script"), "{refused}");
            client.check("MULTI", "+OK\r\n");
            client.check(&request, "+QUEUED\r\n");
            let replies = client.run("EXEC");
            assert!(!error(&replies.list()[0]).is_empty(), "{replies:?}");
        }
    }
}

#[test]
fn help_lists_the_subcommands() {
    let help = Server::nagi().connect_resp().run("SCRIPT HELP").list().len();
    assert_eq!(help, 11);
}

#[test]
fn transactions_run_scripts_with_keys_that_are_not_declared() {
    same_as_redis(&[
        "WATCH watched",
        "MULTI",
        "SELECT 2",
        "SET a 1",
        "EVAL \"redis.call('INCR', 'a') return redis.call('INCRBY', 'b', 5)\" 0",
        "EVAL \"return {redis.call('GET', 'a'), redis.call('DBSIZE')}\" 1 a",
        "EVAL \"return redis.call('NOSUCH')\" 0",
        "SCRIPT LOAD \"return redis.call('GET', 'b')\"",
        "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
        "GET b",
        "EXEC",
        "GET a",
        "MULTI",
        "EVAL \"return 1\" 5",
        "EXEC",
        "MULTI",
        "EVAL \"redis.call('SET', 'c', 1) return #redis.call('KEYS', '*')\" 0",
        "FLUSHALL",
        "EVAL \"return redis.call('DBSIZE')\" 0",
        "EXEC",
    ]);
}

/// The text of an error; the empty string for any other reply.
pub(crate) fn error(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => text.clone(),
        _ => String::new(),
    }
}

/// Waits until the server reports a slow script.
pub(crate) fn until_busy(client: &mut Connection) {
    let is_so = || error(&client.run("EVAL \"return 1\" 0")).starts_with("BUSY").then_some(());
    until("a script to be slow", is_so).unwrap();
}

#[test]
fn a_slow_script_delays_only_requests_for_its_keys() {
    for workers in ["1", "2"] {
        let server = Server::nagi_with(&["--workers", workers, "--busy-reply-threshold", "50"]);
        let [mut script, mut needs, mut other] = [(); 3].map(|()| server.connect_resp());
        other.check("MSET free 1 held 2 declared 3", "+OK\r\n");
        let endless = format!("EVAL \"redis.call('GET', 'held') {ENDLESS}\" 1 declared");
        script.send(encode_command(&words(&endless)));
        until_busy(&mut other);
        for key in ["held", "declared"] {
            needs.send(encode_command(&["GET", key]));
        }
        for count in 1..=100 {
            other.check("GET free", "$1\r\n1\r\n");
            other.check("INCR counter", format!(":{count}\r\n"));
        }
        other.check("SCRIPT KILL", "+OK\r\n");
        let ended = error(&script.reply());
        assert!(ended.contains("Script killed by user with SCRIPT KILL"), "{ended}");
        needs.expect("$1\r\n2\r\n$1\r\n3\r\n");
        other.check("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.\r\n");
    }
}

#[test]
fn a_script_is_killed_where_it_is() {
    let mut redis = tool("redis-server");
    redis.args(["--busy-reply-threshold", "50"]);
    let redis = Server::start_redis(redis).unwrap_or_else(|problem| panic!("{problem}"));
    for server in [Server::nagi_with(&["--busy-reply-threshold", "50"]), redis] {
        let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
        for (text, line) in [
            ("while true do end", 1),
            ("\n\nwhile true do pcall(function() while true do end end) end", 3),
            ("local f = function()\nwhile true do end\nend\nreturn f()", 2),
        ] {
            script.send(encode_command(&["EVAL", text, "0"]));
            until("a slow script", || {
                (other.run("SCRIPT KILL") == Reply::Simple("OK".to_owned())).then_some(())
            })
            .expect("it can be killed");
            let ended = error(&script.reply());
            let begins = "ERR Script killed by user with SCRIPT KILL... script: ";
            assert!(ended.starts_with(begins), "{ended}");
            assert!(ended.ends_with(&format!(", on @user_script:{line}.")), "{ended}");
        }
    }
}

/// Neither a transaction that is sent while a slow script runs waits for it, nor a transaction that
/// has been waiting since the script began.
#[test]
fn transactions_do_not_wait_for_a_slow_script() {
    // With one worker, other requests come after the script if the script is known to have been
    // received.
    let server = Server::nagi_with(&["--busy-reply-threshold", "500", "--workers", "1"]);
    let [mut script, mut early, mut late, mut other] = [(); 4].map(|()| server.connect_resp());
    let transaction = |client: &mut Connection| {
        client.check("MULTI", "+OK\r\n");
        client.check("EVAL \"return 1\" 0", "+QUEUED\r\n");
    };
    transaction(&mut early);
    transaction(&mut late);
    script.send(encode_command(&["EVAL", ENDLESS, "0"]));
    let is_sent = || other.run("CLIENT LIST").text().contains(" cmd=eval ").then_some(());
    until("the script", is_sent).expect("it runs");
    early.send(encode_command(&["EXEC"]));
    let refused = "-EXECABORT Transaction discarded because of: BUSY Redis is busy running a \
                   script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
    early.expect(refused);
    late.check("EXEC", refused);
    early.check("SCRIPT KILL", "+OK\r\n");
    script.reply();
    transaction(&mut early);
    early.check("EXEC", "*1\r\n:1\r\n");
}

#[test]
fn a_script_that_has_written_comes_to_its_end() {
    let server = Server::nagi_with(&["--busy-reply-threshold", "50"]);
    let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
    let loops = "redis.call('SET', 'a', 1) local from = os.clock() \
                 while os.clock() < from + 1 do end return 'over'";
    script.send(encode_command(&["EVAL", loops, "0"]));
    until_busy(&mut other);
    let refused = error(&other.run("SCRIPT KILL"));
    assert!(refused.starts_with("UNKILLABLE"), "{refused}");
    assert_eq!(error(&other.run("FUNCTION KILL")), refused);
    script.expect("$4\r\nover\r\n");
    other.check("GET a", "$1\r\n1\r\n");
}

#[test]
fn with_busy_reply_all_nothing_else_runs_during_a_slow_script() {
    let server = Server::nagi_with(&["--busy-reply-threshold", "50", "--busy-reply", "all"]);
    let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
    script.send(encode_command(&["EVAL", ENDLESS, "0"]));
    until_busy(&mut other);
    let refused = error(&other.run("GET a"));
    assert!(refused.starts_with("BUSY"), "{refused}");
    other.check("SCRIPT KILL", "+OK\r\n");
    script.reply();
    other.check("GET a", "$-1\r\n");
}

#[test]
fn clients_that_wait_are_served_at_a_scripts_end() {
    for server in [Server::redis(), Server::nagi()] {
        let [mut first, mut second, mut moves, mut script, mut observer] =
            [(); 5].map(|()| server.connect_resp());
        let mut blocked = |client: &mut Connection, request: &str, count: usize| {
            client.send(encode_command(&words(request)));
            let field = format!("blocked_clients:{count}\r\n");
            let is_so = || observer.run("INFO clients").text().contains(&field).then_some(());
            until("clients to wait", is_so).unwrap();
        };
        blocked(&mut first, "BLPOP list 0", 1);
        blocked(&mut moves, "BLMOVE source target LEFT LEFT 0", 2);
        blocked(&mut second, "BLPOP target 0", 3);
        let text = "redis.call('RPUSH', 'list', 'a', 'b') redis.call('LPOP', 'list') \
                    redis.call('RPUSH', 'source', 'c') return redis.call('LLEN', 'list')";
        script.check(&format!("EVAL \"{text}\" 0"), ":1\r\n");
        first.expect("*2\r\n$4\r\nlist\r\n$1\r\nb\r\n");
        moves.expect("$1\r\nc\r\n");
        second.expect("*2\r\n$6\r\ntarget\r\n$1\r\nc\r\n");
        script.check("EXISTS list source target", ":0\r\n");
        blocked(&mut first, "BLPOP list 0", 1);
        script.check("MULTI", "+OK\r\n");
        script.check("EVAL \"return redis.call('RPUSH', 'list', 'a')\" 0", "+QUEUED\r\n");
        script.check("EXEC", "*1\r\n:1\r\n");
        first.expect("*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
    }
}

/// Scripts move amounts between accounts, with declared and undeclared keys, alone and within
/// transactions. Other clients compute sums meanwhile, which must not change.
#[test]
fn scripts_are_seen_as_a_whole_or_not_at_all() {
    const ACCOUNTS: u64 = 8;
    const MOVES: usize = 300;
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    for account in 0..ACCOUNTS {
        client.check(&format!("SET account:{account} 100"), "+OK\r\n");
    }
    let accounts: Vec<_> = (0..ACCOUNTS).map(|account| format!("account:{account}")).collect();
    let transfer = "local a, b = KEYS[1] or ARGV[1], KEYS[2] or ARGV[2] \
                    redis.call('DECR', a) redis.call('INCR', b) return 1";
    let sum = "local sum = 0 for i = 0, 7 do sum = sum + redis.call('GET', 'account:' .. i) end \
               return sum";
    let mut random = Random::announced();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let movers: Vec<_> = (0..4)
            .map(|mover| {
                let (mut random, mut client) = (random.fork(), server.connect_resp());
                let accounts = &accounts;
                scope.spawn(move || {
                    for _ in 0..MOVES {
                        let from = &accounts[random.below(ACCOUNTS) as usize];
                        let to = &accounts[random.below(ACCOUNTS) as usize];
                        let keys = if mover % 2 == 0 { "2" } else { "0" };
                        let eval = ["EVAL", transfer, keys, from, to];
                        if mover < 2 {
                            assert_eq!(client.run_words(&eval).integer(), 1);
                            continue;
                        }
                        client.check("MULTI", "+OK\r\n");
                        client.run_words(&eval);
                        client.run_words(&["DECR", from]);
                        client.run_words(&["INCR", to]);
                        assert_eq!(client.run("EXEC").list().len(), 3);
                    }
                })
            })
            .collect();
        let mut reader = server.connect_resp();
        let (accounts, is_over) = (&accounts, &is_over);
        let reads = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let total: i64 = reader.run_words(&["EVAL", sum, "0"]).integer();
                assert_eq!(total, 800);
                let mut request = vec!["MGET"];
                request.extend(accounts.iter().map(String::as_str));
                reader.check("MULTI", "+OK\r\n");
                request.iter().skip(1).for_each(|name| {
                    reader.run_words(&["GET", name]);
                });
                let total: i64 = reader
                    .run("EXEC")
                    .list()
                    .iter()
                    .map(|it| it.text().parse::<i64>().unwrap())
                    .sum();
                assert_eq!(total, 800);
            }
        });
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        reads.join().unwrap();
    });
}

#[test]
fn lua_that_takes_too_much_memory_is_ended() {
    let server = Server::nagi_with(&["--script-memory-limit", "32mb"]);
    let mut client = server.connect_resp();
    for text in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "return ('x'):rep(1e9)",
        "local function f() return f() + 1 end return f()",
        "return string.find(('a'):rep(300000), ('a?'):rep(300000) .. 'b')",
    ] {
        let refused = error(&client.run_words(&["EVAL", text, "0"]));
        assert!(refused.starts_with("ERR "), "{text}: {refused}");
        client.check("EVAL \"return 1\" 0", ":1\r\n");
    }
    assert!(client.run("INFO memory").text().contains("number_of_cached_scripts:5\r\n"));
}

/// Each element used to take a place on Lua's stack, whose size is limited; exceeding the limit
/// ended the process.
#[test]
fn tables_of_any_size_are_returned_encoded_and_packed() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let fill = "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end ";
        let returned = client.run_words(&["EVAL", &format!("{fill} return t"), "0"]);
        assert_eq!(returned.list().len(), 20_000);
        assert_eq!(returned.list()[19_999].text(), "x20000");
        for library in ["cjson.decode(cjson.encode(t))", "cmsgpack.unpack(cmsgpack.pack(t))"] {
            let script = format!("{fill} return #{library}");
            assert_eq!(client.run_words(&["EVAL", &script, "0"]).integer(), 20_000, "{library}");
        }
    }
}

/// Redis 7.0 used `%.17g`.
#[test]
fn numbers_are_written_as_by_redis_7_2() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for (number, text) in [
        ("19.99", "19.99"),
        ("0.1", "0.1"),
        ("-0.0", "0"),
        ("1700000000000000000", "1700000000000000000"),
        ("1e300", "1e+300"),
        ("2^53", "9007199254740992"),
    ] {
        let script =
            format!("EVAL \"redis.call('SET', 'k', {number}) return redis.call('GET', 'k')\" 0");
        client.check(&script, format!("${}\r\n{text}\r\n", text.len()));
    }
    client.check(
        "EVAL \"return redis.call('INCRBY', 'n', 1700000000000000000)\" 0",
        ":1700000000000000000\r\n",
    );
    for (number, text) in [("0.1", "0.1"), ("1e17", "100000000000000000"), ("0/0", "nan")] {
        let script = format!("EVAL \"return {{double={number}}}\" 0");
        client.check(&script, format!("${}\r\n{text}\r\n", text.len()));
    }
}

#[test]
fn the_least_recently_used_script_of_eval_is_evicted() {
    const SCRIPTS: usize = 600;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("EVAL \"return 1\" 0", ":1\r\n");
    for number in 0..SCRIPTS {
        client.check(&format!("EVAL \"return {number} + 2\" 0"), format!(":{}\r\n", number + 2));
        client.check("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", ":1\r\n");
    }
    assert!(client.run("INFO stats").text().contains("evicted_scripts:101\r\n"));
}

/// A refused command is no write, and the write after it is the first one.
#[test]
fn a_script_that_has_written_after_a_refusal_cannot_be_killed() {
    let server = Server::nagi_with(&["--busy-reply-threshold", "50"]);
    let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
    other.check("ACL SETUSER ann on >pw ~ok* +@all", "+OK\r\n");
    script.check("AUTH ann pw", "+OK\r\n");
    let text = "redis.pcall('SET', 'no', 1) redis.call('SET', 'ok', 1) \
                while redis.call('PUBSUB', 'NUMSUB', 'end')[2] == 0 do end return 'over'";
    script.send(encode_command(&["EVAL", text, "0"]));
    until_busy(&mut other);
    let refused = error(&other.run("SCRIPT KILL"));
    assert!(refused.starts_with("UNKILLABLE"), "{refused}");
    other.run("SUBSCRIBE end");
    script.expect("$4\r\nover\r\n");
}

#[test]
fn function_stats_tell_that_a_script_is_slow() {
    let server = Server::nagi_with(&["--busy-reply-threshold", "50"]);
    let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
    script.send(encode_command(&["EVAL", ENDLESS, "0"]));
    until_busy(&mut other);
    let refused = error(&other.run("FUNCTION STATS"));
    let expected = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                    NOSAVE.";
    assert_eq!(refused, expected);
    other.check("SCRIPT KILL", "+OK\r\n");
    script.reply();
    assert!(matches!(other.run("FUNCTION STATS"), Reply::Array(_)));
}

/// A save that fails while a script runs must not leave half of its changes.
#[test]
fn a_failed_save_does_not_end_a_script_that_has_written() {
    let folder = Folder::new("script-misconf");
    let gone = folder.0.join("gone");
    std::fs::create_dir_all(&gone).unwrap();
    let server = Server::nagi_with(&["--dir", gone.to_str().unwrap(), "--save", "3600 1"]);
    let [mut script, mut other, mut subscriber] = [(); 3].map(|()| server.connect_resp());
    other.check("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n");
    std::fs::remove_dir(&gone).unwrap();
    other.check("BGSAVE", "+Background saving started\r\n");
    let failed = || {
        let persistence = other.run("INFO persistence").text();
        persistence.contains("rdb_last_bgsave_status:err").then_some(())
    };
    until("the failure", failed).unwrap();
    let text = "redis.call('SET', 'a', 1) \
                while redis.call('PUBSUB', 'NUMSUB', 'refused')[2] == 0 do end \
                redis.call('SET', 'b', 1) return redis.call('PING')";
    script.send(encode_command(&["EVAL", text, "0"]));
    let has_written = || (other.run("DBSIZE") == Reply::Integer(1)).then_some(());
    until("the first write", has_written).unwrap();
    other.check("CONFIG SET stop-writes-on-bgsave-error yes", "+OK\r\n");
    assert!(error(&other.run("SET c 1")).starts_with("MISCONF"));
    subscriber.run("SUBSCRIBE refused");
    script.expect("+PONG\r\n");
}

#[test]
fn reads_of_a_script_do_not_count_without_touch() {
    let server = Server::nagi_with(&["--maxmemory-policy", "allkeys-lfu"]);
    let mut client = server.connect_resp();
    client.check("SET k v", "+OK\r\n");
    let before = client.run("OBJECT FREQ k").integer();
    client.check("CLIENT NO-TOUCH ON", "+OK\r\n");
    let reads = "for _ = 1, 1000 do redis.call('GET', 'k') end \
                 return redis.call('OBJECT', 'FREQ', 'k')";
    let freq = client.run(&format!("EVAL \"{reads}\" 1 k"));
    assert_eq!(freq.integer(), before);
    client.check("CLIENT NO-TOUCH OFF", "+OK\r\n");
    assert!(client.run(&format!("EVAL \"{reads}\" 1 k")).integer() > before);
}

/// A pause also holds requests that have been waiting for the script thread, or for keys, when it
/// begins.
#[test]
fn requests_in_queues_wait_for_the_end_of_a_pause() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let [mut first, mut queued, mut claiming, mut other] = [(); 4].map(|()| server.connect_resp());
    let text = "return redis.call('SET', 'a', 1)";
    let sha = other.run_words(&["SCRIPT", "LOAD", text]).text();
    let loops = "redis.call('SET', 'mark', 1) \
                 while redis.call('PUBSUB', 'NUMSUB', 'paused')[2] == 0 do end return 'over'";
    first.send(encode_command(&["EVAL", loops, "1", "held"]));
    let has_written = || (other.run("DBSIZE") == Reply::Integer(1)).then_some(());
    until("the script", has_written).unwrap();
    queued.send(encode_command(&["EVALSHA", &sha, "0"]));
    claiming.check("MULTI", "+OK\r\n");
    claiming.check("SET held 1", "+QUEUED\r\n");
    claiming.send(encode_command(&["EXEC"]));
    let run = || {
        let clients = other.run("CLIENT LIST").text();
        [" cmd=evalsha ", " cmd=exec "].iter().all(|it| clients.contains(it)).then_some(())
    };
    until("the others", run).unwrap();
    other.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    let mut subscriber = server.connect_resp();
    subscriber.run("SUBSCRIBE paused");
    first.expect("$4\r\nover\r\n");
    let both = || other.run("INFO clients").text().contains("blocked_clients:2\r\n").then_some(());
    until("both to wait", both).unwrap();
    other.check("EXISTS a held", ":0\r\n");
    other.check("CLIENT UNPAUSE", "+OK\r\n");
    queued.expect("+OK\r\n");
    claiming.expect("*1\r\n+OK\r\n");
    other.check("EXISTS a held", ":2\r\n");
}
