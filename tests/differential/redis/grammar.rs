//! The grammar of each command's arguments according to `docs/commands.md`, which is generated from
//! the rows, and sentences of that grammar.

use harness::Random;

/// A command with the grammar of its arguments.
pub(super) struct Rule {
    /// The name: one word, or two for a subcommand.
    pub(super) name: String,
    /// The heading of the command's group on the page.
    pub(super) group: String,
    /// The version of Redis that introduced it, or `nagi`.
    since: String,
    arguments: Node,
}

enum Node {
    /// A literal word.
    Word(String),
    /// A placeholder for an argument of this kind.
    Argument(String),
    /// Nodes one after another.
    Sequence(Vec<Node>),
    /// One of several nodes.
    Choice(Vec<Node>),
    /// A node that may be omitted.
    Optional(Box<Node>),
    /// A node that may occur any number of times.
    Repeated(Box<Node>),
}

/// A word of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A literal word.
    Word(String),
    /// A placeholder for an argument of this kind.
    Argument(String),
}

/// Maximum number of sentences for one rule.
const MAX_SENTENCES: usize = 400;

/// Generates arguments of the kinds that rows name.
pub(super) trait Arguments {
    /// Returns an argument, which may consist of any bytes.
    fn argument(&mut self, random: &mut Random, kind: &str) -> Vec<u8>;
}

impl Rule {
    /// Returns the rules of all commands of Redis' protocol.
    pub(super) fn all() -> Vec<Self> {
        let page = include_str!("../../../docs/commands.md");
        let redis = page.split("\n## ").find(|part| part.starts_with("Redis\n"));
        let groups = redis.expect("a heading").split("\n### ").skip(1);
        let rows: Vec<(&str, &str, &str)> = groups
            .flat_map(|group| {
                let name = group.lines().next().unwrap_or_default();
                group.lines().filter_map(move |line| Some((name, line.strip_prefix("| `")?)))
            })
            .filter_map(|(group, row)| Some((group, row.split_once("` | ")?)))
            .filter_map(|(group, (usage, rest))| Some((group, usage, rest.split_once(" | ")?.0)))
            .collect();
        // The second words of these commands are names, unlike the words in `BITOP AND | OR ...`.
        let containers: Vec<&str> = rows
            .iter()
            .filter_map(|(_, usage, _)| usage.split_once(' '))
            .filter(|(_, rest)| {
                ["subcommand", "[subcommand]"].iter().any(|it| rest.starts_with(it))
            })
            .map(|(name, _)| name)
            .collect();
        rows.iter().map(|row| Self::parse(*row, &containers)).collect()
    }

    /// Whether redis-server 7.0 knows the command.
    pub(super) fn is_in_redis_7_0(&self) -> bool {
        let mut numbers = self.since.split('.').map(|number| number.parse::<u32>());
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) <= (7, 0),
            _ => false,
        }
    }

    /// Whether the command may block when it is executed outside of transactions and scripts.
    pub(super) fn waits(&self) -> bool {
        let blocks = ["BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX"];
        blocks.contains(&self.name.as_str()) || self.name == "BZPOPMIN"
    }

    fn parse((group, usage, since): (&str, &str, &str), containers: &[&str]) -> Self {
        let mut spaced = usage.replace("\\|", "|");
        for bracket in ["[", "]", "<", ">"] {
            spaced = spaced.replace(bracket, &format!(" {bracket} "));
        }
        let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
        let mut name = words.pop().expect("a name").to_owned();
        let has_subcommands = containers.contains(&name.as_str());
        if has_subcommands && words.last().is_some_and(|word| is_literal(word)) {
            name = format!("{name} {}", words.pop().expect("it was just seen"));
        }
        let arguments = sequence(&mut words, false);
        Self { name, group: group.to_owned(), since: since.to_owned(), arguments }
    }

    /// Returns sentences of the grammar, without the name: with and without each option, with each
    /// choice, and with repeatable parts zero, one and two times. The number of sentences is
    /// limited.
    pub(super) fn sentences(&self) -> Vec<Vec<Part>> {
        self.arguments.sentences()
    }

    /// Returns arguments that match the grammar.
    pub(super) fn arguments(
        &self,
        random: &mut Random,
        arguments: &mut impl Arguments,
    ) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        self.arguments.generate(random, arguments, &mut words);
        words
    }
}

fn is_literal(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '-')
}

/// Parses up to the closing bracket or the end. Within brackets a bar separates sequences; outside
/// of brackets it separates words.
fn sequence(words: &mut Vec<&str>, within: bool) -> Node {
    let mut choices = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    while let Some(word) = words.pop() {
        match word {
            "]" | ">" => break,
            "[" => {
                let inner = sequence(words, true);
                nodes.push(Node::Optional(Box::new(inner)));
            }
            "<" => {
                let inner = sequence(words, true);
                nodes.push(inner);
            }
            "..." => nodes = vec![Node::Repeated(Box::new(Node::Sequence(nodes)))],
            "|" if within => choices.push(Node::Sequence(std::mem::take(&mut nodes))),
            "|" => {
                let other = Node::Word(words.pop().expect("another word").to_owned());
                match nodes.pop() {
                    Some(Node::Choice(mut several)) => {
                        several.push(other);
                        nodes.push(Node::Choice(several));
                    }
                    Some(one) => nodes.push(Node::Choice(vec![one, other])),
                    None => panic!("a bar stands between two words"),
                }
            }
            word if is_literal(word) => nodes.push(Node::Word(word.to_owned())),
            word => nodes.push(Node::Argument(word.to_owned())),
        }
    }
    choices.push(Node::Sequence(nodes));
    if choices.len() == 1 { choices.remove(0) } else { Node::Choice(choices) }
}

impl Node {
    fn sentences(&self) -> Vec<Vec<Part>> {
        let mut all = match self {
            Node::Word(word) => vec![vec![Part::Word(word.clone())]],
            Node::Argument(kind) => vec![vec![Part::Argument(kind.clone())]],
            Node::Sequence(nodes) => nodes
                .iter()
                .fold(vec![Vec::new()], |before, node| joined(&before, &node.sentences())),
            Node::Choice(nodes) => nodes.iter().flat_map(Node::sentences).collect(),
            Node::Optional(node) => {
                let without = std::iter::once(Vec::new());
                without.chain(node.sentences()).collect()
            }
            Node::Repeated(node) => {
                let once = node.sentences();
                let without = std::iter::once(Vec::new());
                without.chain(once.clone()).chain(joined(&once, &once)).collect()
            }
        };
        all.truncate(MAX_SENTENCES);
        all
    }

    fn generate(
        &self,
        random: &mut Random,
        arguments: &mut impl Arguments,
        words: &mut Vec<Vec<u8>>,
    ) {
        match self {
            Node::Word(word) => words.push(word.clone().into_bytes()),
            Node::Argument(kind) => words.push(arguments.argument(random, kind)),
            Node::Sequence(nodes) => {
                nodes.iter().for_each(|node| node.generate(random, arguments, words));
            }
            Node::Choice(nodes) => {
                let node = random.below(nodes.len() as u64) as usize;
                nodes[node].generate(random, arguments, words);
            }
            Node::Optional(node) => {
                if random.below(2) == 0 {
                    node.generate(random, arguments, words);
                }
            }
            Node::Repeated(node) => {
                for _ in 0..random.below(4) {
                    node.generate(random, arguments, words);
                }
            }
        }
    }
}

/// Returns each sentence of `first` followed by each sentence of `second`.
fn joined(first: &[Vec<Part>], second: &[Vec<Part>]) -> Vec<Vec<Part>> {
    let with = |before: &Vec<Part>, after: &Vec<Part>| [&before[..], after].concat();
    first.iter().flat_map(|it| second.iter().map(move |after| with(it, after))).collect()
}
