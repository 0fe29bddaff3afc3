//! The arguments of a request, as spans of the buffer in which they arrived.
//!
//! Requests are never copied out of their receive buffers: parsers record spans, and handlers
//! borrow the bytes. Only arguments that are long enough to be received into separate chunks are
//! stored elsewhere.

use crate::output::Chunk;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::sync::Arc;

/// The location of an argument, relative to the first byte of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The length in bytes.
    pub len: u32,
}

impl Span {
    /// Returns the span of an argument that was received separately, the `index`th of its request.
    #[must_use]
    pub(crate) fn large(index: usize) -> Self {
        Span { start: LANDED, len: index as u32 }
    }
}

/// The start of the span of an argument that was received separately; no request is this long.
const LANDED: u32 = u32::MAX;

/// Arguments of at least this length may be received separately.
pub const LONG_BYTES: usize = 128 * 1024;

/// A long argument that has not arrived completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The offset of the argument's first byte in the request.
    pub at: u32,
    /// The argument's length in bytes.
    pub len: u32,
}

impl Awaited {
    /// Returns the offset after the line break that follows the argument.
    pub(crate) fn end(self) -> usize {
        self.at as usize + self.len as usize + 2
    }
}

/// Contiguous bytes of any owner.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A long argument, in separate chunks.
#[derive(Default)]
pub struct LargeArgument {
    chunks: RefCell<Vec<Chunk>>,
    len: usize,
    joined: OnceCell<SharedBytes>,
}

impl LargeArgument {
    /// Creates an argument from chunks.
    #[must_use]
    pub fn new(chunks: Vec<Chunk>) -> Self {
        let len = chunks.iter().map(|chunk| chunk.len()).sum();
        LargeArgument { chunks: chunks.into(), len, joined: OnceCell::new() }
    }

    /// Returns its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns its first bytes, at most `most`; none if its chunks have been taken.
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

    /// Whether the argument is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the chunks; later calls return none.
    #[must_use]
    pub fn take(&self) -> Vec<Chunk> {
        self.chunks.take()
    }

    /// Returns another argument that shares the bytes. This one is unchanged.
    #[must_use]
    pub fn share(&self) -> Self {
        let joined = OnceCell::new();
        if let Some(bytes) = self.joined.get() {
            let _ = joined.set(Arc::clone(bytes));
        }
        LargeArgument { chunks: self.chunks.clone(), len: self.len, joined }
    }

    /// Returns a copy of the bytes. The argument is unchanged.
    fn copied(&self) -> Vec<u8> {
        match self.joined.get() {
            Some(joined) => (**joined).as_ref().to_vec(),
            None => self.chunks.borrow().concat(),
        }
    }

    /// Returns its chunks without taking them; none once it is contiguous.
    #[must_use]
    pub fn chunks(&self) -> Vec<Chunk> {
        self.chunks.borrow().clone()
    }

    /// Whether the argument is contiguous.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined.get().is_some()
    }

    /// Replaces the chunks by the same bytes in contiguous form. Returns the chunks.
    pub fn join_as(&self, joined: SharedBytes) -> Vec<Chunk> {
        let _ = self.joined.set(joined);
        self.chunks.take()
    }

    /// Returns its bytes in contiguous form, for commands that do not support chunks.
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

/// The arguments of a request; the command's name is the first.
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

    /// Adds the arguments that were received separately, in order.
    #[must_use]
    pub fn with_large(self, large: &'a [LargeArgument]) -> Self {
        Args { large, ..self }
    }

    /// Whether any of the arguments was received separately.
    #[must_use]
    #[inline]
    pub fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Returns the total length in bytes of the arguments that were received separately.
    #[must_use]
    pub fn large_bytes(&self) -> usize {
        self.large.iter().map(LargeArgument::len).sum()
    }

    /// Returns the length of all arguments together, in bytes.
    #[must_use]
    pub fn total_len(&self) -> usize {
        let in_place = |span: &Span| if span.start == LANDED { 0 } else { span.len as usize };
        let large = |span: &Span| self.large.get(span.len as usize).map_or(0, LargeArgument::len);
        let in_place_bytes: usize = self.spans.iter().map(in_place).sum();
        match self.has_large() {
            true => {
                let separate = self.spans.iter().filter(|span| span.start == LANDED);
                in_place_bytes + separate.map(large).sum::<usize>()
            }
            false => in_place_bytes,
        }
    }

    /// Returns the number of arguments, including the command's name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no arguments, not even the command's name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the arguments that were received separately, in order.
    #[must_use]
    pub fn all_large(&self) -> &'a [LargeArgument] {
        self.large
    }

    /// Returns the spans of the arguments.
    #[must_use]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// Returns the whole request as it arrived.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.request
    }

    /// Returns the argument at `index` for inspection, without taking it from the command.
    #[must_use]
    pub fn shown(&self, index: usize) -> Cow<'a, [u8]> {
        match self.large(index) {
            Some(large) => Cow::Owned(large.copied()),
            None => Cow::Borrowed(self.get(index).unwrap_or_default()),
        }
    }

    /// Returns the first bytes of the argument at `index`, at most `most`, without making it
    /// contiguous.
    #[must_use]
    pub fn start_of(&self, index: usize, most: usize) -> Cow<'a, [u8]> {
        match self.large(index) {
            Some(large) => Cow::Owned(large.start(most)),
            None => {
                let argument = self.get(index).unwrap_or_default();
                Cow::Borrowed(argument.get(..most).unwrap_or(argument))
            }
        }
    }

    /// Returns the arguments without the first `count`, as a separate request.
    #[must_use]
    pub fn skip(&self, count: usize) -> Args<'a> {
        Args { spans: self.spans.get(count..).unwrap_or_default(), ..*self }
    }

    /// Returns the first `count` arguments, as a separate request.
    #[must_use]
    pub fn take(&self, count: usize) -> Args<'a> {
        Args { spans: self.spans.get(..count).unwrap_or_default(), ..*self }
    }

    /// Returns the argument at `index`; the name has index 0.
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

    /// Returns the length of the argument at `index`, however it was received; 0 if there is none.
    #[must_use]
    pub fn len_of(&self, index: usize) -> usize {
        match self.large(index) {
            Some(large) => large.len(),
            None => self.get(index).map_or(0, <[u8]>::len),
        }
    }

    /// Returns the argument at `index` if it was received separately.
    #[must_use]
    #[inline]
    pub fn large(&self, index: usize) -> Option<&'a LargeArgument> {
        let span = self.spans.get(index).filter(|span| span.start == LANDED)?;
        self.large.get(span.len as usize)
    }

    /// Returns the argument at `index`, which exists according to the command's arity; a missing
    /// one reads as empty.
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        debug_assert!(index < self.len(), "the arity must cover argument {index}");
        self.get(index).unwrap_or_default()
    }

    /// Iterates over the arguments from `index` on.
    pub fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        let spans = self.spans.get(index..).unwrap_or_default().iter();
        spans.map(move |span| args.find(*span).unwrap_or_default())
    }
}
