//! CLIENT TRACKING: a client that caches data is notified when the data changes.

use super::common::PLAIN;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::notification;
use crate::state::client::Restrictions;
use crate::state::tracking_options::{ClientTracking, TrackingOptions};
use crate::{Category, Command, Context, Error, Group, Keys, Marks, Notes};
use nagi_proto::Args;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The arguments of CLIENT TRACKING.
struct TrackingRequest {
    is_on: bool,
    options: TrackingOptions,
    /// In the order in which they were given.
    prefixes: Vec<Box<[u8]>>,
}

fn parse(cx: &Context<'_>, args: Args<'_>) -> Result<TrackingRequest, Error> {
    let (mut options, mut prefixes) = (TrackingOptions::default(), Vec::new());
    let mut rest = RemainingArguments::from(args, 3);
    while let Some(option) = rest.next() {
        if is(option, "REDIRECT") {
            if options.redirect.is_some() {
                return Err(Error::fixed(
                    "ERR A client can only redirect to a single other client",
                ));
            }
            let id = u64::try_from(integer(rest.value()?)?).unwrap_or(0);
            if !cx.server.clients().iter().any(|client| client.id == id) {
                return Err(Error::fixed("ERR The client ID you want redirect to does not exist"));
            }
            options.redirect = Some(id);
        } else if is(option, "BCAST") {
            options.is_broadcast = true;
        } else if is(option, "OPTIN") {
            options.opts_in = true;
        } else if is(option, "OPTOUT") {
            options.opts_out = true;
        } else if is(option, "NOLOOP") {
            options.ignores_own = true;
        } else if is(option, "PREFIX") {
            prefixes.push(rest.value()?.into());
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let is_on = match args.at(2) {
        word if is(word, "ON") => true,
        word if is(word, "OFF") => false,
        _ => return Err(Error::SYNTAX),
    };
    Ok(TrackingRequest { is_on, options, prefixes })
}

const EXISTING: &str = "an existing";
const PROVIDED: &str = "another provided";

fn overlap(prefix: &[u8], known: &[u8], which: &str) -> Error {
    let (prefix, known) = (String::from_utf8_lossy(prefix), String::from_utf8_lossy(known));
    Error::new(format!(
        "ERR Prefix '{prefix}' overlaps with {which} prefix '{known}'. Prefixes for a single \
         client must not overlap."
    ))
}

/// Checks that the options are compatible with each other and with those that are already set.
fn check(before: Option<&TrackingOptions>, request: &TrackingRequest) -> Result<(), Error> {
    let (options, prefixes) = (&request.options, &request.prefixes);
    let fail = |text| Err(Error::fixed(text));
    if !options.is_broadcast && !prefixes.is_empty() {
        return fail("ERR PREFIX option requires BCAST mode to be enabled");
    }
    if let Some(before) = before
        && before.is_broadcast != options.is_broadcast
    {
        return fail(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        );
    }
    if options.is_broadcast && (options.opts_in || options.opts_out) {
        return fail("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if options.opts_in && options.opts_out {
        return fail("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    if let Some(before) = before
        && (options.opts_in && before.opts_out || options.opts_out && before.opts_in)
    {
        return fail(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        );
    }
    check_prefixes(before, prefixes)
}

/// A prefix, and the strings that are prefixes of it or equal to it: the shortest that was set
/// before, and of those in the request the first, with its number.
struct Nested<'a> {
    text: &'a [u8],
    known: Option<&'a [u8]>,
    given: Option<(usize, &'a [u8])>,
}

/// Checks that prefixes overlap neither each other nor those that are already set. The error names
/// the first one in the request that does.
fn check_prefixes(before: Option<&TrackingOptions>, prefixes: &[Box<[u8]>]) -> Result<(), Error> {
    let known = before.into_iter().flat_map(|it| &it.prefixes).map(|known| (&**known, None));
    let given = prefixes.iter().enumerate().map(|(number, prefix)| (&**prefix, Some(number)));
    let mut all: Vec<(&[u8], Option<usize>)> = known.chain(given).collect();
    all.sort_unstable();
    // In this order, strings follow their prefixes: those of the current one are on the stack.
    let mut stack: Vec<Nested<'_>> = Vec::new();
    let overlaps = all.into_iter().filter_map(|(text, number)| {
        while stack.last().is_some_and(|above| !text.starts_with(above.text)) {
            stack.pop();
        }
        let (known, given) = stack.last().map_or((None, None), |above| (above.known, above.given));
        stack.push(Nested {
            text,
            known: known.or(number.is_none().then_some(text)),
            given: given.into_iter().chain(number.map(|number| (number, text))).min(),
        });
        match (number, known, given) {
            (Some(number), Some(known), _) => Some((number, EXISTING, text, known)),
            (Some(number), None, Some((first, short))) => Some(match first < number {
                true => (first, PROVIDED, short, text),
                false => (number, PROVIDED, text, short),
            }),
            (None, _, Some((first, short))) => Some((first, EXISTING, short, text)),
            _ => None,
        }
    });
    match overlaps.min() {
        // Of one prefix, an overlap with an existing one comes first, also in this order.
        Some((_, which, prefix, other)) => Err(overlap(prefix, other, which)),
        None => Ok(()),
    }
}

fn tracking<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let request = parse(cx, args)?;
    if !request.is_on {
        stop(cx);
        cx.reply.ok();
        return Ok(());
    }
    let before = cx.client.tracking.as_ref().map(|tracking| Arc::clone(&tracking.options));
    check(before.as_deref(), &request)?;
    let TrackingRequest { mut options, prefixes, .. } = request;
    if options.is_broadcast && prefixes.is_empty() {
        options.prefixes.insert(Box::default());
    }
    options.prefixes.extend(prefixes);
    if let Some(before) = before {
        options.prefixes.extend(before.prefixes.iter().cloned());
    }
    let options = Arc::new(options);
    cx.client.info.tracked_prefixes.store(options.prefixes.len(), Ordering::Relaxed);
    cx.hooks.tracking.start(&cx.client.info, Arc::clone(&options));
    cx.client.tracking = Some(Box::new(ClientTracking { options, caching: None }));
    cx.client.restrictions.insert(Restrictions::TRACKS);
    notification::settle(cx.server, cx.db.store());
    cx.reply.ok();
    Ok(())
}

/// Ends tracking for the client.
pub(crate) fn stop(cx: &mut Context<'_>) {
    if cx.client.tracking.take().is_some() {
        cx.client.restrictions.remove(Restrictions::TRACKS);
        cx.client.info.tracked_prefixes.store(0, Ordering::Relaxed);
        notification::stop_tracking(cx.server, cx.db.store(), &cx.client.info);
    }
}

pub(super) static TRACKING: Command = Command {
    name: "TRACKING",
    syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] \
             [OPTOUT] [NOLOOP]",
    arity: -3,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.0.0",
    notes: Notes::of("O(N), N being the prefixes"),
    summary: "Starts or ends notifications when keys change that the connection has read",
    subcommands: &[],
    run: tracking,
};

fn caching<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const NO_MODE: Error = Error::fixed(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    );
    let tracking = cx.client.tracking.as_mut().ok_or(NO_MODE)?;
    let options = &tracking.options;
    let is_wanted = match args.at(2) {
        word if is(word, "YES") => true,
        word if is(word, "NO") => false,
        _ => return Err(Error::SYNTAX),
    };
    if is_wanted && !options.opts_in {
        return Err(Error::fixed(
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ));
    }
    if !is_wanted && !options.opts_out {
        return Err(Error::fixed(
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ));
    }
    tracking.caching = Some(is_wanted);
    cx.reply.ok();
    Ok(())
}

pub(super) static CACHING: Command = Command {
    name: "CACHING",
    syntax: "<YES | NO>",
    arity: 3,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Sets whether the keys that the next request reads are tracked",
    subcommands: &[],
    run: caching,
};

fn getredir<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.integer(redirect(cx));
    Ok(())
}

/// The client to which invalidations are redirected; 0 if there is none, -1 without tracking.
fn redirect(cx: &Context<'_>) -> i64 {
    cx.client.tracking.as_ref().map_or(-1, |tracking| {
        i64::try_from(tracking.options.redirect.unwrap_or(0)).unwrap_or(i64::MAX)
    })
}

pub(super) static GETREDIR: Command = Command {
    name: "GETREDIR",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the connection to which invalidations are redirected",
    subcommands: &[],
    run: getredir,
};

fn trackinginfo<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let mut flags = Vec::new();
    match &cx.client.tracking {
        None => flags.push("off"),
        Some(tracking) => {
            let options = &tracking.options;
            let is_broken = cx.client.info.marks().contains(Marks::BROKEN_REDIRECT);
            for (flag, is_set) in [
                ("on", true),
                ("bcast", options.is_broadcast),
                ("optin", options.opts_in),
                ("caching-yes", tracking.caching == Some(true)),
                ("optout", options.opts_out),
                ("caching-no", tracking.caching == Some(false)),
                ("noloop", options.ignores_own),
                ("broken_redirect", is_broken),
            ] {
                flags.extend(is_set.then_some(flag));
            }
        }
    }
    let redirect = redirect(cx);
    let reply = &mut cx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    let prefixes = cx.client.tracking.iter().flat_map(|tracking| &tracking.options.prefixes);
    reply.array(prefixes.clone().count());
    prefixes.for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

pub(super) static TRACKINGINFO: Command = Command {
    name: "TRACKINGINFO",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how the connection tracks keys",
    subcommands: &[],
    run: trackinginfo,
};
