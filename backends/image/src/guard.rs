//! The last line against a decoder that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{error::ImageError, format::Format};

/// Runs a decoder. A panic of it is an error of the image.
pub(crate) fn guarded<T>(
    format: Format,
    decode: impl FnOnce() -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    // What the closure borrows is the image and what it made itself; neither is looked at after a panic.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ImageError::broken(format, "its decoder has given up")))
}
