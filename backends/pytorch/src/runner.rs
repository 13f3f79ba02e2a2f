//! Running a module on tensors: each in place where it lies in one aligned piece, else gathered.

use std::{
    num::{NonZeroUsize, TryFromIntError},
    sync::Arc,
};

use backend::{BackendError, DataType, Staging, Tensor};
use bytes::Bytes;
use smallvec::SmallVec;

use crate::{
    inputs::{ArgumentPlace, Input},
    native::{self, Argument, How, Module, Produced, StringRef, TorchFailure},
    options::ModuleSettings,
};

/// As many inputs or outputs go without an allocation.
pub(crate) type Few<T> = SmallVec<[T; 4]>;

/// A module, which others may run too, and memory to gather inputs in.
pub(crate) struct Runner {
    module: Arc<Module>,
    inputs: Arc<[Input]>,
    /// Number of arguments of `forward`; `None` where it takes a dictionary.
    arguments: Option<NonZeroUsize>,
    how: How,
    staging: Vec<Staging>,
}

/// Why a run gave nothing.
#[derive(Debug)]
pub(crate) enum RunError {
    /// The tensor for the input of that number cannot be lent to libtorch; what is wrong with it.
    Unusable(usize, String),
    /// libtorch failed.
    Failed(TorchFailure),
}

/// A tensor as the plugin takes it.
struct Lent<'a> {
    dtype: DataType,
    dims: SmallVec<[i64; 6]>,
    data: &'a [u8],
    strings: Vec<StringRef<'a>>,
    /// The length of `strings`, as dimensions.
    count: [i64; 1],
}

impl Runner {
    /// `arguments` is the number of `forward`'s arguments, or zero where it takes a dictionary.
    pub(crate) fn new(
        module: Arc<Module>,
        inputs: Arc<[Input]>,
        arguments: usize,
        how: How,
    ) -> Runner {
        let staging = inputs.iter().map(|_| Staging::default()).collect();
        Runner { module, inputs, arguments: NonZeroUsize::new(arguments), how, staging }
    }

    /// What it takes, in the order of the tensors of a run.
    pub(crate) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Runs `forward` once. `tensors` are in the order of the inputs, `None` for one that is left out.
    pub(crate) fn run(
        &mut self,
        tensors: &[Option<&Tensor>],
    ) -> Result<SmallVec<[Produced; 4]>, RunError> {
        let Runner { module, inputs, arguments, how, staging } = self;
        let mut lent: Few<Option<Lent<'_>>> = SmallVec::new();
        for (index, (tensor, staging)) in tensors.iter().zip(staging).enumerate() {
            let too_large = "has a dimension of 2^63 or more";
            let unusable = |_| RunError::Unusable(index, too_large.to_owned());
            lent.push(tensor.map(|it| lend(it, staging)).transpose().map_err(unusable)?);
        }
        let mut given: Few<Argument<'_>> = SmallVec::new();
        if let Some(arguments) = arguments {
            given.resize(arguments.get(), Argument::absent());
        }
        for (index, (input, lent)) in inputs.iter().zip(&lent).enumerate() {
            let Some(lent) = lent else { continue };
            let argument = lent.argument().ok_or_else(|| {
                let problem = format!("cannot be {}, which libtorch does not take", lent.dtype);
                RunError::Unusable(index, problem)
            })?;
            match input.place {
                ArgumentPlace::Argument(place) => given[place] = argument,
                ArgumentPlace::Entry => given.push(argument.with_key(&input.name)),
            }
        }
        module.run(*how, &given).map_err(RunError::Failed)
    }
}

impl Lent<'_> {
    fn argument(&self) -> Option<Argument<'_>> {
        match self.dtype {
            DataType::Bytes => Argument::strings(&self.count, &self.strings),
            dtype => Argument::tensor(dtype, &self.dims, self.data),
        }
    }
}

fn lend<'a>(tensor: &'a Tensor, staging: &'a mut Staging) -> Result<Lent<'a>, TryFromIntError> {
    let dtype = tensor.dtype();
    let dims = tensor.shape().dims().iter().map(|&it| i64::try_from(it));
    let dims = dims.collect::<Result<_, _>>()?;
    let strings: Vec<_> = tensor.strings().map(StringRef::new).collect();
    // Strings lie in memory, so there are fewer than that.
    let count = [strings.len() as i64];
    let data = staging.elements(tensor);
    Ok(Lent { dtype, dims, data, strings, count })
}

/// How a model's runs are made.
pub(crate) fn how(settings: &ModuleSettings) -> How {
    How {
        threads: settings.threads,
        inference_mode: settings.inference_mode,
        optimized: settings.optimized_execution,
        clean_cache: settings.clean_cache,
    }
}

impl RunError {
    /// The useful line of it, for trial runs.
    pub(crate) fn line(&self) -> String {
        match self {
            RunError::Unusable(_, problem) => problem.clone(),
            RunError::Failed(failure) => crate::error::useful_line(&failure.text),
        }
    }
}

/// A value that a run gave, as a tensor: in place where that is worth it, else copied.
pub(crate) fn take(produced: Produced, name: &str) -> Result<Tensor, BackendError> {
    let failed = |problem: String| BackendError::Execute(format!("output '{name}' {problem}"));
    let dtype =
        produced.dtype.map_err(|it| failed(format!("came out as {it}, which cannot be served")))?;
    let data = native_bytes(produced.memory);
    Tensor::new(dtype, produced.shape, data).map_err(|it| failed(it.to_string()))
}

/// Memory below this many bytes is copied out: that costs less than keeping what libtorch made.
const COPIED: usize = 4096;

fn native_bytes(memory: native::Held) -> Bytes {
    match memory.as_ref().len() < COPIED {
        true => Bytes::copy_from_slice(memory.as_ref()),
        false => Bytes::from_owner(memory),
    }
}
