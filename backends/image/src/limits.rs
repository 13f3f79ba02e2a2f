//! How large an image may be.

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
