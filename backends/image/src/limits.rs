//! How large an image may be.

/// Bounds that are compared with the header before anything is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels of an image, width times height.
    pub max_pixels: u64,
}

impl Default for Limits {
    /// 33 million pixels, which is 8K video.
    fn default() -> Limits {
        Limits { max_pixels: 7680 * 4320 }
    }
}
