//! What muster does not do: refused where a model would behave differently, else ignored with a warning.

use crate::config::{check::report::Report, engines::Engines};
use serving::config::raw::{
    ModelConfig as RawConfig, ModelInstanceGroup, model_config::SchedulingChoice,
};

/// Notes every field whose function is not there. `backend` is the engine's name.
pub(crate) fn unsupported(raw: &RawConfig, backend: &str, engines: &Engines, report: &mut Report) {
    let scheduling = raw.scheduling_choice.as_ref();
    let is_decoupled = raw.model_transaction_policy.is_some_and(|it| it.decoupled);
    // An ensemble is what its members are.
    if is_decoupled && raw.platform != "ensemble" && !engines.description(backend).streams {
        let who = match backend {
            "" => "the model".to_owned(),
            name => format!("the backend '{name}'"),
        };
        report.problem(format!(
            "model_transaction_policy {{ decoupled: true }} is not supported: {who} gives each request one answer"
        ));
    }
    if let Some(SchedulingChoice::SequenceBatching(given)) = scheduling
        && given.iterative_sequence
        && !engines.description(backend).puts_back
    {
        report.problem(format!(
            "sequence_batching.iterative_sequence is not supported: it is for backends that put a request back into \
             the queue, and the backend '{backend}' does not"
        ));
    }
    if matches!(scheduling, Some(SchedulingChoice::EnsembleScheduling(_)))
        && raw.platform != "ensemble"
    {
        report.problem(format!(
            "ensemble_scheduling needs platform: \"ensemble\" and no backend; given platform '{}' and \
             backend '{}'",
            raw.platform, raw.backend
        ));
    }
    if let Some(plugin) = raw.parameters.get("TRITON_BATCH_STRATEGY_PATH") {
        report.problem(format!(
            "parameter TRITON_BATCH_STRATEGY_PATH: the batching plug-in '{}' is not supported",
            plugin.string_value
        ));
    }
    let library = format!("libtriton_{}.so", backend);
    if !raw.runtime.is_empty() && raw.runtime != library {
        report.problem(format!(
            "runtime '{}' is not supported; expected nothing, or '{library}'",
            raw.runtime
        ));
    }
    for (i, group) in raw.instance_group.iter().enumerate() {
        instance_group(i, group, report);
    }
    let libraries = raw.model_operations.iter().any(|it| !it.op_library_filename.is_empty());
    if libraries && !engines.description(backend).has_op_libraries {
        report.problem(format!(
            "model_operations.op_library_filename: the backend '{backend}' takes no operators from libraries; only \
             {} does",
            engines.with_op_libraries().join(", ")
        ));
    }
    optimization(raw, report);
}

fn instance_group(index: usize, group: &ModelInstanceGroup, report: &mut Report) {
    let place = format!("instance_group[{index}]");
    if !group.secondary_devices.is_empty() {
        report.problem(format!("{place}: secondary_devices is not supported"));
    }
    if group.passive {
        report.warn(format!(
            "{place}: it is passive, so no instances of it are made, but a model in a process of its own has another \
             one ready"
        ));
    }
    let ignored =
        [("host_policy", !group.host_policy.is_empty()), ("profile", !group.profile.is_empty())];
    for (field, _) in ignored.iter().filter(|(_, given)| *given) {
        report.warn(format!("{place}: {field} is ignored"));
    }
}

fn optimization(raw: &RawConfig, report: &mut Report) {
    let Some(given) = &raw.optimization else { return };
    let ignored = [
        ("cuda", given.cuda.is_some()),
        // Its default is true: a configuration that was asked for and sent back has it.
        ("input_pinned_memory", given.input_pinned_memory.is_some_and(|it| !it.enable)),
        ("output_pinned_memory", given.output_pinned_memory.is_some_and(|it| !it.enable)),
        ("gather_kernel_buffer_threshold", given.gather_kernel_buffer_threshold != 0),
        ("eager_batching", given.eager_batching),
        (
            "execution_accelerators.cpu_execution_accelerator",
            given
                .execution_accelerators
                .as_ref()
                .is_some_and(|it| !it.cpu_execution_accelerator.is_empty()),
        ),
    ];
    let ignored: Vec<String> = ignored
        .iter()
        .filter(|(_, given)| *given)
        .map(|(field, _)| format!("optimization.{field}"))
        .collect();
    match ignored.as_slice() {
        [] => {}
        [one] => report.warn(format!("{one} is ignored")),
        several => report.warn(format!("ignored: {}", several.join(", "))),
    }
}
