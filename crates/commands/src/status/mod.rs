//! What pages and scrapes show: a sample of all statistics, taken once a second by a thread of its
//! own, from which every page is made. However many requests there are, workers are not involved.

mod client_groups;
mod clients;
mod exposition;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod history;
mod list_options;
mod markup;
mod metrics;
mod own_findings;
mod page;
mod sample;
mod server_status;

pub use clients::ClientSample;
pub use exposition::Format;
pub use list_options::{ListOptions, StatusForm};
pub use metrics::metrics;
pub use page::{SCRIPT, STYLE, page};
pub use sample::{RunningScript, Sample, WorkerSample, is_ready};
pub use server_status::{auto, json};
