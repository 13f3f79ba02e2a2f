//! Weights that are read into memory, for a session that uses them where they are.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::unix::fs::FileExt,
    slice,
};

use ort::sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT as FLOAT;

use crate::native::{Native, Value};

/// A cache line: what kernels are content with.
const LINE: usize = 64;

/// A tensor of floats.
pub(crate) struct OwnTensor {
    name: CString,
    /// Lies in `_memory`, and goes before it.
    value: Value<'static>,
    _memory: Box<[u8]>,
}

impl OwnTensor {
    /// That weight, from its file. Blocking.
    pub(crate) fn read(
        native: &Native,
        weight: &graphs::Plain,
        file: &File,
    ) -> io::Result<OwnTensor> {
        let too_long = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let length = usize::try_from(weight.length).map_err(too_long)?;
        // A line more than it has, so that there is an aligned place in it.
        let mut memory = vec![0; length.saturating_add(LINE)].into_boxed_slice();
        let begin = memory.as_ptr().align_offset(LINE);
        let place = memory.get_mut(begin..begin + length).unwrap_or_default();
        file.read_exact_at(place, weight.offset)?;
        // SAFETY: the bytes are on the heap, where they stay until the tensor is dropped, whose value goes first.
        // Nobody writes to them any more.
        let bytes = unsafe { slice::from_raw_parts(place.as_ptr(), place.len()) };
        // SAFETY: they are aligned, and any bytes are floats.
        let value = unsafe { Value::lent(native, FLOAT, &weight.dims, bytes) };
        let value = value.map_err(|it| io::Error::other(it.message().to_owned()))?;
        Ok(OwnTensor { name: CString::new(weight.name.as_str())?, value, _memory: memory })
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    pub(crate) fn value(&self) -> &Value<'static> {
        &self.value
    }
}
