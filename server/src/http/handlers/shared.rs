//! Inputs and outputs of an inference that lie in shared memory: read before the run, written behind it.

use std::sync::Arc;

use bytes::Bytes;

use super::{super::service::Service, Failure, aside, inference::LARGE};
use crate::{
    error::Error,
    limits::{Permit, out_of_bytes},
    memory::{SharedMemory, Window},
    protocol::{
        kserve_v2::{self, SharedInput, SharedParts, generate::Framing},
        sagemaker, tfs,
    },
    request::{InferenceRequest, InferenceResponse},
};

/// The form of a reply, which may lie in shared memory in part.
pub(super) trait MayShare {
    /// What of request and reply does.
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        None
    }
}

impl MayShare for kserve_v2::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        self.shared.take()
    }
}

impl MayShare for sagemaker::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        match self {
            sagemaker::ReplyFormat::KserveV2(format) => format.take_shared(),
            _ => None,
        }
    }
}

impl MayShare for tfs::Form {}

impl MayShare for Framing {}

/// Where outputs are to be written: looked up before the run, so that they stay until it is done.
pub(super) struct Windows {
    id: Option<Arc<str>>,
    outputs: Vec<(Arc<str>, Window)>,
}

/// Adds the inputs in shared memory to the request, and finds the places of its outputs. The permit that comes back
/// covers all inputs.
pub(super) async fn attach(
    service: &Service,
    parts: SharedParts,
    request: &mut InferenceRequest,
    mut permit: Permit,
) -> Result<(Windows, Permit), Failure> {
    let id = request.id.clone();
    let problem = |error| Failure { id: id.clone(), error };
    let SharedParts { inputs, outputs } = parts;
    let memory = &service.serving.memory;
    let outputs = outputs.into_iter().map(|(name, part)| {
        let window = memory.window(&part.region, part.offset, part.byte_size);
        window.map(|it| (name.clone(), it)).map_err(|error| in_output(&name, error))
    });
    let outputs = outputs.collect::<Result<Vec<_>, Error>>().map_err(problem)?;
    let windows = look_up(memory, inputs).map_err(problem)?;

    // A client may name far more memory than there is: asked for before it is taken.
    let more = windows.iter().map(|(_, window)| window.byte_size()).fold(0, usize::saturating_add);
    let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum::<usize>();
    let limits = &service.settings.body;
    if limits.limit < more as u64 {
        return Err(problem(Error::InvalidRequest(format!(
            "the inputs in shared memory have {more} bytes together, more than the limit of {} bytes of one request \
             (--http-max-input-size)",
            limits.limit
        ))));
    }
    if !permit.grow_to(length.saturating_add(more)) {
        return Err(problem(out_of_bytes(&limits.budget)));
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
        true => aside(move || (read(), permit)).await.map_err(problem)?,
        false => (read(), permit),
    };
    request.inputs.extend(read.map_err(problem)?);
    Ok((Windows { id, outputs }, permit))
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
    pub(super) async fn store(
        self,
        response: InferenceResponse,
    ) -> Result<InferenceResponse, Failure> {
        let Windows { id, outputs } = self;
        let problem = |error| Failure { id: id.clone(), error };
        let mut writes: Vec<(Arc<str>, Window, Vec<Bytes>)> = Vec::new();
        let mut length = 0usize;
        for (name, window) in outputs {
            let Some(output) = response.outputs.iter().find(|it| it.name == name) else { continue };
            let (needed, given) = (output.tensor.byte_len(), window.byte_size());
            if needed > given {
                return Err(problem(Error::InvalidRequest(format!(
                    "output '{name}' takes {needed} bytes, given shared_memory_byte_size {given}"
                ))));
            }
            length = length.saturating_add(needed);
            writes.push((name, window, output.tensor.segments().to_vec()));
        }
        let write = move || {
            writes.iter().try_for_each(|(name, window, pieces)| {
                window.write(pieces).map_err(|error| in_output(name, error))
            })
        };
        let written = if LARGE < length { aside(write).await.map_err(problem)? } else { write() };
        written.map_err(problem)?;
        Ok(response)
    }
}
