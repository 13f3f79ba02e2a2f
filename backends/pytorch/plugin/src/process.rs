//! What concerns the whole process: versions, devices, switches.

use pytorch_abi::{Failure, Switches};
use tch::{Cuda, jit};

use crate::{
    cuda,
    failure::{self, answer, torch_problem},
    lacking,
    problem::TorchProblem,
};

pub(crate) unsafe extern "C" fn built_with() -> u64 {
    // SAFETY: takes nothing.
    unsafe { lacking::muster_built_with() }
}

pub(crate) unsafe extern "C" fn running_with() -> u64 {
    // SAFETY: takes nothing.
    unsafe { lacking::aoti_torch_abi_version() }
}

pub(crate) unsafe extern "C" fn open_cuda() {
    // SAFETY: no module has been loaded, so that no other thread is in libtorch.
    unsafe { lacking::muster_no_frames() };
    let _ = cuda::opened();
}

pub(crate) unsafe extern "C" fn gpu_count(count: *mut u32) -> *mut Failure {
    answer(false, || {
        cuda::opened().map_err(TorchProblem::new)?;
        if !Cuda::is_available() {
            return Err(TorchProblem::new("CUDA finds no usable driver or GPU"));
        }
        // SAFETY: the host says that the number may be written there.
        unsafe { count.write(u32::try_from(Cuda::device_count()).unwrap_or(0)) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn set_interop_threads(threads: u32) -> *mut Failure {
    answer(false, || {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: takes any number. `tch` has the same function, which panics.
        unsafe { torch_sys::at_set_num_interop_threads(threads) };
        torch_problem()
    })
}

pub(crate) unsafe extern "C" fn switch(wanted: Switches) -> Switches {
    let mut before = Switches { executor: 0, profiling: 0, fuser: 0, cudnn: 0 };
    // None of these fails: they are variables.
    let failure = answer(false, || {
        before = Switches {
            // SAFETY: takes any number.
            executor: unsafe { lacking::muster_switch_executor(wanted.executor) },
            profiling: jit::f_get_profiling_mode()?.into(),
            fuser: jit::f_get_tensor_expr_fuser_enabled()?.into(),
            cudnn: Cuda::user_enabled_cudnn().into(),
        };
        if wanted.profiling >= 0 {
            jit::f_set_profiling_mode(wanted.profiling != 0)?;
        }
        if wanted.fuser >= 0 {
            jit::f_set_tensor_expr_fuser_enabled(wanted.fuser != 0)?;
        }
        if wanted.cudnn >= 0 {
            Cuda::set_user_enabled_cudnn(wanted.cudnn != 0);
        }
        Ok(())
    });
    if !failure.is_null() {
        // SAFETY: it was made just now, and nobody else has it.
        unsafe { failure::free(failure) };
    }
    before
}
