//! Long arguments, received into the chunks in which they are going to be kept.
//!
//! Memory is taken as bytes arrive, a few chunks ahead of them at most and one to begin with, not
//! as a length announces.

use arrayvec::ArrayVec;
use nagi_chunk::{CHUNK_BYTES, UninitChunk, pool};
use nagi_proto::{Awaited, Chunk, Landed};
use nagi_store::Rope;
use std::io::IoSliceMut;

/// Most chunks of a room: some 100 microseconds' worth of receiving.
pub(crate) const ROOM_CHUNKS: usize = 4;
/// What must have arrived of an argument before it gets chunks.
pub(crate) const FIRST_BYTES: usize = 16 * 1024;

/// Memory to receive into, which nobody else sees.
#[derive(Debug, Default)]
pub(crate) struct Room {
    chunks: ArrayVec<UninitChunk, ROOM_CHUNKS>,
}

impl Room {
    /// The parts that are not filled yet, in order.
    pub(crate) fn slices(&mut self) -> ArrayVec<IoSliceMut<'_>, ROOM_CHUNKS> {
        let parts = self.chunks.iter_mut().map(UninitChunk::room);
        parts.filter(|part| !part.is_empty()).map(IoSliceMut::new).collect()
    }

    /// How many bytes there is room for.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len() - chunk.written()).sum()
    }

    /// How many bytes have been received.
    fn filled(&self) -> usize {
        self.chunks.iter().map(UninitChunk::written).sum()
    }

    /// Notes that `len` bytes have been received.
    pub(crate) fn advance(&mut self, mut len: usize) {
        for chunk in &mut self.chunks {
            let here = len.min(chunk.len() - chunk.written());
            chunk.advance(here);
            len -= here;
        }
    }
}

/// The long arguments of one request.
#[derive(Debug, Default)]
pub(crate) struct Landing {
    /// Where those that are complete began.
    offsets: Vec<u32>,
    arguments: Vec<Landed>,
    coming: Option<Coming>,
}

/// An argument that is arriving.
#[derive(Debug)]
struct Coming {
    at: u32,
    /// Chunks that are full, and the length of all of them.
    chunks: Vec<Chunk>,
    bytes: usize,
    /// What is being filled, unless the driver has it.
    room: Room,
    /// Bytes that the room had when it was lent, while it is.
    lent: Option<usize>,
    /// Bytes for which there is no chunk yet.
    unplaced: usize,
}

impl Coming {
    /// Has room for what comes next. Where the kernel has yet to provide the memory, while it
    /// receives, a chunk takes as long as many others: sixteen page faults more.
    fn make_room(&mut self) {
        let at_hand = pool::warm().max(1);
        let most = (self.bytes / CHUNK_BYTES).min(at_hand).clamp(1, ROOM_CHUNKS);
        while self.room.chunks.len() < most && self.unplaced > 0 {
            let len = self.unplaced.min(CHUNK_BYTES);
            self.unplaced -= len;
            self.room.chunks.push(UninitChunk::new(len));
        }
    }

    /// Takes what has been filled out of the room.
    fn collect(&mut self) {
        while self.room.chunks.first().is_some_and(|first| first.written() == first.len())
            && let Some(first) = self.room.chunks.pop_at(0)
        {
            self.bytes += first.len();
            self.chunks.push(first.finish());
        }
    }

    fn is_complete(&self) -> bool {
        self.unplaced == 0 && self.room.chunks.is_empty() && self.lent.is_none()
    }
}

impl Landing {
    /// Whether nothing has landed and nothing is coming.
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty() && self.coming.is_none()
    }

    /// Whether an argument is arriving.
    pub(crate) fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// Where the arguments began that have landed.
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// The arguments that have landed.
    pub(crate) fn arguments(&self) -> &[Landed] {
        &self.arguments
    }

    /// Begins to receive an argument.
    pub(crate) fn begin(&mut self, awaited: Awaited) {
        self.coming = Some(Coming {
            at: awaited.at,
            chunks: Vec::new(),
            bytes: 0,
            room: Room::default(),
            lent: None,
            unplaced: awaited.len as usize,
        });
    }

    /// Copies what has arrived elsewhere. Returns how much of it belongs to the argument.
    pub(crate) fn take(&mut self, received: &[u8]) -> usize {
        let Some(coming) = &mut self.coming else { return 0 };
        debug_assert!(received.is_empty() || coming.lent.is_none(), "the room is what comes next");
        let mut taken = 0;
        while taken < received.len() && !coming.is_complete() {
            coming.make_room();
            let rest = received.get(taken..).unwrap_or_default();
            let mut copied = 0;
            if let Some(part) = coming.room.slices().first_mut() {
                copied = part.len().min(rest.len());
                let (part, _) = part.split_at_mut(copied);
                part.copy_from_slice(rest.get(..copied).unwrap_or_default());
            }
            coming.room.advance(copied);
            coming.collect();
            taken += copied;
        }
        taken
    }

    /// Lends room for the argument that is arriving.
    pub(crate) fn lend(&mut self) -> Option<Room> {
        let coming = self.coming.as_mut().filter(|it| it.lent.is_none() && !it.is_complete())?;
        coming.make_room();
        coming.lent = Some(coming.room.filled());
        Some(std::mem::take(&mut coming.room))
    }

    /// Takes back room that was lent, with what was received into it.
    pub(crate) fn give_back(&mut self, room: Room) {
        if let Some(coming) = &mut self.coming {
            coming.lent = None;
            coming.room = room;
            coming.collect();
        }
    }

    /// Whether the argument that was arriving has arrived just now.
    pub(crate) fn has_landed(&mut self) -> bool {
        let Some(coming) = self.coming.take_if(|coming| coming.is_complete()) else { return false };
        self.offsets.push(coming.at);
        self.arguments.push(Landed::new(coming.chunks));
        true
    }

    /// How many bytes it holds that no command has.
    pub(crate) fn bytes(&self) -> usize {
        let landed = self.arguments.iter().map(Landed::len).sum::<usize>();
        landed
            + self
                .coming
                .as_ref()
                .map_or(0, |coming| coming.bytes + coming.room.filled() + coming.lent.unwrap_or(0))
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        // As ropes, what is large is freed by the reclaimer.
        let coming = self.coming.take().map(|coming| coming.chunks);
        let landed = self.arguments.iter().map(Landed::take);
        landed.chain(coming).map(Rope::from_chunks).for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        /// Received into place or copied, in whatever pieces, an argument is what was sent.
        #[test]
        fn an_argument_lands_as_it_was_sent(
            len in prop_oneof![1..CHUNK_BYTES * 9, Just(CHUNK_BYTES), Just(CHUNK_BYTES * 3)],
            pieces in prop::collection::vec((any::<bool>(), 1_usize..200_000), 1..200),
        ) {
            let sent: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut landing = Landing::default();
            landing.begin(Awaited { at: 7, len: len as u32 });
            let mut at = 0;
            for (in_place, most) in pieces.into_iter().cycle() {
                let piece = &sent[at..len.min(at + most)];
                if in_place {
                    let mut room = landing.lend().unwrap();
                    prop_assert!(room.len() <= len - at, "never more than the remainder");
                    prop_assert!(room.len() <= at.max(CHUNK_BYTES), "no more than has arrived");
                    let mut received = 0;
                    for part in &mut room.slices() {
                        let taken = part.len().min(piece.len() - received);
                        part[..taken].copy_from_slice(&piece[received..received + taken]);
                        received += taken;
                    }
                    room.advance(received);
                    prop_assert!(!landing.has_landed(), "not while the room is lent");
                    prop_assert!(landing.lend().is_none(), "there is one room");
                    landing.give_back(room);
                    at += received;
                } else {
                    prop_assert_eq!(landing.take(piece), piece.len());
                    at += piece.len();
                }
                prop_assert_eq!(landing.bytes(), at);
                if landing.has_landed() {
                    break;
                }
            }
            prop_assert_eq!(at, len);
            prop_assert_eq!(landing.take(b"more"), 0);
            prop_assert_eq!(landing.offsets(), [7]);
            let chunks = landing.arguments()[0].take();
            prop_assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK_BYTES));
            prop_assert!(chunks.concat() == sent);
        }
    }
}
