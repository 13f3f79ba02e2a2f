//! Tensors: handed to a run, and taken from one.

use std::{
    ffi::{c_int, c_void},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
};

use backend::{DataType, Shape, Staging, Tensor};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{
    status::CallError,
    strings::{self, Elements},
    table::{Table, TfTensor},
};

/// TensorFlow's number of a type.
pub(crate) fn to_element(dtype: DataType) -> i32 {
    match dtype {
        DataType::Fp32 => 1,
        DataType::Fp64 => 2,
        DataType::Int32 => 3,
        DataType::Uint8 => 4,
        DataType::Int16 => 5,
        DataType::Int8 => 6,
        DataType::Bytes => 7,
        DataType::Int64 => 9,
        DataType::Bool => 10,
        DataType::Bf16 => 14,
        DataType::Uint16 => 17,
        DataType::Fp16 => 19,
        DataType::Uint32 => 22,
        DataType::Uint64 => 23,
    }
}

/// The type of that number; a reference type (TensorFlow 1, 100 more) is the type that it refers to. `None`: complex
/// and quantised numbers, resources, variants.
pub(crate) fn from_element(number: i32) -> Option<DataType> {
    let number = if number > 100 { number - 100 } else { number };
    DataType::ALL.into_iter().find(|&it| to_element(it) == number)
}

/// TensorFlow copies what does not lie on such a multiple.
const ALIGNMENT: usize = 64;

/// A tensor of TensorFlow: what a run gets, or what it has made.
pub(crate) struct Value {
    pointer: NonNull<TfTensor>,
    table: Arc<Table>,
}

/// The deallocator of a tensor over a request's bytes: its argument is what keeps them.
///
/// # Safety
/// `bytes` comes from `Box::into_raw` and is handed back once.
unsafe extern "C" fn let_go(_: *mut c_void, _: usize, bytes: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(bytes.cast::<Bytes>()) });
}

impl Value {
    /// What a run is to get: the tensor's own memory where it lies in one aligned piece, else a copy. A graph may keep
    /// it beyond the run, in a variable; the memory stays for as long as that.
    ///
    /// # Errors
    /// A shape that TensorFlow has no tensors of.
    pub(super) fn of(table: &Arc<Table>, tensor: &Tensor) -> Result<Value, CallError> {
        let dims = dims(tensor.shape())?;
        let (element, rank) = (to_element(tensor.dtype()), count(dims.len()));
        let pointer = match tensor.contiguous() {
            _ if tensor.dtype() == DataType::Bytes => {
                let mut elements = Elements::new(table, tensor.strings());
                let (data, length) = elements.memory();
                let keeper = Box::into_raw(elements).cast();
                // SAFETY: the shape is copied; the memory lives until `free` gets its keeper back.
                unsafe {
                    let free = Some(strings::free as _);
                    (table.new_tensor)(element, dims.as_ptr(), rank, data, length, free, keeper)
                }
            }
            Some(bytes) if is_usable(tensor.dtype(), bytes) => {
                let (data, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
                let keeper = Box::into_raw(Box::new(bytes.clone())).cast();
                // SAFETY: the shape is copied; the memory lives until `let_go` gets its keeper back. TensorFlow writes
                // only into memory that it has allocated itself.
                unsafe {
                    let free = Some(let_go as _);
                    (table.new_tensor)(element, dims.as_ptr(), rank, data, length, free, keeper)
                }
            }
            _ => {
                let length = tensor.byte_len();
                // SAFETY: the shape is copied.
                let pointer =
                    unsafe { (table.allocate_tensor)(element, dims.as_ptr(), rank, length) };
                if !pointer.is_null() && length != 0 {
                    // SAFETY: it was made with room for so many bytes, which nobody else knows yet.
                    let place = unsafe {
                        ptr::write_bytes((table.tensor_data)(pointer).cast::<u8>(), 0, length);
                        slice::from_raw_parts_mut((table.tensor_data)(pointer).cast(), length)
                    };
                    copy(tensor, place);
                }
                pointer
            }
        };
        // SAFETY: it was just made, and nobody else has it.
        let value = unsafe { Value::owned(table, pointer) };
        value.ok_or_else(|| CallError::ours("there is no memory for an input"))
    }

    /// Takes over a tensor; `None` for null.
    ///
    /// # Safety
    /// The tensor is owned by nobody else.
    pub(super) unsafe fn owned(table: &Arc<Table>, pointer: *mut TfTensor) -> Option<Value> {
        NonNull::new(pointer).map(|pointer| Value { pointer, table: table.clone() })
    }

    pub(super) fn pointer(&self) -> *mut TfTensor {
        self.pointer.as_ptr()
    }

    /// A copy of what a run has made.
    ///
    /// # Errors
    /// A type that cannot be served.
    pub(super) fn to_tensor(&self) -> Result<Tensor, CallError> {
        let (table, pointer) = (&self.table, self.pointer.as_ptr());
        // SAFETY: the tensor is alive, and dimensions are asked for below its rank.
        let (number, dims) = unsafe {
            let dims = (0..(table.tensor_rank)(pointer)).map(|it| (table.tensor_dim)(pointer, it));
            let dims = dims.map(usize::try_from).collect::<Result<SmallVec<[usize; 8]>, _>>();
            ((table.tensor_type)(pointer), dims)
        };
        let dims = dims.map_err(|_| CallError::ours("came out with a negative dimension"))?;
        let dtype = from_element(number)
            .ok_or_else(|| CallError::ours(format!("came out as TensorFlow's type {number}")))?;
        let shape = Shape::new(&dims);
        let data = match dtype {
            DataType::Bytes => {
                let count = self.bytes().len() / strings::SIZE;
                // SAFETY: as many strings lie there as there is memory for.
                let text =
                    unsafe { strings::read(table, (table.tensor_data)(pointer).cast(), count) };
                text.ok_or_else(|| CallError::ours("has a string of 4 GiB or more"))?
            }
            _ => Bytes::copy_from_slice(self.bytes()),
        };
        Tensor::new(dtype, shape, data).map_err(|it| CallError::ours(it.to_string()))
    }

    /// Its memory.
    fn bytes(&self) -> &[u8] {
        let pointer = self.pointer.as_ptr();
        // SAFETY: as many bytes lie there as TensorFlow says, for as long as the tensor lives.
        unsafe {
            match (self.table.tensor_bytes)(pointer) {
                0 => &[],
                length => slice::from_raw_parts((self.table.tensor_data)(pointer).cast(), length),
            }
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: owned by this value alone, deleted once.
        unsafe { (self.table.delete_tensor)(self.pointer.as_ptr()) };
    }
}

/// Most dimensions of a tensor: `TensorShape::MaxDimensions` of `tensorflow/core/framework/tensor_shape.h`.
const MOST_DIMS: usize = 254;

/// The dimensions as the C API takes them. It ends the process for others: too many, or some that come to 2^63 or more
/// elements before a zero among them makes that none.
fn dims(shape: &Shape) -> Result<SmallVec<[i64; 8]>, CallError> {
    let rank = shape.dims().len();
    if MOST_DIMS < rank {
        let text = format!("an input has {rank} dimensions, TensorFlow takes at most {MOST_DIMS}");
        return Err(CallError::ours(text));
    }
    let mut elements = 1i64;
    let dim = |&it: &usize| {
        let dim = i64::try_from(it).ok()?;
        elements = elements.checked_mul(dim)?;
        Some(dim)
    };
    let dims = shape.dims().iter().map(dim).collect::<Option<_>>();
    dims.ok_or_else(|| {
        CallError::ours(format!(
            "an input has the shape {shape}, whose dimensions come to 2^63 or more elements"
        ))
    })
}

/// Can TensorFlow read the elements where they are?
fn is_usable(dtype: DataType, bytes: &Bytes) -> bool {
    let aligned = bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) && !bytes.is_empty();
    aligned && (dtype != DataType::Bool || bytes.iter().all(|&it| it <= 1))
}

fn copy(tensor: &Tensor, place: &mut [u8]) {
    if tensor.dtype() == DataType::Bool {
        // Each byte as 0 or 1, which not every client sends.
        return place.copy_from_slice(Staging::default().elements(tensor));
    }
    let mut rest = place;
    for segment in tensor.segments() {
        let (begin, end) = rest.split_at_mut(segment.len());
        begin.copy_from_slice(segment);
        rest = end;
    }
}

/// A length as the C API takes it.
pub(super) fn count(length: usize) -> c_int {
    c_int::try_from(length).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Code;

    #[test]
    fn shapes_that_would_end_the_process_are_refused() {
        let of = |it: &[usize]| dims(&Shape::new(it)).map(|it| it.to_vec());
        assert_eq!(of(&[4, 0, 3]), Ok(vec![4, 0, 3]));
        assert_eq!(of(&[0, 1 << 62, 1 << 62]), Ok(vec![0, 1 << 62, 1 << 62]));
        assert_eq!(of(&[1; 254]), Ok(vec![1; 254]));
        let error = of(&[1; 255]).unwrap_err();
        assert_eq!(error.text, "an input has 255 dimensions, TensorFlow takes at most 254");
        for dims in [&[4, 1 << 62, 0, 3][..], &[0, usize::MAX]] {
            let error = of(dims).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.text.contains(&Shape::new(dims).to_string()), "{}", error.text);
        }
    }

    #[test]
    fn every_type_has_a_number_of_its_own() {
        for dtype in DataType::ALL {
            assert_eq!(from_element(to_element(dtype)), Some(dtype));
            assert_eq!(from_element(100 + to_element(dtype)), Some(dtype), "a reference");
        }
        assert_eq!(from_element(8), None, "complex numbers");
        assert_eq!(from_element(20), None, "resources");
    }
}
