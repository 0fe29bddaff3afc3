//! Decides whether a client may run a command: before it has logged in, by the permissions of its
//! user, on a connection reserved for administrators, and with subscriptions in RESP2. Sessions of
//! other protocols use [`is_login`].

use crate::config::Number;
use crate::runtime::rights;
pub use crate::state::client::Restrictions;
pub(crate) use crate::state::users::DEFAULT_USER;
use crate::{Client, Config, Context, Entry, Error, Flags};
use nagi_proto::Args;

const NOAUTH: Error = Error::fixed("NOAUTH Authentication required.");
pub(crate) const WRONGPASS: Error =
    Error::fixed("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD: Error = Error::fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);

const TOO_MANY: Error = Error::fixed("ERR max number of clients reached");

/// Whether clients have to log in.
#[must_use]
pub fn is_password_required(config: &Config) -> bool {
    !config.users().is_open()
}

/// The restrictions of a client that has just connected, or, after RESET, those of a client that
/// had the restrictions `present`.
#[must_use]
pub fn restrictions(config: &Config, present: Restrictions) -> Restrictions {
    let mut restrictions = present;
    restrictions.set(Restrictions::NOT_LOGGED_IN, is_password_required(config));
    restrictions
}

/// Whether clients of memcached's protocols have to log in.
#[must_use]
pub fn is_memcached_login_required(config: &Config) -> bool {
    config.has_memcached_users() || is_password_required(config)
}

/// The restrictions of a client of memcached's protocols that has just connected.
#[must_use]
pub fn memcached_restrictions(config: &Config) -> Restrictions {
    match config.has_memcached_users() {
        true => Restrictions::NO_USER_OF_MEMCACHED,
        false => restrictions(config, Restrictions::empty()),
    }
}

/// Logs a client of memcached's protocols in, as one of the file's users, or as the default user
/// if there is no file. Returns whether there is such a user with such a password.
pub(crate) fn log_in_to_memcached(
    client: &mut Client,
    config: &Config,
    user: &[u8],
    password: &[u8],
) -> bool {
    // The users of the file have the permissions of the default user.
    let (is_right, user) = match config.memcached_users() {
        Some(users) => (users.has(user, password), DEFAULT_USER),
        None => (config.users().is_login(user, password), user),
    };
    // The user may have been removed meanwhile.
    let is_logged_in = is_right && client.log_in(config.users(), user);
    if is_logged_in {
        client
            .restrictions
            .remove(Restrictions::NOT_LOGGED_IN | Restrictions::NO_USER_OF_MEMCACHED);
    }
    is_logged_in
}

/// Revokes the login of a client of memcached's protocols, if a login is required.
pub(crate) fn log_out_of_memcached(client: &mut Client, config: &Config) {
    client.restrictions |= memcached_restrictions(config);
}

/// Whether a user with this password exists and may log in. An empty name is the default user; a
/// user without a password accepts any.
#[must_use]
pub fn is_login(config: &Config, user: &[u8], password: &[u8]) -> bool {
    let user = if user.is_empty() { DEFAULT_USER } else { user };
    config.users().is_login(user, password)
}

/// Logs a client in, as the default user if no user is given.
pub(crate) fn log_in(
    client: &mut Client,
    config: &Config,
    user: Option<&[u8]>,
    password: &[u8],
) -> Result<(), Error> {
    if user.is_none() && !is_password_required(config) {
        return Err(NO_PASSWORD);
    }
    let name = user.unwrap_or(DEFAULT_USER);
    // The user may be removed after its password was checked.
    if !config.users().is_login(name, password) || !client.log_in(config.users(), name) {
        return Err(WRONGPASS);
    }
    client.restrictions.remove(Restrictions::NOT_LOGGED_IN);
    Ok(())
}

/// Logs a client in without an AUTH or HELLO request, as a user with this name; an empty name is
/// the default user. If the user was removed meanwhile, the connection is closed.
pub fn log_in_as(client: &mut Client, config: &Config, user: &[u8]) {
    let user = if user.is_empty() { DEFAULT_USER } else { user };
    if !client.become_user(config.users(), user) {
        client.quit();
    }
    client.restrictions.remove(Restrictions::NOT_LOGGED_IN);
}

/// Whether a client must log in before any other request.
#[must_use]
pub fn must_log_in(client: &Client, config: &Config) -> bool {
    let restrictions = client.restrictions;
    restrictions.contains(Restrictions::NO_USER_OF_MEMCACHED)
        || restrictions.contains(Restrictions::NOT_LOGGED_IN) && is_password_required(config)
}

/// Whether a restricted client may run this command. On an administrator's connection, any other
/// command gets the error of a refused connection and closes it.
#[cold]
pub(crate) fn check(cx: &mut Context<'_>, entry: &Entry, args: Args<'_>) -> Result<(), Error> {
    let is_login = entry.command.flags.contains(Flags::NO_AUTH);
    if !is_login && must_log_in(cx.client, cx.server.config()) {
        return Err(NOAUTH);
    }
    rights::check(cx, entry, args)?;
    let is_for_subscribers = Flags::WHILE_SUBSCRIBED | Flags::MESSAGES;
    if cx.client.receives_messages_only() && !entry.command.flags.intersects(is_for_subscribers) {
        return Err(Error::new(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            entry.full_name
        )));
    }
    if cx.client.restrictions.contains(Restrictions::ADMINISTRATES) && !administrates(entry) {
        cx.client.closing = true;
        cx.tally.refused_connections.add(1);
        return Err(TOO_MANY);
    }
    Ok(())
}

/// Whether a client may use a feature whose setting is `no`, `yes` or `local`: no client, all, or
/// those on this machine.
#[must_use]
pub(crate) fn is_permitted(setting: &Number, client: &Client) -> bool {
    /// The indices of `yes` and `local` among the words.
    const YES: u64 = 1;
    const LOCAL: u64 = 2;
    match setting.get() {
        YES => true,
        LOCAL => client.info.is_local(),
        _ => false,
    }
}

/// Whether a command monitors or administers the server, or identifies a client. Such commands are
/// not flagged as fast, in contrast to PING and SELECT, which ordinary clients send first.
fn administrates(entry: &Entry) -> bool {
    let flags = entry.command.flags;
    flags.contains(Flags::NO_AUTH)
        || flags.contains(Flags::ADMIN)
        || !flags.intersects(Flags::FAST | Flags::READONLY | Flags::WRITE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;
    use crate::testing::Bench;

    #[test]
    fn only_the_exact_password_logs_in() {
        let config = Config::default();
        assert!(is_login(&config, b"", b"") && is_login(&config, b"", b"anything"));
        assert!(!is_login(&config, b"other", b"anything"));
        config.set("requirepass", "sesame", Origin::Startup).unwrap();
        assert!(is_login(&config, b"", b"sesame"));
        for wrong in ["", "s", "sesam", "sesame ", "sesamesesame", "Sesame", "sesamE"] {
            assert!(!is_login(&config, b"", wrong.as_bytes()), "{wrong}");
        }
        assert!(is_login(&config, b"default", b"sesame"));
        assert!(!is_login(&config, b"Default", b"sesame"));
    }

    #[test]
    fn only_logins_are_answered_before_authentication() {
        let mut bench = Bench::new();
        bench.expect("CONFIG SET requirepass sesame", "+OK|");
        bench.expect("GET key", "$-1|");
        bench.client.restrictions = Restrictions::NOT_LOGGED_IN;
        let noauth = "-NOAUTH Authentication required.|";
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.|";
        for (request, reply) in [
            ("GET key", noauth),
            ("PING", noauth),
            ("COMMAND COUNT", noauth),
            ("NONSENSE", "-ERR unknown command 'NONSENSE', with args beginning with: |"),
            ("GET", "-ERR wrong number of arguments for 'get' command|"),
            ("AUTH", "-ERR wrong number of arguments for 'auth' command|"),
            ("AUTH open", wrong),
            ("AUTH other sesame", wrong),
            ("HELLO 3 AUTH default open", wrong),
            (
                "HELLO 3",
                "-NOAUTH HELLO must be called with the client already authenticated, otherwise \
                 the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                 client and select the RESP protocol version at the same time|",
            ),
            ("GET key", noauth),
            ("AUTH sesame", "+OK|"),
            ("GET key", "$-1|"),
            ("AUTH open", wrong),
            ("GET key", "$-1|"),
            ("RESET", "+RESET|"),
            ("GET key", noauth),
            ("AUTH default sesame", "+OK|"),
            ("CONFIG SET requirepass \"\"", "+OK|"),
            ("RESET", "+RESET|"),
            ("GET key", "$-1|"),
        ] {
            bench.expect(request, reply);
        }
    }

    #[test]
    fn memcached_clients_log_in_by_a_set() {
        let mut bench = Bench::new();
        bench.expect("SET key value", "+OK|");
        bench.expect("CONFIG SET requirepass sesame", "+OK|");
        bench.memcached.restrictions = Restrictions::NOT_LOGGED_IN;
        let unauthenticated = "CLIENT_ERROR unauthenticated|";
        for (request, reply) in [
            ("get key", unauthenticated),
            ("version", unauthenticated),
            ("nonsense", unauthenticated),
            ("delete key", unauthenticated),
            ("set key 0 0 12|default open", "CLIENT_ERROR authentication failure|"),
            ("set key 0 0 6|sesame", "CLIENT_ERROR bad authentication token format|"),
            ("add key 0 0 14|default sesame", unauthenticated),
            ("set any 0 0 14|default sesame", "STORED|"),
            ("get any", "END|"),
            ("get key", "VALUE key 0 5|value|END|"),
        ] {
            bench.expect_memcached(request, reply);
        }
    }
}
