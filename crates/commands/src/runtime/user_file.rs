//! Loads users at startup: from lines of the configuration, or from the ACL file.

use crate::config::{Config, replace};
use crate::error::Error;
use crate::runtime::context::CommandTable;
use crate::state::users::{Acl, DEFAULT_USER, User, Users, UsersByName};
use std::sync::Arc;

const NO_FILE: Error = Error::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
     via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
     configuration file set) in order to store users in the Redis configuration.",
);

/// Loads the users at startup from the configuration or from the ACL file.
///
/// # Errors
/// The invalid lines, or the reason why the file cannot be read.
pub fn load_at_start(config: &Config, table: &'static CommandTable) -> Result<(), String> {
    let lines = config.take_user_lines();
    let has_file = !config.aclfile.get().is_empty();
    if has_file && !lines.is_empty() {
        let fault = "users are either in lines of the configuration or in aclfile, not in both";
        return Err(fault.to_owned());
    }
    let users = if has_file {
        read(config, table).map_err(|error| {
            let text = String::from_utf8_lossy(&error.0).into_owned();
            text.strip_prefix("ERR ").map_or(text.clone(), str::to_owned)
        })?
    } else if lines.is_empty() {
        return Ok(());
    } else {
        let acl = Acl::new(table, config.acl_pubsub_default.is_on());
        let mut users = Users::read(&acl, lines.into_iter()).map_err(|faults| faults.join("; "))?;
        // The effect of requirepass stays unless a line overrides it.
        let default = config.users().get(DEFAULT_USER).unwrap_or_default();
        users.entry(DEFAULT_USER.into()).or_insert(default);
        users
    };
    config.users().change(|known| *known = users);
    Ok(())
}

/// Reads the ACL file (`aclfile`).
///
/// # Errors
/// No file is configured, it cannot be read, or some lines are invalid; all of these are listed.
pub(crate) fn read(config: &Config, table: &'static CommandTable) -> Result<UsersByName, Error> {
    let path = config.aclfile.get();
    if path.is_empty() {
        return Err(NO_FILE);
    }
    let text = std::fs::read(&*path).map_err(|error| {
        Error::new(format!("ERR Error loading ACLs, opening file '{path}': {error}"))
    })?;
    let acl = Acl::new(table, config.acl_pubsub_default.is_on());
    parse(&text, &path, &acl)
}

/// Parses the text of the ACL file at this path.
///
/// # Errors
/// Some lines are invalid; all of them are listed.
pub(crate) fn parse<H>(text: &[u8], path: &str, acl: &Acl<'_, H>) -> Result<UsersByName, Error> {
    let lines = (1..).zip(text.split(|byte| *byte == b'\n'));
    // The format has no comments, since ACL SAVE would remove them.
    let lines = lines.map(|(number, line)| (format!("{path}:{number}"), line.trim_ascii()));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let words = |line: &[u8]| {
        // The second word is the user's name, which may be empty; the following words are rules.
        let words = line.split(|byte| *byte == b' ').enumerate();
        let words = words.filter(|(place, word)| *place == 1 || !word.is_empty());
        words.map(|(_, word)| word.to_vec()).collect::<Vec<_>>()
    };
    let users = Users::read(acl, lines.map(|(place, line)| (place, words(line))));
    let mut users = users.map_err(|faults| {
        Error::new(format!(
            "ERR {}. WARNING: ACL errors detected, no change to the previously active ACL rules \
             was performed",
            faults.join(". ")
        ))
    })?;
    users.entry(DEFAULT_USER.into()).or_insert_with(|| Arc::new(User::unlimited()));
    Ok(users)
}

/// Writes all users to the ACL file, atomically.
///
/// # Errors
/// No file is configured, or it cannot be written.
pub(crate) fn write(config: &Config) -> Result<(), Error> {
    let path = config.aclfile.get();
    if path.is_empty() {
        return Err(NO_FILE);
    }
    let _writing = config.writing();
    let text = text(&config.users().all());
    replace(path.as_ref().as_ref(), &text).map_err(|error| {
        Error::new(format!("ERR There was an error trying to save the ACLs to '{path}': {error}"))
    })
}

/// The text of an ACL file with these users.
pub(crate) fn text(users: &UsersByName) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, user) in users {
        text.extend(user.line(name));
        text.push(b'\n');
    }
    text
}
