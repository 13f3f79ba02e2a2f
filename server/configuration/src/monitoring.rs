//! The metrics as TensorFlow Serving shows them: whether, and where.

use super::{
    environment::Environment,
    sources::{Given, Origin, Sources},
    value,
};
use textproto::tensorflow::monitoring_config;

/// Where TensorFlow Serving has them.
const PATH: &str = "/monitoring/prometheus/metrics";

/// Takes in what the monitoring config file says, where nobody has said anything else.
pub(super) fn offer(
    sources: &mut Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) {
    let Some(file) = sources.read("monitoring-config-file", value::path, problems) else { return };
    let shown = file.display().to_string();
    let read = environment.text_of(&file).map_err(|it| format!("cannot read {shown}: {it}"));
    let config = read.and_then(|it| monitoring_config(&shown, &it).map_err(|it| it.to_string()));
    let prometheus = match config {
        Ok(config) => config.prometheus_config.unwrap_or_default(),
        Err(problem) => return problems.push(format!("--monitoring-config-file: {problem}")),
    };
    let given = |name, field: &str, text: String| Given {
        name,
        origin: Origin::Other(format!("prometheus_config.{field} '{text}' of {shown}")),
        text,
    };
    let mut all = vec![given("tfs-metrics", "enable", prometheus.enable.to_string())];
    if !prometheus.path.is_empty() {
        all.push(given("tfs-metrics-path", "path", prometheus.path));
    }
    sources.offer(all);
}

/// The path of the metrics as TensorFlow Serving shows them; `None` where they are not shown.
pub(super) fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<String> {
    let path = sources.read("tfs-metrics-path", path, problems).unwrap_or_else(|| PATH.to_owned());
    let is_on = sources.read("tfs-metrics", value::boolean, problems).unwrap_or(false);
    is_on.then_some(path)
}

fn path(text: &str) -> value::Parse<String> {
    let plain = |it: u8| it.is_ascii_graphic() && !b"?#%".contains(&it);
    let is_path = text.starts_with('/') && text.len() > 1 && text.bytes().all(plain);
    match is_path && !text.ends_with('/') {
        true => Ok(text.to_owned()),
        false => Err("a path that begins with '/' and does not end with one".to_owned()),
    }
}
