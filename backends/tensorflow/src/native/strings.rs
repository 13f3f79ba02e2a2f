//! Elements of string tensors, which TensorFlow keeps in a form of its own.

use std::{ffi::c_void, slice, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};

use super::table::{Table, TfString};

/// Bytes of an element in a string tensor's memory.
pub(super) const SIZE: usize = size_of::<TfString>();

/// The elements of a string tensor that was made here. TensorFlow gives them back by [`free`] when neither a run nor a
/// variable uses them any more.
pub(super) struct Elements {
    memory: Vec<TfString>,
    table: Arc<Table>,
}

impl Elements {
    /// Copies of those strings.
    pub(super) fn new<'s>(
        table: &Arc<Table>,
        strings: impl Iterator<Item = &'s [u8]>,
    ) -> Box<Elements> {
        let element = |string: &[u8]| {
            let mut element = TfString::ZEROED;
            // SAFETY: the element is ours, and the bytes are copied.
            unsafe {
                (table.string_init)(&mut element);
                (table.string_copy)(&mut element, string.as_ptr().cast(), string.len());
            }
            // Its bytes may be moved: a short string lies in them, a long one is pointed to by them.
            element
        };
        Box::new(Elements { memory: strings.map(element).collect(), table: table.clone() })
    }

    /// Where they lie, and their bytes.
    pub(super) fn memory(&mut self) -> (*mut c_void, usize) {
        (self.memory.as_mut_ptr().cast(), self.memory.len() * SIZE)
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        for element in &mut self.memory {
            // SAFETY: each was made by `new`, and is freed once.
            unsafe { (self.table.string_free)(element) };
        }
    }
}

/// The deallocator of a tensor over [`Elements`], which its argument is.
///
/// # Safety
/// `elements` comes from `Box::into_raw` and is handed back once.
pub(super) unsafe extern "C" fn free(_: *mut c_void, _: usize, elements: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(elements.cast::<Elements>()) });
}

/// The strings as a BYTES tensor holds them: each a 4-byte little-endian length, then its bytes. `None` where one has
/// 4 GiB or more.
///
/// # Safety
/// `place` points to `count` strings, which stay as they are during the call.
pub(super) unsafe fn read(table: &Table, place: *const TfString, count: usize) -> Option<Bytes> {
    let mut data = BytesMut::new();
    for index in 0..count {
        // SAFETY: the caller's promise; pointer and length describe memory of the string.
        let string = unsafe {
            let element = place.add(index);
            let length = (table.string_length)(element);
            match length {
                0 => &[],
                _ => slice::from_raw_parts((table.string_data)(element).cast::<u8>(), length),
            }
        };
        data.put_u32_le(u32::try_from(string.len()).ok()?);
        data.put_slice(string);
    }
    Some(data.freeze())
}
