//! A value of ONNX Runtime: a tensor over memory that is lent to it, one of strings that it owns, or one
//! that a run gave.

use std::{
    ffi::CStr,
    marker::PhantomData,
    ptr::{self, NonNull},
    slice,
};

use bytes::{BufMut, Bytes, BytesMut};
use ort::sys;

use super::table::{Native, Result, check, made};

/// Kinds of memory that the processors can read: their own, and such as is pinned for a GPU.
const READABLE: [&CStr; 3] = [c"Cpu", c"CpuAligned4K", c"CudaPinned"];

/// Owns the value; the memory of its elements may be borrowed for `'a`.
pub(crate) struct Value<'a> {
    pointer: NonNull<sys::OrtValue>,
    table: &'static sys::OrtApi,
    elements: PhantomData<&'a [u8]>,
}

// SAFETY: a value belongs to no thread: releasing it frees memory, to an arena that locks.
unsafe impl Send for Value<'_> {}

impl<'a> Value<'a> {
    /// A tensor over `data`, which is not copied. ONNX Runtime checks the length.
    ///
    /// # Safety
    /// `data` is aligned for the element type and its bytes are valid elements; nobody writes to it while
    /// the value lives.
    pub(crate) unsafe fn lent(
        native: &Native,
        element: sys::ONNXTensorElementDataType,
        shape: &[i64],
        data: &'a [u8],
    ) -> Result<Value<'a>> {
        let mut pointer = ptr::null_mut();
        // SAFETY: memory info, data and shape are alive, and shape is copied. The pointer is to mutable
        // memory only because C has one type for both: inputs of a run are not written to.
        unsafe {
            check((native.table.CreateTensorWithDataAsOrtValue)(
                native.memory.as_ptr(),
                data.as_ptr().cast_mut().cast(),
                data.len(),
                shape.as_ptr(),
                shape.len(),
                element,
                &mut pointer,
            ))?;
        }
        Ok(Value { pointer: made(pointer)?, table: native.table, elements: PhantomData })
    }

    /// A tensor with a copy of these strings, of which there are as many as the shape says. Any bytes will
    /// do: a NUL ends nothing.
    pub(crate) fn strings<'s>(
        native: &Native,
        shape: &[i64],
        strings: impl Iterator<Item = &'s [u8]>,
    ) -> Result<Value<'static>> {
        let element = sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
        let (table, mut pointer) = (native.table, ptr::null_mut());
        // SAFETY: the allocator is alive, the shape is copied, one pointer is written.
        unsafe {
            check((table.CreateTensorAsOrtValue)(
                native.allocator.as_ptr(),
                shape.as_ptr(),
                shape.len(),
                element,
                &mut pointer,
            ))?;
        }
        let value = Value { pointer: made(pointer)?, table, elements: PhantomData };
        for (index, string) in strings.enumerate() {
            let mut place = ptr::null_mut();
            // SAFETY: the call checks the index and makes room for exactly as many bytes as are copied.
            unsafe {
                let to = value.pointer.as_ptr();
                check((table.GetResizedStringTensorElementBuffer)(
                    to,
                    index,
                    string.len(),
                    &mut place,
                ))?;
                if !string.is_empty() {
                    let place = made(place)?.as_ptr().cast::<u8>();
                    ptr::copy_nonoverlapping(string.as_ptr(), place, string.len());
                }
            }
        }
        Ok(value)
    }

    pub(crate) fn pointer(&self) -> *const sys::OrtValue {
        self.pointer.as_ptr()
    }
}

impl Value<'static> {
    /// Takes over what a run left; `None` for null.
    ///
    /// # Safety
    /// The pointer comes from a run, is owned by nobody else, and its session outlives the value.
    pub(crate) unsafe fn from_run(
        native: &Native,
        pointer: *mut sys::OrtValue,
    ) -> Option<Value<'static>> {
        let pointer = NonNull::new(pointer)?;
        Some(Value { pointer, table: native.table, elements: PhantomData })
    }

    /// Number of the element type, and shape. An error where it is no tensor.
    pub(crate) fn type_and_shape(&self) -> Result<(i32, &[i64])> {
        let (mut element, mut dims, mut rank) = (0i32, ptr::null(), 0);
        // SAFETY: the value is alive; a C enum is written where an `i32` is, then pointer and length of the dimensions.
        // These live as long as the value and may be null when there are none.
        unsafe {
            check((self.table.GetTensorElementTypeAndShapeDataReference)(
                self.pointer(),
                (&raw mut element).cast(),
                &mut dims,
                &mut rank,
            ))?;
            let dims = if rank == 0 { &[] } else { slice::from_raw_parts(dims, rank) };
            Ok((element, dims))
        }
    }

    /// Where the elements are: as many bytes as type and shape say. Not for strings. May be null when
    /// there are none.
    pub(crate) fn data(&self) -> Result<*const u8> {
        let mut data = ptr::null_mut();
        // SAFETY: the value is alive, one pointer is written.
        unsafe { check((self.table.GetTensorMutableData)(self.pointer.as_ptr(), &mut data))? };
        Ok(data.cast_const().cast())
    }

    /// Is the value where this process can read it? A provider for GPUs says of its memory which it is.
    pub(crate) fn is_in_memory(&self) -> Result<bool> {
        let (mut memory, mut name) = (ptr::null(), ptr::null());
        // SAFETY: the value is alive; a pointer to what it owns is written, and then one to that one's name,
        // which ends with a NUL.
        unsafe {
            check((self.table.GetTensorMemoryInfo)(self.pointer(), &mut memory))?;
            check((self.table.MemoryInfoGetName)(memory, &mut name))?;
            let name = CStr::from_ptr(made(name.cast_mut())?.as_ptr());
            Ok(READABLE.iter().any(|it| it.to_bytes() == name.to_bytes()))
        }
    }

    /// The strings as a BYTES tensor holds them: each a 4-byte little-endian length, then its bytes.
    /// `elements`: how many there are by the shape.
    pub(crate) fn to_bytes_elements(&self, elements: usize) -> Result<Bytes> {
        let mut length = 0;
        // SAFETY: the value is alive, one number is written; an error where it holds no strings.
        unsafe { check((self.table.GetStringTensorDataLength)(self.pointer(), &mut length))? };
        let (mut text, mut begins) = (vec![0u8; length], vec![0usize; elements]);
        // SAFETY: `text` has exactly the length just given, `begins` one place per element; the call checks
        // both before it writes.
        unsafe {
            check((self.table.GetStringTensorContent)(
                self.pointer(),
                text.as_mut_ptr().cast(),
                length,
                begins.as_mut_ptr(),
                elements,
            ))?;
        }
        let mut data = BytesMut::with_capacity(length + 4 * elements);
        let ends = begins.iter().skip(1).chain([&length]);
        for (&begin, &end) in begins.iter().zip(ends) {
            let string = text.get(begin..end).unwrap_or_default();
            let prefix = u32::try_from(string.len());
            data.put_u32_le(prefix.map_err(|_| ort::Error::new("a string of 4 GiB or more"))?);
            data.put_slice(string);
        }
        Ok(data.freeze())
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the table, released once.
        unsafe { (self.table.ReleaseValue)(self.pointer.as_ptr()) };
    }
}
