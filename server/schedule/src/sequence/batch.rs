//! One run of requests that belong to sequences: their inputs, the controls and the states in rows; and back.

use std::{
    hash::{BuildHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{
    BackendError, Batch, CallAnswer, DataType, Instance, NamedTensor, RerunPolicy, RunTerms, Shape,
    Stop, Tensor,
};
use bytes::Bytes;

use super::{
    calls::{self, Share},
    row::{Ran, Row},
    settings::{Flag, IdType, ImplicitState, Signal, Wiring},
    table::CarriedState,
};
use crate::{
    merge::other_rows,
    rerun::{Attempt, Attempts, Repeat, Standing, Wish, in_halves},
    slot::{Missed, Slot},
    work::{Done, Work},
};
use inference::{error::Error, request::SequenceId, timings::Timings};

/// How a batch may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunMode {
    /// Where requests stand.
    pub rows: Rows,
    /// May requests be run again?
    pub rerun: RerunPolicy,
    /// Is each request answered by itself, by the model's own code?
    pub answers_calls: bool,
    /// Does the engine keep something of a run for the next one? Then no run that failed is made again, as it may have
    /// changed that.
    pub keeps_state: bool,
}

/// Where the requests of a batch stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Each keeps its row; the others are marked as empty.
    Fixed,
    /// One below the other.
    Free,
}

/// Runs the requests in these rows, which agree in all shapes, and returns one answer for each that is there. A
/// batch that fails is run again in halves, if it may be, so that only the culprit gets the error.
pub(super) fn run(
    slot: &mut Slot,
    wiring: &Wiring,
    rows: &[Option<Row<'_>>],
    mode: RunMode,
    stop: &Stop,
    observe: &mut dyn FnMut(&Timings),
) -> Attempts<Ran> {
    let places: Vec<usize> = (0..rows.len()).filter(|it| rows[*it].is_some()).collect();
    let Attempts { answers, reruns, killers, moved } = in_halves(
        &places,
        // What a sequence has left behind is on its instance.
        Standing::default(),
        // Whoever has left: those that follow go on from what the run leaves behind.
        &|_| Wish::Until(None),
        |failure| match Repeat::after(failure, mode.rerun, stop) {
            Repeat::Yes if mode.keeps_state => Repeat::Late,
            repeat => repeat,
        },
        |Attempt { items: group, alone, .. }| {
            let terms = RunTerms { alone, requests: group.len(), wide: false };
            let masked: Vec<Option<Row<'_>>> = match mode.rows {
                Rows::Fixed => {
                    let last = group.last().map_or(0, |it| it + 1);
                    (0..last).map(|it| rows[it].filter(|_| group.contains(&it))).collect()
                }
                Rows::Free => group.iter().map(|it| rows[*it]).collect(),
            };
            slot.call(terms, Missed::Waits, stop, |instance| {
                execute(instance, wiring, (&masked, mode.answers_calls), stop, observe)
            })
        },
    );
    // A request that its model has refused is answered.
    let answers = answers.into_iter().map(Result::flatten).collect();
    Attempts { answers, reruns, killers, moved }
}

fn execute(
    instance: &mut dyn Instance,
    wiring: &Wiring,
    (rows, answers_calls): (&[Option<Row<'_>>], bool),
    stop: &Stop,
    observe: &mut dyn FnMut(&Timings),
) -> Result<Vec<Result<Ran, Error>>, BackendError> {
    let started = Instant::now();
    let inputs = wiring.inputs(rows)?;
    let outputs = wiring.outputs(rows);
    let running = Instant::now();
    // Not stopped when its client leaves: the state after this run is that of a sequence.
    let batch = Batch { signature: 0, inputs: &inputs, outputs: &outputs, rows: rows.len(), stop };
    let (shares, ran) = match answers_calls {
        false => {
            let results = instance.execute(&batch)?;
            let ran = Instant::now();
            (wiring.shares(&results, rows)?, ran)
        }
        true => {
            let wanted: Vec<_> =
                rows.iter().map(|it| wiring.outputs(std::slice::from_ref(it))).collect();
            let answers = instance.execute_calls(&batch, &calls::calls(rows, &wanted))?;
            let ran = Instant::now();
            (calls::shares(wiring, rows, answers)?, ran)
        }
    };
    let timings = Timings {
        started,
        queue: Duration::ZERO,
        prepare: Duration::ZERO,
        rows: Duration::ZERO,
        input: running - started,
        infer: ran - running,
        output: ran.elapsed(),
        // Those without a request, too: the engine has run them.
        batch_rows: rows.len(),
        turn: instance.last_turn(),
    };
    observe(&timings);
    let ran = |(answer, carried)| {
        let CallAnswer { outputs, parameters, again } = answer;
        Ran { done: Done { outputs, parameters, timings, again }, carried }
    };
    Ok(shares.into_iter().map(|it| it.map(ran)).collect())
}

/// A tensor that is carried does not keep those of other sequences in memory.
fn alone(tensor: Tensor, rows: usize) -> Tensor {
    if rows == 1 {
        return tensor;
    }
    let bytes = Bytes::copy_from_slice(&tensor.to_bytes());
    Tensor::new(tensor.dtype(), tensor.shape().clone(), bytes).unwrap_or(tensor)
}

impl Wiring {
    /// What the first request of a sequence gets for states: a hash of the shapes.
    pub(super) fn initial_key(&self) -> u64 {
        let tensors: Vec<Tensor> = self.states.iter().map(|it| it.initial.clone()).collect();
        self.shapes_key(&tensors)
    }

    /// A hash of these shapes, which no client can find another shape for.
    fn shapes_key(&self, tensors: &[Tensor]) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        tensors.iter().for_each(|it| it.shape().hash(&mut hasher));
        hasher.finish()
    }

    /// The inputs of one request that is a whole sequence, each of its rows: what warming up runs.
    ///
    /// # Errors
    /// When the request's rows cannot be split.
    pub fn whole_sequence(&self, work: &Work) -> Result<Vec<NamedTensor>, BackendError> {
        let rows = if self.batches { work.rows } else { 1 };
        let works = (0..rows).map(|row| {
            let cut = |it: &NamedTensor| match self.batches {
                true => Some(NamedTensor {
                    name: it.name.clone(),
                    tensor: it.tensor.slice_rows(row, 1)?,
                }),
                false => Some(it.clone()),
            };
            let inputs = work.inputs.iter().map(cut).collect::<Option<_>>();
            let inputs = inputs.ok_or_else(|| failed("a request has fewer rows than it says"))?;
            Ok(Work {
                about: None,
                parts: None,
                signature: 0,
                inputs,
                outputs: work.outputs.clone(),
                rows: 1,
            })
        });
        let works: Vec<Work> = works.collect::<Result<_, BackendError>>()?;
        let is_text = self.controls.iter().any(|it| it.signal == Signal::Id(IdType::Text));
        let id = if is_text { SequenceId::Text("1".into()) } else { SequenceId::Number(1) };
        let row = |work| Some(Row { work, id: &id, start: true, end: true, carried: None });
        let rows: Vec<Option<Row<'_>>> = works.iter().map(row).collect();
        self.inputs(&rows)
    }

    /// All inputs of a run over these rows, of which at least one is there.
    fn inputs(&self, rows: &[Option<Row<'_>>]) -> Result<Vec<NamedTensor>, BackendError> {
        let first = rows.iter().flatten().next();
        let first = first.ok_or_else(|| failed("a batch without a request"))?;
        let mut inputs =
            Vec::with_capacity(first.work.inputs.len() + self.controls.len() + self.states.len());
        for (at, input) in first.work.inputs.iter().enumerate() {
            let parts = rows.iter().map(|row| {
                let work = row.as_ref().and_then(|it| it.work.inputs.get(at));
                work.map(|it| it.tensor.clone())
            });
            inputs.push(self.column(&input.name, &input.tensor, parts)?);
        }
        for control in &self.controls {
            let tensor = signal(control.signal, rows, self.batches);
            let tensor = tensor.map_err(|it| failed(it.to_string()))?;
            inputs.push(NamedTensor { name: control.name.clone(), tensor });
        }
        for (at, state) in self.states.iter().enumerate() {
            let given = |row: &Row<'_>| row_state(row, at, state);
            let parts = rows.iter().map(|row| row.as_ref().map(given));
            inputs.push(self.column(&state.input, &given(first), parts)?);
        }
        Ok(inputs)
    }

    /// The parts one below the other, zeros of the form of `like` where there is none.
    fn column(
        &self,
        name: &Arc<str>,
        like: &Tensor,
        parts: impl Iterator<Item = Option<Tensor>>,
    ) -> Result<NamedTensor, BackendError> {
        let mut zeros: Option<Tensor> = None;
        let filled = parts.map(|part| match (part, &zeros) {
            (Some(part), _) => Ok(part),
            (None, Some(zeros)) => Ok(zeros.clone()),
            (None, None) => {
                let made = Tensor::zeros(like.dtype(), like.shape().clone());
                zeros = Some(made.map_err(|it| failed(it.to_string()))?);
                Ok(zeros.clone().unwrap_or_else(|| like.clone()))
            }
        });
        let filled: Vec<Tensor> = filled.collect::<Result<_, BackendError>>()?;
        let tensor = match filled.as_slice() {
            [only] => Some(only.clone()),
            parts => Tensor::concat(parts),
        };
        let tensor =
            tensor.ok_or_else(|| failed(format!("input '{name}' differs inside the batch")))?;
        Ok(NamedTensor { name: name.clone(), tensor })
    }

    /// What the requests in these rows get of the outputs of a whole run, in their order.
    fn shares(
        &self,
        results: &[NamedTensor],
        rows: &[Option<Row<'_>>],
    ) -> Result<Vec<Share>, BackendError> {
        let present = rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.as_ref()?)));
        let shares = present.map(|(at, row)| {
            let take = |name: &Arc<str>| self.share(results, name, at, rows.len());
            let outputs = row.work.outputs.iter().map(&take).collect::<Result<_, _>>()?;
            let state = |it: &ImplicitState| {
                take(&it.output).map(|output| alone(output.tensor, rows.len()))
            };
            let tensors = self.states.iter().map(state).collect::<Result<_, _>>()?;
            Ok(Ok((CallAnswer { outputs, ..CallAnswer::default() }, self.carry(tensors))))
        });
        shares.collect()
    }

    /// States as a sequence carries them. `None` where there are none.
    pub(super) fn carry(&self, tensors: Vec<Tensor>) -> Option<CarriedState> {
        (!tensors.is_empty()).then(|| CarriedState { key: self.shapes_key(&tensors), tensors })
    }

    /// What at least one request wants, and the states.
    fn outputs(&self, rows: &[Option<Row<'_>>]) -> Vec<Arc<str>> {
        let wanted = rows.iter().flatten().flat_map(|it| &it.work.outputs);
        let mut outputs: Vec<Arc<str>> = Vec::new();
        for name in wanted.chain(self.states.iter().map(|it| &it.output)) {
            if !outputs.contains(name) {
                outputs.push(name.clone());
            }
        }
        outputs
    }

    /// One row of an output.
    fn share(
        &self,
        results: &[NamedTensor],
        name: &Arc<str>,
        row: usize,
        rows: usize,
    ) -> Result<NamedTensor, BackendError> {
        let whole = results.iter().find(|it| it.name == *name);
        let whole =
            whole.ok_or_else(|| failed(format!("the engine did not return output '{name}'")))?;
        if !self.batches {
            return Ok(whole.clone());
        }
        let shape = whole.tensor.shape();
        let part = match shape.rows() == Some(rows) {
            true => whole.tensor.slice_rows(row, 1),
            false => None,
        };
        let tensor = part.ok_or_else(|| other_rows(name, shape, rows))?;
        Ok(NamedTensor { name: name.clone(), tensor })
    }
}

fn failed(problem: impl Into<String>) -> BackendError {
    BackendError::Execute(problem.into())
}

/// The state with which a request begins.
fn row_state(row: &Row<'_>, at: usize, state: &ImplicitState) -> Tensor {
    let carried = row.carried.filter(|_| !row.start).and_then(|it| it.tensors.get(at));
    carried.unwrap_or(&state.initial).clone()
}

/// One element of a control for each row.
fn signal(
    signal: Signal,
    rows: &[Option<Row<'_>>],
    batches: bool,
) -> Result<Tensor, backend::SizeMismatch> {
    let shape = if batches { Shape::new(&[rows.len(), 1]) } else { Shape::new(&[1]) };
    let is_there = |it: &Option<Row<'_>>, is: fn(&Row<'_>) -> bool| it.as_ref().is_some_and(is);
    match signal {
        Signal::Start(flag) => {
            flags(flag, rows.iter().map(|it| is_there(it, |it| it.start)), shape)
        }
        Signal::End(flag) => flags(flag, rows.iter().map(|it| is_there(it, |it| it.end)), shape),
        Signal::Ready(flag) => flags(flag, rows.iter().map(Option::is_some), shape),
        Signal::Id(IdType::Text) => {
            let text = |it: &Option<Row<'_>>| match it.as_ref().map(|it| it.id) {
                Some(SequenceId::Text(id)) => id.to_string(),
                Some(SequenceId::Number(id)) => id.to_string(),
                None => String::new(),
            };
            Tensor::from_strings(shape, rows.iter().map(text))
        }
        Signal::Id(id) => {
            let number = |it: &Option<Row<'_>>| match it.as_ref().map(|it| it.id) {
                Some(SequenceId::Number(id)) => *id,
                // Texts are refused on arrival.
                Some(SequenceId::Text(_)) | None => 0,
            };
            let numbers = rows.iter().map(number);
            // What does not fit is refused on arrival, too.
            match id {
                IdType::Int64 => Tensor::from_vec(shape, numbers.map(|it| it as i64).collect()),
                IdType::Uint32 => Tensor::from_vec(shape, numbers.map(|it| it as u32).collect()),
                IdType::Int32 => Tensor::from_vec(shape, numbers.map(|it| it as i32).collect()),
                IdType::Uint64 | IdType::Text => Tensor::from_vec(shape, numbers.collect()),
            }
        }
    }
}

fn flags(
    flag: Flag,
    values: impl Iterator<Item = bool>,
    shape: Shape,
) -> Result<Tensor, backend::SizeMismatch> {
    match flag {
        Flag::Int32(words) => {
            Tensor::from_vec(shape, values.map(|it| words[usize::from(it)]).collect())
        }
        Flag::Fp32(words) => {
            Tensor::from_vec(shape, values.map(|it| words[usize::from(it)]).collect())
        }
        Flag::Bool(words) => {
            let bytes: Vec<u8> = values.map(|it| u8::from(words[usize::from(it)])).collect();
            Tensor::new(DataType::Bool, shape, bytes.into())
        }
    }
}

#[cfg(test)]
mod tests;
