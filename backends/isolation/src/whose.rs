//! Which model version a worker is of, for the log and for errors.

use backend::Device;

/// A model version, and its instances on one device.
#[derive(Debug, Clone)]
pub(crate) struct Whose {
    pub(crate) model: String,
    pub(crate) version: u64,
    /// Where the instances are; `None` for a model whose instances are all on one device.
    pub(crate) device: Option<Device>,
}

impl Whose {
    /// The process, as errors call it.
    pub(crate) fn process(&self) -> String {
        let process = format!("the process of model '{}'", self.model);
        match self.device {
            None => process,
            Some(Device::Cpu) => format!("{process} on the CPU"),
            Some(Device::Gpu(number)) => format!("{process} on GPU {number}"),
        }
    }
}

/// Where instances are, as the metrics call it.
pub(crate) fn device_name(device: Device) -> String {
    match device {
        Device::Gpu(number) => format!("gpu:{number}"),
        Device::Cpu => "cpu".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_device_in_its_name_where_the_model_has_several() {
        let process = |device| Whose { model: "m".to_owned(), version: 1, device }.process();
        assert_eq!(process(None), "the process of model 'm'");
        assert_eq!(process(Some(Device::Cpu)), "the process of model 'm' on the CPU");
        assert_eq!(process(Some(Device::Gpu(1))), "the process of model 'm' on GPU 1");
    }
}
