//! Values serialized by DUMP and restored by RESTORE.

use crate::runtime::arguments::{self, RemainingArguments, integer, is};
use crate::runtime::multi_key::{self, Claimed};
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_persist::payload::{Dump, Refusal, Restore, Restored, form_name};
use nagi_persist::rdb::StoreBuilders;
use nagi_proto::Args;
use nagi_store::types::collection::NewCollections;
use nagi_store::types::restore::Usage;
use nagi_store::types::string::Expiry;
use nagi_store::{CHUNK_BYTES, Rope, StringInput};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&DUMP, &RESTORE, &RESTORE_ASKING];

const BUSY_KEY: Error = Error::fixed("BUSYKEY Target key name already exists.");

fn dump<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Some(mut dump) = cx.db.get(key, |entry| Some(Dump::new(entry?.value(), true))) else {
        cx.reply.null();
        return Ok(());
    };
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            if let Some(payload) = dump.step() {
                cx.reply.bulk_chunks(payload.share(), 0..payload.len());
                return Ok(JobProgress::Done);
            }
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
    }))
}

pub(crate) static DUMP: Command = Command {
    name: "DUMP",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the length of the value").tips(&["nondeterministic_output"]),
    summary: "Returns a value serialized for RESTORE, with a version and a checksum",
    subcommands: &[],
    run: dump,
};

fn restore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let options = Options::parse(args)?;
    if !options.replace && cx.db.unnoticed().kind(cx.key(args.at(1))).is_some() {
        return Err(BUSY_KEY);
    }
    let expiry = options.expiry(cx.db.now_ms(), integer(args.at(2))?)?;
    let payload = match arguments::value(args, 3) {
        StringInput::Bytes(bytes) => Rope::from_bytes(bytes),
        StringInput::Rope(rope) => rope,
    };
    let form = payload.chunk(0).and_then(|chunk| chunk.first()).copied();
    let longest_bytes = cx.server.config().proto_max_bulk_len.bytes();
    let limits = cx.server.config().collection_limits();
    let builders = StoreBuilders(NewCollections::new(cx.db.store(), limits));
    let mut restore = Restore::new(payload, longest_bytes, builders);
    if cx.hooks.skips_checksums() {
        restore = restore.with_any_checksum();
    }
    let mut go_on = move |cx: &mut Context<'_>, slice: Slice| loop {
        match restore.step().map_err(|why| refusal(cx, form, why))? {
            Some(Restored::String(value)) => {
                put(cx, &value, expiry, &options)?;
                return Ok(true);
            }
            Some(Restored::Collection(value)) => {
                let key = cx.key(cx.args.at(1));
                if !cx.db.restore_collection(key, value, expiry, options.replace, options.usage) {
                    return Err(BUSY_KEY);
                }
                cx.reply.ok();
                return Ok(true);
            }
            None => {}
        }
        if slice.is_over() {
            return Ok(false);
        }
    };
    // The first slice runs without a claim. If it does not complete the request, the key is
    // claimed.
    if go_on(cx, Slice::begin())? {
        return Ok(());
    }
    multi_key::claimed(cx, Claimed::all(&RESTORE.keys), go_on)
}

pub(crate) static RESTORE: Command = Command {
    name: "RESTORE",
    syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::OW.union(Access::UPDATE)),
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Generic,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the length of the value")
        .history(&[("3.0.0", "REPLACE"), ("5.0.0", "ABSTTL, IDLETIME and FREQ")]),
    summary: "Stores a value that DUMP returned",
    subcommands: &[],
    run: restore,
};

/// What MIGRATE of a server in cluster mode sends.
pub(crate) static RESTORE_ASKING: Command = Command {
    name: "RESTORE-ASKING",
    syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::OW.union(Access::UPDATE)),
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Server,
    since: "3.0.0",
    notes: Notes::of("O(N), N being the length of the value"),
    summary: "RESTORE, as MIGRATE of a server in cluster mode sends it",
    subcommands: &[],
    run: restore,
};

fn put(cx: &mut Context<'_>, value: &Rope, expiry: Expiry, options: &Options) -> Result<(), Error> {
    let key = cx.key(cx.args.at(1));
    let given = match value.chunk(0) {
        Some(_) if value.len() > CHUNK_BYTES => StringInput::Rope(value.clone()),
        chunk => StringInput::Bytes(chunk.map_or(&[], |chunk| chunk)),
    };
    if !cx.db.restore(key, given, expiry, options.replace, options.usage) {
        return Err(BUSY_KEY);
    }
    cx.reply.ok();
    Ok(())
}

/// The error for a payload with this first byte. If its value is damaged, that is also logged.
fn refusal(cx: &Context<'_>, form: Option<u8>, refusal: Refusal) -> Error {
    Error::fixed(match refusal {
        Refusal::Footer => "ERR DUMP payload version or checksum are wrong",
        Refusal::Value => {
            if let Some(form) = form {
                cx.server.log_damaged_payload(&form_name(form));
            }
            "ERR Bad data format"
        }
    })
}

/// The options after RESTORE's payload.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    usage: Option<Usage>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Options::default();
        let mut rest = RemainingArguments::from(args, 4);
        while let Some(option) = rest.next() {
            if is(option, "REPLACE") {
                options.replace = true;
            } else if is(option, "ABSTTL") {
                options.absolute = true;
            } else if is(option, "IDLETIME") && !matches!(options.usage, Some(Usage::Frequency(_)))
            {
                let seconds = u64::try_from(integer(rest.value()?)?)
                    .map_err(|_| Error::fixed("ERR Invalid IDLETIME value, must be >= 0"))?;
                options.usage = Some(Usage::IdleMs(seconds.saturating_mul(1000)));
            } else if is(option, "FREQ") && !matches!(options.usage, Some(Usage::IdleMs(_))) {
                let counter = u8::try_from(integer(rest.value()?)?)
                    .map_err(|_| Error::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"))?;
                options.usage = Some(Usage::Frequency(counter));
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }

    fn expiry(&self, now_ms: u64, ttl_ms: i64) -> Result<Expiry, Error> {
        let ttl_ms = u64::try_from(ttl_ms)
            .map_err(|_| Error::fixed("ERR Invalid TTL value, must be >= 0"))?;
        Ok(match ttl_ms {
            0 => Expiry::Never,
            at_ms if self.absolute => Expiry::AtMs(at_ms),
            // As in Redis, a time beyond 63 bits has overflowed to one in the past.
            ttl_ms if now_ms + ttl_ms > i64::MAX as u64 => Expiry::AtMs(1),
            ttl_ms => Expiry::AtMs(now_ms + ttl_ms),
        })
    }
}
