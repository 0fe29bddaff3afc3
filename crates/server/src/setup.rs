//! What a process that serves asks of the system before it starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process have as many descriptors as it may: each connection is one.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, current = limit.current, "the limit of descriptors stays as it is");
    }
}
