//! Replies that the socket had no room for.

use crate::net::sockets::Sockets;
use crate::net::token::Token;
use arrayvec::ArrayVec;
use nagi_proto::{Chunks, Output};
use nagi_store::accounting::{self, Charge, Overhead};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Maximum slices of one send. Chunks of large values have 64 KB each, which limits a send to some
/// 100 microseconds.
const SLICES: usize = 8;
/// While the last output of the queue is shorter than this, later ones are appended to it, which
/// saves a queue entry for each. Its buffer keeps what has been sent, so that it may have twice
/// this capacity.
const JOIN_BYTES: usize = 64 * 1024;
/// Maximum reads of 4 KB that discard unread bytes before a socket is closed. Closing a socket with
/// unread bytes resets the connection, which would lose replies in flight.
const DISCARDS: usize = 16;

/// Initial capacity of outputs where one is always needed: enough for all of INFO.
pub(crate) const OUTPUT_ROOM_BYTES: usize = 16 * 1024;

/// Memory that an output takes from the general allocator.
#[inline]
pub(crate) fn taken_bytes(output: &Output) -> usize {
    accounting::room_bytes::<u8>(output.own_bytes())
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything was sent.
    All,
    /// The socket is full; an event will report when it has room.
    Blocked,
    /// The limit of one turn was reached; the socket may have room for more.
    Part,
}

/// Sends as much of `output` as possible and removes that part.
///
/// # Errors
/// The connection is broken.
#[inline]
pub(crate) fn send(
    sockets: &mut impl Sockets,
    token: Token,
    socket: BorrowedFd<'_>,
    output: &mut Output,
) -> Result<Sent, Errno> {
    let asked;
    let result = if let Some(bytes) = output.as_contiguous() {
        asked = bytes.len();
        sockets.send(token, socket, bytes)
    } else {
        let slices: ArrayVec<IoSlice<'_>, SLICES> = output
            .slices()
            .filter(|slice| !slice.is_empty())
            .take(SLICES)
            .map(IoSlice::new)
            .collect();
        asked = slices.iter().map(|slice| slice.len()).sum();
        sockets.send_slices(token, socket, &slices)
    };
    match result {
        Ok(taken) if taken < asked => {
            output.advance(taken);
            Ok(Sent::Blocked)
        }
        Ok(taken) => {
            output.advance(taken);
            Ok(if output.is_empty() { Sent::All } else { Sent::Part })
        }
        Err(Errno::AGAIN) => Ok(Sent::Blocked),
        // A later try may succeed.
        Err(Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(Sent::Part),
        Err(error) => Err(error),
    }
}

/// Discards received bytes that will not be processed.
pub(crate) fn discard_unread(socket: BorrowedFd<'_>) {
    let mut unread = [0; 4096];
    for _ in 0..DISCARDS {
        match rustix::net::recv(socket, &mut unread, RecvFlags::DONTWAIT) {
            Ok((_, len)) if len == unread.len() => {}
            _ => break,
        }
    }
}

/// Outputs in the order in which they are to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    queue: VecDeque<Output>,
    bytes: usize,
    /// Accounts for the memory of the outputs.
    charge: Charge,
    /// Accounts for the memory of the queue, which an empty queue keeps.
    overhead: Overhead,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of `first` and of the queue after it, in bytes. A value that the keyspace or other
    /// replies also hold is divided among its holders: consecutive replies here count their share,
    /// so that all holders together count the value once.
    pub(crate) fn kept_bytes(&self, first: &Output) -> usize {
        let (mut bytes, mut run) = (0, None::<(&Chunks, usize, usize)>);
        let outputs = || std::iter::once(first).chain(&self.queue);
        for (chunks, len) in outputs().flat_map(Output::shared) {
            run = Some(match run {
                Some((last, count, longest)) if Arc::ptr_eq(last, chunks) => {
                    (last, count + 1, longest.max(len))
                }
                other => {
                    bytes += of_run(other);
                    (chunks, 1, len)
                }
            });
        }
        bytes + of_run(run) + outputs().map(Output::own_bytes).sum::<usize>()
    }

    /// Moves all data out of `output`.
    pub(crate) fn push(&mut self, output: &mut Output) {
        self.bytes += output.len();
        if let (Some(last), Some(bytes)) = (self.queue.back_mut(), output.as_contiguous())
            && last.len() < JOIN_BYTES
            && last.own_bytes() < 2 * JOIN_BYTES
        {
            let before = taken_bytes(last);
            last.push(bytes);
            self.charge.set(self.charge.bytes() + taken_bytes(last) - before);
            output.clear(JOIN_BYTES);
        } else {
            self.charge.set(self.charge.bytes() + taken_bytes(output));
            self.queue.push_back(std::mem::take(output));
            self.overhead.set(accounting::room_bytes::<Output>(self.queue.capacity()));
        }
    }

    /// Sends up to the limit of one turn.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(
        &mut self,
        sockets: &mut impl Sockets,
        token: Token,
        socket: BorrowedFd<'_>,
    ) -> Result<Sent, Errno> {
        self.send_by(|front| send(sockets, token, socket, front))
    }

    /// Like [`Outgoing::send`], by a function that sends as much of an output as possible and
    /// removes that part.
    ///
    /// # Errors
    /// Those of `send`.
    pub(crate) fn send_by<E>(
        &mut self,
        send: impl FnOnce(&mut Output) -> Result<Sent, E>,
    ) -> Result<Sent, E> {
        let Some(front) = self.queue.front_mut() else { return Ok(Sent::All) };
        let before = front.len();
        let sent = send(front)?;
        self.bytes -= before - front.len();
        if front.is_empty() {
            self.pop();
        }
        Ok(if sent == Sent::All && !self.queue.is_empty() { Sent::Part } else { sent })
    }

    /// Removes and returns the first output.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.len();
        self.charge.set(self.charge.bytes() - taken_bytes(&first));
        Some(first)
    }

    /// Drops all outputs.
    pub(crate) fn clear(&mut self) {
        *self = Outgoing::default();
    }
}

/// The bytes that a run of consecutive replies accounts for. `run` has the value that they share,
/// their number, and the longest part of the value in one of them, in bytes.
fn of_run(run: Option<(&Chunks, usize, usize)>) -> usize {
    run.map_or(0, |(chunks, count, longest)| longest * count / Arc::strong_count(chunks).max(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::sockets::Kernel;
    use nagi_proto::Chunk;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    const TOKEN: Token = Token { index: 0, generation: 0 };

    #[test]
    fn unsent_outputs_are_sent_in_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut outgoing = Outgoing::default();
        let mut model: Vec<u8> = Vec::new();
        for number in 0..200_u8 {
            let mut output = Output::default();
            output.push(&vec![number; 999 * usize::from(number % 5)]);
            if number % 3 == 0 {
                for _ in 0..=SLICES {
                    let chunk: Chunk = vec![number ^ 0xff; 7_000].into();
                    output.splice(Arc::new([chunk]), 0..7_000);
                }
                output.push(b"behind");
            }
            model.extend(output.slices().flatten());
            outgoing.push(&mut output);
            assert!(output.is_empty());
            assert_eq!(outgoing.bytes(), model.len());
        }
        let mut received = Vec::new();
        let mut blocked = 0;
        let mut buffer = [0; 10_000];
        while !outgoing.is_empty() {
            if outgoing.send(&mut Kernel, TOKEN, ours.as_fd()).unwrap() == Sent::Blocked {
                blocked += 1;
                let len = theirs.read(&mut buffer).unwrap();
                received.extend_from_slice(&buffer[..len]);
            }
            assert!(outgoing.bytes() <= model.len() - received.len());
        }
        drop(ours);
        theirs.read_to_end(&mut received).unwrap();
        assert!(received == model);
        assert!(blocked > 0, "it did not all fit at once");
        assert_eq!(outgoing.bytes(), 0);
    }

    #[test]
    fn bytes_that_were_sent_are_not_kept() {
        let mut outgoing = Outgoing::default();
        let mut sent = 0;
        for _ in 0..10_000 {
            outgoing.push(&mut {
                let mut output = Output::default();
                output.push(&[b'x'; 1000]);
                output
            });
            // A thousand bytes always remain.
            let mut most = outgoing.bytes() - 1000;
            while most > 0 {
                let part = |front: &mut Output| -> Result<Sent, ()> {
                    let len = front.len().min(most);
                    front.advance(len);
                    most -= len;
                    sent += len;
                    Ok(Sent::Part)
                };
                outgoing.send_by(part).unwrap();
            }
            assert!(
                outgoing.kept_bytes(&Output::default()) <= 4 * JOIN_BYTES,
                "after {sent} bytes"
            );
        }
        assert_eq!(sent, 9_999_000);
    }

    #[test]
    fn a_shared_value_is_charged_in_part() {
        let value = |byte: u8| -> Chunks { Arc::new([Chunk::from(vec![byte; 60_000])]) };
        let reply = |value: &Chunks, len| {
            let mut output = Output::default();
            output.splice(Arc::clone(value), 0..len);
            output
        };
        let (stored, alone) = (value(1), value(2));
        let mut outgoing = Outgoing::default();
        let first = reply(&alone, 60_000);
        outgoing.push(&mut reply(&alone, 40_000));
        drop(alone);
        let kept = outgoing.kept_bytes(&first);
        assert!((60_000..65_000).contains(&kept), "once, though twice on its way: {kept}");

        let nothing = Output::default();
        let mut readers: Vec<Outgoing> = (0..3).map(|_| Outgoing::default()).collect();
        for reader in &mut readers {
            reader.push(&mut reply(&stored, 60_000));
        }
        let kept = |readers: &[Outgoing]| -> usize {
            readers.iter().map(|reader| reader.kept_bytes(&nothing)).sum()
        };
        let shares = kept(&readers);
        assert!((45_000..50_000).contains(&shares), "three of four hold it: {shares}");
        drop(stored);
        let shares = kept(&readers);
        assert!((60_000..65_000).contains(&shares), "they alone hold it: {shares}");
    }

    #[test]
    fn a_broken_connection_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let mut outgoing = Outgoing::default();
        let mut output = Output::default();
        output.push(b"too late");
        outgoing.push(&mut output);
        assert_eq!(outgoing.send(&mut Kernel, TOKEN, ours.as_fd()), Err(Errno::PIPE));
    }
}
