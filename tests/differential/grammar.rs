//! What `docs/commands.md`, which is made from the rows, says of the arguments of each command; and
//! sentences of that grammar.

use harness::Random;

/// A command with the grammar of its arguments.
pub(super) struct Rule {
    /// One word, or two for a subcommand.
    pub(super) name: String,
    arguments: Node,
}

enum Node {
    /// Written as it is.
    Word(String),
    /// Stands for an argument of this kind.
    Argument(String),
    /// One behind the other.
    Sequence(Vec<Node>),
    /// One of several.
    Choice(Vec<Node>),
    /// This, or not.
    Optional(Box<Node>),
    /// This, any number of times.
    Repeated(Box<Node>),
}

impl Rule {
    /// The rules of all commands under these headings.
    pub(super) fn all(headings: &[&str]) -> Vec<Self> {
        let page = include_str!("../../docs/commands.md");
        let sections = page.split("\n### ").flat_map(|part| part.split("\n## "));
        let meant = sections.filter(|section| {
            section.lines().next().is_some_and(|heading| headings.contains(&heading))
        });
        let rows =
            meant.flat_map(|section| section.lines().filter_map(|it| it.strip_prefix("| `")));
        rows.filter_map(|row| row.split_once('`')).map(|(usage, _)| Self::parse(usage)).collect()
    }

    fn parse(usage: &str) -> Self {
        let spaced = usage.replace("\\|", "|").replace('[', " [ ").replace(']', " ] ");
        let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
        let mut name = words.pop().expect("a name").to_owned();
        // The second word of `OBJECT ENCODING key`, but not that of `BITOP AND | OR ...`.
        let has_subcommands = ["OBJECT", "COMMAND", "CONFIG", "CLIENT"].contains(&name.as_str());
        if has_subcommands && words.last().is_some_and(|word| is_literal(word)) {
            name = format!("{name} {}", words.pop().expect("it was just seen"));
        }
        Self { name, arguments: sequence(&mut words, false) }
    }

    /// Arguments that fit the grammar, those of each kind made by `argument`.
    pub(super) fn arguments(
        &self,
        random: &mut Random,
        argument: &mut impl FnMut(&mut Random, &str) -> String,
    ) -> Vec<String> {
        let mut words = Vec::new();
        self.arguments.generate(random, argument, &mut words);
        words
    }
}

fn is_literal(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_uppercase())
}

/// Reads up to the closing bracket or the end. Within brackets a bar stands between sequences,
/// outside between words.
fn sequence(words: &mut Vec<&str>, within: bool) -> Node {
    let mut choices = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    while let Some(word) = words.pop() {
        match word {
            "]" => break,
            "[" => nodes.push(sequence(words, true)),
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
    let node = if choices.len() == 1 { choices.remove(0) } else { Node::Choice(choices) };
    if within { Node::Optional(Box::new(node)) } else { node }
}

impl Node {
    fn generate(
        &self,
        random: &mut Random,
        argument: &mut impl FnMut(&mut Random, &str) -> String,
        words: &mut Vec<String>,
    ) {
        match self {
            Node::Word(word) => words.push(word.clone()),
            Node::Argument(kind) => words.push(argument(random, kind)),
            Node::Sequence(nodes) => {
                nodes.iter().for_each(|node| node.generate(random, argument, words));
            }
            Node::Choice(nodes) => {
                let node = random.below(nodes.len() as u64) as usize;
                nodes[node].generate(random, argument, words);
            }
            Node::Optional(node) => {
                if random.below(2) == 0 {
                    node.generate(random, argument, words);
                }
            }
            Node::Repeated(node) => {
                for _ in 0..random.below(4) {
                    node.generate(random, argument, words);
                }
            }
        }
    }
}
