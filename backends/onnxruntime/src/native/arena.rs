//! One arena for the runs of most models: what one run has given back, the next run of any model takes.
//!
//! ONNX Runtime has an arena for each session otherwise, which keeps what the largest run of that session took. Models
//! seldom all run at the same moment, so that most of it lies idle.

use std::ptr;

use ort::sys;

use super::table::{Native, Result, check, made};

impl Native {
    /// Gives the environment an arena that sessions have in common, where the library can. It lives as long as that.
    pub(crate) fn with_common_arena(self) -> Native {
        let has_common_arena = match self.register() {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(error = error.message(), "the sessions have an arena each");
                false
            }
        };
        Native { has_common_arena, ..self }
    }

    fn register(&self) -> Result<()> {
        let table = self.table;
        let mut memory = ptr::null_mut();
        // SAFETY: one pointer is written.
        unsafe {
            check((table.CreateCpuMemoryInfo)(
                sys::OrtAllocatorType::OrtArenaAllocator,
                sys::OrtMemType::OrtMemTypeDefault,
                &mut memory,
            ))?;
        }
        let memory = made(memory)?.as_ptr();
        let environment = self.environment().cast_mut();
        // SAFETY: the environment is alive and locks for itself; the description of the memory is alive and is copied;
        // null asks for the defaults.
        let registered =
            unsafe { check((table.CreateAndRegisterAllocator)(environment, memory, ptr::null())) };
        // SAFETY: made above, released once, and nothing points to it.
        unsafe { (table.ReleaseMemoryInfo)(memory) };
        registered
    }
}

/// Settings of a session that takes the memory of its runs from there. Its weights are not in it: they go with the
/// session.
pub(super) const ENTRIES: [(&str, &str); 2] =
    [("session.use_env_allocators", "1"), ("session.use_device_allocator_for_initializers", "1")];
