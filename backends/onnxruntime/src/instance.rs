//! Running batches on a session, which may be that of other instances too.

use std::{
    ffi::CString,
    ops::Range,
    ptr, slice,
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{
    BackendError, Batch, DataType, Device, Instance, ModelSpec, NamedTensor, RunTerms, Shape,
    Staging, Stop, Tensor, TensorSpec,
};
use bytes::Bytes;
use ort::{logging::LogLevel, session::RunOptions, sys};
use smallvec::SmallVec;

use crate::{
    element,
    error::{self, Sizes},
    native::{self, Session, Value},
    options::Settings,
    settling::Settle,
    trim::{SeenTrims, Trims},
    wide::Wide,
};

/// Outputs below this many bytes are copied out: that costs less than keeping what ONNX Runtime made.
const COPIED: usize = 4096;

/// When an output of so many bytes is gone, it is looked at what the arena keeps.
const LARGE: usize = 1 << 20;

/// A run that fills a MiB of fresh memory takes at least so long. After such a run it is looked at what the arena
/// keeps.
const LONG: Duration = Duration::from_micros(200);

/// As many inputs or outputs go without an allocation.
type Few<T> = SmallVec<[T; 8]>;

/// A session, and what this instance's runs have in common.
pub(crate) struct OnnxInstance {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    options: Arc<RunOptions>,
    shrinkage: Option<String>,
    /// The same for a run that gives memory back.
    trimmed: Option<String>,
    trims: SeenTrims,
    device: Device,
    sizes: Sizes,
    /// Bytes of a copy of an input that are kept for the next one.
    most_staged: usize,
    /// Runs with more threads, where there are any.
    wide: Option<Arc<Wide>>,
    /// May runs take all processors?
    may_run_wide: bool,
    /// Has the last one?
    has_run_wide: bool,
    /// Shared with the outputs that are still held by somebody, and with other instances where the model is
    /// large.
    session: Arc<Session>,
}

struct Input {
    spec: TensorSpec,
    name: CString,
    staging: Staging,
}

struct Output {
    spec: TensorSpec,
    name: CString,
}

impl OnnxInstance {
    pub(crate) fn new(
        session: Arc<Session>,
        spec: &ModelSpec,
        device: Device,
        settings: &Settings,
        trims: &Trims,
    ) -> native::Result<OnnxInstance> {
        let name = |it: &TensorSpec| CString::new(it.name.as_bytes());
        let input = |it: &TensorSpec| {
            Ok(Input { name: name(it)?, spec: it.clone(), staging: Staging::default() })
        };
        let output = |it: &TensorSpec| Ok(Output { name: name(it)?, spec: it.clone() });
        let is_open = |it: &TensorSpec| it.any_rank || it.dims.contains(&None);
        let sizes = match spec.inputs.iter().any(is_open) {
            true => Sizes::Open,
            false => Sizes::Fixed,
        };
        Ok(OnnxInstance {
            sizes,
            inputs: spec.inputs.iter().map(input).collect::<native::Result<_>>()?,
            outputs: spec.outputs.iter().map(output).collect::<native::Result<_>>()?,
            options: run_options(settings.shrinkage.as_deref())?,
            shrinkage: settings.shrinkage.clone(),
            trimmed: settings.trimmed(),
            trims: trims.of_instance(),
            device,
            most_staged: usize::try_from(settings.keeping.of_one).unwrap_or(usize::MAX),
            wide: None,
            may_run_wide: false,
            has_run_wide: false,
            session,
        })
    }

    /// The same, which makes some runs with more threads.
    pub(crate) fn with_wide(self, wide: Option<Arc<Wide>>) -> OnnxInstance {
        OnnxInstance { wide, ..self }
    }

    /// Where this run is to give memory back: lets go of what inputs were copied into, and makes the options of a run
    /// after which arenas shrink, if there is one to shrink.
    fn begin_trim(&mut self) -> Result<Option<Arc<RunOptions>>, BackendError> {
        if !self.trims.is_due() {
            return Ok(None);
        }
        self.inputs.iter_mut().for_each(|it| it.staging = Staging::default());
        let options = self.trimmed.as_deref().map(|it| run_options(Some(it))).transpose();
        options.map_err(|it| error::of_run(&it))
    }
}

/// Options for many runs, one after the other.
fn run_options(shrinkage: Option<&str>) -> native::Result<Arc<RunOptions>> {
    let mut options = RunOptions::new()?;
    // A failed run is an error that the caller gets; the library would log it a second time.
    options.set_log_level(LogLevel::Fatal)?;
    if let Some(devices) = shrinkage {
        options.set("memory.enable_memory_arena_shrinkage", devices)?;
    }
    Ok(Arc::new(options))
}

impl Instance for OnnxInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        if batch.stop.is_stopped() {
            return Err(stopped());
        }
        let trimming = self.begin_trim()?;
        if let Some(wide) = &self.wide {
            wide.note_run();
        }
        let wide = self.wide.as_ref().filter(|_| self.may_run_wide && trimming.is_none()).cloned();
        let OnnxInstance { inputs, outputs, options, session, .. } = self;
        let inputs = lend(session, inputs, batch.inputs)?;
        let outputs = wanted(outputs, batch.outputs)?;
        let run = Run {
            inputs: &inputs,
            outputs: &outputs,
            stop: batch.stop,
            sizes: self.sizes,
            device: self.device,
        };
        let outcome = match (&wide, &trimming) {
            (Some(wide), _) => {
                let ran = wide.run(session, batch, &|session| run.on(session, options));
                self.has_run_wide = ran.is_wide;
                ran.outputs
            }
            // That memory cannot be given back is no reason for a request to fail.
            (None, Some(trimming)) => match run.on(session, trimming) {
                Err(_) if !batch.stop.is_stopped() => run.on(session, options),
                outcome => outcome,
            },
            (None, None) => run.on(session, options),
        };
        drop(inputs);
        self.inputs.iter_mut().for_each(|it| it.staging.keep_at_most(self.most_staged));
        if batch.stop.is_stopped() {
            // Whoever stops may do so as late as now: those options are not to be trusted again.
            self.options =
                run_options(self.shrinkage.as_deref()).map_err(|it| error::of_run(&it))?;
            return Err(stopped());
        }
        outcome
    }

    fn expect_runs(&mut self, terms: RunTerms) {
        self.may_run_wide = terms.wide;
        self.has_run_wide = false;
    }

    fn has_run_wide(&self) -> bool {
        self.has_run_wide
    }
}

/// What is run, on whatever session of the model.
struct Run<'a> {
    inputs: &'a [Lent<'a>],
    outputs: &'a [&'a Output],
    stop: &'a Stop,
    sizes: Sizes,
    device: Device,
}

impl Run<'_> {
    /// Runs it on that session.
    fn on(
        &self,
        session: &Arc<Session>,
        options: &Arc<RunOptions>,
    ) -> Result<Vec<NamedTensor>, BackendError> {
        let began = Instant::now();
        let result = run_until(self.stop, session, options, self.inputs, self.outputs);
        if LONG <= began.elapsed() {
            session.settle();
        }
        let results = result.map_err(|it| error::of_operators(&it, self.sizes))?;
        let named = self.outputs.iter().zip(results).map(|(output, value)| {
            let value = value.ok_or_else(|| failed(output, "has no value"))?;
            // ONNX Runtime brings outputs to the host; to read others would be the end of the process.
            if self.device != Device::Cpu
                && !value.is_in_memory().map_err(|it| error::of_run(&it))?
            {
                return Err(failed(output, "was left on the GPU"));
            }
            let tensor = take(session, output, value, self.inputs)?;
            Ok(NamedTensor { name: output.spec.name.clone(), tensor })
        });
        named.collect()
    }
}

fn stopped() -> BackendError {
    BackendError::Execute("the run was stopped: nobody waits for its result".to_owned())
}

/// An input as a run takes it.
struct Lent<'a> {
    name: &'a CString,
    value: Value<'a>,
    /// The addresses of its elements.
    memory: Range<usize>,
}

/// The batch's inputs as values, in place where that is possible, else copied to the staging memory.
fn lend<'a>(
    session: &Session,
    inputs: &'a mut [Input],
    given: &'a [NamedTensor],
) -> Result<Few<Lent<'a>>, BackendError> {
    let mut lent: Few<Lent<'a>> = SmallVec::new();
    let mut next = 0;
    for input in inputs {
        match find(given, next, |it| it.name == input.spec.name) {
            Some(index) => {
                next = index + 1;
                lent.push(lend_one(session, input, &given[index].tensor)?);
            }
            None if input.spec.optional => {}
            None => return Err(refused(&input.spec, "is missing")),
        }
    }
    if lent.len() < given.len() {
        return Err(too_many(&lent, given));
    }
    Ok(lent)
}

/// Index of the first that fits, looking from `start` on and then from the beginning: lists that are
/// mostly in the same order are matched in one pass.
fn find<T>(list: &[T], start: usize, fits: impl Fn(&T) -> bool) -> Option<usize> {
    let (before, after) = list.split_at_checked(start)?;
    let later = after.iter().position(&fits).map(|it| it + start);
    later.or_else(|| before.iter().position(&fits))
}

fn too_many(lent: &[Lent<'_>], given: &[NamedTensor]) -> BackendError {
    let known = |name: &str| lent.iter().any(|it| it.name.as_bytes() == name.as_bytes());
    BackendError::InvalidInput(match given.iter().find(|it| !known(&it.name)) {
        Some(stranger) => format!("the model has no input '{}'", stranger.name),
        None => "an input is given twice".to_owned(),
    })
}

fn refused(spec: &TensorSpec, problem: impl std::fmt::Display) -> BackendError {
    BackendError::InvalidInput(format!("input '{}' {problem}", spec.name))
}

fn lend_one<'a>(
    session: &Session,
    input: &'a mut Input,
    tensor: &'a Tensor,
) -> Result<Lent<'a>, BackendError> {
    let Input { spec, name, staging } = input;
    if tensor.dtype() != spec.dtype {
        let problem = format!("is {}, expected {}", tensor.dtype(), spec.dtype);
        return Err(refused(spec, problem));
    }
    let dims = tensor.shape().dims().iter().map(|&it| i64::try_from(it));
    let shape = dims.collect::<Result<Few<i64>, _>>();
    let shape = shape.map_err(|_| refused(spec, "has a dimension of 2^63 or more"))?;
    let native = &session.runtime().native;
    if spec.dtype == DataType::Bytes {
        let value = Value::strings(native, &shape, tensor.strings());
        let value = value.map_err(|it| error::of_run(&it))?;
        return Ok(Lent { name, value, memory: 0..0 });
    }
    let data = staging.elements(tensor);
    let begin = data.as_ptr().addr();
    let memory = begin..begin + data.len();
    // SAFETY: the data is aligned and its bytes are valid elements, as `Staging` promises. It is part of an immutable
    // `Bytes`, or of staging memory that is borrowed as long as the value.
    let value = unsafe { Value::lent(native, element::to_element(spec.dtype), &shape, data) };
    Ok(Lent { name, value: value.map_err(|it| error::of_run(&it))?, memory })
}

/// The outputs of those names.
fn wanted<'a>(outputs: &'a [Output], names: &[Arc<str>]) -> Result<Few<&'a Output>, BackendError> {
    let mut next = 0;
    let output = |name: &Arc<str>| match find(outputs, next, |it| it.spec.name == *name) {
        Some(index) => {
            next = index + 1;
            Ok(&outputs[index])
        }
        None => Err(BackendError::InvalidInput(format!("the model has no output '{name}'"))),
    };
    names.iter().map(output).collect()
}

/// The same as [`run`], ended when `stop` is requested.
fn run_until(
    stop: &Stop,
    session: &Session,
    options: &Arc<RunOptions>,
    inputs: &[Lent<'_>],
    outputs: &[&Output],
) -> native::Result<Few<Option<Value<'static>>>> {
    let to_end = options.clone();
    stop.on_stop(move || {
        // It fails only without options, and there is no caller to report it to.
        let _ = to_end.terminate();
    });
    let result = run(session, options, inputs, outputs);
    stop.clear_hook();
    result
}

/// Runs the session: one value per wanted output, `None` where the graph gave none.
fn run(
    session: &Session,
    options: &RunOptions,
    inputs: &[Lent<'_>],
    outputs: &[&Output],
) -> native::Result<Few<Option<Value<'static>>>> {
    let input_names: Few<_> = inputs.iter().map(|it| it.name.as_ptr()).collect();
    let values: Few<_> = inputs.iter().map(|it| it.value.pointer()).collect();
    let output_names: Few<_> = outputs.iter().map(|it| it.name.as_ptr()).collect();
    let mut results: Few<*mut sys::OrtValue> = outputs.iter().map(|_| ptr::null_mut()).collect();
    // SAFETY: names and values are borrowed from what the arguments hold, and `results` is of nulls.
    let outcome =
        unsafe { session.run(options, &input_names, &values, &output_names, &mut results) };
    // SAFETY: the run made them and nobody else has them. Their session lives on: the caller has an `Arc`
    // of it, and `take` puts one beside each value that is kept.
    let own = |it| unsafe { Value::from_run(&session.runtime().native, it) };
    let results = results.into_iter().map(own).collect();
    outcome.map(|()| results)
}

fn failed(output: &Output, problem: impl std::fmt::Display) -> BackendError {
    BackendError::Execute(format!("output '{}' {problem}", output.spec.name))
}

/// A result as a tensor: in place where that is possible and worth it, else copied.
fn take(
    session: &Arc<Session>,
    output: &Output,
    value: Value<'static>,
    inputs: &[Lent<'_>],
) -> Result<Tensor, BackendError> {
    let failed = |problem: String| failed(output, problem);
    let (element, dims) = value.type_and_shape().map_err(|it| error::of_run(&it))?;
    let dtype = element::from_element(element)
        .ok_or_else(|| failed(format!("came out as {}", element::name(element))))?;
    let shape = dims.iter().map(|&it| usize::try_from(it)).collect::<Result<Shape, _>>();
    let shape = shape.map_err(|_| failed(format!("came out with the shape {dims:?}")))?;
    let elements =
        shape.elements().ok_or_else(|| failed(format!("of shape {shape} is too large")))?;
    let data = match dtype.size().map(|it| it.checked_mul(elements)) {
        None => value.to_bytes_elements(elements).map_err(|it| error::of_run(&it))?,
        Some(None) => return Err(failed(format!("of shape {shape} is too large"))),
        Some(Some(0)) => Bytes::new(),
        Some(Some(bytes)) => {
            let begin = value.data().map_err(|it| error::of_run(&it))?;
            if begin.is_null() {
                return Err(failed("has no memory".to_owned()));
            }
            // A graph may pass an input through, and then the value is a view of memory that was ours
            // for the run only.
            let borrowed = inputs.iter().any(|it| it.memory.contains(&begin.addr()));
            let kept = Kept { begin, bytes, value: Some(value), session: session.clone() };
            match borrowed || bytes < COPIED {
                true => Bytes::copy_from_slice(kept.as_ref()),
                false => Bytes::from_owner(kept),
            }
        }
    };
    Tensor::new(dtype, shape, data).map_err(|it| failed(it.to_string()))
}

/// The memory of an output.
struct Kept {
    begin: *const u8,
    bytes: usize,
    /// Goes back to an allocator of the session. `None` once it has.
    value: Option<Value<'static>>,
    session: Arc<Session>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.value.take());
        if LARGE <= self.bytes {
            let session = Arc::downgrade(&self.session);
            self.session.runtime().settling.ask(session);
        }
    }
}

// SAFETY: value and session are `Send`, and the pointer is into the value's memory.
unsafe impl Send for Kept {}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: ONNX Runtime says that the elements are there, as many as type and shape tell, and the
        // run that wrote them is over.
        unsafe { slice::from_raw_parts(self.begin, self.bytes) }
    }
}
