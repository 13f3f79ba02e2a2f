//! What concerns the whole process: versions, devices, switches.

use std::{
    ffi::{CStr, OsStr, c_void},
    mem,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::OnceLock,
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pytorch_abi::{Failure, Switches};
use tch::{Cuda, jit};

use crate::{
    failure::{Problem, answer, torch_problem},
    lacking,
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
    let _ = cuda();
}

/// Is CUDA's half of libtorch open? Else what went wrong.
fn cuda() -> Result<(), &'static str> {
    // The only place for it: libtorch is opened once in a process.
    static OPENED: OnceLock<Result<(), String>> = OnceLock::new();
    OPENED.get_or_init(open).as_ref().copied().map_err(String::as_str)
}

/// Brings CUDA's half of libtorch into the process, where it registers itself.
fn open() -> Result<(), String> {
    // SAFETY: all fields may be zero.
    let mut library: libc::Dl_info = unsafe { mem::zeroed() };
    let inside = lacking::aoti_torch_abi_version as *const c_void;
    // SAFETY: any address may be asked for, and the answer is written to where it may.
    if unsafe { libc::dladdr(inside, &raw mut library) } == 0 {
        return Err("libtorch_cpu.so is nowhere".to_owned());
    }
    // SAFETY: the name is there as long as the library.
    let path = unsafe { CStr::from_ptr(library.dli_fname) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes())).with_file_name("libtorch_cuda.so");
    if !path.exists() {
        return Err(format!(
            "there is no {}: this libtorch is made for the CPU only",
            path.display()
        ));
    }
    // SAFETY: the library is libtorch's own other half, and its initialisers only register things.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    // Never closed: what registered itself is called as long as the process lives.
    library.map(mem::forget).map_err(|error| match std::error::Error::source(&error) {
        Some(inner) => inner.to_string(),
        None => error.to_string(),
    })
}

pub(crate) unsafe extern "C" fn gpu_count(count: *mut u32) -> *mut Failure {
    answer(false, || {
        cuda().map_err(Problem::new)?;
        if !Cuda::is_available() {
            return Err(Problem::new("CUDA finds no usable driver or GPU"));
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
        unsafe { crate::failure::free(failure) };
    }
    before
}
