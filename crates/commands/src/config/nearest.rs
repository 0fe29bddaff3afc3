//! The closest of some names, for suggestions.

/// The name with the smallest edit distance from `word`, if that is small.
#[must_use]
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let most = (word.len() / 3).max(1);
    let distances = names.map(|name| (distance(&word, name), name));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// The number of letters to insert, delete, replace or swap with their neighbour (optimal string
/// alignment).
fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let at =
                |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&row, j) + usize::from(a != b);
            let mut least = replaced.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let is_swap = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if is_swap {
                least = least.min(at(&before, j - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_found_and_an_unknown_word_is_not() {
        let names = || ["port", "bind", "maxmemory", "maxmemory-policy"].into_iter();
        for (word, meant) in [
            ("prot", Some("port")),
            ("PORT", Some("port")),
            ("por", Some("port")),
            ("max-memory", Some("maxmemory")),
            ("maxmemory-polcy", Some("maxmemory-policy")),
            ("x", None),
            ("something", None),
        ] {
            assert_eq!(nearest(word, names()), meant, "{word}");
        }
    }
}
