//! Failures as values: of libtorch, of `tch`, and of this plugin's own code.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use pytorch_abi::{Failure, Text};
use tch::TchError;

use crate::lacking;

/// What is said where memory is refused that is not libtorch's.
pub(crate) const OUT_OF_MEMORY: &str = "out of memory";

/// Why a call failed: libtorch's text, of many lines.
#[derive(Debug)]
pub(crate) struct Problem(String);

impl Problem {
    pub(crate) fn new(text: impl Into<String>) -> Problem {
        Problem(text.into())
    }

    /// [`pytorch_abi::FAILED`] or [`pytorch_abi::OUT_OF_MEMORY`]. torch-sys hands over texts and no types; the host knows
    /// more of these texts. Further lines may be of the model's source.
    fn kind(&self) -> u32 {
        let begins = [OUT_OF_MEMORY, "CUDA out of memory", "std::bad_alloc"];
        match begins.iter().any(|it| self.0.starts_with(it)) {
            true => pytorch_abi::OUT_OF_MEMORY,
            false => pytorch_abi::FAILED,
        }
    }
}

impl From<TchError> for Problem {
    fn from(error: TchError) -> Problem {
        match error {
            // What it would say otherwise begins with a name of `tch`.
            TchError::Torch(text) => Problem(text),
            other => Problem(other.to_string()),
        }
    }
}

/// What a function of torch-sys left behind where it failed, which is to be asked after each.
pub(crate) fn torch_problem() -> Result<(), Problem> {
    // SAFETY: takes nothing. The text ends with a zero, and belongs to us from now on.
    unsafe { lacking::check(torch_sys::get_and_reset_last_err()) }
}

/// A [`Failure`] and the memory of its text.
#[repr(C)]
struct Owned {
    failure: Failure,
    text: String,
}

/// Runs `work` without libtorch's warnings, in inference mode, or out of it and then with gradients. Returns what failed;
/// nothing unwinds out of it.
pub(crate) fn answer(
    inference_mode: bool,
    work: impl FnOnce() -> Result<(), Problem>,
) -> *mut Failure {
    match guarded(inference_mode, work) {
        Ok(()) => ptr::null_mut(),
        Err(problem) => {
            let kind = problem.kind();
            let text = Text { begin: problem.0.as_ptr(), length: problem.0.len() };
            let owned = Owned { failure: Failure { kind, text }, text: problem.0 };
            Box::into_raw(Box::new(owned)).cast()
        }
    }
}

/// Takes a failure back.
///
/// # Safety
/// [`answer`] gave it, and nobody uses it any more.
pub(crate) unsafe extern "C" fn free(failure: *mut Failure) {
    // SAFETY: the caller says so, and then it is an `Owned`, which begins with its failure.
    drop(unsafe { Box::from_raw(failure.cast::<Owned>()) });
}

fn guarded<W: FnOnce() -> Result<(), Problem>>(
    inference_mode: bool,
    work: W,
) -> Result<(), Problem> {
    struct Call<W> {
        work: Option<W>,
        outcome: Result<(), Problem>,
    }
    unsafe extern "C" fn call<W: FnOnce() -> Result<(), Problem>>(data: *mut c_void) {
        // SAFETY: it is the call below, which nobody else uses meanwhile.
        let call = unsafe { &mut *data.cast::<Call<W>>() };
        let Some(work) = call.work.take() else { return };
        let caught = catch_unwind(AssertUnwindSafe(work));
        call.outcome = caught.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Err(Problem::new(format!("the plugin panicked: {text}")))
        });
    }
    let mut it = Call { work: Some(work), outcome: Ok(()) };
    // SAFETY: the function is the one for this type of `work`, does not unwind, and `it` is there during the call.
    unsafe { lacking::muster_guarded(inference_mode, call::<W>, (&raw mut it).cast()) };
    it.outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_writes_of_memory_is_no_lack_of_it() {
        let kind = |text: &str| Problem::new(text).kind();
        assert_eq!(kind("CUDA out of memory. Tried to allocate 2 GiB"), pytorch_abi::OUT_OF_MEMORY);
        assert_eq!(kind(OUT_OF_MEMORY), pytorch_abi::OUT_OF_MEMORY);
        let line = "Traceback\n  raise ValueError(\"out of memory\")\nRuntimeError: no";
        assert_eq!(kind(line), pytorch_abi::FAILED);
    }
}
