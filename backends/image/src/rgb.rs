//! A decoded image.

/// Pixels of three bytes, row by row from the top, without gaps.
#[derive(Clone, PartialEq, Eq)]
pub struct Rgb {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// `width * height * 3` bytes: red, green, blue.
    pub pixels: Vec<u8>,
}

impl std::fmt::Debug for Rgb {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Rgb({} x {})", self.width, self.height)
    }
}

impl Rgb {
    /// A black image.
    pub fn new(width: u32, height: u32) -> Rgb {
        Rgb::filled(width, height, 0)
    }

    /// An image of one shade of grey.
    pub fn filled(width: u32, height: u32, value: u8) -> Rgb {
        Rgb { width, height, pixels: vec![value; width as usize * height as usize * 3] }
    }

    /// Bytes of one row.
    pub(crate) fn stride(&self) -> usize {
        self.width as usize * 3
    }

    /// The bytes of row `y`.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        &self.pixels[y * self.stride()..][..self.stride()]
    }
}
