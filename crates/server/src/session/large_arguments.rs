//! Long arguments, received into their final chunks.
//!
//! Memory is allocated as bytes arrive: one chunk at first, then a few chunks ahead at most. An
//! announced length allocates nothing.

use crate::net::receive_buffer::{BUFFER_CHUNKS, ReceiveBuffer};
use crate::protocols::LargeParts;
use nagi_chunk::{CHUNK_BYTES, UninitChunk, pool};
use nagi_proto::{Awaited, Chunk, LargeArgument};
use nagi_store::Rope;

/// Bytes of an argument that must have arrived before it gets chunks.
pub(crate) const FIRST_BYTES: usize = 16 * 1024;

/// The long arguments of one request.
#[derive(Debug, Default)]
pub(crate) struct LargeArguments {
    complete: LargeParts,
    arriving: Option<PartialArgument>,
}

/// An argument that is arriving.
#[derive(Debug)]
struct PartialArgument {
    at: u32,
    /// Full chunks, and their total length.
    chunks: Vec<Chunk>,
    bytes: usize,
    /// The buffer being filled, unless the driver has it.
    buffer: ReceiveBuffer,
    /// While the buffer is lent: the number of bytes that it had before.
    lent: Option<usize>,
    /// Bytes for which there is no chunk yet.
    unplaced: usize,
}

impl PartialArgument {
    /// Fills the buffer with chunks for the next bytes: up to one, or, up to the maximum, as many
    /// as have been received and the pool has warm. A chunk whose memory the kernel provides during
    /// the receive costs sixteen more page faults.
    fn extend_buffer(&mut self) {
        let at_hand = pool::warm().max(1);
        let most = (self.bytes / CHUNK_BYTES).min(at_hand).clamp(1, BUFFER_CHUNKS);
        while self.buffer.chunks() < most && self.unplaced > 0 {
            let len = self.unplaced.min(CHUNK_BYTES);
            self.unplaced -= len;
            self.buffer.push(UninitChunk::new(len));
        }
    }

    /// Moves full chunks out of the buffer.
    fn collect(&mut self) {
        while let Some(chunk) = self.buffer.take_full() {
            self.bytes += chunk.len();
            self.chunks.push(chunk);
        }
    }

    fn is_complete(&self) -> bool {
        self.unplaced == 0 && self.buffer.is_empty() && self.lent.is_none()
    }
}

impl LargeArguments {
    /// Whether there is no complete and no arriving argument.
    pub(crate) fn is_empty(&self) -> bool {
        self.complete.offsets.is_empty() && self.arriving.is_none()
    }

    /// Whether an argument is arriving.
    pub(crate) fn is_arriving(&self) -> bool {
        self.arriving.is_some()
    }

    /// The complete arguments.
    #[inline]
    pub(crate) fn complete_parts(&self) -> &LargeParts {
        &self.complete
    }

    /// Starts to receive an argument.
    pub(crate) fn begin(&mut self, awaited: Awaited) {
        self.arriving = Some(PartialArgument {
            at: awaited.at,
            chunks: Vec::new(),
            bytes: 0,
            buffer: ReceiveBuffer::default(),
            lent: None,
            unplaced: awaited.len as usize,
        });
    }

    /// Copies bytes that were received elsewhere. Returns how many of them belong to the argument.
    pub(crate) fn take(&mut self, received: &[u8]) -> usize {
        let Some(arriving) = &mut self.arriving else { return 0 };
        debug_assert!(
            received.is_empty() || arriving.lent.is_none(),
            "the buffer takes what comes next"
        );
        let mut taken = 0;
        while taken < received.len() && !arriving.is_complete() {
            arriving.extend_buffer();
            let rest = received.get(taken..).unwrap_or_default();
            let mut copied = 0;
            if let Some(part) = arriving.buffer.slices().first_mut() {
                copied = part.len().min(rest.len());
                let (part, _) = part.split_at_mut(copied);
                part.copy_from_slice(rest.get(..copied).unwrap_or_default());
            }
            arriving.buffer.advance(copied);
            arriving.collect();
            taken += copied;
        }
        taken
    }

    /// Lends a buffer for the argument that is arriving.
    pub(crate) fn lend(&mut self) -> Option<ReceiveBuffer> {
        let arriving =
            self.arriving.as_mut().filter(|it| it.lent.is_none() && !it.is_complete())?;
        arriving.extend_buffer();
        arriving.lent = Some(arriving.buffer.filled());
        Some(std::mem::take(&mut arriving.buffer))
    }

    /// Takes back the buffer that was lent, with what was received into it.
    pub(crate) fn take_back(&mut self, buffer: ReceiveBuffer) {
        if let Some(arriving) = &mut self.arriving {
            arriving.lent = None;
            arriving.buffer = buffer;
            arriving.collect();
        }
    }

    /// Completes the arriving argument if all its bytes have arrived. Returns whether they have.
    pub(crate) fn complete(&mut self) -> bool {
        let Some(arriving) = self.arriving.take_if(|arriving| arriving.is_complete()) else {
            return false;
        };
        self.complete.offsets.push(arriving.at);
        self.complete.arguments.push(LargeArgument::new(arriving.chunks));
        true
    }

    /// The number of bytes held for commands that have not run.
    pub(crate) fn bytes(&self) -> usize {
        let complete = self.complete.arguments.iter().map(LargeArgument::len).sum::<usize>();
        complete
            + self.arriving.as_ref().map_or(0, |arriving| {
                arriving.bytes + arriving.buffer.filled() + arriving.lent.unwrap_or(0)
            })
    }
}

impl Drop for LargeArguments {
    fn drop(&mut self) {
        // Dropped as ropes, whose long lists of chunks the reclaimer thread frees.
        let arriving = self.arriving.take().map(|arriving| arriving.chunks);
        let complete = self.complete.arguments.iter().map(LargeArgument::take);
        complete.chain(arriving).map(Rope::from_chunks).for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        /// Received in place or copied, in any pieces, an argument equals what was sent.
        #[test]
        fn an_argument_is_received_as_it_was_sent(
            len in prop_oneof![1..CHUNK_BYTES * 9, Just(CHUNK_BYTES), Just(CHUNK_BYTES * 3)],
            pieces in prop::collection::vec((any::<bool>(), 1_usize..200_000), 1..200),
        ) {
            let sent: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut large = LargeArguments::default();
            large.begin(Awaited { at: 7, len: len as u32 });
            let mut at = 0;
            for (in_place, most) in pieces.into_iter().cycle() {
                let piece = &sent[at..len.min(at + most)];
                if in_place {
                    let mut buffer = large.lend().unwrap();
                    prop_assert!(buffer.len() <= len - at, "never more than the remainder");
                    prop_assert!(buffer.len() <= at.max(CHUNK_BYTES), "no more than has arrived");
                    let mut received = 0;
                    for part in &mut buffer.slices() {
                        let taken = part.len().min(piece.len() - received);
                        part[..taken].copy_from_slice(&piece[received..received + taken]);
                        received += taken;
                    }
                    buffer.advance(received);
                    prop_assert!(!large.complete(), "not while the buffer is lent");
                    prop_assert!(large.lend().is_none(), "there is one buffer");
                    large.take_back(buffer);
                    at += received;
                } else {
                    prop_assert_eq!(large.take(piece), piece.len());
                    at += piece.len();
                }
                prop_assert_eq!(large.bytes(), at);
                if large.complete() {
                    break;
                }
            }
            prop_assert_eq!(at, len);
            prop_assert_eq!(large.take(b"more"), 0);
            prop_assert_eq!(&large.complete_parts().offsets[..], [7]);
            let chunks = large.complete_parts().arguments[0].take();
            prop_assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK_BYTES));
            prop_assert!(chunks.concat() == sent);
        }
    }
}
