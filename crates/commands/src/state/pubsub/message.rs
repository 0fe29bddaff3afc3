//! A message that is passed from its publisher to workers with subscribers, and from there into
//! their output.

use super::kind::{Kind, Name};
use nagi_proto::resp::{Version, Writer};
use nagi_proto::{Chunk, Chunks, Output};
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::{CHUNK_BYTES, StringInput};
use std::sync::Arc;

/// A message of at least this length is shared by its subscribers instead of copied.
const SHARED_BYTES: usize = 4096;
/// The cost of passing a message to one subscriber, besides copying it, in bytes to copy.
const HANDED_BYTES: usize = 64;

/// The contents of a message.
pub struct Message(Body);

enum Body {
    Copied(Box<[u8]>),
    Shared(Chunks, usize),
}

/// The chunks of a message, which are no data however long they wait for its subscribers.
struct AccountedChunks<C> {
    chunks: C,
    _charge: Charge,
}

impl<C: AsRef<[Chunk]>> AccountedChunks<C> {
    fn new(chunks: C) -> Self {
        let mut charge = Charge::default();
        // Chunks of the full length do not count as data anyway.
        let last = chunks.as_ref().last().map_or(0, |chunk| chunk.len());
        if last != CHUNK_BYTES {
            charge.set(room_bytes::<u64>(last.div_ceil(size_of::<u64>())));
        }
        AccountedChunks { chunks, _charge: charge }
    }
}

impl<C: AsRef<[Chunk]>> AsRef<[Chunk]> for AccountedChunks<C> {
    fn as_ref(&self) -> &[Chunk] {
        self.chunks.as_ref()
    }
}

/// Chunks that the message shares with the request.
struct SharedChunks(Chunks);

impl AsRef<[Chunk]> for SharedChunks {
    fn as_ref(&self) -> &[Chunk] {
        (*self.0).as_ref()
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Self {
        Message(match bytes.len() {
            SHARED_BYTES.. => {
                Body::Shared(Arc::new(AccountedChunks::new([Chunk::from(bytes)])), bytes.len())
            }
            _ => Body::Copied(bytes.into()),
        })
    }
}

impl From<StringInput<'_>> for Message {
    fn from(given: StringInput<'_>) -> Self {
        match given {
            StringInput::Bytes(bytes) => bytes.into(),
            StringInput::Rope(rope) => {
                let chunks = Arc::new(AccountedChunks::new(SharedChunks(rope.share())));
                Message(Body::Shared(chunks, rope.len()))
            }
        }
    }
}

/// A message for the subscribers of a channel and of the patterns that match its name.
pub(super) struct Publication {
    pub(super) kind: Kind,
    pub(super) channel: Name,
    pub(super) patterns: Box<[Name]>,
    message: Message,
    _charge: Charge,
}

impl Publication {
    pub(super) fn new(kind: Kind, channel: Name, patterns: Box<[Name]>, message: Message) -> Self {
        let mut charge = Charge::default();
        // A shared message accounts for itself.
        charge.set(message.copied_bytes());
        Publication { kind, channel, patterns, message, _charge: charge }
    }

    /// The cost of passing it to one subscriber, in bytes to copy.
    pub(super) fn cost_bytes(&self) -> usize {
        HANDED_BYTES + self.channel.len() + self.message.copied_bytes()
    }

    /// Encodes it for subscribers of the channel, or of `pattern` if that is given.
    pub(super) fn encode(&self, pattern: Option<&Name>, version: Version) -> Output {
        let mut output = Output::default();
        let mut writer = Writer::new(&mut output, version);
        match pattern {
            Some(pattern) => {
                writer.message(4);
                writer.bulk(b"pmessage");
                writer.bulk(pattern);
            }
            None => {
                writer.message(3);
                writer.bulk(if self.kind == Kind::Shard { b"smessage" } else { b"message" });
            }
        }
        writer.bulk(&self.channel);
        match &self.message.0 {
            Body::Copied(bytes) => writer.bulk(bytes),
            Body::Shared(chunks, len) => writer.bulk_chunks(Arc::clone(chunks), 0..*len),
        }
        output
    }
}

impl Message {
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Body::Copied(bytes) => bytes.len(),
            Body::Shared(_, len) => *len,
        }
    }

    /// Bytes for whose memory the message itself accounts.
    pub(crate) fn accounted_bytes(&self) -> usize {
        self.len() - self.copied_bytes()
    }

    fn copied_bytes(&self) -> usize {
        match &self.0 {
            Body::Copied(bytes) => bytes.len(),
            Body::Shared(..) => 0,
        }
    }
}

/// The cost of passing on an encoded message, in bytes to copy.
pub(super) fn cost_bytes(encoded: &Output) -> usize {
    HANDED_BYTES + encoded.len() - encoded.shared().map(|(_, len)| len).sum::<usize>()
}
