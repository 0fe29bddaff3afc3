//! Reads the events of the server's latency monitor within the run (LATENCY LATEST and HISTORY):
//! their kinds, such as `fork` or `aof-fsync-always`, and their durations.

use super::is_unknown;
use nagi_findings::observation::LatencyEvent;
use nagi_load::wire::{Answer, Wire};
use std::collections::BTreeMap;

/// The time of the latest event of each kind, in seconds since 1970 on the server's clock.
pub(crate) type Latest = BTreeMap<String, i64>;

/// Returns the time of the latest event of each kind; empty if the server has no latency monitor.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn latest_events(wire: &mut Wire) -> Result<Latest, String> {
    match wire.run("LATENCY LATEST") {
        Ok(answer) => Ok(latest(&answer)),
        Err(why) if is_unknown(&why) => Ok(Latest::new()),
        Err(why) => Err(why),
    }
}

/// Returns the events after those in `before`.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn events_since(wire: &mut Wire, before: &Latest) -> Result<Vec<LatencyEvent>, String> {
    let mut events = Vec::new();
    for (name, at_s) in latest_events(wire)? {
        let since_s = before.get(&name).copied().unwrap_or(i64::MIN);
        if at_s > since_s {
            let history = wire.run(&format!("LATENCY HISTORY {name}"))?;
            events.extend(event(name, &history, since_s));
        }
    }
    Ok(events)
}

fn elements(answer: &Answer) -> &[Answer] {
    if let Answer::Array(elements) = answer { elements } else { &[] }
}

pub(super) fn latest(answer: &Answer) -> Latest {
    let events = elements(answer).iter().filter_map(|event| match elements(event) {
        [name, Answer::Integer(at_s), ..] => Some((name.text(), *at_s)),
        _ => None,
    });
    // Text with other characters cannot be the name of a kind.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    events.filter(|(name, _)| !name.is_empty() && name.chars().all(is_plain)).collect()
}

pub(super) fn event(name: String, history: &Answer, since_s: i64) -> Option<LatencyEvent> {
    let times = elements(history).iter().filter_map(|sample| match elements(sample) {
        [Answer::Integer(at_s), Answer::Integer(ms)] if *at_s > since_s => u64::try_from(*ms).ok(),
        _ => None,
    });
    let times: Vec<u64> = times.collect();
    let longest_ms = times.iter().max().copied()?;
    Some(LatencyEvent { name, count: times.len() as u64, longest_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(numbers: &[i64]) -> Answer {
        Answer::Array(numbers.iter().map(|number| Answer::Integer(*number)).collect())
    }

    #[test]
    fn events_after_the_first_look_are_counted() {
        let named = |name: &str, at_s| {
            let name = Answer::Text(name.as_bytes().to_vec(), name.len() as u64);
            Answer::Array(vec![name, Answer::Integer(at_s), Answer::Integer(5), Answer::Integer(9)])
        };
        let all = Answer::Array(vec![named("fork", 100), named("a b", 1), Answer::Null]);
        assert_eq!(latest(&all), Latest::from([("fork".to_owned(), 100)]));
        let history = Answer::Array(vec![array(&[90, 700]), array(&[100, 30]), array(&[101, 20])]);
        let expected = LatencyEvent { name: "fork".to_owned(), count: 2, longest_ms: 30 };
        assert_eq!(event("fork".to_owned(), &history, 90), Some(expected));
        assert_eq!(event("fork".to_owned(), &history, 101), None);
    }
}
