//! Commands and their replies, compared with those of nagi and of the server that it replaces.

use crate::server::Server;

/// Sends commands one after the other to an empty nagi and to an empty redis-server; each must
/// reply with exactly the given bytes.
///
/// # Panics
///
/// When one of them replies otherwise.
pub fn as_redis(conversation: &[(&str, &str)]) {
    for (name, server) in [("nagi", Server::nagi()), ("redis-server", Server::redis())] {
        eprintln!("asking {name}");
        let mut client = server.connect_resp();
        for (command, reply) in conversation {
            client.check(command, reply);
        }
    }
}

/// The same for raw requests in memcached's text protocol.
///
/// # Panics
/// When nagi or memcached replies otherwise.
pub fn as_memcached(conversation: &[(&str, &str)]) {
    for (name, server) in [("nagi", Server::nagi()), ("memcached", Server::memcached())] {
        eprintln!("asking {name}");
        let mut client = server.connect_memcached();
        for (request, reply) in conversation {
            client.check_raw(request, reply);
        }
    }
}
