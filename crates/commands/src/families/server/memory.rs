//! MEMORY: the use of memory, counted where it is allocated.

use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::help;
use crate::state::usage::Usage;
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::{Counters, Database, EntryView, StringValue, Value};
use std::sync::atomic::Ordering;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&MEMORY];

const SUBCOMMANDS: &[&Command] = &[&DOCTOR, &HELP, &MALLOC_STATS, &PURGE, &STATS, &USAGE];

pub(crate) static MEMORY: Command = Command {
    name: "MEMORY",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about memory",
    subcommands: SUBCOMMANDS,
    run: |_, _| Err(Error::wrong_arity("memory")),
};

/// The use of memory, in bytes.
pub(crate) struct Figures {
    /// The memory that `maxmemory` limits.
    pub(crate) dataset: u64,
    /// Clients' requests and replies.
    pub(crate) clients: u64,
    /// The process and its workers at startup.
    pub(crate) startup: u64,
    /// Overhead added since startup, mainly statistics of commands.
    pub(crate) added: u64,
    /// The peak of data and clients together, sampled ten times a second.
    pub(crate) peak_used: u64,
    /// Pages in use, including free space within them.
    pub(crate) active: u64,
    /// Pages in use, and unused pages that have not been released to the kernel.
    pub(crate) resident: u64,
    /// The resident set size that the kernel counts.
    pub(crate) rss: u64,
}

impl Figures {
    pub(crate) fn read(cx: &Context<'_>) -> Figures {
        let store = cx.db.store();
        let used = store.used_bytes();
        let clients = store.client_bytes().min(used);
        let (startup, added) = (store.startup_bytes(), store.added_overhead_bytes());
        let active = store.active_bytes().max(used + startup + added);
        Figures {
            dataset: used - clients,
            clients,
            startup,
            added,
            peak_used: cx.server.statistics().peak_bytes(used),
            active,
            resident: active + store.warm_bytes() as u64,
            rss: Usage::read().map_or(0, |usage| usage.resident_bytes),
        }
    }

    /// The memory of data and clients, to be compared with `maxmemory` and the peak.
    pub(crate) fn used(&self) -> u64 {
        self.dataset + self.clients
    }

    /// The memory of the process itself, apart from data and clients.
    pub(crate) fn process(&self) -> u64 {
        self.startup + self.added
    }

    /// All allocated memory.
    pub(crate) fn allocated(&self) -> u64 {
        self.used() + self.process()
    }

    /// The percentage of `dataset` in the memory of data and clients.
    pub(crate) fn dataset_percent(&self) -> f64 {
        ratio(self.dataset, self.used()) * 100.0
    }
}

/// The ratio of two numbers of bytes.
pub(crate) fn ratio(bytes: u64, of: u64) -> f64 {
    bytes as f64 / of.max(1) as f64
}

/// The difference between two numbers of bytes.
pub(crate) fn difference(bytes: u64, than: u64) -> i64 {
    bytes.cast_signed() - than.cast_signed()
}

fn usage<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut options = RemainingArguments::from(args, 3);
    while let Some(option) = options.next() {
        if !is(option, "SAMPLES") {
            return Err(Error::SYNTAX);
        }
        // SAMPLES has no effect, since nothing is estimated here.
        if integer(options.value()?)? < 0 {
            return Err(Error::SYNTAX);
        }
    }
    match cx.db.inspect(cx.key(args.at(2)), |found| found.map(|(entry, _)| bytes_of(&entry))) {
        Some(bytes) => cx.reply.integer(i64::try_from(bytes).unwrap_or(i64::MAX)),
        None => cx.reply.null(),
    }
    Ok(())
}

/// The memory of a key with its value and its place in the table, in bytes.
fn bytes_of(entry: &EntryView<'_>) -> usize {
    /// A word in a segment of the table, with its share of the segment's free space.
    const PLACE_BYTES: usize = 12;
    /// Overhead of a chunk in addition to its bytes: two counts, and the pointer to it.
    const CHUNK_OVERHEAD_BYTES: usize = 32;
    let chunks = match entry.value() {
        Value::String(StringValue::Rope(rope)) => {
            rope.chunks().map(|chunk| chunk.len() + CHUNK_OVERHEAD_BYTES).sum()
        }
        value => value.collection_bytes_out_of_line(),
    };
    entry.bytes().next_multiple_of(8) + PLACE_BYTES + chunks
}

static USAGE: Command = Command {
    name: "USAGE",
    syntax: "key [SAMPLES count]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO)),
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1); O(N) beyond 64 KB, N being the chunks of 64 KB"),
    summary: "Returns the bytes that a key takes with its value and its place in the table",
    subcommands: &[],
    run: usage,
};

/// Tips for clients of a cluster on how to request and combine reports.
const REPORT_TIPS: &[&str] =
    &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// All databases.
fn databases<'s>(cx: &'s Context<'_>, unused: &'s Counters) -> impl Iterator<Item = Database<'s>> {
    let (store, now_ms) = (cx.db.store(), cx.db.now_ms());
    (0..store.databases()).map(move |index| store.database(index, unused, now_ms))
}

/// The mean number of bytes per key. If there are only few keys, they are measured one by one, as
/// by MEMORY USAGE: other parts of `dataset`, such as tables and free space, would dominate the
/// mean.
fn bytes_per_key(cx: &Context<'_>, keys: usize, dataset: u64) -> u64 {
    const FEW: usize = 1000;
    if keys > FEW {
        return dataset / keys as u64;
    }
    let unused = Counters::default();
    let (mut bytes, mut measured) = (0, 0_u64);
    for database in databases(cx, &unused) {
        database.scan(0, FEW, |entry| {
            bytes += bytes_of(&entry) as u64;
            measured += 1;
        });
    }
    bytes / measured.max(1)
}

fn stats<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let figures = Figures::read(cx);
    let unused = Counters::default();
    let keys: usize = databases(cx, &unused).map(|database| database.size()).sum();
    let (used, allocated) = (figures.used(), figures.allocated());
    let number = |bytes: u64| Figure::Number(bytes.cast_signed());
    let scripts = cx.server.scripts();
    let machines = [&scripts.script_bytes, &scripts.function_bytes];
    let machines: usize = machines.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
    let fields = [
        // As in INFO, the process itself is not included.
        ("peak.allocated", number(figures.peak_used)),
        ("total.allocated", number(used)),
        ("startup.allocated", number(0)),
        ("replication.backlog", number(0)),
        ("replica.fullsync.buffer", number(0)),
        ("clients.slaves", number(0)),
        ("clients.normal", number(figures.clients)),
        ("cluster.links", number(0)),
        ("aof.buffer", number(0)),
        ("lua.caches", number(scripts.cached().1 as u64)),
        ("functions.caches", number(scripts.libraries().bytes() as u64)),
        ("script.VMs", number(machines as u64)),
        ("overhead.db.hashtable.rehashing", number(0)),
        ("overhead.total", number(figures.clients)),
        ("db.dict.rehashing.count", number(0)),
        ("keys.count", number(keys as u64)),
        ("keys.bytes-per-key", number(bytes_per_key(cx, keys, figures.dataset))),
        ("dataset.bytes", number(figures.dataset)),
        ("dataset.percentage", Figure::Ratio(figures.dataset_percent())),
        ("peak.percentage", Figure::Ratio(ratio(used, figures.peak_used) * 100.0)),
        ("allocator.allocated", number(allocated)),
        ("allocator.active", number(figures.active)),
        ("allocator.resident", number(figures.resident)),
        ("allocator-fragmentation.ratio", Figure::Ratio(ratio(figures.active, allocated))),
        ("allocator-fragmentation.bytes", number(figures.active - allocated)),
        ("allocator-rss.ratio", Figure::Ratio(ratio(figures.resident, figures.active))),
        ("allocator-rss.bytes", number(figures.resident - figures.active)),
        ("rss-overhead.ratio", Figure::Ratio(ratio(figures.rss, figures.resident))),
        ("rss-overhead.bytes", Figure::Number(difference(figures.rss, figures.resident))),
        ("fragmentation", Figure::Ratio(ratio(figures.rss, allocated))),
        ("fragmentation.bytes", Figure::Number(difference(figures.rss, allocated))),
    ];
    cx.reply.map(fields.len());
    for (name, value) in fields {
        cx.reply.bulk(name.as_bytes());
        match value {
            Figure::Number(number) => cx.reply.integer(number),
            Figure::Ratio(ratio) => cx.reply.decimal(&ratio.to_string()),
        }
    }
    Ok(())
}

enum Figure {
    Number(i64),
    Ratio(f64),
}

static STATS: Command = Command {
    name: "STATS",
    syntax: "",
    arity: 2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)").tips(REPORT_TIPS),
    summary: "Returns how the memory is used",
    subcommands: &[],
    run: stats,
};

fn doctor<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let clients = cx.server.clients().len() as u64;
    let found = cx.server.statistics().findings.lines();
    cx.reply.text(&diagnosis(&Figures::read(cx), clients, &found));
    Ok(())
}

/// Describes faults in the use of memory, followed by other findings (`found`).
fn diagnosis(figures: &Figures, clients: u64, found: &str) -> String {
    const LITTLE_BYTES: u64 = 5 << 20;
    const MUCH_PER_CLIENT_BYTES: u64 = 200 << 10;
    if figures.used() < LITTLE_BYTES {
        return match found {
            "" => "There is too little data yet to say anything about its memory.\n".to_owned(),
            _ => found.to_owned(),
        };
    }
    let mut findings = Vec::new();
    if figures.peak_used > figures.used() / 2 * 3 {
        findings.push(format!(
            "Peak: {} bytes have been in use, of which {:.0} % are now. What the kernel counts may \
             stay above what is needed until it is given back.",
            figures.peak_used,
            ratio(figures.used(), figures.peak_used) * 100.0
        ));
    }
    let allocated = figures.allocated();
    if ratio(figures.rss, allocated) > 1.4 && figures.rss - allocated > 10 << 20 {
        findings.push(format!(
            "Fragmentation: the kernel counts {} bytes, {:.2} times what is in use. MEMORY PURGE \
             gives back what can be given back.",
            figures.rss,
            ratio(figures.rss, allocated)
        ));
    }
    if figures.clients / clients.max(1) > MUCH_PER_CLIENT_BYTES {
        findings.push(format!(
            "Clients: their requests and replies take {} bytes, more than {MUCH_PER_CLIENT_BYTES} \
             each. CLIENT LIST shows the tot-mem of each.",
            figures.clients
        ));
    }
    if findings.is_empty() && found.is_empty() {
        return "Nothing is wrong with the memory.\n".to_owned();
    }
    findings.iter().map(|finding| format!("* {finding}\n")).collect::<String>() + found
}

static DOCTOR: Command = Command {
    name: "DOCTOR",
    syntax: "",
    arity: 2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)").tips(REPORT_TIPS),
    summary: "Reports problems in the use of memory",
    subcommands: &[],
    run: doctor,
};

fn malloc_stats<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let figures = Figures::read(cx);
    let pages = cx.db.store().page_bytes() as u64;
    let fields = [
        ("beside the store's pages", figures.active.saturating_sub(pages)),
        ("pages of the store", pages),
        ("free places in both", figures.active - figures.allocated()),
        ("pages kept for later allocations", figures.resident - figures.active),
        ("counted by the kernel", figures.rss),
    ];
    let line = |(name, bytes): &(&str, u64)| format!("{name}: {bytes} bytes\n");
    cx.reply.text(&fields.iter().map(line).collect::<String>());
    Ok(())
}

static MALLOC_STATS: Command = Command {
    name: "MALLOC-STATS",
    syntax: "",
    arity: 2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)").tips(REPORT_TIPS),
    summary: "Reports which parts of the process hold how much memory",
    subcommands: &[],
    run: malloc_stats,
};

fn purge<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    // Limited to the current amount, since other threads allocate and free memory meanwhile.
    let mut left_bytes = cx.db.store().warm_bytes();
    cx.start(Box::new(move |cx| {
        let slice = crate::runtime::suspension::Slice::begin();
        let store = cx.db.store();
        while left_bytes > 0 {
            let released_bytes = store.purge();
            left_bytes =
                if released_bytes == 0 { 0 } else { left_bytes.saturating_sub(released_bytes) };
            if slice.is_over() {
                return Ok(crate::JobProgress::NEXT_TICK);
            }
        }
        cx.reply.ok();
        Ok(crate::JobProgress::Done)
    }))
}

static PURGE: Command = Command {
    name: "PURGE",
    syntax: "",
    arity: 2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(N), N being the memory given back")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Releases unused memory to the kernel",
    subcommands: &[],
    run: purge,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &MEMORY);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, converse};

    #[test]
    fn memory_usage_counts_key_value_and_place() {
        converse(
            "SET key value => +OK|
             MEMORY USAGE none => $-1|
             MEMORY USAGE key FOO 5 => -ERR syntax error|
             MEMORY USAGE key SAMPLES => -ERR syntax error|
             MEMORY USAGE key SAMPLES -1 => -ERR syntax error|
             MEMORY USAGE key SAMPLES x => -ERR value is not an integer or out of range|
             MEMORY USAGE key SAMPLES 0 => :28|
             MEMORY PURGE => +OK|
             MEMORY FOO => -ERR unknown subcommand 'FOO'. Try MEMORY HELP.|",
        );
        let mut bench = Bench::new();
        bench.call(&["SET", "long", &"x".repeat(200_000)]);
        let usage = bench.call(&["MEMORY", "USAGE", "long"]);
        let bytes: usize = usage.trim_matches([':', '|']).parse().unwrap();
        assert!((200_000..201_000).contains(&bytes), "{usage}");
    }

    #[test]
    fn memory_stats_and_reports_show_figures() {
        let mut bench = Bench::new();
        bench.expect("MSET a 1 b 2", "+OK|");
        let stats = bench.call(&["MEMORY", "STATS"]);
        assert!(stats.starts_with("*62|$14|peak.allocated|:"), "{stats}");
        assert!(stats.contains("|$10|keys.count|:2|"), "{stats}");
        assert!(stats.contains("|$18|keys.bytes-per-key|:28|"), "{stats}");
        bench.expect("FLUSHALL", "+OK|");
        let stats = bench.call(&["MEMORY", "STATS"]);
        assert!(stats.contains("|$18|keys.bytes-per-key|:0|"), "{stats}");
        assert!(bench.call(&["MEMORY", "MALLOC-STATS"]).contains("pages of the store: "));
        assert!(bench.call(&["MEMORY", "DOCTOR"]).ends_with(".\n|"));
    }

    #[test]
    fn memory_doctor_reports_each_finding() {
        let figures = |used_mb: u64, peak_mb: u64, rss_mb: u64, clients_mb: u64| Figures {
            dataset: (used_mb - clients_mb) << 20,
            clients: clients_mb << 20,
            startup: 1 << 20,
            added: 0,
            peak_used: peak_mb << 20,
            active: (used_mb + 1) << 20,
            resident: (used_mb + 1) << 20,
            rss: rss_mb << 20,
        };
        for (figures, word) in [
            (figures(4, 100, 100, 0), "too little"),
            (figures(100, 100, 110, 0), "Nothing is wrong"),
            (figures(100, 200, 110, 0), "Peak:"),
            (figures(100, 100, 190, 0), "Fragmentation:"),
            (figures(100, 100, 100, 10), "Clients:"),
        ] {
            let text = diagnosis(&figures, 10, "");
            assert!(text.contains(word) && text.lines().count() == 1, "{text}");
        }
        let found = "* finding x: y\n";
        for (used_mb, peak_mb, lines) in [(4, 100, 1), (100, 100, 1), (100, 200, 2)] {
            let text = diagnosis(&figures(used_mb, peak_mb, 110, 0), 10, found);
            assert!(text.ends_with(found) && text.lines().count() == lines, "{text}");
        }
    }
}
