//! Reads HOTKEYS: the keys that cost the most time, if the server can count that (Redis 8.6, nagi).

use super::{is_unknown, requests};
use nagi_findings::observation::KeyCosts;
use nagi_load::wire::{Answer, Wire};

/// Starts the server's count, for a little longer than `seconds`. Returns whether the count has
/// started. The count of another client is neither changed nor read, even if it has ended: its
/// result stays until HOTKEYS RESET, and a new count would replace it.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn start_key_costs(wire: &mut Wire, seconds: f64) -> Result<bool, String> {
    match wire.run("HOTKEYS GET") {
        Ok(Answer::Null) => {}
        Ok(_) => return Ok(false),
        Err(why) if is_unknown(&why) => return Ok(false),
        Err(why) => return Err(why),
    }
    // The count ends after this time even if this program does not end it.
    let seconds = seconds.ceil() as u64 + 10;
    match wire.run(&format!("HOTKEYS START METRICS 1 CPU COUNT 10 DURATION {seconds}")) {
        Ok(_) => Ok(true),
        // Another client has started one meanwhile.
        Err(why) if why.contains("in progress") => Ok(false),
        Err(why) => Err(why),
    }
}

/// Ends the count, and returns its result.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn key_costs(wire: &mut Wire, show_keys: bool) -> Result<Option<KeyCosts>, String> {
    wire.run("HOTKEYS STOP")?;
    let report = wire.run("HOTKEYS GET")?;
    wire.run("HOTKEYS RESET")?;
    Ok(costs(&report, show_keys))
}

/// Parses alternating names and values, which may be wrapped in a list of one element.
pub(super) fn costs(report: &Answer, show_keys: bool) -> Option<KeyCosts> {
    let Answer::Array(list) = report else { return None };
    let fields = match list.as_slice() {
        [Answer::Array(fields)] => fields,
        _ => list,
    };
    let field = |wanted: &str| {
        fields.chunks(2).find_map(|pair| match pair {
            [name, value] if name.text() == wanted => Some(value),
            _ => None,
        })
    };
    let Answer::Integer(all_us) = field("all-commands-all-slots-us")? else { return None };
    let Answer::Array(keys) = field("by-cpu-time-us")? else { return None };
    let shown = requests::key_names(show_keys);
    let keys = keys.chunks(2).filter_map(|pair| match pair {
        [key, Answer::Integer(us)] => Some((shown(&key.text()), u64::try_from(*us).ok()?)),
        _ => None,
    });
    Some(KeyCosts { all_us: u64::try_from(*all_us).ok()?, keys: keys.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_from_names_and_values_in_turns() {
        let text = |text: &str| Answer::Text(text.as_bytes().to_vec(), text.len() as u64);
        let fields = vec![
            text("tracking-active"),
            Answer::Integer(0),
            text("all-commands-all-slots-us"),
            Answer::Integer(900),
            text("by-cpu-time-us"),
            Answer::Array(vec![text("alice"), Answer::Integer(600), text("bob")]),
        ];
        let report = Answer::Array(vec![Answer::Array(fields.clone())]);
        let read = costs(&report, true).unwrap();
        assert_eq!(read, KeyCosts { all_us: 900, keys: vec![("alice".to_owned(), 600)] });
        let hidden = costs(&Answer::Array(fields), false).unwrap();
        assert!(!hidden.keys[0].0.contains("alice"), "{hidden:?}");
        assert_eq!(costs(&Answer::Null, true), None);
    }
}
