//! The model's parameters, read and checked once at load.

use std::{path::PathBuf, time::Duration};

use backend::{BackendError, ModelSource};

use crate::{
    fault::{Fault, FaultSettings, LoadFault, Marker},
    landscape::{CLIFF_FACTOR, Landscape},
    latency::{Latency, Mode},
    parts::PartSettings,
};

/// Longest delay that a parameter can ask for, in seconds: more is taken for a wrong unit.
const LONGEST_SECONDS: f64 = 86_400.0;

const TRUE_OR_FALSE: [(&str, bool); 2] = [("true", true), ("false", false)];

/// What the parameters of one model say.
#[derive(Debug)]
pub(crate) struct IdentitySettings {
    /// How much longer loading takes.
    pub(crate) creation_delay: Duration,
    /// The file that ends a load by existing.
    pub(crate) creation_gate: Option<PathBuf>,
    /// Numbers of a row, where the model says so itself.
    pub(crate) columns: Option<usize>,
    /// How long an execution takes.
    pub(crate) latency: Latency,
    /// How that depends on settings, chance and time.
    pub(crate) landscape: Landscape,
    /// Does a row give the sum of what has come in it?
    pub(crate) accumulates: bool,
    /// Does a line say that an execution has begun?
    pub(crate) says_executions: bool,
    /// How a request is answered in parts; `None` where it gets one answer.
    pub(crate) parts: Option<PartSettings>,
    /// What goes wrong in executions.
    pub(crate) faults: FaultSettings,
    /// What goes wrong before them.
    pub(crate) load_fault: Option<LoadFault>,
}

impl IdentitySettings {
    /// # Errors
    /// [`BackendError::Load`] that names the parameter, its value and what is allowed.
    pub(crate) fn read(source: &ModelSource) -> Result<IdentitySettings, BackendError> {
        let options = Options(source);
        let latency = Latency {
            delay: options.duration("execute_delay_ms", 1e-3)?,
            instance_multiplier: options.count("instance_wise_delay_multiplier")?.unwrap_or(0),
            alpha: options.duration("latency_alpha_us", 1e-6)?,
            beta: options.duration("latency_beta_us", 1e-6)?,
            mode: options.choice("latency_mode", &Mode::ALL)?.unwrap_or(Mode::Sleep),
        };
        let landscape = Landscape {
            thread_gain: options.number("latency_thread_gain", 0.0, 4.0)?.unwrap_or(0.0),
            processors: options.count("latency_processors")?,
            cliff_threads: options.count("latency_cliff_threads")?,
            cliff_instances: options.count("latency_cliff_instances")?,
            cliff_factor: options.number("latency_cliff_factor", 0.0, 1e6)?.unwrap_or(CLIFF_FACTOR),
            noise: options.number("latency_noise", 0.0, 1.0)?.unwrap_or(0.0),
            drift_per_minute: options.number("latency_drift_per_minute", -1e3, 1e3)?.unwrap_or(0.0),
            drift_since: Duration::from_secs(options.count("latency_drift_since")?.unwrap_or(0)),
        };
        Ok(IdentitySettings {
            creation_delay: options.duration("creation_delay_sec", 1.0)?,
            creation_gate: options.text("creation_gate").map(PathBuf::from),
            columns: options.count("columns")?.and_then(|it| it.try_into().ok()),
            latency,
            landscape,
            accumulates: options.choice("accumulates", &TRUE_OR_FALSE)?.unwrap_or(false),
            says_executions: options.choice("execute_said", &TRUE_OR_FALSE)?.unwrap_or(false),
            parts: read_parts(&options)?,
            faults: read_faults(&options)?,
            load_fault: options.choice("load_fault", &LoadFault::ALL)?,
        })
    }
}

fn read_parts(options: &Options<'_>) -> Result<Option<PartSettings>, BackendError> {
    let Some(parts) = options.count("parts")? else { return Ok(None) };
    Ok(Some(PartSettings {
        parts,
        delay: options.duration("part_delay_us", 1e-6)?,
        fails: options.choice("part_fails", &TRUE_OR_FALSE)?.unwrap_or(false),
        leaves: options.choice("parts_leave", &TRUE_OR_FALSE)?.unwrap_or(false),
    }))
}

fn read_faults(options: &Options<'_>) -> Result<FaultSettings, BackendError> {
    let given = options.choice("fault", &Fault::ALL)?;
    let marker = options.text("fault_marker").map(Marker::new);
    let fail_marked = options.choice("fail_marked_rows", &TRUE_OR_FALSE)?;
    let fault = match (fail_marked, given) {
        (Some(true), Some(Fault::Fail) | None) if marker.is_some() => Some(Fault::Fail),
        (Some(true), Some(Fault::Fail) | None) => {
            return Err(
                options.refuse("fault_marker", "a number or a string with fail_marked_rows")
            );
        }
        (Some(true), Some(_)) => {
            return Err(options.refuse("fault", "'fail' or nothing with fail_marked_rows"));
        }
        (Some(false) | None, given) => given.or(marker.as_ref().map(|_| Fault::Fail)),
    };
    Ok(FaultSettings {
        fault,
        marker,
        above_rows: options.count("fault_above_rows")?.unwrap_or(0),
        after: options.count("fault_after")?.unwrap_or(0),
        times: options.count("fault_times")?,
    })
}

struct Options<'a>(&'a ModelSource);

impl Options<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.options.get(key).map(|it| it.trim())
    }

    /// A delay of `value · unit` seconds; zero where nothing is said.
    fn duration(&self, key: &str, unit: f64) -> Result<Duration, BackendError> {
        let Some(text) = self.text(key) else { return Ok(Duration::ZERO) };
        let most = LONGEST_SECONDS / unit;
        match text.parse::<f64>() {
            Ok(value) if (0.0..=most).contains(&value) => Ok(Duration::from_secs_f64(value * unit)),
            _ => Err(self.refuse(key, &format!("a number from 0 to {most:.0}"))),
        }
    }

    fn number(&self, key: &str, low: f64, high: f64) -> Result<Option<f64>, BackendError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(value) if (low..=high).contains(&value) => Ok(Some(value)),
            _ => Err(self.refuse(key, &format!("a number from {low} to {high}"))),
        }
    }

    fn count(&self, key: &str) -> Result<Option<u64>, BackendError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.parse() {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(self.refuse(key, "a whole number from 0")),
        }
    }

    fn choice<T: Copy>(&self, key: &str, allowed: &[(&str, T)]) -> Result<Option<T>, BackendError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match allowed.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
                Err(self.refuse(key, &format!("one of {}", names.join(", "))))
            }
        }
    }

    fn refuse(&self, key: &str, allowed: &str) -> BackendError {
        let name = &self.0.name;
        let given = self.text(key).map_or("nothing".to_owned(), |it| format!("'{it}'"));
        BackendError::Load(format!(
            "model '{name}': parameter '{key}': expected {allowed}, given {given}"
        ))
    }
}
