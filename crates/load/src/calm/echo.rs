//! An echo server within the tool that is never disturbed: delays of its probe come from the
//! machine or the tool, not from the server under test.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use nagi_client::Address;

/// Maximum number of bytes received at once.
const BUFFER_BYTES: usize = 4096;

/// Starts the server on a free loopback port; it runs as long as the process.
pub(crate) fn start() -> io::Result<Address> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("idle server".to_owned()).spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // If the thread cannot be started, the probe reports the closed connection as an error.
            let _ = thread::Builder::new().name("echo".to_owned()).spawn(move || echo(stream));
        }
    })?;
    Ok(address.into())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; BUFFER_BYTES];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => stream.write_all(buffer.get(..bytes).unwrap_or_default())?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
