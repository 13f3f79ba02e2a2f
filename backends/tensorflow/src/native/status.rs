//! How a call of the C API went.

use std::{
    ffi::{CStr, c_int},
    ptr::NonNull,
};

use super::table::{Table, TfStatus};

/// The codes that are told apart; TensorFlow's numbers, which are those of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Cancelled,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    ResourceExhausted,
    FailedPrecondition,
    OutOfRange,
    DataLoss,
    Other(i32),
}

impl Code {
    fn of(number: c_int) -> Code {
        match number {
            1 => Code::Cancelled,
            3 => Code::InvalidArgument,
            4 => Code::DeadlineExceeded,
            5 => Code::NotFound,
            8 => Code::ResourceExhausted,
            9 => Code::FailedPrecondition,
            11 => Code::OutOfRange,
            15 => Code::DataLoss,
            other => Code::Other(other),
        }
    }
}

/// What TensorFlow says of a call that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallError {
    pub(crate) code: Code,
    /// All of its words; names of nodes among them.
    pub(crate) text: String,
}

impl CallError {
    /// A problem that is found on this side of the C API.
    pub(super) fn ours(text: impl Into<String>) -> CallError {
        CallError { code: Code::InvalidArgument, text: text.into() }
    }
}

/// Where a call leaves how it went.
pub(super) struct Status<'a> {
    pointer: NonNull<TfStatus>,
    table: &'a Table,
}

impl<'a> Status<'a> {
    pub(super) fn new(table: &'a Table) -> Status<'a> {
        // SAFETY: the function takes nothing.
        let pointer = unsafe { (table.new_status)() };
        let pointer =
            NonNull::new(pointer).expect("TF_NewStatus ends the process where there is no memory");
        Status { pointer, table }
    }

    /// To be handed to one call.
    pub(super) fn pointer(&self) -> *mut TfStatus {
        self.pointer.as_ptr()
    }

    /// What the call has left.
    pub(super) fn check(&self) -> Result<(), CallError> {
        // SAFETY: the status is alive.
        let code = unsafe { (self.table.get_code)(self.pointer.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text ends with a NUL and belongs to the status, which is alive.
        let text = unsafe { CStr::from_ptr((self.table.message)(self.pointer.as_ptr())) };
        Err(CallError { code: Code::of(code), text: text.to_string_lossy().into_owned() })
    }
}

impl Drop for Status<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, deleted once.
        unsafe { (self.table.delete_status)(self.pointer.as_ptr()) };
    }
}
