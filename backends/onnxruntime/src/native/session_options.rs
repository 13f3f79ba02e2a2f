//! What a session is made with: the settings of a model, in the form that ONNX Runtime takes.

use std::{
    ffi::{CString, c_char, c_int},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
};

use ort::{logging::LogLevel, sys};

use super::{
    arena,
    provider::append,
    table::{Native, Result, check, made},
};
use crate::{
    held::{Beside, InMemory},
    options::{GraphLevel, Settings},
    own_tensor::OwnTensor,
};

/// What a file is to the session that is made from it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A model, which is optimised as the settings say.
    Model,
    /// The same, but this is what is in the file.
    Content(&'a [u8]),
    /// The same; and the optimised graph is written to that file, its weights, in the form in which the
    /// kernels want them, to [`WEIGHTS`] beside it.
    ModelToKeep(&'a Path),
    /// Such an optimised graph, which is taken as it is. Its weights are mapped, not read.
    Optimised,
}

/// The file of weights beside an optimised graph.
pub(crate) const WEIGHTS: &str = "weights.bin";

/// Smaller weights stay in the graph's own file, where the passes that look at shapes and constants find
/// them.
const LEAST_WEIGHT: &str = "1024";

/// Session options, for as long as it takes to make a session.
pub(super) struct Options {
    pub(super) pointer: NonNull<sys::OrtSessionOptions>,
    table: &'static sys::OrtApi,
}

// SAFETY: options belong to no thread.
unsafe impl Send for Options {}
// SAFETY: through `&Options` of another thread only `cancel` is called while a session is made, and what that sets is
// an atomic flag, which is made for this.
unsafe impl Sync for Options {}

impl Options {
    pub(super) fn new(native: &Native, source: Source<'_>, settings: &Settings) -> Result<Options> {
        let table = native.table;
        let mut pointer = ptr::null_mut();
        // SAFETY: one pointer is written.
        unsafe { check((table.CreateSessionOptions)(&mut pointer))? };
        let options = Options { pointer: made(pointer)?, table };
        let pointer = options.pointer.as_ptr();
        let mode = match settings.parallel {
            true => sys::ExecutionMode::ORT_PARALLEL,
            false => sys::ExecutionMode::ORT_SEQUENTIAL,
        };
        let level = match (source, settings.graph_level) {
            (Source::Optimised, _) | (_, GraphLevel::Off) => {
                sys::GraphOptimizationLevel::ORT_DISABLE_ALL
            }
            (_, GraphLevel::Basic) => sys::GraphOptimizationLevel::ORT_ENABLE_BASIC,
            (_, GraphLevel::Extended) => sys::GraphOptimizationLevel::ORT_ENABLE_EXTENDED,
            (_, GraphLevel::All) => sys::GraphOptimizationLevel::ORT_ENABLE_ALL,
        };
        let severity = match source {
            // What there is to warn of has been said.
            _ if settings.is_second => LogLevel::Error,
            // It would warn that such a file is good for one kind of processor, which is known.
            Source::ModelToKeep(_) => LogLevel::Error,
            Source::Model | Source::Content(_) | Source::Optimised => LogLevel::Warning,
        };
        let arena = match settings.arena {
            true => table.EnableCpuMemArena,
            false => table.DisableCpuMemArena,
        };
        let pattern = match settings.memory_pattern {
            true => table.EnableMemPattern,
            false => table.DisableMemPattern,
        };
        // A name with a NUL is none.
        let log_name = CString::new(settings.log_name.as_str()).unwrap_or_default();
        // SAFETY: the options are alive; the name ends with a NUL and is copied; nothing else is pointed to.
        unsafe {
            check((table.SetSessionLogId)(pointer, log_name.as_ptr()))?;
            check((table.SetIntraOpNumThreads)(pointer, count(settings.intra_threads)))?;
            check((table.SetInterOpNumThreads)(pointer, count(settings.inter_threads)))?;
            check((table.SetSessionExecutionMode)(pointer, mode))?;
            check((table.SetSessionGraphOptimizationLevel)(pointer, level))?;
            check((table.SetSessionLogSeverityLevel)(pointer, severity as c_int))?;
            check(arena(pointer))?;
            check(pattern(pointer))?;
        }
        if settings.common_arena && native.has_common_arena {
            for (key, value) in arena::ENTRIES {
                options.entry(key, value)?;
            }
        }
        // What the configuration says goes before.
        for (key, value) in &settings.entries {
            options.entry(key, value)?;
        }
        for library in &settings.op_libraries {
            options.register(library)?;
        }
        for provider in &settings.providers {
            // SAFETY: the options are alive.
            unsafe { append(table, options.pointer, provider)? };
        }
        if let Source::ModelToKeep(path) = source {
            options.entry("session.optimized_model_external_initializers_file_name", WEIGHTS)?;
            options.entry(
                "session.optimized_model_external_initializers_min_size_in_bytes",
                LEAST_WEIGHT,
            )?;
            options.entry("session.save_external_prepacked_constant_initializers", "1")?;
            let path = CString::new(path.as_os_str().as_bytes())?;
            // SAFETY: the options are alive, the path ends with a NUL and is copied.
            unsafe { check((table.SetOptimizedModelFilePath)(pointer, path.as_ptr()))? };
        }
        Ok(options)
    }

    /// Asks the making of a session to end, which looks at this between the passes over the graph.
    pub(super) fn cancel(&self) {
        // SAFETY: the options are alive, and share the flag with the copy that the session has.
        let done = unsafe {
            check((self.table.SessionOptionsSetLoadCancellationFlag)(self.pointer.as_ptr(), true))
        };
        if let Err(error) = done {
            tracing::debug!(%error, "ONNX Runtime cannot be asked to end a load");
        }
    }

    /// Weights that are in memory.
    ///
    /// # Safety
    /// They are alive and unchanged until a session has been made with the options. Tensors are as long as the session.
    pub(super) unsafe fn weights(&self, weights: InMemory<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match weights {
                InMemory::Files(files) => self.files(files),
                InMemory::Tensors(tensors) => self.tensors(tensors),
            }
        }
    }

    /// Tensors in the place of those in files. They are used where they are, and not copied.
    ///
    /// # Safety
    /// They are alive and unchanged as long as the session.
    unsafe fn tensors(&self, tensors: &[OwnTensor]) -> Result<()> {
        for tensor in tensors {
            let (name, value) = (tensor.name().as_ptr(), tensor.value().pointer());
            // SAFETY: the options are alive, and the name ends with a NUL and is copied. The value is alive by the
            // caller's promise.
            unsafe {
                check((self.table.AddInitializer)(self.pointer.as_ptr(), name, value))?;
            }
        }
        Ok(())
    }

    /// Files of weights whose contents are in memory.
    ///
    /// # Safety
    /// They are alive and unchanged until a session has been made with the options.
    unsafe fn files(&self, files: &[Beside]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let names: Vec<*const c_char> = files.iter().map(|it| it.0.as_ptr()).collect();
        let contents: Vec<*mut c_char> =
            files.iter().map(|it| it.1.as_ptr().cast_mut().cast()).collect();
        let lengths: Vec<usize> = files.iter().map(|it| it.1.len()).collect();
        // SAFETY: the options are alive, and the three lists of one length; names end with a NUL. The contents are read
        // alone, until a session is made: that is the caller's promise.
        unsafe {
            check((self.table.AddExternalInitializersFromMemory)(
                self.pointer.as_ptr(),
                names.as_ptr(),
                contents.as_ptr(),
                lengths.as_ptr(),
                files.len(),
            ))
        }
    }

    pub(super) fn entry(&self, key: &str, value: &str) -> Result<()> {
        let (key, value, options) =
            (CString::new(key)?, CString::new(value)?, self.pointer.as_ptr());
        // SAFETY: the options are alive, both strings end with a NUL and are copied.
        unsafe { check((self.table.AddSessionConfigEntry)(options, key.as_ptr(), value.as_ptr())) }
    }

    /// Makes the operators of a library known. The library stays open as long as the sessions.
    fn register(&self, library: &Path) -> Result<()> {
        let (path, options) =
            (CString::new(library.as_os_str().as_bytes())?, self.pointer.as_ptr());
        // SAFETY: the options are alive and the path ends with a NUL. The library runs code of its own when it is
        // opened, as whoever configured the model wants it to; it keeps to ONNX Runtime's interface for such libraries.
        let done =
            unsafe { check((self.table.RegisterCustomOpsLibrary_V2)(options, path.as_ptr())) };
        done.map_err(|error| {
            let (library, said) = (library.display(), error.message());
            ort::Error::new(format!(
                "the library of operators {library} cannot be used: {said}; expected a shared library with the function \
                 RegisterCustomOps (model_operations.op_library_filename)"
            ))
        })
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: made by `CreateSessionOptions`, released once; sessions hold a copy.
        unsafe { (self.table.ReleaseSessionOptions)(self.pointer.as_ptr()) };
    }
}

/// Threads as C counts them. [`Settings`] allows 1,024.
fn count(threads: usize) -> c_int {
    c_int::try_from(threads).unwrap_or(c_int::MAX)
}
