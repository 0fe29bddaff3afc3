//! Helpers for the unit tests of both protocols.

use crate::MalformedReply;

/// Returns the lengths of the replies in `input`, fed `step` bytes at a time to a parser's `next`.
pub(crate) fn reply_lengths(
    input: &[u8],
    step: usize,
    mut next: impl FnMut(&[u8]) -> Result<Option<usize>, MalformedReply>,
) -> Result<Vec<usize>, MalformedReply> {
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    for piece in input.chunks(step) {
        buffer.extend_from_slice(piece);
        while let Some(len) = next(&buffer)? {
            found.push(len);
            buffer.drain(..len);
        }
    }
    Ok(found)
}
