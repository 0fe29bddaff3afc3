//! The arguments of a command for COMMAND DOCS. They are parsed from the syntax line of the
//! documentation, so that COMMAND DOCS and the documentation agree.
//!
//! Words in capitals and signs are tokens, other words name arguments; `[ ]` encloses optional
//! parts, `< >` alternatives separated by `|`; `...` repeats the preceding part of its group.

/// The type of an argument, as in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    /// A token without a value.
    PureToken,
    /// One of several alternatives.
    OneOf,
    /// Several arguments in sequence.
    Block,
}

impl Kind {
    /// Its name in COMMAND DOCS.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    /// Returns the type of an argument, from its name. Some names are numbers only in some
    /// commands.
    fn of(name: &str, command: &str) -> Kind {
        match name {
            // CLUSTER KEYSLOT hashes its argument, but does not look it up as a key.
            "key" if command == "KEYSLOT" => Kind::String,
            "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey"
            | "sourcekey" | "src" | "dst" | "storekey" | "storedistkey" => Kind::Key,
            "pattern" | "by-pattern" | "get-pattern" => Kind::Pattern,
            "start" | "stop" if command == "ZRANGE" => Kind::String,
            // Ids of streams.
            "start" | "end"
                if matches!(command, "XAUTOCLAIM" | "XPENDING" | "XRANGE" | "XREVRANGE") =>
            {
                Kind::String
            }
            "min-idle-time" if command == "XPENDING" => Kind::Integer,
            "min" | "max" if command.ends_with("SCORE") || command == "ZCOUNT" => Kind::Double,
            "score" | "longitude" | "latitude" | "radius" | "width" | "height" => Kind::Double,
            "unix-time-seconds" | "unix-time-milliseconds" => Kind::UnixTime,
            "increment" if command.ends_with("INCRBYFLOAT") => Kind::Double,
            // The time-out of a blocking command is in seconds; others are in milliseconds.
            "timeout" if command.starts_with('B') => Kind::Double,
            "value" if matches!(command, "BITFIELD" | "SETBIT") => Kind::Integer,
            "index" | "index1" | "index2" | "db" | "destination-db" | "seconds"
            | "milliseconds" | "ttl" | "frequency" | "count" | "cursor" | "offset" | "start"
            | "end" | "bit" | "increment" | "decrement" | "protover" | "client-id" | "timeout"
            | "numlocal" | "numreplicas" | "min-match-len" | "bits" | "port" | "version"
            | "entries-added" | "entriesread" | "ms" | "numfields" | "numkeys" | "limit"
            | "weight" | "stop" | "rank" | "num-matches" | "len" | "k" | "ratio" | "slot"
            | "maxage" | "start-slot" | "end-slot" | "cluster-bus-port" | "config-epoch" => {
                Kind::Integer
            }
            _ => Kind::String,
        }
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Its name in lower case; for several arguments, their names joined with hyphens.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The token before it.
    pub(crate) token: Option<&'static str>,
    pub(crate) optional: bool,
    pub(crate) multiple: bool,
    /// Whether the token is repeated as well.
    pub(crate) multiple_token: bool,
    /// The alternatives, or the parts of a block.
    pub(crate) parts: Vec<Argument>,
}

impl Argument {
    fn new(name: String, kind: Kind, parts: Vec<Argument>) -> Self {
        let (token, optional, multiple, multiple_token) = (None, false, false, false);
        Argument { name, kind, token, optional, multiple, multiple_token, parts }
    }

    fn named(word: &str, command: &str) -> Self {
        Argument::new(word.to_owned(), Kind::of(word, command), Vec::new())
    }

    fn token(word: &'static str) -> Self {
        let name = match word {
            "ALPHA" => "sorting".to_owned(),
            "CH" => "change".to_owned(),
            "INCR" => "increment".to_owned(),
            "=" => "equal".to_owned(),
            "~" => "approximately".to_owned(),
            "*" => "auto-id".to_owned(),
            "$" => "new-id".to_owned(),
            word => word.to_ascii_lowercase(),
        };
        Argument { token: Some(word), ..Argument::new(name, Kind::PureToken, Vec::new()) }
    }

    /// Combines several arguments into one; returns a single argument unchanged.
    fn joined(kind: Kind, mut parts: Vec<Argument>) -> Self {
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                parts.extend(last);
                let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
                Argument::new(names.join("-"), kind, parts)
            }
        }
    }

    /// Whether `other` repeats this argument, with or without its token.
    fn is_repeated_by(&self, other: &Argument) -> bool {
        let tokens = other.token.is_none() || other.token == self.token;
        self.name == other.name && self.kind == other.kind && tokens
    }
}

/// Parses the arguments in the syntax line of a command.
pub(crate) fn arguments(syntax: &'static str, command: &str) -> Vec<Argument> {
    let mut reader = Reader { rest: words(syntax), command };
    reader.rest.reverse();
    let alternatives = reader.alternatives().0;
    match <[_; 1]>::try_from(alternatives) {
        Ok([sequence]) => sequence,
        Err(several) => vec![one_of(several)],
    }
}

/// Splits a syntax line into brackets, bars and words.
fn words(syntax: &'static str) -> Vec<&'static str> {
    let mut words = Vec::new();
    for word in syntax.split_whitespace() {
        let inner = word.trim_start_matches(['[', '<']);
        let (opening, _) = word.split_at(word.len() - inner.len());
        let bare = inner.trim_end_matches([']', '>']);
        let closing = inner.strip_prefix(bare).unwrap_or_default();
        let brackets = |text: &'static str| text.split("").filter(|it| !it.is_empty());
        words.extend(brackets(opening));
        words.extend(Some(bare).filter(|bare| !bare.is_empty()));
        words.extend(brackets(closing));
    }
    words
}

fn one_of(alternatives: Vec<Vec<Argument>>) -> Argument {
    let alternatives = alternatives.into_iter().map(|it| Argument::joined(Kind::Block, it));
    Argument::joined(Kind::OneOf, alternatives.collect())
}

/// Parses the words of a syntax line. The next word is the last element of `rest`.
struct Reader<'a> {
    rest: Vec<&'static str>,
    command: &'a str,
}

impl Reader<'_> {
    /// Parses the alternatives of a group up to its end. Also returns whether the group is
    /// repeated.
    fn alternatives(&mut self) -> (Vec<Vec<Argument>>, bool) {
        let (mut all, mut sequence, mut repeats) = (Vec::new(), Vec::new(), false);
        while let Some(word) = self.rest.pop() {
            match word {
                "]" | ">" => break,
                "|" => all.push(std::mem::take(&mut sequence)),
                "..." => repeats = true,
                "[" => self.optional(&mut sequence),
                "<" => {
                    let (alternatives, multiple) = self.alternatives();
                    sequence.push(Argument { multiple, ..one_of(alternatives) });
                }
                token if is_token(token) => sequence.push(self.token_argument(token)),
                name => sequence.push(Argument::named(name, self.command)),
            }
        }
        all.push(sequence);
        (all, repeats)
    }

    /// Parses a group in `[ ]`: optional arguments, or the repetition of the preceding ones.
    fn optional(&mut self, sequence: &mut Vec<Argument>) {
        let (alternatives, multiple) = self.alternatives();
        if let ([again], true) = (alternatives.as_slice(), multiple) {
            if repeat(sequence, again) {
                return;
            }
            // The repeated part may be the last argument of a token.
            let last = sequence.last_mut().filter(|last| last.kind == Kind::Block);
            if last.is_some_and(|last| repeat(&mut last.parts, again)) {
                return;
            }
        }
        let group = one_of(alternatives);
        let multiple = multiple || group.multiple;
        sequence.push(Argument { optional: true, multiple, ..group });
    }

    /// Parses a token's arguments: the names after it, or alternatives.
    fn token_argument(&mut self, token: &'static str) -> Argument {
        let mut parts = Vec::new();
        if token == "STREAMS" {
            // XREAD's keys and ids: all of the following words.
            parts.extend(self.alternatives().0.into_iter().flatten());
        } else if self.rest.last() == Some(&"<") {
            self.rest.pop();
            parts.push(one_of(self.alternatives().0));
        }
        let names = self.rest.iter().rev().take_while(|word| is_name(word)).count();
        // If alternatives follow, the token belongs only to the first name.
        let after = self.rest.iter().rev().nth(names);
        let names = if after == Some(&"<") { names.min(1) } else { names };
        for _ in 0..names {
            parts.extend(self.rest.pop().map(|name| Argument::named(name, self.command)));
        }
        if parts.is_empty() {
            return Argument::token(token);
        }
        Argument { token: Some(token), ..Argument::joined(Kind::Block, parts) }
    }
}

/// Marks the last arguments of a sequence as repeated, if they equal `again`. Returns whether they
/// are equal.
fn repeat(sequence: &mut Vec<Argument>, again: &[Argument]) -> bool {
    let Some(first) = sequence.len().checked_sub(again.len()) else { return false };
    let before = sequence.get(first..).unwrap_or_default();
    let is_repeated =
        before.iter().zip(again).all(|(argument, again)| argument.is_repeated_by(again));
    if is_repeated {
        let multiple_token = again.iter().any(|argument| argument.token.is_some());
        let repeated = Argument::joined(Kind::Block, sequence.split_off(first));
        sequence.push(Argument { multiple: true, multiple_token, ..repeated });
    }
    is_repeated
}

fn is_token(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase() || "=~*$".contains(first))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments in short: `?` optional, `+` multiple, `++` with the token.
    fn shown(arguments: &[Argument]) -> String {
        let show = |argument: &Argument| {
            let token = argument.token.map(|token| format!("{token}=")).unwrap_or_default();
            let parts = match argument.kind {
                Kind::OneOf | Kind::Block => format!("({})", shown(&argument.parts)),
                kind => format!("{}:{}", argument.name, kind.name()),
            };
            let kind = if argument.kind == Kind::OneOf { "one" } else { "" };
            let optional = if argument.optional { "?" } else { "" };
            let multiple = match (argument.multiple, argument.multiple_token) {
                (true, true) => "++",
                (true, false) => "+",
                _ => "",
            };
            format!("{token}{kind}{parts}{optional}{multiple}")
        };
        arguments.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn syntax_lines_are_parsed_into_arguments() {
        for (syntax, tree) in [
            ("", ""),
            ("key [key ...]", "key:key+"),
            ("key value [key value ...]", "(key:key value:string)+"),
            ("[event [event ...]]", "event:string?+"),
            ("command [arg ...]", "command:string arg:string?+"),
            (
                "key [EX seconds | PERSIST]",
                "key:key one(EX=seconds:integer PERSIST=persist:pure-token)?",
            ),
            (
                "key [start [end [A | B]]]",
                "key:key (start:integer (end:integer one(A=a:pure-token B=b:pure-token)?)?)?",
            ),
            (
                "[GET encoding offset [GET encoding offset ...]]",
                "GET=(encoding:string offset:integer)?++",
            ),
            ("[ID client-id [client-id ...]]", "ID=client-id:integer?+"),
            ("FIELDS numfields field [field ...]", "FIELDS=(numfields:integer field:string+)"),
            (
                "FIELDS numfields field value [field value ...]",
                "FIELDS=(numfields:integer (field:string value:string)+)",
            ),
            (
                "[BY <MODULE name | PATTERN pattern>]",
                "BY=one(MODULE=name:string PATTERN=pattern:pattern)?",
            ),
            (
                "<host port | NO ONE>",
                "one((host:string port:integer) (NO=no:pure-token ONE=one:pure-token))",
            ),
            (
                "<A x <B | C> | D x y <B | C>>",
                "one((A=x:string one(B=b:pure-token C=c:pure-token)) \
                 (D=x:string y:string one(B=b:pure-token C=c:pure-token)))",
            ),
            ("STREAMS key [key ...] id [id ...]", "STREAMS=(key:key+ id:string+)"),
            ("[= | ~] id", "one(==equal:pure-token ~=approximately:pure-token)? id:string"),
            ("[<A | B> ...]", "one(A=a:pure-token B=b:pure-token)?+"),
        ] {
            assert_eq!(shown(&arguments(syntax, "X")), tree, "{syntax}");
        }
    }
}
