//! A module of the plugin: described, optimised, run.

use std::{
    ffi::c_void,
    marker::PhantomData,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
};

use backend::{DataType, Device, Shape};
use pytorch_abi::{Input, Output, Run, Table, Text, kind, level, run_flags};
use smallvec::SmallVec;

use super::{
    element,
    plugin::{Plugin, Result, lent, slice, text},
};
use crate::interface::{Interface, Parameter, ParameterKind, Returns, Weight};

/// A loaded module on one device. Any number of threads may run it, unless it is stateful: which it is, the
/// plugin tells by an analysis of its graph, on which the absence of data races rests.
#[derive(Debug)]
pub(crate) struct Module {
    plugin: Plugin,
    handle: NonNull<pytorch_abi::Module>,
}

// SAFETY: the interface says that every function may be called on any thread, and by several at once.
unsafe impl Send for Module {}
// SAFETY: as above; the functions that must be alone take the module by value.
unsafe impl Sync for Module {}

/// How a run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct How {
    /// Threads within an operator.
    pub(crate) threads: u32,
    /// Run in inference mode?
    pub(crate) inference_mode: bool,
    /// Let the executor optimise the graph?
    pub(crate) optimized: bool,
    /// Give the CUDA allocator's cache back afterwards?
    pub(crate) clean_cache: bool,
}

impl Plugin {
    /// Loads a file of TorchScript onto a device.
    pub(crate) fn load(self, path: &Path, device: Device) -> Result<Module> {
        let device = match device {
            Device::Cpu => -1,
            // More GPUs than that there are not; libtorch says so.
            Device::Gpu(number) => i32::try_from(number).unwrap_or(i32::MAX),
        };
        let path = lent(path.as_os_str().as_bytes());
        let mut module = ptr::null_mut();
        // SAFETY: the path is valid during the call, and the plugin writes the module to where it may.
        let failure = unsafe { (self.table.load)(path, device, &raw mut module) };
        self.check(failure)?;
        Ok(self.module(module))
    }

    fn module(self, module: *mut pytorch_abi::Module) -> Module {
        let handle = NonNull::new(module).expect("a call that does not fail gives a module");
        Module { plugin: self, handle }
    }
}

impl Module {
    /// What it says about itself.
    pub(crate) fn interface(&self) -> Interface {
        // SAFETY: the module is there, and its description as long as it is.
        let it = unsafe { &*(self.plugin.table.describe)(self.handle.as_ptr()) };
        // SAFETY: the description's lists are as long as it says, and live as long as it does, as do
        // the texts and dimensions in them.
        unsafe {
            let parameters = slice(it.parameters, it.parameters_length).iter();
            let weights = slice(it.weights, it.weights_length).iter();
            let fields = slice(it.fields, it.fields_length).iter();
            Interface {
                parameters: parameters.map(|it| parameter(it)).collect(),
                weights: weights.map(|it| weight(it)).collect(),
                returns: Returns {
                    type_name: text(it.returns),
                    dict: it.returns_dict != 0,
                    count: usize::try_from(it.returns_count).ok(),
                    fields: fields.map(|it| text(*it)).collect(),
                },
                training: it.training != 0,
                stateful: it.stateful != 0,
                loops: it.loops != 0,
            }
        }
    }

    /// The same module, frozen and perhaps rewritten for inference. This one stays as it is.
    pub(crate) fn optimize(&self, for_inference: bool) -> Result<Module> {
        let level = if for_inference { level::INFERENCE } else { level::FREEZE };
        let mut module = ptr::null_mut();
        // SAFETY: the module is there; the plugin writes the new one to where it may.
        let failure =
            unsafe { (self.plugin.table.optimize)(self.handle.as_ptr(), level, &raw mut module) };
        self.plugin.check(failure)?;
        Ok(self.plugin.module(module))
    }

    /// Runs `forward` with these arguments, in its order; those of a dictionary in any.
    pub(crate) fn run(
        &self,
        how: How,
        arguments: &[Argument<'_>],
    ) -> Result<SmallVec<[Produced; 4]>> {
        let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let mut receiver = Receiver { table: self.plugin.table, produced: SmallVec::new() };
        let run = Run {
            inputs: arguments.as_ptr().cast(),
            inputs_length: arguments.len(),
            threads: how.threads,
            flags: flag(how.inference_mode, run_flags::INFERENCE_MODE)
                | flag(!how.optimized, run_flags::UNOPTIMIZED)
                | flag(how.clean_cache, run_flags::CLEAN_CACHE),
            give,
            receiver: (&raw mut receiver).cast(),
        };
        // SAFETY: an `Argument` is an `Input` whose memory is borrowed, and checked to be aligned and of
        // the length that type and shape call for; the receiver is what `give` takes it for.
        let failure = unsafe { (self.plugin.table.run)(self.handle.as_ptr(), &raw const run) };
        self.plugin.check(failure).map(|()| receiver.produced)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module came from this plugin; nobody else has it, since all have borrowed it.
        unsafe { (self.plugin.table.unload)(self.handle.as_ptr()) };
    }
}

/// # Safety
/// The texts in it are valid.
unsafe fn parameter(it: &pytorch_abi::Parameter) -> Parameter {
    Parameter {
        // SAFETY: the caller says so.
        name: unsafe { text(it.name) },
        // SAFETY: the caller says so.
        type_name: unsafe { text(it.type_name) },
        kind: match it.kind {
            kind::TENSOR | kind::OPTIONAL_TENSOR => ParameterKind::Tensor,
            kind::STRINGS => ParameterKind::Strings,
            kind::DICT => ParameterKind::Dict,
            kind::INT => ParameterKind::Int,
            kind::FLOAT => ParameterKind::Float,
            kind::BOOL => ParameterKind::Bool,
            _ => ParameterKind::Other,
        },
        has_default: it.has_default != 0,
    }
}

/// # Safety
/// The texts and dimensions in it are valid.
unsafe fn weight(it: &pytorch_abi::Weight) -> Weight {
    // SAFETY: the caller says so.
    let dims = unsafe { slice(it.dims, it.rank as usize) };
    Weight {
        // SAFETY: the caller says so.
        name: unsafe { text(it.name) },
        // SAFETY: the caller says so.
        class: unsafe { text(it.class) },
        dtype: element::from_element(it.element),
        dims: dims.iter().map(|&it| usize::try_from(it).unwrap_or(0)).collect(),
    }
}

/// One argument of a run, whose memory is borrowed.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Argument<'a>(Input, PhantomData<&'a [u8]>);

/// One string of a list.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct StringRef<'a>(Text, PhantomData<&'a [u8]>);

impl<'a> StringRef<'a> {
    pub(crate) fn new(string: &'a [u8]) -> StringRef<'a> {
        StringRef(lent(string), PhantomData)
    }
}

const NO_TEXT: Text = Text { begin: ptr::null(), length: 0 };

impl<'a> Argument<'a> {
    /// An argument that is left out; its default is used.
    pub(crate) fn absent() -> Argument<'a> {
        let element = pytorch_abi::element::OTHER;
        Argument::new(element, &[], ptr::null(), 0)
    }

    /// A tensor over `data`. `None` where the type is none of libtorch's, the data is not aligned for
    /// it, or has another length than type and shape call for.
    pub(crate) fn tensor(dtype: DataType, dims: &'a [i64], data: &'a [u8]) -> Option<Argument<'a>> {
        let size = dtype.size()?;
        let number = element::to_element(dtype)?;
        let length = match dims.contains(&0) {
            true => 0,
            false => dims
                .iter()
                .try_fold(size, |product, &it| product.checked_mul(usize::try_from(it).ok()?))?,
        };
        // The address of nothing may be anything.
        let begin = if data.is_empty() { ptr::null() } else { data.as_ptr() };
        let fits = data.len() == length && begin.addr().is_multiple_of(size);
        fits.then(|| Argument::new(number, dims, begin.cast(), length))
    }

    /// A list of strings; `dims` is its length.
    pub(crate) fn strings(
        dims: &'a [i64; 1],
        strings: &'a [StringRef<'a>],
    ) -> Option<Argument<'a>> {
        let fits = usize::try_from(dims[0]) == Ok(strings.len());
        let number = pytorch_abi::element::STRINGS;
        fits.then(|| Argument::new(number, dims, strings.as_ptr().cast(), 0))
    }

    /// The same as an entry of a dictionary.
    pub(crate) fn with_key(mut self, key: &'a str) -> Argument<'a> {
        self.0.key = lent(key.as_bytes());
        self
    }

    fn new(element: u32, dims: &'a [i64], data: *const c_void, bytes: usize) -> Argument<'a> {
        // No tensor has 2^32 dimensions: `dims` would not fit into memory.
        let rank = dims.len() as u32;
        let input = Input { element, rank, dims: dims.as_ptr(), data, bytes, key: NO_TEXT };
        Argument(input, PhantomData)
    }
}

/// One value that a run gave.
#[derive(Debug)]
pub(crate) struct Produced {
    /// Its key in the returned dictionary.
    pub(crate) key: Option<Box<str>>,
    /// Its type; or what it is, where that cannot be served.
    pub(crate) dtype: std::result::Result<DataType, Box<str>>,
    pub(crate) shape: Shape,
    pub(crate) memory: Held,
}

/// The memory of an output, released when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    begin: *const u8,
    bytes: usize,
    handle: *mut c_void,
    table: &'static Table,
}

// SAFETY: the memory is not written to any more, and a handle may be released on any thread.
unsafe impl Send for Held {}
// SAFETY: the memory is not written to any more.
unsafe impl Sync for Held {}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the plugin says that so many bytes are there until the handle is released.
        unsafe { slice(self.begin, self.bytes) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle came from this plugin, and is released once.
            unsafe { (self.table.release)(self.handle) };
        }
    }
}

struct Receiver {
    table: &'static Table,
    produced: SmallVec<[Produced; 4]>,
}

/// Takes one output. Does not panic: there is nothing in it that could.
unsafe extern "C" fn give(receiver: *mut c_void, output: *const Output) {
    // SAFETY: the plugin hands back the pointer that it was given with this function, which is to a `Receiver` that
    // nobody uses meanwhile. The output that it hands over is valid during the call.
    let (receiver, output) = unsafe { (&mut *receiver.cast::<Receiver>(), &*output) };
    // SAFETY: valid during the call.
    let dims = unsafe { slice(output.dims, output.rank as usize) };
    // SAFETY: valid during the call.
    let key = unsafe { text(output.key) };
    let dtype = element::from_element(output.element);
    receiver.produced.push(Produced {
        key: (!output.key.begin.is_null()).then(|| key.into()),
        // SAFETY: valid during the call.
        dtype: dtype.ok_or_else(|| unsafe { text(output.type_name) }.into()),
        // No dimension is negative.
        shape: dims.iter().map(|&it| usize::try_from(it).unwrap_or(0)).collect(),
        memory: Held {
            begin: output.data.cast(),
            bytes: output.bytes,
            handle: output.handle,
            table: receiver.table,
        },
    });
}
