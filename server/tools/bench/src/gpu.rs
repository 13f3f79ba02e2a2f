//! What GPUs are used for, as the page of metrics says of a server that reads their sensors: muster, Triton.

use crate::{GpuUsage, Target, fetch};

/// What the page at `target` says at this moment; `None` where it cannot be read, or tells of no GPU.
pub(crate) fn read(target: &Target) -> Option<GpuUsage> {
    let path = if target.path().is_empty() { "/metrics" } else { target.path() };
    parse(&String::from_utf8_lossy(&fetch::get(target, path, &[]).ok()?))
}

fn parse(page: &str) -> Option<GpuUsage> {
    let values = |name: &str| -> Vec<f64> {
        let lines = page.lines().filter_map(|it| it.strip_prefix(name));
        let lines = lines.filter(|it| it.starts_with(['{', ' ']));
        lines.filter_map(|it| it.rsplit(' ').next()?.parse().ok()).collect()
    };
    let busy = values("nv_gpu_utilization");
    let memory: f64 = values("nv_gpu_memory_used_bytes").iter().sum();
    let utilization = busy.iter().sum::<f64>() / busy.len() as f64;
    (!busy.is_empty()).then_some(GpuUsage { utilization, memory: memory as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_all_gpus_and_the_sum_of_their_memory() {
        let page = "# TYPE nv_gpu_utilization gauge\n\
            nv_gpu_utilization{gpu_uuid=\"a b\"} 0.5\nnv_gpu_utilization{gpu_uuid=\"b\"} 0.25\n\
            nv_gpu_memory_total_bytes{gpu_uuid=\"a b\"} 9\n\
            nv_gpu_memory_used_bytes{gpu_uuid=\"a b\"} 1e9\nnv_gpu_memory_used_bytes{gpu_uuid=\"b\"} 5\n";
        let expected = GpuUsage { utilization: 0.375, memory: 1_000_000_005 };
        assert_eq!(parse(page), Some(expected));
        assert_eq!(parse("nv_inference_count 1\n"), None);
    }
}
