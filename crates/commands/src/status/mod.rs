//! The contents of pages and metrics. A separate thread takes a sample of all statistics once a
//! second, from which every page is rendered. Workers are not involved, however many requests for
//! pages there are.

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
