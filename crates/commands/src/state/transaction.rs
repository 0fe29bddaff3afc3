//! Requests that a client has queued (MULTI), to be executed by EXEC.

use crate::registry::command::Flags;
use nagi_proto::{Args, LargeArgument, Span};
use nagi_store::accounting::Charge;
use nagi_store::free_elsewhere;

/// The memory of a request besides its bytes and argument spans.
const REQUEST_BYTES: usize = 128;

/// A client's queue.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    requests: Vec<Queued>,
    /// Whether a request was refused, so that EXEC executes none.
    is_aborted: bool,
    /// The union of the flags of all requests.
    flags: Flags,
    /// The flags that some request lacks.
    lacking: Flags,
    bytes: usize,
    /// Accounts for the memory of the requests, which is not data.
    charge: Charge,
}

/// A queued request.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The index of its row.
    pub(crate) row: usize,
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
    large: Box<[LargeArgument]>,
}

impl Queued {
    pub(crate) fn new(row: usize, args: Args<'_>) -> Self {
        Queued {
            row,
            bytes: args.bytes().into(),
            spans: args.spans().into(),
            large: args.all_large().iter().map(LargeArgument::share).collect(),
        }
    }

    /// Its words.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans).with_large(&self.large)
    }
}

/// Requests from which on they are freed by another thread.
const MANY_REQUESTS: usize = 1000;

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.requests.len() > MANY_REQUESTS {
            // They are accounted for until they are freed.
            let requests = std::mem::take(&mut self.requests);
            free_elsewhere((requests, std::mem::take(&mut self.charge)));
        }
    }
}

impl Transaction {
    /// Appends a request for the row with this index, which has these flags.
    pub(crate) fn queue(&mut self, row: usize, flags: Flags, args: Args<'_>) {
        self.flags |= flags;
        self.lacking |= !flags;
        self.bytes += args.bytes().len() + args.large_bytes() + REQUEST_BYTES;
        self.bytes += size_of_val(args.spans());
        self.charge.set(self.bytes);
        self.requests.push(Queued::new(row, args));
    }

    /// Makes EXEC fail because a request was refused.
    pub(crate) fn abort(&mut self) {
        self.is_aborted = true;
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// The union of the flags of all requests.
    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    /// The flags that not all requests have.
    pub(crate) fn lacking(&self) -> Flags {
        self.lacking
    }

    pub(crate) fn requests(&self) -> &[Queued] {
        &self.requests
    }

    /// Memory that the requests take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
