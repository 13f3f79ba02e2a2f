//! Everything that is neither a tensor nor a queue: versions, instances, files, the engine's settings,
//! metrics.

use std::collections::BTreeMap;

use backend::EngineDescription;

use crate::config::check::report::Report;
use inference::signature::nearest;
use schedule::ratelimit::{Limits, Need};
use serving::config::{
    model::{Accelerator, InstanceGroup, InstanceKind, Priority, VersionPolicy},
    raw::{
        ModelConfig as RawConfig, ModelRateLimiter,
        model_instance_group::Kind,
        model_metrics::metric_control::MetricOptions,
        model_optimization_policy::{
            ModelPriority, execution_accelerators::Accelerator as RawAccelerator,
        },
        model_version_policy::{Latest, PolicyChoice},
    },
};

/// The histogram whose buckets a model may choose.
pub(crate) const FIRST_RESPONSE: &str = "nv_inference_first_response_histogram_ms";
const HISTOGRAM_FAMILIES: [&str; 1] = [FIRST_RESPONSE];
const GPU_ACCELERATORS: [&str; 2] = ["cuda", "tensorrt"];
const CPU_ACCELERATORS: [&str; 1] = ["openvino"];

pub(super) fn max_batch_size(raw: &RawConfig, report: &mut Report) -> usize {
    usize::try_from(raw.max_batch_size()).unwrap_or_else(|_| {
        report.problem(format!(
            "max_batch_size is {}; expected 0 for a model without a batch dimension, or at least 1",
            raw.max_batch_size()
        ));
        0
    })
}

pub(crate) fn version_policy(raw: &RawConfig, report: &mut Report) -> VersionPolicy {
    let choice = raw.version_policy.as_ref().and_then(|it| it.policy_choice.as_ref());
    let specific = match choice {
        None | Some(PolicyChoice::Latest(Latest { num_versions: 0 })) => {
            return VersionPolicy::Latest(1);
        }
        Some(PolicyChoice::Latest(latest)) => {
            return VersionPolicy::Latest(latest.num_versions.try_into().unwrap_or(usize::MAX));
        }
        Some(PolicyChoice::All(_)) => return VersionPolicy::All,
        Some(PolicyChoice::Specific(specific)) => &specific.versions,
    };
    if specific.is_empty() {
        report.problem("version_policy.specific.versions is empty; expected at least one number");
    }
    let mut versions = Vec::with_capacity(specific.len());
    for (i, &version) in specific.iter().enumerate() {
        match u64::try_from(version) {
            Ok(version) if version >= 1 => versions.push(version),
            _ => report.problem(format!(
                "version_policy.specific.versions[{i}] is {version}; expected at least 1"
            )),
        }
    }
    versions.sort_unstable();
    versions.dedup();
    VersionPolicy::Specific(versions)
}

pub(super) fn instance_groups(raw: &RawConfig, report: &mut Report) -> Vec<InstanceGroup> {
    let groups = raw.instance_group.iter().enumerate().map(|(i, it)| {
        let place = format!("instance_group[{i}]");
        let kind = match Kind::try_from(it.kind) {
            Ok(Kind::Auto) => InstanceKind::Auto,
            Ok(Kind::Gpu) => InstanceKind::Gpu,
            Ok(Kind::Cpu) => InstanceKind::Cpu,
            Ok(Kind::Model) => InstanceKind::Model,
            Err(_) => {
                report.problem(format!(
                    "{place}: kind {} is not known; expected KIND_AUTO, KIND_GPU, KIND_CPU or \
                     KIND_MODEL",
                    it.kind
                ));
                InstanceKind::Auto
            }
        };
        if it.count < 0 {
            report.problem(format!(
                "{place}: count is {}; expected at least 1, or 0 to leave it to the server",
                it.count
            ));
        }
        if matches!(kind, InstanceKind::Cpu | InstanceKind::Model) && !it.gpus.is_empty() {
            report.problem(format!(
                "{place}: kind {} takes no gpus, given {:?}; leave them out or write KIND_GPU",
                if kind == InstanceKind::Cpu { "KIND_CPU" } else { "KIND_MODEL" },
                it.gpus
            ));
        }
        let mut gpus = Vec::with_capacity(it.gpus.len());
        for (j, &gpu) in it.gpus.iter().enumerate() {
            match u32::try_from(gpu) {
                Ok(gpu) => gpus.push(gpu),
                Err(_) => report.problem(format!(
                    "{place}: gpus[{j}] is {gpu}; expected the number of a GPU, 0 or more"
                )),
            }
        }
        InstanceGroup {
            name: it.name.clone(),
            kind,
            count: usize::try_from(it.count).ok().filter(|&it| it > 0),
            gpus,
            passive: it.passive,
            limits: it.rate_limiter.as_ref().map(|it| limits(&place, it, report)),
        }
    });
    groups.collect()
}

fn limits(place: &str, given: &ModelRateLimiter, report: &mut Report) -> Limits {
    let needs = given.resources.iter().enumerate().map(|(i, it)| {
        if it.name.is_empty() {
            report.problem(format!("{place}: rate_limiter.resources[{i}]: name is missing"));
        }
        Need { name: it.name.clone(), count: it.count.into(), global: it.global }
    });
    Limits { needs: needs.collect(), priority: given.priority }
}

pub(super) fn parameters(raw: &RawConfig) -> BTreeMap<String, String> {
    raw.parameters.iter().map(|(key, it)| (key.clone(), it.string_value.clone())).collect()
}

pub(super) fn graph_level(raw: &RawConfig, report: &mut Report) -> Option<i32> {
    let level = raw.optimization.as_ref()?.graph.as_ref()?.level;
    if !(-1..=2).contains(&level) {
        report.problem(format!(
            "optimization.graph.level is {level}; expected 0 for all optimisations, -1 for basic, \
             1 for extended or 2 for none"
        ));
    }
    Some(level)
}

/// The priority that is asked for.
///
/// # Errors
/// The number, where it is none that is known.
pub(crate) fn asked_priority(raw: &RawConfig) -> Result<Priority, i32> {
    let given = raw.optimization.as_ref().map_or(0, |it| it.priority);
    match ModelPriority::try_from(given) {
        Ok(ModelPriority::PriorityMax) => Ok(Priority::Max),
        Ok(ModelPriority::PriorityMin) => Ok(Priority::Min),
        Ok(ModelPriority::PriorityDefault) => Ok(Priority::Default),
        Err(_) => Err(given),
    }
}

pub(super) fn priority(raw: &RawConfig, report: &mut Report) -> Priority {
    asked_priority(raw).unwrap_or_else(|given| {
        report.problem(format!(
            "optimization.priority {given} is not known; expected PRIORITY_DEFAULT, PRIORITY_MAX or \
             PRIORITY_MIN"
        ));
        Priority::Default
    })
}

/// Those for GPUs and those for the CPU.
pub(super) fn accelerators(
    raw: &RawConfig,
    engine: &EngineDescription,
    report: &mut Report,
) -> (Vec<Accelerator>, Vec<Accelerator>) {
    let given = raw.optimization.as_ref().and_then(|it| it.execution_accelerators.as_ref());
    let Some(given) = given else { return (vec![], vec![]) };
    // Those for the CPU are ignored by every engine.
    if !engine.has_gpu_accelerators && !given.gpu_execution_accelerator.is_empty() {
        report.warn(format!(
            "optimization.execution_accelerators.gpu_execution_accelerator is ignored, as the backend '{}' \
             has none",
            raw.backend
        ));
    }
    let mut read = |field: &str, given: &[RawAccelerator], known: &[&str]| {
        for (i, it) in given.iter().enumerate() {
            if !known.contains(&it.name.as_str()) {
                report.problem(format!(
                    "optimization.execution_accelerators.{field}[{i}]: name '{}' is not known; \
                     expected {}",
                    it.name,
                    known.join(" or ")
                ));
            }
        }
        let read = given
            .iter()
            .map(|it| Accelerator { name: it.name.clone(), parameters: it.parameters.clone() });
        read.collect()
    };
    let gpu =
        read("gpu_execution_accelerator", &given.gpu_execution_accelerator, &GPU_ACCELERATORS);
    let cpu =
        read("cpu_execution_accelerator", &given.cpu_execution_accelerator, &CPU_ACCELERATORS);
    (gpu, cpu)
}

pub(super) fn histograms(raw: &RawConfig, report: &mut Report) -> BTreeMap<String, Vec<f64>> {
    let mut histograms = BTreeMap::new();
    let controls = raw.model_metrics.iter().flat_map(|it| &it.metric_control);
    for (i, control) in controls.enumerate() {
        let place = format!("model_metrics.metric_control[{i}]");
        let family = control.metric_identifier.as_ref().map_or("", |it| &it.family);
        if family.is_empty() {
            report.problem(format!("{place}: metric_identifier.family is missing"));
        } else if !HISTOGRAM_FAMILIES.contains(&family) {
            let hint = nearest(family, HISTOGRAM_FAMILIES)
                .map(|it| format!("; did you mean '{it}'?"))
                .unwrap_or_default();
            report.warn(format!("{place}: family '{family}' is not known and is ignored{hint}"));
        }
        let buckets = match &control.metric_options {
            Some(MetricOptions::HistogramOptions(options)) => options.buckets.as_slice(),
            None => &[],
        };
        let ascending =
            buckets.iter().all(|it| it.is_finite()) && buckets.is_sorted_by(|a, b| a < b);
        match (buckets, ascending) {
            ([], _) => report.problem(format!(
                "{place}: histogram_options.buckets is missing; expected at least one bound"
            )),
            (_, false) => report.problem(format!(
                "{place}: histogram_options.buckets are {buckets:?}; expected finite numbers, \
                 each above the one before"
            )),
            (_, true) => drop(histograms.insert(family.to_owned(), buckets.to_vec())),
        }
    }
    histograms
}
