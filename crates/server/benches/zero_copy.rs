//! Measures whether io_uring's zero-copy sends would serve large replies better: the processor time
//! to send a gigabyte from chunks that stay in place, eight at a time as the driver sends them, by
//! `IORING_OP_SENDMSG` and by `IORING_OP_SENDMSG_ZC`. `cargo bench -p nagi-server` prints it with
//! the number of sends that the kernel copied anyway, as it does over loopback. With an address
//! (`-- 10.0.0.2:5001`) it sends there, to a program that reads and discards, as `socat -u
//! TCP-LISTEN:5001,fork,reuseaddr /dev/null` does.

use io_uring::{IoUring, cqueue, opcode, types};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Instant;

const CHUNK_BYTES: usize = 64 * 1024;
const SLICES: usize = 8;
const TOTAL_BYTES: usize = 1 << 30;
/// Number of rounds, each of which measures both kinds of send.
const ROUNDS: usize = 5;

/// Makes the notification of a send report whether the kernel copied
/// (`IORING_SEND_ZC_REPORT_USAGE`), and the bit that reports it (`IORING_NOTIF_USAGE_ZC_COPIED`):
/// `io_uring_enter(2)`.
const REPORT_USAGE: u16 = 1 << 3;
const COPIED: u32 = 1 << 31;

fn main() -> io::Result<()> {
    let address = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut times_ms = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (zero_copy, all) in [false, true].into_iter().zip(&mut times_ms) {
            let socket = match &address {
                Some(address) => TcpStream::connect(address)?,
                None => connect_reader()?,
            };
            all.push(send_all(&socket, zero_copy)?);
        }
    }
    for (name, mut all) in ["SENDMSG", "SENDMSG_ZC"].into_iter().zip(times_ms) {
        all.sort_by(|one, other| one.cpu_ms.total_cmp(&other.cpu_ms));
        let Sent { cpu_ms, wall_ms, sends, copied, .. } = all.swap_remove(all.len() / 2);
        println!(
            "{name:<12}{cpu_ms:>7.0} ms of processor time a GB, {wall_ms:.0} ms by the clock; \
             {copied} of {sends} sends say that they were copied"
        );
    }
    Ok(())
}

/// A connection to a thread that reads and discards.
fn connect_reader() -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    let mut reader = listener.accept()?.0;
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while reader.read(&mut buffer).is_ok_and(|len| len > 0) {}
    });
    Ok(socket)
}

/// The cost of sending.
#[derive(Default)]
struct Sent {
    /// Processor time of the whole process with the reader, since softirqs run on any thread.
    cpu_ms: f64,
    wall_ms: f64,
    sends: usize,
    copied: usize,
    /// Sends whose memory the kernel still refers to.
    referred: usize,
}

/// Sends a gigabyte.
fn send_all(socket: &TcpStream, zero_copy: bool) -> io::Result<Sent> {
    let mut ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8)?;
    let chunks: Vec<Vec<u8>> = (0..SLICES).map(|_| vec![7; CHUNK_BYTES]).collect();
    let slices: Vec<IoSlice<'_>> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
    let header = libc::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: slices.as_ptr().cast_mut().cast(),
        msg_iovlen: slices.len(),
        msg_control: std::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    let socket = types::Fd(socket.as_raw_fd());
    let entry = match zero_copy {
        true => opcode::SendMsgZc::new(socket, &raw const header).ioprio(REPORT_USAGE).build(),
        false => opcode::SendMsg::new(socket, &raw const header).build(),
    };
    let (began, cpu_began) = (Instant::now(), cpu_ms());
    let (mut left, mut sent) = (TOTAL_BYTES, Sent::default());
    while left > 0 {
        // SAFETY: this function returns only when the kernel no longer refers to its memory, or
        // with an error that ends the process.
        unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
        let taken = loop {
            if let Some(taken) = collect(&mut ring, &mut sent)? {
                break taken;
            }
        };
        left = left.saturating_sub(taken);
    }
    while sent.referred > 0 {
        collect(&mut ring, &mut sent)?;
    }
    (sent.cpu_ms, sent.wall_ms) = (cpu_ms() - cpu_began, began.elapsed().as_secs_f64() * 1e3);
    Ok(sent)
}

/// Waits for completions. Returns the bytes that a send has taken, if one has completed.
fn collect(ring: &mut IoUring, sent: &mut Sent) -> io::Result<Option<usize>> {
    ring.submit_and_wait(1)?;
    let mut taken = None;
    for completion in ring.completion() {
        if cqueue::notif(completion.flags()) {
            sent.referred -= 1;
            sent.copied += usize::from(completion.result() as u32 & COPIED != 0);
        } else {
            sent.referred += usize::from(cqueue::more(completion.flags()));
            sent.sends += 1;
            match usize::try_from(completion.result()) {
                Ok(bytes @ 1..) => taken = Some(bytes),
                _ => return Err(io::Error::from_raw_os_error(-completion.result())),
            }
        }
    }
    Ok(taken)
}

/// Processor time of this process.
fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
