//! What the metrics of one server consist of.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Instant,
};

use bytes::Bytes;

use super::{
    cache_counts::CacheGauges, custom::CustomFamilies, gauge::Gauge, gpus::GpuSampler,
    grpc::GrpcRequests, http::HttpRequests, metrics_settings::MetricsSettings, models::Models,
    process::Sampler,
};
use machine::gpus::Sensor;

/// What all clones of the metrics of one server share.
pub(super) struct Inner {
    pub(super) options: MetricsSettings,
    /// Guards which models there are, not their counts.
    pub(super) models: Mutex<Models>,
    pub(super) http: HttpRequests,
    pub(super) grpc: GrpcRequests,
    pub(super) connections: Gauge,
    pub(super) bytes_in_flight: Gauge,
    /// Work on inputs and answers that no thread has begun, once there are models with such work.
    pub(super) prepare_queue: OnceLock<Arc<Gauge>>,
    /// The cache in this process, once there is one.
    pub(super) cache: OnceLock<Arc<CacheGauges>>,
    /// Those that models' own code makes.
    pub(super) custom: CustomFamilies,
    /// Guards the last sample of the process and the machine.
    pub(super) sampler: Mutex<Sampler>,
    /// Guards the sensors of GPUs while they are read.
    pub(super) gpu_sampler: Mutex<GpuSampler>,
    /// Guards what they said last: GPU, sensor, value.
    pub(super) gpus: Mutex<Vec<(String, Sensor, f64)>>,
    /// Guards the last text. Held while a new one is made, so that scrapes that come together share one.
    pub(super) rendered: Mutex<Option<Rendered>>,
}

/// The last text.
pub(super) struct Rendered {
    pub(super) at: Instant,
    pub(super) models: usize,
    pub(super) text: Bytes,
}
