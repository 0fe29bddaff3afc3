//! State shared with the kernel: the two queues, and the memory that operations in flight refer to.
//! The ring owns that memory for as long as the kernel may access it, so that no code outside this
//! file has to ensure that addresses stay valid.
//!
//! Sends use `MSG_DONTWAIT | MSG_WAITALL` and suppress the completion on success. Each send has
//! ended when the submission returns, and has a completion only if it did not send everything. This
//! is not documented, so [`check_kernel`] tests it.

use crate::net::driver::Token;
use crate::net::outgoing::taken_bytes;
use crate::net::receive_buffer::{BUFFER_CHUNKS, ReceiveBuffer};
use crate::net::sockets::Moved;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use nagi_proto::Output;
use nagi_store::accounting::{self, Overhead};
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Maximum operations queued before they are submitted.
const SUBMISSIONS: u32 = 512;
/// Maximum queued sends of several slices.
const MESSAGES: usize = SUBMISSIONS as usize;
/// Capacity that a list of sends retains: a message to all clients may have made it much longer.
const KEPT_SENDS: usize = 1024;
/// Capacity of the completion queue; the kernel keeps more completions itself, at some cost.
const COMPLETIONS: u32 = 4096;
/// Initial and maximum number of provided buffers, and the size of each. The kernel cycles through
/// all of them, so that the maximum would take its full memory even for one client.
const FIRST_BUFFERS: u16 = 8;
const BUFFERS: u16 = 128;
const BUFFER_BYTES: usize = 16 * 1024;
/// The ID of the group of provided buffers.
const GROUP: u16 = 0;
/// Maximum slices of one send: some 100 microseconds of a large value.
const SLICES: usize = 8;
const _: () = assert!(SLICES >= BUFFER_CHUNKS, "a message has place for a buffer's chunks");
/// More than a socket has room for, to test a partial send.
const PROBE_BYTES: usize = 1 << 20;
/// How long to wait before repeating a submission that the kernel had no memory for.
const NO_MEMORY_PAUSE: Duration = Duration::from_millis(1);
/// The flag of `io_uring_enter` that runs deferred work (`IORING_ENTER_GETEVENTS`).
const GET_EVENTS: u32 = 1;
/// The flag for extended arguments (`IORING_ENTER_EXT_ARG`).
const MORE_ARGUMENTS: u32 = 1 << 3;
/// The flag that keeps waits out of the iowait statistics (`IORING_ENTER_NO_IOWAIT`), from Linux
/// 6.15 on. Without it, an idle server appears to wait for a disk.
const NO_IOWAIT: u32 = 1 << 7;

/// The kind of an operation, in the upper bits of its user data, which its completion carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    Receive = 0,
    Writable = 1,
    Accept = 2,
    Wake = 3,
    Send = 4,
    ReceiveInto = 5,
    /// The cancellation of an operation. It has a completion only if the operation was not found.
    Cancel = 6,
    /// An operation whose completion is ignored.
    Other = 7,
}

const KIND_SHIFT: u32 = 60;

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Receive,
        Kind::Writable,
        Kind::Accept,
        Kind::Wake,
        Kind::Send,
        Kind::ReceiveInto,
        Kind::Cancel,
        Kind::Other,
    ];

    fn with(self, data: u64) -> u64 {
        (self as u64) << KIND_SHIFT | data
    }

    fn of(user_data: u64) -> (Kind, u64) {
        let kind = Kind::ALL.get((user_data >> KIND_SHIFT) as usize).copied();
        (kind.unwrap_or(Kind::Other), user_data & ((1 << KIND_SHIFT) - 1))
    }
}

/// What the kernel has reported.
#[derive(Debug)]
pub(super) enum Event {
    /// A client has connected to a listener, or cannot be accepted.
    Accepted {
        listener: usize,
        socket: Result<OwnedFd, Errno>,
        /// Whether the accept operation continues.
        more: bool,
    },
    /// Bytes have arrived, or none will.
    Received {
        token: Token,
        bytes: Result<usize, Errno>,
        /// The provided buffer with the bytes, which must be returned to the ring.
        buffer: Option<u16>,
        more: bool,
    },
    /// A lent buffer is returned.
    ReceivedInto { token: Token, buffer: ReceiveBuffer, bytes: Result<usize, Errno> },
    /// A full socket has room again.
    Writable { token: Token },
    /// The operation to cancel was not found: it had ended, or was about to continue and still
    /// does.
    NotFound { token: Token },
    /// The eventfd was written to.
    Woken { more: bool },
}

/// A completed send.
pub(super) struct Sent {
    pub(super) token: Token,
    /// The whole output.
    pub(super) output: Output,
    /// The number of bytes to send.
    pub(super) asked: usize,
    /// The number of bytes passed to the kernel.
    tried: usize,
    /// The number of bytes sent, or the error.
    pub(super) taken: Moved,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all; only submit.
    Submit,
    /// Not at all, but take completions.
    Look,
    /// Until an event.
    Forever,
    /// Until an event, at most this long.
    AtMost(Duration),
}

/// A layer between a ring and the kernel: empty, except in tests, which insert a shim that fails as
/// kernels may (`shim.rs`).
pub(crate) trait KernelShim {
    /// How many bytes of a send are passed to the kernel, and the result to report if it takes them
    /// all. If that is an error, nothing is passed.
    fn send(&mut self, asked: usize) -> (usize, Moved);

    /// How many bytes of a buffer of `len` bytes the kernel is offered.
    fn receive(&mut self, len: usize) -> usize;

    /// `Ok` to enter the kernel, or the error to report instead.
    fn enter(&mut self) -> Result<(), Errno>;
}

/// Passes every call to the kernel unchanged.
pub(crate) struct NoShim;

impl KernelShim for NoShim {
    #[inline]
    fn send(&mut self, asked: usize) -> (usize, Moved) {
        (asked, Ok(asked))
    }

    #[inline]
    fn receive(&mut self, len: usize) -> usize {
        len
    }

    #[inline]
    fn enter(&mut self) -> Result<(), Errno> {
        Ok(())
    }
}

/// A ring, used only by the thread that created it.
pub(super) struct Ring<K> {
    /// Declared before the memory it refers to, since fields are dropped in order.
    ring: IoUring,
    shim: K,
    buffers: Buffers,
    /// The flags of a wait, as far as this kernel supports them.
    waiting: u32,
    sending: Vec<Sent>,
    /// At most [`MESSAGES`]. The capacity is reserved at the start, so that no message moves while
    /// the queue refers to it.
    messages: Vec<Message>,
    messages_used: usize,
    lent: Vec<(Token, Box<LentReceive>)>,
    sent: Vec<Sent>,
    /// Memory of the outputs that are in `sending` and `sent`.
    queued_bytes: usize,
    pub(super) events: VecDeque<Event>,
}

/// The header of a send in several slices.
struct Message {
    header: libc::msghdr,
    slices: [libc::iovec; SLICES],
}

impl Message {
    fn new() -> Self {
        // SAFETY: both are plain C data, and all zeros is a valid value.
        unsafe { std::mem::zeroed() }
    }
}

/// A receive into a lent buffer. Boxed, since the kernel holds its address.
struct LentReceive {
    buffer: ReceiveBuffer,
    message: Message,
}

/// Tests that sends complete as this file requires.
pub(super) fn check_kernel() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let token = Token { index: 0, generation: 0 };
    let mut ring = Ring::new(NoShim)?;
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, PROBE_BYTES / 8)?;
    let mut send = |len: usize| -> io::Result<Moved> {
        let mut output = Output::default();
        output.push(&vec![0; len]);
        ring.send(token, ours.as_fd(), output)?;
        ring.enter(Wait::Submit)?;
        Ok(ring.take_sent().map_or(Err(Errno::IO), |sent| sent.taken))
    };
    let all_of_few = send(1)? == Ok(1);
    let some_of_many = matches!(send(PROBE_BYTES)?, Ok(1..PROBE_BYTES));
    let none_when_full = send(PROBE_BYTES)? == Err(Errno::AGAIN);
    drop(theirs);
    if all_of_few && some_of_many && none_when_full {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::Unsupported, "sends do not end as expected"))
    }
}

impl<K: KernelShim> Ring<K> {
    /// Creates a ring for the calling thread.
    pub(super) fn new(mut shim: K) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let needed = [
            ring.params().is_feature_nodrop(),
            ring.params().is_feature_ext_arg(),
            ring.params().is_feature_skip_cqe_on_success(),
        ];
        if needed.contains(&false) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "an older kernel"));
        }
        // SAFETY: nothing is submitted, and no pointer is passed.
        let knows = unsafe { ring.submitter().enter::<libc::sigset_t>(0, 0, NO_IOWAIT, None) };
        let waiting = GET_EVENTS | if knows.is_ok() { NO_IOWAIT } else { 0 };
        let buffers = Buffers::new(&ring, &mut shim)?;
        Ok(Ring {
            ring,
            shim,
            buffers,
            waiting,
            sending: Vec::new(),
            messages: Vec::with_capacity(MESSAGES),
            messages_used: 0,
            lent: Vec::new(),
            sent: Vec::new(),
            queued_bytes: 0,
            events: VecDeque::new(),
        })
    }

    /// Submits the queue, waits, and takes the results: completed sends into `sent`, everything
    /// else into `events`.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let queued = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
        if wait == Wait::Submit && queued == 0 {
            return Ok(());
        }
        let entered = match self.shim.enter() {
            Ok(()) => self.ask_kernel(wait, queued),
            Err(error) => Err(error.into()),
        };
        let submitted = self.ring.submission().is_empty();
        self.collect();
        // Completions for which the ring had no room: what was sent is known after all of them.
        while self.ring.submission().cq_overflow() && self.ask_kernel(Wait::Look, 0).is_ok() {
            self.collect();
        }
        if submitted {
            self.settle_sends();
        }
        match entered.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
            Ok(_) | Err(Errno::TIME | Errno::INTR) => Ok(()),
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM | Errno::NOBUFS) => {
                std::thread::sleep(NO_MEMORY_PAUSE);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn ask_kernel(&mut self, wait: Wait, queued: u32) -> io::Result<usize> {
        let submitter = self.ring.submitter();
        // SAFETY: the only pointers passed are those in the queue, which are valid by the contract
        // of `push`, and the one to `arguments`, which live until the call returns.
        unsafe {
            match wait {
                Wait::Submit => submitter.submit(),
                Wait::Look => submitter.enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None),
                Wait::Forever => submitter.enter::<libc::sigset_t>(queued, 1, self.waiting, None),
                Wait::AtMost(timeout) => {
                    let timeout = types::Timespec::from(timeout);
                    let arguments = types::SubmitArgs::new().timespec(&timeout);
                    submitter.enter(queued, 1, self.waiting | MORE_ARGUMENTS, Some(&arguments))
                }
            }
        }
    }

    fn collect(&mut self) {
        for entry in self.ring.completion() {
            let (kind, data) = Kind::of(entry.user_data());
            let (result, flags) = (entry.result(), entry.flags());
            let more = cqueue::more(flags);
            let token = Token::from_u64(data);
            self.events.push_back(match kind {
                Kind::Send => {
                    let sending = self.sending.get_mut(data as usize);
                    let taken = result_of(result);
                    if let Some(sending) = sending.filter(|sending| taken != Ok(sending.tried)) {
                        sending.taken = taken;
                    }
                    continue;
                }
                Kind::Receive => {
                    let (bytes, buffer) = (result_of(result), cqueue::buffer_select(flags));
                    if bytes == Err(Errno::NOBUFS) {
                        self.buffers.grow(&mut self.shim);
                    }
                    Event::Received { token, bytes, buffer, more }
                }
                Kind::Writable => Event::Writable { token },
                Kind::Accept => {
                    // SAFETY: the kernel has just created the descriptor for this completion, which
                    // is read once.
                    let socket = result_of(result).map(|_| unsafe { OwnedFd::from_raw_fd(result) });
                    Event::Accepted { listener: data as usize, socket, more }
                }
                Kind::Wake => Event::Woken { more },
                Kind::ReceiveInto => {
                    let place = self.lent.iter().position(|(other, _)| *other == token);
                    let Some(place) = place else { continue };
                    let (_, lent) = self.lent.swap_remove(place);
                    let buffer = lent.buffer;
                    Event::ReceivedInto { token, buffer, bytes: result_of(result) }
                }
                Kind::Cancel => Event::NotFound { token },
                Kind::Other => continue,
            });
        }
    }

    /// Passes on the results of the sends that have been submitted.
    fn settle_sends(&mut self) {
        self.sent.append(&mut self.sending);
        self.sending.shrink_to(KEPT_SENDS);
        self.messages_used = 0;
    }

    /// Whether all queued operations have been submitted.
    pub(super) fn is_submitted(&mut self) -> bool {
        self.ring.submission().is_empty()
    }

    /// Queues an operation; if the queue is full, it is submitted first.
    ///
    /// # Safety
    /// The memory that `entry` refers to must stay valid and in place until the operation has
    /// ended.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: promised by the caller.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.enter(Wait::Submit)?;
        }
    }

    /// Accepts from a listener until it fails.
    pub(super) fn accept(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(types::Fd(socket.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
            .build()
            .user_data(Kind::Accept.with(listener as u64));
        // SAFETY: the entry has no pointers.
        unsafe { self.push(&entry) }
    }

    /// Stops accepting from a listener.
    pub(super) fn cancel_accept(&mut self, listener: usize) -> io::Result<()> {
        self.cancel(Kind::Accept, listener as u64, Kind::Other)
    }

    /// Reports every write to an eventfd.
    pub(super) fn watch(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(descriptor.as_raw_fd()), libc::POLLIN as u32)
            .multi(true)
            .build()
            .user_data(Kind::Wake.with(0));
        // SAFETY: the entry has no pointers.
        unsafe { self.push(&entry) }
    }

    /// Receives from a socket into a provided buffer, or if multishot, into one after the other
    /// until an error.
    pub(super) fn receive(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        is_multishot: bool,
    ) -> io::Result<()> {
        let socket = types::Fd(socket.as_raw_fd());
        let entry = if is_multishot {
            opcode::RecvMulti::new(socket, GROUP).build()
        } else {
            let once = opcode::Recv::new(socket, std::ptr::null_mut(), 0).buf_group(GROUP);
            once.build().flags(squeue::Flags::BUFFER_SELECT)
        };
        let entry = entry.user_data(Kind::Receive.with(token.to_u64()));
        // SAFETY: the entry refers to the buffers, which live as long as the ring.
        unsafe { self.push(&entry) }
    }

    /// Cancels a receive, which then completes.
    pub(super) fn cancel_receive(&mut self, token: Token) -> io::Result<()> {
        self.cancel(Kind::Receive, token.to_u64(), Kind::Cancel)
    }

    /// Receives once, into a buffer that comes back with the completion.
    pub(super) fn receive_into(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        buffer: ReceiveBuffer,
    ) -> io::Result<()> {
        let most = self.shim.receive(buffer.len());
        let lent = Box::new(LentReceive { buffer, message: Message::new() });
        self.lent.push((token, lent));
        let Some((_, lent)) = self.lent.last_mut() else { return Ok(()) };
        let LentReceive { buffer, message } = &mut **lent;
        let (mut count, mut left) = (0, most);
        for (slice, part) in message.slices.iter_mut().zip(&mut buffer.slices()) {
            let len = part.len().min(left);
            *slice = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: len };
            left -= len;
            count += 1;
        }
        message.header.msg_iov = message.slices.as_mut_ptr();
        message.header.msg_iovlen = count;
        let entry = opcode::RecvMsg::new(types::Fd(socket.as_raw_fd()), &raw mut message.header)
            .build()
            .user_data(Kind::ReceiveInto.with(token.to_u64()));
        // SAFETY: the box stays in `lent` until the completion arrives. Until then no code accesses
        // the box, and only the buffer in it refers to the chunks.
        unsafe { self.push(&entry) }
    }

    /// Cancels a receive into a lent buffer, which then completes.
    pub(super) fn cancel_receive_into(&mut self, token: Token) -> io::Result<()> {
        self.cancel(Kind::ReceiveInto, token.to_u64(), Kind::Cancel)
    }

    /// Reports once that a socket has room.
    pub(super) fn await_writable(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), libc::POLLOUT as u32)
            .build()
            .user_data(Kind::Writable.with(token.to_u64()));
        // SAFETY: the entry has no pointers.
        unsafe { self.push(&entry) }
    }

    /// Cancels the wait for room, which then completes.
    pub(super) fn cancel_writable(&mut self, token: Token) -> io::Result<()> {
        self.cancel(Kind::Writable, token.to_u64(), Kind::Cancel)
    }

    fn cancel(&mut self, kind: Kind, data: u64, reported_as: Kind) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(kind.with(data))
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(reported_as.with(data));
        // SAFETY: the entry has no pointers.
        unsafe { self.push(&entry) }
    }

    /// Queues a send of the first slices of `output`. [`Ring::take_sent`] returns the output.
    pub(super) fn send(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        output: Output,
    ) -> io::Result<()> {
        // Makes room first: after this loop nothing may be submitted, since a submission settles
        // the sends in `sending`. A submission may take only part of the queue, whose rest still
        // refers to its messages; therefore a loop.
        while self.ring.submission().is_full() || self.messages_used == MESSAGES {
            self.enter(Wait::Submit)?;
        }
        let socket = types::Fd(socket.as_raw_fd());
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        let (entry, asked, (tried, taken)) = match output.as_contiguous() {
            Some(bytes) => {
                let asked = bytes.len().min(i32::MAX as usize);
                let sent = self.shim.send(asked);
                let send = opcode::Send::new(socket, bytes.as_ptr(), sent.0 as u32);
                (send.flags(flags).build(), asked, sent)
            }
            None => {
                let asked = first_slices(&output).map(<[u8]>::len).sum();
                let sent = self.shim.send(asked);
                let header = self.message(&output, sent.0);
                (opcode::SendMsg::new(socket, header).flags(flags as u32).build(), asked, sent)
            }
        };
        let entry = if taken.is_ok() { entry } else { opcode::Nop::new().build() };
        let silence = match taken == Ok(asked) {
            true => squeue::Flags::SKIP_SUCCESS,
            false => squeue::Flags::empty(),
        };
        let entry = entry.flags(silence).user_data(Kind::Send.with(self.sending.len() as u64));
        self.queued_bytes += taken_bytes(&output);
        self.sending.push(Sent { token, output, asked, tried, taken });
        // SAFETY: the output stays in `sending` until the queue has been submitted, and a send has
        // ended then; moving an output does not move the bytes that it refers to. A message is not
        // reused before the submission either.
        unsafe { self.push(&entry) }
    }

    /// Takes a completed send.
    pub(super) fn take_sent(&mut self) -> Option<Sent> {
        let Some(sent) = self.sent.pop() else {
            self.sent.shrink_to(KEPT_SENDS);
            return None;
        };
        self.queued_bytes -= taken_bytes(&sent.output);
        Some(sent)
    }

    /// Memory of the outputs that are queued, or completed and not taken yet.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Memory of lists that grow with the connections.
    pub(super) fn lists_bytes(&self) -> usize {
        accounting::room_bytes::<Sent>(self.sending.capacity())
            + accounting::room_bytes::<Sent>(self.sent.capacity())
            + accounting::room_bytes::<Event>(self.events.capacity())
            + accounting::room_bytes::<(Token, Box<LentReceive>)>(self.lent.capacity())
    }

    /// Describes the first `len` bytes of the first slices of an output.
    fn message(&mut self, output: &Output, len: usize) -> *const libc::msghdr {
        if self.messages_used == self.messages.len() {
            self.messages.push(Message::new());
        }
        let (mut count, mut left) = (0, len);
        let Some(message) = self.messages.get_mut(self.messages_used) else {
            return std::ptr::null();
        };
        self.messages_used += 1;
        for (place, slice) in message.slices.iter_mut().zip(first_slices(output)) {
            let iov_len = slice.len().min(left);
            *place = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len };
            left -= iov_len;
            count += 1;
        }
        message.header.msg_iov = message.slices.as_mut_ptr();
        message.header.msg_iovlen = count;
        &raw const message.header
    }

    /// Takes a buffer that the kernel has received into.
    pub(super) fn take_buffer(&mut self, buffer: u16) -> Option<Box<[u8]>> {
        self.buffers.blocks.get_mut(usize::from(buffer))?.take()
    }

    /// Returns a buffer to the kernel.
    pub(super) fn give_buffer(&mut self, buffer: u16, block: Box<[u8]>) {
        let len = self.shim.receive(block.len());
        self.buffers.provide(buffer, block, len);
    }
}

/// The slices of an output that fit into one send.
fn first_slices(output: &Output) -> impl Iterator<Item = &[u8]> {
    output.slices().filter(|slice| !slice.is_empty()).take(SLICES)
}

/// The result in a completion.
fn result_of(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

/// The provided buffers, and the ring through which the kernel gets them.
struct Buffers {
    entries: *mut types::BufRingEntry,
    tail: u16,
    /// The buffers that the kernel holds.
    blocks: Vec<Option<Box<[u8]>>>,
    /// Memory of the buffers added after the start.
    grown: Overhead,
}

/// The layout of the ring of buffers, aligned as the kernel requires.
const ENTRIES_LAYOUT: Layout = {
    let bytes = BUFFERS as usize * size_of::<types::BufRingEntry>();
    match Layout::from_size_align(bytes, 4096) {
        Ok(layout) => layout,
        Err(_) => Layout::new::<u64>(),
    }
};

impl Buffers {
    fn new(ring: &IoUring, shim: &mut impl KernelShim) -> io::Result<Self> {
        // SAFETY: the layout is not empty.
        let entries = unsafe { alloc_zeroed(ENTRIES_LAYOUT) };
        if entries.is_null() {
            handle_alloc_error(ENTRIES_LAYOUT);
        }
        let (blocks, grown) = (Vec::with_capacity(BUFFERS.into()), Overhead::default());
        let mut buffers = Buffers { entries: entries.cast(), tail: 0, blocks, grown };
        let address = entries as u64;
        // SAFETY: the entries live as long as `Buffers`, which `Ring` drops after the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        (0..FIRST_BUFFERS).for_each(|_| buffers.add(shim));
        Ok(buffers)
    }

    /// Gives the kernel one more buffer.
    fn add(&mut self, shim: &mut impl KernelShim) {
        let len = shim.receive(BUFFER_BYTES);
        let buffer = self.blocks.len() as u16;
        self.blocks.push(None);
        self.provide(buffer, vec![0; BUFFER_BYTES].into(), len);
    }

    /// Adds a buffer after a receive has found none, unless the maximum is reached.
    #[cold]
    fn grow(&mut self, shim: &mut impl KernelShim) {
        if self.blocks.len() < usize::from(BUFFERS) {
            self.add(shim);
            let count = self.blocks.len() - usize::from(FIRST_BUFFERS);
            self.grown.set(count * BUFFER_BYTES);
        }
    }

    /// Gives the kernel the first `len` bytes of a block.
    fn provide(&mut self, buffer: u16, block: Box<[u8]>, len: usize) {
        let Some(owner) = self.blocks.get_mut(usize::from(buffer)) else { return };
        // The address is taken only now that the block is in `blocks`, where it stays while the
        // kernel uses it.
        let block = owner.insert(block);
        let (address, len) = (block.as_mut_ptr() as u64, block.len().min(len) as u32);
        let place = usize::from(self.tail % BUFFERS);
        // SAFETY: there are `BUFFERS` entries, which only this thread writes to; the kernel reads
        // only entries before the tail, and this entry is after it.
        unsafe {
            let entry = &mut *self.entries.add(place);
            entry.set_addr(address);
            entry.set_len(len);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, and the kernel only reads it.
        let tail = unsafe {
            let tail = types::BufRingEntry::tail(self.entries);
            AtomicU16::from_ptr(tail.cast_mut())
        };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`; the ring is gone.
        unsafe { dealloc(self.entries.cast(), ENTRIES_LAYOUT) };
    }
}
