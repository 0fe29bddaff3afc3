//! Notifies a supervisor that the server is ready: systemd through the socket in `NOTIFY_SOCKET`
//! (sd_notify(3)), upstart by stopping the process until upstart continues it.

use nagi_commands::config::SUPERVISORS;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The supervisor that has started the process and waits until it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// systemd, for a unit of `Type=notify`.
    Systemd,
    /// upstart, for a job with `expect stop`.
    Upstart,
}

/// The supervisor for a value of `supervised`, if there is one.
#[must_use]
pub fn find(supervised: u64) -> Option<Supervisor> {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    match usize::try_from(supervised).ok().and_then(|place| SUPERVISORS.get(place)) {
        Some(&"systemd") => Some(Supervisor::Systemd),
        Some(&"upstart") => Some(Supervisor::Upstart),
        Some(&"auto") if is_set("NOTIFY_SOCKET") => Some(Supervisor::Systemd),
        Some(&"auto") if is_set("UPSTART_JOB") => Some(Supervisor::Upstart),
        _ => None,
    }
}

impl Supervisor {
    /// Reports to the supervisor that the server is ready.
    ///
    /// # Errors
    /// The supervisor cannot be reached.
    pub fn report_ready(self) -> io::Result<()> {
        match self {
            Supervisor::Systemd => match std::env::var_os("NOTIFY_SOCKET") {
                Some(socket) => notify(&socket, "READY=1\nSTATUS=Ready to accept connections\n"),
                None => Err(io::Error::new(io::ErrorKind::NotFound, "NOTIFY_SOCKET is not set")),
            },
            Supervisor::Upstart => {
                let process = rustix::process::getpid();
                Ok(rustix::process::kill_process(process, rustix::process::Signal::STOP)?)
            }
        }
    }
}

/// Sends a message to a socket; the name of an abstract socket begins with `@`.
fn notify(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_arrives_by_path_and_by_abstract_name() {
        let name = format!("nagi-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let abstract_name = format!("@{name}");
        for (socket, name) in [(by_path, path.as_os_str()), (by_name, abstract_name.as_ref())] {
            notify(name, "READY=1").unwrap();
            let mut message = [0; 32];
            let length = socket.recv(&mut message).unwrap();
            assert_eq!(&message[..length], b"READY=1");
        }
        std::fs::remove_file(path).unwrap();
    }
}
