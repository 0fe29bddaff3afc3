//! The flags after a meta command's key: letters, some with a token directly after them. The
//! accepted flags and the order in which errors are found are those of memcached 1.6.45.

use crate::memcached::arguments::{When, expiry, gives_versions, when};
use crate::memcached::{Context, Error};
use nagi_proto::Args;
use nagi_proto::memcached::base64;
use nagi_store::types::string::Expiry;

/// Every letter that some meta command knows.
const KNOWN: &[u8] = b"bcfhklqstuvxCDEFIJLMNOPRT";
/// Maximum number of flags in a request.
const MOST: usize = 18;
/// Maximum length of an opaque in bytes.
const OPAQUE_BYTES: usize = 31;

/// The flags of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags<'a> {
    /// All flags, in their order, in which the reply repeats some of them.
    words: Args<'a>,
    /// The key is in base64 (`b`).
    pub(super) base64: bool,
    /// No reply in the expected case (`q`).
    pub(super) quiet: bool,
    /// The value is returned (`v`).
    pub(super) value: bool,
    /// The version's number is returned (`c`).
    pub(super) versioned: bool,
    /// The version that the item must have (`C`).
    pub(super) expected: Option<u64>,
    /// The number of the version that is stored (`E`).
    pub(super) version: Option<u64>,
    /// The client flags to store (`F`).
    pub(super) client_flags: u32,
    /// The new expiry (`T`).
    pub(super) expiry: Option<Expiry>,
    /// Whether `t` precedes `T`; `t` then shows the expiry before the change.
    pub(super) time_first: bool,
    /// The expiry of items that `mg` and `ma` create: that of `N`, or of a `T` after it.
    pub(super) vivified: Option<Expiry>,
    /// The expiry that `t` shows for a created item, from the `N` and `T` before it.
    vivified_shown: Option<Expiry>,
    /// The expiry of an item that is created if the key is missing (`N`).
    pub(super) vivify: Option<Expiry>,
    /// Remaining milliseconds of an item below which the client may refresh it (`R`).
    pub(super) refresh_ms: Option<i64>,
    /// Whether `T` precedes `R`, which then compares the new expiry.
    pub(super) expiry_before_refresh: bool,
    /// The lookup does not count as a use of the entry (`u`).
    pub(super) untouched: bool,
    /// Marks the item as stale; `ms` accepts an older version (`I`).
    pub(super) invalidate: bool,
    /// Removes the value but keeps the item (`x`).
    pub(super) clear: bool,
    /// The number by which `ma` changes a counter (`D`).
    pub(super) delta: u64,
    /// The initial number of a counter that `ma` creates (`J`).
    pub(super) initial: u64,
    /// The mode of `ms` or `ma` (`M`).
    pub(super) mode: Option<&'a [u8]>,
}

/// The error for a flag with an invalid token.
const BAD_TOKEN: Error = Error("CLIENT_ERROR bad token in command line format");

impl<'a> Flags<'a> {
    /// Reads the words from `first` on.
    pub(super) fn read(cx: &Context<'_>, args: Args<'a>, first: usize) -> Result<Self, Error> {
        let words = args.skip(first);
        check_letters(words, args.len())?;
        let mut flags = Flags {
            words,
            base64: false,
            quiet: false,
            value: false,
            versioned: false,
            expected: None,
            version: None,
            client_flags: 0,
            expiry: None,
            time_first: false,
            vivified: None,
            vivified_shown: None,
            vivify: None,
            refresh_ms: None,
            expiry_before_refresh: false,
            untouched: false,
            invalidate: false,
            clear: false,
            delta: 1,
            initial: 0,
            mode: None,
        };
        let (mut shows_time, mut bad_client_flags) = (false, false);
        for (letter, token) in words.from(0).filter_map(<[u8]>::split_first) {
            shows_time |= *letter == b't';
            flags.time_first |= *letter == b'T' && shows_time;
            if *letter == b'F' {
                let number = nagi_store::parse_u64(token).and_then(|flags| flags.try_into().ok());
                bad_client_flags = number.is_none();
                flags.client_flags = number.unwrap_or(0);
            }
            flags.take(cx, *letter, token)?;
            if *letter == b't' {
                flags.vivified_shown = flags.vivified.or(flags.expiry);
            }
        }
        // All other errors take precedence over this one.
        if bad_client_flags { Err(Error::BAD_LINE) } else { Ok(flags) }
    }

    fn take(&mut self, cx: &Context<'_>, letter: u8, token: &'a [u8]) -> Result<(), Error> {
        let number = || nagi_store::parse_u64(token);
        let time = || expiry(token, cx.db.now_ms()).ok_or(BAD_TOKEN);
        match letter {
            b'b' => self.base64 = true,
            b'q' => self.quiet = true,
            b'u' => self.untouched = true,
            b'v' => self.value = true,
            b'c' => self.versioned = gives_versions(cx),
            b'I' => self.invalidate = true,
            b'x' => self.clear = true,
            b'M' => self.mode = Some(token),
            b'C' => self.expected = Some(number().ok_or(BAD_TOKEN)?),
            b'E' => self.version = Some(number().ok_or(BAD_TOKEN)?),
            b'N' => {
                self.vivify = Some(time()?);
                self.vivified = self.vivify;
            }
            b'T' => {
                self.expiry = Some(time()?);
                self.vivified = self.vivified.and(self.expiry);
            }
            b'R' => {
                let at_ms = match when(token, cx.db.now_ms()).ok_or(BAD_TOKEN)? {
                    When::Never => 0,
                    When::At(at_ms) => at_ms,
                };
                self.refresh_ms = Some(at_ms.cast_signed() - cx.db.now_ms().cast_signed());
                self.expiry_before_refresh = self.expiry.is_some();
            }
            b'D' => {
                self.delta = number().ok_or(Error("CLIENT_ERROR invalid numeric delta value"))?;
            }
            b'J' => {
                self.initial =
                    number().ok_or(Error("CLIENT_ERROR invalid numeric initial value"))?;
            }
            b'O' if token.len() > OPAQUE_BYTES => {
                return Err(Error("CLIENT_ERROR opaque token too long"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The bytes of the key: `word`, or its decoded form, which is stored in `room`.
    pub(super) fn key<'k>(&self, word: &'k [u8], room: &'k mut Vec<u8>) -> Result<&'k [u8], Error> {
        if !self.base64 {
            return Ok(word);
        }
        if !base64::decode(word, room) {
            return Err(Error("CLIENT_ERROR error decoding key"));
        }
        Ok(room)
    }

    /// The expiry that `t` shows for an entry that this request has created: only the flags before
    /// `t` have been applied to the entry by then.
    pub(super) fn vivified_expire_at_ms(&self) -> Option<u64> {
        match self.vivified_shown {
            Some(Expiry::AtMs(at_ms)) => Some(at_ms),
            _ => None,
        }
    }

    /// All letters, with their tokens.
    pub(super) fn each(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        self.words
            .from(0)
            .filter_map(|word| word.split_first().map(|(&letter, rest)| (letter, rest)))
    }
}

/// Refuses unknown, repeated, or too many flags.
fn check_letters(words: Args<'_>, all_words: usize) -> Result<(), Error> {
    // Two words, the command and the key, precede the flags; a length counts as one of them.
    if all_words > MOST + 2 {
        return Err(Error("CLIENT_ERROR options flags are too long"));
    }
    let mut seen = 0_u128;
    for letter in words.from(0).filter_map(|word| word.first().copied()) {
        if !KNOWN.contains(&letter) {
            return Err(Error("CLIENT_ERROR invalid flag"));
        }
        let bit = 1 << (letter & 0x7f);
        if seen & bit != 0 {
            return Err(Error("CLIENT_ERROR duplicate flag"));
        }
        seen |= bit;
    }
    Ok(())
}
