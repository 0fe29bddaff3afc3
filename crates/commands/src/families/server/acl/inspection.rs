//! The categories of commands, dry runs of a user's permissions, and random passwords.

use super::common::{ADMIN, PLAIN, wrong_use};
use crate::runtime::arguments::{integer, is};
use crate::runtime::{dispatch, rights};
use crate::{Category, Command, Context, Entry, Error, Group, Keys, Notes};
use nagi_proto::Args;
use std::fmt::Write as _;

fn cat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let reply = &mut cx.reply;
    let Some(word) = args.get(2).filter(|_| args.len() == 3) else {
        if args.len() > 3 {
            return Err(wrong_use(args));
        }
        let names = Category::all().iter_names();
        reply.array(Category::all().iter_names().count());
        names.for_each(|(name, _)| reply.bulk(name.to_ascii_lowercase().as_bytes()));
        return Ok(());
    };
    let mut named = Category::all().iter_names().filter(|(name, _)| is(word, name));
    let (_, category) = named.next().ok_or_else(|| {
        Error::new(format!("ERR Unknown category '{}'", String::from_utf8_lossy(word)))
    })?;
    let is_in = |entry: &&Entry| entry.command.all_categories().contains(category);
    // Commands and subcommands are listed separately, each by its own categories.
    let found: Vec<&Entry> = cx.server.commands().entries().iter().filter(is_in).collect();
    reply.array(found.len());
    found.iter().for_each(|entry| reply.bulk(entry.full_name.as_bytes()));
    Ok(())
}

pub(super) static CAT: Command = Command {
    name: "CAT",
    syntax: "[category]",
    arity: -2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the categories of commands, or the commands of one",
    subcommands: &[],
    run: cat,
};

fn dryrun<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let user = cx.server.config().users().get(args.at(2));
    let user = user.ok_or_else(|| Error::quoting("ERR User '", args.at(2), "' not found"))?;
    let command = args.skip(3);
    let table = cx.server.commands();
    let is_known = table.find(command.at(0)).is_some_and(|entry| {
        let word = command.get(1);
        entry.command.subcommands.is_empty()
            || word.is_none_or(|word| table.subcommand(entry, word).is_some())
    });
    if !is_known {
        return Err(Error::quoting("ERR Command '", command.at(0), "' not found"));
    }
    let entry = dispatch::resolve(table, command)?;
    match user.denial(entry, command) {
        None => cx.reply.ok(),
        Some(denial) => {
            cx.reply.bulk(&rights::explain(&denial, args.at(2), entry, command));
        }
    }
    Ok(())
}

pub(super) static DRYRUN: Command = Command {
    name: "DRYRUN",
    syntax: "username command [arg ...]",
    arity: -4,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns whether a user may run a command, without running it",
    subcommands: &[],
    run: dryrun,
};

fn genpass<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const OUT_OF_RANGE: Error = Error::fixed(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
         number up to 4096",
    );
    let bits = match args.get(2) {
        _ if args.len() > 3 => return Err(wrong_use(args)),
        None => 256,
        Some(bits) => usize::try_from(integer(bits)?).map_err(|_| OUT_OF_RANGE)?,
    };
    if !(1..=4096).contains(&bits) {
        return Err(OUT_OF_RANGE);
    }
    let digits = bits.div_ceil(4);
    let mut random = [0; 512];
    let mut text = String::new();
    for byte in fill(random.get_mut(..digits.div_ceil(2)).unwrap_or_default())? {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    cx.reply.bulk(text.as_bytes());
    Ok(())
}

/// Fills a buffer with random bytes from the kernel.
fn fill(buffer: &mut [u8]) -> Result<&[u8], Error> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::new(format!("ERR no random numbers: {error}")))?;
    }
    Ok(buffer)
}

pub(super) static GENPASS: Command = Command {
    name: "GENPASS",
    syntax: "[bits]",
    arity: -2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns a random password",
    subcommands: &[],
    run: genpass,
};
