//! The user and password of a client. Passwords are never shown.

use std::fmt;

/// A server's login: an optional user, and a password.
///
/// Redis takes it with `AUTH` or `HELLO`, memcached in its binary protocol by SASL (`PLAIN`) and in
/// its text protocols as the first `set` of a connection.
///
/// ```
/// let login = nagi_client::wire::Login { user: None, password: "secret".into() };
/// assert!(!format!("{login:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user; Redis has a default user, memcached has none.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Login { user, password: _ } = self;
        out.debug_struct("Login").field("user", user).field("password", &"***").finish()
    }
}

impl Login {
    /// The user, which memcached requires; fails if the user or password contains one of
    /// `forbidden`.
    pub(super) fn named(&self, forbidden: &[char]) -> Result<&str, String> {
        let user = self.user.as_deref().ok_or("memcached needs a user name")?;
        match user.contains(forbidden) || self.password.contains(forbidden) {
            true => Err("the user name or password has a character that memcached refuses")?,
            false => Ok(user),
        }
    }
}
