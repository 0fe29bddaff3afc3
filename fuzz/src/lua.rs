//! The invariants of scripts and function libraries, whatever their text is: they end within their
//! limits, and leave an engine that runs the next script as before.

use nagi_proto::resp::{Version, Writer};
use nagi_proto::{Args, Output, Span};
use nagi_script::{Digest, Engine, Host, LogLevel, Source, Words, is_name};
use std::cell::Cell;
use std::rc::Rc;

/// Memory limit of Lua in bytes. An engine without scripts takes about a tenth of it.
const MEMORY: usize = 4 << 20;
/// Number of checks after which a script is told to end. There is a check every 10,000
/// instructions.
const LOOKS: u32 = 30;
/// Number of scripts between two checks of the shared globals. A check takes as long as a hundred
/// short scripts.
const STRIDE: usize = 256;
/// A script that lists everything that scripts share. Functions are identified by their addresses.
const GLOBALS: &[u8] = b"local function list(value, depth)
    local seen = {}
    for name, part in pairs(value) do
        local text = tostring(part)
        if type(part) == 'table' then
            text = (depth < 2 and part ~= _G and name ~= 'KEYS' and name ~= 'ARGV') and
                list(part, depth + 1) or ''
        end
        seen[#seen + 1] = tostring(name) .. '=' .. text
    end
    table.sort(seen)
    return '{' .. table.concat(seen, ',') .. '}'
end
local strings = getmetatable('')
return list(_G, 0) .. (strings and list(strings, 1) or '') .. tostring(getmetatable(_G))";

/// A host whose reply depends on the first word of the command; all kinds of replies occur.
struct Server {
    looks_left: Rc<Cell<u32>>,
}

impl Host for Server {
    fn call(&mut self, words: &Words, version: Version, reply: &mut Vec<u8>) {
        let name = words.args().get(0).unwrap_or_default();
        let kind = name.first().copied().unwrap_or(0);
        let text: &[u8] = match (kind % 8, version) {
            (0, _) => b"+OK\r\n",
            (1, _) => b"-WRONGTYPE a\r\n",
            (2, _) => b":-7\r\n",
            (3, Version::Three) => b"%1\r\n+a\r\n,1.5\r\n",
            (4, Version::Three) => b"|1\r\n+a\r\n:1\r\n~2\r\n#t\r\n_\r\n",
            (5, Version::Three) => b"(12345678901234567890\r\n",
            (6, _) => b"*3\r\n:1\r\n$-1\r\n*1\r\n$3\r\na\x00b\r\n",
            _ => b"$-1\r\n",
        };
        reply.extend_from_slice(text);
    }

    fn may_call(&mut self, words: &Words) -> Option<bool> {
        words.args().get(0).map(|name| name.len() % 2 == 0)
    }

    fn note_error(&mut self, _: &[u8], _: bool) {}

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn is_to_end(&mut self) -> bool {
        self.looks_left.set(self.looks_left.get().saturating_sub(1));
        self.looks_left.get() == 0
    }
}

/// An engine, the listing of its globals when it was new, and the inputs since they were checked.
struct Tried {
    engine: Engine,
    has_libraries: bool,
    looks_left: Rc<Cell<u32>>,
    globals: Vec<u8>,
    unchecked: Vec<Vec<u8>>,
}

thread_local! {
    static ENGINES: [std::cell::RefCell<Tried>; 2] =
        [false, true].map(|has_libraries| Tried::new(has_libraries).into());
}

impl Tried {
    fn new(has_libraries: bool) -> Self {
        let looks_left = Rc::new(Cell::new(u32::MAX));
        let host = Box::new(Server { looks_left: Rc::clone(&looks_left) });
        let mut engine =
            Engine::new(host, "7.2.4", has_libraries, MEMORY).expect("there is memory");
        for text in [GLOBALS, b"return 1"] {
            engine.compile(Digest::of(text), text).expect("it is Lua");
        }
        let (globals, unchecked) = (Vec::new(), Vec::new());
        let mut tried = Tried { engine, has_libraries, looks_left, globals, unchecked };
        tried.run(GLOBALS, Version::Two);
        tried.globals = tried.run(GLOBALS, Version::Two);
        tried
    }

    /// Runs a compiled script. Returns its reply.
    fn run(&mut self, text: &[u8], version: Version) -> Vec<u8> {
        self.looks_left.set(LOOKS);
        let mut out = Output::default();
        let mut writer = Writer::new(&mut out, version);
        let spans = [Span { start: 0, len: 1 }, Span { start: 1, len: 1 }];
        let words = Args::new(b"k1", &spans);
        let words = (words.take(1), words.skip(1));
        match self.engine.run(&Digest::of(text), words, (version, &mut writer)) {
            Ok(()) => out.slices().flatten().copied().collect(),
            Err(failure) => failure.message,
        }
    }

    fn eval(&mut self, text: &[u8], version: Version) {
        let Ok(source) = Source::parse(text) else { return };
        let name = Digest::of(text);
        // The fuzzer finds the short one of the scripts that the engine must keep.
        let is_kept = self.engine.has(&name);
        if is_kept || self.engine.compile(name, source.body).is_ok() {
            self.run(text, version);
        }
        if !is_kept {
            self.engine.forget(&name);
        }
    }

    fn load(&mut self, text: &[u8], version: Version) {
        let Some(rest) = text.strip_prefix(b"#!lua name=") else { return };
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let (name, body) = rest.split_at(end);
        let Some(name) = std::str::from_utf8(name).ok().filter(|it| is_name(it.as_bytes())) else {
            return;
        };
        self.looks_left.set(LOOKS);
        let Ok(library) = self.engine.load_library(body) else { return };
        let described: Vec<_> = library.functions().cloned().collect();
        self.engine.install_library(name, library);
        for function in described {
            assert!(is_name(function.name.as_bytes()));
            self.looks_left.set(LOOKS);
            let mut out = Output::default();
            let to = (version, &mut Writer::new(&mut out, version));
            let called = (name, function.name.as_str());
            let nothing = Args::new(&[], &[]);
            let _ = self.engine.call(called, (nothing, nothing), to);
        }
        self.engine.retain_libraries(|_| false);
    }

    /// Runs an input, after which the engine must run the next script as before.
    fn feed(&mut self, data: &[u8]) {
        let Some((kind, text)) = data.split_first() else { return };
        let version = if kind & 8 == 0 { Version::Two } else { Version::Three };
        match self.has_libraries {
            true => self.load(text, version),
            false => self.eval(text, version),
        }
        assert!(self.engine.used_memory() <= MEMORY, "{} bytes", self.engine.used_memory());
        let reply = self.run(b"return 1", Version::Two);
        assert_eq!(reply, b":1\r\n", "{}", String::from_utf8_lossy(&reply));
    }

    /// Checks that what scripts share is as it was in a new engine.
    fn check_globals(&mut self) {
        let globals = self.run(GLOBALS, Version::Two);
        let unchecked = std::mem::take(&mut self.unchecked);
        if globals == self.globals {
            return;
        }
        let [now, before] = [&globals, &self.globals].map(|it| String::from_utf8_lossy(it));
        let culprit = unchecked.iter().find(|data| {
            let mut fresh = Tried::new(self.has_libraries);
            fresh.feed(data);
            fresh.run(GLOBALS, Version::Two) != fresh.globals
        });
        let culprit =
            culprit.map_or("several inputs together".into(), |it| it.escape_ascii().to_string());
        panic!("{culprit} changed what scripts share from {before} to {now}");
    }
}

/// The first byte selects the version of RESP, and a script or, in one of eight cases, a function
/// library. The other bytes are the text.
pub fn source(data: &[u8]) {
    let Some(kind) = data.first() else { return };
    ENGINES.with(|[scripts, libraries]| {
        let mut tried = if kind & 7 == 7 { libraries } else { scripts }.borrow_mut();
        tried.feed(data);
        tried.unchecked.push(data.to_vec());
        if tried.unchecked.len() == STRIDE {
            tried.check_globals();
        }
    });
}
