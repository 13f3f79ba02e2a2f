//! What is counted and shown: `--metrics-config`, `--allow-cpu-metrics` and their neighbours.

use std::time::Duration;

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("metrics-interval-ms", "2000", "How often gauges of the machine are read").named("MILLISECONDS"),
    Flag::boolean("allow-gpu-metrics", "true", "Show the use of GPUs among the metrics"),
    Flag::boolean("tfs-metrics", "false", "Show metrics with TensorFlow Serving's names, too, on every HTTP port"),
    Flag::value("tfs-metrics-path", "/monitoring/prometheus/metrics", "Where").named("PATH"),
    Flag::value("metrics-names", "", "tei: show metrics of text models with the names of text-embeddings-inference, too").named("NAMES"),
    Flag::boolean("allow-cpu-metrics", "true", "Show the use of the machine's processors and memory among the metrics"),
    Flag::many("metrics-config", "<setting>=<value>: counter_latencies (true), histogram_latencies (false), summary_latencies (false), summary_quantiles=<quantile>:<error>,.. (0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001)").named("KEY=VALUE"),
];

/// What is counted and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSettings {
    /// `--metrics-config counter_latencies`: show `nv_inference_*_duration_us`.
    pub counter_latencies: bool,
    /// `--metrics-config histogram_latencies`: show `nv_inference_first_response_histogram_ms`.
    pub histogram_latencies: bool,
    /// `--metrics-config summary_latencies` and `summary_quantiles`: quantiles of `nv_inference_*_summary_us`, each
    /// from 0 to 1; with none of them there are no summaries.
    pub summary_quantiles: Vec<f64>,
    /// `--tfs-metrics`, `--tfs-metrics-path`: where metrics are shown as TensorFlow Serving has them; `None` for
    /// nowhere, and they are not counted.
    pub tensorflow_path: Option<String>,
    /// `--metrics-names=tei`: show those of text models with the names of text-embeddings-inference, too.
    pub tei_names: bool,
    /// `--allow-cpu-metrics`: show the use of the machine's processors and memory.
    pub cpu_metrics: bool,
    /// `--allow-gpu-metrics`: show the use of GPUs.
    pub gpu_metrics: bool,
    /// `--metrics-interval-ms`: how often gauges of the machine are read.
    pub interval: Duration,
    /// Models with series of their own, each version and set of tags counting as one. At the bound,
    /// further models are summed under `model="_other"`.
    pub max_models: usize,
}

impl Default for MetricsSettings {
    fn default() -> MetricsSettings {
        MetricsSettings {
            counter_latencies: true,
            histogram_latencies: false,
            summary_quantiles: Vec::new(),
            tensorflow_path: None,
            tei_names: false,
            cpu_metrics: true,
            gpu_metrics: true,
            interval: Duration::from_secs(2),
            max_models: 1000,
        }
    }
}

/// Triton's, without the errors that are allowed for them.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// More would make the page long and say nothing more.
const MOST_QUANTILES: usize = 32;

/// Where TensorFlow Serving has them.
const PAGE_PATH: &str = "/monitoring/prometheus/metrics";

/// One `--metrics-config`.
enum Setting {
    Counters(bool),
    Histograms(bool),
    Summaries(bool),
    Quantiles(Vec<f64>),
}

/// Reads it; the bound on models stays as it is by default.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> MetricsSettings {
    let usual = MetricsSettings::default();
    let cpu = sources.read("allow-cpu-metrics", value::boolean, problems);
    let mut settings = MetricsSettings {
        cpu_metrics: cpu.unwrap_or(usual.cpu_metrics),
        tensorflow_path: tensorflow_path(sources, problems),
        ..usual
    };
    let (mut summaries, mut quantiles) = (false, QUANTILES.to_vec());
    for given in sources.read_all("metrics-config", setting, problems) {
        match given {
            Setting::Counters(on) => settings.counter_latencies = on,
            Setting::Histograms(on) => settings.histogram_latencies = on,
            Setting::Summaries(on) => summaries = on,
            Setting::Quantiles(given) => quantiles = given,
        }
    }
    if summaries {
        settings.summary_quantiles = quantiles;
    }
    if let Some(interval) = sources.read("metrics-interval-ms", value::milliseconds, problems) {
        settings.interval = interval;
    }
    settings.tei_names = sources.read("metrics-names", tei_names, problems).unwrap_or(false);
    if let Some(gpus) = sources.read("allow-gpu-metrics", value::boolean, problems) {
        settings.gpu_metrics = gpus;
    }
    settings
}

/// `<setting>=<value>`.
fn setting(text: &str) -> Parse<Setting> {
    let form = || {
        "counter_latencies=, histogram_latencies= or summary_latencies= with true or false, or \
         summary_quantiles=<quantile>:<error>,.."
            .to_owned()
    };
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    let boolean = |of: fn(bool) -> Setting| {
        value::boolean(value.trim()).map(of).map_err(|it| format!("{it} for {name}"))
    };
    match name.trim() {
        "counter_latencies" => boolean(Setting::Counters),
        "histogram_latencies" => boolean(Setting::Histograms),
        "summary_latencies" => boolean(Setting::Summaries),
        "summary_quantiles" => quantiles(value).map(Setting::Quantiles),
        _ => Err(form()),
    }
}

/// `0.5:0.05,0.9:0.01`: the errors are read and not needed, since the sketch has a bound of its own.
fn quantiles(text: &str) -> Parse<Vec<f64>> {
    let share = |text: &str| text.trim().parse().ok().filter(|it| (0.0..=1.0).contains(it));
    let quantile = |text: &str| match text.split_once(':') {
        Some((quantile, error)) => share(error).and_then(|_: f64| share(quantile)),
        None => share(text),
    };
    let mut quantiles = text.split(',').map(quantile).collect::<Option<Vec<f64>>>();
    if let Some(quantiles) = &mut quantiles {
        quantiles.sort_by(f64::total_cmp);
        quantiles.dedup();
    }
    quantiles.filter(|it| it.len() <= MOST_QUANTILES).ok_or_else(|| {
        format!(
            "at most {MOST_QUANTILES} pairs <quantile>:<error> with commas between, each number from 0 to 1, as \
             0.5:0.05,0.99:0.001"
        )
    })
}

fn tei_names(text: &str) -> Parse<bool> {
    match text.trim() {
        "tei" => Ok(true),
        _ => Err("'tei'; without the flag there are muster's and Triton's names alone".to_owned()),
    }
}

/// The path of the metrics as TensorFlow Serving shows them; `None` where they are not shown.
fn tensorflow_path(sources: &Sources, problems: &mut Vec<String>) -> Option<String> {
    let path = sources
        .read("tfs-metrics-path", page_path, problems)
        .unwrap_or_else(|| PAGE_PATH.to_owned());
    let is_on = sources.read("tfs-metrics", value::boolean, problems).unwrap_or(false);
    is_on.then_some(path)
}

fn page_path(text: &str) -> Parse<String> {
    let plain = |it: u8| it.is_ascii_graphic() && !b"?#%".contains(&it);
    let is_path = text.starts_with('/') && text.len() > 1 && text.bytes().all(plain);
    match is_path && !text.ends_with('/') {
        true => Ok(text.to_owned()),
        false => Err("a path that begins with '/' and does not end with one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_errors_or_none_and_are_put_in_order() {
        assert_eq!(quantiles("0.99:0.001, 0.5:0.05,0.5"), Ok(vec![0.5, 0.99]));
        for wrong in ["", "0.5:", "1.5:0.1", "0.5:2", "x", "0.5;0.9", "NaN:0.1"] {
            assert!(quantiles(wrong).unwrap_err().contains("0.5:0.05"), "{wrong}");
        }
    }
}
