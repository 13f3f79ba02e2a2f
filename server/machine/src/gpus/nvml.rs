//! NVIDIA's management library, which comes with the driver and is opened at run time.

use nvml_wrapper::{Device, Nvml, error::NvmlError};

use super::{
    Reading, Sensor, Sensors,
    visible::{About, Whole},
};

/// The open library.
pub(super) struct Library(Nvml);

/// Why there is no library, or no driver for it.
#[derive(Debug, thiserror::Error)]
pub(super) enum DriverError {
    #[error(
        "libnvidia-ml.so.1 cannot be opened: is the NVIDIA driver installed, and the container started \
         with --gpus?"
    )]
    NoLibrary,
    #[error("the NVIDIA driver does not answer: {0}")]
    NoDriver(NvmlError),
}

impl Library {
    /// Opens it, and asks the driver for its devices.
    pub(super) fn open() -> Result<Library, DriverError> {
        match Nvml::init() {
            Ok(nvml) => Ok(Library(nvml)),
            Err(NvmlError::LibloadingError(_)) => Err(DriverError::NoLibrary),
            Err(error) => Err(DriverError::NoDriver(error)),
        }
    }

    /// The machine's GPUs in the order of the bus. One that does not answer is left out, as CUDA does, and
    /// named among the reasons.
    pub(super) fn all(&self) -> (Vec<Whole>, Vec<String>) {
        let (mut all, mut silent) = (Vec::new(), Vec::new());
        let count = self.0.device_count().unwrap_or_else(|error| {
            silent.push(format!("the NVIDIA driver does not tell its GPUs: {error}"));
            0
        });
        for index in 0..count {
            match self.0.device_by_index(index).and_then(|it| whole(&it)) {
                Ok(whole) => all.push(whole),
                Err(error) => {
                    silent.push(format!("GPU {index} of the machine does not answer: {error}"));
                }
            }
        }
        (all, silent)
    }

    /// The sensors of these GPUs.
    pub(super) fn sensors(self, uuids: Vec<String>) -> Box<dyn Sensors> {
        Box::new(NvmlSensors { nvml: self.0, uuids })
    }
}

fn whole(device: &Device<'_>) -> Result<Whole, NvmlError> {
    // A GPU that cannot be cut has no such mode.
    let is_cut = device.mig_mode().is_ok_and(|it| it.current == 1);
    let parts = is_cut.then(|| {
        let places = 0..device.mig_device_count().unwrap_or(0);
        let parts = places.filter_map(|it| device.mig_device_by_index(it).ok());
        parts.filter_map(|it| about(&it).ok()).collect()
    });
    Ok(Whole { about: about(device)?, parts })
}

fn about(device: &Device<'_>) -> Result<About, NvmlError> {
    Ok(About {
        uuid: device.uuid()?,
        name: device.name()?,
        memory: device.memory_info().ok().map(|it| it.total),
        capability: device
            .cuda_compute_capability()
            .ok()
            .map(|it| format!("{}.{}", it.major, it.minor)),
    })
}

struct NvmlSensors {
    nvml: Nvml,
    uuids: Vec<String>,
}

impl Sensors for NvmlSensors {
    fn read(&mut self) -> Vec<Reading> {
        let readings = self.uuids.iter().flat_map(|uuid| {
            let device = self.nvml.device_by_uuid(uuid.as_str()).map_err(|it| it.to_string());
            Sensor::ALL.map(|sensor| {
                let value = device.as_ref().map_err(String::clone);
                let value = value.and_then(|it| read(it, sensor).map_err(|it| it.to_string()));
                Reading { uuid: uuid.clone(), sensor, value }
            })
        });
        readings.collect()
    }
}

/// The library counts percents, milliwatts and millijoules.
fn read(device: &Device<'_>, sensor: Sensor) -> Result<f64, NvmlError> {
    Ok(match sensor {
        Sensor::Utilization => f64::from(device.utilization_rates()?.gpu) / 100.0,
        Sensor::MemoryTotal => device.memory_info()?.total as f64,
        Sensor::MemoryUsed => device.memory_info()?.used as f64,
        Sensor::PowerUsage => f64::from(device.power_usage()?) / 1000.0,
        Sensor::PowerLimit => f64::from(device.power_management_limit()?) / 1000.0,
        Sensor::Energy => device.total_energy_consumption()? as f64 / 1000.0,
    })
}
