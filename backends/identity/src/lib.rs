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
//! | `latency_thread_gain` | g: an instance of t threads takes `t^-g` of that latency |
//! | `latency_processors` | all instances share so many: threads beyond them gain nothing |
//! | `latency_cliff_threads`, `latency_cliff_instances` | with more threads of an instance, or more instances, it takes `latency_cliff_factor` (20) times as long |
//! | `latency_noise` | n: each execution takes from 1 - n to 1 + n of it, by chance |
//! | `latency_drift_per_minute`, `latency_drift_since` | each minute since that second of 1970 adds such a share |
//! | `columns` | the model says of itself that it takes `INPUT0` and gives `OUTPUT0`, rows of so many FP32 |
//! | `accumulates` | `true`: the model keeps state: a row gives the sum of what came in it since an input `START` was 1 |
//! | `fault` | what goes wrong in an execution, see [`Fault`] |
//! | `fault_after` | so many executions of the model, over all instances, go well first |
//! | `fault_times` | the fault strikes so many times, then no more |
//! | `fault_marker` | only executions with a row that begins with this number (or string) are struck |
//! | `fault_above_rows` | only executions of more rows than that are struck |
//! | `fail_marked_rows` | `true`: `fault` is `fail`, and `fault_marker` must be given |
//! | `creation_gate` | loading the model lasts until a file of this path exists |
//! | `execute_said` | `true`: a line says that an execution has begun, before its latency passes |
//! | `parts` | each request is answered in so many parts, all of them the same; a parameter `parts` of the request goes before it |
//! | `part_delay_us` | so long before each part |
//! | `part_fails` | `true`: an error follows the parts |
//! | `parts_leave` | `true`: an execution ends before its parts, which a thread of their own sends |
//! | `load_fault` | what goes wrong before the first execution, see [`LoadFault`] |
//!
//! A fault strikes after the latency has passed. Whatever waits or burns ends at once when the batch's
//! [`backend::Stop`] is pulled. Parameters of other names are ignored.
#![forbid(unsafe_code)]

mod fault;
mod landscape;
mod latency;
mod parts;
mod reach;
mod settings;
mod sums;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backend::{
    Backend, BackendError, Batch, Call, CallAnswer, CallError, DataType, Device, EngineDescription,
    Foresight, Instance, Model, ModelSource, ModelSpec, NamedTensor, TensorSpec,
};

use fault::FaultPlan;
pub use fault::{Fault, LoadFault};
use landscape::LandscapeModel;
use latency::{Latency, stopped};
use parts::PartSettings;
use settings::IdentitySettings;
use sums::Sums;

/// Between two looks at the file of `creation_gate`.
const LOOK_AT_GATE: Duration = Duration::from_millis(2);

/// A run that takes so long costs little more in a process of its own.
const SLOW: Duration = Duration::from_millis(2);

/// It opens no files, and may answer in parts.
const DESCRIPTION: EngineDescription =
    EngineDescription { streams: true, ..EngineDescription::PLAIN };

/// The engine. It has no state; a model's file is not looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Identity;

impl Backend for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    /// A model that says what it takes runs for as long as its settings say.
    fn foresee(&self, source: &ModelSource) -> Option<Foresight> {
        let settings = IdentitySettings::read(source).ok()?;
        if settings.load_fault == Some(LoadFault::Abort) {
            return Some(Foresight::Unknown("its load is told to end its process".to_owned()));
        }
        settings.columns?;
        if settings.faults.fault == Some(Fault::Abort) {
            return Some(Foresight::Unknown("a run is told to end its process".to_owned()));
        }
        let (sleep, burn) = settings.latency.of(0, 1, 1.0);
        let latency = sleep.saturating_add(burn);
        let why = || format!("a run is told to take {latency:.1?}");
        (SLOW <= latency).then(|| Foresight::Unknown(why()))
    }

    /// Blocking, for `creation_delay_sec` and until the file `creation_gate` exists.
    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let settings = IdentitySettings::read(source)?;
        std::thread::sleep(settings.creation_delay);
        while settings.creation_gate.as_ref().is_some_and(|gate| !gate.exists()) {
            std::thread::sleep(LOOK_AT_GATE);
        }
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
            Some(LoadFault::Abort) => std::process::abort(),
            Some(LoadFault::Instance | LoadFault::InstanceHang) | None => {}
        }
        // Those in other processes share the processors with these.
        let placements = source.placements.iter().chain(&source.elsewhere);
        let instances = placements.map(|it| it.instances.get()).sum();
        let shared = Shared {
            name: source.name.clone(),
            spec: settings.columns.map(rows_of),
            latency: settings.latency,
            place: settings.landscape.at(instances, source.default_threads.get()),
            faults: FaultPlan::new(settings.faults),
            load_fault: settings.load_fault,
            accumulates: settings.accumulates,
            says_executions: settings.says_executions,
            parts: settings.parts,
            instances: AtomicU64::new(0),
        };
        Ok(Arc::new(IdentityModel(Arc::new(shared))))
    }
}

/// What a model and its instances share.
struct Shared {
    name: String,
    /// What the model says of itself.
    spec: Option<ModelSpec>,
    latency: Latency,
    /// Where in its landscape the model is with these settings.
    place: LandscapeModel,
    faults: FaultPlan,
    load_fault: Option<LoadFault>,
    /// Does a row give the sum of what has come in it?
    accumulates: bool,
    /// Does a line say that an execution has begun?
    says_executions: bool,
    /// How a request is answered in parts; `None` where it gets one answer.
    parts: Option<PartSettings>,
    /// How many instances have been made; the next one's number.
    instances: AtomicU64,
}

struct IdentityModel(Arc<Shared>);

impl Model for IdentityModel {
    fn spec(&self) -> Option<&ModelSpec> {
        self.0.spec.as_ref()
    }

    fn keeps_state(&self) -> bool {
        self.0.accumulates
    }

    fn answers_calls(&self) -> bool {
        self.0.parts.is_some()
    }

    fn streams(&self) -> bool {
        self.0.parts.is_some()
    }

    /// Any device will do: nothing is computed on it.
    fn instantiate(&self, _device: Device) -> Result<Box<dyn Instance>, BackendError> {
        match self.0.load_fault {
            Some(LoadFault::Instance) => {
                return Err(BackendError::Load(format!(
                    "model '{}': told to fail by 'load_fault'",
                    self.0.name
                )));
            }
            Some(LoadFault::InstanceHang) => loop {
                std::thread::park();
            },
            _ => {}
        }
        let number = self.0.instances.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(IdentityInstance {
            shared: self.0.clone(),
            number,
            sums: self.0.accumulates.then(Sums::default),
        }))
    }
}

struct IdentityInstance {
    shared: Arc<Shared>,
    /// Counted from zero in order of creation; one that takes the place of another has its own.
    number: u64,
    /// What it keeps, where it keeps anything.
    sums: Option<Sums>,
}

impl Instance for IdentityInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        if self.shared.says_executions {
            eprintln!("an execution has begun, as is said for 'execute_said'");
        }
        let factor = self.shared.place.factor();
        let latency = self.shared.latency;
        latency.pass(self.number, batch.rows, factor, batch.stop).map_err(stopped)?;
        let summed = self.sums.as_mut().map(|it| it.add(batch)).transpose()?;
        let outputs = match &summed {
            Some(inputs) => copy(&Batch { inputs, ..*batch })?,
            None => copy(batch)?,
        };
        match self.shared.faults.next(batch) {
            Some(fault) => fault.strike(outputs, batch),
            None => Ok(outputs),
        }
    }

    fn execute_calls(
        &mut self,
        batch: &Batch<'_>,
        calls: &[Call<'_>],
    ) -> Result<Vec<Result<CallAnswer, CallError>>, BackendError> {
        let outputs = self.execute(batch)?;
        let settings = self.shared.parts.unwrap_or_default();
        parts::answer(settings, self.shared.says_executions, batch, calls, &outputs)
    }
}

/// Rows of so many numbers in, and the same out.
fn rows_of(columns: usize) -> ModelSpec {
    let rows = |name: &str| TensorSpec {
        name: name.into(),
        dtype: DataType::Fp32,
        dims: vec![None, Some(columns)],
        any_rank: false,
        optional: false,
    };
    ModelSpec {
        inputs: vec![rows("INPUT0")],
        outputs: vec![rows("OUTPUT0")],
        ..ModelSpec::default()
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
        .find_map(|(from, to)| output.strip_prefix(from).map(|suffix| (to, suffix)));
    let is_source = |name: &str| match paired {
        Some((to, suffix)) => name.strip_prefix(to) == Some(suffix),
        None => name == output,
    };
    let found = inputs.iter().find(|it| is_source(&it.name));
    // A model that follows the naming rule and whose input was left out must not repeat another one.
    let only = || match inputs {
        [only] if paired.is_none() => Some(only),
        _ => None,
    };
    found.or_else(only).ok_or_else(|| {
        let expected =
            paired.map_or_else(|| output.to_owned(), |(to, suffix)| format!("{to}{suffix}"));
        BackendError::InvalidInput(format!(
            "output '{output}' repeats input '{expected}', which was not given"
        ))
    })
}

#[cfg(test)]
mod tests;
