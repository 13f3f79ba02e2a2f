//! Raw configuration → [`ModelConfig`], noting everything that is wrong. The rules are Triton's.

mod cache;
pub(crate) mod ensemble;
mod ports;
mod ragged;
pub(crate) mod report;
mod scheduling;
mod sequence;
pub(crate) mod settings;
pub(crate) mod types;
pub(crate) mod unsupported;
mod warmup;

use crate::config::{
    check::{report::Report, unsupported::unsupported},
    engines::Engines,
    open_ranks::OpenRanks,
    run_limit,
};
use serving::config::{
    model::{ModelConfig, Scheduling},
    raw::ModelConfig as RawConfig,
    server_ports::ServerPorts,
};

/// Reads a completed configuration. What is at fault is noted in the report and left out of the result,
/// so that the result can still be compared with the model. `open`: the inputs and outputs of which any shape will do.
pub(crate) fn check(
    raw: &RawConfig,
    engines: &Engines,
    open: &OpenRanks,
    report: &mut Report,
) -> ModelConfig {
    unsupported(raw, &raw.backend, engines, report);
    let max_batch_size = settings::max_batch_size(raw, report);
    let mut inputs = ports::inputs(raw, report);
    let mut outputs = ports::outputs(raw, report);
    open.mark(&mut inputs, &mut outputs);
    let mut made = ServerPorts::default();
    let sequences = sequence::sequences(raw, max_batch_size, &mut made, report);
    let ragged = ragged::ragged(raw, &inputs, &mut outputs, &mut made, report);
    sequence::check_made(raw, &made, report);
    let parameters = settings::parameters(raw);
    if let Err(problem) = run_limit::of(&parameters) {
        report.problem(problem.to_string());
    }
    let engine = engines.description(&raw.backend);
    let (gpu_accelerators, cpu_accelerators) = settings::accelerators(raw, engine, report);
    ModelConfig {
        name: raw.name.clone(),
        platform: raw.platform.clone(),
        backend: raw.backend.clone(),
        version_policy: settings::version_policy(raw, report),
        max_batch_size,
        instance_groups: settings::instance_groups(raw, report),
        default_model_filename: Some(raw.default_model_filename.clone())
            .filter(|it| !it.is_empty()),
        scheduling: match sequences {
            Some(sequences) => Scheduling::Sequences(sequences),
            None => scheduling::scheduling(raw, max_batch_size, report),
        },
        parameters,
        graph_level: settings::graph_level(raw, report),
        priority: settings::priority(raw, report),
        gpu_accelerators,
        cpu_accelerators,
        warmups: warmup::warmups(raw, &inputs, max_batch_size, report),
        metric_tags: raw.metric_tags.clone(),
        histograms: settings::histograms(raw, report),
        response_cache: cache::response_cache(raw, report),
        inputs,
        outputs,
        made,
        ragged,
        graph_checks_shapes: engine.graph_checks_shapes,
        takes_missing: engine.takes_missing,
    }
}
