//! The last line against a decoder that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{error::SoundError, format::Format};

/// Runs a decoder. A panic of it is an error of the sound.
pub(crate) fn guarded<T>(
    format: Format,
    decode: impl FnOnce() -> Result<T, SoundError>,
) -> Result<T, SoundError> {
    // What the closure borrows is the sound and what it made itself; neither is looked at after a panic.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        let problem = "its decoder has given up".to_owned();
        Err(SoundError::Broken { format, at: 0, problem })
    })
}
