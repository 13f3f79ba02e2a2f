//! The function table, and what of the library belongs to the whole process.

use std::{
    ptr::{self, NonNull},
    sync::Mutex,
};

use ort::{AsPointer, environment::Environment, logging::LogLevel, sys};

/// What the library may log. `ort` would have it the most talkative, and then each session formats a hundred
/// lines.
pub(super) const LOG_LEVEL: LogLevel = LogLevel::Warning;

/// What a call into the table gives.
pub(crate) type Result<T> = std::result::Result<T, ort::Error>;

/// The function table and what belongs to the whole process. Lives as long as the process.
pub(crate) struct Native {
    pub(super) table: &'static sys::OrtApi,
    pub(super) environment: Environment,
    /// Says "ordinary memory of this process" of the tensors that are lent to a run.
    pub(super) memory: NonNull<sys::OrtMemoryInfo>,
    /// Allocates strings' tensors and the names of inputs and outputs. Owned by the library.
    pub(super) allocator: NonNull<sys::OrtAllocator>,
    /// Is there an arena that sessions have in common?
    pub(super) has_common_arena: bool,
    /// Guards the level of the log while a provider is tried.
    pub(super) probing: Mutex<()>,
}

// SAFETY: the table is constant; the environment is `Send` and `Sync` by `ort`; the memory info is not
// changed after its making; the default allocator locks or wraps `malloc`.
unsafe impl Send for Native {}
// SAFETY: as above.
unsafe impl Sync for Native {}

impl Native {
    /// To be called when `ort` has opened the library.
    pub(crate) fn new(environment: Environment) -> Result<Native> {
        environment.set_log_level(LOG_LEVEL);
        let table = ort::api();
        let (mut memory, mut allocator) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: both calls write one pointer to the address that they are given.
        unsafe {
            check((table.CreateCpuMemoryInfo)(
                sys::OrtAllocatorType::OrtDeviceAllocator,
                sys::OrtMemType::OrtMemTypeDefault,
                &mut memory,
            ))?;
            check((table.GetAllocatorWithDefaultOptions)(&mut allocator))?;
        }
        let (memory, allocator) = (made(memory)?, made(allocator)?);
        let (has_common_arena, probing) = (false, Mutex::default());
        Ok(Native { table, environment, memory, allocator, has_common_arena, probing })
    }

    pub(super) fn environment(&self) -> *const sys::OrtEnv {
        self.environment.ptr()
    }
}

/// The status of a call as a result.
///
/// # Safety
/// `status` comes from a function of the table and has not been looked at.
pub(super) unsafe fn check(status: sys::OrtStatusPtr) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { ort::Error::result_from_status(status) }
}

/// What a call that succeeded left.
pub(super) fn made<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer)
        .ok_or_else(|| ort::Error::new("ONNX Runtime made nothing, and says it succeeded"))
}
