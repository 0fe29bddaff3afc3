//! The types that all verbs share: row, context and error.

use crate::registry::keys::Keys;
use crate::runtime::admission;
use crate::runtime::context::Suspension;
use crate::runtime::multi_key::{Walk, is_long};
use crate::runtime::suspension::{JobProgress, Slice};
use nagi_proto::Args;
use nagi_store::{Key, Wait};

/// memcached's verbs, answered in the text protocol. The binary protocol's replies are written
/// directly to the writer's output.
#[derive(Debug)]
pub enum Memcached {}

/// Everything that a verb's handler may use, for the length of one request.
pub type Context<'a> = crate::Context<'a, Memcached>;

/// The work of a verb that takes several slices.
pub type Job = crate::Job<Memcached>;

impl Context<'_> {
    /// Runs `each` for every key and then `last`. Many keys are processed in slices, since they
    /// need not be read at the same moment; other requests may claim some of them meanwhile.
    pub(super) fn each_key(
        &mut self,
        keys: &'static Keys,
        mut each: impl FnMut(&mut Context<'_>, Key<'_>) + Send + 'static,
        last: fn(&mut Context<'_>),
    ) {
        let (mut walk, mut claim) = (Walk::new(keys), None::<Wait>);
        let mut looks_for_claims = is_long(keys, self.args);
        let mut go_on = move |cx: &mut Context<'_>| {
            let (before, mut slice) = (cx.reply.waiting(), None);
            drop(claim.take());
            let is_over = |cx: &Context<'_>| {
                // With few keys, the clock is not read.
                let slice = slice.get_or_insert_with(Slice::begin);
                cx.reply.waiting() - before > SLICE_REPLY_BYTES || slice.is_over()
            };
            let done = walk.go_on_while(cx, is_over, |cx, position, group| {
                let name = cx.args.at(position);
                if looks_for_claims && cx.db.looks_for_claims() {
                    let (store, waker) = (cx.db.store(), &cx.client.waker);
                    claim = store.meets_claim([name], group.intent(), waker);
                }
                if claim.is_none() {
                    let key = cx.key(name);
                    each(cx, key);
                }
                claim.is_none()
            });
            looks_for_claims = true;
            if !done {
                return match claim {
                    Some(_) => JobProgress::WOKEN,
                    None => JobProgress::ROOM_FOR_REPLIES,
                };
            }
            last(cx);
            JobProgress::Done
        };
        let progress = go_on(self);
        if progress != JobProgress::Done {
            self.suspension = Suspension::after(progress, Box::new(move |cx| Ok(go_on(cx))));
        }
    }
}

/// Maximum reply bytes of one slice of a request with many keys.
pub(super) const SLICE_REPLY_BYTES: usize = 256 << 10;

/// A verb's row.
#[derive(Debug)]
pub struct Verb {
    /// Its name, in lower case, which memcached requires.
    pub name: &'static str,
    /// Its arguments in the syntax of memcached's documentation.
    pub syntax: &'static str,
    /// The minimum number of words of a request, including the verb and a data block.
    pub words: usize,
    /// The keys among them.
    pub keys: Keys,
    /// The Redis command for which a user needs permission to run the verb; empty if none is
    /// needed.
    pub right: &'static str,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// Its handler.
    pub run: Handler,
}

/// Runs a verb. The number of words and the length of the keys have been checked.
pub type Handler = for<'a> fn(&mut Context<'a>, Args<'a>) -> Result<(), Error>;

/// The error line of a request that cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub &'static str);

impl Error {
    pub(super) const UNKNOWN: Error = Error("ERROR");
    pub(super) const BAD_LINE: Error = Error("CLIENT_ERROR bad command line format");
    pub(super) const NOT_LOGGED_IN: Error = Error("CLIENT_ERROR unauthenticated");
    pub(super) const BAD_LOGIN: Error = Error("CLIENT_ERROR bad authentication token format");
    pub(super) const WRONG_LOGIN: Error = Error("CLIENT_ERROR authentication failure");
    /// A request of a browser, whose page connects to a local port without the user's knowledge; it
    /// gets no reply.
    pub(super) const FROM_A_BROWSER: Error = Error("");
    pub(super) const NO_RIGHT: Error = Error("CLIENT_ERROR permission denied");
    pub(super) const OUT_OF_MEMORY: Error = Error("SERVER_ERROR out of memory storing object");
    pub(super) const EXPTIME: Error = Error("CLIENT_ERROR invalid exptime argument");
}

/// Maximum length of a key in bytes.
pub(super) const KEY_BYTES: usize = 250;

/// The reply to `version`: the version of memcached that the verbs emulate, which clients parse,
/// followed by nagi's own version.
pub(super) const VERSION: &str = concat!("1.6.45-nagi/", env!("CARGO_PKG_VERSION"));

/// The version of memcached that the verbs emulate.
#[must_use]
pub fn memcached_version() -> &'static str {
    VERSION.split('-').next().unwrap_or(VERSION)
}

/// Whether the client must log in first.
#[inline]
pub(super) fn must_log_in(cx: &Context<'_>) -> bool {
    !cx.client.restrictions.is_empty() && admission::must_log_in(cx.client, cx.server.config())
}
