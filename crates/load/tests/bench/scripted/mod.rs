//! A server whose answers to RESP requests are scripted by a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Returns the answer to a request, given its arguments. An empty answer closes the connection.
pub(crate) trait Script: Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static {}
impl<F: Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static> Script for F {}

/// Serves `script` on a free port, until the process ends.
pub(crate) fn serve(script: impl Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nodelay(true).unwrap();
            let (reader, script) = (stream.try_clone().unwrap(), Arc::clone(&script));
            thread::spawn(move || converse(reader, stream, &*script));
        }
    });
    address
}

/// Serves `script` on a Unix socket.
pub(crate) fn serve_unix(path: &Path, script: impl Script) {
    let listener = UnixListener::bind(path).unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (reader, script) = (stream.try_clone().unwrap(), Arc::clone(&script));
            thread::spawn(move || converse(reader, stream, &*script));
        }
    });
}

/// Delays an answer by `time`. Only scripts may use it: tests wait for conditions instead.
pub(crate) fn stall(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    receiver.recv_timeout(time).unwrap_err();
}

fn converse(reader: impl Read, mut writer: impl Write, script: &impl Script) {
    let mut reader = BufReader::new(reader);
    while let Some(arguments) = read_request(&mut reader) {
        let reply = script(&arguments);
        if reply.is_empty() || writer.write_all(&reply).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let count = read_number(reader, '*')?;
    (0..count).map(|_| read_bulk(reader)).collect()
}

fn read_bulk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut bytes = vec![0; read_number(reader, '$')? + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(bytes.len() - 2);
    Some(bytes)
}

fn read_number(reader: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
