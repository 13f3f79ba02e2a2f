//! What came back within a stretch of time, and what it took.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{numbers, tally::Tally};

/// What came back within a stretch of time. In JSON, times are numbers whose names carry the unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Since the measurement began.
    #[serde(
        rename = "start_s",
        serialize_with = "numbers::seconds",
        deserialize_with = "numbers::of_seconds"
    )]
    pub start: Duration,
    /// Likewise.
    #[serde(
        rename = "end_s",
        serialize_with = "numbers::seconds",
        deserialize_with = "numbers::of_seconds"
    )]
    pub end: Duration,
    /// Users; in an open loop connections.
    pub users: usize,
    /// Requests that ended: replies of any status, and failures.
    pub requests: u64,
    /// Those without a 2xx reply.
    pub errors: u64,
    /// 2xx replies per second.
    pub throughput: f64,
    /// Of 2xx replies.
    #[serde(flatten)]
    pub latency: Latency,
    /// Processor time of the load generator over time, where it was read.
    #[serde(rename = "generator_cores", default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<f64>,
    /// The server's processes, where the plan names one.
    #[serde(flatten)]
    pub server: Option<Usage>,
    /// The GPUs of the server, where the plan names its page of metrics and that tells of them.
    #[serde(flatten)]
    pub gpu: Option<GpuUsage>,
}

impl Interval {
    pub(crate) fn new(start: Duration, end: Duration, users: usize, tally: &Tally) -> Interval {
        let requests = tally.replies() + tally.failures.total();
        let ok = tally.latency.len();
        Interval {
            start,
            end,
            users,
            requests,
            errors: requests - ok,
            throughput: ok as f64 / (end - start).as_secs_f64().max(f64::EPSILON),
            latency: Latency::new(&tally.latency),
            generator: None,
            server: None,
            gpu: None,
        }
    }

    /// 2xx replies.
    pub fn ok(&self) -> u64 {
        self.requests - self.errors
    }

    /// Share of its requests without a 2xx reply.
    pub fn error_rate(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }
}

/// What a server's process and its descendants use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time over time.
    #[serde(rename = "server_cores")]
    pub cores: f64,
    /// Bytes of memory that are resident at the end; what processes share is counted for each.
    #[serde(rename = "server_resident_bytes")]
    pub resident: u64,
}

/// What the GPUs of a server are used for, by its page of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GpuUsage {
    /// Share of the time in which one worked, from 0 to 1; the mean of several GPUs.
    #[serde(rename = "gpu_utilization")]
    pub utilization: f64,
    /// Bytes of memory in use, of all GPUs together.
    #[serde(rename = "gpu_memory_bytes")]
    pub memory: u64,
}

impl GpuUsage {
    /// Over several intervals: the mean of what the sensors said, memory at the end. `None` where they said nothing.
    pub(crate) fn over<'a>(intervals: impl Iterator<Item = &'a Interval>) -> Option<GpuUsage> {
        let seen: Vec<GpuUsage> = intervals.filter_map(|it| it.gpu).collect();
        let busy: f64 = seen.iter().map(|it| it.utilization).sum();
        let last = seen.last()?;
        Some(GpuUsage { utilization: busy / seen.len() as f64, memory: last.memory })
    }
}

/// Percentiles of a set of latencies, each right within 0.1 %. Zeros for an empty set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    #[serde(
        rename = "mean_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub mean: Duration,
    #[serde(
        rename = "p50_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub p50: Duration,
    #[serde(
        rename = "p90_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub p90: Duration,
    #[serde(
        rename = "p95_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub p95: Duration,
    #[serde(
        rename = "p99_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub p99: Duration,
    #[serde(
        rename = "p99_9_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub p99_9: Duration,
    #[serde(
        rename = "max_us",
        serialize_with = "numbers::micros",
        deserialize_with = "numbers::of_micros"
    )]
    pub max: Duration,
}

impl Latency {
    pub(crate) fn new(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        Latency {
            mean: Duration::from_secs_f64(histogram.mean() / 1e9),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}
