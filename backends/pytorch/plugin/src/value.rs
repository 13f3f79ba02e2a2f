//! Values of TorchScript, which arguments and results are. `tch::IValue` loses what a string holds after a zero, and
//! fails as a whole where one value among several is of a type that it lacks; so they are taken apart here.

use std::{
    ffi::CString,
    ptr::{self, NonNull},
};

use pytorch_abi::Text;
use tch::Tensor;
use torch_sys::CIValue;

use crate::{
    failure::torch_problem,
    lacking, lent,
    problem::{OUT_OF_MEMORY, TorchProblem},
};

/// A value that is ours.
#[derive(Debug)]
pub(crate) struct Value(NonNull<CIValue>);

// SAFETY: a value is a number, or a counted reference whose count is atomic.
unsafe impl Send for Value {}
// SAFETY: it is read and copied only.
unsafe impl Sync for Value {}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { torch_sys::ati_free(self.0.as_ptr()) };
    }
}

/// What a value is.
pub(crate) enum Parts {
    /// One tensor.
    Tensor(Tensor),
    /// Of a tuple, or of a list.
    Values(Vec<Value>),
    /// Keys and values of a dictionary.
    Entries(Vec<(Value, Value)>),
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A string, which stays in the value.
    String,
    /// `None`.
    None,
    /// What cannot be served.
    Other,
}

impl Value {
    /// Takes a new value that a function made, unless it failed.
    ///
    /// # Safety
    /// The value, if it is one, belongs to the caller.
    pub(crate) unsafe fn new(value: *mut CIValue) -> Result<Value, TorchProblem> {
        torch_problem()?;
        NonNull::new(value).map(Value).ok_or_else(|| TorchProblem::new(OUT_OF_MEMORY))
    }

    /// Another reference to the same.
    ///
    /// # Safety
    /// The value is there now.
    pub(crate) unsafe fn copy(value: *const CIValue) -> Result<Value, TorchProblem> {
        // SAFETY: the caller says that it is there.
        unsafe { Value::new(torch_sys::ati_clone(value.cast_mut())) }
    }

    pub(crate) fn tensor(tensor: &Tensor) -> Result<Value, TorchProblem> {
        // SAFETY: the tensor is there, and not written to.
        unsafe { Value::new(torch_sys::ati_tensor(tensor.as_ptr().cast_mut())) }
    }

    pub(crate) fn int(number: i64) -> Result<Value, TorchProblem> {
        // SAFETY: takes any number.
        unsafe { Value::new(torch_sys::ati_int(number)) }
    }

    pub(crate) fn float(number: f64) -> Result<Value, TorchProblem> {
        // SAFETY: takes any number.
        unsafe { Value::new(torch_sys::ati_double(number)) }
    }

    pub(crate) fn bool(value: bool) -> Result<Value, TorchProblem> {
        // SAFETY: takes any number.
        unsafe { Value::new(torch_sys::ati_bool(value.into())) }
    }

    /// A list of strings.
    pub(crate) fn strings(texts: &[Text]) -> Result<Value, TorchProblem> {
        let mut value = ptr::null_mut();
        // SAFETY: as many texts are there, and the list is written to where it may.
        unsafe {
            lacking::check(lacking::muster_strings(texts.as_ptr(), texts.len(), &raw mut value))?;
            Value::new(value)
        }
    }

    /// A dictionary of tensors.
    pub(crate) fn dict(entries: &[(CString, Value)]) -> Result<Value, TorchProblem> {
        // SAFETY: each key ends with a zero.
        let key =
            |it: &(CString, Value)| unsafe { Value::new(torch_sys::ati_string(it.0.as_ptr())) };
        let keys = entries.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let both: Vec<_> =
            keys.iter().zip(entries).flat_map(|(key, it)| [key.as_ptr(), it.1.as_ptr()]).collect();
        // SAFETY: twice as many values are there; they are copied.
        unsafe { Value::new(torch_sys::ati_generic_dict(both.as_ptr(), c_length(entries.len())?)) }
    }

    /// For functions that read it.
    pub(crate) fn as_ptr(&self) -> *mut CIValue {
        self.0.as_ptr()
    }

    /// Takes it apart, by one level.
    pub(crate) fn parts(&self) -> Result<Parts, TorchProblem> {
        let it = self.as_ptr();
        // SAFETY: the value is there. Each function is called for the type that it is for, and a list is filled up to
        // the length that it has.
        unsafe {
            let tag = torch_sys::ati_tag(it);
            Ok(match tag {
                0 => Parts::None,
                1 => {
                    let tensor = torch_sys::ati_to_tensor(it);
                    torch_problem()?;
                    let tensor =
                        NonNull::new(tensor).ok_or_else(|| TorchProblem::new(OUT_OF_MEMORY))?;
                    Parts::Tensor(Tensor::from_ptr(tensor.as_ptr()))
                }
                2 => Parts::Float(torch_sys::ati_to_double(it)),
                3 => Parts::Int(torch_sys::ati_to_int(it)),
                4 => Parts::Bool(torch_sys::ati_to_bool(it) != 0),
                5 => {
                    let length = torch_sys::ati_tuple_length(it);
                    Parts::Values(filled(length, |at| torch_sys::ati_to_tuple(it, at, length))?)
                }
                6..=8 | 10 | 12 => {
                    let length = torch_sys::ati_length(it);
                    let fill = |at| torch_sys::ati_to_generic_list(it, at, length);
                    Parts::Values(filled(length, fill)?)
                }
                9 => Parts::String,
                13 => {
                    let length = torch_sys::ati_length(it);
                    let fill = |at| torch_sys::ati_to_generic_dict(it, at, length);
                    let mut both = filled(length.saturating_mul(2), fill)?.into_iter();
                    let pair = || Some((both.next()?, both.next()?));
                    Parts::Entries(std::iter::from_fn(pair).collect())
                }
                _ => {
                    // Of a type without a number, which it says as a failure.
                    let _ = torch_problem();
                    Parts::Other
                }
            })
        }
    }

    /// The bytes of a string.
    pub(crate) fn string(&self) -> Option<&[u8]> {
        let mut text = Text { begin: ptr::null(), length: 0 };
        // SAFETY: the value is there, and the text is written to where it may.
        let is_string = unsafe { lacking::muster_string(self.as_ptr(), &raw mut text) };
        // SAFETY: the bytes belong to the value, and strings of TorchScript do not change.
        is_string.then(|| unsafe { lent::lent(text.begin, text.length) })
    }

    /// Its type as TorchScript writes it.
    pub(crate) fn type_text(&self) -> Result<String, TorchProblem> {
        // SAFETY: the value is there.
        unsafe { lacking::value_type(self.as_ptr()) }
    }
}

/// So many values, which `fill` writes.
fn filled(length: i32, fill: impl FnOnce(*mut *mut CIValue)) -> Result<Vec<Value>, TorchProblem> {
    torch_problem()?;
    let length = usize::try_from(length).unwrap_or(0);
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| TorchProblem::new(OUT_OF_MEMORY))?;
    values.resize(length, ptr::null_mut());
    fill(values.as_mut_ptr());
    torch_problem()?;
    // SAFETY: the values were made for us.
    values.into_iter().map(|it| unsafe { Value::new(it) }).collect()
}

/// A length as torch-sys takes it.
fn c_length(length: usize) -> Result<i32, TorchProblem> {
    i32::try_from(length).map_err(|_| TorchProblem::new(format!("{length} values are too many")))
}
