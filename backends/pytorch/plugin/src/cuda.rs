//! CUDA's half of libtorch, which is opened once in a process.

use std::{
    ffi::{CStr, OsStr, c_void},
    mem,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::OnceLock,
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::lacking;

/// Is CUDA's half of libtorch open? Else what went wrong.
pub(crate) fn opened() -> Result<(), &'static str> {
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
