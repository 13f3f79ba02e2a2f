//! What can be measured of a GPU.

use std::fmt;

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
