//! The requests that a SavedModel brings along, run on each of its sessions before it serves.

use std::{fmt, path::Path};

use backend::{Stop, Tensor};

use crate::{
    error,
    native::{Endpoint, Session},
    saved_model::{Defect, Replay, SavedModelError, Signature, replays_of},
};

/// What is run on a session before it serves.
pub(crate) struct Replays {
    runs: Vec<Run>,
    iterations: usize,
}

/// A request, by the names of its tensors in the graph.
struct Run {
    record: usize,
    inputs: Vec<(String, Tensor)>,
    outputs: Vec<String>,
}

impl Replays {
    /// The requests of the file in that folder, each to be run so many times. The first of the signatures is the
    /// default.
    ///
    /// # Errors
    /// A file that is damaged, or a request that does not fit its signature, with the number of its record.
    pub(crate) fn of(
        folder: &Path,
        signatures: &[&Signature],
        iterations: usize,
    ) -> Result<Replays, SavedModelError> {
        let replays = match iterations {
            0 => Vec::new(),
            _ => replays_of(folder)?,
        };
        let run = |it: Replay| {
            let record = it.record;
            let of_record = |it: Defect| it.within(format_args!("warm-up record {record}"));
            run_of(it, signatures).map_err(|it| SavedModelError::new(of_record(it)))
        };
        Ok(Replays { runs: replays.into_iter().map(run).collect::<Result<_, _>>()?, iterations })
    }

    /// How many requests there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Runs them. Blocking.
    ///
    /// # Errors
    /// The first that fails, with the number of its record; and a load that has been stopped.
    pub(crate) fn run(&self, session: &Session, stop: &Stop) -> Result<(), SavedModelError> {
        self.runs.iter().try_for_each(|run| {
            let of_record = |problem: &dyn fmt::Display| {
                SavedModelError::new(format_args!("warm-up record {}: {problem}", run.record))
            };
            let endpoint = |name: &String| {
                let found = session.endpoint(name);
                found.ok_or_else(|| of_record(&format_args!("the graph has no tensor '{name}'")))
            };
            let input = |(name, tensor)| Ok((endpoint(name)?, tensor));
            let inputs = run.inputs.iter().map(|(name, tensor)| (name, tensor)).map(input);
            let inputs: Vec<(Endpoint, &Tensor)> =
                inputs.collect::<Result<_, SavedModelError>>()?;
            let outputs = run.outputs.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
            (0..self.iterations).try_for_each(|_| {
                if stop.is_stopped() {
                    return Err(SavedModelError::new("the load was stopped while it warmed up"));
                }
                let ran = session.run(&inputs, &outputs, None);
                ran.map(drop).map_err(|it| of_record(&error::of_run(&it)))
            })
        })
    }
}

fn run_of(replay: Replay, signatures: &[&Signature]) -> Result<Run, Defect> {
    let Replay { record, signature: name, inputs: mut given, outputs: wanted } = replay;
    let signature = match &name {
        None => signatures.first(),
        Some(name) => signatures.iter().find(|it| it.name == *name),
    };
    let signature = signature.ok_or_else(|| {
        let name = name.unwrap_or_default();
        Defect::new(format_args!("is for the signature '{name}', which is not served"))
    })?;
    let Signature { spec, defaults, feeds, fetches, .. } = signature;
    let mut inputs = Vec::with_capacity(spec.inputs.len());
    for ((input, default), feed) in spec.inputs.iter().zip(defaults).zip(feeds) {
        let at = given.iter().position(|(name, _)| **name == *input.name);
        let tensor = at.map(|at| given.swap_remove(at).1).or_else(|| default.clone());
        let tensor =
            tensor.ok_or_else(|| Defect::new(format_args!("lacks the input '{}'", input.name)))?;
        if tensor.dtype() != input.dtype {
            let (found, expected) = (tensor.dtype(), input.dtype);
            return Err(Defect::new(format_args!(
                "has an input '{}' of {found}, expected {expected}",
                input.name
            )));
        }
        inputs.push((feed.clone(), tensor));
    }
    if let Some((name, _)) = given.first() {
        return Err(Defect::new(format_args!(
            "has an input '{name}', which the signature '{}' has not",
            signature.name
        )));
    }
    let fetch = |name: &String| {
        let at = spec.outputs.iter().position(|it| *it.name == **name);
        let fetch = at.and_then(|at| fetches.get(at)).cloned();
        fetch.ok_or_else(|| {
            let signature = &signature.name;
            Defect::new(format_args!(
                "asks for '{name}', which the signature '{signature}' has not"
            ))
        })
    };
    let outputs = match wanted.is_empty() {
        true => fetches.clone(),
        false => wanted.iter().map(fetch).collect::<Result<_, _>>()?,
    };
    Ok(Run { record, inputs, outputs })
}
