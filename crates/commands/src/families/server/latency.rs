//! LATENCY: the events of the latency monitor, and the latencies of commands.

use crate::runtime::help;
use crate::state::histogram::Distribution;
use crate::state::latency_monitor::{Sample, Series};
use crate::{Category, Command, Context, Entry, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use std::fmt::Write as _;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LATENCY];

const SUBCOMMANDS: &[&Command] = &[&DOCTOR, &GRAPH, &HELP, &HISTOGRAM, &HISTORY, &LATEST, &RESET];

/// Flags of all subcommands except HELP.
const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);

fn latency<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("latency"))
}

pub(crate) static LATENCY: Command = Command {
    name: "LATENCY",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about latency spikes",
    subcommands: SUBCOMMANDS,
    run: latency,
};

fn latest<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let events = cx.hooks.latency.events().clone();
    cx.reply.array(events.len());
    for (name, series) in events {
        let last = series.samples.back().copied();
        let Sample { at_s, took_ms } = last.unwrap_or(Sample { at_s: 0, took_ms: 0 });
        cx.reply.array(4);
        cx.reply.bulk(name.as_bytes());
        for number in [at_s, took_ms, series.longest_ms] {
            cx.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

static LATEST: Command = Command {
    name: "LATEST",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(1)").tips(&[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ]),
    summary: "Returns the latest event of each kind: when, how long, and the longest ever",
    subcommands: &[],
    run: latest,
};

fn history<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (_, series) = cx.hooks.latency.of(args.at(2)).unwrap_or_default();
    cx.reply.array(series.samples.len());
    for Sample { at_s, took_ms } in series.samples {
        cx.reply.array(2);
        cx.reply.integer(i64::try_from(at_s).unwrap_or(i64::MAX));
        cx.reply.integer(i64::try_from(took_ms).unwrap_or(i64::MAX));
    }
    Ok(())
}

static HISTORY: Command = Command {
    name: "HISTORY",
    syntax: "event",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(1)").tips(&[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ]),
    summary: "Returns the latest events of a kind: when, and how long in milliseconds",
    subcommands: &[],
    run: history,
};

fn reset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut events = cx.hooks.latency.events();
    let before = events.len();
    events.retain(|name, _| args.len() > 2 && !args.from(2).any(|event| event == name.as_bytes()));
    cx.reply.integer((before - events.len()) as i64);
    Ok(())
}

static RESET: Command = Command {
    name: "RESET",
    syntax: "[event [event ...]]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(1)").tips(&["request_policy:all_nodes", "response_policy:agg_sum"]),
    summary: "Removes the events of some kinds, or of all",
    subcommands: &[],
    run: reset,
};

fn graph<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let Some((name, series)) = cx.hooks.latency.of(args.at(2)) else {
        return Err(Error::quoting("ERR No samples available for event '", args.at(2), "'"));
    };
    cx.reply.text(&draw(name, &series, cx.db.now_ms() / 1000));
    Ok(())
}

static GRAPH: Command = Command {
    name: "GRAPH",
    syntax: "event",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(1)").tips(&[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ]),
    summary: "Draws the latest events of a kind",
    subcommands: &[],
    run: graph,
};

/// The number of samples side by side in a graph.
const COLUMNS: usize = 80;
/// The height of the column for the longest event, in lines, and the characters for the top of a
/// column.
const ROWS: u64 = 4;
const TOPS: [char; 3] = ['_', 'o', '#'];

/// Draws a column for each sample, with the sample's age below it, from top to bottom.
fn draw(name: &str, series: &Series, now_s: u64) -> String {
    let (low_ms, high_ms) = series.range_ms();
    let mut text = format!(
        "{name} - high {high_ms} ms, low {low_ms} ms (all time high {} ms)\n{}\n",
        series.longest_ms,
        "-".repeat(COLUMNS)
    );
    let samples: Vec<Sample> = series.samples.iter().copied().collect();
    let blocks: Vec<String> =
        samples.chunks(COLUMNS).map(|block| draw_block(block, (low_ms, high_ms), now_s)).collect();
    text.push_str(&blocks.join("\n"));
    text
}

fn draw_block(samples: &[Sample], (low_ms, high_ms): (u64, u64), now_s: u64) -> String {
    let steps = ROWS * TOPS.len() as u64;
    let height = |sample: &Sample| {
        let above_low = sample.took_ms - low_ms;
        (above_low.saturating_mul(steps) / (high_ms - low_ms).max(1)).min(steps - 1)
    };
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let floor = row * TOPS.len() as u64;
        text.extend(samples.iter().map(|sample| match height(sample).checked_sub(floor) {
            None => ' ',
            Some(above) => TOPS.get(above as usize).copied().unwrap_or('|'),
        }));
        text.push('\n');
    }
    text.extend(std::iter::repeat_n(' ', samples.len()));
    text.push('\n');
    let ages: Vec<String> =
        samples.iter().map(|sample| age(now_s.saturating_sub(sample.at_s))).collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    for line in 0..longest {
        text.extend(ages.iter().map(|age| age.chars().nth(line).unwrap_or(' ')));
        text.push('\n');
    }
    text
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let threshold_ms = cx.server.config().latency_monitor_threshold_ms.get();
    let events = cx.hooks.latency.events().clone();
    let found = cx.server.statistics().findings.lines();
    let mut text = String::new();
    if events.is_empty() && threshold_ms == 0 {
        text.push_str(
            "Nothing is measured: CONFIG SET latency-monitor-threshold to some milliseconds, and \
             what takes longer will be noted from then on.\n",
        );
    } else if events.is_empty() {
        let calm = if found.is_empty() { " All is calm." } else { "" };
        let _ = writeln!(text, "Nothing has taken {threshold_ms} ms or more so far.{calm}");
    }
    for (name, series) in &events {
        diagnose(name, series, cx.db.now_ms() / 1000, &mut text);
    }
    if events.keys().any(|event| event.contains("command")) {
        text.push_str(
            "\nA command's time here runs from its start to its last step; other clients do not \
             wait for it. SLOWLOG GET shows which commands took long.\n",
        );
    }
    text.push_str(&found);
    cx.reply.text(&text);
    Ok(())
}

/// Describes the events of one kind: their number, durations and intervals.
fn diagnose(name: &str, series: &Series, now_s: u64, text: &mut String) {
    let count = series.samples.len() as u64;
    let (low_ms, high_ms) = series.range_ms();
    let average_ms = series.samples.iter().map(|sample| sample.took_ms).sum::<u64>() / count.max(1);
    let first_s = series.samples.front().map_or(now_s, |sample| sample.at_s);
    let apart_s = now_s.saturating_sub(first_s) as f64 / count.max(1) as f64;
    let _ = writeln!(
        text,
        "{name}: {count} latency spikes of {low_ms} to {high_ms} ms (average {average_ms} ms), one \
         every {apart_s:.2} seconds; the worst ever took {} ms.",
        series.longest_ms
    );
}

static DOCTOR: Command = Command {
    name: "DOCTOR",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(1)").tips(&[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ]),
    summary: "Describes latency spikes in words",
    subcommands: &[],
    run: doctor,
};

/// The upper bound of the first bucket in LATENCY HISTOGRAM, in nanoseconds. The bounds of further
/// buckets double.
const FIRST_BOUND_NS: u64 = 1024;

/// The upper bound of a bucket as Redis shows it, in microseconds: a power of two in nanoseconds,
/// plus its 128th part, which Redis' histograms cannot distinguish.
fn shown_us(bound_ns: u64) -> u64 {
    (bound_ns + bound_ns / 128 - 1) / 1000
}

/// The cumulative number of calls up to the upper bound of each non-empty bucket, in microseconds.
fn cumulative(latencies: &Distribution) -> Vec<(u64, u64)> {
    let (total, mut before) = (latencies.count(), 0);
    let mut buckets = Vec::new();
    let bounds = std::iter::successors(Some(FIRST_BOUND_NS), |bound| bound.checked_mul(2));
    for bound_ns in bounds {
        let count = latencies.count_up_to(bound_ns - 1);
        if count > before {
            buckets.push((shown_us(bound_ns), count));
        }
        if count == total {
            break;
        }
        before = count;
    }
    buckets
}

fn histogram<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let table = cx.server.commands();
    let with_subcommands =
        |entry: &'static Entry| std::iter::once(entry).chain(table.subcommands(entry));
    let entries: Vec<&'static Entry> = if args.len() == 2 {
        table.entries().iter().collect()
    } else {
        let named = args.from(2).filter_map(|name| table.find_full(name));
        named.flat_map(with_subcommands).collect()
    };
    let statistics = cx.server.statistics();
    let timed = |entry: &'static Entry| {
        Some((entry.full_name.as_str(), statistics.latencies(entry.index)?))
    };
    let timed: Vec<(&str, Distribution)> = entries.into_iter().filter_map(timed).collect();
    cx.reply.map(timed.len());
    let count_of = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for (name, latencies) in timed {
        cx.reply.bulk(name.as_bytes());
        cx.reply.map(2);
        cx.reply.bulk(b"calls");
        cx.reply.integer(count_of(latencies.count()));
        cx.reply.bulk(b"histogram_usec");
        let buckets = cumulative(&latencies);
        cx.reply.map(buckets.len());
        for (bound_us, count) in buckets {
            cx.reply.integer(count_of(bound_us));
            cx.reply.integer(count_of(count));
        }
    }
    Ok(())
}

static HISTOGRAM: Command = Command {
    name: "HISTOGRAM",
    syntax: "[command [command ...]]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the commands asked for").tips(&[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ]),
    summary: "Returns how long calls of some commands took, or of all, by powers of two",
    subcommands: &[],
    run: histogram,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &LATENCY);
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
    since: "2.8.13",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::latency_monitor::SAMPLES;
    use crate::testing::{Bench, START_MS};
    use std::time::Duration;

    const START_S: u64 = START_MS / 1000;

    fn record(bench: &Bench, ago_s: u64, took_ms: u64) {
        let latency = &bench.process.hooks.latency;
        latency.add_at("command", Duration::from_millis(took_ms), START_S - ago_s);
    }

    #[test]
    fn events_above_the_threshold_are_recorded() {
        let mut bench = Bench::new();
        record(&bench, 9, 500);
        bench.expect("LATENCY LATEST", "*0|");
        bench.expect("CONFIG SET latency-monitor-threshold 100", "+OK|");
        for (ago_s, took_ms) in [(9, 99), (8, 500), (8, 400), (3, 300)] {
            record(&bench, ago_s, took_ms);
        }
        let (at, last) = (START_S - 8, START_S - 3);
        bench.expect("LATENCY LATEST", &format!("*1|*4|$7|command|:{last}|:300|:500|"));
        let history = format!("*2|*2|:{at}|:500|*2|:{last}|:300|");
        bench.expect("LATENCY HISTORY command", &history);
        bench.expect("LATENCY HISTORY nosuch", "*0|");
        assert!(bench.call(&["LATENCY", "DOCTOR"]).contains("2 latency spikes of 300 to 500 ms"));
        bench.expect("LATENCY RESET nosuch", ":0|");
        bench.expect("LATENCY RESET", ":1|");
        bench.expect("LATENCY LATEST", "*0|");
        bench
            .expect("LATENCY HELP x", "-ERR wrong number of arguments for 'latency|help' command|");
        bench.expect("LATENCY FOO", "-ERR unknown subcommand 'FOO'. Try LATENCY HELP.|");
        assert!(bench.call(&["LATENCY", "DOCTOR"]).contains("All is calm"));
    }

    #[test]
    fn only_the_latest_samples_are_kept() {
        let bench = Bench::new();
        bench.process.hooks.latency.set_threshold_ms(1);
        for number in 0..1000 {
            record(&bench, 1000 - number, 10 + number);
        }
        let (_, series) = bench.process.hooks.latency.of(b"command").unwrap();
        assert_eq!((series.samples.len(), series.range_ms()), (SAMPLES, (850, 1009)));
    }

    #[test]
    fn buckets_have_the_bounds_of_redis() {
        let histogram = crate::state::histogram::Histogram::default();
        for (us, count) in [(0, 2), (1, 3), (3, 1), (30, 4), (1000, 5), (2_000_000, 1)] {
            histogram.add(us * 1000, count);
        }
        let mut all = Distribution::default();
        all.add(&histogram);
        let buckets = [(1, 5), (4, 6), (33, 10), (1056, 15), (2_164_260, 16)];
        assert_eq!(cumulative(&all), buckets);
        assert_eq!(cumulative(&Distribution::default()), []);
    }

    #[test]
    fn latency_graph_draws_columns_with_ages() {
        let mut bench = Bench::new();
        bench.expect("LATENCY GRAPH x", "-ERR No samples available for event 'x'|");
        bench.process.hooks.latency.set_threshold_ms(1);
        for (ago_s, took_ms) in [(7200, 100), (61, 200), (20, 410), (5, 500)] {
            record(&bench, ago_s, took_ms);
        }
        let (name, series) = bench.process.hooks.latency.of(b"command").unwrap();
        let dashes = "-".repeat(COLUMNS);
        assert_eq!(
            draw(name, &series, START_S),
            format!(
                "command - high 500 ms, low 100 ms (all time high 500 ms)\n{dashes}\n\
                 \x20 _#\n  ||\n _||\n_|||\n    \n2125\nhm0s\n  s \n"
            )
        );
    }
}
