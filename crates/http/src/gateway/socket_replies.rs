//! The replies on a WebSocket, each under the name of its command.
//!
//! A worker's replies come in the order of the commands, but a command about subscriptions has one
//! for each channel, and published messages come between them. As with webdis, messages have the
//! name of the command that began their kind of subscription, and so has the confirmation that it
//! has ended.

use super::decoder::Part;
use super::format::{Formatter, Kind};
use hyper::body::Bytes;
use std::collections::VecDeque;

/// The first elements of published messages, by group.
const MESSAGES: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

/// The commands that begin and end subscriptions, by group: channels, patterns, sharded channels.
const GROUPS: [[&[u8]; 2]; 3] = [
    [b"subscribe", b"unsubscribe"],
    [b"psubscribe", b"punsubscribe"],
    [b"ssubscribe", b"sunsubscribe"],
];

/// Writes the replies on a socket.
#[derive(Debug)]
pub(super) struct SocketReplies {
    kind: Kind,
    awaited: VecDeque<Awaited>,
    /// The number of subscriptions of each group, and the name of the command that began the last.
    counts: [i64; 3],
    names: [Bytes; 3],
    /// The name of the last command whose replies are messages of no group: MONITOR.
    stream: Bytes,
    current: Current,
    formatter: Option<Formatter>,
    out: Vec<u8>,
}

/// A command whose replies are awaited.
#[derive(Debug)]
struct Awaited {
    name: Bytes,
    /// The group of its subscriptions, if it is about some.
    group: Option<usize>,
    /// How many channels or patterns it names.
    channels: usize,
    /// The replies left, once the first has come.
    left: Option<i64>,
    /// The reply to a command that was refused, and no worker answers.
    refusal: Option<Vec<u8>>,
}

/// The reply that is arriving.
#[derive(Debug, Default)]
struct Current {
    /// The length of the reply, if it is an array.
    len: Option<usize>,
    depth: usize,
    /// How many of its elements have begun.
    elements: usize,
    /// The first element, if it is text and may be the kind of a message.
    word: Vec<u8>,
    is_word_open: bool,
    /// The last number.
    count: i64,
}

impl Awaited {
    fn of(words: &[Bytes]) -> Self {
        let name = words.first().cloned().unwrap_or_default();
        let is_name = |known: &&[u8]| name.eq_ignore_ascii_case(known);
        let group = GROUPS.iter().position(|group| group.iter().any(is_name));
        let channels = words.len().saturating_sub(1);
        Awaited { group, channels, left: None, refusal: None, name }
    }
}

impl SocketReplies {
    pub(super) fn new(kind: Kind) -> Self {
        SocketReplies {
            kind,
            awaited: VecDeque::new(),
            counts: [0; 3],
            names: Default::default(),
            stream: Bytes::new(),
            current: Current::default(),
            formatter: None,
            out: Vec::new(),
        }
    }

    /// Records that a command has been sent, and whether messages follow it.
    pub(super) fn expect(&mut self, words: &[Bytes], has_messages: bool) {
        let awaited = Awaited::of(words);
        if has_messages && awaited.group.is_none() {
            self.stream = awaited.name.clone();
        }
        self.awaited.push_back(awaited);
    }

    /// Records a command that was refused. Its reply comes after those to earlier commands.
    pub(super) fn refuse(&mut self, refusal: Vec<u8>) {
        self.awaited.push_back(Awaited { refusal: Some(refusal), ..Awaited::of(&[]) });
    }

    /// Takes the reply to a refused command, if all earlier ones have been answered.
    pub(super) fn take_refusal(&mut self) -> Option<Vec<u8>> {
        let refusal = self.awaited.front_mut()?.refusal.take()?;
        self.awaited.pop_front();
        Some(refusal)
    }

    /// The number of commands whose replies are awaited.
    pub(super) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    /// Takes the next part of a reply. Returns by how much the output has grown.
    pub(super) fn take(&mut self, part: Part<'_>, bytes: &[u8]) -> usize {
        let before = self.out.len();
        let may_be_message = self.may_be_message();
        self.current.read(part, may_be_message);
        match &mut self.formatter {
            _ if self.kind == Kind::Raw => self.out.extend(bytes),
            Some(formatter) => formatter.write(part, &mut self.out),
            None if may_be_message && self.current.is_undecided() => {}
            None => self.begin(part),
        }
        self.out.len() - before
    }

    /// The whole reply, all of whose parts have been taken.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let is_message = self.message_group().is_some();
        let current = std::mem::take(&mut self.current);
        if let Some(mut formatter) = self.formatter.take() {
            formatter.end(&mut self.out);
        }
        if !is_message {
            self.answered(&current);
        }
        std::mem::take(&mut self.out)
    }

    /// Whether the current reply may be a message or confirm a subscription.
    fn may_be_message(&self) -> bool {
        self.has_subscriptions() || self.awaited.front().is_some_and(|it| it.group.is_some())
    }

    fn has_subscriptions(&self) -> bool {
        self.counts.iter().any(|count| *count > 0)
    }

    /// The group of the current reply, if it is a message.
    fn message_group(&self) -> Option<usize> {
        let group = MESSAGES.iter().position(|kind| *kind == self.current.word);
        group.filter(|_| self.has_subscriptions())
    }

    /// The name under which the current reply is sent.
    fn name(&self) -> &Bytes {
        let named = |group: usize| self.names.get(group).unwrap_or(&self.stream);
        if let Some(group) = self.message_group() {
            return named(group);
        }
        let Some(command) = self.awaited.front() else { return &self.stream };
        let ended = command.group.filter(|group| {
            let begun = self.counts.get(*group).is_some_and(|count| *count > 0);
            begun && GROUPS.get(*group).is_some_and(|[_, end]| *end == self.current.word)
        });
        ended.map_or(&command.name, named)
    }

    /// Begins the output with the name of the command, and the parts that had to be held back.
    fn begin(&mut self, part: Part<'_>) {
        let name = self.name();
        let Some(mut formatter) = Formatter::new(self.kind, name, b"") else { return };
        let Current { len, word, elements, .. } = &self.current;
        if let Some(len) = len.filter(|_| *elements > 0) {
            formatter.write(Part::Array(len), &mut self.out);
        }
        if matches!(part, Part::Bytes(..)) {
            formatter.write(Part::Text(word.len()), &mut self.out);
            formatter.write(Part::Bytes(word, true), &mut self.out);
        } else {
            formatter.write(part, &mut self.out);
        }
        self.formatter = Some(formatter);
    }

    /// Records a reply to the first awaited command.
    fn answered(&mut self, reply: &Current) {
        let Some(command) = self.awaited.front_mut() else { return };
        let group = command.group.filter(|_| command.name.eq_ignore_ascii_case(&reply.word));
        let Some(group) = group else {
            self.awaited.pop_front();
            return;
        };
        let [channels, patterns, shards] = self.counts;
        let all = self.counts.get(group).copied().unwrap_or_default();
        let is_begun = GROUPS.get(group).is_some_and(|[begin, _]| *begin == reply.word);
        if let Some(name) = self.names.get_mut(group).filter(|_| is_begun) {
            name.clone_from(&command.name);
        }
        let named = i64::try_from(command.channels).unwrap_or(i64::MAX);
        // Without names, the command is about all subscriptions of its group.
        let expected = if command.channels == 0 { all.max(1) } else { named };
        let left = command.left.unwrap_or(expected) - 1;
        command.left = Some(left);
        if left <= 0 {
            self.awaited.pop_front();
        }
        // The number in a confirmation counts both channels and patterns, but sharded ones apart.
        self.counts = match group {
            0 => [reply.count - patterns, patterns, shards],
            1 => [channels, reply.count - channels, shards],
            _ => [channels, patterns, reply.count],
        };
    }
}

impl Current {
    /// Takes the next part; `keeps_word` if the first element matters.
    fn read(&mut self, part: Part<'_>, keeps_word: bool) {
        let is_outermost = self.depth == 1;
        match part {
            Part::End => self.depth = self.depth.saturating_sub(1),
            Part::Bytes(bytes, is_last) => {
                if keeps_word && self.is_word_open {
                    self.word.extend(bytes);
                    self.is_word_open = !is_last;
                }
            }
            part => {
                self.elements += usize::from(is_outermost);
                self.is_word_open =
                    is_outermost && self.elements == 1 && matches!(part, Part::Text(_));
                match part {
                    Part::Array(len) => {
                        if self.depth == 0 {
                            self.len = Some(len);
                        }
                        self.depth += 1;
                    }
                    Part::Integer(number) if is_outermost => self.count = number,
                    _ => {}
                }
            }
        }
    }

    /// Whether the first element is still to come.
    fn is_undecided(&self) -> bool {
        self.is_word_open || self.elements == 0 && self.len.is_some_and(|len| len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::decoder::Decoder;

    fn words(command: &str) -> Vec<Bytes> {
        command.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    /// An array of texts and numbers in RESP2.
    fn array(elements: &str) -> String {
        let elements: Vec<&str> = elements.split(' ').collect();
        let mut text = format!("*{}\r\n", elements.len());
        for element in elements {
            match element.parse::<i64>() {
                Ok(number) => text += &format!(":{number}\r\n"),
                Err(_) if element == "nil" => text += "$-1\r\n",
                Err(_) => text += &format!("${}\r\n{element}\r\n", element.len()),
            }
        }
        text
    }

    /// The messages to a client for these commands and replies; the worker's bytes come in pieces
    /// of `step` bytes.
    fn told(kind: Kind, commands: &[&str], replies: &str, step: usize) -> (Vec<String>, usize) {
        let mut socket = SocketReplies::new(kind);
        for command in commands {
            socket.expect(&words(command), *command == "MONITOR");
        }
        let (mut decoder, mut told) = (Decoder::default(), Vec::new());
        let (mut at, mut end) = (0, 0);
        while end <= replies.len() {
            match decoder.next(&replies.as_bytes()[at..end]).unwrap() {
                Some((part, consumed)) => {
                    socket.take(part, &replies.as_bytes()[at..at + consumed]);
                    at += consumed;
                    if decoder.is_over() {
                        told.push(String::from_utf8(socket.end()).unwrap());
                    }
                }
                None if end == replies.len() => break,
                None => end = (end + step).min(replies.len()),
            }
        }
        (told, socket.awaited())
    }

    #[test]
    fn each_reply_has_the_name_of_its_command() {
        let commands =
            ["SUBSCRIBE a b", "psubscribe c*", "PING", "UNSUBSCRIBE", "PUNSUBSCRIBE", "GET x"];
        let replies = [
            array("subscribe a 1"),
            array("message a x"),
            array("subscribe b 2"),
            array("psubscribe c* 3"),
            array("pmessage c* cc y"),
            array("pong z"),
            array("unsubscribe a 2"),
            array("message b x"),
            array("unsubscribe b 1"),
            array("punsubscribe c* 0"),
            array("message b"),
        ];
        let expected = [
            r#"{"SUBSCRIBE":["subscribe","a",1]}"#,
            r#"{"SUBSCRIBE":["message","a","x"]}"#,
            r#"{"SUBSCRIBE":["subscribe","b",2]}"#,
            r#"{"psubscribe":["psubscribe","c*",3]}"#,
            r#"{"psubscribe":["pmessage","c*","cc","y"]}"#,
            r#"{"PING":["pong","z"]}"#,
            r#"{"SUBSCRIBE":["unsubscribe","a",2]}"#,
            r#"{"SUBSCRIBE":["message","b","x"]}"#,
            r#"{"SUBSCRIBE":["unsubscribe","b",1]}"#,
            r#"{"psubscribe":["punsubscribe","c*",0]}"#,
            r#"{"GET":["message","b"]}"#,
        ];
        for step in 1..40 {
            let (told, awaited) = told(Kind::Json, &commands, &replies.concat(), step);
            assert_eq!(told, expected, "{step}");
            assert_eq!(awaited, 0);
        }
        let (raw, _) = told(Kind::Raw, &commands, &replies.concat(), 7);
        assert_eq!(raw, replies);
    }

    #[test]
    fn replies_of_other_shapes_are_named_too() {
        let commands = ["UNSUBSCRIBE", "SSUBSCRIBE a", "GET x", "SUNSUBSCRIBE", "LRANGE l 0 -1"];
        let replies = [
            array("unsubscribe nil 0"),
            array("ssubscribe a 1"),
            "-ERR no\r\n".to_owned(),
            array("sunsubscribe a 0"),
            "*0\r\n".to_owned(),
        ];
        let expected = [
            r#"{"UNSUBSCRIBE":["unsubscribe",null,0]}"#,
            r#"{"SSUBSCRIBE":["ssubscribe","a",1]}"#,
            r#"{"GET":[false,"ERR no"]}"#,
            r#"{"SSUBSCRIBE":["sunsubscribe","a",0]}"#,
            r#"{"LRANGE":[]}"#,
        ];
        for step in 1..20 {
            let (told, awaited) = told(Kind::Json, &commands, &replies.concat(), step);
            assert_eq!((&*told, awaited), (&expected.map(str::to_owned)[..], 0), "{step}");
        }
        let replies = "-ERR a\r\n*1\r\n*1\r\n:1\r\n+OK\r\n+SET\r\n";
        let (told, _) = told(Kind::Json, &["SUBSCRIBE", "EVAL", "MONITOR"], replies, 3);
        let expected = [
            r#"{"SUBSCRIBE":[false,"ERR a"]}"#,
            r#"{"EVAL":[[1]]}"#,
            r#"{"MONITOR":[true,"OK"]}"#,
            r#"{"MONITOR":[true,"SET"]}"#,
        ];
        assert_eq!(told, expected);
    }
}
