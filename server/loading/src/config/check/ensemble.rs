//! `ensemble_scheduling` in itself: its steps, and the tensors that go from one to the next. What the members
//! must have in common with it is in `ensemble/plan.rs`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use backend::RerunPolicy;

use crate::config::{check::report::Report, run_limit};
use inference::signature::nearest;
use serving::config::{
    ensemble::{EnsembleConfig, StepConfig},
    model::PortConfig,
    raw::{ModelConfig as RawConfig, ModelEnsembling, model_config::SchedulingChoice},
};

/// Reads the steps, noting everything that is wrong with them. `inputs` and `outputs` are the ensemble's own.
pub(crate) fn ensemble(
    raw: &RawConfig,
    inputs: &[PortConfig],
    outputs: &[PortConfig],
    report: &mut Report,
) -> EnsembleConfig {
    if !raw.backend.is_empty() {
        report.problem(format!(
            "platform 'ensemble' goes with no backend, given '{}'; leave it out",
            raw.backend
        ));
    }
    let has_run_limit = raw.parameters.keys().any(|it| run_limit::is_parameter(it));
    let run_limit = format!("parameter {}", run_limit::PARAMETER);
    let has_rerun = raw.parameters.keys().any(|it| RerunPolicy::is_parameter(it));
    let rerun = format!("parameter {}", RerunPolicy::PARAMETER);
    let foreign = [
        ("instance_group", !raw.instance_group.is_empty(), "its members have instances"),
        ("optimization", raw.optimization.is_some(), "its members are optimized"),
        ("model_warmup", !raw.model_warmup.is_empty(), "its members are warmed up"),
        (&*run_limit, has_run_limit, "the runs of its members have limits"),
        (&*rerun, has_rerun, "its members say whether their runs may be made again"),
    ];
    for (field, _, why) in foreign.iter().filter(|(_, given, _)| *given) {
        report.problem(format!("an ensemble takes no {field}: {why}"));
    }
    for (field, missing) in [("input", inputs.is_empty()), ("output", outputs.is_empty())] {
        if missing {
            report.problem(format!("an ensemble needs at least one {field}"));
        }
    }
    let Some(SchedulingChoice::EnsembleScheduling(given)) = &raw.scheduling_choice else {
        report.problem(
            "platform 'ensemble' needs ensemble_scheduling { step [ { model_name: \"..\" \
             model_version: -1 input_map { .. } output_map { .. } } ] }",
        );
        return EnsembleConfig::default();
    };
    let config = steps(&raw.name, given, report);
    if report.problems.is_empty() {
        Tensors::of(&config, inputs).check(outputs, report);
    }
    config
}

fn steps(name: &str, given: &ModelEnsembling, report: &mut Report) -> EnsembleConfig {
    if given.step.is_empty() {
        report.problem("ensemble_scheduling has no step; expected at least one");
    }
    let steps = given.step.iter().enumerate().map(|(i, it)| {
        let place = format!("ensemble_scheduling.step[{i}]");
        let missing = [
            ("model_name", it.model_name.is_empty()),
            ("input_map", it.input_map.is_empty()),
            ("output_map", it.output_map.is_empty()),
        ];
        for (field, _) in missing.iter().filter(|(_, missing)| *missing) {
            report.problem(format!("{place}: {field} is missing"));
        }
        if it.model_name == name {
            report.problem(format!("{place}: model_name '{name}' is the ensemble itself"));
        }
        if it.model_version < -1 {
            report.problem(format!(
                "{place}: model_version is {}; expected a version, or -1 for the latest",
                it.model_version
            ));
        }
        for (field, map) in [("input_map", &it.input_map), ("output_map", &it.output_map)] {
            for (key, _) in map.iter().filter(|(key, value)| key.is_empty() || value.is_empty()) {
                report.problem(format!(
                    "{place}: {field} has key '{key}' and value '{}'; neither may be empty",
                    map.get(key).map_or("", |it| it)
                ));
            }
        }
        if !it.model_namespace.is_empty() {
            report.warn(format!("{place}: model_namespace is ignored"));
        }
        let map = |it: &BTreeMap<String, String>| {
            it.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
        };
        StepConfig {
            model: it.model_name.as_str().into(),
            // No version is 0: a field that was left out.
            version: u64::try_from(it.model_version).ok().filter(|it| *it > 0),
            inputs: map(&it.input_map),
            outputs: map(&it.output_map),
        }
    });
    let steps = steps.collect();
    EnsembleConfig { steps, max_inflight: given.max_inflight_requests as usize }
}

/// Who writes a tensor: an input of the ensemble, or an output of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer<'a> {
    Input(&'a str),
    Step(usize, &'a str),
}

/// The tensors of an ensemble, by name.
struct Tensors<'a> {
    config: &'a EnsembleConfig,
    /// More than one writer is a mistake.
    writers: BTreeMap<&'a str, Vec<Writer<'a>>>,
    /// The steps that read a tensor.
    readers: BTreeMap<&'a str, BTreeSet<usize>>,
}

impl<'a> Tensors<'a> {
    fn of(config: &'a EnsembleConfig, inputs: &'a [PortConfig]) -> Tensors<'a> {
        let mut writers: BTreeMap<&str, Vec<Writer<'_>>> = BTreeMap::new();
        let mut readers: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for input in inputs {
            writers.entry(&input.name).or_default().push(Writer::Input(&input.name));
        }
        for (i, step) in config.steps.iter().enumerate() {
            for (name, tensor) in &step.outputs {
                writers.entry(tensor).or_default().push(Writer::Step(i, name));
            }
            for (_, tensor) in &step.inputs {
                readers.entry(tensor).or_default().insert(i);
            }
        }
        Tensors { config, writers, readers }
    }

    fn check(&self, outputs: &[PortConfig], report: &mut Report) {
        for (tensor, writers) in self.writers.iter().filter(|(_, it)| 1 < it.len()) {
            let writers: Vec<String> = writers.iter().map(|it| self.writer_text(*it)).collect();
            report.problem(format!(
                "tensor '{tensor}' is written more than once: by {}",
                writers.join(" and by ")
            ));
        }
        for (tensor, readers) in &self.readers {
            if self.writers.contains_key(tensor) {
                continue;
            }
            let readers: Vec<String> = readers.iter().map(|it| self.step_text(*it)).collect();
            let hint = nearest(tensor, self.writers.keys().copied())
                .map(|it| format!("; did you mean '{it}'?"))
                .unwrap_or_default();
            report.problem(format!(
                "tensor '{tensor}', read by {}, is neither an input of the ensemble nor written by a \
                 step{hint}",
                readers.join(" and ")
            ));
        }
        for output in outputs {
            let writers = self.writers.get(&*output.name).map_or(&[][..], |it| it);
            if !writers.iter().any(|it| matches!(it, Writer::Step(..))) {
                report.problem(format!(
                    "output '{}' is written by no step: no output_map has it as a value",
                    output.name
                ));
            }
        }
        for (tensor, writers) in &self.writers {
            let is_output = outputs.iter().any(|it| &*it.name == *tensor);
            if self.readers.contains_key(tensor) || is_output {
                continue;
            }
            for writer in writers {
                report.problem(match writer {
                    Writer::Input(name) => format!("input '{name}' is used by no step"),
                    Writer::Step(..) => format!(
                        "tensor '{tensor}', written by {}, is not used; leave it out of output_map",
                        self.writer_text(*writer)
                    ),
                });
            }
        }
        if let Some(path) = self.cycle() {
            report.problem(format!("the steps wait for each other: {path}"));
        }
    }

    /// A way along tensors from a step back to itself, as text.
    fn cycle(&self) -> Option<String> {
        // A step is taken away once nothing that it reads comes from one that is left; on what stays, every
        // step waits for another, so walking back along the first such tensor must close a circle.
        let mut left: BTreeSet<usize> = (0..self.config.steps.len()).collect();
        loop {
            let ready: Vec<usize> =
                left.iter().copied().filter(|it| self.waits_for(*it, &left).is_none()).collect();
            if ready.is_empty() {
                break;
            }
            left.retain(|it| !ready.contains(it));
        }
        let mut step = *left.first()?;
        let mut path: Vec<(usize, &str)> = Vec::new();
        while !path.iter().any(|(it, _)| *it == step) {
            let (before, tensor) = self.waits_for(step, &left)?;
            path.push((step, tensor));
            step = before;
        }
        let from = path.iter().position(|(it, _)| *it == step)?;
        let mut text = self.step_text(step);
        for (step, tensor) in path.get(from..)?.iter().rev() {
            text.push_str(&format!(" -> '{tensor}' -> {}", self.step_text(*step)));
        }
        Some(text)
    }

    /// Another step among these that writes something that this one reads, and what.
    fn waits_for(&self, step: usize, left: &BTreeSet<usize>) -> Option<(usize, &'a str)> {
        let inputs = &self.config.steps.get(step)?.inputs;
        inputs.iter().find_map(|(_, tensor)| {
            let writers = self.writers.get(&**tensor)?;
            writers.iter().find_map(|it| match it {
                Writer::Step(step, _) if left.contains(step) => Some((*step, &**tensor)),
                _ => None,
            })
        })
    }

    fn writer_text(&self, writer: Writer<'_>) -> String {
        match writer {
            Writer::Input(name) => format!("input '{name}' of the ensemble"),
            Writer::Step(step, output) => format!("output '{output}' of {}", self.step_text(step)),
        }
    }

    fn step_text(&self, step: usize) -> String {
        let model = self.config.steps.get(step).map_or("", |it| &*it.model);
        format!("step[{step}] ('{model}')")
    }
}
