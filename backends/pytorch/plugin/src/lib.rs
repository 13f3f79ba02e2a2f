//! The plugin of the PyTorch engine: a table of functions over libtorch, behind one exported symbol.
//!
//! The functions are C++ (`native/`), since all that they do is to call libtorch, which is C++: its
//! exceptions are caught where they can be told apart. What the functions promise stands in [`pytorch_abi`].

use core::ffi::c_void;

use pytorch_abi::{ABI_VERSION, Description, Failure, Module, Run, Switches, Table, Text};

unsafe extern "C" {
    fn muster_torch_built_with() -> u64;
    fn muster_torch_running_with() -> u64;
    fn muster_torch_free_failure(failure: *mut Failure);
    fn muster_torch_open_cuda();
    fn muster_torch_gpu_count(count: *mut u32) -> *mut Failure;
    fn muster_torch_set_interop_threads(threads: u32) -> *mut Failure;
    fn muster_torch_switch(wanted: Switches) -> Switches;
    fn muster_torch_load(path: Text, device: i32, module: *mut *mut Module) -> *mut Failure;
    fn muster_torch_describe(module: *const Module) -> *const Description;
    fn muster_torch_optimize(
        module: *const Module,
        level: u32,
        optimized: *mut *mut Module,
    ) -> *mut Failure;
    fn muster_torch_run(module: *const Module, run: *const Run) -> *mut Failure;
    fn muster_torch_release(handle: *mut c_void);
    fn muster_torch_unload(module: *mut Module);
}

const TABLE: &Table = &Table {
    abi_version: ABI_VERSION,
    built_with: muster_torch_built_with,
    running_with: muster_torch_running_with,
    free_failure: muster_torch_free_failure,
    open_cuda: muster_torch_open_cuda,
    gpu_count: muster_torch_gpu_count,
    set_interop_threads: muster_torch_set_interop_threads,
    switch: muster_torch_switch,
    load: muster_torch_load,
    describe: muster_torch_describe,
    optimize: muster_torch_optimize,
    run: muster_torch_run,
    release: muster_torch_release,
    unload: muster_torch_unload,
};

/// The table, which lives as long as the process. [`pytorch_abi::ENTRY`] is this function's name.
#[unsafe(no_mangle)]
pub extern "C" fn muster_pytorch_plugin() -> *const Table {
    TABLE
}
