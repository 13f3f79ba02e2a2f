//! A session: made from a file and settings, asked for its inputs and outputs, run.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
    sync::Arc,
};

use backend::Stop;
use ort::{AsPointer, session::RunOptions, sys};

use super::{
    metadata,
    session_arena::Arena,
    session_options::{Options, Source},
    table::{Result, check, made},
};
use crate::{
    held::InMemory, library::Runtime, options::Settings, own_tensor::OwnTensor,
    private_copy::PrivateCopy,
};

/// A loaded graph.
pub(crate) struct Session {
    pointer: NonNull<sys::OrtSession>,
    /// Where its runs on the CPU take their memory; `None` where they keep none.
    pub(super) arena: Option<Arena>,
    /// The library stays open, and its environment alive, as long as the session.
    runtime: Arc<Runtime>,
    /// Files that it may read again.
    _copy: Option<PrivateCopy>,
    /// Weights that it uses where they are. Dropped behind it.
    _tensors: Vec<OwnTensor>,
}

// SAFETY: a session belongs to no thread.
unsafe impl Send for Session {}
// SAFETY: through `&Session` its inputs and outputs are read, which change nothing, and it is run, which
// ONNX Runtime allows from several threads at once: the providers for the CPU and CUDA are made for that,
// and TensorRT's lets one run in at a time. CUDA graphs, which are not, cannot be switched on.
unsafe impl Sync for Session {}

/// Where files of weights are looked for, for a model without a file of its own.
const FOLDER_OF_WEIGHTS: &str = "session.model_external_initializers_file_folder_path";

/// One input or output as the file has it.
pub(crate) struct Port {
    pub(crate) name: CString,
    pub(crate) kind: Kind,
}

/// What an input or output takes.
pub(crate) enum Kind {
    /// A dense tensor: the number of its element type, and its dimensions, -1 for an open one; `None`
    /// where the file does not say how many there are.
    Tensor { element: i32, dims: Option<Vec<i64>> },
    /// Something else, by the number of its type.
    Other(i32),
}

/// Which function gives the name of, and which the type of, input or output number so-and-so.
type NameOf = unsafe extern "system" fn(
    *const sys::OrtSession,
    usize,
    *mut sys::OrtAllocator,
    *mut *mut c_char,
) -> sys::OrtStatusPtr;
type TypeOf = unsafe extern "system" fn(
    *const sys::OrtSession,
    usize,
    *mut *mut sys::OrtTypeInfo,
) -> sys::OrtStatusPtr;
type CountOf = unsafe extern "system" fn(*const sys::OrtSession, *mut usize) -> sys::OrtStatusPtr;

impl Session {
    /// Loads the file. Weights are looked for in files beside it, but for those that are given. Tensors that are given
    /// are to be kept by the session: see [`Session::with_tensors`].
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        path: &Path,
        source: Source<'_>,
        weights: InMemory<'_>,
        settings: &Settings,
    ) -> Result<Session> {
        let native = &runtime.native;
        let options = Arc::new(Options::new(native, source, settings)?);
        // SAFETY: `weights` are alive and unchanged until this function returns, and the session is made by then. Of
        // tensors the caller keeps them as long as the session.
        unsafe { options.weights(weights)? };
        let to_cancel = options.clone();
        settings.stop.on_stop(move || to_cancel.cancel());
        let _hook = ClearedHook(&settings.stop);
        let mut pointer = ptr::null_mut();
        if let Source::Content(content) = source {
            let folder = path.parent().unwrap_or(Path::new(""));
            options.entry(FOLDER_OF_WEIGHTS, &folder.to_string_lossy())?;
            // SAFETY: environment and options are alive, the content is as long as that and is read during the
            // call only, one pointer is written.
            unsafe {
                check((native.table.CreateSessionFromArray)(
                    native.environment(),
                    content.as_ptr().cast(),
                    content.len(),
                    options.pointer.as_ptr(),
                    &mut pointer,
                ))?;
            }
            return Session::made(runtime, pointer, settings);
        }
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: environment and options are alive, the path ends with a NUL, one pointer is written.
        unsafe {
            check((native.table.CreateSession)(
                native.environment(),
                path.as_ptr(),
                options.pointer.as_ptr(),
                &mut pointer,
            ))?;
        }
        Session::made(runtime, pointer, settings)
    }

    fn made(
        runtime: &Arc<Runtime>,
        pointer: *mut sys::OrtSession,
        settings: &Settings,
    ) -> Result<Session> {
        let pointer = made(pointer)?;
        let mut session = Session {
            pointer,
            arena: None,
            runtime: runtime.clone(),
            _copy: None,
            _tensors: Vec::new(),
        };
        if settings.arena {
            let (native, keeping) = (&runtime.native, settings.keeping);
            let is_common = settings.common_arena && native.has_common_arena;
            // SAFETY: the session is alive, and lets go of the arena before it is released.
            session.arena = unsafe { Arena::of(native, pointer, keeping, is_common) };
        }
        Ok(session)
    }

    /// The same, for which these files are kept.
    pub(crate) fn with(mut self, copy: PrivateCopy) -> Session {
        self._copy = Some(copy);
        self
    }

    /// The same, which uses these tensors. They are those that it was made with: nothing else keeps them alive.
    pub(crate) fn with_tensors(mut self, tensors: Vec<OwnTensor>) -> Session {
        self._tensors = tensors;
        self
    }

    /// The library that the session came from.
    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Inputs without a default, in the order of the file.
    pub(crate) fn inputs(&self) -> Result<Vec<Port>> {
        let table = self.runtime.native.table;
        self.ports(
            table.SessionGetInputCount,
            table.SessionGetInputName,
            table.SessionGetInputTypeInfo,
        )
    }

    /// Inputs with a default.
    pub(crate) fn optional_inputs(&self) -> Result<Vec<Port>> {
        let table = self.runtime.native.table;
        self.ports(
            table.SessionGetOverridableInitializerCount,
            table.SessionGetOverridableInitializerName,
            table.SessionGetOverridableInitializerTypeInfo,
        )
    }

    /// Outputs, in the order of the file.
    pub(crate) fn outputs(&self) -> Result<Vec<Port>> {
        let table = self.runtime.native.table;
        self.ports(
            table.SessionGetOutputCount,
            table.SessionGetOutputName,
            table.SessionGetOutputTypeInfo,
        )
    }

    /// What the file says about itself beside its graph.
    pub(crate) fn metadata(&self) -> Result<BTreeMap<String, String>> {
        // SAFETY: the session is alive.
        unsafe { metadata::read(&self.runtime.native, self.pointer.as_ptr()) }
    }

    fn ports(&self, count_of: CountOf, name_of: NameOf, type_of: TypeOf) -> Result<Vec<Port>> {
        let mut count = 0;
        // SAFETY: the session is alive, one number is written.
        unsafe { check(count_of(self.pointer.as_ptr(), &mut count))? };
        (0..count)
            .map(|index| {
                Ok(Port { name: self.name(name_of, index)?, kind: self.kind(type_of, index)? })
            })
            .collect()
    }

    fn name(&self, name_of: NameOf, index: usize) -> Result<CString> {
        let native = &self.runtime.native;
        let allocator = native.allocator.as_ptr();
        let mut name = ptr::null_mut();
        // SAFETY: session and allocator are alive and the index is below the count. The name is a C string
        // of that allocator; it is copied before it is given back to it.
        unsafe {
            check(name_of(self.pointer.as_ptr(), index, allocator, &mut name))?;
            let copy = CStr::from_ptr(made(name)?.as_ptr()).to_owned();
            check((native.table.AllocatorFree)(allocator, name.cast::<c_void>()))?;
            Ok(copy)
        }
    }

    fn kind(&self, type_of: TypeOf, index: usize) -> Result<Kind> {
        let table = self.runtime.native.table;
        let mut information = ptr::null_mut();
        // SAFETY: the session is alive and the index is below the count; one pointer is written.
        unsafe { check(type_of(self.pointer.as_ptr(), index, &mut information))? };
        let information = made(information)?.as_ptr();
        // SAFETY: `information` is alive until the line after.
        let kind = unsafe { kind_of(table, information) };
        // SAFETY: it was made for us by `type_of` and nothing points into it any more.
        unsafe { (table.ReleaseTypeInfo)(information) };
        kind
    }

    /// Runs the graph. On success each of `outputs` holds a value that is the caller's to release, or null
    /// where the graph gave none; on failure some may hold one.
    ///
    /// # Safety
    /// The names end with a NUL, names and inputs are of one number and alive, and so are the names of
    /// outputs and `outputs`, which holds nulls.
    pub(crate) unsafe fn run(
        &self,
        options: &RunOptions,
        input_names: &[*const c_char],
        inputs: &[*const sys::OrtValue],
        output_names: &[*const c_char],
        outputs: &mut [*mut sys::OrtValue],
    ) -> Result<()> {
        debug_assert_eq!((input_names.len(), output_names.len()), (inputs.len(), outputs.len()));
        // SAFETY: session and options are alive; the rest is the caller's promise.
        unsafe {
            check((self.runtime.native.table.Run)(
                self.pointer.as_ptr(),
                options.ptr(),
                input_names.as_ptr(),
                inputs.as_ptr(),
                inputs.len(),
                output_names.as_ptr(),
                outputs.len(),
                outputs.as_mut_ptr(),
            ))
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget_idle();
        self.arena = None;
        // SAFETY: made by `CreateSession`, released once, and values that it made keep the session.
        unsafe { (self.runtime.native.table.ReleaseSession)(self.pointer.as_ptr()) };
    }
}

/// Reads a type. Numbers are read as such: a later library may have ones that `sys` has no name for.
///
/// # Safety
/// `information` is alive.
unsafe fn kind_of(table: &sys::OrtApi, information: *mut sys::OrtTypeInfo) -> Result<Kind> {
    let (mut onnx_type, mut tensor) = (0i32, ptr::null());
    // SAFETY: `information` is alive; a C enum is written where an `i32` is, and then one pointer, which
    // points into `information` and is null for anything but a tensor.
    unsafe {
        check((table.GetOnnxTypeFromTypeInfo)(information, (&raw mut onnx_type).cast()))?;
        if onnx_type != sys::ONNXType::ONNX_TYPE_TENSOR as i32 {
            return Ok(Kind::Other(onnx_type));
        }
        check((table.CastTypeInfoToTensorInfo)(information, &mut tensor))?;
    }
    let (mut element, mut rank) = (0i32, 0);
    // SAFETY: `tensor` points into `information`; a C enum is written where an `i32` is, one number, and
    // as many dimensions as there is room for.
    unsafe {
        let tensor = made(tensor.cast_mut())?.as_ptr();
        check((table.GetTensorElementType)(tensor, (&raw mut element).cast()))?;
        check((table.GetDimensionsCount)(tensor, &mut rank))?;
        let mut dims = vec![0; rank];
        check((table.GetDimensions)(tensor, dims.as_mut_ptr(), rank))?;
        let dims = (table.TensorTypeAndShape_HasShape)(tensor).then_some(dims);
        Ok(Kind::Tensor { element, dims })
    }
}

/// Forgets the hook of a stop when a session is made or has failed.
struct ClearedHook<'a>(&'a Stop);

impl Drop for ClearedHook<'_> {
    fn drop(&mut self) {
        self.0.clear_hook();
    }
}
