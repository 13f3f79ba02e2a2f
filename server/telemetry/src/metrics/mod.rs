//! What the server counts, and the text that Prometheus reads.
//!
//! Handles are made once, when a model is loaded, and live in the struct that counts; counting is a few relaxed
//! additions to atomics. Names and labels are Triton's where Triton has them (`nv_*`); muster's own
//! (`muster_*`) stand beside them with microsecond resolution. Nothing here is global.

mod batches;
mod cache_counts;
mod counters;
mod custom;
mod custom_rules;
mod exposition;
mod gauge;
mod gpus;
mod grpc;
mod histogram;
mod http;
mod inner;
mod lanes;
mod lock;
pub mod metrics_settings;
mod model;
mod models;
mod options;
mod own_metrics;
mod pipeline_counts;
mod process;
mod process_counts;
mod reasons;
mod registry;
mod responses;
mod series;
mod statistics;
mod summary;
mod tensorflow_counts;

pub use cache_counts::{CacheGauges, CacheHit};
pub use custom_rules::CustomMetricError;
pub use gauge::Gauge;
pub use http::Protocol;
pub use metrics_settings::MetricsSettings;
pub use model::{ModelMetrics, Pending};
pub use options::ModelOptions;
pub use own_metrics::OwnMetrics;
pub use pipeline_counts::{InputRefusal, PipelineStep};
pub use reasons::{BatchReason, FailureReason, OverdueRun, Rerun};
pub use registry::{CONTENT_TYPE, Connection, Metrics, Resources};
pub use responses::ResponseEnd;
pub use statistics::{BatchStatistics, MemoryUsage, ResponseStatistics, Statistics, Total};
