//! A worker's pipes to the thread that serves HTTP. Pipes are connections of its driver without a
//! socket. A reminder tells the worker that a pipe has bytes or room, and the worker notifies the
//! other side once a turn.

use crate::net::connection_table::ConnectionTable;
use crate::net::link::{Link, Release};
use crate::net::outgoing::{Outgoing, Sent};
use crate::net::token::{Token, Wanted};
use nagi_http::{PipeClosed, Taken, Wakes, WorkerEnd};
use nagi_proto::Output;
use nagi_store::accounting::{self, Overhead};
use rustix::io::Errno;
use std::task::Waker;

/// Capacity that an emptied output retains.
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// The pipes of one worker.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    connections: ConnectionTable<Piped>,
    /// Pipes to check again in the next turn.
    again: Vec<Token>,
    /// Clients with new replies, to be notified.
    wakes: Wakes,
    lists_overhead: Overhead,
}

#[derive(Debug)]
struct Piped {
    end: WorkerEnd,
    unsent: Outgoing,
    wanted: Wanted,
    /// Whether the pipe is in `again`.
    is_queued: bool,
    /// Whether to close the pipe when everything has been sent.
    is_closing: bool,
    /// Whether the client has closed its end.
    is_broken: bool,
}

/// An event on a pipe.
#[derive(Debug)]
pub(crate) enum PipeEvent {
    /// All data has been sent, after some of it had to wait.
    Drained,
    /// Bytes have arrived, in a buffer that must be returned.
    Bytes(Vec<u8>),
    /// The client sends no more bytes.
    End,
    /// The client has closed its end; the pipe has been removed.
    Lost(Errno),
}

impl Pipes {
    /// Adopts a pipe, which the worker checks in the next turn.
    pub(crate) fn adopt(
        &mut self,
        end: WorkerEnd,
        worker_waker: impl FnOnce(Token) -> Waker,
    ) -> Token {
        let token = self.connections.next().of_pipe();
        end.attach(worker_waker(token));
        self.connections.add(Piped {
            end,
            unsent: Outgoing::default(),
            wanted: Wanted::Bytes,
            is_queued: false,
            is_closing: false,
            is_broken: false,
        });
        self.queue_turn(token);
        token
    }

    fn get(&self, token: Token) -> Option<&Piped> {
        self.connections.get(token.in_table())
    }

    fn get_mut(&mut self, token: Token) -> Option<&mut Piped> {
        self.connections.get_mut(token.in_table())
    }

    /// Makes the worker check a pipe in the next turn.
    pub(crate) fn queue_turn(&mut self, token: Token) {
        if let Some(pipe) = self.get_mut(token)
            && !std::mem::replace(&mut pipe.is_queued, true)
        {
            self.again.push(token);
        }
    }

    /// Whether pipes need a turn without a notification.
    pub(crate) fn has_turns(&self) -> bool {
        !self.again.is_empty()
    }

    /// Takes the pipes that need a turn.
    pub(crate) fn take_turns(&mut self) -> Vec<Token> {
        let turns = std::mem::take(&mut self.again);
        for token in &turns {
            if let Some(pipe) = self.get_mut(*token) {
                pipe.is_queued = false;
            }
        }
        turns
    }

    /// The next event of a pipe; `None` if there is none until the worker is notified again or
    /// another turn is queued.
    pub(crate) fn next(&mut self, token: Token) -> Option<PipeEvent> {
        let Pipes { connections, wakes, .. } = self;
        let pipe = connections.get_mut(token.in_table())?;
        if !pipe.unsent.is_empty() {
            let sent = pipe.unsent.send_by(|output| put(&pipe.end, output, wakes));
            match sent {
                Err(PipeClosed) => pipe.is_broken = true,
                Ok(Sent::All) if !pipe.is_closing => return Some(PipeEvent::Drained),
                Ok(Sent::All) => {}
                Ok(Sent::Part) => self.queue_turn(token),
                Ok(Sent::Blocked) => {}
            }
        }
        let pipe = self.connections.get_mut(token.in_table())?;
        let is_done = pipe.is_closing && pipe.unsent.is_empty();
        if pipe.is_broken || is_done {
            let is_lost = !pipe.is_closing;
            self.abort(token);
            return is_lost.then_some(PipeEvent::Lost(Errno::PIPE));
        }
        if pipe.is_closing || pipe.wanted == Wanted::Nothing {
            return None;
        }
        match pipe.end.take(&mut self.wakes) {
            Taken::Bytes(bytes) => Some(PipeEvent::Bytes(bytes)),
            Taken::Nothing => None,
            Taken::End => {
                pipe.wanted = Wanted::Nothing;
                Some(PipeEvent::End)
            }
        }
    }

    /// Returns a buffer whose bytes have been consumed.
    pub(crate) fn give_back(&self, token: Token, buffer: Vec<u8>) {
        if let Some(pipe) = self.get(token) {
            pipe.end.give_back(buffer);
        }
    }

    /// Notifies the other sides of all new data in their pipes.
    #[inline]
    pub(crate) fn notify(&mut self) {
        self.wakes.notify();
    }

    /// Records the memory of the lists.
    pub(crate) fn measure(&mut self) {
        let bytes = accounting::room_bytes::<Token>(self.again.capacity())
            + accounting::room_bytes::<Waker>(self.wakes.capacity());
        self.lists_overhead.set(bytes);
    }

    pub(crate) fn send(&mut self, token: Token, output: &mut Output) {
        let Pipes { connections, wakes, .. } = self;
        let pipe = connections.get_mut(token.in_table());
        let Some(pipe) = pipe.filter(|pipe| !pipe.is_broken) else {
            return output.clear(KEPT_OUTPUT_BYTES);
        };
        if !pipe.unsent.is_empty() {
            return pipe.unsent.push(output);
        }
        match put(&pipe.end, output, wakes) {
            Ok(Sent::All) => output.clear(KEPT_OUTPUT_BYTES),
            Ok(Sent::Part | Sent::Blocked) => pipe.unsent.push(output),
            Err(PipeClosed) => {
                output.clear(KEPT_OUTPUT_BYTES);
                pipe.is_broken = true;
                self.queue_turn(token);
            }
        }
    }

    pub(crate) fn unsent_bytes(&self, token: Token) -> usize {
        self.get(token).map_or(0, |pipe| pipe.unsent.bytes())
    }

    pub(crate) fn kept_bytes(&self, token: Token) -> usize {
        self.get(token).map_or(0, |pipe| pipe.unsent.kept_bytes(&Output::default()))
    }

    pub(crate) fn receive(&mut self, token: Token, wanted: Wanted) {
        if let Some(pipe) = self.get_mut(token) {
            pipe.wanted = wanted;
            if wanted != Wanted::Nothing {
                self.queue_turn(token);
            }
        }
    }

    pub(crate) fn close(&mut self, token: Token) {
        let Some(pipe) = self.get_mut(token) else { return };
        pipe.wanted = Wanted::Nothing;
        pipe.is_closing = true;
        if pipe.unsent.is_empty() {
            self.abort(token);
        }
    }

    pub(crate) fn abort(&mut self, token: Token) {
        drop(self.connections.remove(token.in_table()));
    }

    pub(crate) fn release(&mut self, token: Token) -> Release {
        let Some(pipe) = self.get(token).filter(|pipe| !pipe.is_closing && !pipe.is_broken) else {
            return Release::Refused;
        };
        if !pipe.unsent.is_empty() {
            return Release::Later;
        }
        let released = self.connections.remove(token.in_table());
        released.map_or(Release::Refused, |pipe| Release::Done(Link::Pipe(pipe.end)))
    }

    /// The number of pipes.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }
}

/// Moves as much of `output` into the pipe as there is room for.
fn put(end: &WorkerEnd, output: &mut Output, wakes: &mut Wakes) -> Result<Sent, PipeClosed> {
    let taken = end.put(output.slices(), wakes)?;
    output.advance(taken);
    Ok(if output.is_empty() { Sent::All } else { Sent::Blocked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_http::{ClientEnd, Notifier, pipe};
    use std::sync::Arc;
    use std::task::{Context, Poll};

    /// Pipes and the other end of one of them.
    fn adopted() -> (Pipes, Token, ClientEnd) {
        let (client, end) = pipe(&Arc::new(Notifier::default()));
        let mut pipes = Pipes::default();
        let token = pipes.adopt(end, |_| Waker::noop().clone());
        assert_eq!(pipes.take_turns(), [token]);
        (pipes, token, client)
    }

    fn write(client: &ClientEnd, bytes: &[u8]) {
        let sent = client.poll_write(&mut Context::from_waker(Waker::noop()), bytes);
        assert!(matches!(sent, Poll::Ready(Ok(len)) if len == bytes.len()));
    }

    /// Reads the available bytes; `None` at the end.
    fn read(client: &ClientEnd) -> Option<Vec<u8>> {
        let mut input = Vec::new();
        match client.poll_read(&mut Context::from_waker(Waker::noop()), &mut input) {
            Poll::Ready(Err(_)) => None,
            _ => Some(input),
        }
    }

    /// Sends more than a pipe has room for, in several outputs. Returns what was sent.
    fn send_much(pipes: &mut Pipes, token: Token) -> Vec<u8> {
        let mut sent = Vec::new();
        for number in 0..20_u8 {
            let mut output = Output::default();
            output.push(&vec![number; 999 * usize::from(number)]);
            sent.extend(output.slices().flatten());
            pipes.send(token, &mut output);
            assert!(output.is_empty());
        }
        assert!(pipes.unsent_bytes(token) > 0);
        sent
    }

    #[test]
    fn delayed_bytes_are_sent_in_order() {
        let (mut pipes, token, client) = adopted();
        let (sent, mut received) = (send_much(&mut pipes, token), Vec::new());
        let drained = std::iter::from_fn(|| {
            received.extend(read(&client).unwrap());
            (pipes.unsent_bytes(token) > 0).then(|| pipes.next(token))
        });
        let last = drained.last().unwrap();
        assert!(matches!(last, Some(PipeEvent::Drained)), "{last:?}");
        assert!(received == sent);
    }

    #[test]
    fn a_close_sends_what_is_left_first() {
        let (mut pipes, token, client) = adopted();
        let (sent, mut received) = (send_much(&mut pipes, token), Vec::new());
        write(&client, b"PING\r\n");
        pipes.close(token);
        while let Some(bytes) = read(&client) {
            received.extend(bytes);
            assert!(pipes.next(token).is_none());
        }
        assert!(received == sent);
        assert_eq!(pipes.len(), 0);
    }

    #[test]
    fn bytes_wait_until_they_are_wanted_and_an_end_follows_them() {
        let (mut pipes, token, client) = adopted();
        pipes.receive(token, Wanted::Nothing);
        write(&client, b"PING\r\n");
        drop(client);
        assert!(pipes.next(token).is_none() && !pipes.has_turns());
        pipes.receive(token, Wanted::Bytes);
        assert_eq!(pipes.take_turns(), [token]);
        let Some(PipeEvent::Bytes(bytes)) = pipes.next(token) else { panic!("nothing arrives") };
        assert_eq!(bytes, b"PING\r\n");
        pipes.give_back(token, bytes);
        assert!(matches!(pipes.next(token), Some(PipeEvent::End)));
        assert!(pipes.next(token).is_none(), "it is told once");
    }

    #[test]
    fn a_client_that_leaves_replies_unread_is_lost() {
        let (mut pipes, token, client) = adopted();
        send_much(&mut pipes, token);
        drop(client);
        assert!(matches!(pipes.next(token), Some(PipeEvent::Lost(Errno::PIPE))));
        assert_eq!((pipes.len(), pipes.unsent_bytes(token)), (0, 0));
        assert!(pipes.next(token).is_none());

        let (mut pipes, token, client) = adopted();
        drop(client);
        let mut output = Output::default();
        output.push(b"+OK\r\n");
        pipes.send(token, &mut output);
        assert!(output.is_empty());
        assert_eq!(pipes.take_turns(), [token]);
        assert!(matches!(pipes.next(token), Some(PipeEvent::Lost(Errno::PIPE))));
    }

    #[test]
    fn a_pipe_moves_once_all_has_been_sent() {
        let (mut pipes, token, client) = adopted();
        send_much(&mut pipes, token);
        assert!(matches!(pipes.release(token), Release::Later));
        while pipes.unsent_bytes(token) > 0 {
            read(&client);
            pipes.next(token);
        }
        write(&client, b"PING\r\n");
        let Release::Done(Link::Pipe(end)) = pipes.release(token) else { panic!("it stays") };
        let mut others = Pipes::default();
        let token = others.adopt(end, |_| Waker::noop().clone());
        assert!(
            matches!(others.next(token), Some(PipeEvent::Bytes(bytes)) if bytes == b"PING\r\n")
        );
    }
}
