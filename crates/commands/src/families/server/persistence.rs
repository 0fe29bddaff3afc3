//! Saving to disk: BGSAVE, SAVE and LASTSAVE. BGREWRITEAOF is refused, since there is no
//! append-only file.

use crate::runtime::arguments::is;
use crate::state::saves::Order;
use crate::{Category, Command, Config, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BGREWRITEAOF, &BGSAVE, &LASTSAVE, &SAVE];

fn bgrewriteaof<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::fixed("ERR there is no append-only file; BGSAVE saves the data"))
}

static BGREWRITEAOF: Command = Command {
    name: "BGREWRITEAOF",
    syntax: "",
    arity: 1,
    flags: Flags::NO_ASYNC_LOADING.union(Flags::ADMIN).union(Flags::NOSCRIPT),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Answers that there is no append-only file; access control lists may name it",
    subcommands: &[],
    run: bgrewriteaof,
};

/// Checks that saves have a file to write.
///
/// # Errors
/// The settings name none.
pub(crate) fn check_file(config: &Config) -> Result<(), Error> {
    match config.has_dump_file() {
        true => Ok(()),
        false => Err(Error::fixed(
            "ERR there is no file to save to, since dbfilename is empty: set it in the \
             configuration file, by --dbfilename or by CONFIG SET",
        )),
    }
}

const BUSY: &str = "ERR Background save already in progress";

fn bgsave<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let option = args.from(1).next();
    if option.is_some_and(|word| is(word, "CANCEL")) && args.len() == 2 {
        if !cx.server.saves().cancel() {
            let text = "ERR Background saving is currently not in progress or scheduled";
            return Err(Error::fixed(text));
        }
        cx.reply.simple("Background saving cancelled");
        return Ok(());
    }
    // In Redis, SCHEDULE waits for a rewrite of the append-only file, which does not exist here.
    if args.len() > 2 || option.is_some_and(|word| !is(word, "SCHEDULE")) {
        return Err(Error::SYNTAX);
    }
    check_file(cx.server.config())?;
    let ticket = cx.server.saves().order(Order::BackgroundSave).ok_or(Error::fixed(BUSY))?;
    if cx.db.is_claimed() {
        // The save only begins after the transaction.
        cx.reply.simple("Background saving scheduled");
        return Ok(());
    }
    cx.start(Box::new(move |cx| {
        if !cx.server.saves().has_begun(ticket, &cx.client.waker) {
            return Ok(JobProgress::WOKEN);
        }
        cx.reply.simple("Background saving started");
        Ok(JobProgress::Done)
    }))
}

static BGSAVE: Command = Command {
    name: "BGSAVE",
    syntax: "[SCHEDULE | CANCEL]",
    arity: -1,
    flags: Flags::NO_ASYNC_LOADING.union(Flags::ADMIN).union(Flags::NOSCRIPT),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("3.2.2", "SCHEDULE")]),
    summary: "Saves a snapshot of the data to disk in the background",
    subcommands: &[],
    run: bgsave,
};

fn save<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    check_file(cx.server.config())?;
    let ticket = cx.server.saves().order(Order::Save).ok_or(Error::fixed(BUSY))?;
    cx.start(Box::new(move |cx| {
        let outcome = cx.server.saves().outcome(ticket, &cx.client.waker);
        let Some(outcome) = outcome else { return Ok(JobProgress::WOKEN) };
        outcome.map_err(|why| Error::new(format!("ERR the data could not be saved: {why}")))?;
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

static SAVE: Command = Command {
    name: "SAVE",
    syntax: "",
    arity: 1,
    flags: Flags::NO_ASYNC_LOADING
        .union(Flags::ADMIN)
        .union(Flags::NOSCRIPT)
        .union(Flags::NO_MULTI),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(N) where N is the number of keys"),
    summary: "Saves the data to disk and replies when that is done; only this client waits",
    subcommands: &[],
    run: save,
};

fn lastsave<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let seconds = cx.server.saves().status().last_success_s;
    cx.reply.integer(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(())
}

static LASTSAVE: Command = Command {
    name: "LASTSAVE",
    syntax: "",
    arity: 1,
    flags: Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::ADMIN.union(Category::DANGEROUS),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns when the data was last saved, as a Unix time in seconds",
    subcommands: &[],
    run: lastsave,
};
