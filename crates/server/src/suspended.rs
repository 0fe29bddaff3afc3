//! A request that is not over: what its session keeps of it until it is.

use crate::session::Surroundings;
use nagi_commands::{Client, Marks, Suspension, dispatch, memcached};
use nagi_proto::{Args, Landed, Output, Span};
use nagi_store::Wait;

/// A request at the start of the session's input that goes on later.
pub(crate) enum Suspended {
    /// As its handler says.
    Midway(Midway),
    /// The rest of a request of memcached's, which is not in the input any more.
    Memcached(memcached::Job),
    /// From the start, parsing included, once its client's waker has been called.
    Unparsed(Wait),
}

/// A request that has been parsed.
pub(crate) struct Midway {
    suspension: Suspension,
    /// Where its arguments lie.
    spans: Vec<Span>,
    /// Its bytes.
    len: usize,
}

/// When a suspended request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In the next tick.
    Turn,
    /// Once its client's waker has been called.
    Called,
}

impl Suspended {
    pub(crate) fn when(&self) -> When {
        match self {
            Suspended::Midway(midway) => match midway.suspension {
                Suspension::Turn(_) | Suspension::Committed(_) => When::Turn,
                Suspension::Called(_) | Suspension::Retry(_) | Suspension::Held => When::Called,
            },
            Suspended::Memcached(_) => When::Turn,
            Suspended::Unparsed(_) => When::Called,
        }
    }

    /// Whether it has changed something, and must come to its end even without its client.
    pub(crate) fn is_committed(&self) -> bool {
        let Suspended::Midway(midway) = self else { return false };
        matches!(midway.suspension, Suspension::Committed(_))
    }
}

impl Midway {
    /// A request of `len` bytes with these arguments.
    pub(crate) fn new(suspension: Suspension, args: Args<'_>, len: usize) -> Self {
        Midway { suspension, spans: args.spans().to_vec(), len }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Goes on for a slice; `input` begins with it, without its long arguments. What is left of it,
    /// if anything is.
    pub(crate) fn go_on(
        self,
        input: &[u8],
        landed: &[Landed],
        client: &mut Client,
        around: &Surroundings<'_>,
        out: &mut Output,
    ) -> Option<Midway> {
        let Midway { suspension, spans, len } = self;
        let args = Args::new(input.get(..len).unwrap_or_default(), &spans).with_landed(landed);
        let mut cx = around.context(client, out, args, None);
        let place = match suspension {
            Suspension::Turn(job) | Suspension::Committed(job) | Suspension::Called(job) => {
                dispatch::resume(&mut cx, job);
                None
            }
            Suspension::Held => {
                cx.client.info.mark(Marks::WAITING, false);
                dispatch::execute(&mut cx, args);
                None
            }
            Suspension::Retry(wait) => {
                dispatch::execute(&mut cx, args);
                Some(wait)
            }
        };
        let suspension = cx.suspension;
        drop(place);
        suspension.map(|suspension| Midway { suspension, spans, len })
    }
}
