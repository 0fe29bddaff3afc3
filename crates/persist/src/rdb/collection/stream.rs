//! Decodes streams: nodes in Redis' format, then the metadata of the stream and its groups, part by
//! part.

use super::Element;
use super::text::TextBuffer;
use crate::rdb::fault::{Fault, Found};
use crate::rdb::input::Input;
use nagi_store::{StreamId, StreamPart};
use std::io::Read;

const COUNT: &str = "a number of a stream's parts";
const NODE_ID: &str = "the ID of a stream's node";
const NODE: &str = "a node of a stream";
const ID: &str = "the ID of a stream's entry";
const NUMBER: &str = "a number of a stream";
const GROUP: &str = "the name of a consumer group";
const CONSUMER: &str = "the name of a consumer";
const TIME: &str = "a time";

/// Written if the number of entries read is not known.
const UNKNOWN: u64 = u64::MAX;

/// The next part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Nodes,
    Groups,
    Pending,
    Consumers,
    Owned,
}

/// The remaining parts of a stream.
pub(super) struct StreamParts {
    /// Which of the three formats it has.
    form: u8,
    stage: Stage,
    nodes: u64,
    groups: u64,
    pending: u64,
    /// `None` until their number has been read.
    consumers: Option<u64>,
    owned: u64,
    text: Vec<u8>,
    is_over: bool,
}

impl StreamParts {
    /// Begins a stream with this many nodes.
    pub(super) fn new(form: u8, nodes: u64) -> Self {
        StreamParts {
            form,
            stage: Stage::Nodes,
            nodes,
            groups: 0,
            pending: 0,
            consumers: None,
            owned: 0,
            text: Vec::new(),
            is_over: false,
        }
    }

    /// Returns the next part, unless all have been read.
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<Option<Element<'_>>, Fault> {
        if self.is_over {
            return Ok(None);
        }
        let part = match self.stage {
            Stage::Nodes if self.nodes > 0 => self.node(input)?,
            Stage::Nodes => self.head(input)?,
            Stage::Groups => self.group(input)?,
            Stage::Pending => self.pending(input)?,
            Stage::Consumers if self.consumers.is_none() => self.consumers(input)?,
            Stage::Consumers => self.consumer(input)?,
            Stage::Owned => {
                self.owned -= 1;
                Part::Owned(id(input)?)
            }
        };
        self.move_on();
        Ok(Some(Element::Part(part.with(&self.text))))
    }

    /// Determines the next part.
    fn move_on(&mut self) {
        self.stage = match self.stage {
            Stage::Nodes => return,
            _ if self.owned > 0 => Stage::Owned,
            _ if self.pending > 0 => Stage::Pending,
            Stage::Groups if self.consumers == Some(0) => Stage::Groups,
            _ if self.consumers != Some(0) => Stage::Consumers,
            _ => Stage::Groups,
        };
        self.is_over = self.stage == Stage::Groups && self.groups == 0;
    }

    fn read_text<R: Read>(
        &mut self,
        input: &mut Input<R>,
        expected: &'static str,
    ) -> Result<(), Fault> {
        let mut text = TextBuffer::default();
        text.read(input, expected)?;
        self.text = text.take().to_vec();
        Ok(())
    }

    fn node<R: Read>(&mut self, input: &mut Input<R>) -> Result<Part, Fault> {
        self.nodes -= 1;
        self.read_text(input, NODE_ID)?;
        let damaged = input.damaged(self.text.len() as u64, NODE_ID, Found::Other);
        let first = self.text.as_slice().try_into().ok().map(id_of).ok_or(damaged)?;
        self.read_text(input, NODE)?;
        Ok(Part::Node(first))
    }

    fn head<R: Read>(&mut self, input: &mut Input<R>) -> Result<Part, Fault> {
        let len = input.number(COUNT)?;
        let last_id = numbered_id(input)?;
        // Older formats end here; nothing was deleted, as far as they contain.
        let (mut first_id, mut max_deleted_id, mut entries_added) =
            (StreamId::MIN, StreamId::MIN, None);
        if self.form >= 2 {
            first_id = numbered_id(input)?;
            max_deleted_id = numbered_id(input)?;
            entries_added = Some(input.number(NUMBER)?);
        }
        let groups = input.number("a number of consumer groups")?;
        (self.groups, self.consumers, self.stage) = (groups, Some(0), Stage::Groups);
        Ok(Part::Head(StreamPart::Head {
            len,
            last_id,
            first_id,
            max_deleted_id,
            entries_added,
            groups,
        }))
    }

    fn group<R: Read>(&mut self, input: &mut Input<R>) -> Result<Part, Fault> {
        self.groups -= 1;
        self.read_text(input, GROUP)?;
        let last_id = numbered_id(input)?;
        let entries_read = if self.form >= 2 { input.number(NUMBER)? } else { UNKNOWN };
        self.pending = input.number(COUNT)?;
        self.consumers = None;
        let entries_read = Some(entries_read).filter(|it| *it != UNKNOWN);
        Ok(Part::Group { last_id, entries_read, pending: self.pending })
    }

    fn pending<R: Read>(&mut self, input: &mut Input<R>) -> Result<Part, Fault> {
        self.pending -= 1;
        let (id, delivered_ms) = (id(input)?, time(input)?);
        Ok(Part::Pending { id, delivered_ms, deliveries: input.number(NUMBER)? })
    }

    fn consumers<R: Read>(&mut self, input: &mut Input<R>) -> Result<Part, Fault> {
        let count = input.number("a number of consumers")?;
        self.consumers = Some(count);
        Ok(Part::Consumers(count))
    }

    fn consumer<R: Read>(&mut self, input: &mut Input<R>) -> Result<Part, Fault> {
        self.consumers = self.consumers.map(|left| left.saturating_sub(1));
        self.read_text(input, CONSUMER)?;
        let seen_ms = time(input)?;
        // Older formats do not have this time; Redis assumes that both are equal.
        let active_ms = match self.form {
            ..3 => Some(seen_ms),
            _ => u64::try_from(i64::from_le_bytes(input.array(TIME)?)).ok(),
        };
        self.owned = input.number(COUNT)?;
        Ok(Part::Consumer { seen_ms, active_ms, pending: self.owned })
    }
}

/// A part without its text.
enum Part {
    Node(StreamId),
    Head(StreamPart<'static>),
    Group { last_id: StreamId, entries_read: Option<u64>, pending: u64 },
    Pending { id: StreamId, delivered_ms: u64, deliveries: u64 },
    Consumers(u64),
    Consumer { seen_ms: u64, active_ms: Option<u64>, pending: u64 },
    Owned(StreamId),
}

impl Part {
    fn with(self, text: &[u8]) -> StreamPart<'_> {
        match self {
            Part::Node(first) => StreamPart::Node { first, listpack: text },
            Part::Head(head) => head,
            Part::Group { last_id, entries_read, pending } => {
                StreamPart::Group { name: text, last_id, entries_read, pending }
            }
            Part::Pending { id, delivered_ms, deliveries } => {
                StreamPart::Pending { id, delivered_ms, deliveries }
            }
            Part::Consumers(count) => StreamPart::Consumers(count),
            Part::Consumer { seen_ms, active_ms, pending } => {
                StreamPart::Consumer { name: text, seen_ms, active_ms, pending }
            }
            Part::Owned(id) => StreamPart::Owned(id),
        }
    }
}

fn id_of(bytes: [u8; 16]) -> StreamId {
    let both = u128::from_be_bytes(bytes);
    StreamId { ms: (both >> 64) as u64, seq: both as u64 }
}

fn id<R: Read>(input: &mut Input<R>) -> Result<StreamId, Fault> {
    Ok(id_of(input.array(ID)?))
}

fn numbered_id<R: Read>(input: &mut Input<R>) -> Result<StreamId, Fault> {
    Ok(StreamId { ms: input.number(ID)?, seq: input.number(ID)? })
}

fn time<R: Read>(input: &mut Input<R>) -> Result<u64, Fault> {
    Ok(u64::try_from(i64::from_le_bytes(input.array(TIME)?)).unwrap_or(0))
}
