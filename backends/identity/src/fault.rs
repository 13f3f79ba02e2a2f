//! Faults on demand: which there are, when they strike and what they do. Armed by parameters only.

use std::sync::atomic::{AtomicU64, Ordering};

use backend::{BackendError, Batch, DataType, Element, NamedTensor, Tensor};

use crate::latency::{stopped, wait};

/// Bytes that one execution with [`Fault::Leak`] never gives back.
const LEAK_BYTES: usize = 1 << 20;

/// Bytes that one execution with [`Fault::Allocate`] asks for.
const ALLOCATED_BYTES: usize = 1 << 30;

/// What goes wrong in an execution: the values of the parameter `fault`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `fail`: a [`BackendError::Execute`].
    Fail,
    /// `invalid`: a [`BackendError::InvalidInput`].
    Invalid,
    /// `out_of_memory`: a [`BackendError::OutOfMemory`].
    OutOfMemory,
    /// `panic`: the thread panics.
    Panic,
    /// `hang`: the execution never ends unless it is stopped.
    Hang,
    /// `deaf`: the execution never ends, whatever is asked of it.
    Deaf,
    /// `abort`: the process writes a line, and dies.
    Abort,
    /// `leak`: the execution goes well, and 1 MiB is lost.
    Leak,
    /// `allocate`: 1 GiB is asked for, and a [`BackendError::OutOfMemory`] where it is refused.
    Allocate,
    /// `wrong_rows`: every output has one row less than the batch.
    WrongRows,
    /// `wrong_type`: every output is zeros of INT32.
    WrongType,
    /// `missing_output`: the last wanted output is not returned.
    MissingOutput,
    /// `lost_gpu`: what CUDA says once a process cannot use its GPU any more.
    LostGpu,
    /// `say`: the execution goes well, and a line says that it was made.
    Say,
    /// `reach`: tries to reach beyond the model, and says in a [`BackendError::Execute`] what came of each attempt.
    Reach,
}

impl Fault {
    /// Every fault under its name in the parameter.
    pub(crate) const ALL: [(&'static str, Fault); 15] = [
        ("fail", Fault::Fail),
        ("invalid", Fault::Invalid),
        ("out_of_memory", Fault::OutOfMemory),
        ("panic", Fault::Panic),
        ("hang", Fault::Hang),
        ("deaf", Fault::Deaf),
        ("abort", Fault::Abort),
        ("leak", Fault::Leak),
        ("allocate", Fault::Allocate),
        ("wrong_rows", Fault::WrongRows),
        ("wrong_type", Fault::WrongType),
        ("missing_output", Fault::MissingOutput),
        ("lost_gpu", Fault::LostGpu),
        ("say", Fault::Say),
        ("reach", Fault::Reach),
    ];

    /// Does the damage; `outputs` is what would have been returned.
    pub(crate) fn strike(
        self,
        mut outputs: Vec<NamedTensor>,
        batch: &Batch<'_>,
    ) -> Result<Vec<NamedTensor>, BackendError> {
        match self {
            Fault::Fail => Err(BackendError::Execute("told to fail by 'fault'".to_owned())),
            Fault::Invalid => {
                Err(BackendError::InvalidInput("told to refuse the input by 'fault'".to_owned()))
            }
            Fault::OutOfMemory => {
                Err(BackendError::OutOfMemory("told to be out of memory by 'fault'".to_owned()))
            }
            Fault::Panic => panic!("told to panic by 'fault'"),
            Fault::Hang => {
                wait(batch.stop, None).map_err(stopped)?;
                Ok(outputs)
            }
            Fault::Deaf => loop {
                std::thread::park();
            },
            Fault::Abort => {
                eprintln!("told to abort by 'fault'");
                std::process::abort()
            }
            Fault::Leak => {
                // Ones, so that the pages are really taken.
                Box::leak(vec![1u8; LEAK_BYTES].into_boxed_slice());
                Ok(outputs)
            }
            Fault::Allocate => {
                let mut memory: Vec<u8> = Vec::new();
                let asked = memory.try_reserve_exact(ALLOCATED_BYTES);
                asked.map_err(|error| BackendError::OutOfMemory(error.to_string()))?;
                std::hint::black_box(memory);
                Ok(outputs)
            }
            Fault::WrongRows => {
                for output in &mut outputs {
                    let rows = output.tensor.shape().rows().unwrap_or(0);
                    let shorter = output.tensor.slice_rows(0, rows.saturating_sub(1));
                    output.tensor = shorter.unwrap_or_else(|| output.tensor.clone());
                }
                Ok(outputs)
            }
            Fault::WrongType => {
                for output in &mut outputs {
                    let shape = output.tensor.shape().clone();
                    let zeros = Tensor::zeros(DataType::Int32, shape);
                    output.tensor = zeros.map_err(|it| BackendError::Execute(it.to_string()))?;
                }
                Ok(outputs)
            }
            Fault::MissingOutput => {
                outputs.pop();
                Ok(outputs)
            }
            Fault::LostGpu => Err(BackendError::Execute(
                "CUDA error: device-side assert triggered (told so by 'fault')".to_owned(),
            )),
            Fault::Say => {
                eprintln!("told to say so by 'fault'");
                Ok(outputs)
            }
            Fault::Reach => Err(BackendError::Execute(crate::reach::attempts().join("; "))),
        }
    }
}

/// What goes wrong before the first execution: the values of the parameter `load_fault`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadFault {
    /// `fail`: the model does not load.
    Fail,
    /// `panic`: loading panics.
    Panic,
    /// `abort`: the process dies.
    Abort,
    /// `instance`: the model loads, but no instance can be made.
    Instance,
    /// `instance_hang`: the model loads, and the making of an instance never ends.
    InstanceHang,
    /// `out_of_memory`: there is too little memory for the model.
    OutOfMemory,
}

impl LoadFault {
    /// Every fault under its name in the parameter.
    pub(crate) const ALL: [(&'static str, LoadFault); 6] = [
        ("fail", LoadFault::Fail),
        ("panic", LoadFault::Panic),
        ("abort", LoadFault::Abort),
        ("instance", LoadFault::Instance),
        ("instance_hang", LoadFault::InstanceHang),
        ("out_of_memory", LoadFault::OutOfMemory),
    ];
}

/// What the parameters say about faults.
#[derive(Debug, Clone)]
pub(crate) struct FaultSettings {
    pub(crate) fault: Option<Fault>,
    /// Only batches with such a row are struck.
    pub(crate) marker: Option<Marker>,
    /// Only batches of more rows are struck.
    pub(crate) above_rows: u64,
    /// Executions that go well first.
    pub(crate) after: u64,
    /// How often the fault strikes; `None` for ever.
    pub(crate) times: Option<u64>,
}

/// When does the fault strike? Shared by the instances of a model.
#[derive(Debug)]
pub(crate) struct FaultPlan {
    settings: FaultSettings,
    /// Executions that could have been struck.
    executions: AtomicU64,
}

impl FaultPlan {
    pub(crate) fn new(settings: FaultSettings) -> FaultPlan {
        FaultPlan { settings, executions: AtomicU64::new(0) }
    }

    /// Counts this execution, and says what goes wrong in it.
    pub(crate) fn next(&self, batch: &Batch<'_>) -> Option<Fault> {
        let fault = self.settings.fault?;
        if self.settings.marker.as_ref().is_some_and(|it| !it.is_in(batch)) {
            return None;
        }
        if batch.rows as u64 <= self.settings.above_rows {
            return None;
        }
        let execution = self.executions.fetch_add(1, Ordering::Relaxed);
        let strikes_before = execution.checked_sub(self.settings.after)?;
        let left = self.settings.times.is_none_or(|times| strikes_before < times);
        left.then_some(fault)
    }
}

/// The value that marks a row when it is the row's first element, in any input.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    text: String,
    /// `None` where the text is not a number: then only strings can be marked.
    number: Option<f64>,
}

impl Marker {
    pub(crate) fn new(text: &str) -> Marker {
        Marker { text: text.to_owned(), number: text.parse().ok() }
    }

    fn is_in(&self, batch: &Batch<'_>) -> bool {
        batch.inputs.iter().any(|it| self.is_in_tensor(&it.tensor, batch.rows))
    }

    fn is_in_tensor(&self, tensor: &Tensor, rows: usize) -> bool {
        let per_row = tensor.elements().checked_div(rows).unwrap_or(0).max(1);
        match tensor.dtype() {
            DataType::Bytes => {
                tensor.strings().step_by(per_row).any(|it| it == self.text.as_bytes())
            }
            DataType::Bool | DataType::Uint8 => self.marks::<u8>(tensor, per_row, f64::from),
            DataType::Uint16 => self.marks::<u16>(tensor, per_row, f64::from),
            DataType::Uint32 => self.marks::<u32>(tensor, per_row, f64::from),
            DataType::Int8 => self.marks::<i8>(tensor, per_row, f64::from),
            DataType::Int16 => self.marks::<i16>(tensor, per_row, f64::from),
            DataType::Int32 => self.marks::<i32>(tensor, per_row, f64::from),
            // Markers are small numbers; what is lost above 2^53 does not matter.
            DataType::Uint64 => self.marks::<u64>(tensor, per_row, |it| it as f64),
            DataType::Int64 => self.marks::<i64>(tensor, per_row, |it| it as f64),
            DataType::Fp16 => self.marks::<half::f16>(tensor, per_row, f64::from),
            DataType::Bf16 => self.marks::<half::bf16>(tensor, per_row, f64::from),
            DataType::Fp32 => self.marks::<f32>(tensor, per_row, f64::from),
            DataType::Fp64 => self.marks::<f64>(tensor, per_row, |it| it),
        }
    }

    /// Is it the first element of a row? The tensor's elements are read as `T`, which has their size.
    fn marks<T: Element>(
        &self,
        tensor: &Tensor,
        per_row: usize,
        to_number: impl Fn(T) -> f64,
    ) -> bool {
        let Some(marker) = self.number else { return false };
        // No element is cut by the end of a segment, so each segment holds whole ones.
        let elements = tensor.segments().iter().flat_map(|it| it.chunks_exact(size_of::<T>()));
        elements
            .step_by(per_row)
            .any(|it| to_number(bytemuck::pod_read_unaligned::<T>(it)) == marker)
    }
}
