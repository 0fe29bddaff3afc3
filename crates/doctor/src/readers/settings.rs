//! Reads the server's settings.

use nagi_load::figures::Fields;
use nagi_load::wire::{Answer, Wire};

/// Settings that findings use.
const SETTINGS: [&str; 4] = ["maxmemory-policy", "appendfsync", "appendonly", "maxclients"];

/// Returns the settings by name, as far as CONFIG GET is permitted.
pub(crate) fn settings(wire: &mut Wire) -> Result<Fields, String> {
    let mut fields = Fields::new();
    for name in SETTINGS {
        if let Answer::Array(pair) = wire.run(&format!("CONFIG GET {name}"))?
            && let [_, value] = pair.as_slice()
        {
            fields.insert(name.to_owned(), value.text());
        }
    }
    Ok(fields)
}
