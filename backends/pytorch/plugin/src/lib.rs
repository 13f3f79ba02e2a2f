//! The plugin of the PyTorch engine: a table of functions over libtorch, which one function returns.
//!
//! libtorch is called through `tch`, and through torch-sys below it where `tch` panics or hides a pointer. What neither
//! has is C++, in `native/`. What the functions promise stands in [`pytorch_abi`].

mod about;
mod cuda;
mod element;
mod failure;
mod lacking;
mod lent;
mod module;
mod outputs;
mod problem;
mod process;
mod run;
mod types;
mod value;

use pytorch_abi::{ABI_VERSION, Table};

const TABLE: &Table = &Table {
    abi_version: ABI_VERSION,
    built_with: process::built_with,
    running_with: process::running_with,
    free_failure: failure::free,
    open_cuda: process::open_cuda,
    gpu_count: process::gpu_count,
    set_interop_threads: process::set_interop_threads,
    switch: process::switch,
    load: module::load,
    describe: module::describe,
    optimize: module::optimize,
    run: run::run,
    release: outputs::release,
    unload: module::unload,
};

/// The table, which lives as long as the process. [`pytorch_abi::ENTRY`] is this function's name.
#[unsafe(no_mangle)]
pub extern "C" fn muster_pytorch_plugin() -> *const Table {
    TABLE
}
