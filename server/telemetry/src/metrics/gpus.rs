//! What the sensors of GPUs said last, and which of them say nothing.

use std::collections::BTreeSet;

use machine::gpus::{Reading, Sensor, Sensors};

/// The sensors, and those that were complained about.
pub(super) struct GpuSampler {
    sensors: Option<Box<dyn Sensors>>,
    silent: BTreeSet<(String, Sensor)>,
}

/// One look at all sensors.
#[derive(Debug, PartialEq, Default)]
pub(super) struct Sampled {
    /// GPU, sensor, value.
    pub(super) said: Vec<(String, Sensor, f64)>,
    /// GPU, sensor and why it says nothing, where that is news.
    pub(super) silent: Vec<(String, Sensor, String)>,
}

impl GpuSampler {
    /// `None`: there is nothing to read.
    pub(super) fn new(sensors: Option<Box<dyn Sensors>>) -> GpuSampler {
        GpuSampler { sensors, silent: BTreeSet::new() }
    }

    /// Reads. Blocking.
    pub(super) fn sample(&mut self) -> Sampled {
        let mut sampled = Sampled::default();
        let Some(sensors) = &mut self.sensors else { return sampled };
        for Reading { uuid, sensor, value } in sensors.read() {
            match value {
                Ok(value) => sampled.said.push((uuid, sensor, value)),
                Err(problem) => {
                    if self.silent.insert((uuid.clone(), sensor)) {
                        sampled.silent.push((uuid, sensor, problem));
                    }
                }
            }
        }
        sampled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Sensors for Broken {
        fn read(&mut self) -> Vec<Reading> {
            let reading = |sensor, value| Reading { uuid: "GPU-a".into(), sensor, value };
            vec![
                reading(Sensor::Energy, Err("not supported".into())),
                reading(Sensor::Utilization, Ok(0.5)),
            ]
        }
    }

    #[test]
    fn a_sensor_that_says_nothing_is_news_once_and_keeps_no_other_from_being_shown() {
        let mut sampler = GpuSampler::new(Some(Box::new(Broken)));
        let said = vec![("GPU-a".to_owned(), Sensor::Utilization, 0.5)];
        let silent = vec![("GPU-a".to_owned(), Sensor::Energy, "not supported".to_owned())];
        assert_eq!(sampler.sample(), Sampled { said: said.clone(), silent });
        assert_eq!(sampler.sample(), Sampled { said, silent: Vec::new() });
    }
}
