//! What pages and scrapes tell of the server: a sample of all figures, taken once a second by a
//! thread that has the time, from which every page is made. However many ask, workers notice none
//! of them.

mod exposition;
mod metrics;
mod sample;

pub use exposition::Format;
pub use metrics::metrics;
pub use sample::{Sample, WorkerSample, is_ready};
