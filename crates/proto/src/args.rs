//! The arguments of one request, as places in the buffer they arrived in.
//!
//! A request is never copied out of its receive buffer: parsers note spans, handlers borrow them.
//! Only an argument that is long enough to be received into chunks of its own lies elsewhere.

use crate::output::Chunk;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::sync::Arc;

/// Where one argument lies, relative to the first byte of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// Where an argument lies that was received on its own, as the `index`th of its request.
    #[must_use]
    pub(crate) fn large(index: usize) -> Self {
        Span { start: LANDED, len: index as u32 }
    }
}

/// The start of a span that stands for an argument received on its own; no request is so long.
const LANDED: u32 = u32::MAX;

/// An argument that is as long as this or longer may be received on its own.
pub const LONG_BYTES: usize = 128 * 1024;

/// A long argument of which a part is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Offset of its first byte from its request's.
    pub at: u32,
    /// Its length in bytes.
    pub len: u32,
}

impl Awaited {
    /// Offset of the byte after the line break that follows it.
    pub(crate) fn end(self) -> usize {
        self.at as usize + self.len as usize + 2
    }
}

/// Bytes in one piece, whatever owns them.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A long argument, in chunks of its own.
#[derive(Default)]
pub struct LargeArgument {
    chunks: RefCell<Vec<Chunk>>,
    len: usize,
    joined: OnceCell<SharedBytes>,
}

impl LargeArgument {
    /// The argument that these chunks make.
    #[must_use]
    pub fn new(chunks: Vec<Chunk>) -> Self {
        let len = chunks.iter().map(|chunk| chunk.len()).sum();
        LargeArgument { chunks: chunks.into(), len, joined: OnceCell::new() }
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Its first bytes, `most` at most; none if its chunks have been taken.
    #[must_use]
    pub fn start(&self, most: usize) -> Vec<u8> {
        let chunks = self.chunks.borrow();
        let first = self
            .joined
            .get()
            .map(|all| (**all).as_ref())
            .or_else(|| chunks.first().map(|it| &**it));
        let first = first.unwrap_or_default();
        first.get(..most.min(self.len)).unwrap_or(first).to_vec()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the chunks; a later call finds nothing.
    #[must_use]
    pub fn take(&self) -> Vec<Chunk> {
        self.chunks.take()
    }

    /// Another one with the same bytes, which takes nothing away.
    #[must_use]
    pub fn share(&self) -> Self {
        let joined = OnceCell::new();
        if let Some(bytes) = self.joined.get() {
            let _ = joined.set(Arc::clone(bytes));
        }
        LargeArgument { chunks: self.chunks.clone(), len: self.len, joined }
    }

    /// A copy of it, which takes nothing away.
    fn copied(&self) -> Vec<u8> {
        match self.joined.get() {
            Some(joined) => (**joined).as_ref().to_vec(),
            None => self.chunks.borrow().concat(),
        }
    }

    /// What it consists of, which takes nothing away; nothing once it is in one piece.
    #[must_use]
    pub fn chunks(&self) -> Vec<Chunk> {
        self.chunks.borrow().clone()
    }

    /// Whether it is in one piece.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined.get().is_some()
    }

    /// Replaces the chunks by the same bytes in one piece, and returns the chunks.
    pub fn join_as(&self, joined: SharedBytes) -> Vec<Chunk> {
        let _ = self.joined.set(joined);
        self.chunks.take()
    }

    /// All of it in one piece, for a command that can make nothing of chunks.
    fn joined(&self) -> &[u8] {
        let joined = self.joined.get_or_init(|| Arc::new(self.chunks.take().concat()));
        (**joined).as_ref()
    }
}

impl fmt::Debug for LargeArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LargeArgument { len, .. } = self;
        f.debug_struct("LargeArgument").field("len", len).finish_non_exhaustive()
    }
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    request: &'a [u8],
    spans: &'a [Span],
    large: &'a [LargeArgument],
}

impl<'a> Args<'a> {
    /// `request` starts with the request's first byte; `spans` are relative to it.
    #[must_use]
    pub fn new(request: &'a [u8], spans: &'a [Span]) -> Self {
        Args { request, spans, large: &[] }
    }

    /// The same with those arguments that were received on their own, in order.
    #[must_use]
    pub fn with_large(self, large: &'a [LargeArgument]) -> Self {
        Args { large, ..self }
    }

    /// Whether any of the request's arguments was received on its own.
    #[must_use]
    #[inline]
    pub fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Bytes of those.
    #[must_use]
    pub fn large_bytes(&self) -> usize {
        self.large.iter().map(LargeArgument::len).sum()
    }

    /// How many arguments there are, the command's name included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is not even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Those that were received on their own, in order.
    #[must_use]
    pub fn all_large(&self) -> &'a [LargeArgument] {
        self.large
    }

    /// Where they lie.
    #[must_use]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// The whole request as it arrived.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.request
    }

    /// The argument at `index`, for a caller that must leave it to the command.
    #[must_use]
    pub fn shown(&self, index: usize) -> Cow<'a, [u8]> {
        match self.large(index) {
            Some(large) => Cow::Owned(large.copied()),
            None => Cow::Borrowed(self.get(index).unwrap_or_default()),
        }
    }

    /// The arguments without the first `count`, as a request of its own.
    #[must_use]
    pub fn skip(&self, count: usize) -> Args<'a> {
        Args { spans: self.spans.get(count..).unwrap_or_default(), ..*self }
    }

    /// The first `count` arguments, as a request of their own.
    #[must_use]
    pub fn take(&self, count: usize) -> Args<'a> {
        Args { spans: self.spans.get(..count).unwrap_or_default(), ..*self }
    }

    /// The argument at `index`, the name being 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.find(*self.spans.get(index)?)
    }

    #[inline]
    fn find(&self, span: Span) -> Option<&'a [u8]> {
        match self.request.get(span.start as usize..) {
            Some(rest) => rest.get(..span.len as usize),
            None => self.join(span),
        }
    }

    #[cold]
    fn join(&self, span: Span) -> Option<&'a [u8]> {
        (span.start == LANDED)
            .then(|| self.large.get(span.len as usize))?
            .map(LargeArgument::joined)
    }

    /// The length of the argument at `index`, however it was received; 0 if there is none.
    #[must_use]
    pub fn len_of(&self, index: usize) -> usize {
        match self.large(index) {
            Some(large) => large.len(),
            None => self.get(index).map_or(0, <[u8]>::len),
        }
    }

    /// The argument at `index` if it was received on its own.
    #[must_use]
    #[inline]
    pub fn large(&self, index: usize) -> Option<&'a LargeArgument> {
        let span = self.spans.get(index).filter(|span| span.start == LANDED)?;
        self.large.get(span.len as usize)
    }

    /// The argument at `index`, which the command's arity has already promised; an argument that
    /// is missing all the same reads as empty.
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        debug_assert!(index < self.len(), "the arity must cover argument {index}");
        self.get(index).unwrap_or_default()
    }

    /// Every argument from `index` on.
    pub fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        let spans = self.spans.get(index..).unwrap_or_default().iter();
        spans.map(move |span| args.find(*span).unwrap_or_default())
    }
}
