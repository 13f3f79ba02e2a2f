//! How full a GPU may be before a model is loaded on it: `--model-load-gpu-limit`.

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::many("model-load-gpu-limit", "[<GPU>:]<fraction>, as 0:0.9: nothing is loaded on a GPU of whose memory more is in use; without a number, on any").named("[GPU:]FRACTION"),
];

/// One `--model-load-gpu-limit`: the fraction of a GPU's memory above which nothing is loaded on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuLimit {
    /// Its number; `None` for every one.
    pub gpu: Option<u32>,
    /// From 0 to 1.
    pub fraction: f64,
}

/// Reads them, in the order given.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Vec<GpuLimit> {
    let limits = sources.read_all("model-load-gpu-limit", gpu_limit, problems);
    let has_sensors = sources.read("allow-gpu-metrics", value::boolean, &mut Vec::new());
    if let (Some(given), Some(false)) = (sources.last("model-load-gpu-limit"), has_sensors) {
        problems.push(format!(
            "{given}: needs --allow-gpu-metrics=true, by which the memory of GPUs is looked at"
        ));
    }
    limits
}

/// `0:0.9`, or `0.9` for every GPU.
fn gpu_limit(text: &str) -> Parse<GpuLimit> {
    let (gpu, fraction) = match text.split_once(':') {
        Some((gpu, fraction)) => (gpu.parse().ok().map(Some), fraction),
        None => (Some(None), text),
    };
    let fraction = fraction.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    let limit = gpu.zip(fraction).map(|(gpu, fraction)| GpuLimit { gpu, fraction });
    limit.ok_or_else(|| "[<GPU>:]<fraction>, as 0:0.9, the fraction from 0 to 1".to_owned())
}
