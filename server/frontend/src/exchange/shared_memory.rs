//! Inputs and outputs of an inference that lie in shared memory, for every protocol. Inputs are read before the run,
//! outputs are written after it.

use std::sync::Arc;

use backend::NamedTensor;
use bytes::Bytes;

use super::{held_body::HeldBody, intake::Limits};
use crate::memory::{SharedMemory, Window};
use formats::kserve_v2::{SharedInput, SharedParts};
use inference::{
    error::Error,
    limits::{Permit, out_of_bytes},
    request::{InferenceRequest, InferenceResponse},
};

/// Where outputs are to be written. Looked up before the run, so that the regions live until it is done.
pub struct Windows {
    outputs: Vec<(Arc<str>, Window)>,
    /// Of the inputs, which have been read. Their regions are in use as long as the request is.
    _inputs: Vec<Window>,
}

/// Adds to a request its inputs that lie in shared memory, and finds the places of its outputs. The permit then covers
/// all inputs.
///
/// # Errors
/// [`Error::NotFound`] for an unknown region; [`Error::InvalidRequest`] and [`Error::InvalidInput`] for a part that is
/// not inside its region, or too large for one request. Also for an input that cannot be read or is no such tensor;
/// [`Error::OutOfBudget`].
pub fn attach(
    memory: &SharedMemory,
    limits: &Limits,
    parts: SharedParts,
    request: &mut InferenceRequest,
    body: HeldBody,
    permit: &mut Permit,
) -> Result<Windows, Error> {
    let SharedParts { inputs, outputs } = parts;
    let outputs = outputs.into_iter().map(|(name, part)| {
        let window = memory.window(&part.region, part.offset, part.byte_size);
        window.map(|it| (name.clone(), it)).map_err(|error| of_tensor("output", &name, error))
    });
    let outputs = outputs.collect::<Result<Vec<_>, Error>>()?;
    let inputs = look_up(memory, inputs)?;

    // A client may name far more memory than the machine has: the budget is asked before anything is copied.
    let sizes = inputs.iter().map(|(_, window)| window.byte_size());
    let length = sizes.fold(0, usize::saturating_add);
    let others = request.inputs.iter().map(|it| it.tensor.byte_len()).sum::<usize>();
    let Limits { limit, setting, budget, .. } = limits;
    if *limit < length as u64 {
        return Err(Error::InvalidRequest(format!(
            "the inputs in shared memory have {length} bytes together, more than the limit of {limit} bytes of one \
             request ({setting})"
        )));
    }
    if !permit.grow_to(body.with_inputs(others.saturating_add(length))) {
        return Err(out_of_bytes(budget));
    }
    let used = inputs.iter().map(|(_, window)| window.clone()).collect();
    request.inputs.extend(tensors(inputs)?);
    Ok(Windows { outputs, _inputs: used })
}

/// Reads the inputs.
fn tensors(inputs: Vec<(SharedInput, Window)>) -> Result<Vec<NamedTensor>, Error> {
    let tensor = |(input, window): (SharedInput, Window)| {
        let bytes = window.read().map_err(|error| of_tensor("input", input.name(), error))?;
        input.tensor(bytes)
    };
    inputs.into_iter().map(tensor).collect()
}

/// The windows of these inputs.
fn look_up(
    memory: &SharedMemory,
    inputs: Vec<SharedInput>,
) -> Result<Vec<(SharedInput, Window)>, Error> {
    let found = inputs.into_iter().map(|input| {
        let part = &input.part;
        match memory.window(&part.region, part.offset, part.byte_size) {
            Ok(window) => Ok((input, window)),
            Err(error) => Err(of_tensor("input", input.name(), error)),
        }
    });
    found.collect()
}

/// The same error, with the name of the tensor behind it: clients look at how it begins.
fn of_tensor(kind: &str, name: &str, error: Error) -> Error {
    match error {
        Error::NotFound(text) => Error::NotFound(format!("{text} ({kind} '{name}')")),
        error => Error::InvalidRequest(format!("{error} ({kind} '{name}')")),
    }
}

impl Windows {
    /// Bytes that [`Windows::store`] copies of this response.
    pub fn byte_len(&self, response: &InferenceResponse) -> usize {
        let output = |name: &Arc<str>| response.outputs.iter().find(|it| it.name == *name);
        let lengths =
            self.outputs.iter().filter_map(|(name, _)| output(name)).map(|it| it.tensor.byte_len());
        lengths.sum()
    }

    /// Writes the outputs into their windows: all of them or, where one does not fit, none.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with the name of the output.
    pub fn store(&self, response: &InferenceResponse) -> Result<(), Error> {
        let mut writes: Vec<(&Arc<str>, &Window, &[Bytes])> = Vec::new();
        for (name, window) in &self.outputs {
            let Some(output) = response.outputs.iter().find(|it| it.name == *name) else {
                continue;
            };
            let (needed, given) = (output.tensor.byte_len(), window.byte_size());
            if needed > given {
                return Err(Error::InvalidRequest(format!(
                    "output '{name}' takes {needed} bytes, given shared_memory_byte_size {given}"
                )));
            }
            writes.push((name, window, output.tensor.segments()));
        }
        writes.iter().try_for_each(|(name, window, pieces)| {
            window.write(pieces).map_err(|error| of_tensor("output", name, error))
        })
    }
}
