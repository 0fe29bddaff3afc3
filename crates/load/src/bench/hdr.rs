//! Latencies in the formats of HdrHistogram's own tools: the interval log (version 1.3, histograms
//! in compressed V2), which HistogramLogAnalyzer and `HistogramLogProcessor` read, and the
//! percentile distribution, which HdrHistogram's plotter reads.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::clock::unix_seconds;
use crate::tally::Latencies;

/// Divides nanoseconds to give milliseconds, the unit of the longest latency of an interval in the
/// log.
const MAX_DIVISOR: f64 = 1e6;

/// Number of rows of the distribution per halving of the distance to 100 %.
const ROWS_A_HALF: u32 = 5;

/// An interval log, built in memory. It grows by a few kilobytes per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// When measuring began, in seconds since 1970.
    epoch_s: f64,
    lines: String,
    failure: Option<String>,
}

impl Log {
    /// Creates a log whose times count from `start_ns` of the monotonic clock.
    pub(crate) fn from(start_ns: u64) -> Self {
        Log { epoch_s: unix_seconds(start_ns), ..Log::default() }
    }

    /// Adds the latencies of an interval that begins `from_s` seconds after the start.
    pub(crate) fn add(&mut self, from_s: f64, length_s: f64, latencies: &Latencies) {
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(latencies, &mut bytes) {
            Ok(_) => {
                let max = latencies.max() as f64 / MAX_DIVISOR;
                let histogram = BASE64_STANDARD.encode(&bytes);
                self.lines += &format!("{from_s:.3},{length_s:.3},{max:.3},{histogram}\n");
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Returns the whole log; `title` describes it in one line.
    ///
    /// # Errors
    /// A histogram cannot be encoded.
    pub(crate) fn text(&self, title: &str) -> Result<String, String> {
        if let Some(failure) = &self.failure {
            return Err(format!("the log of histograms: {failure}"));
        }
        let start = format!("{:.3} (seconds since epoch)", self.epoch_s);
        Ok(format!(
            "#[{title}; latencies in nanoseconds]\n\
             #[Histogram log format version 1.3]\n\
             #[StartTime: {start}]\n\
             #[BaseTime: {start}]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
             \"Interval_Compressed_Histogram\"\n{}",
            self.lines
        ))
    }
}

/// Formats the percentile distribution in milliseconds; `title` describes it in one line.
pub(crate) fn distribution(latencies: &Latencies, title: &str) -> String {
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for row in latencies.iter_quantiles(ROWS_A_HALF) {
        count += row.count_since_last_iteration();
        let (ms, quantile) = (row.value_iterated_to() as f64 / 1e6, row.quantile_iterated_to());
        out += &format!("{ms:>12.6} {quantile:>14.12} {count:>10}");
        if quantile < 1.0 {
            out += &format!(" {:>14.2}", 1.0 / (1.0 - quantile));
        }
        out.push('\n');
    }
    let (mean, deviation) = (latencies.mean() / 1e6, latencies.stdev() / 1e6);
    out += &format!("#[Mean    = {mean:>12.6}, StdDeviation   = {deviation:>12.6}]\n");
    let (max, total) = (latencies.max() as f64 / 1e6, latencies.len());
    out += &format!("#[Max     = {max:>12.6}, Total count    = {total:>12}]\n");
    // The histogram does not expose its number of sub-buckets, which is 2,048 for three digits.
    let (buckets, parts) = (latencies.buckets(), 2048);
    out += &format!("#[Buckets = {buckets:>12}, SubBuckets     = {parts:>12}]\n");
    out + &format!("#[{title}]\n")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::clock::now_ns;
    use crate::tally::LONGEST_NS;

    fn latencies(all_us: impl Iterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new_with_bounds(1, LONGEST_NS, 3).unwrap();
        all_us.for_each(|us| latencies.record(us * 1000).unwrap());
        latencies
    }

    #[test]
    fn a_log_reads_back_interval_by_interval() {
        let (first, second) = (latencies(1..1000), latencies(500_000..500_010));
        let mut log = Log::from(now_ns());
        log.add(0.0, 1.0, &first);
        log.add(1.0, 0.5, &second);
        let text = log.text("nagi bench").unwrap();
        let entries = IntervalLogIterator::new(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let entries = entries.unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let [LogEntry::StartTime(start), LogEntry::BaseTime(base), intervals @ ..] =
            entries.as_slice()
        else {
            panic!("{text}")
        };
        assert_eq!(start, base);
        assert!(now.as_secs().abs_diff(start.as_secs()) < 60, "{start:?}");
        assert_eq!(intervals.len(), 2);
        for (entry, (expected, from_ms)) in intervals.iter().zip([(first, 0), (second, 1000)]) {
            let LogEntry::Interval(interval) = entry else { panic!("{entry:?}") };
            assert_eq!(interval.start_timestamp().as_millis(), from_ms);
            assert!((interval.max() - expected.max() as f64 / 1e6).abs() < 1e-3);
            let bytes = BASE64_STANDARD.decode(interval.encoded_histogram()).unwrap();
            let found: Latencies = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_distribution_rises_to_all_requests() {
        let text = distribution(&latencies(1..=10_000), "nagi bench: closed loop");
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
            .collect();
        assert!(rows.len() > 30, "{text}");
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][2] <= pair[1][2]));
        assert!(text.ends_with("#[nagi bench: closed loop]\n"), "{text}");
        let half = rows.iter().find(|row| row[1] == 0.5).unwrap();
        assert!((half[0] - 5.0).abs() < 0.01 && half[3] == 2.0, "{half:?}");
        let last = rows.last().unwrap();
        assert_eq!((last[1], last[2], last.len()), (1.0, 10_000.0, 3));
        assert!(
            text.contains("#[Mean") && text.contains("Total count    =        10000]"),
            "{text}"
        );
    }
}
