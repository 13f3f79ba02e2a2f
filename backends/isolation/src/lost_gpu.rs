//! Errors of runs after which no run of the process can use its GPU: only another process can. They are known by what
//! CUDA and the engines say themselves, at the beginning of their texts: further behind stands what an operator quotes,
//! which may come from a client.

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
    "all CUDA-capable devices are busy or unavailable",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_EXECUTION_FAILED",
];

/// What libtorch puts before what CUDA and its libraries say.
const LIBTORCH: [&str; 3] = ["CUDA error: ", "CUDA driver error: ", "cuDNN error: "];

/// The libraries that ONNX Runtime names, as in `CUDA failure 719: `.
const ONNX_RUNTIME: [&str; 3] = ["CUDA", "CUBLAS", "CUDNN"];

/// Has the process lost its GPU with that error of a run?
pub(crate) fn has_lost_gpu(device: Device, error: &BackendError) -> bool {
    let text = match error {
        BackendError::Execute(text) | BackendError::Device(text) => text,
        _ => return false,
    };
    let lasts = |reason: &str| LASTING.iter().any(|it| reason.starts_with(it));
    device != Device::Cpu && reason(message(text)).is_some_and(lasts)
}

/// What ONNX Runtime says behind the operator that failed, which it names first, and the types of the function that
/// noticed it.
fn message(text: &str) -> &str {
    let of_operator = text
        .strip_prefix("Non-zero status code returned while running ")
        .and_then(|it| it.split_once(" Status Message: "));
    let mut message = of_operator.map_or(text, |it| it.1);
    while let Some((_, rest)) = message.strip_prefix("[with ").and_then(|it| it.split_once("] ")) {
        message = rest;
    }
    message
}

/// What CUDA or one of its libraries says, where a message is of one.
fn reason(message: &str) -> Option<&str> {
    if let Some(reason) = LIBTORCH.iter().find_map(|it| message.strip_prefix(it)) {
        return Some(reason);
    }
    let (library, rest) = message.split_once(" failure ")?;
    let (number, reason) = rest.split_once(": ")?;
    let is_failure = ONNX_RUNTIME.contains(&library) && number.parse::<u32>().is_ok();
    is_failure.then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(text: &str) -> bool {
        has_lost_gpu(Device::Gpu(0), &BackendError::Execute(text.to_owned()))
    }

    #[test]
    fn errors_that_last_are_told_from_those_of_one_run() {
        let check = |device, error: BackendError| has_lost_gpu(device, &error);
        let text = "CUDA error: device-side assert triggered".to_owned();
        assert!(check(Device::Gpu(1), BackendError::Execute(text.clone())));
        assert!(check(Device::Gpu(1), BackendError::Device(text.clone())));
        assert!(!check(Device::Cpu, BackendError::Execute(text.clone())));
        assert!(!check(Device::Gpu(0), BackendError::OutOfMemory(text)));
        assert!(!is_lost("CUDA failure 1: invalid argument"));
        assert!(!is_lost("CUDA error: invalid configuration argument"));
    }

    #[test]
    fn what_the_engines_say_where_a_gpu_is_lost_is_known() {
        for text in [
            "CUDA error: an illegal memory access was encountered",
            "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle, opa, opb, m, n, k)`",
            "CUDA driver error: unspecified launch failure",
            "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
            "CUDA failure 719: unspecified launch failure",
            "CUDA failure 46: all CUDA-capable devices are busy or unavailable",
            "CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED",
            "Non-zero status code returned while running Add node. Name:'Add_1' Status Message: CUDA failure 700: an \
             illegal memory access was encountered",
            "Non-zero status code returned while running Conv node. Name:'' Status Message: [with ERRTYPE = cudaError; \
             bool THRW = true] [with ERRTYPE = cudaError; bool THRW = false] CUDA failure 214: uncorrectable ECC error \
             encountered",
        ] {
            assert!(is_lost(text), "{text}");
        }
    }

    #[test]
    fn what_an_error_quotes_from_a_client_ends_no_process() {
        for said in [
            "device-side assert triggered",
            "CUBLAS_STATUS_EXECUTION_FAILED",
            "CUDA error: device-side assert triggered",
            "CUDA failure 719: unspecified launch failure",
            "Non-zero status code returned while running Add node. Name:'' Status Message: CUDA failure 719: \
             unspecified launch failure",
        ] {
            for text in [
                format!("could not convert '{said}' to a number"),
                format!("invalid text: {said}"),
                format!("builtins.ValueError: {said}"),
                format!("assertion failed: [{said}] [Condition x == y did not hold]"),
                format!(
                    "Non-zero status code returned while running StringNormalizer node. Name:'s' Status Message: no \
                     locale for {said}"
                ),
                format!("CUDA error: invalid argument ({said})"),
                format!("CUDA failure 1: invalid argument: {said}"),
            ] {
                assert!(!is_lost(&text), "{text}");
            }
        }
    }
}
