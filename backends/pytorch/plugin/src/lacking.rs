//! What libtorch can do and `tch` has no function for, from `native/`, with failures as values.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
};

use pytorch_abi::Text;
use tch::Tensor;
use torch_sys::{C_tensor, CIValue, CModule_};

use crate::problem::TorchProblem;

/// A type of TorchScript. Opaque.
#[repr(C)]
pub(crate) struct CType {
    _private: [u8; 0],
}

/// A method of a module. Opaque.
#[repr(C)]
pub(crate) struct CFunction {
    _private: [u8; 0],
}

/// Functions that take what a module says about itself; those of [`muster_describe`].
#[repr(C)]
pub(crate) struct Visitor {
    pub(crate) receiver: *mut c_void,
    pub(crate) argument:
        unsafe extern "C" fn(*mut c_void, *const c_char, *const CType, *const CIValue),
    pub(crate) returned: unsafe extern "C" fn(*mut c_void, *const CType),
    pub(crate) weight:
        unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, *const C_tensor),
}

/// Where the elements of a tensor are.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) data: *const c_void,
    /// Their length, in bytes.
    pub(crate) bytes: usize,
    /// Length of the memory that the tensor is a view of, in bytes.
    pub(crate) held: usize,
}

type TakeText = unsafe extern "C" fn(receiver: *mut c_void, text: *const c_char);

// What each does, and why it is C++, is said in `native/`.
unsafe extern "C" {
    pub(crate) fn muster_describe(
        module: *const CModule_,
        visitor: *const Visitor,
        training: *mut bool,
        forward: *mut *mut CFunction,
    ) -> *mut c_char;
    pub(crate) fn muster_type_kind(it: *const CType) -> *const c_char;
    pub(crate) fn muster_type_part(it: *const CType, index: usize) -> *const CType;
    fn muster_type_texts(it: *const CType, receiver: *mut c_void, text: TakeText) -> *mut c_char;
    pub(crate) fn muster_freeze(module: *const CModule_, frozen: *mut *mut CModule_)
    -> *mut c_char;
    pub(crate) fn muster_copy(
        frozen: *const CModule_,
        for_inference: bool,
        copy: *mut *mut CModule_,
    ) -> *mut c_char;
    pub(crate) fn muster_effects(
        module: *const CModule_,
        frozen: *const CModule_,
        on_module: *mut bool,
        on_inputs: *mut bool,
        loops: *mut bool,
    ) -> *mut c_char;
    pub(crate) fn muster_guarded(
        inference_mode: bool,
        work: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    );
    pub(crate) fn muster_forward(
        module: *const CModule_,
        forward: *mut CFunction,
        arguments: *const *mut CIValue,
        length: usize,
        result: *mut *mut CIValue,
    ) -> *mut c_char;
    pub(crate) fn muster_use_threads(threads: i32) -> *mut c_char;
    pub(crate) fn muster_strings(
        texts: *const Text,
        length: usize,
        value: *mut *mut CIValue,
    ) -> *mut c_char;
    pub(crate) fn muster_string(value: *const CIValue, text: *mut Text) -> bool;
    fn muster_value_type(
        value: *const CIValue,
        receiver: *mut c_void,
        text: TakeText,
    ) -> *mut c_char;
    pub(crate) fn muster_element_name(tensor: *const C_tensor) -> *const c_char;
    fn muster_elements(
        tensor: *const C_tensor,
        elements: *mut Elements,
        is_plain: *mut bool,
    ) -> *mut c_char;
    pub(crate) fn muster_empty_cuda_cache() -> *mut c_char;
    pub(crate) fn muster_switch_executor(wanted: i32) -> i32;
    pub(crate) fn muster_no_frames();
    pub(crate) fn muster_built_with() -> u64;
    /// Of libtorch itself, where it is meant for C: the version of the library that is in the process.
    pub(crate) fn aoti_torch_abi_version() -> u64;
    fn muster_free(text: *mut c_char);
}

/// The problem that a function of `native/` returned, or torch-sys has kept.
///
/// # Safety
/// The pointer is null, or was returned by one of them just now.
pub(crate) unsafe fn check(text: *mut c_char) -> Result<(), TorchProblem> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the caller says that it is a text, which ends with a zero and belongs to us.
    let problem = unsafe { string(text) };
    // SAFETY: it was made there, and is freed once.
    unsafe { muster_free(text) };
    Err(TorchProblem::new(problem))
}

/// The text that begins there and ends with a zero.
///
/// # Safety
/// It is there now.
pub(crate) unsafe fn string(text: *const c_char) -> String {
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn take_text(receiver: *mut c_void, text: *const c_char) {
    // SAFETY: every caller in this file hands over a vector that nobody else uses meanwhile, and `native/`
    // texts that are there during the call.
    unsafe { (*receiver.cast::<Vec<String>>()).push(string(text)) };
}

/// A type as TorchScript writes it, and the names of a NamedTuple's fields.
///
/// # Safety
/// The type is there now.
pub(crate) unsafe fn type_texts(it: *const CType) -> Result<(String, Vec<String>), TorchProblem> {
    let mut texts = Vec::<String>::new();
    // SAFETY: the type is there, and the vector during the call.
    unsafe { check(muster_type_texts(it, (&raw mut texts).cast(), take_text))? };
    let mut texts = texts.into_iter();
    Ok((texts.next().unwrap_or_default(), texts.collect()))
}

/// The type of a value as TorchScript writes it.
///
/// # Safety
/// The value is there now.
pub(crate) unsafe fn value_type(value: *const CIValue) -> Result<String, TorchProblem> {
    let mut texts = Vec::<String>::new();
    // SAFETY: the value is there, and the vector during the call.
    unsafe { check(muster_value_type(value, (&raw mut texts).cast(), take_text))? };
    Ok(texts.pop().unwrap_or_default())
}

/// The elements of a tensor, if they are in the host's memory, in one piece, as they are.
pub(crate) fn elements(tensor: &Tensor) -> Result<Option<Elements>, TorchProblem> {
    let mut elements = Elements { data: ptr::null(), bytes: 0, held: 0 };
    let mut is_plain = false;
    // SAFETY: the tensor is there and defined, and the answers are written to where they may.
    unsafe {
        check(muster_elements(tensor.as_ptr(), &raw mut elements, &raw mut is_plain))?;
    }
    Ok(is_plain.then_some(elements))
}
