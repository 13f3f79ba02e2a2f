//! Errors of runs after which no run of the process can use its GPU: only another process can.

use backend::{BackendError, Device};

/// What the errors of CUDA's runtime that last until the process ends are called, and what its libraries say then.
const LASTING: [&str; 15] = [
    "uncorrectable ECC error",
    "uncorrectable NVLink error",
    "an illegal memory access was encountered",
    "the launch timed out and was terminated",
    "context is destroyed",
    "device-side assert",
    "hardware stack error",
    "an illegal instruction was encountered",
    "misaligned address",
    "operation not supported on global/shared address space",
    "invalid program counter",
    "unspecified launch failure",
    "devices are busy or unavailable",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_EXECUTION_FAILED",
];

/// Has the process lost its GPU with that error of a run?
pub(crate) fn has_lost_gpu(device: Device, error: &BackendError) -> bool {
    let text = match error {
        BackendError::Execute(text) | BackendError::Device(text) => text,
        _ => return false,
    };
    device != Device::Cpu && LASTING.iter().any(|it| text.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_last_are_told_from_those_of_one_run() {
        let check = |device, error: BackendError| has_lost_gpu(device, &error);
        let text = "CUDA error: device-side assert triggered".to_owned();
        assert!(check(Device::Gpu(1), BackendError::Execute(text.clone())));
        assert!(!check(Device::Cpu, BackendError::Execute(text.clone())));
        assert!(!check(Device::Gpu(0), BackendError::OutOfMemory(text)));
        let of_run = "CUDA failure 1: invalid argument".to_owned();
        assert!(!check(Device::Gpu(0), BackendError::Execute(of_run)));
    }
}
