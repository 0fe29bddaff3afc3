//! Requests that a client has queued (MULTI), to be executed by EXEC.

use crate::registry::command::Flags;
use nagi_proto::{Args, LargeArgument, Span};
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::{CHUNK_BYTES, free_elsewhere};

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
    /// Memory that the requests take, in bytes.
    bytes: usize,
    /// The part of it that their words take in the general allocator.
    general_bytes: usize,
    /// Accounts for memory of the general allocator, which is not data.
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

/// The bytes that a copy of a request takes in the general allocator. All chunks of a long argument
/// but the last are elsewhere, and do not count as data.
fn general_bytes(args: Args<'_>) -> usize {
    let large = args.all_large();
    room_bytes::<u8>(args.bytes().len())
        + room_bytes::<Span>(args.spans().len())
        + room_bytes::<LargeArgument>(large.len())
        + large.iter().map(|it| room_bytes::<u8>(it.len() % CHUNK_BYTES)).sum::<usize>()
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
        self.general_bytes += general_bytes(args);
        self.requests.push(Queued::new(row, args));
        self.charge.set(self.general_bytes + room_bytes::<Queued>(self.requests.capacity()));
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
