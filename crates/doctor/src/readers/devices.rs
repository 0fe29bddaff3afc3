//! Errors and drops of this host's network devices (`/proc/net/dev`, `man 5 proc_pid_net`). They
//! are only additional evidence, because a device counts all of its traffic.

use nagi_findings::observation::DeviceLosses;
use std::path::Path;

/// Indices of the fields for errors, and for drops, after a device's name: received and sent.
const ERRORS: [usize; 2] = [2, 10];
const DROPS: [usize; 2] = [3, 11];

/// Returns all devices, with their counts since they were created.
pub(crate) fn devices(proc: &Path) -> Vec<DeviceLosses> {
    let table = std::fs::read_to_string(proc.join("net/dev")).unwrap_or_default();
    table.lines().filter_map(device).collect()
}

fn device(line: &str) -> Option<DeviceLosses> {
    let (name, rest) = line.split_once(':')?;
    let numbers: Vec<u64> =
        rest.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let sum = |places: [usize; 2]| {
        let [received, sent] = places.map(|place| numbers.get(place).copied());
        received?.checked_add(sent?)
    };
    let device = name.trim().to_owned();
    Some(DeviceLosses { device, errors: sum(ERRORS)?, dropped: sum(DROPS)? })
}

/// Returns the devices with errors or drops within the run, with their counts within the run.
pub(crate) fn losses_since(before: &[DeviceLosses], now: Vec<DeviceLosses>) -> Vec<DeviceLosses> {
    let grown = now.into_iter().map(|now| {
        let before = before.iter().find(|it| it.device == now.device);
        let (errors, dropped) = before.map_or((0, 0), |it| (it.errors, it.dropped));
        DeviceLosses {
            errors: now.errors.saturating_sub(errors),
            dropped: now.dropped.saturating_sub(dropped),
            ..now
        }
    });
    grown.filter(|it| it.errors > 0 || it.dropped > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
                         colls carrier compressed
    lo: 5000 50 0 0 0 0 0 0 5000 50 0 0 0 0 0 0
  eth0:12345 100 3 40 0 0 0 0 54321 90 4 2 0 0 0 0
   odd: 1 2 x
";

    #[test]
    fn devices_with_losses_during_the_run_are_reported() {
        let now: Vec<DeviceLosses> = TABLE.lines().filter_map(device).collect();
        let losses = |device: &str, errors, dropped| DeviceLosses {
            device: device.to_owned(),
            errors,
            dropped,
        };
        assert_eq!(now, [losses("lo", 0, 0), losses("eth0", 7, 42)]);
        let grown = losses_since(&[losses("eth0", 7, 40)], now.clone());
        assert_eq!(grown, [losses("eth0", 0, 2)]);
        assert_eq!(losses_since(&now.clone(), now), []);
    }

    #[test]
    fn the_loopback_is_read() {
        assert!(devices(Path::new("/proc")).iter().any(|it| it.device == "lo"));
        assert_eq!(devices(Path::new("/nowhere")), []);
    }
}
