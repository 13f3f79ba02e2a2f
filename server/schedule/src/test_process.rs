//! Processes of models that are not there, for tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use backend::{Device, DeviceProcess, ModelProcess, Outage, ProcessFigures, Processes};

/// A process that is out as long as it is told to be.
#[derive(Default)]
pub(crate) struct TestProcess {
    pub(crate) is_out: AtomicBool,
}

impl ModelProcess for TestProcess {
    fn figures(&self) -> ProcessFigures {
        ProcessFigures::default()
    }

    fn outage(&self) -> Option<Outage> {
        let retry_after = Duration::from_secs(30);
        self.is_out.load(Relaxed).then(|| Outage { reason: "it is out".to_owned(), retry_after })
    }
}

/// One that serves, on each of these devices.
pub(crate) fn processes(devices: &[Device]) -> Processes {
    devices.iter().map(|device| on(*device, &Arc::default())).collect()
}

/// That one on that device.
pub(crate) fn on(device: Device, process: &Arc<TestProcess>) -> DeviceProcess {
    DeviceProcess { device, process: process.clone() }
}
