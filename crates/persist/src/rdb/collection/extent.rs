//! Finds the end of a collection without decoding its elements: the reading thread only copies the
//! bytes of short collections, and other threads decode them.

use crate::length::{self, Length};
use crate::rdb::kind::Layout;

/// Returns how many of these bytes the value at their start takes; `None` if it continues after
/// them, or is damaged.
pub(in crate::rdb) fn extent(layout: Layout, bytes: &[u8]) -> Option<usize> {
    let rest = &mut &bytes[..];
    match layout {
        Layout::Texts(each) => {
            for _ in 0..number(rest)? {
                texts(rest, each)?;
            }
        }
        Layout::Scored => {
            for _ in 0..number(rest)? {
                texts(rest, 1)?;
                skip(rest, 8)?;
            }
        }
        Layout::ScoredInDigits => {
            for _ in 0..number(rest)? {
                texts(rest, 1)?;
                if let [digits @ ..253] = length::take(rest).ok()? {
                    skip(rest, digits.into())?;
                }
            }
        }
        Layout::Packed(..) => texts(rest, 1)?,
        Layout::Ziplists => {
            let nodes = number(rest)?;
            texts(rest, nodes)?;
        }
        Layout::Quicklist => {
            for _ in 0..number(rest)? {
                number(rest)?;
                texts(rest, 1)?;
            }
        }
        Layout::ExpiringFields { first } => {
            skip(rest, if first { 8 } else { 0 })?;
            for _ in 0..number(rest)? {
                number(rest)?;
                texts(rest, 2)?;
            }
        }
        Layout::ExpiringListpack { first } => {
            skip(rest, if first { 8 } else { 0 })?;
            texts(rest, 1)?;
        }
        Layout::FieldsThenExpiry => {
            for _ in 0..number(rest)? {
                texts(rest, 2)?;
                skip(rest, 8)?;
            }
        }
        Layout::Text | Layout::Stream(_) | Layout::Module | Layout::UnknownModule => return None,
    }
    Some(bytes.len() - rest.len())
}

fn texts(rest: &mut &[u8], count: u64) -> Option<()> {
    for _ in 0..count {
        let bytes = match length::read(rest).ok()? {
            Length::Plain(len) => len,
            Length::Encoded(Length::INT8) => 1,
            Length::Encoded(Length::INT16) => 2,
            Length::Encoded(Length::INT32) => 4,
            Length::Encoded(Length::LZF) => {
                let packed = number(rest)?;
                number(rest)?;
                packed
            }
            Length::Encoded(_) => return None,
        };
        skip(rest, bytes)?;
    }
    Some(())
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    match length::read(rest) {
        Ok(Length::Plain(number)) => Some(number),
        _ => None,
    }
}

fn skip(rest: &mut &[u8], bytes: u64) -> Option<()> {
    *rest = rest.get(usize::try_from(bytes).ok()?..)?;
    Some(())
}
