//! Queue disciplines of this host's network devices: which of them limit a rate, and how often one
//! delayed or dropped packets (`man 8 tc`).

use super::netlink::{Kernel, attribute, word};
use nagi_findings::observation::QueueDiscipline;
use rustix::net::netdevice::index_to_name;

/// The type of a request for queue disciplines, and the length of their header
/// (`linux/rtnetlink.h`).
const GET: u16 = 38;
const HEAD: usize = 20;
/// Attributes of a discipline: the name, the options, the statistics, and the queue's statistics
/// within these (`linux/rtnetlink.h`, `linux/gen_stats.h`).
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const FIGURES: u16 = 7;
const QUEUE: u16 = 3;
/// The attribute within the options that describes a token bucket, and the offset of its rate
/// (`linux/pkt_sched.h`).
const BUCKET: u16 = 1;
const RATE: usize = 8;

/// Returns all queue disciplines, with their counts since they were set up; `None` if the kernel
/// does not report them.
pub(crate) fn disciplines() -> Option<Vec<QueueDiscipline>> {
    let kernel = Kernel::open(None)?;
    let described = kernel.dump(GET, &[0; HEAD], discipline)?;
    let named = described.into_iter().filter_map(|(index, discipline)| {
        let device = index_to_name(kernel.socket(), index).ok()?;
        Some(QueueDiscipline { device, ..discipline })
    });
    Some(named.collect())
}

/// Parses a message: the index of the device, and the discipline.
pub(super) fn discipline(message: &[u8]) -> Option<(u32, QueueDiscipline)> {
    let attributes = message.get(HEAD..)?;
    let kind = attribute(attributes, KIND)?.split(|byte| *byte == 0).next()?;
    let kind = String::from_utf8_lossy(kind).into_owned();
    let queue = attribute(attribute(attributes, FIGURES)?, QUEUE)?;
    let bucket = || word(attribute(attribute(attributes, OPTIONS)?, BUCKET)?, RATE);
    let rate = if kind == "tbf" { bucket() } else { None };
    Some((
        word(message, 4)?,
        QueueDiscipline {
            device: String::new(),
            kind,
            bytes_per_second: rate.map(u64::from),
            dropped: word(queue, 8)?.into(),
            held_back: word(queue, 16)?.into(),
        },
    ))
}

/// Returns the disciplines that delayed packets within the run, with their counts within the run.
pub(crate) fn active_since(before: &[QueueDiscipline]) -> Vec<QueueDiscipline> {
    let now = disciplines().unwrap_or_default().into_iter();
    let grown = now.map(|now| {
        let is_same = |it: &&QueueDiscipline| (&it.device, &it.kind) == (&now.device, &now.kind);
        let (held_back, dropped) =
            before.iter().find(is_same).map_or((0, 0), |it| (it.held_back, it.dropped));
        QueueDiscipline {
            held_back: now.held_back.saturating_sub(held_back),
            dropped: now.dropped.saturating_sub(dropped),
            ..now
        }
    });
    grown.filter(|it| it.held_back > 0 || it.dropped > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_of(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_token_bucket_is_read_with_its_rate() {
        let words =
            |words: &[u32]| words.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<_>>();
        let mut message = words(&[0, 3, 0, 0, 0]);
        message.extend(attribute_of(KIND, b"tbf\0"));
        let bucket = attribute_of(BUCKET, &words(&[0, 0, 162_500, 0, 0]));
        message.extend(attribute_of(OPTIONS, &bucket));
        message.extend(attribute_of(FIGURES, &attribute_of(QUEUE, &words(&[1, 2, 30, 4, 500]))));
        let expected = QueueDiscipline {
            device: String::new(),
            kind: "tbf".to_owned(),
            bytes_per_second: Some(162_500),
            dropped: 30,
            held_back: 500,
        };
        assert_eq!(discipline(&message), Some((3, expected)));
        assert_eq!(discipline(&message[..40]), None);
    }

    #[test]
    fn the_loopback_has_a_discipline() {
        let all = disciplines().expect("the kernel tells");
        assert!(all.iter().any(|it| it.device == "lo" && !it.kind.is_empty()), "{all:?}");
    }
}
