//! What a model file says about itself beside its graph.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_void},
    ptr::{self, NonNull},
};

use ort::sys;

use super::table::{Native, Result, check, made};

/// The entries of a file's `metadata_props`, as text. What is no UTF-8 is replaced.
///
/// # Safety
/// The session is alive.
pub(super) unsafe fn read(
    native: &Native,
    session: *const sys::OrtSession,
) -> Result<BTreeMap<String, String>> {
    let mut pointer = ptr::null_mut();
    // SAFETY: the session is alive, one pointer is written.
    unsafe { check((native.table.SessionGetModelMetadata)(session, &mut pointer))? };
    let metadata = Metadata { native, pointer: made(pointer)? };
    let mut entries = BTreeMap::new();
    for key in metadata.keys()? {
        if let Some(value) = metadata.value(&key)? {
            entries.insert(key.to_string_lossy().into_owned(), value);
        }
    }
    Ok(entries)
}

/// The metadata of a session, released when dropped.
struct Metadata<'a> {
    native: &'a Native,
    pointer: NonNull<sys::OrtModelMetadata>,
}

impl Metadata<'_> {
    fn keys(&self) -> Result<Vec<CString>> {
        let allocator = self.native.allocator.as_ptr();
        let (mut keys, mut count) = (ptr::null_mut(), 0i64);
        // SAFETY: metadata and allocator are alive; a pointer and a number are written.
        unsafe {
            check((self.native.table.ModelMetadataGetCustomMetadataMapKeys)(
                self.pointer.as_ptr(),
                allocator,
                &mut keys,
                &mut count,
            ))?;
        }
        // Without entries there is no list.
        let Some(list) = NonNull::new(keys) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` C strings.
            all.extend(self.taken(unsafe { *list.as_ptr().add(at) })?);
        }
        // SAFETY: the list is of that allocator, and nothing points into it any more.
        unsafe { check((self.native.table.AllocatorFree)(allocator, list.as_ptr().cast()))? };
        Ok(all)
    }

    fn value(&self, key: &CStr) -> Result<Option<String>> {
        let mut value = ptr::null_mut();
        // SAFETY: metadata, allocator and key are alive; one pointer is written.
        unsafe {
            check((self.native.table.ModelMetadataLookupCustomMetadataMap)(
                self.pointer.as_ptr(),
                self.native.allocator.as_ptr(),
                key.as_ptr(),
                &mut value,
            ))?;
        }
        Ok(self.taken(value)?.map(|it| it.to_string_lossy().into_owned()))
    }

    /// A copy of a C string of the allocator, which is given back to it; `None` of null.
    fn taken(&self, text: *mut c_char) -> Result<Option<CString>> {
        let Some(text) = NonNull::new(text) else { return Ok(None) };
        let allocator = self.native.allocator.as_ptr();
        // SAFETY: a C string of that allocator, copied before it is given back.
        unsafe {
            let copy = CStr::from_ptr(text.as_ptr()).to_owned();
            check((self.native.table.AllocatorFree)(allocator, text.as_ptr().cast::<c_void>()))?;
            Ok(Some(copy))
        }
    }
}

impl Drop for Metadata<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `SessionGetModelMetadata`, released once.
        unsafe { (self.native.table.ReleaseModelMetadata)(self.pointer.as_ptr()) };
    }
}
