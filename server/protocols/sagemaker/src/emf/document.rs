//! The lines: JSON in CloudWatch's embedded metric format, with the names and units of SageMaker's own metrics. Pure.
//! Source:
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.

use serde_json::{Map, Value, json};

use crate::emf::window::Window;

/// One metric of a line.
struct Metric {
    name: &'static str,
    unit: &'static str,
    value: Value,
}

fn count(name: &'static str, value: u64) -> Metric {
    Metric { name, unit: "Count", value: value.into() }
}

/// The use of the process and of the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Usage {
    /// Percent of one processor's time; two busy processors are 200.
    pub(super) cpu_percent: Option<f64>,
    /// Percent of the memory that the process may use.
    pub(super) memory_percent: Option<f64>,
    /// Percent of the file system at the root.
    pub(super) disk_percent: Option<f64>,
    /// Summed over all GPUs.
    pub(super) gpu_percent: Option<f64>,
    pub(super) gpu_memory_percent: Option<f64>,
    /// Models that serve.
    pub(super) models: u64,
    /// Microseconds from the start of the process until it was ready; only in the first lines after that.
    pub(super) setup: Option<u64>,
    /// Microseconds that each load took, and that each unload took.
    pub(super) loads: Vec<u64>,
    pub(super) unloads: Vec<u64>,
}

/// The line of one model, with its line break. `at` is in milliseconds since 1970.
pub(super) fn of_model(namespace: &str, at: u64, model: &str, window: &Window) -> String {
    let mut metrics = vec![
        count("Invocations", window.invocations),
        count("Invocation4XXErrors", window.client_errors),
        count("Invocation5XXErrors", window.server_errors),
        count("InvocationModelErrors", window.model_errors),
        count("ConcurrentRequestsPerModel", window.most_in_flight),
    ];
    if !window.latency.values.is_empty() {
        metrics.push(times("ModelLatency", &window.latency.values));
    }
    line(namespace, at, Some(model), metrics)
}

/// The line of the process, with its line break.
pub(super) fn of_process(namespace: &str, at: u64, usage: &Usage) -> String {
    let percents = [
        ("CPUUtilization", usage.cpu_percent),
        ("MemoryUtilization", usage.memory_percent),
        ("DiskUtilization", usage.disk_percent),
        ("GPUUtilization", usage.gpu_percent),
        ("GPUMemoryUtilization", usage.gpu_memory_percent),
    ];
    // Two decimals: these numbers are not more exact.
    let percent = |(name, value): (_, Option<f64>)| {
        let value = (value? * 100.0).round() / 100.0;
        Some(Metric { name, unit: "Percent", value: value.into() })
    };
    let mut metrics: Vec<Metric> = percents.into_iter().filter_map(percent).collect();
    metrics.push(count("LoadedModelCount", usage.models));
    let setup: Vec<u64> = usage.setup.into_iter().collect();
    let spent = [
        ("ModelSetupTime", &setup),
        ("ModelLoadingTime", &usage.loads),
        ("ModelUnloadingTime", &usage.unloads),
    ];
    metrics.extend(spent.iter().filter(|it| !it.1.is_empty()).map(|(name, all)| times(name, all)));
    line(namespace, at, None, metrics)
}

fn times(name: &'static str, values: &[u64]) -> Metric {
    Metric { name, unit: "Microseconds", value: json!(values) }
}

fn line(namespace: &str, at: u64, model: Option<&str>, metrics: Vec<Metric>) -> String {
    let named = |it: &Metric| json!({ "Name": it.name, "Unit": it.unit });
    let dimensions: Vec<&str> = model.map(|_| "Model").into_iter().collect();
    let directive = json!({
        "Namespace": namespace,
        "Dimensions": [dimensions],
        "Metrics": metrics.iter().map(named).collect::<Vec<_>>(),
    });
    let mut members = Map::new();
    members.insert("_aws".to_owned(), json!({ "Timestamp": at, "CloudWatchMetrics": [directive] }));
    members.extend(model.map(|it| ("Model".to_owned(), Value::from(it))));
    members.extend(metrics.into_iter().map(|it| (it.name.to_owned(), it.value)));
    format!("{}\n", Value::Object(members))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parsed(line: &str) -> Value {
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_models_line_names_each_metric_and_has_its_value() {
        let mut window = Window::default();
        for status in [200, 503] {
            window.begin();
            window.end(Some(status), Duration::from_micros(812));
        }
        let line = parsed(&of_model("muster", 1_700_000_000_000, "resnet", &window));
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(line["_aws"]["Timestamp"], 1_700_000_000_000_u64);
        assert_eq!(directive["Namespace"], "muster");
        assert_eq!(directive["Dimensions"], json!([["Model"]]));
        assert_eq!(line["Model"], "resnet");
        assert_eq!(line["ModelLatency"], json!([812, 812]));
        assert_eq!((&line["Invocations"], &line["Invocation5XXErrors"]), (&json!(2), &json!(1)));
        for metric in directive["Metrics"].as_array().unwrap() {
            assert!(line.get(metric["Name"].as_str().unwrap()).is_some(), "{metric}");
        }
        let latency = json!({ "Name": "ModelLatency", "Unit": "Microseconds" });
        assert!(directive["Metrics"].as_array().unwrap().contains(&latency));
    }

    #[test]
    fn the_processs_line_has_what_is_known_and_no_dimension() {
        let usage =
            Usage { cpu_percent: Some(150.004), models: 3, loads: vec![7], ..Usage::default() };
        let line = parsed(&of_process("ns", 1, &usage));
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([[]]));
        assert_eq!(line["CPUUtilization"], 150.0);
        assert_eq!(line["LoadedModelCount"], 3);
        assert_eq!(line["ModelLoadingTime"], json!([7]));
        assert!(line.get("GPUUtilization").is_none() && line.get("ModelSetupTime").is_none());
    }
}
