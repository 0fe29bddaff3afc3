//! New connections of a worker: accepted ones, and those that move from another worker.

use super::{ConnectionSlot, Sessions};
use crate::net::address::Peer;
use crate::net::driver::{Driver, Token};
use crate::net::link::Link;
use crate::net::protocol::Protocol;
use crate::net::refusal::Refusal;
use crate::session::conversation::Session;
use crate::state::mailbox::{ConnectionTask, NewConnection};
use crate::state::shared::Shared;
use crate::worker::handovers::MovedConnection;
use nagi_commands::memcached::{CloseReason, report_connection};
use nagi_commands::{ClientInfo, Marks, Server as _};
use nagi_store::accounting::{self, Overhead};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Wake, Waker};

impl Sessions {
    /// Takes a connection assigned to this worker.
    pub(super) fn take_connection(&mut self, driver: &mut impl Driver, connection: NewConnection) {
        let NewConnection { link, protocol, is_reserved, gateway } = connection;
        if !self.takes_connections {
            return self.shared.registry.release(self.worker);
        }
        let peer = link.peer();
        // Without its address, what it has sent cannot be judged.
        if peer == Peer::Gone {
            return self.shared.registry.release(self.worker);
        }
        if self.shared.is_unprotected(protocol) && !peer.is_local() {
            self.tally.unprotected_connections.add(1);
            link.refuse(protocol, Refusal::unprotected(self.shared.config()));
            return self.shared.registry.release(self.worker);
        }
        let now_ms = self.shared.store.now_ms();
        let (descriptor, local_address) = (link.descriptor(), link.local_address());
        let token = match self.adopt(driver, link) {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, "cannot watch a new connection");
                return self.shared.registry.release(self.worker);
            }
        };
        let before = accounting::allocated_by_thread();
        let info = Arc::new(ClientInfo {
            id: self.shared.registry.next_id(),
            address: peer.shown(&local_address),
            local_address,
            http_client: gateway.as_ref().map(|gateway| Arc::clone(&gateway.client)),
            descriptor,
            worker: self.worker.into(),
            connection_token: token.to_u64().into(),
            connected_at_ms: now_ms,
            active_at_ms: now_ms.into(),
            resp: if protocol == Protocol::Resp { 2 } else { 0 }.into(),
            ..ClientInfo::default()
        });
        match &gateway {
            Some(gateway) => gateway.client.connected(&info),
            None => info.mark(Marks::UNIX_SOCKET, peer == Peer::FileSystem),
        }
        // One that is reserved may turn out to be refused, which is counted then.
        self.tally.connections.add((!is_reserved).into());
        self.shared.registry.add(&info);
        let waker = self.waker_of(token);
        let mut session = Session::new(Arc::clone(&info), protocol, self.shared.config(), waker);
        let idle_bytes = accounting::allocated_by_thread() - before;
        let overhead = Overhead::new(usize::try_from(idle_bytes).unwrap_or(0));
        report_connection(&*self.shared, &info);
        if is_reserved {
            session.administrate();
        }
        if let Some(gateway) = gateway {
            session.serve_gateway(self.shared.config(), &gateway.user);
        }
        self.add_slot(token, session, overhead);
    }

    /// Takes all connections that other workers have handed over.
    pub(super) fn take_all_moved(&mut self, driver: &mut impl Driver) {
        for connection in self.handovers.take(self.worker) {
            self.take_moved(driver, connection);
        }
    }

    /// Takes a connection from another worker, and continues its session.
    fn take_moved(&mut self, driver: &mut impl Driver, connection: MovedConnection) {
        let MovedConnection { link, mut session, state, overhead } = connection;
        session.info().mark(Marks::MOVING, false);
        let token = match self.adopt(driver, link) {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, "cannot watch a connection that moves between workers");
                return self.forget(session, CloseReason::Error);
            }
        };
        session.move_to(self.waker_of(token));
        let info = session.info();
        info.connection_token.store(token.to_u64(), Ordering::Relaxed);
        // See `Shared::close`.
        fence(Ordering::SeqCst);
        self.add_slot(token, session, overhead);
        self.tally.relocations.add(1);
        // Its former worker may have been notified too late.
        self.close_if_killed(driver, token);
        if self.takes_connections {
            self.apply_state(driver, token, state);
        } else {
            self.abort(driver, token);
        }
    }

    fn waker_of(&self, token: Token) -> Waker {
        let shared = Arc::clone(&self.shared);
        Waker::from(Arc::new(SessionWaker { shared, worker: self.worker, token }))
    }

    /// Passes a link to a driver.
    fn adopt(&self, driver: &mut impl Driver, link: Link) -> io::Result<Token> {
        match link {
            Link::Socket(socket) => {
                let peer = Peer::of(&socket);
                driver.adopt(socket, peer)
            }
            Link::Pipe(end) => Ok(driver.pipes_mut().adopt(end, |token| self.pipe_waker_of(token))),
        }
    }

    fn pipe_waker_of(&self, token: Token) -> Waker {
        let shared = Arc::clone(&self.shared);
        Waker::from(Arc::new(PipeWaker { shared, worker: self.worker, token }))
    }

    /// Adds the session of a connection from which bytes are received.
    fn add_slot(&mut self, token: Token, session: Session, overhead: Overhead) {
        self.slots.add(ConnectionSlot::new(token, session, overhead));
    }
}

/// Wakes a session from any thread.
struct SessionWaker {
    shared: Arc<Shared>,
    worker: usize,
    token: Token,
}

impl Wake for SessionWaker {
    fn wake(self: Arc<Self>) {
        self.shared.post(self.worker, ConnectionTask::Wake(self.token));
    }
}

/// Notifies a worker of input in one of its pipes.
struct PipeWaker {
    shared: Arc<Shared>,
    worker: usize,
    token: Token,
}

impl Wake for PipeWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.notify_pipe(self.worker, self.token);
    }
}
