//! The sizes of disturbances: numbers of keys and connections, lengths of values and steps.

use serde::Serialize;

/// Sizes for a full or a quick run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Scale {
    /// Length of the quiet phase, in seconds.
    pub(crate) quiet_seconds: f64,
    /// Minimum length of a step, in seconds.
    pub(crate) step_seconds: f64,
    /// How long to wait for idle processors before each measurement, in seconds.
    pub(crate) settle_seconds: u64,
    /// Number of keys that are saved, listed and expired.
    pub(crate) keys: u64,
    /// Number of keys that are flushed.
    pub(crate) flushed_keys: u64,
    /// Number of keys before and after the keyspace grows.
    pub(crate) growth: (u64, u64),
    /// Number of elements of each huge collection.
    pub(crate) elements: u64,
    /// Sizes of the large values, in bytes.
    pub(crate) value_bytes: [u64; 3],
    /// Number of connections opened at once.
    pub(crate) connections: u64,
    /// Connections opened each second, and for how many seconds.
    pub(crate) connections_per_second: u64,
    pub(crate) storm_seconds: u64,
    /// Bytes that a slow reader requests.
    pub(crate) unread_bytes: u64,
    /// The memory limit for the disturbance that exceeds it, in bytes above the memory used before.
    pub(crate) limit_bytes: u64,
}

impl Scale {
    pub(crate) const FULL: Scale = Scale {
        quiet_seconds: 60.0,
        step_seconds: 5.0,
        settle_seconds: 20,
        keys: 1_000_000,
        flushed_keys: 4_000_000,
        growth: (1_000_000, 16_000_000),
        elements: 1_000_000,
        value_bytes: [1_500_000, 100_000_000, 500_000_000],
        connections: 5_000,
        connections_per_second: 1_000,
        storm_seconds: 5,
        unread_bytes: 200_000_000,
        limit_bytes: 256 << 20,
    };

    pub(crate) const QUICK: Scale = Scale {
        quiet_seconds: 3.0,
        step_seconds: 1.0,
        settle_seconds: 0,
        keys: 50_000,
        flushed_keys: 200_000,
        growth: (50_000, 400_000),
        elements: 50_000,
        value_bytes: [1_500_000, 10_000_000, 50_000_000],
        connections: 500,
        connections_per_second: 500,
        storm_seconds: 1,
        unread_bytes: 20_000_000,
        limit_bytes: 32 << 20,
    };
}
