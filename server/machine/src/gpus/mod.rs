//! The GPUs that this process may use: which there are, and what their sensors say. NVIDIA's management library
//! is opened for it when the server starts; without a driver there is none, and that is all that happens.

mod gpu;
mod nvml;
mod sensor;
mod visible;

pub use gpu::{Gpu, Gpus, Lack, Visibility};
pub use sensor::{Reading, Sensor, Sensors};

impl Gpus {
    /// Looks for GPUs. Blocking: some 50 microseconds without a driver, some 100 milliseconds with one.
    ///
    /// The sensors are those of the GPUs that were found; `None` where there is none.
    pub fn read(visibility: &Visibility) -> (Gpus, Option<Box<dyn Sensors>>) {
        match nvml::Library::open() {
            Err(problem) => {
                let lack = match problem {
                    nvml::DriverError::NoLibrary => Lack::NoDriver,
                    nvml::DriverError::NoDriver(_) => Lack::Fault,
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
}
