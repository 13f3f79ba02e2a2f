//! The bytes of a checkpoint, and a place in them: little-endian numbers, and arrays after their lengths.

use crate::error::FormatError;

/// Bytes, and a place in them.
pub(super) struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// One number of each of several records, or of the elements of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column<'a> {
    bytes: &'a [u8],
    offset: usize,
    stride: usize,
    length: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, at: 0 }
    }

    /// How many there are, those that were taken included.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, what: &str, length: usize) -> Result<&'a [u8], FormatError> {
        match self.bytes[self.at..].get(..length) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(FormatError::past_the_end(what, self.at)),
        }
    }

    fn number<const N: usize>(&mut self, what: &str) -> Result<[u8; N], FormatError> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(what, N)?);
        Ok(number)
    }

    pub(super) fn byte(&mut self, what: &str) -> Result<u8, FormatError> {
        self.number(what).map(|[it]| it)
    }

    pub(super) fn i32(&mut self, what: &str) -> Result<i32, FormatError> {
        self.number(what).map(i32::from_le_bytes)
    }

    pub(super) fn f32(&mut self, what: &str) -> Result<f32, FormatError> {
        self.number(what).map(f32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, FormatError> {
        self.number(what).map(u64::from_le_bytes)
    }

    /// An array of elements of so many bytes, after its length.
    pub(super) fn array(&mut self, what: &str, size: usize) -> Result<Column<'a>, FormatError> {
        let start = self.at;
        let length = usize::try_from(self.u64(what)?).ok().filter(|it| *it <= self.left() / size);
        let length = length.ok_or_else(|| FormatError::past_the_end(what, start))?;
        let bytes = self.take(what, length * size)?;
        Ok(Column { bytes, offset: 0, stride: size, length })
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String, FormatError> {
        let start = self.at;
        text(self.array(what, 1)?.bytes)
            .ok_or_else(|| FormatError::new(format!("{what} at offset {start} is no text")))
    }

    /// Passes what a later version has added behind a part of the file.
    pub(super) fn skip_additions(&mut self, what: &str) -> Result<(), FormatError> {
        // Each takes some bytes, so that a count that is too large ends at the end of the file.
        for _ in 0..self.i32(what)? {
            self.text(what)?;
            let (size, count) = (self.u64(what)?, self.u64(what)?);
            let length = size.checked_mul(count).and_then(|it| usize::try_from(it).ok());
            self.take(what, length.unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

/// Text of no more than a line, as names are.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    const LONGEST: usize = 1 << 20;
    std::str::from_utf8(bytes).ok().filter(|it| it.len() <= LONGEST).map(str::to_owned)
}

impl<'a> Column<'a> {
    /// The numbers at that place of each element.
    pub(super) fn at(self, offset: usize) -> Column<'a> {
        Column { offset, ..self }
    }

    /// All elements but the first so many.
    pub(super) fn after(self, elements: usize) -> Column<'a> {
        let skipped = elements.min(self.length);
        let bytes = &self.bytes[skipped * self.stride..];
        Column { bytes, length: self.length - skipped, ..self }
    }

    pub(super) fn len(self) -> usize {
        self.length
    }

    /// The bytes of a number. `index` is below the length, and the number within its element.
    fn number<const N: usize>(self, index: usize) -> [u8; N] {
        let start = index * self.stride + self.offset;
        let mut number = [0; N];
        number.copy_from_slice(&self.bytes[start..start + N]);
        number
    }

    pub(super) fn byte(self, index: usize) -> u8 {
        self.number::<1>(index)[0]
    }

    pub(super) fn i32(self, index: usize) -> i32 {
        i32::from_le_bytes(self.number(index))
    }

    pub(super) fn u32(self, index: usize) -> u32 {
        u32::from_le_bytes(self.number(index))
    }

    pub(super) fn u64(self, index: usize) -> u64 {
        u64::from_le_bytes(self.number(index))
    }

    pub(super) fn f64(self, index: usize) -> f64 {
        f64::from_le_bytes(self.number(index))
    }

    /// A number of 64 bits, or of 32.
    pub(super) fn float(self, index: usize, is_double: bool) -> f64 {
        match is_double {
            true => self.f64(index),
            false => f64::from(f32::from_le_bytes(self.number(index))),
        }
    }
}
