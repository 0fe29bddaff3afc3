//! Bodies that are buffered: commands and lists of commands, and arguments whose length is known
//! only when they have arrived, since a worker gets the length first.

use super::budget::{Budget, MAX_BYTES, Reservation};
use super::refusal::{Refused, no_room, refuse};
use super::worker_connection::{Failure, WorkerConnection};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap};
use nagi_chunk::{CHUNK_BYTES, UninitChunk};
use std::collections::VecDeque;
use std::time::Duration;

/// The longest body that is buffered as a whole.
const LONGEST_WHOLE: usize = 64 << 20;
/// How long a client may pause within a body.
const PAUSE: Duration = Duration::from_secs(30);

/// An argument in pieces. They are freed one by one as they are passed on, and a worker stores the
/// value in the same memory.
pub(super) struct Pieces {
    pieces: VecDeque<UninitChunk>,
    len: usize,
    reservation: Reservation,
}

/// The next bytes of a body; `None` at its end.
pub(super) async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refused> {
    let frame = tokio::time::timeout(PAUSE, body.frame()).await;
    match frame.map_err(|_| refuse(408, "the body did not arrive in time"))? {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(_)) => Err(refuse(400, "the body cannot be read")),
    }
}

/// Buffers a command or a list of commands.
pub(super) async fn read_whole(
    mut body: Incoming,
    headers: &HeaderMap,
    budget: &Budget,
) -> Result<Bytes, Refused> {
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    let too_long = || refuse(413, "the body is too long: send long values by PUT /COMMAND/...");
    if announced.is_some_and(|bytes: u64| bytes > LONGEST_WHOLE as u64) {
        return Err(too_long());
    }
    let mut reservation = budget.reservation();
    let mut whole = Vec::new();
    while let Some(data) = next(&mut body).await? {
        if whole.len() + data.len() > LONGEST_WHOLE {
            return Err(too_long());
        }
        reservation.grow(data.len()).map_err(|_| no_room())?;
        whole.extend(data);
    }
    Ok(reservation.attach(whole))
}

/// The refusal of an argument that is longer than any may be.
pub(super) fn longer_than_arguments() -> Refused {
    refuse(413, "the body is longer than proto-max-bulk-len")
}

impl Pieces {
    /// Buffers an argument of at most `longest` bytes.
    pub(super) async fn read(
        mut body: Incoming,
        longest: usize,
        budget: &Budget,
    ) -> Result<Self, Refused> {
        let mut read =
            Pieces { pieces: VecDeque::new(), len: 0, reservation: budget.reservation() };
        while let Some(data) = next(&mut body).await? {
            if data.len() > longest.saturating_sub(read.len) {
                return Err(longer_than_arguments());
            }
            let reserved = read.reservation.grow_within(data.len(), longest.max(MAX_BYTES));
            reserved.map_err(|_| no_room())?;
            read.append(&data);
        }
        Ok(read)
    }

    fn append(&mut self, mut data: &[u8]) {
        self.len += data.len();
        while !data.is_empty() {
            let last = self.pieces.back_mut().filter(|piece| piece.written() < piece.len());
            let Some(last) = last else {
                // A short argument takes no more than it needs.
                let is_first = self.pieces.is_empty();
                let bytes = if is_first { data.len().min(CHUNK_BYTES) } else { CHUNK_BYTES };
                self.pieces.push_back(UninitChunk::new(bytes));
                continue;
            };
            let taken = last.append(data);
            data = data.get(taken..).unwrap_or_default();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Passes the argument on to a worker.
    pub(super) async fn send(mut self, connection: &mut WorkerConnection) -> Result<(), Failure> {
        while let Some(piece) = self.pieces.pop_front() {
            let written = piece.written();
            let piece = piece.finish();
            connection.send_bytes(piece.get(..written).unwrap_or_default()).await?;
            self.reservation.shrink(written);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_chunks() {
        let budget = Budget::default();
        let mut read =
            Pieces { pieces: VecDeque::new(), len: 0, reservation: budget.reservation() };
        read.append(b"abc");
        assert_eq!((read.len(), read.pieces[0].len()), (3, 3));
        read.append(&vec![b'x'; CHUNK_BYTES * 2 + 1]);
        let lengths: Vec<_> = read.pieces.iter().map(|it| (it.written(), it.len())).collect();
        let whole = (CHUNK_BYTES, CHUNK_BYTES);
        assert_eq!(lengths, [(3, 3), whole, whole, (1, CHUNK_BYTES)]);
    }
}
