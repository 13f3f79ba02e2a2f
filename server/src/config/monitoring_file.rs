//! A monitoring config file of TensorFlow Serving → whether and where metrics are shown with its names.

use configuration::{Environment, Flag, Given, Origin, Sources, value};
use textproto::tensorflow::monitoring_config;

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("monitoring-config-file", "", "File in the text format of protobufs that says both: prometheus_config { enable: true path: \"/metrics\" }").named("FILE"),
];

/// Offers the content of the monitoring config file as defaults of the settings.
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
    let given = |name, field: &str, text: String| {
        let origin = Origin::Other(format!("prometheus_config.{field} '{text}' of {shown}"));
        Given::new(name, text, origin)
    };
    let mut all = vec![given("tfs-metrics", "enable", prometheus.enable.to_string())];
    if !prometheus.path.is_empty() {
        all.push(given("tfs-metrics-path", "path", prometheus.path));
    }
    sources.offer(all);
}
