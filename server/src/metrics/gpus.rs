//! What the sensors of GPUs said last, and which of them say nothing.

use std::collections::BTreeSet;

use crate::machine::gpus::{Reading, Sensor, Sensors};

/// The sensors, their last readings, and those that were complained about.
pub(super) struct GpuSampler {
    sensors: Option<Box<dyn Sensors>>,
    silent: BTreeSet<(String, Sensor)>,
}

impl GpuSampler {
    /// `None`: there is nothing to read.
    pub(super) fn new(sensors: Option<Box<dyn Sensors>>) -> GpuSampler {
        GpuSampler { sensors, silent: BTreeSet::new() }
    }

    /// Reads, and warns of a sensor that says nothing, once. Blocking.
    pub(super) fn sample(&mut self) -> Vec<(String, Sensor, f64)> {
        let Some(sensors) = &mut self.sensors else { return Vec::new() };
        let mut said = Vec::new();
        for Reading { uuid, sensor, value } in sensors.read() {
            match value {
                Ok(value) => said.push((uuid, sensor, value)),
                Err(problem) => {
                    if self.silent.insert((uuid.clone(), sensor)) {
                        tracing::warn!(
                            gpu = uuid,
                            "the {sensor} of the GPU is not shown: {problem}"
                        );
                    }
                }
            }
        }
        said
    }
}
