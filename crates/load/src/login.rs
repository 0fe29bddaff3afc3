//! Login options of `nagi client` and `nagi storm`. Passwords are never arguments, since all users
//! of the machine can read those.

use std::path::PathBuf;

use nagi_client::cache::{RespVersion, Settings};
use nagi_client::wire::{Dialect, Login};

use crate::target;

/// The user and its password.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LoginOptions {
    /// File whose first line is the password [default, except with binary: environment variable
    /// REDISCLI_AUTH].
    #[arg(long, global = true, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// User name [default: the server's default user; with memcached's protocols: default].
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Use RESP3 (HELLO 3).
    #[arg(long, global = true)]
    pub resp3: bool,
}

impl LoginOptions {
    /// Applies the options to `settings`.
    ///
    /// # Errors
    /// The file cannot be read, or the options contradict each other.
    pub fn apply(&self, settings: &mut Settings) -> Result<(), String> {
        let is_resp = settings.dialect == Dialect::Resp;
        if self.resp3 && !is_resp {
            return Err("--resp3 needs --protocol resp".to_owned());
        }
        settings.resp = if self.resp3 { RespVersion::Three } else { RespVersion::Two };
        let password = match &self.password_file {
            // A server without SASL refuses any login, so REDISCLI_AUTH is not sent to it.
            None if settings.dialect == Dialect::Binary => None,
            file => target::read_password(file.as_deref())?,
        };
        if password.is_none() && self.user.is_some() {
            return Err("--user needs --password-file".to_owned());
        }
        let usual = (!is_resp).then(|| target::MEMCACHED_USER.to_owned());
        let user = self.user.clone().or(usual);
        settings.login = password.map(|password| Login { user, password });
        Ok(())
    }
}
