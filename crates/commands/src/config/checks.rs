//! Checks of settings with special syntax. Each returns the value as CONFIG GET shows it; the rules
//! and error texts are those of Redis.

use super::kinds::{Fault, Letters, Lines, integer};
use super::{networks, title};
use crate::state::notifications::EventClasses;

/// `notify-keyspace-events`: letters, each a class of events.
pub(super) static EVENT_CLASSES: Letters = Letters {
    parse: |given| {
        let classes = EventClasses::of_letters(given);
        let classes = classes.ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
        Ok(classes.bits().into())
    },
    show: |bits| {
        EventClasses::from_bits_truncate(u32::try_from(bits).unwrap_or_default()).letters()
    },
};

/// `hz`: values out of range are clamped.
pub(super) fn frequency(given: &str) -> Result<String, Fault> {
    let number = integer(given, &(0..=i32::MAX.into()))?;
    Ok(number.clamp(1, 500).to_string())
}

/// `oom-score-adj-values`; later lines replace earlier ones.
pub(super) static SCORES: Lines =
    Lines { add: |_, given, _| scores(given), words_a_line: usize::MAX };

/// `http-trusted-proxies`; later lines replace earlier ones.
pub(super) static NETWORKS: Lines =
    Lines { add: |_, given, _| networks::check(given), words_a_line: usize::MAX };

/// Three numbers of `oom-score-adj-values`.
fn scores(given: &str) -> Result<String, Fault> {
    let words: Vec<&str> = given.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let is_score =
        |word: &&str| word.parse::<i32>().is_ok_and(|score| (-2000..=2000).contains(&score));
    if !words.iter().all(is_score) {
        return Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into());
    }
    Ok(words.join(" "))
}

/// `proc-title-template`.
pub(super) fn title(given: &str) -> Result<String, Fault> {
    match title::is_template(given) {
        true => Ok(given.to_owned()),
        false => Err("template format is invalid or contains unknown variables".into()),
    }
}

/// `cluster-announce-hostname`: a host name.
pub(super) fn host_name(given: &str) -> Result<String, Fault> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    if given.len() >= 256 {
        return Err("Hostnames must be less than 256 characters".into());
    }
    if !given.chars().all(fits) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into());
    }
    Ok(given.to_owned())
}

/// `cluster-announce-human-nodename`: a name without characters that separate fields.
pub(super) fn node_name(given: &str) -> Result<String, Fault> {
    if given.chars().any(|letter| "!#$%&()*+:;<>?@[]^{|}~ ".contains(letter)) {
        return Err("Announced human node name contained invalid character".into());
    }
    Ok(given.to_owned())
}

/// `dbfilename`: the name of a file in `dir`.
pub(super) fn file_name(given: &str) -> Result<String, Fault> {
    if given.contains('/') {
        return Err("dbfilename can't be a path, just a filename".into());
    }
    Ok(given.to_owned())
}

/// `locale-collate`: a possible name of a locale.
pub(super) fn locale(given: &str) -> Result<String, Fault> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.@".contains(letter);
    let begins_well = given.is_empty() || given.starts_with(|it: char| it.is_ascii_alphabetic());
    if !begins_well || !given.chars().all(fits) {
        return Err("Invalid locale name".into());
    }
    Ok(given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(check: fn(&str) -> Result<String, Fault>, values: &[&str]) {
        for value in values {
            assert!(check(value).is_err(), "{value}");
        }
    }

    #[test]
    fn values_are_normalized_or_refused() {
        assert_eq!(scores(" 0  -1 5 ").as_deref(), Ok("0 -1 5"));
        assert_eq!(frequency("0").as_deref(), Ok("1"));
        assert_eq!(frequency("2147483647").as_deref(), Ok("500"));
        refused(frequency, &["", "-1", "2147483648"]);
        refused(scores, &["", "1 2", "a b c", "1 2 3000", "1 2 3 4"]);
        assert_eq!(host_name("a-1.example").as_deref(), Ok("a-1.example"));
        refused(host_name, &["a_b", "é", &"a".repeat(256)]);
        refused(node_name, &["a?b", "a b", "{x}"]);
        refused(file_name, &["a/b", "/"]);
        assert_eq!(locale("de_DE.UTF-8@euro").as_deref(), Ok("de_DE.UTF-8@euro"));
        refused(locale, &["1", "a b", "x\n"]);
    }
}
