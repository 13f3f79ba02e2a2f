//! How large an image may be.

/// The longest side. Resizing needs memory in proportion to the sides, beside that for the pixels.
pub(crate) const LONGEST_SIDE: u32 = 1 << 17;

/// Most pixels of an image that has been resized, before any of it is cut off.
pub(crate) const MOST_RESIZED: u64 = 100_000_000;

/// Bounds that are compared with the header before anything is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels of an image, width times height.
    pub max_pixels: u64,
}

impl Default for Limits {
    /// 50 million pixels, which is more than cameras of telephones write by default.
    fn default() -> Limits {
        Limits { max_pixels: 50_000_000 }
    }
}
