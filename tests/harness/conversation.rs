//! Compares the replies to commands with expected replies, in nagi and in the server that it
//! replaces.

use crate::server::Server;

/// Sends commands one after another to an empty nagi and an empty redis-server. Each must reply
/// with exactly the given bytes.
///
/// # Panics
///
/// One of the servers replies otherwise.
pub fn as_redis(conversation: &[(&str, &str)]) {
    for (name, server) in [("nagi", Server::nagi()), ("redis-server", Server::redis())] {
        eprintln!("asking {name}");
        let mut client = server.connect_resp();
        for (command, reply) in conversation {
            client.check(command, reply);
        }
    }
}

/// Sends raw requests of memcached's text protocol one after another to an empty nagi and an empty
/// memcached. Each must reply with exactly the given bytes.
///
/// # Panics
/// One of the servers replies otherwise.
pub fn as_memcached(conversation: &[(&str, &str)]) {
    for (name, server) in [("nagi", Server::nagi()), ("memcached", Server::memcached())] {
        eprintln!("asking {name}");
        let mut client = server.connect_memcached();
        for (request, reply) in conversation {
            client.check_raw(request, reply);
        }
    }
}
