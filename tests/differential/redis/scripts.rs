//! Generates random scripts and functions. Their bodies call a few commands of the grammar, and
//! return the replies or values of every kind, or fail after they have written.

use super::differences::is_exact;
use super::generator::{Request, Words};
use harness::{Random, Reply};

/// The calls of a request's script, which determine how replies are compared.
#[derive(Clone)]
pub(super) enum Calls {
    /// The request runs no script.
    None,
    /// The script's reply is the reply to the first call.
    First(Vec<Words>),
    /// The script's reply is an array of the replies to the calls, up to the first that Lua takes
    /// for nil.
    Each(Vec<Words>),
    /// The script's reply is something else.
    Hidden(Vec<Words>),
}

impl Calls {
    pub(super) fn all(&self) -> &[Words] {
        match self {
            Calls::None => &[],
            Calls::First(calls) | Calls::Each(calls) | Calls::Hidden(calls) => calls,
        }
    }
}

/// First lines of scripts, which declare flags.
const FIRST_LINES: [&str; 12] = [
    "#!lua\n",
    "#!lua flags=no-writes\n",
    "#!lua flags=allow-oom\n",
    "#!lua flags=no-cluster\n",
    "#!lua flags=allow-cross-slot-keys\n",
    "#!lua flags=allow-stale,no-writes\n",
    "#!lua flags=nonsense\n",
    "#!lua name=x\n",
    "#!lua flags\n",
    "#!python\n",
    "#!lua",
    "#! lua\n",
];

/// Statements before the calls.
const BEGINNINGS: [&str; 12] = [
    "redis.setresp(3) ",
    "redis.setresp(3) ",
    "redis.setresp(3) ",
    "redis.setresp(3) ",
    "redis.setresp(2) ",
    "redis.setresp(4) ",
    "redis.setresp() ",
    "redis.replicate_commands() ",
    "redis.set_repl(redis.REPL_ALL) ",
    "redis.log(redis.LOG_DEBUG, 'text') ",
    "local t = {} for i = 1, #ARGV do t[i] = ARGV[i] .. i end ",
    "local n = tonumber(ARGV[1]) if n and n > 100 then return n end ",
];

/// Values that scripts return, of every kind that has a reply.
const VALUES: [&str; 72] = [
    "1",
    "-1",
    "3.99",
    "-3.99",
    "9007199254740993",
    "'text'",
    "''",
    "'a\\r\\nb'",
    "true",
    "false",
    "nil",
    "{}",
    "{1, 2, nil, 4}",
    "{1, {2, {3, {'x'}}}}",
    "{true, false, 'x'}",
    "{a = 1}",
    "{ok = 'fine'}",
    "{ok = ''}",
    "{ok = 1}",
    "{ok = 'two\\r\\nlines'}",
    "{err = 'MY fault'}",
    "{err = 'fault'}",
    "{err = ''}",
    "{err = 1}",
    "{err = '-MY fault'}",
    "{err = 'MY two\\r\\nlines'}",
    "redis.status_reply('GOOD')",
    "redis.status_reply('')",
    "redis.status_reply('a\\nb')",
    "redis.status_reply()",
    "redis.status_reply(1)",
    "redis.error_reply('MY fault')",
    "redis.error_reply('-MY fault')",
    "redis.error_reply('fault')",
    "redis.error_reply('')",
    "redis.error_reply('-')",
    "redis.error_reply(1, 2)",
    "redis.error_reply('x').err",
    "{double = 3.5}",
    "{double = 1048576.5}",
    "{double = 'x'}",
    "{map = {a = 1}}",
    "{map = {}}",
    "{map = {[1] = {2, 3}}}",
    "{set = {a = true}}",
    "{set = {}}",
    "{big_number = '123'}",
    "{big_number = '1\\n2'}",
    "{verbatim_string = {string = 'x', format = 'txt'}}",
    "{verbatim_string = {string = 'x'}}",
    "{{double = 1.5}, {map = {k = {1, 2}}}, true, false}",
    "{1, redis.error_reply('MY inner'), redis.status_reply('inner')}",
    "cjson.encode({1, 'two', {three = 3}, 0.1, 1e20})",
    "cjson.decode('[1, 2.5, null, true, \"x\", {}]')",
    "{cmsgpack.unpack(cmsgpack.pack({1, 'a', 2.5}, 'b'))}",
    "bit.tohex(65535, -4)",
    "bit.bxor(-1, 255)",
    "struct.pack('>I2i4s', 513, -7, 'abc')",
    "{struct.unpack('<I2', 'ab')}",
    "redis.sha1hex('x')",
    "redis.acl_check_cmd('SET', 'k', 'v')",
    "redis.acl_check_cmd('nonsense')",
    "{#KEYS, #ARGV}",
    "KEYS",
    "ARGV",
    "unpack({1, 2})",
    "string.format('%5.2f|%s|%d', 1.005, 'x', 7)",
    "{tostring(1e15), tostring(0.1), tonumber('0x10'), tostring(nil), tostring(2 ^ 53)}",
    "table.concat({1, 2, 'x'}, ',')",
    "math.floor(-1.5)",
    "function() end",
    "coroutine.create(function() end)",
];

/// Final statements that fail, or that call a command which must fail.
const FAILURES: [&str; 41] = [
    "error('plain')",
    "error({err = 'MY table'})",
    "error({err = 'table'})",
    "error()",
    "error('MY level', 0)",
    "return nosuch",
    "nosuch = 1",
    "local x = nil return x.y",
    "return 1 + {}",
    "return #5",
    "return {} < {}",
    "return 'a' .. {}",
    "assert(false)",
    "assert(nil, 'why')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('NOSUCH')",
    "return redis.pcall('NOSUCH', 'a')",
    "return redis.call({})",
    "return redis.pcall('GET', {})",
    "return redis.call('GET', nil)",
    "return redis.call('SET', 'a', true)",
    "return redis.call('GET')",
    "return redis.pcall('GET')",
    "return {1, redis.pcall('GET', 'a', 'b'), redis.call('INCR', 'a', 'b')}",
    "return redis.pcall('SUBSCRIBE', 'c')",
    "return redis.call('MULTI')",
    "return redis.call('EVAL', 'return 1', '0')",
    "return redis.pcall('CLIENT', 'KILL', 'x')",
    "return redis.call('HELLO', '3')",
    "redis.setresp('x')",
    "redis.set_repl(17)",
    "redis.log('x')",
    "redis.sha1hex()",
    "cjson.decode('{')",
    "cmsgpack.unpack('')",
    "KEYS[1] = 'x' return KEYS[1]",
    "redis.call = nil",
    "string.x = 1",
    "getmetatable('').__index = nil",
    "return pcall(error, {err = 'MY caught'})",
];

/// Final statements that do not compile.
const UNCOMPILED: [&str; 8] = [
    "return return",
    "x = ",
    "return 'unfinished",
    "return 1 2",
    "for",
    "if true then",
    "return \\",
    "goto a",
];

/// The text of a script, and the keys, arguments and calls that fit it.
struct Body {
    text: Vec<u8>,
    keys: Words,
    arguments: Words,
    calls: Calls,
}

/// A script that is stored under its digest, or a function.
struct Stored {
    verbs: [&'static str; 2],
    name: Vec<u8>,
    body: Body,
}

/// The scripts and functions of a history.
#[derive(Default)]
pub(super) struct Scripts {
    stored: Vec<Stored>,
}

impl Scripts {
    /// The number of stored scripts and functions.
    pub(super) const COUNT: usize = 16;

    /// Returns requests that replace the stored scripts and functions by new ones with the given
    /// calls.
    pub(super) fn renew(&mut self, random: &mut Random, calls: Vec<Vec<Words>>) -> Vec<Words> {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut requests: Vec<Words> =
            vec![words(&["SCRIPT", "FLUSH"]), words(&["FUNCTION", "FLUSH"])];
        self.stored.clear();
        let mut library = b"#!lua name=lib\n".to_vec();
        for (number, calls) in calls.into_iter().enumerate() {
            if number % 2 == 0 {
                let body = body(random, calls, true);
                requests.push([words(&["SCRIPT", "LOAD"]), vec![body.text.clone()]].concat());
                let name = b"ffffffffffffffffffffffffffffffffffffffff".to_vec();
                self.stored.push(Stored { verbs: ["EVALSHA", "EVALSHA_RO"], name, body });
            } else {
                let body = body(random, calls, false);
                let name = format!("f{number}");
                let flags = random.choose(&["", "'no-writes'", "'allow-oom', 'allow-stale'"]);
                let begin = format!(
                    "redis.register_function{{function_name = '{name}', flags = {{{flags}}}, \
                     callback = function(KEYS, ARGV) "
                );
                library = [&library, begin.as_bytes(), &body.text, b" end}\n"].concat();
                let name = name.into_bytes();
                self.stored.push(Stored { verbs: ["FCALL", "FCALL_RO"], name, body });
            }
        }
        requests.push([words(&["FUNCTION", "LOAD"]), vec![library]].concat());
        requests
    }

    /// Takes the digests of scripts from the replies to these requests.
    pub(super) fn learn(&mut self, replies: &[Reply]) {
        let scripts = self.stored.iter_mut().filter(|it| it.verbs[0] == "EVALSHA");
        for (script, reply) in scripts.zip(replies.iter().skip(2)) {
            if let Reply::Bulk(digest) = reply {
                script.name.clone_from(digest);
            }
        }
    }

    /// Returns a request that runs either a new script with these calls or a stored one.
    pub(super) fn request(&self, random: &mut Random, calls: Vec<Words>) -> Request {
        let is_stored = !self.stored.is_empty() && random.below(2) == 0;
        let new;
        let (verbs, name, body) = if is_stored {
            let stored = &self.stored[random.below(self.stored.len() as u64) as usize];
            (stored.verbs, &stored.name, &stored.body)
        } else {
            new = body(random, calls, true);
            (["EVAL", "EVAL_RO"], &new.text, &new)
        };
        let verb = verbs[usize::from(random.below(8) == 0)];
        let numkeys = match random.below(40) {
            0 => random.choose(&["-1", "x", "", "1.5", "4294967296", "9223372036854775808"]).into(),
            1 => (body.keys.len() as u64 + random.below(3)).to_string(),
            _ => body.keys.len().to_string(),
        };
        let mut words = vec![verb.into(), name.clone(), numkeys.into_bytes()];
        words.extend(body.keys.iter().chain(&body.arguments).cloned());
        match random.below(40) {
            0 => words.truncate(2 + random.below(3) as usize),
            1 => words.push(b"extra".to_vec()),
            _ => {}
        }
        Request { words, calls: body.calls.clone() }
    }
}

/// Returns a body that performs these calls.
fn body(random: &mut Random, calls: Vec<Words>, is_script: bool) -> Body {
    let mut text = String::new();
    if is_script && random.below(12) == 0 {
        text.push_str(random.choose(&FIRST_LINES));
    }
    if random.below(4) == 0 {
        text.push_str(random.choose(&BEGINNINGS));
    }
    let (mut keys, mut arguments) = (Words::new(), Words::new());
    for (number, words) in calls.iter().enumerate() {
        let expressions: Vec<String> = words
            .iter()
            .enumerate()
            .map(|(place, word)| expression(random, place, word, &mut keys, &mut arguments))
            .collect();
        let list = expressions.join(", ");
        let name = format!("r{}", number + 1);
        let statement = match random.below(16) {
            0..6 => format!("local {name} = redis.call({list}) "),
            6 => format!("local _, {name} = pcall(redis.call, {list}) "),
            7 => format!("local {name} for i = 1, 4 do {name} = redis.pcall({list}) end "),
            8 => format!(
                "local {name} = false if redis.call('exists', 'a') == 1 then \
                 {name} = redis.pcall({list}) end "
            ),
            _ => format!("local {name} = redis.pcall({list}) "),
        };
        text.push_str(&statement);
    }
    let (end, calls) = end(random, calls, is_script);
    text.push_str(&end);
    Body { text: text.into_bytes(), keys, arguments, calls }
}

/// Returns the final statement, and how the script's reply relates to the calls.
fn end(random: &mut Random, calls: Vec<Words>, is_script: bool) -> (String, Calls) {
    let names: Vec<String> = (1..=calls.len()).map(|number| format!("r{number}")).collect();
    match random.below(24) {
        0..12 => (format!("return {{{}}}", names.join(", ")), Calls::Each(calls)),
        12..15 => ("return r1".to_owned(), Calls::First(calls)),
        15 if is_exact(&calls[0]) => {
            // Lua does not define the length of a table with nils among its elements, so elements
            // are counted.
            let end = "local n = 0 if type(r1) == 'table' then for _ in pairs(r1) do n = n + 1 \
                       end end return {type(r1), n, tostring(type(r1) ~= 'table' and r1)}";
            (end.to_owned(), Calls::Hidden(calls))
        }
        16 if is_exact(&calls[0]) => {
            let end = "if type(r1) == 'table' and (r1.err or r1.ok) then return r1 end \
                       return {cjson.encode({r1}), cmsgpack.pack(r1)}";
            (end.to_owned(), Calls::Hidden(calls))
        }
        17 if is_exact(&calls[0]) => ("return type(r1)".to_owned(), Calls::Hidden(calls)),
        18 => (String::new(), Calls::Hidden(calls)),
        19 | 20 => (random.choose(&FAILURES).to_owned(), Calls::Hidden(calls)),
        21 if is_script && random.below(4) == 0 => {
            (random.choose(&UNCOMPILED).to_owned(), Calls::Hidden(calls))
        }
        _ => (format!("return {}", random.choose(&VALUES)), Calls::Hidden(calls)),
    }
}

/// Returns an expression for a word of a call: a literal, a key or an argument of the script, or a
/// number.
fn expression(
    random: &mut Random,
    place: usize,
    word: &[u8],
    keys: &mut Words,
    arguments: &mut Words,
) -> String {
    let text = std::str::from_utf8(word).unwrap_or_default();
    let is_short_number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        // Redis 7.0 passes on -0, 7.2 passes on 0.
        let is_written_alike = !text.starts_with("-0");
        is_written_alike
            && (1..16).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    // Of others, Redis 7.0 writes more digits than 7.2.
    let is_decimal = ["1.5", "-7.25", "3.5"].contains(&text);
    match random.below(8) {
        _ if word.len() > 100 => {
            arguments.push(word.to_vec());
            format!("ARGV[{}]", arguments.len())
        }
        0..3 if place == 1 => {
            keys.push(word.to_vec());
            format!("KEYS[{}]", keys.len())
        }
        3 if place > 0 => {
            arguments.push(word.to_vec());
            format!("ARGV[{}]", arguments.len())
        }
        4 | 5 if place > 0 && (is_short_number(text) || is_decimal) => {
            if text.starts_with('-') {
                format!("({text})")
            } else {
                text.to_owned()
            }
        }
        6 if place > 0 && word.len() > 1 => {
            let (first, second) = word.split_at(word.len() / 2);
            format!("{} .. {}", quoted(first), quoted(second))
        }
        7 if place == 0 => quoted(&word.to_ascii_lowercase()),
        _ => quoted(word),
    }
}

/// Returns a Lua string literal.
fn quoted(bytes: &[u8]) -> String {
    let letter = |byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\{byte:03}"),
    };
    format!("'{}'", bytes.iter().map(letter).collect::<String>())
}
