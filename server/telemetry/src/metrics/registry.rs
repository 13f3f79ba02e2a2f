//! All metrics of one server: handles for those that count, and the text for those that read.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    cache_counts::CacheGauges,
    custom::CustomFamilies,
    exposition,
    gauge::Gauge,
    gpus::GpuSampler,
    grpc::GrpcRequests,
    http::{HttpRequests, Protocol},
    inner::{Inner, Rendered},
    lock::lock,
    metrics_settings::MetricsSettings,
    model::ModelMetrics,
    models::Models,
    options::ModelOptions,
    process::Sampler,
    series::Extras,
};
use machine::gpus::{Sensor, Sensors};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// So many models are rendered anew for every scrape.
const ALWAYS_FRESH_MODELS: usize = 50;

/// With more models the text is used again for that long per model: rendering one takes about 40 us,
/// so that scrapes, however many, take no more than about a tenth of one core.
const REUSE_PER_MODEL: Duration = Duration::from_micros(400);

/// What the process and the GPUs said when they were last sampled.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// User and system time of the process so far; `None` where the system does not say.
    pub cpu_seconds: Option<f64>,
    /// Its resident memory.
    pub resident_bytes: Option<u64>,
    /// GPU, sensor, value; those of one GPU stand together.
    pub gpus: Vec<(String, Sensor, f64)>,
}

/// All metrics of one server. Clones count into the same place.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

impl Metrics {
    /// Metrics that are all zero, and a first sample of the process.
    pub fn new(options: MetricsSettings) -> Metrics {
        Metrics::with_gpus(options, None)
    }

    /// The same, with GPUs to be shown once they have been sampled.
    pub fn with_gpus(options: MetricsSettings, sensors: Option<Box<dyn Sensors>>) -> Metrics {
        let summaries = !options.summary_quantiles.is_empty();
        let extras = Extras { summaries, tensorflow: options.tensorflow_path.is_some() };
        let models = Models::new(options.max_models, extras);
        let sampler = Sampler::new(options.cpu_metrics);
        let metrics = Metrics(Arc::new(Inner {
            options,
            models: Mutex::new(models),
            http: HttpRequests::new(),
            grpc: GrpcRequests::new(),
            connections: Gauge::default(),
            bytes_in_flight: Gauge::default(),
            prepare_queue: OnceLock::new(),
            cache: OnceLock::new(),
            custom: CustomFamilies::default(),
            sampler: Mutex::new(sampler),
            gpu_sampler: Mutex::new(GpuSampler::new(sensors)),
            gpus: Mutex::default(),
            rendered: Mutex::new(None),
        }));
        metrics.sample_process();
        metrics
    }

    /// The counters of one model version. They are shown until the last clone of the handle is dropped.
    ///
    /// While they live, the same name, version and options count into the same series: a reload goes on
    /// where the page stood. Its statistics begin anew.
    pub fn model(&self, name: &str, version: u64, options: &ModelOptions) -> ModelMetrics {
        let buckets = self.0.options.histogram_latencies.then_some(&*options.first_response_ms);
        lock(&self.0.models).get(name, version, options, buckets)
    }

    /// Counts one answered HTTP request.
    pub fn http(&self, protocol: Protocol, status: u16) {
        self.0.http.count(protocol, status);
    }

    /// Counts one answered gRPC call, by the number of its status.
    pub fn grpc(&self, code: u8) {
        self.0.grpc.count(code);
    }

    /// Counts an open connection until the guard is dropped.
    pub fn connection(&self) -> Connection {
        self.0.connections.add(1);
        Connection(self.0.clone())
    }

    /// Bytes of request bodies in memory; the owner of the budget keeps it right.
    pub fn bytes_in_flight(&self) -> &Gauge {
        &self.0.bytes_in_flight
    }

    /// Pieces of work on inputs and answers that no thread has begun; the pool of these threads keeps it right. It is
    /// shown from now on.
    pub fn prepare_queue(&self) -> Arc<Gauge> {
        self.0.prepare_queue.get_or_init(Arc::default).clone()
    }

    /// The gauges of a cache of `size` bytes in this process. They are shown from now on.
    pub fn cache(&self, size: u64) -> Arc<CacheGauges> {
        self.0.cache.get_or_init(|| Arc::new(CacheGauges::new(size))).clone()
    }

    pub(super) fn custom_families(&self) -> &CustomFamilies {
        &self.0.custom
    }

    /// Reads the state of the process and the machine, to be shown from now on. To be called every
    /// metrics interval. Blocks for a few short reads below `/proc`.
    pub fn sample_process(&self) {
        lock(&self.0.sampler).sample();
    }

    /// What the process used when it was last sampled, and what the GPUs' sensors said.
    pub fn resources(&self) -> Resources {
        let process = lock(&self.0.sampler).process();
        Resources {
            cpu_seconds: process.map(|it| it.cpu_seconds),
            resident_bytes: process.map(|it| it.resident_bytes),
            gpus: lock(&self.0.gpus).clone(),
        }
    }

    /// Reads the sensors of GPUs, to be shown from now on. To be called every metrics interval where there
    /// are GPUs, on a thread that may wait: blocks for up to some milliseconds per GPU.
    pub fn sample_gpus(&self) {
        let sampled = lock(&self.0.gpu_sampler).sample();
        for (gpu, sensor, problem) in sampled.silent {
            tracing::warn!(gpu, "the {sensor} of the GPU is not shown: {problem}");
        }
        *lock(&self.0.gpus) = sampled.said;
    }

    /// The text of all metrics, of the type [`CONTENT_TYPE`].
    ///
    /// Blocks for about 40 us per model, of which each has about 8 kB of text. With more than 50 models
    /// the same text is given again for 400 us per model: with 1000 it is up to 400 ms old.
    pub fn render(&self) -> Bytes {
        self.render_at(Instant::now())
    }

    /// The text of the models' metrics with TensorFlow Serving's names, of the type [`CONTENT_TYPE`]. Empty histograms
    /// where [`MetricsSettings::tensorflow_path`] is off. Blocks as [`Metrics::render`] does.
    pub fn render_tensorflow(&self) -> Bytes {
        // The lock on the models is free again while their text is made.
        let models = lock(&self.0.models).live();
        Bytes::from(exposition::tensorflow_page::text(&models))
    }

    fn render_at(&self, now: Instant) -> Bytes {
        let mut rendered = lock(&self.0.rendered);
        if let Some(last) = &*rendered
            && now.saturating_duration_since(last.at) < reuse(last.models)
        {
            return last.text.clone();
        }
        // The lock on the models is free again while their text is made.
        let models = lock(&self.0.models).live();
        let text = Bytes::from(exposition::text(&self.0, &models));
        *rendered = Some(Rendered { at: now, models: models.len(), text: text.clone() });
        text
    }
}

/// For how long is a text of that many models good?
fn reuse(models: usize) -> Duration {
    if models <= ALWAYS_FRESH_MODELS {
        return Duration::ZERO;
    }
    REUSE_PER_MODEL.saturating_mul(u32::try_from(models).unwrap_or(u32::MAX))
}

/// An open connection; see [`Metrics::connection`].
pub struct Connection(Arc<Inner>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.sub(1);
    }
}

#[cfg(test)]
mod tests;
