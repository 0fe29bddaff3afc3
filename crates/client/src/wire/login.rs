//! The user and password of a client. Debug output never contains the password.

use std::fmt;

/// A server's login: an optional user, and a password.
///
/// Redis receives it by `AUTH` or `HELLO`, memcached by SASL (`PLAIN`) in the binary protocol, and
/// as the first `set` of a connection in the text protocols.
///
/// ```
/// let login = nagi_client::wire::Login { user: None, password: "secret".into() };
/// assert!(!format!("{login:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user. With `None`, Redis uses its default user; memcached requires a user.
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
    /// Returns the user, which memcached requires. Fails if the user or the password contains one
    /// of the `forbidden` characters.
    pub(super) fn named(&self, forbidden: &[char]) -> Result<&str, String> {
        let user = self.user.as_deref().ok_or("memcached needs a user name")?;
        match user.contains(forbidden) || self.password.contains(forbidden) {
            true => Err("the user name or password has a character that memcached refuses")?,
            false => Ok(user),
        }
    }
}
