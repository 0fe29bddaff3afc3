//! Tests of whole scripts.

use super::*;
use crate::host::Words;
use crate::{LogLevel, Source};
use nagi_proto::Output;
use std::cell::Cell;

/// A server that replies with a command's first word, and ends scripts after a time.
#[derive(Default)]
struct Echo {
    looks_left: Rc<Cell<u32>>,
    /// The lines that scripts have logged.
    lines: Rc<RefCell<Vec<String>>>,
    /// Errors in replies, and whether they were counted before.
    errors: Rc<RefCell<Vec<(String, bool)>>>,
}

impl Host for Echo {
    fn call(&mut self, words: &Words, _: Version, reply: &mut Vec<u8>) {
        match words.args().at(0) {
            b"fail" => reply.extend_from_slice(b"-WRONGTYPE it is\r\n"),
            b"attribute" => reply.extend_from_slice(b"|1\r\n+a\r\n*1\r\n:1\r\n$4\r\nreal\r\n"),
            b"reply" => reply.extend_from_slice(words.args().at(1)),
            b"array" => reply.extend_from_slice(b"*3\r\n:1\r\n$-1\r\n*1\r\n+OK\r\n"),
            word => {
                let text = String::from_utf8_lossy(word);
                reply.extend(format!("${}\r\n{text}\r\n", text.len()).into_bytes());
            }
        }
    }

    fn may_call(&mut self, _: &Words) -> Option<bool> {
        None
    }

    fn note_error(&mut self, text: &[u8], is_counted: bool) {
        self.errors.borrow_mut().push((String::from_utf8_lossy(text).into_owned(), is_counted));
    }

    fn log(&mut self, _: LogLevel, text: &[u8]) {
        self.lines.borrow_mut().push(String::from_utf8_lossy(text).into_owned());
    }

    fn is_to_end(&mut self) -> bool {
        self.looks_left.set(self.looks_left.get().saturating_sub(1));
        self.looks_left.get() == 0
    }
}

/// The reply to a script, with `|` for line breaks and without the script's name.
fn run(engine: &mut Engine, text: &str) -> String {
    let name = Digest::of(text.as_bytes());
    if let Err(error) = engine.compile(name, Source::parse(text.as_bytes()).unwrap().body) {
        return format!("compiling: {error}");
    }
    let mut out = Output::default();
    let mut writer = Writer::new(&mut out, Version::Two);
    let nothing = Args::new(&[], &[]);
    match engine.run(&name, (nothing, nothing), (Version::Two, &mut writer)) {
        Ok(()) => {
            let bytes: Vec<u8> = out.slices().flatten().copied().collect();
            String::from_utf8_lossy(&bytes).replace("\r\n", "|")
        }
        Err(failure) => {
            let text = String::from_utf8_lossy(&failure.message).into_owned();
            text.replace(&name.to_string(), "SHA")
        }
    }
}

fn engine(looks: u32) -> Engine {
    engine_with(looks, Rc::default())
}

fn engine_with(looks: u32, errors: Rc<RefCell<Vec<(String, bool)>>>) -> Engine {
    let looks_left = Rc::new(Cell::new(looks));
    engine_for(Echo { looks_left, errors, ..Echo::default() }, false)
}

fn engine_for(host: Echo, has_libraries: bool) -> Engine {
    Engine::new(Box::new(host), "7.2.4", has_libraries, 64 << 20).unwrap()
}

#[test]
fn values_become_replies() {
    let mut engine = engine(u32::MAX);
    for (text, reply) in [
        (
            "return {1, 2.7, 'a', false, true, {3, nil, 4}, {ok='x'}}",
            "*7|:1|:2|$1|a|$-1|:1|*1|:3|+x|",
        ),
        ("return redis.call('array')", "*3|:1|$-1|*1|+OK|"),
        ("return redis.call('attribute')", "$4|real|"),
        ("return redis.call(1.5)", "$3|1.5|"),
        ("return redis.pcall('fail').err", "$15|WRONGTYPE it is|"),
        ("return {err='x y'}", "-x y|"),
        ("return redis.error_reply('x')", "-ERR x|"),
        ("return redis.error_reply('-A x')", "-A x|"),
        ("return redis.status_reply('fine')", "+fine|"),
        ("return redis.sha1hex('')", "$40|da39a3ee5e6b4b0d3255bfef95601890afd80709|"),
        ("return redis.sha1hex(1e14) == redis.sha1hex('1e+14')", ":1|"),
        ("return redis.sha1hex(-12) == redis.sha1hex('-12')", ":1|"),
        ("return {double=3.5}", "$3|3.5|"),
    ] {
        assert_eq!(run(&mut engine, text), reply, "{text}");
    }
}

/// Garbage is collected while a reply is written, which removes pairs from weak tables.
#[test]
fn replies_of_weak_tables_have_the_announced_length() {
    for (text, announced, lines) in [
        // In RESP2, a pair counts as two. Its value has a line for its length.
        ("t = setmetatable({}, {__mode = 'v'}) ADD t[i] = {i} REPLY {map = t}", 2, 3),
        ("t = setmetatable({}, {__mode = 'k'}) ADD t[{i}] = true REPLY {set = t}", 1, 2),
    ] {
        let text = text.replace("ADD", "collectgarbage('stop') for i = 1, 50000 do");
        let text = text.replace("REPLY", "end collectgarbage('restart') return");
        let reply = run(&mut engine(u32::MAX), &format!("local {text}"));
        let (header, elements) = reply.split_once('|').unwrap();
        let length: usize = header.trim_start_matches('*').parse().unwrap();
        let found = elements.matches('|').count();
        assert_eq!(found * announced, length * lines, "{text}");
    }
}

#[test]
fn replies_become_values() {
    let mut engine = engine(u32::MAX);
    for (reply, read, value) in [
        (":-5", "v", ":-5|"),
        ("$-1", "tostring(v)", "$5|false|"),
        ("*-1", "tostring(v)", "$5|false|"),
        ("_", "tostring(v)", "$3|nil|"),
        ("#t", "tostring(v)", "$4|true|"),
        (",1.5", "v.double * 2", ":3|"),
        ("(123456789012345678901", "v.big_number", "$21|123456789012345678901|"),
        ("%2|+a|:1|_|:2", "tostring(v.map.ok) .. #v.map", "$4|nil0|"),
        ("%1|$1|a|*2|:7|:8", "v.map.a[2]", ":8|"),
        ("~2|$1|a|:9", "tostring(v.set.a) .. tostring(v.set[9])", "$8|truetrue|"),
        ("=8|txt:text", "v.verbatim_string.format .. v.verbatim_string.string", "$7|txttext|"),
        ("*1|*1|*1|$2|in", "v[1][1][1]", "$2|in|"),
        (">1|$1|p", "v[1]", "$1|p|"),
    ] {
        let reply = reply.replace('|', "\\r\\n");
        let text = format!("local v = redis.call('reply', '{reply}\\r\\n') return {read}");
        assert_eq!(run(&mut engine, &text), value, "{reply}");
    }
    // Deeper than Lua's stack: an error, and no end of the process.
    let text = "return redis.call('reply', ('*1\\r\\n'):rep(100000) .. ':1\\r\\n')";
    assert!(run(&mut engine, text).contains("too deeply"), "{}", run(&mut engine, text));
}

#[test]
fn errors_in_replies_are_noted() {
    let errors = Rc::default();
    let mut engine = engine_with(u32::MAX, Rc::clone(&errors));
    for (text, noted) in [
        ("return redis.pcall('fail')", vec![("WRONGTYPE it is", true)]),
        ("return {1, {err='A x'}, redis.error_reply('y')}", vec![("A x", false), ("ERR y", false)]),
        ("redis.pcall('fail') return redis.status_reply('x')", vec![]),
        ("error({err='A x'})", vec![]),
    ] {
        run(&mut engine, text);
        let noted: Vec<_> = noted.into_iter().map(|(text, is)| (text.to_owned(), is)).collect();
        assert_eq!(errors.take(), noted, "{text}");
    }
}

#[test]
fn errors_say_where() {
    let mut engine = engine(u32::MAX);
    for (text, error) in [
        ("\nerror('x')", "ERR user_script:2: x script: SHA, on @user_script:2."),
        ("error({err='MY x'})", "MY x script: SHA, on @user_script:1."),
        ("error({err=42})", "42 script: SHA, on @user_script:1."),
        ("error({})", "ERR unknown error script: SHA, on @user_script:1."),
        ("redis.call('fail')", "WRONGTYPE it is script: SHA, on @user_script:1."),
        (
            "redis.call()",
            "ERR Please specify at least one argument for this redis lib call \
          script: SHA, on @user_script:1.",
        ),
        (
            "return nosuch",
            "ERR user_script:1: Script attempted to access nonexistent global \
          variable 'nosuch' script: SHA, on @user_script:1.",
        ),
        (
            "x = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: SHA, on \
          @user_script:1.",
        ),
        (
            "setmetatable(_G, {})",
            "ERR Attempt to modify a readonly table script: SHA, on \
          @user_script:1.",
        ),
        (
            "loadstring('error(1)')()",
            "ERR [string \"error(1)\"]:1: 1 script: SHA, on \
          error(1):1.",
        ),
        (
            "string.rep()",
            "ERR user_script:1: bad argument #1 to 'rep' (string expected, got \
          no value) script: SHA, on @user_script:1.",
        ),
        (
            "local function f() return f() + 1 end return f()",
            "ERR user_script:1: stack overflow script: SHA, on @user_script:1.",
        ),
        ("retur x", "compiling: user_script:1: '=' expected near 'x'"),
    ] {
        assert_eq!(run(&mut engine, text), error, "{text}");
    }
}

#[test]
fn what_scripts_share_cannot_be_changed() {
    let mut engine = engine(u32::MAX);
    for change in [
        "string.x = 1",
        "rawset(redis, 'call', 1)",
        "table.insert(table, 1)",
        "getmetatable('').__index = 1",
        "setmetatable(string, {})",
        "getmetatable(_G).__index = nil",
        "rawset(_G, 'x', 1)",
        "math.pi = 3",
        "_G = 1",
        "redis.call = nil",
        "setreadonly(_G, false)",
    ] {
        let reply = run(&mut engine, change);
        assert!(reply.contains("readonly") || reply.contains("'setreadonly'"), "{reply}");
    }
    let names = "local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) \
                 return table.concat(t, ' ')";
    let reply = run(&mut engine, names);
    for name in ["debug", "dofile", "getfenv", "io", "loadfile", "package", "print", "newproxy"] {
        assert!(!reply.split(['|', ' ']).any(|known| known == name), "{name}: {reply}");
    }
}

/// Each of these has led out of the sandbox, or ended the process, somewhere.
#[test]
fn known_holes_are_closed() {
    let mut engine = engine(u32::MAX);
    for (hole, text, reply) in [
        ("CVE-2025-46817", "return unpack({}, -2, 2147483647)", "too many results to unpack"),
        ("CVE-2025-46817", "return unpack({}, 0, 2147483647)", "too many results to unpack"),
        ("CVE-2025-46818", "getmetatable('').__add = function() end", "readonly table"),
        (
            "CVE-2025-49844",
            "local n = 0 local f = load(function() collectgarbage() n = n + 1 \
             return ({'return ', 'tostring', '(1)'})[n] end, ('x'):rep(50) .. n) return f()",
            "$1|1|",
        ),
        ("CVE-2025-46819", "return #loadstring('return [====[ a ]====]')()", ":3|"),
        (
            "CVE-2014-5461",
            "local a = {} for i = 1, 150 do a[i] = 'p' .. i end \
             local f = loadstring('return function(' .. table.concat(a, ',') .. ', ...) \
             return select(\"#\", ...) end')() return f()",
            ":0|",
        ),
        ("bytecode", "return loadstring('\\27Lua')", "$-1|"),
        ("bytecode", "return string.dump", "$-1|"),
        (
            "recursion of patterns",
            "return string.find(('a'):rep(300000), ('a?'):rep(300000) .. 'b')",
            "pattern too complex",
        ),
    ] {
        let replied = run(&mut engine, text);
        assert!(replied.contains(reply), "{hole}: {replied}");
    }
}

#[test]
fn a_script_is_ended_wherever_it_is() {
    for text in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local f = function() while true do end end while true do pcall(f) end",
        "local f = function() while true do end end while true do xpcall(f, f) end",
        "coroutine.wrap(function() while true do end end)()",
        "local f = coroutine.wrap(function() while true do end end) pcall(f) \
         while true do pcall(function() while true do end end) end",
        "return string.find(('a'):rep(200000), ('.-'):rep(100) .. 'b')",
        "local s = ('a'):rep(2e6) return s:find(('a'):rep(1e6) .. 'b', 1, true)",
        "return ('x'):rep(2e6):find('%bxy')",
        "return ('x'):rep(2e6):find('(x*)%1y')",
        "return ('x'):rep(1e6):find('[' .. ('a'):rep(1e6) .. ']')",
        "return ('x'):rep(1e6):find('[' .. ('a'):rep(1e6) .. 'x]*')",
        "return ('x'):rep(1e6):find('%f[' .. ('a'):rep(1e6) .. ']')",
        "local s, t = ('x'):rep(1e6), {} local a, b = s .. 'a', s .. 'b' \
         for i = 1, 5000 do t[i] = i % 2 == 0 and a or b end table.sort(t)",
        "for i = 1, 100 do collectgarbage() end",
        "for i = 1, 100 do collectgarbage('step') end",
        "return load((' '):rep(1e6):gmatch('.'))",
        "table.insert({}, -2147483648, 1)",
        "local t = {} for k = 26, 0, -1 do t[2 ^ k] = 1 end table.remove(t, 1)",
        "local t = {} for k = 26, 0, -1 do t[2 ^ k] = 1 end table.foreachi(t, coroutine.running)",
        "local t = {} for i = 1, 3000 do t[i] = i end table.foreach(t, coroutine.running)",
        "local t = {} for i = 1, 3000 do t[i] = i end table.sort(t, rawequal)",
        "return #cjson.decode('[' .. ('1,'):rep(1e5) .. '1]')",
        "return #cmsgpack.unpack('\\221\\0\\1\\0\\0' .. ('\\1'):rep(65536))",
        "local t = {} for i = 1, 900 do t = {t, t} end return t",
        "local t = {} for i = 1, 900 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t} end return cmsgpack.pack(t)",
    ] {
        let reply = run(&mut engine(20), text);
        assert!(reply.starts_with(&format!("ERR {ENDED}")), "{text}: {reply}");
    }
    for (text, line) in [
        ("while true do end", 1),
        ("\nlocal f = function()\nwhile true do end end\nf()", 3),
        ("\nwhile true do pcall(function() while true do end end) end", 2),
    ] {
        let reply = run(&mut engine(20), text);
        let place = format!(" script: SHA, on @user_script:{line}.");
        assert!(reply.contains(&format!("ERR {ENDED}{place}")), "{text}: {reply}");
    }
    let mut engine = engine(20);
    run(&mut engine, "while true do end");
    assert!(run(&mut engine, "while true do end").contains(ENDED));
}

#[test]
fn loading_a_library_ends_wherever_it_is() {
    let looks_left = Rc::new(Cell::new(u32::MAX));
    let mut engine = engine_for(Echo { looks_left, ..Echo::default() }, true);
    for text in ["while true do end", "local f f = function() while true do end return f() end f()"]
    {
        let error = engine.load_library(text.as_bytes()).unwrap_err();
        assert!(error.contains(LOADED_TOO_LONG), "{text}: {error}");
    }
    let fine = b"redis.register_function('f', function() return 1 end)";
    assert_eq!(engine.load_library(fine).unwrap().functions().count(), 1);
}

/// Rust never holds more Lua values at once than mlua has room for.
#[test]
fn many_values_are_packed_and_passed() {
    let mut engine = engine(u32::MAX);
    for (text, reply) in [
        (
            "local t = {} for i = 1, 100000 do t['k' .. i] = 'v' .. i end \
             local u = cmsgpack.unpack(cmsgpack.pack({t})) return u[1].k99999",
            "$6|v99999|",
        ),
        (
            "local t = {} for i = 1, 100000 do t[i] = 'v' .. i end \
             return #cmsgpack.unpack(cmsgpack.pack(t))",
            ":100000|",
        ),
        (
            "local t = {} for i = 1, 100000 do t['k' .. i] = {'v' .. i} end \
             return cjson.decode(cjson.encode(t)).k100000[1]",
            "$7|v100000|",
        ),
        (
            "local t = {} for i = 1, 7990 do t[i] = 'v' .. i end \
             return select('#', cmsgpack.unpack(cmsgpack.pack(unpack(t))))",
            ":7990|",
        ),
        (
            "local t = {} for i = 1, 100000 do t['k' .. i] = 'v' .. i end \
             return #cjson.encode({map=t}) .. type(cjson.decode(cjson.encode(t)))",
            "$12|1777799table|",
        ),
        (
            "cjson.decode_max_depth(1e9) return cjson.decode(('['):rep(1e6))",
            "ERR user_script:1: Found too many nested data structures (2001) at character \
             2001 script: SHA, on @user_script:1.",
        ),
        (
            "local t = {} for i = 1, 1e5 do t = {t} end cjson.encode_max_depth(1e9) \
             return cjson.encode(t)",
            "ERR user_script:1: Cannot serialise, excessive nesting (2001) script: SHA, on \
             @user_script:1.",
        ),
        (
            "return cmsgpack.unpack(('\\161x'):rep(8200))",
            "ERR user_script:1: stack overflow (too many return values at once; use \
             unpack_one or unpack_limit instead.) script: SHA, on @user_script:1.",
        ),
    ] {
        assert_eq!(run(&mut engine, text), reply, "{text}");
    }
    for table in ["t", "{map=t}", "{set=t}"] {
        let text = format!("local t = {{}} for i = 1, 70000 do t[i] = 'v' .. i end return {table}");
        let reply = run(&mut engine, &text);
        assert!(reply.contains("v70000") || table == "{set=t}", "{table}: {}", reply.len());
    }
    // As many arguments as Lua passes to any function, or an error of Lua.
    for count in (7990..8110).step_by(7) {
        let text = format!(
            "local t = {{}} for i = 1, {count} do t[i] = 'v' .. i end \
             return redis.call('first', unpack(t))"
        );
        let reply = run(&mut engine, &text);
        assert!(reply == "$5|first|" || reply.contains("too many"), "{count}: {reply}");
    }
}

/// Garbage of a script does not count against the next one.
#[test]
fn memory_that_scripts_leave_is_freed() {
    let mut engine = engine(u32::MAX);
    engine.limit_memory(16 << 20);
    for text in [
        "return #('x'):rep(5e6)",
        "return #('y'):rep(5e6)",
        "local t = {} for i = 1, 1e5 do t[i] = 'x' .. i end return #t",
        "local t = {} for i = 1, 1e5 do t[i] = {} end return #t",
        "local t = {} for i = 1, 1e5 do t[i] = function() return t end end return #t",
        "return #('z'):rep(5e6)",
    ] {
        let reply = run(&mut engine, text);
        assert!(reply.starts_with(':'), "{text}: {reply}");
    }
}

#[test]
fn settings_of_the_collector_last_as_long_as_their_script() {
    let mut engine = engine(u32::MAX);
    for setting in ["setpause", "setstepmul"] {
        let text = format!("return collectgarbage('{setting}', 1000)");
        for _ in 0..2 {
            assert_eq!(run(&mut engine, &text), ":200|", "{setting}");
        }
    }
}

#[test]
fn memory_has_a_limit() {
    let mut engine = engine(u32::MAX);
    for text in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        // Lua's table of strings grows, and must shrink when not a byte is left.
        "local t = {} while true do t[#t + 1] = tostring(#t) end",
        "local t while true do t = {t} end",
        "return ('x'):rep(1e9)",
        "local s = 'x' while true do s = s .. s end",
        // Objects that take memory outside of Lua.
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end \
         return cjson.encode(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[s .. i] = i end \
         return cjson.encode(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end \
         return cmsgpack.pack(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end return t",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = {ok = s} end return t",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = {err = s} end return t",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end \
         return redis.call('first', unpack(t))",
        "local t = ('x'):rep(1e5) for i = 1, 100 do t = {t, t} end return t",
        "local t = ('x'):rep(1e5) for i = 1, 100 do t = {t, t} end return cjson.encode(t)",
        "local t = ('x'):rep(1e5) for i = 1, 100 do t = {map = {t, t}} end return t",
        "local t = ('x'):rep(1e5) for i = 1, 14 do t = {t, t} end return cmsgpack.pack(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end \
         return struct.pack(('s'):rep(100) .. 'L', unpack(t))",
        // Escaped, a text is longer; and so are values with the commas between them.
        "return cjson.encode({('\\1'):rep(2e7), type})",
        "cjson.encode_sparse_array(true, 0) return cjson.encode({[2^24] = type})",
    ] {
        let reply = run(&mut engine, text);
        let shown = reply.get(..200.min(reply.len()));
        assert!(reply.contains("not enough memory"), "{text}: {shown:?}");
        assert_eq!(run(&mut engine, "return 1"), ":1|");
    }
}

#[test]
fn logged_words_become_one_short_line() {
    let lines = Rc::new(RefCell::default());
    let looks_left = Rc::new(Cell::new(u32::MAX));
    let mut engine =
        engine_for(Echo { lines: Rc::clone(&lines), looks_left, ..Echo::default() }, false);
    let long = "x".repeat(1024);
    for (text, line) in [
        ("redis.log(1, 'a', 2, {}, 'b')", "a 2 b"),
        ("redis.log(1, 'a\\r\\n1:M 28 Nov * b')", r"a\r\n1:M 28 Nov * b"),
        ("redis.log(1, ('x'):rep(3000))", &long),
        ("redis.log(1, ('x'):rep(1022), 'x', 'y')", &format!("{} x", "x".repeat(1022))),
    ] {
        assert_eq!(run(&mut engine, text), "$-1|", "{text}");
        assert_eq!(lines.take(), [line], "{text}");
    }
}

#[test]
fn descriptions_of_functions_have_a_limit() {
    let looks_left = Rc::new(Cell::new(u32::MAX));
    let mut engine = engine_for(Echo { looks_left, ..Echo::default() }, true);
    let library = |count: u32| {
        format!(
            "local s = 'x' for i = 1, 20 do s = s .. s end
            local function f() return 1 end
            local function add(i) redis.register_function{{
                function_name = 'f' .. i, description = s, callback = f}} end
            for i = 1, {count} do add(i) end"
        )
    };
    // Each takes more than half of the limit, so that there is room for one of them at a time.
    let first = engine.load_library(library(40).as_bytes()).unwrap();
    engine.install_library("first", first);
    for count in [40, 100] {
        let error = engine.load_library(library(count).as_bytes()).unwrap_err();
        assert!(error.contains("not enough memory"), "{count}: {error}");
    }
    engine.retain_libraries(|_| false);
    assert_eq!(engine.load_library(library(40).as_bytes()).unwrap().functions().count(), 40);
}

/// What Redis 8.0.6 replies.
#[test]
fn native_functions_raise_strings() {
    let mut engine = engine(u32::MAX);
    for (text, reply) in [
        (
            "local ok, e = pcall(cmsgpack.unpack, '\\130\\192\\1') return type(e) .. ':' .. e",
            "$25|string:table index is nil|",
        ),
        (
            "local ok, e = pcall(function() cmsgpack.unpack('\\130\\192\\1') end) return e",
            "$18|table index is nil|",
        ),
        (
            "cmsgpack.unpack('\\130\\192\\1')",
            "ERR table index is nil script: SHA, on @user_script:1.",
        ),
        (
            "local ok, e = pcall(cjson.decode, '[') return e",
            "$45|Expected value but found T_END at character 2|",
        ),
        (
            "local s = ('x'):rep(1e7) local t = {} for i = 1, 7 do t[i] = s end \
             local ok, e = pcall(cmsgpack.pack, t) return type(e) .. ':' .. e",
            "$24|string:not enough memory|",
        ),
    ] {
        assert_eq!(run(&mut engine, text), reply, "{text}");
    }
    // Lua lacks memory for the result, which alone would fit.
    for function in ["struct.pack('s', s)", "cjson.decode(json)"] {
        let text = format!(
            "local s = ('x'):rep(2e7) collectgarbage() \
             local json = '\"1' .. s .. '\"' collectgarbage() \
             local other = s:sub(1, 1e7) return {function}, other"
        );
        let error = "ERR user_script:1: not enough memory script: SHA, on @user_script:1.";
        assert_eq!(run(&mut engine, &text), error, "{text}");
    }
}

/// What Redis 8.0.6 replies.
#[test]
fn numbers_are_read_from_strings() {
    let mut engine = engine(u32::MAX);
    for (text, reply) in [
        ("return bit.band('0x10', ' 255 ')", ":16|"),
        ("return struct.unpack('b', 'abc', '0x2')", ":98|"),
        ("return struct.unpack('sc0', '0x2\\0abcd')", "$2|ab|"),
        ("return cmsgpack.unpack_limit('\\1\\2\\3', '0x2')", ":2|"),
        ("return cmsgpack.unpack_one('\\1\\2\\3', '0x1')", ":2|"),
        ("return math.random('0x10', '0x10')", ":16|"),
        ("return cjson.encode_max_depth('0x10')", ":16|"),
        ("return redis.log('0x1', 'x')", "$-1|"),
    ] {
        assert_eq!(run(&mut engine, text), reply, "{text}");
    }
    for (text, error) in [
        ("bit.band('x', 1)", "bad argument #1 to 'band' (number expected, got string)"),
        ("math.random(1, 'x')", "bad argument #2 to 'random' (number expected, got string)"),
        ("math.random(1, 2, 3)", "wrong number of arguments"),
        ("math.randomseed({})", "bad argument #1 to 'randomseed' (number expected, got table)"),
        (
            "cmsgpack.unpack_one('\\1', 'x')",
            "bad argument #2 to 'unpack_one' (number expected, got string)",
        ),
        (
            "cmsgpack.unpack_limit('\\1')",
            "bad argument #2 to 'unpack_limit' (number expected, got no value)",
        ),
    ] {
        let error = format!("ERR user_script:1: {error} script: SHA, on @user_script:1.");
        assert_eq!(run(&mut engine, text), error, "{text}");
    }
}

/// What Redis 8.0.6 replies.
#[test]
fn numbers_become_the_text_that_printf_writes() {
    let text = "local function check(n) local text = string.format('%.14g', n) \
                assert(tostring(n) == text and n .. '' == text, text) end \
                for _, n in ipairs {0, 0.5, 1e-5, 99999999999999.5, 2 ^ 53, 2 ^ 63, 1e300, \
                    1 / 0, 0 / 0} do check(n) check(-n) end \
                for digits = 0, 20 do for less = -1, 1 do \
                    check(10 ^ digits + less) check(-10 ^ digits + less) end \
                    for _ = 1, 50 do check(math.floor(math.random() * 10 ^ digits)) end end \
                return tostring(-99999999999999)";
    assert_eq!(run(&mut engine(u32::MAX), text), "$15|-99999999999999|");
}

#[test]
fn values_are_packed_as_by_c() {
    let mut engine = engine(u32::MAX);
    let hex = "return (struct.pack(FORMAT):gsub('.', function(c) return ('%02x'):format(c:byte()) \
               end))";
    for (arguments, reply) in [
        ("'L', 2^64", "0000000000000000"),
        ("'>L', 2^70", "0000000000000000"),
        ("'L', 1/0", "0000000000000000"),
        ("'L', -1/0", "0000000000000080"),
        ("'L', 0/0", "0000000000000080"),
        ("'L', 2^63 + 2048", "0008000000000080"),
        ("'L', -1.5", "ffffffffffffffff"),
        ("'H', 1e10", "00e4"),
        ("'i16', -1", "ffffffffffffffff0000000000000000"),
    ] {
        let reply = format!("${}|{reply}|", reply.len());
        assert_eq!(run(&mut engine, &hex.replace("FORMAT", arguments)), reply, "{arguments}");
    }
    let short = "bad argument #2 to 'unpack' (data string too short)";
    for (arguments, error) in [
        ("'bc0', '\\255abcd'", short),
        ("'dc0', struct.pack('d', 0/0) .. 'abcd'", short),
        ("'b', 'abc', -1/0", short),
        ("'b', 'abc', 0", "bad argument #3 to 'unpack' (offset must be 1 or greater)"),
        ("('c1'):rep(2e5), ('x'):rep(2e5)", "stack overflow (too many results)"),
    ] {
        let error = format!("ERR user_script:1: {error} script: SHA, on @user_script:1.");
        let text = format!("return struct.unpack({arguments})");
        assert_eq!(run(&mut engine, &text), error, "{text}");
    }
    let text = "return struct.unpack('dc0', struct.pack('d', 1e300) .. 'abcd')";
    assert_eq!(run(&mut engine, text), "$0||");
}

/// What Redis 8.0.6 replies.
#[test]
fn json_is_read_as_by_cjson() {
    let mut engine = engine(u32::MAX);
    for (json, value) in [
        ("+1", "1"),
        ("0x1p3", "8"),
        ("[-0x10]", "-16"),
        ("[0x.8]", "0.5"),
        ("[nan(1)]", "nan"),
        ("[-infinity]", "-inf"),
        ("[+.5]", "0.5"),
        ("[1e400]", "inf"),
        ("[0xffffffffffffffffffffff]", "3.0948500982135e+26"),
        ("[1]\\0x", "1"),
        ("[.5]", "Expected value but found invalid token at character 2"),
        ("0x", "Expected the end but found invalid token at character 2"),
        ("[0x1p]", "Expected comma or array end but found invalid token at character 5"),
        ("[infinit]", "Expected comma or array end but found invalid token at character 5"),
        ("[+]", "Expected value but found invalid number at character 2"),
        ("[- 1]", "Expected value but found invalid number at character 2"),
        ("[1\\0]", "Expected comma or array end but found T_END at character 3"),
        ("[\"a\\0b\"]", "Expected value but found unexpected end of string at character 4"),
        ("[\"a\\\\", "Expected value but found invalid escape code at character 4"),
        ("\\0", "Expected value but found T_END at character 1"),
        ("1\\0", "JSON parser does not support UTF-16 or UTF-32"),
    ] {
        let text = format!(
            "local ok, v = pcall(cjson.decode, '{json}') \
             return tostring(type(v) == 'table' and v[1] or v)"
        );
        assert_eq!(run(&mut engine, &text), format!("${}|{value}|", value.len()), "{json}");
    }
    run(&mut engine, "cjson.decode_invalid_numbers(false)");
    for (json, why) in [
        ("+1", "token"),
        ("nan", "token"),
        ("0x1", "number"),
        ("-01", "number"),
        ("-inf", "number"),
    ] {
        let error = format!("Expected value but found invalid {why} at character 1");
        let text = format!("local ok, e = pcall(cjson.decode, '{json}') return e");
        assert_eq!(run(&mut engine, &text), format!("${}|{error}|", error.len()), "{json}");
    }
}

/// What Redis 8.0.6 replies.
#[test]
fn settings_of_cjson_are_checked() {
    let mut engine = engine(u32::MAX);
    for (call, error) in [
        ("encode_max_depth(1, 2)", "#2 found too many arguments"),
        ("encode_sparse_array(true, 2, 3, 4)", "#4 found too many arguments"),
        ("encode_keep_buffer(true, 2)", "#2 found too many arguments"),
        ("encode_invalid_numbers('foo')", "#1 invalid option 'foo'"),
        ("decode_invalid_numbers('null')", "#1 invalid option 'null'"),
        ("encode_sparse_array(1)", "#1 invalid option '1'"),
        ("encode_keep_buffer({})", "#1 string expected, got table"),
        ("encode_sparse_array(true, 'x')", "#2 number expected, got string"),
        ("encode_sparse_array(true, -1)", "#1 expected integer between 0 and 2147483647"),
        ("encode_number_precision(15)", "#1 expected integer between 1 and 14"),
    ] {
        let (name, _) = call.split_once('(').unwrap();
        let (place, why) = error.split_once(' ').unwrap();
        let error = format!("bad argument {place} to '{name}' ({why})");
        let error = format!("ERR user_script:1: {error} script: SHA, on @user_script:1.");
        assert_eq!(run(&mut engine, &format!("cjson.{call}")), error, "{call}");
    }
    for (call, reply) in [
        ("encode_max_depth(nil)", ":1000|"),
        ("encode_max_depth(2^32 + 5)", ":5|"),
        ("encode({[2^53] = 1})", "$24|{\"9.007199254741e+15\":1}|"),
        ("encode_sparse_array('on', nil, '0x10')", ":1|"),
        ("encode_sparse_array()", ":1|"),
    ] {
        assert_eq!(run(&mut engine, &format!("return cjson.{call}")), reply, "{call}");
    }
}

/// What Redis 8.0.6 replies.
#[test]
fn functions_of_redis_check_their_arguments() {
    let mut engine = engine(u32::MAX);
    let repl = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
    for (call, error) in [
        ("set_repl()", "redis.set_repl() requires one argument."),
        ("set_repl(4)", repl),
        ("set_repl(-1)", repl),
        ("set_repl(2^32)", repl),
        ("setresp(1.9)", "RESP version must be 2 or 3."),
        ("setresp({})", "RESP version must be 2 or 3."),
    ] {
        let error = format!("ERR {error} script: SHA, on @user_script:1.");
        assert_eq!(run(&mut engine, &format!("redis.{call}")), error, "{call}");
    }
    for call in ["set_repl('x')", "set_repl(3.5)", "setresp(3.5)", "setresp('3')"] {
        assert_eq!(run(&mut engine, &format!("redis.{call}")), "$-1|", "{call}");
    }
    for (text, error) in [
        (" ", " "),
        ("", "ERR "),
        ("- ", " "),
        ("-", "ERR "),
        ("a ", "a "),
        ("- a b ", " a b "),
        ("-\\r\\nab\\r\\n", "ERR ab"),
        ("a b\\r\\n\\n", "a b"),
        ("a b\\0c", "a b"),
    ] {
        let script = format!("return redis.error_reply('{text}').err");
        assert_eq!(run(&mut engine, &script), format!("${}|{error}|", error.len()), "{text}");
    }
}

#[test]
fn garbage_is_collected_after_half_a_megabyte_and_not_after_each_script() {
    let mut engine = engine(u32::MAX);
    let text = "local t = {} for i = 1, 200 do t[i] = {i} end return collectgarbage('count')";
    let kilobytes: Vec<i64> = (0..100)
        .map(|_| run(&mut engine, text).trim_matches([':', '|']).parse().unwrap())
        .collect();
    let cycles = kilobytes.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!((1..10).contains(&cycles), "{cycles} of 99: {kilobytes:?}");
    // A script that has stopped the collector stops it for itself only.
    let stopping = "collectgarbage('stop') return 1";
    assert_eq!(run(&mut engine, stopping), ":1|");
    let most = (0..500).map(|_| run(&mut engine, text).trim_matches([':', '|']).parse().unwrap());
    assert!(most.max() < Some(3000_i64));
}
