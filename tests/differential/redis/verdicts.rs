//! Verdicts on requests that contain others: EXEC replies to queued commands, and a script's reply
//! consists of the replies to its calls.

use super::differences::{Verdict, is_negative_offset, is_order_open, judge};
use super::generator::{Request, Words};
use super::scripts::Calls;
use harness::Reply;

/// A reply with its bytes.
pub(super) type Received = (Reply, Vec<u8>);

/// The verdict on one request.
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// Whether the data of the servers may differ from now on, because only one of them has
    /// executed a command or because the effect of a command is not defined.
    pub(super) parts: bool,
}

/// Judges the requests of a connection in order.
#[derive(Default)]
pub(super) struct Judge {
    /// The requests that both servers have queued.
    queued: Vec<Request>,
}

impl Judge {
    /// Forgets the queued requests, which were discarded.
    pub(super) fn forget(&mut self) {
        self.queued.clear();
    }

    pub(super) fn judge(
        &mut self,
        request: &Request,
        ours: &Received,
        theirs: &Received,
    ) -> Outcome {
        let is_queued = |reply: &Reply| *reply == Reply::Simple("QUEUED".to_owned());
        if is_queued(&ours.0) && is_queued(&theirs.0) {
            self.queued.push(request.clone());
            return Outcome { verdict: Verdict::Same, parts: false };
        }
        let is_end = |name: &&str| request.words[0].eq_ignore_ascii_case(name.as_bytes());
        let ends = ["EXEC", "DISCARD", "RESET"].iter().any(is_end);
        let queued = if ends { std::mem::take(&mut self.queued) } else { Vec::new() };
        let mut executed = queued.iter().chain([request]);
        let is_open = executed.any(|request| {
            request.calls.all().iter().chain([&request.words]).any(may_store_different_data)
        });
        // If a PFADD fails with this error, Redis has added some elements and nagi none.
        let refusal = b"INVALIDOBJ";
        let is_open = is_open || theirs.1.windows(refusal.len()).any(|bytes| bytes == refusal);
        if ours.1 == theirs.1 {
            return Outcome { verdict: Verdict::Same, parts: is_open };
        }
        let mut outcome = match (elements(&ours.1), elements(&theirs.1)) {
            (Some(ours), Some(theirs))
                if is_end(&"EXEC") && ours.len() == queued.len() && theirs.len() == ours.len() =>
            {
                let pairs = ours.iter().zip(&theirs);
                combined(queued.iter().zip(pairs).map(|(request, (a, b))| one(request, a, b)))
            }
            _ => one(request, ours, theirs),
        };
        outcome.parts |= is_open;
        outcome
    }
}

/// Whether a command may store different data on each server although both replies are permitted.
fn may_store_different_data(words: &Words) -> bool {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let name = words.first().map_or(&b""[..], |name| name);
    let is_sort = is(name, "SORT") && words.iter().any(|word| is(word, "STORE"));
    is_sort && is_order_open(words) || is(name, "ZRANGESTORE") && is_negative_offset(words)
}

/// Returns the verdict on a request that contains no queued requests.
fn one(request: &Request, ours: &Received, theirs: &Received) -> Outcome {
    if ours.1 == theirs.1 {
        return Outcome { verdict: Verdict::Same, parts: false };
    }
    let is_error = |reply: &Reply| matches!(reply, Reply::Error(_));
    let plain = Outcome {
        verdict: judge(&request.words, ours, theirs),
        parts: is_error(&ours.0) != is_error(&theirs.0),
    };
    if !matches!(plain.verdict, Verdict::Different) {
        return plain;
    }
    let calls = request.calls.all();
    if is_error(&ours.0) || is_error(&theirs.0) {
        return Outcome { verdict: failed(calls, &ours.0, &theirs.0), parts: true };
    }
    match &request.calls {
        Calls::First(calls) => called(&calls[0], ours, theirs),
        Calls::Each(calls) => match (elements(&ours.1), elements(&theirs.1)) {
            (Some(mut ours), Some(mut theirs)) => {
                // An array of Lua ends at the first nil, which is what a call may have returned.
                let nil = (Reply::Null, Vec::new());
                let len = ours.len().min(theirs.len()) + usize::from(ours.len() != theirs.len());
                for list in [&mut ours, &mut theirs] {
                    list.resize(len, nil.clone());
                }
                let pairs = ours.iter().zip(&theirs);
                combined(calls.iter().zip(pairs).map(|(words, (a, b))| called(words, a, b)))
            }
            _ => plain,
        },
        Calls::None | Calls::Hidden(_) => plain,
    }
}

/// Returns the verdict on the reply to a call, which the script returns.
fn called(words: &Words, ours: &Received, theirs: &Received) -> Outcome {
    let ours = without_place(ours);
    let theirs = without_place(theirs);
    let verdict = judge(words, &ours, &theirs);
    let is_error = |reply: &Reply| matches!(reply, Reply::Error(_));
    Outcome { verdict, parts: is_error(&ours.0) != is_error(&theirs.0) }
}

/// Returns the verdict on scripts of which at least one has failed. The difference is explained if
/// these errors are permitted replies to one of the calls. If a call's error ended the script on
/// only one server, the other server's reply to the call is unknown and taken as one that the
/// difference accepts. That server's script has continued, so a later statement may have ended it
/// with another error.
fn failed(calls: &[Words], ours: &Reply, theirs: &Reply) -> Verdict {
    let successes = [
        Reply::Integer(0),
        Reply::Integer(-1),
        Reply::Array(Vec::new()),
        Reply::Null,
        Reply::Bulk(Vec::new()),
    ];
    // An error without a place in the script may be a value that the script has returned at its
    // end.
    let is_raised =
        |reply: &Reply| matches!(reply, Reply::Error(text) if text.contains(" script: "));
    let both_are_raised = is_raised(ours) && is_raised(theirs);
    for words in calls {
        let candidates = |reply: &Reply| {
            let error = match reply {
                Reply::Error(text) => Some(Reply::Error(place_removed(text))),
                _ => None,
            };
            let successes = if both_are_raised || !is_raised(reply) { &successes[..] } else { &[] };
            error.into_iter().chain(successes.iter().cloned()).collect::<Vec<_>>()
        };
        let (ours, theirs) = (candidates(ours), candidates(theirs));
        for (ours, theirs) in ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
            let is_error = |reply: &Reply| matches!(reply, Reply::Error(_));
            if both_are_raised && !is_error(ours) && !is_error(theirs) {
                continue;
            }
            let received = |reply: &Reply, name: &[u8]| (reply.clone(), name.to_vec());
            let verdict = judge(words, &received(ours, b"ours"), &received(theirs, b"theirs"));
            if let Verdict::Explained(_) = verdict {
                return verdict;
            }
        }
    }
    Verdict::Different
}

/// Returns a reply without the place in the script where its error was raised.
fn without_place(received: &Received) -> Received {
    match &received.0 {
        Reply::Error(text) => {
            let text = place_removed(text);
            let bytes = text.clone().into_bytes();
            (Reply::Error(text), bytes)
        }
        // Lua's pcall returns only the text of the error.
        Reply::Bulk(text) if is_error_text(text) => {
            (Reply::Error(String::from_utf8_lossy(text).into_owned()), text.clone())
        }
        _ => received.clone(),
    }
}

fn is_error_text(text: &[u8]) -> bool {
    let codes: [&[u8]; 5] = [b"ERR ", b"WRONGTYPE ", b"NOGROUP ", b"INVALIDOBJ ", b"BUSYKEY "];
    codes.iter().any(|code| text.starts_with(code))
}

fn place_removed(text: &str) -> String {
    text.split(" script: ").next().unwrap_or_default().to_owned()
}

/// Combines verdicts in the order of execution: different if one of them is, otherwise explained if
/// one of them is. What follows a reply after which the data may differ is not judged.
fn combined(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let mut whole = Outcome { verdict: Verdict::Same, parts: false };
    for outcome in outcomes {
        match outcome.verdict {
            Verdict::Same => {}
            Verdict::Explained(_) => whole.verdict = outcome.verdict,
            Verdict::Different => return outcome,
        }
        whole.parts |= outcome.parts;
        if whole.parts {
            break;
        }
    }
    whole
}

/// Returns the elements of an array, each with its bytes.
fn elements(bytes: &[u8]) -> Option<Vec<Received>> {
    let (Reply::Array(array), _) = Reply::parse(bytes)? else { return None };
    let mut at = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let mut elements = Vec::with_capacity(array.len());
    for _ in 0..array.len() {
        let (reply, length) = Reply::parse(&bytes[at..])?;
        elements.push((reply, bytes[at..at + length].to_vec()));
        at += length;
    }
    Some(elements)
}
