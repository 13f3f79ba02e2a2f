//! Running modules: arguments over the host's memory, and outputs that own theirs.

use std::{ffi::CString, ptr};

use pytorch_abi::{Failure, Input, Run, Text, element, kind, run_flags};
use smallvec::SmallVec;
use tch::{Device, Tensor, jit};

use crate::{
    element as types,
    failure::answer,
    lacking, lent,
    module::{self, Module},
    outputs::Giver,
    problem::{OUT_OF_MEMORY, TorchProblem},
    value::Value,
};

pub(crate) unsafe extern "C" fn run(
    module: *const pytorch_abi::Module,
    run: *const Run,
) -> *mut Failure {
    // SAFETY: the host says that both are there during the call.
    let (module, run) = unsafe { (module::inside(module), &*run) };
    let has = |flag: u32| run.flags & flag != 0;
    answer(has(run_flags::INFERENCE_MODE), || {
        let _as_written = has(run_flags::UNOPTIMIZED).then(AsWritten::new).transpose()?;
        // SAFETY: takes any number.
        unsafe { lacking::check(lacking::muster_use_threads(run.threads as i32))? };
        // SAFETY: the host says that so many inputs are there during the call.
        let inputs = unsafe { lent::lent(run.inputs, run.inputs_length) };
        {
            // SAFETY: the memory of inputs is there during the call, which outlives the arguments.
            let arguments = unsafe { arguments(module, inputs)? };
            let result = forward(module, arguments)?;
            Giver::new(module, run, inputs).value(&result, true)?;
        }
        match has(run_flags::CLEAN_CACHE) && module.device.is_cuda() {
            // SAFETY: takes nothing.
            true => unsafe { lacking::check(lacking::muster_empty_cuda_cache()) },
            false => Ok(()),
        }
    })
}

/// While it lives, this thread runs graphs as they were written.
struct AsWritten;

impl AsWritten {
    fn new() -> Result<AsWritten, TorchProblem> {
        let guard = AsWritten;
        jit::f_set_graph_executor_optimize(false)?;
        Ok(guard)
    }
}

impl Drop for AsWritten {
    fn drop(&mut self) {
        // Setting a variable does not fail.
        let _ = jit::f_set_graph_executor_optimize(true);
    }
}

fn forward(module: &Module, arguments: SmallVec<[Value; 8]>) -> Result<Value, TorchProblem> {
    let pointers: SmallVec<[_; 8]> = arguments.iter().map(Value::as_ptr).collect();
    let mut result = ptr::null_mut();
    // SAFETY: the module is there, and as many arguments, which are emptied; the result is ours, and written to where
    // it may.
    unsafe {
        lacking::check(lacking::muster_forward(
            module.handle.as_ptr(),
            module.about.forward.as_ptr(),
            pointers.as_ptr(),
            pointers.len(),
            &raw mut result,
        ))?;
        Value::new(result)
    }
}

/// # Safety
/// What inputs point to outlives the arguments.
unsafe fn arguments(
    module: &Module,
    inputs: &[Input],
) -> Result<SmallVec<[Value; 8]>, TorchProblem> {
    let expected = &module.about.arguments;
    let mut arguments = SmallVec::new();
    if module.takes_dict() {
        let entry = |it: &Input| {
            // SAFETY: keys are lent like the rest.
            let key = CString::new(unsafe { lent::bytes(&it.key) });
            let key = key.map_err(|_| TorchProblem::new("the name of an input holds a zero"))?;
            if it.element == element::STRINGS {
                let key = key.to_string_lossy();
                return Err(TorchProblem::new(format!(
                    "'{key}' is made of strings, expected a tensor"
                )));
            }
            // SAFETY: the caller says so.
            Ok((key, unsafe { argument(module, it)? }))
        };
        let entries = inputs.iter().map(entry).collect::<Result<Vec<_>, TorchProblem>>()?;
        arguments.push(Value::dict(&entries)?);
        return Ok(arguments);
    }
    if inputs.len() != expected.len() {
        let text = format!("forward takes {} arguments, given {}", expected.len(), inputs.len());
        return Err(TorchProblem::new(text));
    }
    for (input, expected) in inputs.iter().zip(expected) {
        arguments.push(match (input.element, &expected.default, expected.kind) {
            // SAFETY: the default is there.
            (element::OTHER, Some(default), _) => unsafe { Value::copy(default.as_ptr())? },
            (element::OTHER, None, _) => {
                let text = format!("argument '{}' has no default", expected.name);
                return Err(TorchProblem::new(text));
            }
            // SAFETY: the caller says so.
            (_, _, kind::INT | kind::FLOAT | kind::BOOL) => unsafe {
                number(expected.kind, input)?
            },
            // SAFETY: the caller says so.
            _ => unsafe { argument(module, input)? },
        });
    }
    Ok(arguments)
}

/// # Safety
/// What the input points to outlives the argument.
unsafe fn argument(module: &Module, input: &Input) -> Result<Value, TorchProblem> {
    if input.element == element::STRINGS {
        // SAFETY: the interface says that the data of strings are texts, as many as the dimensions say.
        return unsafe { Value::strings(texts(input)?) };
    }
    // SAFETY: the caller says so.
    let tensor = unsafe { tensor(input)? };
    match (module.device, module.copies_inputs) {
        (Device::Cpu, false) => Value::tensor(&tensor),
        // Nothing writes to what was lent: where the module might, it gets a copy.
        (Device::Cpu, true) => Value::tensor(&tensor.f_detach_copy()?),
        (device, _) => Value::tensor(&tensor.f_to_device(device)?),
    }
}

/// # Safety
/// The data are texts.
unsafe fn texts(input: &Input) -> Result<&[Text], TorchProblem> {
    // SAFETY: the interface says that as many dimensions are there.
    let dims = unsafe { lent::lent(input.dims, input.rank as usize) };
    let &[length] = dims else {
        return Err(TorchProblem::new("a list of strings has one dimension"));
    };
    // SAFETY: the caller says so; a length is not negative.
    Ok(unsafe { lent::lent(input.data.cast(), usize::try_from(length).unwrap_or(0)) })
}

/// A tensor over the input's memory.
///
/// # Safety
/// The memory outlives the tensor and all that shares its elements, and the data are of the type.
unsafe fn tensor(input: &Input) -> Result<Tensor, TorchProblem> {
    let kind = types::kind(input.element);
    let kind = kind
        .ok_or_else(|| TorchProblem::new(format!("element type {} is unknown", input.element)))?;
    // SAFETY: the interface says that as many dimensions are there, and elements as they call for.
    unsafe {
        let dims = lent::lent(input.dims, input.rank as usize);
        let it = Tensor::f_from_blob(input.data.cast(), dims, &[], kind, Device::Cpu)?;
        // Where there is no memory for the text of a failure torch-sys has none.
        match it.as_ptr().is_null() {
            true => Err(TorchProblem::new(OUT_OF_MEMORY)),
            false => Ok(it),
        }
    }
}

/// The only element of an input, as a value of that kind.
///
/// # Safety
/// What the input points to is there during the call.
unsafe fn number(expected: u32, input: &Input) -> Result<Value, TorchProblem> {
    if input.element == element::STRINGS {
        return Err(TorchProblem::new("a number cannot be made of strings"));
    }
    // SAFETY: the caller says so.
    let tensor = unsafe { tensor(input)? };
    let count = tensor.numel();
    if count != 1 {
        return Err(TorchProblem::new(format!("a number has one element, and not {count}")));
    }
    match expected {
        kind::INT => Value::int(tensor.f_int64_value(&[])?),
        kind::FLOAT => Value::float(tensor.f_double_value(&[])?),
        _ => Value::bool(tensor.f_double_value(&[])? != 0.0),
    }
}
