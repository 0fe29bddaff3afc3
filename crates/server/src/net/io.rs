//! The choice of the I/O driver.

use crate::net::uring;
use nagi_commands::Config;
use std::io;

/// The kernel interface that a driver uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    Epoll,
    Uring,
}

impl Io {
    /// Chooses the driver that the settings ask for: by default io_uring where it works, otherwise
    /// epoll.
    ///
    /// # Errors
    /// The reason why io_uring does not work, if the settings require io_uring.
    pub(crate) fn choose(config: &Config) -> io::Result<Self> {
        match config.io() {
            "epoll" => Ok(Io::Epoll),
            "uring" => uring::check_kernel().map(|()| Io::Uring).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("io_uring cannot be used (--io uring): {error}"),
                )
            }),
            _ => Ok(uring::check_kernel().map_or_else(
                |error| {
                    tracing::info!(%error, "io_uring is not available; using epoll");
                    Io::Epoll
                },
                |()| Io::Uring,
            )),
        }
    }

    /// The driver's name, as INFO shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Io::Epoll => "epoll",
            Io::Uring => "io_uring",
        }
    }
}
