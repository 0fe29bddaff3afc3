//! FastLZ, the default compression of PHP's extension.
//!
//! The compressed data is a stream of instructions: literal bytes, or a copy of earlier bytes.
//! Level 2 allows longer copies and larger distances.

/// From this distance on, level 2 stores the distance in two further bytes.
const FAR: usize = 8191;

/// Decompresses to at most `limit_bytes`; `None` if the data is damaged or longer.
pub(super) fn decompress(packed: &[u8], limit_bytes: usize) -> Option<Vec<u8>> {
    let is_long = match packed.first()? >> 5 {
        0 => false,
        1 => true,
        _ => return None,
    };
    let mut out = Vec::new();
    let mut input = packed.iter();
    // The first instruction is always a literal run; its upper three bits contain the level.
    let mut instruction = *input.next()? & 31;
    loop {
        if instruction < 32 {
            let len = usize::from(instruction) + 1;
            out.extend_from_slice(input.as_slice().get(..len)?);
            input.nth(len - 1)?;
        } else {
            let mut len = usize::from(instruction >> 5) + 2;
            let high = usize::from(instruction & 31) << 8;
            if len == 9 {
                loop {
                    let more = *input.next()?;
                    len += usize::from(more);
                    if !is_long || more != 255 {
                        break;
                    }
                }
            }
            let low = usize::from(*input.next()?);
            let mut distance = high + low + 1;
            if is_long && distance == FAR + 1 {
                let far = [*input.next()?, *input.next()?];
                distance = FAR + usize::from(u16::from_be_bytes(far)) + 1;
            }
            if out.len() + len > limit_bytes {
                return None;
            }
            // The source of a copy may overlap its destination.
            let start = out.len().checked_sub(distance)?;
            for at in start..start + len {
                out.push(*out.get(at)?);
            }
        }
        if out.len() > limit_bytes {
            return None;
        }
        match input.next() {
            Some(next) => instruction = *next,
            None => return Some(out),
        }
    }
}
