//! What can be wrong with an image, and with the configuration of a processor.

use crate::format::Format;

/// Why an image has no pixels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The first bytes are those of no format that is read.
    #[error("the bytes are no image: {0}, expected JPEG, PNG, WebP, GIF, BMP or TIFF")]
    UnknownFormat(String),
    /// The format is known, and the bytes break its rules or end too soon.
    #[error("the {format} image is broken: {problem}")]
    Broken {
        /// The format of the first bytes.
        format: Format,
        /// What is wrong, in the decoder's words.
        problem: String,
    },
    /// A valid image of a kind that is not decoded.
    #[error("the {format} image is not supported: {problem}")]
    Unsupported {
        /// The format of the first bytes.
        format: Format,
        /// What is not supported.
        problem: String,
    },
    /// The header promises more pixels than are allowed.
    #[error("the image has {width} x {height} pixels, expected at most {limit} pixels")]
    TooManyPixels {
        /// From the header.
        width: u32,
        /// From the header.
        height: u32,
        /// The most that is allowed.
        limit: u64,
    },
    /// The header promises a longer side than is taken.
    #[error("the image has {width} x {height} pixels, expected sides of at most {limit}")]
    TooLong {
        /// From the header.
        width: u32,
        /// From the header.
        height: u32,
        /// The longest side that is taken.
        limit: u32,
    },
    /// A JPEG whose scans would take very long to decode.
    #[error("the JPEG image has more than {limit} scans, as many as are taken at its size")]
    TooManyScans {
        /// The most that is allowed.
        limit: usize,
    },
    /// It was given up, since nobody waits for it any more.
    #[error("the image is not wanted any more")]
    Stopped,
    /// The image cannot be brought to the size that the model takes.
    #[error("an image of {width} x {height} pixels cannot be resized: {problem}")]
    Shape {
        /// Of the image, upright.
        width: u32,
        /// Of the image, upright.
        height: u32,
        /// Why not.
        problem: String,
    },
}

impl ImageError {
    pub(crate) fn broken(format: Format, problem: impl ToString) -> ImageError {
        ImageError::Broken { format, problem: problem.to_string() }
    }

    pub(crate) fn unsupported(format: Format, problem: impl ToString) -> ImageError {
        ImageError::Unsupported { format, problem: problem.to_string() }
    }
}

/// Why a processor cannot be made from its configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key '{key}': {problem}; {remedy}")]
pub struct ConfigError {
    /// The key of the JSON object, `size.height` for one within another.
    pub key: String,
    /// What is wrong with its value.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl ConfigError {
    pub(crate) fn new(
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ConfigError {
        ConfigError { key: key.to_owned(), problem: problem.into(), remedy: remedy.into() }
    }
}
