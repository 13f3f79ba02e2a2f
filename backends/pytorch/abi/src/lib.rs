//! The C interface between the libtorch engine's host side and its plugin: one exported function, which
//! returns one table of functions. No types of Rust cross it: the two may be of different compilers.
//!
//! **Memory.** What a side allocates that side frees. Whatever is passed by pointer into a call is borrowed
//! for the call. What the plugin returns has its own function that takes it back: [`Failure`], [`Module`],
//! and the handle of an [`Output`].
//!
//! **Threads.** Every function may be called on any thread and by several at once. The exceptions are
//! [`Table::optimize`] and [`Table::unload`], during which nothing else may use the module, and
//! [`Table::run`] of a module that is [`stateful`](Description::stateful). That the runs of any other do not
//! write to what they share rests on the plugin's analysis of the module's graph.
//!
//! **Errors.** A function that can fail returns null, or a [`Failure`] that belongs to the caller. Nothing
//! unwinds across the border: the plugin catches what libtorch throws and its own panics, and the host's callback
//! does not panic.
#![no_std]
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_void};

/// The version of this interface. Another number means another layout of everything but the first field
/// of [`Table`].
pub const ABI_VERSION: u32 = 2;

/// The exported function, an [`Entry`].
pub const ENTRY: &CStr = c"muster_pytorch_plugin";

/// Returns the table, which lives as long as the process. Does nothing else.
pub type Entry = unsafe extern "C" fn() -> *const Table;

/// Bytes of UTF-8, or of a string of TorchScript, which may hold anything. Not ended by a zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Null when the length is zero.
    pub begin: *const u8,
    /// In bytes.
    pub length: usize,
}

/// Why a call failed.
#[repr(C)]
#[derive(Debug)]
pub struct Failure {
    /// [`FAILED`] or [`OUT_OF_MEMORY`].
    pub kind: u32,
    /// libtorch's own text, of many lines.
    pub text: Text,
}

/// A failure that has no kind of its own.
pub const FAILED: u32 = 1;
/// Memory of the host or of a device ran out.
pub const OUT_OF_MEMORY: u32 = 2;

/// Element types.
pub mod element {
    /// A type that cannot be served; [`Output::type_name`](super::Output::type_name) says which.
    pub const OTHER: u32 = 0;
    /// One byte, 0 or 1.
    pub const BOOL: u32 = 1;
    /// Unsigned, 8 bits.
    pub const UINT8: u32 = 2;
    /// Signed, 8 bits.
    pub const INT8: u32 = 3;
    /// Signed, 16 bits.
    pub const INT16: u32 = 4;
    /// Signed, 32 bits.
    pub const INT32: u32 = 5;
    /// Signed, 64 bits.
    pub const INT64: u32 = 6;
    /// IEEE, 16 bits.
    pub const FP16: u32 = 7;
    /// The upper half of [`FP32`].
    pub const BF16: u32 = 8;
    /// IEEE, 32 bits.
    pub const FP32: u32 = 9;
    /// IEEE, 64 bits.
    pub const FP64: u32 = 10;
    /// A list of strings. As an output: each a 4-byte little-endian length and then that many bytes.
    pub const STRINGS: u32 = 11;
}

/// A loaded TorchScript module on one device. Opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Module {
    _private: [u8; 0],
}

/// What an argument of `forward` can be.
pub mod kind {
    /// What no client can send.
    pub const OTHER: u32 = 0;
    /// `Tensor`
    pub const TENSOR: u32 = 1;
    /// `Optional[Tensor]`
    pub const OPTIONAL_TENSOR: u32 = 2;
    /// `List[str]`
    pub const STRINGS: u32 = 3;
    /// `Dict[str, Tensor]`
    pub const DICT: u32 = 4;
    /// `int`
    pub const INT: u32 = 5;
    /// `float`
    pub const FLOAT: u32 = 6;
    /// `bool`
    pub const BOOL: u32 = 7;
}

/// An argument of `forward`, `self` left out.
#[repr(C)]
#[derive(Debug)]
pub struct Parameter {
    /// As in the source of the module.
    pub name: Text,
    /// Its type as TorchScript writes it.
    pub type_name: Text,
    /// One of [`kind`].
    pub kind: u32,
    /// 1 where `forward` has a default for it.
    pub has_default: u32,
}

/// A parameter or buffer of the module.
#[repr(C)]
#[derive(Debug)]
pub struct Weight {
    /// Its last name, for example `weight`.
    pub name: Text,
    /// The class of the module that holds it, for example `Linear`.
    pub class: Text,
    /// One of [`element`].
    pub element: u32,
    /// Number of dimensions.
    pub rank: u32,
    /// The dimensions.
    pub dims: *const i64,
}

/// What a module says about itself. Lives as long as the module.
#[repr(C)]
#[derive(Debug)]
pub struct Description {
    /// The arguments of `forward`.
    pub parameters: *const Parameter,
    /// How many.
    pub parameters_length: usize,
    /// Parameters and buffers, in the order of the module's attributes.
    pub weights: *const Weight,
    /// How many.
    pub weights_length: usize,
    /// The type that `forward` returns.
    pub returns: Text,
    /// 1 where that is a dictionary.
    pub returns_dict: u32,
    /// Number of values that it returns, nested ones counted one by one; -1 where the type does not tell.
    pub returns_count: i32,
    /// The fields of a `NamedTuple`.
    pub fields: *const Text,
    /// How many; zero where it is none.
    pub fields_length: usize,
    /// 1 where the module was saved in training mode.
    pub training: u32,
    /// 1 where a run can change the module, its constants among it, so that two runs must not share it; also
    /// where that cannot be told.
    pub stateful: u32,
    /// 1 where a run may repeat parts of the graph as often as values say; also where that cannot be told.
    pub loops: u32,
}

/// One argument of a run.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// One of [`element`]; [`element::OTHER`] for an argument that is left out, whose default is used.
    pub element: u32,
    /// Number of dimensions.
    pub rank: u32,
    /// The dimensions.
    pub dims: *const i64,
    /// The elements, aligned for their type; strings: the first of as many [`Text`]s as `dims` say. For an
    /// argument that is a number there is one element.
    /// Read only: the plugin copies where the module would write to it or keep it.
    pub data: *const c_void,
    /// Length of the elements, in bytes.
    pub bytes: usize,
    /// The key in the dictionary that `forward` takes.
    pub key: Text,
}

/// One value that a run gave.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// One of [`element`].
    pub element: u32,
    /// Number of dimensions.
    pub rank: u32,
    /// The dimensions. During the callback only.
    pub dims: *const i64,
    /// The elements, in one piece, in the host's memory, until the handle is released.
    pub data: *const c_void,
    /// Length of the elements, in bytes.
    pub bytes: usize,
    /// The key in the dictionary that `forward` returned, else empty. During the callback only.
    pub key: Text,
    /// What it is, where the type is [`element::OTHER`]. During the callback only.
    pub type_name: Text,
    /// For [`Table::release`]; null where there is nothing to release.
    pub handle: *mut c_void,
}

/// One run.
#[repr(C)]
#[derive(Debug)]
pub struct Run {
    /// The arguments of `forward`, in its order; or the entries of its dictionary, in any.
    pub inputs: *const Input,
    /// How many.
    pub inputs_length: usize,
    /// Threads within an operator.
    pub threads: u32,
    /// Of [`run_flags`].
    pub flags: u32,
    /// Takes the outputs, one after the other, in the order of the returned value.
    pub give: unsafe extern "C" fn(receiver: *mut c_void, output: *const Output),
    /// Handed to `give`.
    pub receiver: *mut c_void,
}

/// Bits of [`Run::flags`].
pub mod run_flags {
    /// Run in inference mode.
    pub const INFERENCE_MODE: u32 = 1;
    /// Run the graph as it was written.
    pub const UNOPTIMIZED: u32 = 2;
    /// Give the CUDA allocator's cache back afterwards.
    pub const CLEAN_CACHE: u32 = 4;
}

/// How far [`Table::optimize`] goes.
pub mod level {
    /// `torch.jit.freeze`
    pub const FREEZE: u32 = 1;
    /// `torch.jit.optimize_for_inference`
    pub const INFERENCE: u32 = 2;
}

/// Switches of the whole process: 0 off, 1 on, -1 as it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// The executor that optimises by profile.
    pub executor: i32,
    /// Profiling in that executor.
    pub profiling: i32,
    /// Fusing element-wise operators.
    pub fuser: i32,
    /// cuDNN.
    pub cudnn: i32,
}

/// The plugin's functions.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// [`ABI_VERSION`] of the plugin. To be looked at before anything else.
    pub abi_version: u32,
    /// Version of libtorch that the plugin was built with; see [`torch_version`].
    pub built_with: unsafe extern "C" fn() -> u64,
    /// Version of libtorch that it found. To be called before any other function, and compared.
    pub running_with: unsafe extern "C" fn() -> u64,
    /// Takes a failure back.
    pub free_failure: unsafe extern "C" fn(*mut Failure),
    /// Opens `libtorch_cuda.so`, if it lies beside libtorch. To be called before any module is loaded:
    /// libtorch decides once whether there is CUDA. What goes wrong is told by `gpu_count`.
    pub open_cuda: unsafe extern "C" fn(),
    /// Number of GPUs that CUDA sees. Fails where `libtorch_cuda.so` or a driver is not there or cannot be
    /// used.
    pub gpu_count: unsafe extern "C" fn(*mut u32) -> *mut Failure,
    /// Threads among operators, for the whole process. Fails the second time.
    pub set_interop_threads: unsafe extern "C" fn(u32) -> *mut Failure,
    /// Sets those that are not -1, and returns what they were.
    pub switch: unsafe extern "C" fn(Switches) -> Switches,
    /// Loads the file onto GPU `device`, or for -1 into the host's memory.
    pub load:
        unsafe extern "C" fn(path: Text, device: i32, module: *mut *mut Module) -> *mut Failure,
    /// What the module says about itself.
    pub describe: unsafe extern "C" fn(*const Module) -> *const Description,
    /// Makes a faster module of a stateless one, which stays what it is. See [`level`].
    pub optimize: unsafe extern "C" fn(
        module: *const Module,
        level: u32,
        optimized: *mut *mut Module,
    ) -> *mut Failure,
    /// Runs `forward`.
    pub run: unsafe extern "C" fn(*const Module, *const Run) -> *mut Failure,
    /// Lets go of the memory of an output.
    pub release: unsafe extern "C" fn(handle: *mut c_void),
    /// Takes a module back.
    pub unload: unsafe extern "C" fn(*mut Module),
}

/// The three numbers of a version that [`Table`] tells: `2.13.0` is `0x02_0D_00 << 40`.
pub const fn torch_version(number: u64) -> (u8, u8, u8) {
    let [major, minor, patch, ..] = number.to_be_bytes();
    (major, minor, patch)
}

// Host and plugin of one `ABI_VERSION` have this layout: who changes it gives the next number.
const _: () = {
    assert!(size_of::<usize>() == 8);
    assert!(size_of::<Text>() == 16);
    assert!(size_of::<Failure>() == 24);
    assert!(size_of::<Parameter>() == 40);
    assert!(size_of::<Weight>() == 48);
    assert!(size_of::<Description>() == 88);
    assert!(size_of::<Input>() == 48);
    assert!(size_of::<Output>() == 72);
    assert!(size_of::<Run>() == 40);
    assert!(size_of::<Switches>() == 16);
    assert!(size_of::<Table>() == 112);
};
