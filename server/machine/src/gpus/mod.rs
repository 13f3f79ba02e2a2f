//! The GPUs that this process may use: which there are, and what their sensors say. NVIDIA's management library
//! is opened for it when the server starts; without a driver there is none, and that is all that happens.

mod nvml;
mod visible;

use std::fmt;

/// A GPU, or the part of one that a process has to itself (MIG).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Counted from zero among the visible ones: the number that CUDA and configurations use.
    pub number: u32,
    /// `GPU-…`, or `MIG-…` for a part of one.
    pub uuid: String,
    /// What it is called: `NVIDIA A10G`.
    pub name: String,
    /// Bytes of its memory, where the driver says.
    pub memory: Option<u64>,
    /// `8.6`: what it can compute, where the driver says.
    pub capability: Option<String>,
}

/// The GPUs that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// In the order of their numbers, without gaps.
    pub found: Vec<Gpu>,
    /// Why there is none, or why there are fewer than the machine has, or fewer than `CUDA_VISIBLE_DEVICES`
    /// names where that is set; empty where neither is so.
    pub reason: String,
    /// What the reason is about.
    pub lack: Lack,
}

/// What keeps models from the GPUs of a machine, or from some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Nothing does.
    Nothing,
    /// There is no driver, and so no GPU, as on most machines.
    NoDriver,
    /// Somebody has hidden them on purpose, all of them.
    Hidden,
    /// Something that is hardly meant: a driver that does not work, a bad list, a GPU without parts.
    Fault,
}

impl Lack {
    /// Is there a GPU that could be used, were it not for this?
    pub fn is_of_some(self) -> bool {
        matches!(self, Lack::Hidden | Lack::Fault)
    }
}

/// What the environment says about GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Visibility {
    /// `CUDA_VISIBLE_DEVICES`: CUDA shows these only, in this order.
    pub cuda: Option<String>,
    /// `NVIDIA_VISIBLE_DEVICES`: what was asked of the container's runtime. It explains an absence and
    /// decides nothing: a runtime that hands out GPUs by itself sets it to `void`.
    pub container: Option<String>,
}

/// What can be read of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sensor {
    /// Share of the time in which it was busy, 0 to 1.
    Utilization,
    /// Bytes.
    MemoryTotal,
    /// Bytes, of all processes.
    MemoryUsed,
    /// Watts.
    PowerUsage,
    /// Watts.
    PowerLimit,
    /// Joules since the driver was loaded.
    Energy,
}

impl Sensor {
    /// Every sensor.
    pub const ALL: [Sensor; 6] = [
        Sensor::Utilization,
        Sensor::MemoryTotal,
        Sensor::MemoryUsed,
        Sensor::PowerUsage,
        Sensor::PowerLimit,
        Sensor::Energy,
    ];
}

impl fmt::Display for Sensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sensor::Utilization => "utilization",
            Sensor::MemoryTotal => "size of the memory",
            Sensor::MemoryUsed => "used memory",
            Sensor::PowerUsage => "power",
            Sensor::PowerLimit => "power limit",
            Sensor::Energy => "energy",
        })
    }
}

/// What one sensor of one GPU says, in the sensor's unit, or why it says nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The GPU's.
    pub uuid: String,
    /// Which.
    pub sensor: Sensor,
    /// In the sensor's unit.
    pub value: Result<f64, String>,
}

/// The sensors of all visible GPUs.
pub trait Sensors: Send {
    /// Reads each of them. Blocking, up to some milliseconds per GPU.
    fn read(&mut self) -> Vec<Reading>;
}

impl Gpus {
    /// Looks for GPUs. Blocking: some 50 microseconds without a driver, some 100 milliseconds with one.
    ///
    /// The sensors are those of the GPUs that were found; `None` where there is none.
    pub fn read(visibility: &Visibility) -> (Gpus, Option<Box<dyn Sensors>>) {
        match nvml::Library::open() {
            Err(problem) => {
                let lack = match problem {
                    nvml::Problem::NoLibrary => Lack::NoDriver,
                    nvml::Problem::NoDriver(_) => Lack::Fault,
                };
                (Gpus::none(problem.to_string(), lack, visibility), None)
            }
            Ok(library) => {
                let (all, silent) = library.all();
                let gpus = visible::visible(&all, visibility).without(&silent);
                let uuids: Vec<String> = gpus.found.iter().map(|it| it.uuid.clone()).collect();
                let sensors = (!uuids.is_empty()).then(|| library.sensors(uuids));
                (gpus, sensors)
            }
        }
    }

    /// The same where the driver knows of GPUs beside them that do not answer it, for these reasons.
    fn without(self, silent: &[String]) -> Gpus {
        if silent.is_empty() {
            return self;
        }
        let mut reasons = silent.to_vec();
        if self.lack.is_of_some() {
            reasons.push(self.reason);
        }
        Gpus { reason: reasons.join("; "), lack: Lack::Fault, ..self }
    }

    /// No GPUs for this reason, and what the environment adds to it.
    fn none(reason: String, lack: Lack, visibility: &Visibility) -> Gpus {
        let container = visibility.container.as_deref().map(str::trim);
        let reason = match container {
            Some(it @ ("none" | "void" | "")) => {
                format!("{reason} (NVIDIA_VISIBLE_DEVICES is '{it}')")
            }
            _ => reason,
        };
        Gpus { found: Vec::new(), reason, lack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_for_gpus_ends_with_some_or_with_a_reason() {
        let (gpus, sensors) = Gpus::read(&Visibility::default());
        assert_eq!(gpus.found.is_empty(), sensors.is_none());
        assert!(!gpus.found.is_empty() || !gpus.reason.is_empty());
    }

    #[test]
    fn a_container_that_was_started_without_gpus_is_told_of() {
        let none = |container: &str| {
            let container = Some(container.to_owned());
            let visibility = Visibility { cuda: None, container };
            Gpus::none("none".into(), Lack::NoDriver, &visibility).reason
        };
        assert_eq!(none("void"), "none (NVIDIA_VISIBLE_DEVICES is 'void')");
        assert_eq!(none("all"), "none");
    }

    #[test]
    fn a_gpu_that_does_not_answer_its_driver_is_a_fault_whatever_else_there_is() {
        let silent = ["GPU 3 does not answer: lost".to_owned()];
        let gpus = |reason: &str, lack| Gpus { found: Vec::new(), reason: reason.to_owned(), lack };
        let fine = gpus("", Lack::Nothing).without(&silent);
        assert_eq!(fine, gpus("GPU 3 does not answer: lost", Lack::Fault));
        let hidden = gpus("hidden", Lack::Hidden);
        assert_eq!(hidden.clone().without(&[]), hidden);
        assert_eq!(hidden.without(&silent).reason, "GPU 3 does not answer: lost; hidden");
    }
}
