//! Which library decodes JPEG: the type of `backend-image`, and one of the same shape where that was left out.

#[cfg(not(feature = "pipelines"))]
use std::path::PathBuf;

#[cfg(feature = "pipelines")]
pub use image::JpegLibrary;

/// Which library would decode JPEG.
#[cfg(not(feature = "pipelines"))]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum JpegLibrary {
    /// The one of the system, else the one in the program.
    #[default]
    Auto,
    /// The one in this file.
    File(PathBuf),
    /// The one in the program.
    None,
}
