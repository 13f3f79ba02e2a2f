//! An ensemble compared with its members: do names, types, shapes and batches agree, and what goes where?
//! Pure.

use std::{collections::BTreeMap, sync::Arc};

use backend::DataType;

use crate::config::{
    ensemble::EnsembleConfig,
    model::{ModelConfig, PortConfig},
};
use inference::signature::{Port, Signature, nearest};

/// What goes where. Tensors are numbers, from 0 to `tensors`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How often each tensor is read: once by each input of a step, and once where it is an output of the ensemble.
    pub readers: Vec<usize>,
    /// The ensemble's inputs and their tensors.
    pub inputs: Vec<(Arc<str>, usize)>,
    /// The ensemble's outputs.
    pub outputs: Vec<Edge>,
    /// In the order of the configuration.
    pub steps: Vec<PlannedStep>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    /// What the member gets.
    pub inputs: Vec<Edge>,
    /// What comes out of it.
    pub outputs: Vec<Source>,
    /// Does every request need it, whatever outputs it asks for?
    pub is_always_needed: bool,
}

/// A tensor on its way to an input of a step or to an output of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Name of the input or output.
    pub name: Arc<str>,
    /// The tensor.
    pub tensor: usize,
    /// Dimensions that it has there, the batch included. One more or less than it has where one side has a batch
    /// dimension and the other has none: then it is a batch of one row. `None` where any number will do.
    pub rank: Option<usize>,
}

/// A tensor that an output of a step becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Name of the member's output.
    pub name: Arc<str>,
    /// The tensor.
    pub tensor: usize,
}

/// One end of a tensor: what it is, and where that is from.
struct End {
    description: String,
    dtype: DataType,
    batches: bool,
    dims: Vec<Option<usize>>,
    any_rank: bool,
    optional: bool,
}

impl End {
    fn of_port(description: String, port: &Port, batches: bool) -> End {
        End {
            description,
            dtype: port.dtype,
            batches,
            dims: port.dims.clone(),
            any_rank: port.any_rank,
            optional: port.optional,
        }
    }

    fn of_outer(description: String, port: &PortConfig, outer: &ModelConfig) -> End {
        End {
            description,
            dtype: port.dtype,
            batches: outer.max_batch_size > 0,
            dims: port.engine_dims().to_vec(),
            any_rank: port.any_rank,
            optional: port.optional,
        }
    }

    /// Dimensions, the batch included.
    fn full(&self) -> Vec<Option<usize>> {
        self.batches.then_some(None).into_iter().chain(self.dims.iter().copied()).collect()
    }

    fn text(&self) -> String {
        let full = self.full();
        let dims = full.iter().map(|it| it.map_or("-1".to_owned(), |size| size.to_string()));
        format!("{} [{}]", self.dtype, dims.collect::<Vec<_>>().join(","))
    }

    /// Can the tensor that leaves here arrive at `other`? Where one side alone has a batch dimension it may also be a
    /// batch of one row.
    fn agrees(&self, other: &End) -> bool {
        let fits = |a: &[Option<usize>], b: &[Option<usize>]| {
            let same =
                |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || b.is_none() || a == b;
            a.len() == b.len() && a.iter().zip(b).all(same)
        };
        let one_row = self.batches != other.batches && fits(&self.dims, &other.dims);
        let is_open = self.any_rank || other.any_rank;
        self.dtype == other.dtype && (is_open || fits(&self.full(), &other.full()) || one_row)
    }
}

/// Compares and plans. `members` are the signatures of the steps' models, in their order; `outer` is the ensemble's
/// own configuration.
///
/// # Errors
/// Everything that does not fit; each names the step and both sides.
pub fn compile(
    config: &EnsembleConfig,
    outer: &ModelConfig,
    members: &[&Signature],
) -> Result<Plan, Vec<String>> {
    let mut problems = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sources: Vec<End> = Vec::new();
    let mut inputs = Vec::new();
    for port in &outer.inputs {
        inputs.push((port.name.clone(), sources.len()));
        numbers.insert(&port.name, sources.len());
        let description = format!("input '{}' of the ensemble", port.name);
        sources.push(End::of_outer(description, port, outer));
    }
    let places = || config.steps.iter().zip(members).enumerate();
    let mut yields: Vec<Vec<Source>> = Vec::new();
    for (i, (step, member)) in places() {
        let mut outputs = Vec::new();
        for (name, tensor) in &step.outputs {
            let Some(port) = member.output(name) else {
                problems.push(unknown(i, member, "output", name, &member.outputs));
                continue;
            };
            outputs.push(Source { name: port.name.clone(), tensor: sources.len() });
            numbers.insert(tensor, sources.len());
            let description = format!("output '{name}' of {}", place(i, member));
            sources.push(End::of_port(description, port, member.batches()));
        }
        yields.push(outputs);
    }
    let mut readers = vec![0; sources.len()];
    let mut edge = |tensor: &str, name: &Arc<str>, end: &End, problems: &mut Vec<String>| {
        // A tensor without a source: what should write it has been noted.
        let number = *numbers.get(tensor)?;
        let source = sources.get(number)?;
        if !source.agrees(end) {
            problems.push(format!(
                "{} takes {}, but tensor '{tensor}', {}, is {}",
                end.description,
                end.text(),
                source.description,
                source.text()
            ));
        }
        if source.optional && !end.optional {
            problems.push(format!(
                "{} must be given, but tensor '{tensor}', {}, is optional",
                end.description, source.description
            ));
        }
        *readers.get_mut(number)? += 1;
        Some(Edge {
            name: name.clone(),
            tensor: number,
            rank: (!end.any_rank).then(|| end.full().len()),
        })
    };
    let mut steps = Vec::new();
    for ((i, (step, member)), outputs) in places().zip(yields) {
        let mut inputs = Vec::new();
        for (name, tensor) in &step.inputs {
            let Some(port) = member.input(name) else {
                problems.push(unknown(i, member, "input", name, &member.inputs));
                continue;
            };
            let description = format!("input '{name}' of {}", place(i, member));
            let end = End::of_port(description, port, member.batches());
            inputs.extend(edge(tensor, &port.name, &end, &mut problems));
        }
        for port in member.inputs.iter().filter(|it| !it.optional) {
            if !step.inputs.iter().any(|(name, _)| *name == port.name) {
                problems.push(format!(
                    "{}: its input '{}' is not in input_map, and is not optional",
                    place(i, member),
                    port.name
                ));
            }
        }
        steps.push(PlannedStep { inputs, outputs, is_always_needed: false });
    }
    let mut outputs = Vec::new();
    for port in &outer.outputs {
        let description = format!("output '{}' of the ensemble", port.name);
        let end = End::of_outer(description, port, outer);
        // Nothing that may be missing is written by a step.
        outputs.extend(edge(&port.name, &port.name, &end, &mut problems));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut plan = Plan { readers, inputs, outputs, steps };
    let needed: Vec<Vec<bool>> =
        plan.outputs.iter().map(|it| plan.needed_steps(std::iter::once(it.tensor))).collect();
    for (i, step) in plan.steps.iter_mut().enumerate() {
        step.is_always_needed = needed.iter().all(|it| it.get(i) == Some(&true));
    }
    Ok(plan)
}

impl Plan {
    /// The member's port that an output of the ensemble is, by the name of the output. `members` are those that the
    /// plan was made with.
    pub fn made_by<'a>(&self, output: &str, members: &[&'a Signature]) -> Option<&'a Port> {
        let tensor = self.outputs.iter().find(|it| &*it.name == output)?.tensor;
        self.steps.iter().zip(members).find_map(|(step, member)| {
            let source = step.outputs.iter().find(|it| it.tensor == tensor)?;
            member.output(&source.name)
        })
    }

    /// Does a step need what the other one gives?
    pub fn depends(&self, step: usize, other: usize) -> bool {
        let inputs = self.steps.get(step).into_iter().flat_map(|it| &it.inputs);
        self.needed_steps(inputs.map(|it| it.tensor)).get(other) == Some(&true)
    }

    /// For each step: is it needed for any of these tensors?
    pub fn needed_steps(&self, tensors: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut needed = vec![false; self.steps.len()];
        let mut open: Vec<usize> = tensors.into_iter().collect();
        while let Some(tensor) = open.pop() {
            let writes = |it: &PlannedStep| it.outputs.iter().any(|it| it.tensor == tensor);
            let Some(at) = self.steps.iter().position(writes) else { continue };
            if let Some(step) = self.steps.get(at)
                && let Some(needed) = needed.get_mut(at)
                && !std::mem::replace(needed, true)
            {
                open.extend(step.inputs.iter().map(|it| it.tensor));
            }
        }
        needed
    }
}

fn place(step: usize, member: &Signature) -> String {
    format!("step[{step}] ('{}')", member.model)
}

fn unknown(step: usize, member: &Signature, what: &str, name: &str, ports: &[Port]) -> String {
    let names: Vec<&str> = ports.iter().map(|it| &*it.name).collect();
    let hint = nearest(name, names.iter().copied());
    let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
    let place = place(step, member);
    format!("{place}: the model has no {what} '{name}'; it has: {}{hint}", names.join(", "))
}
