//! The engine `identity`: it gives its inputs back, needs no native library, and can be configured to be slow
//! or to fail.
//!
//! Output `OUTPUT<x>` is input `INPUT<x>`, whatever `<x>` is; so are `output<x>` and `input<x>`. An output
//! of another name is the input of the same name, else the only input. Outputs share the buffers of
//! their inputs: nothing is copied.
//!
//! Parameters of the model, all optional. Those of Triton's identity backend mean what they mean there:
//!
//! | Parameter | Meaning |
//! |---|---|
//! | `execute_delay_ms` | every execution sleeps so long |
//! | `instance_wise_delay_multiplier` | m: instance i, counted from zero, sleeps `max(m·i, 1)` times that |
//! | `creation_delay_sec` | loading the model takes so much longer (once, not per instance) |
//!
//! These are muster's own, for tests and measurements:
//!
//! | Parameter | Meaning |
//! |---|---|
//! | `latency_alpha_us`, `latency_beta_us` | an execution of r rows takes alpha + beta·r microseconds more |
//! | `latency_mode` | `sleep`: as on a GPU (default); `burn`: as on a CPU, counted in CPU time of the thread |
//! | `fault` | what goes wrong in an execution, see [`Fault`] |
//! | `fault_after` | so many executions of the model, over all instances, go well first |
//! | `fault_times` | the fault strikes so many times, then no more |
//! | `fault_marker` | only executions with a row that begins with this number (or string) are struck |
//! | `fault_above_rows` | only executions of more rows than that are struck |
//! | `fail_marked_rows` | `true`: `fault` is `fail`, and `fault_marker` must be given |
//! | `load_fault` | what goes wrong before the first execution, see [`LoadFault`] |
//!
//! A fault strikes after the latency has passed. Whatever waits or burns ends at once when the batch's
//! [`backend::Stop`] is pulled. Parameters of other names are ignored.
#![forbid(unsafe_code)]

mod fault;
mod latency;
mod settings;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use backend::{
    Backend, BackendError, Batch, Device, Instance, Model, ModelSource, ModelSpec, NamedTensor,
};

use fault::FaultPlan;
pub use fault::{Fault, LoadFault};
use latency::{Latency, stopped};
use settings::Settings;

/// The engine. It has no state; a model's file is not looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Identity;

impl Backend for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    /// Blocking, for `creation_delay_sec`.
    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let settings = Settings::read(source)?;
        std::thread::sleep(settings.creation_delay);
        match settings.load_fault {
            Some(LoadFault::Fail) => {
                return Err(BackendError::Load(format!(
                    "model '{}': told to fail by 'load_fault'",
                    source.name
                )));
            }
            Some(LoadFault::OutOfMemory) => {
                return Err(BackendError::OutOfMemory(format!(
                    "model '{}': told to be out of memory by 'load_fault'",
                    source.name
                )));
            }
            Some(LoadFault::Panic) => panic!("told to panic by 'load_fault'"),
            Some(LoadFault::Instance) | None => {}
        }
        let shared = Shared {
            name: source.name.clone(),
            latency: settings.latency,
            faults: FaultPlan::new(settings.faults),
            load_fault: settings.load_fault,
            instances: AtomicU64::new(0),
        };
        Ok(Arc::new(IdentityModel(Arc::new(shared))))
    }
}

/// What a model and its instances share.
struct Shared {
    name: String,
    latency: Latency,
    faults: FaultPlan,
    load_fault: Option<LoadFault>,
    /// How many instances have been made; the next one's number.
    instances: AtomicU64,
}

struct IdentityModel(Arc<Shared>);

impl Model for IdentityModel {
    fn spec(&self) -> Option<&ModelSpec> {
        None
    }

    /// Any device will do: nothing is computed on it.
    fn instantiate(&self, _device: Device) -> Result<Box<dyn Instance>, BackendError> {
        if self.0.load_fault == Some(LoadFault::Instance) {
            return Err(BackendError::Load(format!(
                "model '{}': told to fail by 'load_fault'",
                self.0.name
            )));
        }
        let number = self.0.instances.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(IdentityInstance { shared: self.0.clone(), number }))
    }
}

struct IdentityInstance {
    shared: Arc<Shared>,
    /// Counted from zero in order of creation; one that takes the place of another has its own.
    number: u64,
}

impl Instance for IdentityInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.shared.latency.pass(self.number, batch.rows, batch.stop).map_err(stopped)?;
        let outputs = copy(batch)?;
        match self.shared.faults.next(batch) {
            Some(fault) => fault.strike(outputs, batch),
            None => Ok(outputs),
        }
    }
}

/// The wanted outputs, each over the buffers of its input.
fn copy(batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
    let copy_one = |name: &Arc<str>| {
        let source = source_of(name, batch.inputs)?;
        Ok(NamedTensor { name: name.clone(), tensor: source.tensor.clone() })
    };
    batch.outputs.iter().map(copy_one).collect()
}

/// Which input does this output repeat?
fn source_of<'a>(output: &str, inputs: &'a [NamedTensor]) -> Result<&'a NamedTensor, BackendError> {
    let paired = [("OUTPUT", "INPUT"), ("output", "input")]
        .into_iter()
        .find_map(|(from, to)| output.strip_prefix(from).map(|suffix| format!("{to}{suffix}")));
    let expected = paired.as_deref().unwrap_or(output);
    let found = inputs.iter().find(|it| *it.name == *expected);
    // A model that follows the naming rule and whose input was left out must not repeat another one.
    let only = || match inputs {
        [only] if paired.is_none() => Some(only),
        _ => None,
    };
    found.or_else(only).ok_or_else(|| {
        BackendError::InvalidInput(format!(
            "output '{output}' repeats input '{expected}', which was not given"
        ))
    })
}

#[cfg(test)]
mod tests;
