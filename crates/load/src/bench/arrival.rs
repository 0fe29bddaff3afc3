//! The replies that arrive on a connection at one wake-up.

use nagi_client::{Connection, Error, Outcome};

use super::mix::Mix;
use super::splits::Splits;
use super::verified::Verified;
use super::worker::{Flight, Link, Load, Worker};
use crate::tally::Errors;

/// The replies received at one wake-up. Counts exclude replies to the greeting.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) replies: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes: u64,
    /// Begin times of the answered requests, if each request is tracked.
    pub(crate) begun_ns: Vec<u64>,
    /// The results of --verify for the replies.
    pub(crate) verified: Verified,
}

impl Arrival {
    /// Empties the buffers but keeps their memory. The bytes of an incomplete reply stay counted,
    /// for the wake-up that completes it.
    pub(crate) fn clear(&mut self) {
        let mut begun_ns = std::mem::take(&mut self.begun_ns);
        begun_ns.clear();
        let bytes = if self.replies == 0 { self.bytes } else { 0 };
        *self = Arrival { begun_ns, bytes, ..Arrival::default() };
    }

    /// Receives until the socket is drained, which only a short receive shows. After a hang-up, the
    /// end of the stream itself has to be read.
    fn take(
        &mut self,
        (connection, greetings): (&mut Connection, &mut usize),
        scratch: &mut [u8],
        hung_up: bool,
        errors: &mut Errors,
    ) -> Result<(), Error> {
        loop {
            let bytes = connection.receive(scratch, |outcome| {
                if let Outcome::Error(text) = outcome {
                    errors.count(&String::from_utf8_lossy(text), 1);
                }
                if *greetings > 0 {
                    *greetings -= 1;
                    return;
                }
                self.replies += 1;
                self.hits += u64::from(outcome == Outcome::Hit);
                self.misses += u64::from(outcome == Outcome::Miss);
            })?;
            self.bytes += bytes as u64;
            if bytes == 0 || (bytes < scratch.len() && !hung_up) {
                return Ok(());
            }
        }
    }

    /// Like `take`, for a load in which each request is tracked.
    fn take_followed(
        &mut self,
        link: &mut Link,
        mix: &Mix,
        (scratch, key, splits): (&mut [u8], &mut Vec<u8>, &mut Splits),
        hung_up: bool,
        errors: &mut Errors,
    ) -> Result<(), Error> {
        let Link { connection: Some(connection), greetings, flights, .. } = link else {
            return Ok(());
        };
        loop {
            let bytes = connection.receive_replies(scratch, |outcome, reply| {
                if let Outcome::Error(text) = outcome {
                    errors.count(&String::from_utf8_lossy(text), 1);
                }
                if *greetings > 0 {
                    *greetings -= 1;
                } else if let Some(flight) = flights.pop_front() {
                    let Flight { pick, ticket, begun_ns, part } = flight;
                    let judgement = mix.judge((pick, ticket, part), outcome, reply, key);
                    let found = (judgement.hits, judgement.misses);
                    let found = match part {
                        Some(part) => splits.answer(part, found.0, found.1),
                        None => Some(found),
                    };
                    if let Some((hits, misses)) = found {
                        self.replies += 1;
                        self.begun_ns.push(begun_ns);
                        self.hits += hits;
                        self.misses += misses;
                    }
                    if let Some(finding) = judgement.finding {
                        self.verified.note(finding, key);
                        finding.error().into_iter().for_each(|text| errors.count(text, 1));
                    }
                }
            })?;
            self.bytes += bytes as u64;
            if bytes == 0 || (bytes < scratch.len() && !hung_up) {
                return Ok(());
            }
        }
    }
}

impl Worker {
    /// Receives what has arrived on connection `index`.
    pub(crate) fn receive(
        &mut self,
        index: usize,
        hung_up: bool,
        arrival: &mut Arrival,
        errors: &mut Errors,
    ) -> Result<(), Error> {
        let Some(link) = self.links.get_mut(index) else { return Ok(()) };
        match &self.load {
            Load::Mixed(mix) => {
                let buffers = (&mut self.scratch[..], &mut self.key, &mut self.splits);
                arrival.take_followed(link, mix, buffers, hung_up, errors)
            }
            Load::Plain { .. } => match &mut link.connection {
                Some(connection) => {
                    let link = (connection, &mut link.greetings);
                    arrival.take(link, &mut self.scratch, hung_up, errors)
                }
                None => Ok(()),
            },
        }
    }
}
