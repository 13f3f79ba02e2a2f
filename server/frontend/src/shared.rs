//! Inputs and outputs of an inference that lie in shared memory, whatever the protocol: read before the run, written
//! behind it.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    memory::{SharedMemory, Window},
    net::aside,
};
use inference::{
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
    request::{InferenceRequest, InferenceResponse},
};
use protocol::kserve_v2::{SharedInput, SharedParts};

/// More bytes than this are copied on a thread of their own, so that other clients of the same I/O thread need not
/// wait.
const LARGE: usize = 256 << 10;

/// What the inputs of one request may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// Most bytes of one request.
    pub limit: u64,
    /// Bytes of all requests.
    pub budget: &'a Budget,
}

/// Where outputs are to be written: looked up before the run, so that they stay until it is done.
pub struct Windows(Vec<(Arc<str>, Window)>);

/// Adds the inputs in shared memory to the request, and finds the places of its outputs. The permit that comes back
/// covers all inputs.
///
/// # Errors
/// [`Error::NotFound`] for an unknown region; [`Error::InvalidRequest`] and [`Error::InvalidInput`] for a part that is
/// not inside its region, too large for one request, or no such tensor; [`Error::OutOfBudget`] before anything is read.
pub async fn attach(
    memory: &SharedMemory,
    bounds: Bounds<'_>,
    parts: SharedParts,
    request: &mut InferenceRequest,
    mut permit: Permit,
) -> Result<(Windows, Permit), Error> {
    let SharedParts { inputs, outputs } = parts;
    let outputs = outputs.into_iter().map(|(name, part)| {
        let window = memory.window(&part.region, part.offset, part.byte_size);
        window.map(|it| (name.clone(), it)).map_err(|error| in_output(&name, error))
    });
    let outputs = outputs.collect::<Result<Vec<_>, Error>>()?;
    let windows = look_up(memory, inputs)?;

    // A client may name far more memory than there is: asked for before it is taken.
    let more = windows.iter().map(|(_, window)| window.byte_size()).fold(0, usize::saturating_add);
    let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum::<usize>();
    let Bounds { limit, budget } = bounds;
    if limit < more as u64 {
        return Err(Error::InvalidRequest(format!(
            "the inputs in shared memory have {more} bytes together, more than the limit of {limit} bytes of one \
             request (--http-max-input-size)"
        )));
    }
    if !permit.grow_to(length.saturating_add(more)) {
        return Err(out_of_bytes(budget));
    }
    let read = move || {
        let tensor = |(input, window): (SharedInput, Window)| {
            let bytes =
                window.read().map_err(|error| Error::input(&**input.name(), error.to_string()))?;
            input.tensor(bytes)
        };
        windows.into_iter().map(tensor).collect::<Result<Vec<_>, Error>>()
    };
    // The permit goes where the memory goes: a client that leaves does not stop what is put aside.
    let (read, permit) = match LARGE < more {
        true => aside(move || (read(), permit)).await?,
        false => (read(), permit),
    };
    request.inputs.extend(read?);
    Ok((Windows(outputs), permit))
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
            Err(Error::NotFound(text)) => {
                Err(Error::NotFound(format!("input '{}': {text}", input.name())))
            }
            Err(error) => Err(Error::input(&**input.name(), error.to_string())),
        }
    });
    found.collect()
}

/// The same error, which also names the output.
fn in_output(name: &str, error: Error) -> Error {
    match error {
        Error::NotFound(text) => Error::NotFound(format!("output '{name}': {text}")),
        error => Error::InvalidRequest(format!("output '{name}': {error}")),
    }
}

impl Windows {
    /// Writes the outputs whose places these are: all of them or, where one does not fit, none.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`], which names the output.
    pub async fn store(self, response: &InferenceResponse) -> Result<(), Error> {
        let mut writes: Vec<(Arc<str>, Window, Vec<Bytes>)> = Vec::new();
        let mut length = 0usize;
        for (name, window) in self.0 {
            let Some(output) = response.outputs.iter().find(|it| it.name == name) else { continue };
            let (needed, given) = (output.tensor.byte_len(), window.byte_size());
            if needed > given {
                return Err(Error::InvalidRequest(format!(
                    "output '{name}' takes {needed} bytes, given shared_memory_byte_size {given}"
                )));
            }
            length = length.saturating_add(needed);
            writes.push((name, window, output.tensor.segments().to_vec()));
        }
        let write = move || {
            writes.iter().try_for_each(|(name, window, pieces)| {
                window.write(pieces).map_err(|error| in_output(name, error))
            })
        };
        if LARGE < length { aside(write).await? } else { write() }
    }
}
