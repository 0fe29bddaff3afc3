//! The kinds of values of settings and their syntax: numbers, memory with units, words.
//!
//! The error texts are Redis': CONFIG SET replies with them.

use nagi_store::Policy;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The value that leaves the choice of a port to the kernel.
pub(crate) const ANY: &str = "any";

/// The values of `loglevel`, from the most to the least verbose.
pub const LOG_LEVELS: [&str; 5] = ["debug", "verbose", "notice", "warning", "nothing"];

/// The protocols of memcached that are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcachedProtocol {
    /// Both: a client's first byte determines its protocol.
    Auto,
    /// The text protocol.
    Ascii,
    /// The binary protocol.
    Binary,
}

/// The values of `memcached-protocol`, in the order of [`MemcachedProtocol`].
pub(super) static MEMCACHED_PROTOCOLS: [&str; 3] = ["auto", "ascii", "binary"];

/// The values of `supervised`.
pub const SUPERVISORS: [&str; 4] = ["no", "upstart", "systemd", "auto"];

/// The names of the policies, in the store's order.
pub(super) static POLICIES: [&str; Policy::ALL.len()] = {
    let mut names = [""; Policy::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            names[index] = Policy::ALL[index].1;
        }
        index += 1;
    }
    names
};

/// The words of `io`.
pub(super) static IO: [&str; 3] = ["auto", "epoll", "uring"];

/// The words of `rdb-version`.
pub(super) static RDB_VERSIONS: [&str; 5] = ["lowest", "10", "11", "12", "80"];

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line or a file, before the server listens.
    Startup,
    /// CONFIG SET.
    Runtime,
}

/// The fault of a value, in the text of CONFIG SET after the setting's name.
pub(crate) type Fault = Cow<'static, str>;

/// The kind of values of a setting.
pub enum Kind {
    /// An integer in a range.
    Integer(RangeInclusive<i64>),
    /// A number of bytes, optionally with a unit, such as `512mb`.
    Memory(RangeInclusive<u64>),
    /// A number of bytes or a percentage such as `5%`, which is stored as a negative number.
    MemoryOrPercent,
    /// `yes` or `no`.
    Switch,
    /// One of several words, stored as its index.
    Choice(&'static [&'static str]),
    /// A TCP port, 0 for none, or `any`.
    Port,
    /// The permissions of a file as an octal number.
    Permissions,
    /// One word.
    Text,
    /// One word that may contain zero bytes.
    Password,
    /// One word that must pass a check, which may normalize it.
    Checked(fn(&str) -> Result<String, Fault>),
    /// Letters with a meaning each, in any order.
    Letters(&'static Letters),
    /// Several words.
    Words,
    /// Several words that may be given in several lines, which are combined.
    Lines(&'static Lines),
}

/// The combination of the lines of a setting.
pub struct Lines {
    /// Returns the new value, from the current value and the words of a further line.
    pub add: fn(&str, &str, Origin) -> Result<String, Fault>,
    /// The number of words that CONFIG REWRITE writes per line.
    pub words_a_line: usize,
}

/// The syntax of a setting of letters.
pub struct Letters {
    /// Parses letters to the bits of a number.
    pub parse: fn(&str) -> Result<u64, Fault>,
    /// Formats the bits as letters.
    pub show: fn(u64) -> String,
}

/// A value that a setting accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number; negative ones are stored as their two's complement.
    Number(u64),
    /// Words.
    Text(Arc<str>),
}

impl Kind {
    /// Whether it takes more than one word.
    #[must_use]
    pub fn takes_words(&self) -> bool {
        matches!(self, Kind::Words | Kind::Lines(_))
    }

    pub(crate) fn parse(&self, value: &str) -> Result<Value, Fault> {
        self.parse_onto("", value, Origin::Runtime)
    }

    /// Parses a value. For `Kind::Lines`, it may be added to the value `present`.
    pub(crate) fn parse_onto(
        &self,
        present: &str,
        value: &str,
        origin: Origin,
    ) -> Result<Value, Fault> {
        let number = match self {
            Kind::Text | Kind::Password | Kind::Words => return Ok(Value::Text(value.into())),
            Kind::Letters(letters) => (letters.parse)(value)?,
            Kind::Checked(check) => return Ok(Value::Text(check(value)?.into())),
            Kind::Lines(lines) => {
                return Ok(Value::Text((lines.add)(present, value, origin)?.into()));
            }
            Kind::Integer(range) => integer(value, range)?.cast_unsigned(),
            Kind::Memory(range) => {
                let bytes = parse_memory(value).ok_or("argument must be a memory value")?;
                within(bytes, range)?
            }
            Kind::MemoryOrPercent => memory_or_percent(value)?.cast_unsigned(),
            Kind::Switch => place(value, &["no", "yes"]).ok_or("argument must be 'yes' or 'no'")?,
            Kind::Choice(words) => place(value, words).ok_or_else(|| {
                format!("argument(s) must be one of the following: {}", words.join(", "))
            })?,
            Kind::Port if value == ANY && origin == Origin::Startup => ANY_PORT,
            Kind::Port => integer(value, &(0..=65535))?.cast_unsigned(),
            Kind::Permissions => {
                let mode = u64::from_str_radix(value, 8).ok();
                let mode = mode.ok_or("argument couldn't be parsed as an octal number")?;
                if mode > 0o777 {
                    return Err("argument must be between 0 and 777 inclusive".into());
                }
                mode
            }
        };
        Ok(Value::Number(number))
    }

    /// A value as CONFIG GET shows it.
    pub(crate) fn show(&self, value: &Value) -> String {
        let number = match value {
            Value::Text(text) => return text.as_ref().to_owned(),
            Value::Number(number) => *number,
        };
        let word = |words: &[&str]| {
            let place = usize::try_from(number).unwrap_or(usize::MAX);
            words.get(place).copied().unwrap_or_default().to_owned()
        };
        match self {
            Kind::Integer(_) => number.cast_signed().to_string(),
            Kind::Switch => word(&["no", "yes"]),
            Kind::Choice(words) => word(words),
            Kind::Port if number == ANY_PORT => ANY.to_owned(),
            Kind::Letters(letters) => (letters.show)(number),
            Kind::Permissions => format!("{number:o}"),
            Kind::MemoryOrPercent if number.cast_signed() < 0 => {
                format!("{}%", number.cast_signed().unsigned_abs())
            }
            _ => number.to_string(),
        }
    }
}

/// The stored value of a port that the kernel has not chosen yet.
pub(crate) const ANY_PORT: u64 = 1 << 16;

pub(super) fn integer(value: &str, range: &RangeInclusive<i64>) -> Result<i64, Fault> {
    let number = nagi_store::parse_i64(value.as_bytes());
    within(number.ok_or("argument couldn't be parsed into an integer")?, range)
}

fn within<T: PartialOrd + std::fmt::Display>(
    number: T,
    range: &RangeInclusive<T>,
) -> Result<T, Fault> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(format!("argument must be between {least} and {most} inclusive").into())
}

fn place(value: &str, words: &[&str]) -> Option<u64> {
    let place = words.iter().position(|word| word.eq_ignore_ascii_case(value))?;
    Some(place as u64)
}

/// Parses a number of bytes with an optional unit: `k` is 1000, `kb` 1024, likewise for m and g.
pub(crate) fn parse_memory(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|byte: char| byte.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    // Redis parses a unit without a number as 0, and a number that is too long as the largest one.
    let number = if number.is_empty() { 0 } else { number.parse::<u64>().unwrap_or(u64::MAX) };
    Some(number.saturating_mul(factor))
}

/// Parses a number of bytes, or a percentage, which becomes negative.
fn memory_or_percent(value: &str) -> Result<i64, Fault> {
    const WRONG: &str = "argument must be a memory or percent value";
    let Some(percent) = value.strip_suffix('%') else {
        let bytes = parse_memory(value).ok_or(WRONG)?;
        return Ok(within(bytes, &(0..=i64::MAX as u64))?.cast_signed());
    };
    match percent.parse::<u8>().map_err(|_| WRONG)? {
        percent @ 0..=100 => Ok(-i64::from(percent)),
        _ => Err("percentage argument must be less or equal to 100".into()),
    }
}

/// `save`: pairs of seconds and changes.
pub(super) static SAVE_POINTS: Lines = Lines {
    add: |present, given, origin| {
        let words: Vec<&str> = given.split_whitespace().collect();
        let (pairs, rest) = words.as_chunks::<2>();
        let is_pair = |[seconds, changes]: &[&str; 2]| {
            seconds.parse::<i64>().is_ok_and(|seconds| seconds >= 1)
                && changes.parse::<i64>().is_ok_and(|changes| changes >= 0)
        };
        if !rest.is_empty() || !pairs.iter().all(is_pair) {
            return Err("Invalid save parameters".into());
        }
        let present = if words.is_empty() || origin == Origin::Runtime { "" } else { present };
        Ok(present.split_whitespace().chain(words).collect::<Vec<_>>().join(" "))
    },
    words_a_line: 2,
};

/// `bind`: addresses, of which later lines replace earlier ones. Redis has the same maximum number.
pub(super) static BIND: Lines = Lines {
    add: |_, given, _| {
        if given.split_whitespace().count() > 16 {
            return Err("Too many bind addresses specified.".into());
        }
        Ok(given.to_owned())
    },
    words_a_line: usize::MAX,
};

/// `latency-tracking-info-percentiles`: numbers from 0 to 100; later lines replace earlier ones.
pub(super) static PERCENTILES: Lines = Lines {
    add: |_, given, _| {
        let mut percents = Vec::new();
        for word in given.split_whitespace() {
            let percent: f64 =
                word.parse().map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
            if !(0.0..=100.0).contains(&percent) {
                return Err("latency-tracking-info-percentiles parameters should sit between \
                            [0.0,100.0]"
                    .into());
            }
            percents.push(percent.to_string());
        }
        Ok(percents.join(" "))
    },
    words_a_line: usize::MAX,
};

/// `client-output-buffer-limit`: groups of a class, a hard limit, a soft limit, and the seconds of
/// the soft limit.
pub(super) static OUTPUT_LIMITS: Lines = Lines {
    add: |present, given, _| {
        let words: Vec<&str> = given.split_whitespace().collect();
        let (given, rest) = words.as_chunks::<4>();
        if !rest.is_empty() || given.is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        let present: Vec<&str> = present.split_whitespace().collect();
        let mut classes: Vec<[String; 4]> =
            present.as_chunks::<4>().0.iter().map(|class| class.map(str::to_owned)).collect();
        for [class, hard, soft, seconds] in given {
            let class = match class.to_ascii_lowercase().as_str() {
                "replica" | "slave" => "slave",
                "normal" => "normal",
                "pubsub" => "pubsub",
                _ => {
                    return Err(
                        "Invalid client class specified in buffer limit configuration.".into()
                    );
                }
            };
            let (hard, soft) = parse_memory(hard).zip(parse_memory(soft)).ok_or(LIMITS_WRONG)?;
            let seconds: u32 = seconds.parse().map_err(|_| LIMITS_WRONG)?;
            let limits = [hard, soft, seconds.into()].map(|number| number.to_string());
            let [hard, soft, seconds] = limits;
            let limits = [class.to_owned(), hard, soft, seconds];
            match classes.iter_mut().find(|other| other.first().is_some_and(|it| it == class)) {
                Some(other) => *other = limits,
                None => classes.push(limits),
            }
        }
        Ok(classes.concat().join(" "))
    },
    words_a_line: 4,
};

/// `shutdown-on-sigint` and `shutdown-on-sigterm`: flags, which have no effect here.
pub(super) static SHUTDOWN_FLAGS: Lines = Lines {
    add: |_, given, _| {
        let flags = ["default", "save", "nosave", "now", "force"];
        let given: Vec<&str> = given.split_whitespace().collect();
        if given.is_empty() || given.iter().any(|word| place(word, &flags).is_none()) {
            let flags = flags.join(", ");
            return Err(format!("argument(s) must be one of the following: {flags}").into());
        }
        let is_given = |flag: &&str| given.iter().any(|word| word.eq_ignore_ascii_case(flag));
        if is_given(&"save") && is_given(&"nosave") {
            return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
        }
        let shown: Vec<&str> = flags.into_iter().skip(1).filter(is_given).collect();
        Ok(if shown.is_empty() { "default".to_owned() } else { shown.join(" ") })
    },
    words_a_line: usize::MAX,
};

/// `replicaof`: a host and a port, or nothing.
pub(super) static MASTER: Lines = Lines {
    add: |_, given, _| {
        let words: Vec<&str> = given.split_whitespace().collect();
        match words.as_slice() {
            [] => Ok(String::new()),
            ["no", "one"] => Ok(given.to_owned()),
            [_, port] if port.parse::<u16>().is_ok() => Ok(given.to_owned()),
            [_, _] => Err("Invalid master port".into()),
            _ => Err("wrong number of arguments".into()),
        }
    },
    words_a_line: 2,
};

const LIMITS_WRONG: &str =
    "Error in hard, soft or soft_seconds setting in buffer limit configuration.";

#[cfg(test)]
mod tests {
    use super::*;

    fn added(lines: &Lines, present: &str, given: &str) -> String {
        (lines.add)(present, given, Origin::Startup).unwrap_or_else(|fault| fault.into_owned())
    }

    #[test]
    fn units_of_memory_are_parsed_as_by_redis() {
        for (text, bytes) in [
            ("1", 1),
            ("2b", 2),
            ("1k", 1000),
            ("1Kb", 1024),
            ("3mb", 3 << 20),
            ("1G", 1_000_000_000),
            ("", 0),
            ("mb", 0),
            ("99999999999999999999", u64::MAX),
            ("18446744073709551615k", u64::MAX),
        ] {
            assert_eq!(parse_memory(text), Some(bytes), "{text}");
        }
        for text in ["1.5mb", "-1", "1tb"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
    }

    #[test]
    fn save_points_add_up_until_an_empty_one_clears_them() {
        assert_eq!(added(&SAVE_POINTS, "", "900 1"), "900 1");
        assert_eq!(added(&SAVE_POINTS, "900 1", "300 10 60 5"), "900 1 300 10 60 5");
        assert_eq!(added(&SAVE_POINTS, "900 1", ""), "");
        assert_eq!(added(&SAVE_POINTS, "", "900"), "Invalid save parameters");
        assert_eq!(added(&SAVE_POINTS, "", "0 1"), "Invalid save parameters");
    }

    #[test]
    fn flags_of_shutdown_are_shown_in_their_order() {
        assert_eq!(added(&SHUTDOWN_FLAGS, "", "FORCE nosave"), "nosave force");
        assert_eq!(added(&SHUTDOWN_FLAGS, "save", "default now"), "now");
        assert_eq!(added(&SHUTDOWN_FLAGS, "save", "default"), "default");
        let both = "shutdown options SAVE and NOSAVE can't be used simultaneously";
        assert_eq!(added(&SHUTDOWN_FLAGS, "save", "nosave save"), both);
    }

    #[test]
    fn output_limits_are_set_class_by_class() {
        let all = "normal 0 0 0 slave 1 2 3";
        assert_eq!(added(&OUTPUT_LIMITS, all, "replica 1kb 2 3"), "normal 0 0 0 slave 1024 2 3");
        assert_eq!(added(&OUTPUT_LIMITS, all, "pubsub 1 1 1"), format!("{all} pubsub 1 1 1"));
        assert_eq!(added(&OUTPUT_LIMITS, all, "normal 1 x 1"), LIMITS_WRONG);
    }
}
