//! Calls whose failures go to the host: of libtorch, of `tch`, and of this plugin's own code.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use pytorch_abi::{Failure, Text};

use crate::{lacking, problem::TorchProblem};

/// What a function of torch-sys left behind where it failed, which is to be asked after each.
pub(crate) fn torch_problem() -> Result<(), TorchProblem> {
    // SAFETY: takes nothing. The text ends with a zero, and belongs to us from now on.
    unsafe { lacking::check(torch_sys::get_and_reset_last_err()) }
}

/// A [`Failure`] and the memory of its text.
#[repr(C)]
struct Owned {
    failure: Failure,
    text: String,
}

/// Runs `work` without libtorch's warnings, in inference mode, or out of it and then with gradients. Returns what
/// failed; nothing unwinds out of it.
pub(crate) fn answer(
    inference_mode: bool,
    work: impl FnOnce() -> Result<(), TorchProblem>,
) -> *mut Failure {
    match guarded(inference_mode, work) {
        Ok(()) => ptr::null_mut(),
        Err(problem) => {
            let (kind, own) = (problem.kind(), problem.into_text());
            let text = Text { begin: own.as_ptr(), length: own.len() };
            let owned = Owned { failure: Failure { kind, text }, text: own };
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

fn guarded<W: FnOnce() -> Result<(), TorchProblem>>(
    inference_mode: bool,
    work: W,
) -> Result<(), TorchProblem> {
    struct Call<W> {
        work: Option<W>,
        outcome: Result<(), TorchProblem>,
    }
    unsafe extern "C" fn call<W: FnOnce() -> Result<(), TorchProblem>>(data: *mut c_void) {
        // SAFETY: it is the call below, which nobody else uses meanwhile.
        let call = unsafe { &mut *data.cast::<Call<W>>() };
        let Some(work) = call.work.take() else { return };
        let caught = catch_unwind(AssertUnwindSafe(work));
        call.outcome = caught.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Err(TorchProblem::new(format!("the plugin panicked: {text}")))
        });
    }
    let mut it = Call { work: Some(work), outcome: Ok(()) };
    // SAFETY: the function is the one for this type of `work`, does not unwind, and `it` is there during the call.
    unsafe { lacking::muster_guarded(inference_mode, call::<W>, (&raw mut it).cast()) };
    it.outcome
}
