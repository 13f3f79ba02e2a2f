//! The processes of one loaded model version: one for each device that it has instances on.

use std::{fmt, sync::Arc};

use crate::{Device, ModelProcess, Outage};

/// A process, and the device of the instances that are in it.
#[derive(Clone)]
pub struct DeviceProcess {
    /// Where its instances run. No other process of the model has instances there.
    pub device: Device,
    /// The process.
    pub process: Arc<dyn ModelProcess>,
}

/// The processes of one loaded model version, in the order of its placements. None where the model runs in the
/// server's process.
#[derive(Clone, Default)]
pub struct Processes(Arc<[DeviceProcess]>);

impl Processes {
    /// Is there none, as the model runs in the server's process?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &DeviceProcess> {
        self.0.iter()
    }

    /// That of the instances on that device.
    pub fn on(&self, device: Device) -> Option<&Arc<dyn ModelProcess>> {
        self.0.iter().find(|it| it.device == device).map(|it| &it.process)
    }

    /// Why no run can be made at this moment, on no device: of several the outage that may end first. `None` where a
    /// device can serve, and where there are no processes. Cheap, as it is asked before every request.
    pub fn outage(&self) -> Option<Outage> {
        let mut first: Option<Outage> = None;
        for it in self.0.iter() {
            let outage = it.process.outage()?;
            if first.as_ref().is_none_or(|it| outage.retry_after < it.retry_after) {
                first = Some(outage);
            }
        }
        first
    }

    /// Has one of them ended for good, so that only a load helps? See [`ModelProcess::is_to_be_loaded_again`].
    pub fn is_to_be_loaded_again(&self) -> bool {
        self.0.iter().any(|it| it.process.is_to_be_loaded_again())
    }

    /// All memory that they take, in bytes. Looks at them as [`ModelProcess::figures`] does.
    pub fn memory_bytes(&self) -> u64 {
        let bytes = self.0.iter().map(|it| it.process.figures().memory_bytes());
        bytes.fold(0, u64::saturating_add)
    }
}

impl FromIterator<DeviceProcess> for Processes {
    fn from_iter<I: IntoIterator<Item = DeviceProcess>>(processes: I) -> Processes {
        Processes(processes.into_iter().collect())
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| it.device)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ProcessFigures;

    /// A process that is out for so many seconds.
    struct Process(Option<u64>);

    impl ModelProcess for Process {
        fn figures(&self) -> ProcessFigures {
            ProcessFigures { private_bytes: 100, arena_bytes: 20, ..ProcessFigures::default() }
        }

        fn outage(&self) -> Option<Outage> {
            let seconds = self.0?;
            let retry_after = Duration::from_secs(seconds);
            Some(Outage { reason: format!("out for {seconds} s"), retry_after })
        }

        fn is_to_be_loaded_again(&self) -> bool {
            self.0 == Some(30)
        }
    }

    fn processes(outages: &[Option<u64>]) -> Processes {
        let on = |(number, seconds): (u32, &Option<u64>)| DeviceProcess {
            device: Device::Gpu(number),
            process: Arc::new(Process(*seconds)),
        };
        (0..).zip(outages).map(on).collect()
    }

    #[test]
    fn a_model_is_out_only_where_it_is_on_every_device_and_until_the_first_may_serve() {
        let reason = |outages: &[Option<u64>]| processes(outages).outage().map(|it| it.reason);
        assert_eq!(reason(&[]), None);
        assert_eq!(reason(&[Some(7), None]), None);
        assert_eq!(reason(&[None, Some(7)]), None);
        assert_eq!(reason(&[Some(7), Some(3), Some(5)]).as_deref(), Some("out for 3 s"));
    }

    #[test]
    fn one_that_only_a_load_brings_back_is_one_of_the_model() {
        assert!(processes(&[None, Some(30)]).is_to_be_loaded_again());
        assert!(!processes(&[None, Some(7)]).is_to_be_loaded_again());
    }

    #[test]
    fn memory_is_that_of_all_of_them() {
        assert_eq!(processes(&[None, Some(7)]).memory_bytes(), 240);
        assert_eq!(processes(&[]).memory_bytes(), 0);
    }
}
