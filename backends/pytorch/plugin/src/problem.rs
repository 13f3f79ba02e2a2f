//! Failures as values: of libtorch, of `tch`, and of this plugin's own code.

use tch::TchError;

/// What is said where memory is refused that is not libtorch's.
pub(crate) const OUT_OF_MEMORY: &str = "out of memory";

/// Why a call failed: libtorch's text, of many lines.
#[derive(Debug)]
pub(crate) struct TorchProblem(String);

impl TorchProblem {
    pub(crate) fn new(text: impl Into<String>) -> TorchProblem {
        TorchProblem(text.into())
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// [`pytorch_abi::FAILED`] or [`pytorch_abi::OUT_OF_MEMORY`]. torch-sys hands over texts and no types; the host
    /// knows more of these texts. Further lines may be of the model's source.
    pub(crate) fn kind(&self) -> u32 {
        let begins = [OUT_OF_MEMORY, "CUDA out of memory", "std::bad_alloc"];
        match begins.iter().any(|it| self.0.starts_with(it)) {
            true => pytorch_abi::OUT_OF_MEMORY,
            false => pytorch_abi::FAILED,
        }
    }
}

impl From<TchError> for TorchProblem {
    fn from(error: TchError) -> TorchProblem {
        match error {
            // What it would say otherwise begins with a name of `tch`.
            TchError::Torch(text) => TorchProblem(text),
            other => TorchProblem(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_writes_of_memory_is_no_lack_of_it() {
        let kind = |text: &str| TorchProblem::new(text).kind();
        assert_eq!(kind("CUDA out of memory. Tried to allocate 2 GiB"), pytorch_abi::OUT_OF_MEMORY);
        assert_eq!(kind(OUT_OF_MEMORY), pytorch_abi::OUT_OF_MEMORY);
        let line = "Traceback\n  raise ValueError(\"out of memory\")\nRuntimeError: no";
        assert_eq!(kind(line), pytorch_abi::FAILED);
    }
}
