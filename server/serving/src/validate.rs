//! A request against the model's signature: names, types, shapes, rows. What passes is ready to be queued.
//! Pure.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    mem,
};

use backend::{BackendError, LARGEST_WITHOUT_ZEROS, MOST_EMPTY_PARTS, NamedTensor, Shape};

use crate::config::model::{ModelConfig, PortConfig, Rows};
use inference::{
    error::Error,
    messages,
    request::InferenceRequest,
    signature::{Port, Signature, nearest},
};
use schedule::work::Work;

/// A request that fits its model.
#[derive(Debug)]
pub struct Prepared {
    /// Its inputs in the order of the signature and in the engine's shapes, its outputs by name.
    pub work: Work,
    /// Requests with equal keys may share a batch.
    pub shape_key: u64,
}

/// Checks a request against `signature`, and brings its tensors into the shapes that `config` says the engine
/// wants. Inputs and outputs are taken out of the request.
///
/// Keys of one model are made with the same `hashes`, whose seed no client knows: so nobody can look for two shapes of
/// one key, which would share a run and have all its requests fail.
///
/// # Errors
/// The first thing that is wrong, with what was expected and what was given.
pub fn prepare(
    request: &mut InferenceRequest,
    signature: &Signature,
    config: &ModelConfig,
    hashes: &RandomState,
) -> Result<Prepared, Error> {
    check_names(request, signature)?;
    let mut rows = None;
    let mut inputs = Vec::with_capacity(request.inputs.len());
    let mut key = hashes.build_hasher();
    let mut varies = false;
    let leaves_shapes = request.leaves_shapes_to_graph && signature.graph_checks_shapes;
    for (at, port) in signature.inputs.iter().enumerate() {
        let Some(given) = request.inputs.iter().position(|it| it.name == port.name) else {
            // Requests that leave out the same optional inputs may share a batch.
            (at, "absent").hash(&mut key);
            varies = true;
            continue;
        };
        let NamedTensor { name, tensor } = request.inputs.swap_remove(given);
        if tensor.dtype() != port.dtype {
            return Err(Error::InvalidRequest(messages::wrong_data_type(
                &port.name,
                tensor.dtype(),
                &signature.model,
                port.dtype,
            )));
        }
        check_size(port, tensor.shape())?;
        if leaves_shapes && is_left_to_graph(signature, port, tensor.shape()) {
            // Only requests of the same shapes may share a batch.
            tensor.shape().hash(&mut key);
            varies = true;
            if signature.batches() {
                check_rows(signature, port, tensor.shape(), &mut rows)?;
            }
            inputs.push(NamedTensor { name, tensor });
            continue;
        }
        let item = item_dims(signature, port, config.inputs.get(at), tensor.shape())?;
        if signature.batches() {
            check_rows(signature, port, tensor.shape(), &mut rows)?;
        }
        let is_ragged = config.inputs.get(at).is_some_and(|it| it.ragged);
        if port.dims.contains(&None) && !is_ragged {
            item.hash(&mut key);
            varies = true;
        }
        let (port_config, rows_in) = (config.inputs.get(at), config.rows());
        let tensor = match is_as_engine_wants(tensor.shape(), item, port_config, rows_in) {
            true => Some(tensor),
            false => engine_shape(tensor.shape(), item, port_config, rows_in).and_then(|it| {
                if it == *tensor.shape() { Some(tensor) } else { tensor.reshape(it) }
            }),
        };
        let problem = || Error::input(&*port.name, "its shape does not fit the configured reshape");
        inputs.push(NamedTensor { name, tensor: tensor.ok_or_else(problem)? });
    }
    let outputs = match request.outputs.as_slice() {
        [] => signature.outputs.iter().map(|it| it.name.clone()).collect(),
        _ => mem::take(&mut request.outputs),
    };
    let rows = rows.unwrap_or(1);
    check_cuts(signature, &inputs, rows)?;
    let shape_key = key_of(signature, if varies { key.finish() } else { 0 });
    let work =
        Work { inputs, outputs, rows, signature: signature.index(), about: None, parts: None };
    Ok(Prepared { work, shape_key })
}

/// The hash of its shapes; where a model has several signatures, with the number of this one in front, so that requests
/// for two of them never have equal keys.
fn key_of(signature: &Signature, shapes: u64) -> u64 {
    match (signature.index(), signature.others()) {
        (0, []) => shapes,
        (index, _) => (index as u64) << SHAPE_BITS | shapes >> (u64::BITS - SHAPE_BITS),
    }
}

/// Bits of a key that are left for shapes.
pub const SHAPE_BITS: u32 = 48;

/// So many signatures can be told from each other.
pub const MOST_SIGNATURES: usize = 1 << (u64::BITS - SHAPE_BITS);

/// Every input known and given once, every required one there, every output known.
fn check_names(request: &InferenceRequest, signature: &Signature) -> Result<(), Error> {
    let model = &signature.model;
    for (at, input) in request.inputs.iter().enumerate() {
        if !signature.inputs.iter().any(|it| it.name == input.name) {
            let unexpected = messages::unexpected_input(&input.name, model);
            return Err(unknown(unexpected, &input.name, &signature.inputs));
        }
        if request.inputs.iter().take(at).any(|it| it.name == input.name) {
            return Err(Error::InvalidRequest(messages::input_exists(&input.name)));
        }
    }
    let is_given = |port: &&Port| request.inputs.iter().any(|it| it.name == port.name);
    let missing: Vec<&str> = signature
        .inputs
        .iter()
        .filter(|it| !it.optional && !is_given(it))
        .map(|it| &*it.name)
        .collect();
    if !missing.is_empty() {
        return Err(Error::InvalidRequest(messages::inputs_missing(
            signature.inputs.iter().filter(|it| !it.optional).count(),
            signature.inputs.len(),
            model,
            request.inputs.iter().map(|it| &*it.name),
            missing.into_iter(),
        )));
    }
    for name in &request.outputs {
        let mut known = signature.outputs.iter().chain(&signature.on_request);
        if !known.any(|it| it.name == *name) {
            let unexpected = messages::unexpected_output(name, model);
            return Err(unknown(unexpected, name, &signature.outputs));
        }
    }
    Ok(())
}

fn unknown(unexpected: String, name: &str, ports: &[Port]) -> Error {
    let names: Vec<&str> = ports.iter().map(|it| &*it.name).collect();
    let hint = nearest(name, names.iter().copied());
    let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
    Error::InvalidRequest(format!("{unexpected}; it has: {}{hint}", names.join(", ")))
}

/// The dimensions of one element, however many there are.
const ONES: [usize; 8] = [1; 8];

/// What is left of a shape without the batch dimension; `None` where it has none.
fn item_of<'s>(signature: &Signature, dims: &'s [usize]) -> Option<&'s [usize]> {
    if signature.batches() { dims.get(1..) } else { Some(dims) }
}

/// Is it a shape that is not the port's and that the graph itself is to judge? One of as many dimensions in other
/// sizes, where requests are not merged; or, as the first example of TensorFlow Serving's documentation sends it, one
/// without a last dimension of 1. Other ranks are left to no graph: there are kernels that end the process at one.
fn is_left_to_graph(signature: &Signature, port: &Port, shape: &Shape) -> bool {
    let Some(item) = item_of(signature, shape.dims()) else { return false };
    if !signature.batches() && item.len() == port.dims.len() {
        return !port.takes(item);
    }
    let Some((Some(1), rest)) = port.dims.split_last() else { return false };
    let fits = |(given, dim): (&usize, &Option<usize>)| dim.is_none_or(|it| it == *given);
    item.len() == rest.len() && item.iter().zip(rest).all(fits)
}

/// The dimensions of one item, the batch dimension taken off, checked against the port.
fn item_dims<'s>(
    signature: &Signature,
    port: &Port,
    config: Option<&PortConfig>,
    shape: &'s Shape,
) -> Result<&'s [usize], Error> {
    let given = shape.dims();
    let item = item_of(signature, given);
    let is_scalar = config.is_some_and(|it| it.reshape.as_ref().is_some_and(Vec::is_empty));
    let ones = ONES.get(..port.dims.len()).unwrap_or_default();
    match item {
        Some(item) if port.takes(item) => Ok(item),
        // A scalar may be written with or without its one dimension.
        Some([]) if port.dims == [Some(1)] => Ok(&[1]),
        Some([1]) if port.dims.is_empty() => Ok(&[]),
        // What has no dimensions in the engine may have any number of them.
        Some(item) if is_scalar && item.iter().all(|it| *it == 1) => Ok(ones),
        _ => Err(Error::InvalidRequest(wrong_shape(signature, port, shape))),
    }
}

fn wrong_shape(signature: &Signature, port: &Port, given: &Shape) -> String {
    let expected = signature.shape_text(port);
    let example = expected.replace("-1", "1");
    let batch = match (signature.batches(), signature.most_rows) {
        (false, _) => "without a batch dimension".to_owned(),
        (true, None) => "the first dimension is the batch".to_owned(),
        (true, Some(most)) => format!("the first dimension is the batch, at most {most}"),
    };
    let wrong = messages::wrong_shape(&port.name, &signature.model, &expected, given);
    format!("{wrong} ({batch}; {example} would do)")
}

/// A shape without elements is of a size that any code may go by. Engines and clients differ in what they hold for a
/// dimension, and none of its bytes has been sent or counted.
fn check_size(port: &Port, given: &Shape) -> Result<(), Error> {
    if !given.overstates() {
        return Ok(());
    }
    let problem = format!(
        "its shape {given} has no elements; such a shape may have {MOST_EMPTY_PARTS} parts in front of its first zero, \
         and {LARGEST_WITHOUT_ZEROS} elements without its zeros"
    );
    Err(Error::input(&*port.name, problem))
}

/// All inputs have the same number of rows, no more than the model takes.
fn check_rows(
    signature: &Signature,
    port: &Port,
    shape: &Shape,
    rows: &mut Option<usize>,
) -> Result<(), Error> {
    let given = shape.rows().unwrap_or(0);
    if let Some(most) = signature.most_rows.filter(|it| *it < given) {
        return Err(Error::InvalidRequest(format!(
            "{}: input '{}' has {given} rows",
            messages::too_many_rows(most, &signature.model),
            port.name
        )));
    }
    match *rows.get_or_insert(given) {
        first if first == given => Ok(()),
        first => {
            let differ = messages::rows_differ(&port.name, &signature.model);
            let problem =
                format!("{differ}: it has {given} rows, and those before it have {first}");
            Err(Error::InvalidRequest(problem))
        }
    }
}

/// A request of more rows than a run has is cut into parts, so its rows must have elements: those without any take no
/// byte, and no limit on bytes would bound the runs.
fn check_cuts(signature: &Signature, inputs: &[NamedTensor], rows: usize) -> Result<(), Error> {
    let most = signature.max_batch_size;
    let is_empty = inputs.iter().all(|it| it.tensor.elements() == 0);
    if signature.batches() && most < rows && is_empty {
        return Err(Error::InvalidRequest(format!(
            "{}: its {rows} rows have no elements",
            messages::too_many_rows(most, &signature.model)
        )));
    }
    Ok(())
}

/// Is a tensor of the shape `given`, with that item, what the engine wants as it is? Most are, and no shape has to be
/// made for them.
fn is_as_engine_wants(
    given: &Shape,
    item: &[usize],
    config: Option<&PortConfig>,
    rows: Rows,
) -> bool {
    let own = match rows {
        Rows::First => given.dims().split_first().map(|(_, own)| own),
        Rows::Absent => Some(given.dims()),
    };
    let fits = |(form, size): (&Option<usize>, &usize)| form.is_none_or(|it| it == *size);
    own == Some(item)
        && config.is_none_or(|it| {
            let has_form = it.dims.len() == item.len() && it.dims.iter().zip(item).all(fits);
            it.any_rank || (it.reshape.is_none() && has_form)
        })
}

/// The shape that the engine wants; `None` where a configured reshape has no place for the item.
fn engine_shape(
    given: &Shape,
    item: &[usize],
    config: Option<&PortConfig>,
    rows: Rows,
) -> Option<Shape> {
    let batch = given.rows().filter(|_| rows == Rows::First);
    let shape: Shape = batch.into_iter().chain(item.iter().copied()).collect();
    match config {
        Some(config) if !config.any_rank => config.to_engine(&shape, rows),
        _ => Some(shape),
    }
}

/// Turns an engine's output into what clients see: the reverse of an input's reshape. Other sizes than the configured
/// ones pass, as in Triton: the reply says which there are.
///
/// # Errors
/// [`BackendError::Execute`] where it is of another type than the configured one, by which clients read it.
pub fn present(config: &ModelConfig, output: &mut NamedTensor) -> Result<(), BackendError> {
    let port = config.outputs.iter().find(|it| it.name == output.name);
    let Some(port) = port else { return Ok(()) };
    let given = output.tensor.dtype();
    if given != port.dtype {
        return Err(BackendError::Execute(format!(
            "the engine returned output '{}' as {given}, where the configuration of the model says {}: write what it \
             gives as data_type",
            output.name, port.dtype
        )));
    }
    if port.reshape.is_some()
        && let Some(shape) = port.to_client(output.tensor.shape(), config.rows())
        && let Some(tensor) = output.tensor.reshape(shape)
    {
        output.tensor = tensor;
    }
    Ok(())
}
