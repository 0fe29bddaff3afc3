//! Converts source text to tokens, without comments and without code that is only compiled for
//! tests.

/// A word, a literal or a punctuation mark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// The number of the line on which the token begins, from 1.
    pub(crate) line: usize,
}

/// Splits `source` into tokens, without comments. `::` is one token; other marks are tokens of one
/// character.
pub(crate) fn tokenize(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (len, is_token) = match first {
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            _ if rest.starts_with("/*") => (block_comment_len(rest), false),
            _ if first.is_whitespace() => (first.len_utf8(), false),
            _ => (token_len(rest, first), true),
        };
        let (text, after) = rest.split_at(len);
        if is_token {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// Returns the length of a block comment, which may contain other block comments.
fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0;
    let mut inside = rest;
    loop {
        if let Some(after) = inside.strip_prefix("/*") {
            depth += 1;
            inside = after;
        } else if let Some(after) = inside.strip_prefix("*/") {
            depth -= 1;
            inside = after;
        } else {
            let mut characters = inside.chars();
            characters.next();
            inside = characters.as_str();
        }
        if depth == 0 || inside.is_empty() {
            return rest.len() - inside.len();
        }
    }
}

fn token_len(rest: &str, first: char) -> usize {
    if let Some(len) = string_len(rest) {
        return len;
    }
    if first == '\'' {
        return character_or_lifetime_len(rest);
    }
    if first.is_alphanumeric() || first == '_' {
        return word_len(rest);
    }
    if rest.starts_with("::") { 2 } else { first.len_utf8() }
}

fn word_len(rest: &str) -> usize {
    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
}

/// Returns the length of a string literal of any kind, if one begins here.
fn string_len(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let marks = if prefix.ends_with('r') { &['"', '#'][..] } else { &['"'][..] };
        rest.strip_prefix(prefix).is_some_and(|after| after.starts_with(marks))
    })?;
    let body = rest.get(prefix.len()..)?;
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let text = body.get(hashes..)?.strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let len = text.find(&end).map_or(text.len(), |at| at + end.len());
        return Some(prefix.len() + hashes + 1 + len);
    }
    let mut escaped = false;
    let end = body.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    Some(end.map_or(rest.len(), |at| prefix.len() + at + 2))
}

fn character_or_lifetime_len(rest: &str) -> usize {
    let mut inside = rest.chars();
    inside.next();
    let word = inside.as_str();
    match (inside.next(), inside.next()) {
        (Some('\\'), _) => {
            let end = inside.as_str().split_once('\'').map_or("", |(_, end)| end);
            rest.len() - end.len()
        }
        (Some(_), Some('\'')) => rest.len() - inside.as_str().len(),
        _ => 1 + word_len(word),
    }
}

/// Returns the tokens from index `at` on; empty beyond the end.
pub(crate) fn after<'t, 'a>(tokens: &'t [Token<'a>], at: usize) -> &'t [Token<'a>] {
    tokens.get(at..).unwrap_or_default()
}

/// Returns the text of the token at index `at`; empty beyond the end.
pub(crate) fn text_at<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// Returns `tokens` without the items, statements and fields that are only compiled for tests:
/// those with a `#[cfg(...)]` that requires `test` or `loom`.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::new();
    let mut rest = tokens;
    while let Some((first, others)) = rest.split_first() {
        let attribute = test_attribute_len(rest);
        if attribute == 0 {
            kept.push(first.clone());
            rest = others;
        } else {
            let item = after(rest, attribute);
            rest = after(item, item_len(item));
        }
    }
    kept
}

/// Returns the number of tokens of a test-only `#[cfg(...)]` that begins here; 0 if there is none.
pub(crate) fn test_attribute_len(tokens: &[Token]) -> usize {
    let is_cfg = [0, 1, 2, 3].map(|at| text_at(tokens, at)) == ["#", "[", "cfg", "("];
    if is_cfg && needs_tests(after(tokens, 4)) { 1 + group_len(after(tokens, 1)) } else { 0 }
}

/// Whether a `cfg` predicate holds in tests only.
fn needs_tests(predicate: &[Token]) -> bool {
    let Some((first, list)) = predicate.split_first() else { return false };
    match first.text {
        "test" | "loom" => true,
        "all" => operands(list).into_iter().any(needs_tests),
        "any" => operands(list).into_iter().all(needs_tests),
        _ => false,
    }
}

/// Returns the parts between the commas of a list in parentheses.
fn operands<'t, 'a>(list: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let group = list.get(..group_len(list)).unwrap_or_default();
    let [_, inside @ .., _] = group else { return Vec::new() };
    split_at_commas(inside)
}

/// Returns the parts between top-level commas, without empty ones.
pub(crate) fn split_at_commas<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns the number of tokens up to the end of the group that opens here; 1 if no group opens.
fn group_len(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// Returns the number of tokens of the item, statement, field or match arm that begins here.
fn item_len(tokens: &[Token]) -> usize {
    const ITEMS: [&str; 10] = [
        "async",
        "enum",
        "extern",
        "fn",
        "impl",
        "macro_rules",
        "mod",
        "struct",
        "trait",
        concat!("un", "safe"),
    ];
    const ENDED_BY_SEMICOLON: [&str; 5] = ["const", "let", "static", "type", "use"];
    let mut at = prefix_len(tokens);
    let keyword = text_at(tokens, at);
    let is_function = ["fn", concat!("un", "safe"), "async"].contains(&text_at(tokens, at + 1));
    let needs_semicolon = ENDED_BY_SEMICOLON.contains(&keyword) && !is_function;
    let is_item = ITEMS.contains(&keyword) || is_function || needs_semicolon;
    while at < tokens.len() {
        match text_at(tokens, at) {
            ")" | "]" | "}" => return at,
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "{" if !needs_semicolon => return at + group_len(after(tokens, at)),
            _ => at += group_len(after(tokens, at)),
        }
    }
    tokens.len()
}

/// Returns the number of tokens of the attributes and the visibility before an item.
fn prefix_len(tokens: &[Token]) -> usize {
    let mut at = 0;
    loop {
        match text_at(tokens, at) {
            "#" => at += 1 + group_len(after(tokens, at + 1)),
            "pub" if text_at(tokens, at + 1) == "(" => at += 1 + group_len(after(tokens, at + 1)),
            "pub" => at += 1,
            _ => return at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokenize(source).into_iter().map(|token| token.text).collect()
    }

    fn kept(source: &str) -> String {
        let tokens = without_tests(&tokenize(source));
        tokens.iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_no_tokens() {
        assert_eq!(texts("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(texts("//! all"), Vec::<&str>::new());
    }

    #[test]
    fn literals_are_one_token_each() {
        assert_eq!(texts(r#""a // \" b" c"#), [r#""a // \" b""#, "c"]);
        assert_eq!(texts(r##"r#"a " b"# br"c\" d"##), [r##"r#"a " b"#"##, r#"br"c\""#, "d"]);
        assert_eq!(
            texts(r"'a' '\'' '\u{1f}' b'x' 'life"),
            ["'a'", r"'\''", r"'\u{1f}'", "b", "'x'", "'life"]
        );
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let tokens = tokenize("a\n/* \n */ \"x\ny\" b");
        let lines: Vec<usize> = tokens.iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }

    #[test]
    fn code_that_only_tests_compile_is_left_out() {
        assert_eq!(kept("#[cfg(test)] mod tests { fn a() {} } fn b() {}"), "fn b ( ) { }");
        assert_eq!(kept("#[cfg(all(test, not(loom)))] mod tests; b"), "b");
        assert_eq!(kept("#[cfg(test)] #[derive(A)] pub(crate) struct S<T, U>(T, U); b"), "b");
        assert_eq!(kept("#[cfg(test)] pub use a::{b, c}; d"), "d");
        assert_eq!(kept("#[cfg(test)] const fn a() {} b"), "b");
        assert_eq!(kept("S { #[cfg(test)] a: f(b, c), d: e }"), "S { d : e }");
        assert_eq!(kept("{ a(); #[cfg(test)] b(|| { c }); d() }"), "{ a ( ) ; d ( ) }");
        assert_eq!(kept("S { a, #[cfg(test)] b: c }"), "S { a , }");
        assert_eq!(kept("S { #[cfg(test)] pub(crate) a: *const B, c: D }"), "S { c : D }");
    }

    #[test]
    fn code_that_is_also_compiled_outside_tests_is_kept() {
        assert!(kept("#[cfg(not(test))] fn a() {}").ends_with("fn a ( ) { }"));
        assert!(kept("#[cfg(any(test, unix))] fn a() {}").ends_with("fn a ( ) { }"));
        assert_eq!(kept("#[cfg(any(test, loom))] fn a() {} b"), "b");
    }
}
