//! What is counted and shown: of the server, and of each model.

use std::collections::BTreeMap;

/// Buckets of the first-response histogram where a model has none of its own, in milliseconds.
const FIRST_RESPONSE_MS: [u64; 4] = [100, 500, 2000, 5000];

/// What is counted and shown.
#[derive(Debug, Clone)]
pub struct MetricsOptions {
    /// Show `nv_inference_*_duration_us`. Triton's `--metrics-config counter_latencies`.
    pub counter_latencies: bool,
    /// Show `nv_inference_first_response_histogram_ms`. `--metrics-config histogram_latencies`.
    pub histogram_latencies: bool,
    /// Quantiles of `nv_inference_*_summary_us`, each from 0 to 1; with none of them there are no summaries.
    /// `--metrics-config summary_latencies` and `summary_quantiles`.
    pub summary_quantiles: Vec<f64>,
    /// Count what [`Metrics::render_tensorflow`] shows. `--tfs-metrics`.
    pub tensorflow: bool,
    /// Show the use of the machine's processors and memory. `--allow-cpu-metrics`.
    pub cpu_metrics: bool,
    /// Models with series of their own, each version and set of tags counting as one. At the bound,
    /// further models are summed under `model="_other"`.
    pub max_models: usize,
}

impl Default for MetricsOptions {
    fn default() -> MetricsOptions {
        MetricsOptions {
            counter_latencies: true,
            histogram_latencies: false,
            summary_quantiles: Vec::new(),
            tensorflow: false,
            cpu_metrics: true,
            max_models: 1000,
        }
    }
}

/// What a model's configuration says about its metrics.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// `metric_tags`: each becomes a label, its name after an underscore. What a label's name cannot
    /// hold becomes an underscore.
    pub tags: BTreeMap<String, String>,
    /// The GPU on which all instances run, where that is one: the label `gpu_uuid`.
    pub gpu_uuid: Option<String>,
    /// Where models of different repositories may have one name, the model's: the label `namespace`.
    pub namespace: Option<String>,
    /// Upper bounds of the first-response histogram, in milliseconds: `model_metrics`, or Triton's own.
    pub first_response_ms: Vec<u64>,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            tags: BTreeMap::new(),
            gpu_uuid: None,
            namespace: None,
            first_response_ms: FIRST_RESPONSE_MS.to_vec(),
        }
    }
}
