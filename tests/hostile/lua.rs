//! Scripts that allocate memory, recurse or loop without end.

use harness::{Connection, Server, encode_command, until};

use crate::scripting::{error, same_as_redis, until_busy};

/// Scripts that allocate memory until their limit is reached.
const ALLOCATING: [&str; 21] = [
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} while true do t[#t + 1] = tostring(#t) end",
    "local t = {} while true do t[#t + 1] = function() return t end end",
    "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    "local s = 'x' while true do s = s .. s end",
    "local s = 'x' while true do s = s:rep(1000) end",
    "return ('x'):rep(2 ^ 31 - 1)",
    "return ('xyz'):rep(2 ^ 31 - 1)",
    "return ('x'):rep(1e6):gsub('x', ('y'):rep(1e6))",
    "return ('x'):rep(1e6):gsub('', ('y'):rep(1e6))",
    "local t = {} for i = 1, 1e6 do t[i] = ('x'):rep(1e6) .. i end",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1e5 do t[i] = s end return table.concat(t)",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1e5 do t[i] = s end return cjson.encode(t)",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1e5 do t[i] = s end return cmsgpack.pack(t)",
    "local f = '%s' local s = ('x'):rep(1e6) while true do s = f:format(s .. s) end",
    "local t while true do t = {t} end",
    "local s = ('{'):rep(1e7) return assert(loadstring('return ' .. s))",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1e5 do t[i] = s end return t",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 4000 do t[i] = s end \
     redis.call('DEL', unpack(t))",
    "local t = ('x'):rep(1e5) for i = 1, 100 do t = {t, t} end return t",
    "local t = ('x'):rep(1e5) for i = 1, 100 do t = {t, t} end return cjson.encode(t)",
];

/// Scripts that run without end, most of them in places where no line of the script is executed.
const ENDLESS: [&str; 22] = [
    "while true do end",
    "repeat until false",
    "local function f() return f() end return f()",
    // This script would use up memory in the end; each step takes longer than the one before.
    "local function f(...) return f(1, ...) end return f()",
    "local function f() error('x') end while true do pcall(f) end",
    "while true do pcall(function() while true do end end) end",
    "local function f() while true do end end while true do xpcall(f, f) end",
    "while true do pcall(pcall, pcall, error) end",
    "local f = coroutine.wrap(function() while true do coroutine.yield() end end) \
     while true do f() end",
    "while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end",
    "table.sort({3, 2, 1, 4}, function(a, b) while true do end end)",
    "return ('x'):gsub('x', function() while true do end end)",
    "return setmetatable({}, {__index = function() while true do end end}).x",
    "return string.find(('a'):rep(1e5), ('.-'):rep(100) .. 'b')",
    "return string.match(('a'):rep(1e5), ('a-'):rep(100) .. 'b')",
    "while true do pcall(redis.call, 'GET', 'other') end",
    "while true do redis.pcall('NOSUCH') end",
    "local t = {} for i = 1, 900 do t = {t, t} end return t",
    "local t = {} for i = 1, 900 do t = {t, t} end return cjson.encode(t)",
    "local f = coroutine.wrap(function() while true do end end) pcall(f) \
     while true do pcall(function() while true do end end) end",
    "return load(collectgarbage)",
    "table.insert({}, -2147483648, 1)",
];

/// Checks that scripts run, and that a client without scripts is served.
fn check_alive(client: &mut Connection) {
    client.check("EVAL \"return 1\" 0", ":1\r\n");
    client.check("INCRBY alive 0", ":0\r\n");
}

#[test]
fn scripts_that_allocate_end_with_an_error() {
    let mut server = Server::nagi_with(&["--script-memory-limit", "32mb"]);
    let mut client = server.connect_resp();
    for text in ALLOCATING {
        let refused = error(&client.run_words(&["EVAL", text, "0"]));
        assert!(refused.starts_with("ERR "), "{text}: {refused:?}");
        check_alive(&mut client);
    }
    // A call whose error is caught must not keep memory in use.
    let caught = "local f = function() return ('x'):rep(2 ^ 31 - 1) end \
                  for i = 1, 200 do pcall(f) end return 'over'";
    client.check(&format!("EVAL \"{caught}\" 0"), "$4\r\nover\r\n");
    assert!(server.is_running() && !server.log().contains("panicked"), "{}", server.log());
    let megabytes = server.resident_bytes() >> 20;
    assert!(megabytes < 300, "{megabytes} MB");
}

#[test]
fn scripts_that_go_on_without_end_can_be_ended() {
    // A memory limit would end some of these scripts as well.
    let mut server = Server::nagi_with(&[
        "--busy-reply-threshold",
        "20",
        "--workers",
        "1",
        "--script-memory-limit",
        "4gb",
    ]);
    let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
    for text in ENDLESS {
        script.send(encode_command(&["EVAL", text, "0"]));
        until_busy(&mut other);
        for _ in 0..20 {
            other.check("INCRBY alive 0", ":0\r\n");
        }
        other.check("SCRIPT KILL", "+OK\r\n");
        let ended = error(&script.reply());
        assert!(ended.contains("Script killed by user with SCRIPT KILL"), "{text}: {ended}");
        check_alive(&mut script);
    }
    assert!(server.is_running() && !server.log().contains("panicked"), "{}", server.log());
}

/// The pattern nearly matches at every position of the key: the comparison takes minutes.
#[test]
fn a_script_can_be_ended_within_a_command() {
    let mut server = Server::nagi_with(&["--busy-reply-threshold", "20"]);
    let [mut script, mut other] = [(); 2].map(|()| server.connect_resp());
    let key = "a".repeat(4_000_000);
    other.check_raw(encode_command(&["SET", key.as_str(), "1"]), "+OK\r\n");
    let pattern = format!("*{}b", "a".repeat(50_000));
    for text in ["return redis.call('KEYS', ARGV[1])", "return redis.pcall('KEYS', ARGV[1])"] {
        script.send(encode_command(&["EVAL", text, "0", pattern.as_str()]));
        until_busy(&mut other);
        other.check("SCRIPT KILL", "+OK\r\n");
        let ended = error(&script.reply());
        assert!(ended.starts_with("ERR the script was ended during a command"), "{text}: {ended}");
        check_alive(&mut script);
    }
    assert!(server.is_running() && !server.log().contains("panicked"), "{}", server.log());
}

/// A client that disconnects does not end its script, which may have changed data. SCRIPT KILL ends
/// the script, and so does a shutdown of the server.
#[test]
fn scripts_of_clients_that_left_can_be_ended() {
    let mut server = Server::nagi_with(&["--busy-reply-threshold", "20"]);
    let mut other = server.connect_resp();
    for _ in 0..2 {
        let mut script = server.connect_resp();
        script.send(encode_command(&["EVAL", ENDLESS[4], "0"]));
        until_busy(&mut other);
        drop(script);
        let reply = until("the end", || {
            let reply = other.run("SCRIPT KILL");
            other.run("EVAL \"return 1\" 0");
            error(&reply).starts_with("NOTBUSY").then_some(())
        });
        reply.unwrap();
        check_alive(&mut other);
    }
    let mut script = server.connect_resp();
    script.send(encode_command(&["EVAL", ENDLESS[4], "0"]));
    until_busy(&mut other);
    other.send(encode_command(&["SHUTDOWN", "NOSAVE"]));
    assert!(server.wait_for_exit().success());
}

#[test]
fn recursion_and_depth_end_as_in_redis() {
    let nested = "local t = {} for i = 1, 500 do t = {t} end return t";
    let mut commands: Vec<String> = [
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end return f()",
        "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
        "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) \
         return tostring(t)",
        "return cjson.decode(('['):rep(1000) .. (']'):rep(1000))",
        "return cjson.decode(('['):rep(1001) .. (']'):rep(1001))",
        "return cjson.decode(('['):rep(100000))",
        "return cjson.decode(('{\\\"a\\\":'):rep(1001))",
        "local t = {} for i = 1, 1000 do t = {t} end return #cjson.encode(t)",
        "local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)",
        "local t = {} t.t = t return cjson.encode(t)",
        "local t = {} t[1] = t return #cmsgpack.pack(t)",
        "local t = {} for i = 1, 100 do t = {t} end return #cmsgpack.pack(t)",
        "return string.rep('x', -1)",
        "return string.rep('', 1e9)",
        "return string.format('%1000d', 1)",
        "return string.format('%99.99f', 1)",
        "return unpack({}, 1, 1e8)",
        "return #string.rep('x', 1e6)",
        "return string.find('x', '(')",
        "return string.find('x', '[')",
        "return string.find('x', '%')",
        "return string.find(('('):rep(100), ('(('):rep(40))",
        "return select('#', string.byte(('x'):rep(1e6), 1, -1))",
        "return bit.lshift(1, 1e308)",
        "return struct.pack('i999', 1)",
        "return struct.unpack('i', '')",
        "return tonumber(('9'):rep(1e5))",
        "return redis.sha1hex(('x'):rep(1e6))",
        "error({err = ('x'):rep(100)})",
        nested,
    ]
    .iter()
    .map(|text| format!("EVAL \"{text}\" 0"))
    .collect();
    commands.push("EVAL \"return redis.call('EVAL', 'return 1', 0)\" 0".to_owned());
    same_as_redis(&commands.iter().map(String::as_str).collect::<Vec<_>>());
}
