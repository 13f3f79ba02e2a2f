//! The orientation of an image, which is the only tag of EXIF that is read.

/// How the stored pixels are turned and mirrored to stand upright, by the numbers of EXIF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orientation {
    /// 1, or another number: as they are stored.
    Upright,
    /// 2
    FlipHorizontal,
    /// 3
    Rotate180,
    /// 4
    FlipVertical,
    /// 5: mirrored along the diagonal from the upper left.
    Transpose,
    /// 6: turned by a quarter, clockwise.
    Rotate90,
    /// 7: mirrored along the diagonal from the upper right.
    Transverse,
    /// 8: turned by a quarter, anticlockwise.
    Rotate270,
}

impl Orientation {
    fn from_number(number: u16) -> Orientation {
        match number {
            2 => Orientation::FlipHorizontal,
            3 => Orientation::Rotate180,
            4 => Orientation::FlipVertical,
            5 => Orientation::Transpose,
            6 => Orientation::Rotate90,
            7 => Orientation::Transverse,
            8 => Orientation::Rotate270,
            _ => Orientation::Upright,
        }
    }

    /// Do width and height change places?
    pub fn swaps(self) -> bool {
        match self {
            Orientation::Transpose
            | Orientation::Rotate90
            | Orientation::Transverse
            | Orientation::Rotate270 => true,
            Orientation::Upright
            | Orientation::FlipHorizontal
            | Orientation::Rotate180
            | Orientation::FlipVertical => false,
        }
    }
}

/// The tag's number in the first directory.
const ORIENTATION: u16 = 0x0112;
/// A number of 16 bits.
const SHORT: u16 = 3;
/// Most entries of a directory that are looked at.
const MOST_ENTRIES: usize = 1024;

/// Numbers of a TIFF structure, in its order of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    bytes: &'a [u8],
    is_little_endian: bool,
}

impl<'a> Numbers<'a> {
    /// `bytes` begin with the header of TIFF. Also gives where the first directory lies.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<(Numbers<'a>, usize)> {
        let is_little_endian = match bytes.get(..4)? {
            [b'I', b'I', 42, 0] => true,
            [b'M', b'M', 0, 42] => false,
            _ => return None,
        };
        let numbers = Numbers { bytes, is_little_endian };
        let first = numbers.u32(4)? as usize;
        Some((numbers, first))
    }

    pub(crate) fn u16(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.is_little_endian {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    }

    pub(crate) fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_little_endian {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    /// The entries of the directory at `at`: tag, type, count, and where the value or its place is written.
    pub(crate) fn entries(self, at: usize) -> impl Iterator<Item = TiffEntry> {
        let count = usize::from(self.u16(at).unwrap_or(0)).min(MOST_ENTRIES);
        (0..count).map_while(move |index| {
            let at = at.checked_add(2 + index * 12)?;
            let (tag, kind, count) = (self.u16(at)?, self.u16(at + 2)?, self.u32(at + 4)?);
            Some(TiffEntry { tag, kind, count, at: at + 8 })
        })
    }
}

/// An entry of a directory of TIFF.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TiffEntry {
    pub(crate) tag: u16,
    pub(crate) kind: u16,
    pub(crate) count: u32,
    /// Where the value is written, or where it lies if it has more than four bytes.
    pub(crate) at: usize,
}

/// The orientation that a block of EXIF says; upright where it says none.
pub(crate) fn orientation(exif: &[u8]) -> Orientation {
    let Some((numbers, first)) = Numbers::new(exif) else { return Orientation::Upright };
    let entry = numbers.entries(first).find(|it| it.tag == ORIENTATION && it.kind == SHORT);
    let number = entry.and_then(|it| numbers.u16(it.at));
    number.map_or(Orientation::Upright, Orientation::from_number)
}
