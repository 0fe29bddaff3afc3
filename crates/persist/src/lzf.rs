//! LZF, the compression of strings in RDB: runs of literal bytes, and references to earlier bytes
//! at a distance of at most 8 KiB.
//!
//! ```text
//! 000lllll                       the next l + 1 bytes are literal
//! lllooooo oooooooo              l + 2 bytes from o + 1 bytes back, 1 <= l <= 6
//! 111ooooo llllllll oooooooo     l + 9 bytes from o + 1 bytes back
//! ```
//!
//! Separately compressed pieces can be concatenated, so that a long string is compressed in steps.
//! The format is that of Marc Lehmann's liblzf.

/// The input is truncated, or a reference reaches back beyond the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

const HASH_BITS: u32 = 13;
const LONGEST_LITERAL: usize = 32;
const FARTHEST: usize = 1 << 13;
const LONGEST_MATCH: usize = 264;
/// After this many bytes without a match, as a power of two, the stride of the search increases by
/// one.
const LITERALS_PER_STRIDE_LOG2: u32 = 6;
/// After this many strings without a match, only half as many bytes of the next ones are tried, and
/// how often that number is halved: data sets of images or of compressed values contain little
/// else.
const INCOMPRESSIBLE_STRINGS: u32 = 16;
const MAX_HALVINGS: u32 = 2;
/// The number of bytes whose positions are numbered at a time.
const MAX_BYTES: usize = 1 << 30;

/// Appends the compressed `input` to `out`; the output is at most a 32nd larger.
pub fn compress(input: &[u8], out: &mut Vec<u8>) {
    Compressor::default().compress(input, out);
}

/// The state of a compressor, reused from one string to the next: for short strings, its
/// initialization takes longer than compressing.
pub(crate) struct Compressor {
    /// The last position of bytes with a hash, counted from `base`; less than `base` for earlier
    /// strings.
    places: Vec<u32>,
    base: u32,
    /// The number of consecutive strings without a match.
    incompressible: u32,
}

impl Default for Compressor {
    fn default() -> Self {
        Compressor { places: vec![0; 1 << HASH_BITS], base: 1, incompressible: 0 }
    }
}

impl Compressor {
    /// Appends the compressed `input` to `out`.
    pub(crate) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) {
        for piece in input.chunks(MAX_BYTES) {
            let rest = self.compress_but_rest(piece, LITERALS_PER_STRIDE_LOG2, out);
            write_literals(rest, out);
        }
    }

    /// Like [`Compressor::compress`], but appends nothing if `input` has no repetitions or is too
    /// long. Returns whether anything was appended. The more of the previous strings had no match,
    /// the earlier the search ends.
    pub(crate) fn compress_if_repetitive(&mut self, input: &[u8], out: &mut Vec<u8>) -> bool {
        if input.len() > MAX_BYTES {
            return false;
        }
        let halvings = (self.incompressible / INCOMPRESSIBLE_STRINGS).min(MAX_HALVINGS);
        let rest = self.compress_but_rest(input, LITERALS_PER_STRIDE_LOG2 - halvings, out);
        let repeats = rest.len() < input.len();
        if repeats {
            self.incompressible = 0;
            write_literals(rest, out);
        } else {
            self.incompressible = self.incompressible.saturating_add(1);
        }
        repeats
    }

    /// Appends the compressed `input`, of at most [`MAX_BYTES`], except the part after its last
    /// match, which is returned.
    fn compress_but_rest<'a>(
        &mut self,
        input: &'a [u8],
        literals_per_stride_log2: u32,
        out: &mut Vec<u8>,
    ) -> &'a [u8] {
        let len = u32::try_from(input.len()).unwrap_or(u32::MAX);
        if self.base.checked_add(len).is_none() {
            // Positions have reached their maximum.
            *self = Compressor { incompressible: self.incompressible, ..Compressor::default() };
        }
        let (mut at, mut literal) = (0, 0);
        while let Some(&[a, b, c]) = input.get(at..).and_then(|rest| rest.first_chunk()) {
            let hash =
                u32::from_be_bytes([0, a, b, c]).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
            let Some(place) = self.places.get_mut(hash as usize) else { break };
            let before = std::mem::replace(place, self.base + at as u32);
            let len = match before.checked_sub(self.base).map(|before| before as usize) {
                Some(before) if at - before <= FARTHEST => common(input, before, at),
                _ => 0,
            };
            if len < 3 {
                // After many bytes without a match, only some positions are tried.
                at += 1 + ((at - literal) >> literals_per_stride_log2);
                continue;
            }
            write_literals(input.get(literal..at).unwrap_or_default(), out);
            write_reference(at - (before - self.base) as usize - 1, len, out);
            at += len;
            literal = at;
        }
        self.base = self.base.saturating_add(len);
        input.get(literal..).unwrap_or_default()
    }
}

/// Returns the number of equal bytes at `before` and `at`; `before` is less than `at`.
fn common(input: &[u8], before: usize, at: usize) -> usize {
    let first = input.get(before..).unwrap_or_default();
    let second = input.get(at..).unwrap_or_default();
    let second = second.get(..LONGEST_MATCH).unwrap_or(second);
    let ((words, _), (other_words, tail)) = (first.as_chunks(), second.as_chunks::<8>());
    for (index, (word, other)) in words.iter().zip(other_words).enumerate() {
        let differing = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return index * 8 + (differing.trailing_zeros() / 8) as usize;
        }
    }
    let whole = other_words.len() * 8;
    let rest = first.get(whole..).unwrap_or_default();
    whole + rest.iter().zip(tail).take_while(|(a, b)| a == b).count()
}

fn write_literals(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.chunks(LONGEST_LITERAL) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn write_reference(offset: usize, len: usize, out: &mut Vec<u8>) {
    let high = (offset >> 8) as u8;
    match len - 2 {
        short @ ..7 => out.push((short as u8) << 5 | high),
        long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8]),
    }
    out.push(offset as u8);
}

/// Decodes instructions from the front of `input` and appends their output to `out`, until `out`
/// has at least `enough` bytes or no complete instruction is left. References point into `out`.
///
/// # Errors
/// A reference reaches back beyond the start of `out`.
pub fn decompress(input: &mut &[u8], out: &mut Vec<u8>, enough: usize) -> Result<(), Corrupt> {
    while out.len() < enough {
        let (control, len, low, rest) = match *input {
            [control @ (0..0x20), rest @ ..] => {
                let Some((run, rest)) = rest.split_at_checked(usize::from(*control) + 1) else {
                    break;
                };
                out.extend_from_slice(run);
                *input = rest;
                continue;
            }
            [control @ (0xe0..=0xff), more, low, rest @ ..] => {
                (control, 9 + usize::from(*more), low, rest)
            }
            [control @ (0..0xe0), low, rest @ ..] => {
                (control, 2 + usize::from(control >> 5), low, rest)
            }
            _ => break,
        };
        *input = rest;
        let distance = (usize::from(control & 0x1f) << 8 | usize::from(*low)) + 1;
        let from = out.len().checked_sub(distance).ok_or(Corrupt)?;
        repeat(out, from, len);
    }
    Ok(())
}

/// Appends `len` bytes that start at `from`; they may overlap with the appended ones.
fn repeat(out: &mut Vec<u8>, from: usize, len: usize) {
    let end = out.len() + len;
    while out.len() < end {
        let take = (out.len() - from).min(end - out.len());
        out.extend_from_within(from..from + take);
    }
}

/// Decompresses a string that arrives in pieces.
#[derive(Default)]
pub(crate) struct Unpacker {
    /// Compressed bytes that are not a complete instruction yet.
    input: Vec<u8>,
    /// The end of the decompressed bytes, as far as references reach back.
    window: Vec<u8>,
}

impl Unpacker {
    /// The number of bytes decompressed before they are passed on.
    const STEP_BYTES: usize = 64 * 1024;

    /// Decompresses another piece and passes the result on.
    pub(crate) fn add(
        &mut self,
        packed: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Corrupt> {
        self.input.extend_from_slice(packed);
        let mut rest = &self.input[..];
        loop {
            let known = self.window.len();
            decompress(&mut rest, &mut self.window, known + Self::STEP_BYTES)?;
            let new = self.window.get(known..).unwrap_or_default();
            if new.is_empty() {
                break;
            }
            take(new);
            self.window.drain(..self.window.len().saturating_sub(FARTHEST));
        }
        self.input.drain(..self.input.len() - rest.len());
        Ok(())
    }

    /// Whether the last instruction is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.input.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(mut input: &[u8]) -> Result<Vec<u8>, Corrupt> {
        let mut out = Vec::new();
        decompress(&mut input, &mut out, usize::MAX)?;
        if input.is_empty() { Ok(out) } else { Err(Corrupt) }
    }

    proptest! {
        #[test]
        fn compressed_data_round_trips(
            pieces in prop::collection::vec(prop::collection::vec(0_u8..4, 0..2000), 0..8),
            noise in prop::collection::vec(any::<u8>(), 0..500),
            len in 1_usize..600,
        ) {
            let mut out = Vec::new();
            let mut whole = Vec::new();
            for piece in pieces.iter().chain([&noise]) {
                compress(piece, &mut out);
                whole.extend_from_slice(piece);
            }
            prop_assert_eq!(all(&out), Ok(whole.clone()));
            let mut unpacker = Unpacker::default();
            let mut unpacked = Vec::new();
            for piece in out.chunks(len) {
                let added = unpacker.add(piece, &mut |bytes| unpacked.extend_from_slice(bytes));
                prop_assert_eq!(added, Ok(()));
            }
            prop_assert!(unpacker.is_complete());
            prop_assert_eq!(unpacked, whole);
        }

        #[test]
        fn arbitrary_input_is_refused_or_decompressed(
            input in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Ok(out) = all(&input) {
                prop_assert!(out.len() <= input.len() * LONGEST_MATCH);
            }
        }
    }

    #[test]
    fn repetitive_data_is_compressed() {
        let mut out = Vec::new();
        compress(&b"abcdefghij".repeat(1000), &mut out);
        assert!(out.len() < 150, "{}", out.len());
        let far = [&[1, 2, 3, 4][..], &vec![0; FARTHEST - 4], &[1, 2, 3, 4]].concat();
        out.clear();
        compress(&far, &mut out);
        assert_eq!(all(&out), Ok(far));
    }

    #[test]
    fn random_data_is_not_compressed() {
        let mut compressor = Compressor::default();
        let mut out = b"before".to_vec();
        let unlike: Vec<u8> = (0..=255).collect();
        assert!(!compressor.compress_if_repetitive(&unlike, &mut out));
        assert_eq!(out, b"before");
        let twice = unlike.repeat(2);
        assert!(compressor.compress_if_repetitive(&twice, &mut out));
        assert_eq!(all(&out[6..]), Ok(twice));
        // It has no repetition of the string compressed before it either.
        out.clear();
        assert!(!compressor.compress_if_repetitive(&unlike, &mut out));
    }

    #[test]
    fn repetitions_are_found_after_incompressible_data() {
        let mut compressor = Compressor::default();
        let mut out = Vec::new();
        let unlike: Vec<u8> = (0..=255).collect();
        for _ in 0..10 * INCOMPRESSIBLE_STRINGS {
            assert!(!compressor.compress_if_repetitive(&unlike, &mut out));
        }
        let text = [&unlike[..], &b"abcdefghij".repeat(10)].concat();
        assert!(compressor.compress_if_repetitive(&text, &mut out));
        assert_eq!((all(&out), compressor.incompressible), (Ok(text), 0));
    }

    #[test]
    fn table_positions_may_wrap_around() {
        let mut compressor = Compressor { base: u32::MAX - 100, ..Compressor::default() };
        let text = b"abcdefghij".repeat(5);
        for _ in 0..5 {
            let mut out = Vec::new();
            compressor.compress(&text, &mut out);
            assert_eq!(all(&out), Ok(text.clone()));
        }
    }

    #[test]
    fn invalid_references_and_truncated_input_are_refused() {
        assert_eq!(all(&[0x20, 0x00]), Err(Corrupt));
        assert_eq!(all(&[0x05, 1]), Err(Corrupt));
        assert_eq!(all(&[0x00, 9, 0xe0, 0x00, 0x00]), Ok(vec![9; 10]));
    }
}
