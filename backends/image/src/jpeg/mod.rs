//! JPEG: by libjpeg-turbo where it is found at run time, else by zune-jpeg.
//!
//! libjpeg-turbo gives the bytes that Pillow, OpenCV and torchvision give, since all of them use it. `turbo` calls its
//! C functions.

mod decoder;
mod library;
mod markers;
mod turbo;
mod watched_reader;
mod zune;

pub(crate) use decoder::JpegDecoder;
pub use library::{JpegLibrary, LibraryError};
pub(crate) use markers::header;
