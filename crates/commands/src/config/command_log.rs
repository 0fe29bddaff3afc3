//! The rows of the settings of the slow log and of the logs of large requests and replies.

use super::kinds::Kind;
use super::setting::{Place, Setting};

pub(super) const LARGE_REPLY_MAX_LEN: Setting = Setting {
    name: "commandlog-large-reply-max-len",
    aliases: &[],
    kind: Kind::Integer(0..=i64::MAX),
    default: "128",
    changeable: true,
    place: Place::Number(|values| &values.commandlog_large_reply_max_len),
    summary: "Maximum number of entries in the log of large replies",
};

pub(super) const LARGE_REQUEST_MAX_LEN: Setting = Setting {
    name: "commandlog-large-request-max-len",
    aliases: &[],
    kind: Kind::Integer(0..=i64::MAX),
    default: "128",
    changeable: true,
    place: Place::Number(|values| &values.commandlog_large_request_max_len),
    summary: "Maximum number of entries in the log of large requests",
};

pub(super) const REPLY_LARGER_THAN: Setting = Setting {
    name: "commandlog-reply-larger-than",
    aliases: &[],
    kind: Kind::Integer(-1..=i64::MAX),
    default: "1048576",
    changeable: true,
    place: Place::Number(|values| &values.commandlog_reply_larger_than),
    summary: "Reply bytes above which a request is logged as a large reply; -1 for never",
};

pub(super) const REQUEST_LARGER_THAN: Setting = Setting {
    name: "commandlog-request-larger-than",
    aliases: &[],
    kind: Kind::Integer(-1..=i64::MAX),
    default: "1048576",
    changeable: true,
    place: Place::Number(|values| &values.commandlog_request_larger_than),
    summary: "Request bytes above which a request is logged as large; -1 for never",
};

pub(super) const SLOWLOG_LOG_SLOWER_THAN: Setting = Setting {
    name: "slowlog-log-slower-than",
    aliases: &["commandlog-execution-slower-than"],
    kind: Kind::Integer(-1..=i64::MAX),
    default: "10000",
    changeable: true,
    place: Place::Number(|values| &values.slowlog_log_slower_than_us),
    summary: "Microseconds of execution above which a request enters the slow log; -1 for never",
};

pub(super) const SLOWLOG_MAX_LEN: Setting = Setting {
    name: "slowlog-max-len",
    aliases: &["commandlog-slow-execution-max-len"],
    kind: Kind::Integer(0..=i64::MAX),
    default: "128",
    changeable: true,
    place: Place::Number(|values| &values.slowlog_max_len),
    summary: "Maximum number of entries in the slow log",
};

pub(super) const SLOWLOG_TOTAL_SLOWER_THAN: Setting = Setting {
    name: "slowlog-total-slower-than",
    aliases: &[],
    kind: Kind::Integer(-1..=i64::MAX),
    default: "1000000",
    changeable: true,
    place: Place::Number(|values| &values.slowlog_total_slower_than_us),
    summary: "Microseconds from the first byte of a request to the last byte of its reply above \
              which it enters the slow log; -1 for never",
};
