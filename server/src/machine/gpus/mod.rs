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
}

/// The GPUs that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// In the order of their numbers, without gaps.
    pub found: Vec<Gpu>,
    /// Why there is none, or why there are fewer than the machine has; empty where neither is so.
    pub reason: String,
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
            Err(problem) => (Gpus::none(problem.to_string(), visibility), None),
            Ok(library) => {
                let gpus = visible::visible(&library.all(), visibility);
                let uuids: Vec<String> = gpus.found.iter().map(|it| it.uuid.clone()).collect();
                let sensors = (!uuids.is_empty()).then(|| library.sensors(uuids));
                (gpus, sensors)
            }
        }
    }

    /// No GPUs for this reason, and what the environment adds to it.
    pub fn none(reason: String, visibility: &Visibility) -> Gpus {
        let container = visibility.container.as_deref().map(str::trim);
        let reason = match container {
            Some(it @ ("none" | "void" | "")) => {
                format!("{reason} (NVIDIA_VISIBLE_DEVICES is '{it}')")
            }
            _ => reason,
        };
        Gpus { found: Vec::new(), reason }
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
            Gpus::none("none".into(), &Visibility { cuda: None, container }).reason
        };
        assert_eq!(none("void"), "none (NVIDIA_VISIBLE_DEVICES is 'void')");
        assert_eq!(none("all"), "none");
    }
}
