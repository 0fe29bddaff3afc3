//! The users of memcached's protocols, if a file lists them (`memcached-auth-file`).
//!
//! The file is that of memcached's `-Y`: a line for each user, its name and its password with a
//! colon between them; a colon at the end of the line, as in the files of `-S`, is not part of
//! the password.

use crate::secret::is_same;
use std::fmt;
use std::path::{Path, PathBuf};

/// Users and their passwords.
pub struct Users(Vec<[String; 2]>);

/// The fault of a file of users.
#[derive(Debug)]
pub enum UsersError {
    /// It cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// This line, counted from 1, has no name or no password.
    Malformed(PathBuf, usize),
    /// It has no user.
    Empty(PathBuf),
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsersError::Unreadable(path, error) => {
                write!(f, "file of memcached users {}: {error}", path.display())
            }
            UsersError::Malformed(path, line) => write!(
                f,
                "file of memcached users {}, line {line}: expected USER:PASSWORD",
                path.display()
            ),
            UsersError::Empty(path) => {
                write!(f, "file of memcached users {} names no user", path.display())
            }
        }
    }
}

impl std::error::Error for UsersError {}

impl Users {
    /// Reads a file of users.
    ///
    /// # Errors
    /// The fault of the file.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| UsersError::Unreadable(path.to_owned(), error))?;
        let mut users = Vec::new();
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.is_empty()) {
            let (name, password) = text
                .split_once(':')
                .map(|(name, password)| (name, password.strip_suffix(':').unwrap_or(password)))
                .filter(|(name, password)| !name.is_empty() && !password.is_empty())
                .ok_or_else(|| UsersError::Malformed(path.to_owned(), line))?;
            users.push([name.to_owned(), password.to_owned()]);
        }
        if users.is_empty() { Err(UsersError::Empty(path.to_owned())) } else { Ok(Users(users)) }
    }

    /// Whether there is a user with this name and password. All are compared, so that the time does
    /// not reveal which users exist.
    pub(crate) fn has(&self, name: &[u8], password: &[u8]) -> bool {
        let is_one = |[user, secret]: &[String; 2]| {
            is_same(user.as_bytes(), name) & is_same(secret.as_bytes(), password)
        };
        self.0.iter().fold(false, |found, user| found | is_one(user))
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} users", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::client::Restrictions;
    use crate::testing::Bench;

    fn read(text: &str) -> Result<Users, String> {
        let name = format!("nagi-users-{}-{}", std::process::id(), text.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let users = Users::read(&path)
            .map_err(|error| error.to_string().replace(&*path.to_string_lossy(), "FILE"));
        std::fs::remove_file(&path).unwrap();
        users
    }

    #[test]
    fn each_line_is_a_user_and_malformed_lines_are_refused() {
        let users = read("ann:a:b\n\nbob:secret:\n").unwrap();
        assert!(users.has(b"ann", b"a:b") && users.has(b"bob", b"secret"));
        for (name, password) in [("ann", "secret"), ("bob", "secret:"), ("", ""), ("ann", "")] {
            assert!(!users.has(name.as_bytes(), password.as_bytes()), "{name} {password}");
        }
        for (text, fault) in [
            ("", " names no user"),
            ("ann:a\nbob\n", ", line 2: expected USER:PASSWORD"),
            (":secret", ", line 1: expected USER:PASSWORD"),
            ("ann:", ", line 1: expected USER:PASSWORD"),
        ] {
            assert_eq!(read(text).unwrap_err(), format!("file of memcached users FILE{fault}"));
        }
        assert!(Users::read(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn only_users_of_the_file_log_in_where_there_is_one() {
        let mut bench = Bench::new();
        bench.process.config.set_memcached_users(read("ann:secret\n").unwrap());
        bench.memcached.restrictions = Restrictions::NO_USER_OF_MEMCACHED;
        bench.expect("GET key", "$-1|");
        bench.expect_memcached("get key", "CLIENT_ERROR unauthenticated|");
        let wrong = "CLIENT_ERROR authentication failure|";
        bench.expect_memcached("set k 0 0 9|ann wrong", wrong);
        bench.expect_memcached("set k 0 0 14|default secret", wrong);
        bench.expect_memcached("set k 0 0 10|ann secret", "STORED|");
        bench.expect_memcached("get key", "END|");
    }
}
