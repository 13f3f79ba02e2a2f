//! Images as bytes become the values that a graph takes: decoded, upright, resized, cropped, normalised.
//!
//! [`header`] says what an image is without decoding it. [`Decoder`] decodes JPEG, PNG, WebP, GIF, BMP and TIFF to
//! [`Rgb`]. [`Processor`] does what the image processor of a Hugging Face folder does, value by value;
//! [`letterbox`] does what Ultralytics' prediction does.
//!
//! Resizing equals Pillow's in every byte. JPEG equals Pillow's where libjpeg-turbo is found at run time.

mod bmp;
mod cmyk;
mod config;
mod crop;
mod decode;
mod defaults;
mod error;
mod exif;
mod fields;
mod filter;
mod format;
mod gif;
mod header;
mod jpeg;
pub mod letterbox;
mod limits;
mod neighbours;
mod orient;
mod palette;
mod part;
mod passes;
mod pixels;
mod png;
mod processor;
mod resize_opencv;
mod resize_pillow;
mod rgb;
mod size;
mod tiff;
mod timm;
mod values;
mod vp8;
mod watched;
mod webp;
mod weights;

pub use crop::{Crop, CropRounding};
pub use decode::{Decoder, header};
pub use error::{ConfigError, ImageError};
pub use exif::Orientation;
pub use filter::Filter;
pub use format::Format;
pub use header::Header;
pub use jpeg::{JpegLibrary, LibraryError};
pub use limits::Limits;
pub use pixels::{OutputShape, Pixels, Placement};
pub use processor::{Pad, Processor};
pub use resize_opencv::resize_bilinear;
pub use resize_pillow::resize;
pub use rgb::Rgb;
pub use size::SizeRule;
pub use values::{ChannelOrder, Rescale, Values};
