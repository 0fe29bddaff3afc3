//! The arguments of one request, as places in the buffer they arrived in.
//!
//! A request is never copied out of its receive buffer: parsers note spans, handlers borrow them.

/// Where one argument lies, relative to the first byte of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    request: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// `request` starts with the request's first byte; `spans` are relative to it.
    #[must_use]
    pub fn new(request: &'a [u8], spans: &'a [Span]) -> Self {
        Args { request, spans }
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

    /// Where they lie.
    #[must_use]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// The arguments without the first `count`, as a request of its own.
    #[must_use]
    pub fn skip(&self, count: usize) -> Args<'a> {
        Args { request: self.request, spans: self.spans.get(count..).unwrap_or_default() }
    }

    /// The first `count` arguments, as a request of their own.
    #[must_use]
    pub fn take(&self, count: usize) -> Args<'a> {
        Args { request: self.request, spans: self.spans.get(..count).unwrap_or_default() }
    }

    /// The argument at `index`, the name being 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        self.request.get(span.start as usize..)?.get(..span.len as usize)
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
        let request = self.request;
        self.spans.get(index..).unwrap_or_default().iter().map(move |span| {
            request
                .get(span.start as usize..)
                .and_then(|rest| rest.get(..span.len as usize))
                .unwrap_or_default()
        })
    }
}
