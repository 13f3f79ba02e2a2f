//! The functions of the C API that are called, found by name in the library.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    slice,
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// What the C API only ever gives pointers to.
macro_rules! opaque {
    ($($name:ident),*) => { $(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )* };
}

opaque!(TfStatus, TfSessionOptions, TfGraph, TfSession, TfOperation, TfTensor, TfLibrary);

/// `TF_Output`: one result of an operation.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct TfOutput {
    pub(super) operation: *mut TfOperation,
    pub(super) index: c_int,
}

/// `TF_TString`: 24 bytes whose meaning is TensorFlow's own.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct TfString([u8; 24]);

impl TfString {
    /// Before `TF_StringInit`.
    pub(super) const ZEROED: TfString = TfString([0; 24]);
}

/// `TF_Buffer`: bytes, and how they are freed.
#[repr(C)]
pub(super) struct TfBuffer {
    pub(super) data: *const c_void,
    pub(super) length: usize,
    pub(super) deallocator: Option<unsafe extern "C" fn(*mut c_void, usize)>,
}

/// What is called when a tensor over memory of somebody else is deleted: data, length, argument.
pub(super) type Deallocator = unsafe extern "C" fn(*mut c_void, usize, *mut c_void);

/// Declares the table: one field for each function, under its name in the library.
macro_rules! table {
    ($($field:ident = $name:literal: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The library that is open, and its functions.
        pub(crate) struct Table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Table {
            /// Opens the library, with what it needs from the same folder. Blocking, about a second.
            ///
            /// # Errors
            /// The loader's words: a file that is no library, or a function that it lacks.
            pub(crate) fn open(path: &Path) -> Result<Table, libloading::Error> {
                // SAFETY: the library's initialisers are TensorFlow's, which register operators; another file of
                // its name is the operator's doing, as with every library that the program loads.
                let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
                let library = library?;
                // SAFETY: the types are those of TensorFlow's c_api.h, tf_tensor.h and tf_tstring.h, which are
                // stable. The functions are kept beside the library, so that they do not outlive it.
                unsafe {
                    Ok(Table {
                        $($field: *library.get(concat!($name, "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

table! {
    version = "TF_Version": fn() -> *const c_char;

    load_library = "TF_LoadLibrary": fn(*const c_char, *mut TfStatus) -> *mut TfLibrary;
    delete_library = "TF_DeleteLibraryHandle": fn(*mut TfLibrary);
    all_operations = "TF_GetAllOpList": fn() -> *mut TfBuffer;
    delete_buffer = "TF_DeleteBuffer": fn(*mut TfBuffer);

    new_status = "TF_NewStatus": fn() -> *mut TfStatus;
    delete_status = "TF_DeleteStatus": fn(*mut TfStatus);
    get_code = "TF_GetCode": fn(*const TfStatus) -> c_int;
    message = "TF_Message": fn(*const TfStatus) -> *const c_char;

    new_session_options = "TF_NewSessionOptions": fn() -> *mut TfSessionOptions;
    delete_session_options = "TF_DeleteSessionOptions": fn(*mut TfSessionOptions);
    set_config = "TF_SetConfig": fn(*mut TfSessionOptions, *const c_void, usize, *mut TfStatus);

    new_graph = "TF_NewGraph": fn() -> *mut TfGraph;
    delete_graph = "TF_DeleteGraph": fn(*mut TfGraph);
    operation_by_name = "TF_GraphOperationByName": fn(*mut TfGraph, *const c_char) -> *mut TfOperation;
    operation_outputs = "TF_OperationNumOutputs": fn(*mut TfOperation) -> c_int;

    load_session = "TF_LoadSessionFromSavedModel": fn(
        *const TfSessionOptions, *const TfBuffer, *const c_char, *const *const c_char, c_int, *mut TfGraph,
        *mut TfBuffer, *mut TfStatus,
    ) -> *mut TfSession;
    close_session = "TF_CloseSession": fn(*mut TfSession, *mut TfStatus);
    delete_session = "TF_DeleteSession": fn(*mut TfSession, *mut TfStatus);
    run = "TF_SessionRun": fn(
        *mut TfSession, *const TfBuffer, *const TfOutput, *const *mut TfTensor, c_int, *const TfOutput,
        *mut *mut TfTensor, c_int, *const *const TfOperation, c_int, *mut TfBuffer, *mut TfStatus,
    );

    new_tensor = "TF_NewTensor": fn(
        c_int, *const i64, c_int, *mut c_void, usize, Option<Deallocator>, *mut c_void,
    ) -> *mut TfTensor;
    allocate_tensor = "TF_AllocateTensor": fn(c_int, *const i64, c_int, usize) -> *mut TfTensor;
    delete_tensor = "TF_DeleteTensor": fn(*mut TfTensor);
    tensor_type = "TF_TensorType": fn(*const TfTensor) -> c_int;
    tensor_rank = "TF_NumDims": fn(*const TfTensor) -> c_int;
    tensor_dim = "TF_Dim": fn(*const TfTensor, c_int) -> i64;
    tensor_bytes = "TF_TensorByteSize": fn(*const TfTensor) -> usize;
    tensor_data = "TF_TensorData": fn(*const TfTensor) -> *mut c_void;

    string_init = "TF_StringInit": fn(*mut TfString);
    string_copy = "TF_StringCopy": fn(*mut TfString, *const c_char, usize);
    string_free = "TF_StringDealloc": fn(*mut TfString);
    string_data = "TF_StringGetDataPointer": fn(*const TfString) -> *const c_char;
    string_length = "TF_StringGetSize": fn(*const TfString) -> usize;
}

impl Table {
    /// The library's version, for example `2.21.0`.
    pub(crate) fn version(&self) -> String {
        // SAFETY: the text ends with a NUL and lives as long as the library.
        unsafe { CStr::from_ptr((self.version)()) }.to_string_lossy().into_owned()
    }
}

impl Table {
    /// The operations that the library has, as a serialized `OpList`.
    pub(crate) fn operations(&self) -> Vec<u8> {
        // SAFETY: the buffer is made for us; its bytes are copied before it is deleted, once.
        unsafe {
            let buffer = (self.all_operations)();
            let bytes = match buffer.as_ref() {
                Some(it) if it.length != 0 => slice::from_raw_parts(it.data.cast(), it.length),
                _ => &[],
            };
            let bytes = bytes.to_vec();
            (self.delete_buffer)(buffer);
            bytes
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}
