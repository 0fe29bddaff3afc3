//! The option and values that `--sweep` varies.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The varied option, and its values in the order given.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    pub(crate) what: What,
    pub(crate) values: Vec<String>,
}

/// An option that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Rate,
    Connections,
    Pipeline,
    Threads,
    ValueBytes,
}

const NAMES: [(&str, What); 5] = [
    ("rate", What::Rate),
    ("connections", What::Connections),
    ("pipeline", What::Pipeline),
    ("threads", What::Threads),
    ("value-bytes", What::ValueBytes),
];

impl Sweep {
    /// The option that is varied.
    pub(crate) fn name(&self) -> &'static str {
        NAMES.iter().find(|(_, what)| *what == self.what).map_or("", |(name, _)| name)
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("expected values of one of {}, such as pipeline=1,4,16", names.join(", "))
        };
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let what = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1;
        Ok(Sweep { what, values: values.split(',').map(str::to_owned).collect() })
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.name(), self.values.join(","))
    }
}

impl Serialize for Sweep {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_read_back_as_written() {
        for text in ["rate=1,2", "pipeline=1,4,16", "value-bytes=1,4k"] {
            assert_eq!(text.parse::<Sweep>().unwrap().to_string(), text);
        }
        for text in ["", "pipeline", "pipelines=1"] {
            assert!(text.parse::<Sweep>().is_err(), "{text}");
        }
    }
}
