//! Arrays of NumPy, wherever they come from: their types, and their elements as numbers. Pure.

use std::borrow::Cow;

use crate::error::FormatError;

/// An array as it is stored.
#[derive(Debug, Clone)]
pub struct Array<'a> {
    /// The type of an element.
    pub dtype: Dtype,
    /// Dimensions. Their product is the number of elements.
    pub shape: Vec<usize>,
    /// Is the first dimension the one that runs fastest?
    pub fortran: bool,
    /// The elements.
    pub bytes: Cow<'a, [u8]>,
}

/// The type of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dtype {
    /// A number, a truth, or a text of fixed length.
    Scalar(Scalar),
    /// Several of them, by name.
    Record {
        /// Name and place of each.
        fields: Vec<(String, usize, Scalar)>,
        /// Bytes of an element.
        bytes: usize,
    },
}

/// A type without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scalar {
    /// NumPy's letter: `f`, `i`, `u`, `b`, `U`, `S`, `O` for objects, `V` for bytes of no type.
    pub kind: char,
    /// Bytes of an element.
    pub bytes: usize,
    /// Is the most significant byte the first?
    pub big_endian: bool,
}

/// One field of all elements, or the elements themselves, in the order of rows whatever theirs is.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    bytes: &'a [u8],
    /// Dimensions of which the first runs fastest in the bytes. None where the last one does.
    fortran: Option<&'a [usize]>,
    scalar: Scalar,
    offset: usize,
    stride: usize,
    length: usize,
}

impl Dtype {
    /// Bytes of an element.
    pub fn bytes(&self) -> usize {
        match self {
            Dtype::Scalar(it) => it.bytes,
            Dtype::Record { bytes, .. } => *bytes,
        }
    }
}

impl Scalar {
    /// The type of a text such as `<f8`, `U7` or `|b1`.
    pub fn parse(text: &str) -> Option<Scalar> {
        let (big_endian, text) = match text.as_bytes().first()? {
            b'>' => (true, &text[1..]),
            b'<' | b'|' | b'=' => (false, &text[1..]),
            _ => (false, text),
        };
        let kind = text.chars().next().filter(|it| "fiubUSOV?".contains(*it))?;
        let digits = &text[1..];
        let (kind, size) = match (kind, digits) {
            ('?', "") => ('b', 1),
            ('O', "") => ('O', 8),
            _ if digits.len() <= 9 => (kind, digits.parse::<usize>().ok()?),
            _ => return None,
        };
        // Characters of four bytes.
        let bytes = if kind == 'U' { size.checked_mul(4)? } else { size };
        let possible = match kind {
            'f' => matches!(bytes, 2 | 4 | 8 | 16),
            'i' | 'u' => matches!(bytes, 1 | 2 | 4 | 8),
            'b' => bytes == 1,
            _ => true,
        };
        possible.then_some(Scalar { kind, bytes, big_endian })
    }
}

impl<'a> Array<'a> {
    /// An array with as many bytes as its shape and type say.
    ///
    /// # Errors
    /// It has others, or its numbers are too large to be multiplied.
    pub fn new(
        dtype: Dtype,
        shape: Vec<usize>,
        fortran: bool,
        bytes: Cow<'a, [u8]>,
    ) -> Result<Array<'a>, FormatError> {
        let expected = bytes_of(&dtype, &shape)?;
        if bytes.len() != expected {
            let found = bytes.len();
            return Err(FormatError::new(format!(
                "an array of shape {shape:?} has {found} bytes, expected {expected}"
            )));
        }
        Ok(Array { dtype, shape, fortran, bytes })
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements, which are no records.
    pub fn column(&self) -> Option<Column<'_>> {
        let Dtype::Scalar(scalar) = self.dtype else { return None };
        Some(self.part(scalar, 0))
    }

    /// A field of the elements, which are records.
    pub fn field(&self, name: &str) -> Option<Column<'_>> {
        let Dtype::Record { fields, .. } = &self.dtype else { return None };
        let (_, offset, scalar) = fields.iter().find(|it| it.0 == name)?;
        Some(self.part(*scalar, *offset))
    }

    fn part(&self, scalar: Scalar, offset: usize) -> Column<'_> {
        let (stride, length) = (self.dtype.bytes(), self.elements());
        let fortran = (self.fortran && 1 < self.shape.len()).then_some(&self.shape[..]);
        Column { bytes: &self.bytes, fortran, scalar, offset, stride, length }
    }

    /// The elements as floats.
    pub fn floats(&self) -> Option<Vec<f64>> {
        let column = self.column()?;
        (0..column.len()).map(|it| column.float(it)).collect()
    }
}

/// How many bytes an array of that type and shape has.
///
/// # Errors
/// More than can be counted, and elements without bytes: no file would be too small for any number of them.
pub fn bytes_of(dtype: &Dtype, shape: &[usize]) -> Result<usize, FormatError> {
    let elements = shape.iter().try_fold(1_usize, |product, it| product.checked_mul(*it));
    let bytes = elements.and_then(|it| it.checked_mul(dtype.bytes()));
    match (elements, bytes) {
        (Some(elements), Some(0)) if elements != 0 => Err(FormatError::new(format!(
            "the elements of an array of shape {shape:?} have no bytes"
        ))),
        (_, Some(bytes)) => Ok(bytes),
        (_, None) => Err(FormatError::new(format!("an array of shape {shape:?} is too large"))),
    }
}

impl Column<'_> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// An element as a float. `None` where there is none, or where it is no number.
    pub fn float(&self, index: usize) -> Option<f64> {
        match (self.scalar.kind, self.scalar.bytes) {
            ('f', 8) => self.array(index).map(f64::from_le_bytes),
            ('f', 4) => self.array(index).map(|it| f64::from(f32::from_le_bytes(it))),
            ('f', _) => None,
            _ => self.integer(index).map(|it| it as f64),
        }
    }

    /// An element as an integer. `None` where there is none, or where it is none.
    pub fn integer(&self, index: usize) -> Option<i64> {
        match (self.scalar.kind, self.scalar.bytes) {
            ('i' | 'b', 1) => self.array(index).map(|it| i64::from(i8::from_le_bytes(it))),
            ('i', 2) => self.array(index).map(|it| i64::from(i16::from_le_bytes(it))),
            ('i', 4) => self.array(index).map(|it| i64::from(i32::from_le_bytes(it))),
            ('i', 8) => self.array(index).map(i64::from_le_bytes),
            ('u', 1) => self.array(index).map(|it| i64::from(u8::from_le_bytes(it))),
            ('u', 2) => self.array(index).map(|it| i64::from(u16::from_le_bytes(it))),
            ('u', 4) => self.array(index).map(|it| i64::from(u32::from_le_bytes(it))),
            ('u', 8) => self.array(index).and_then(|it| i64::try_from(u64::from_le_bytes(it)).ok()),
            _ => None,
        }
    }

    /// An element as text. `None` where there is none, or where it is none.
    pub fn text(&self, index: usize) -> Option<String> {
        let bytes = self.element(index)?;
        match self.scalar.kind {
            'U' => {}
            // Zeros behind a text fill it up.
            'S' => {
                let end = bytes.iter().rposition(|it| *it != 0).map_or(0, |it| it + 1);
                return std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned);
            }
            _ => return None,
        }
        let characters = bytes.chunks_exact(4).map(|it| {
            let raw = [it[0], it[1], it[2], it[3]];
            match self.scalar.big_endian {
                true => u32::from_be_bytes(raw),
                false => u32::from_le_bytes(raw),
            }
        });
        characters.take_while(|it| *it != 0).map(char::from_u32).collect()
    }

    /// The bytes of an element, the least significant one first.
    fn array<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        let mut array: [u8; N] = self.element(index)?.try_into().ok()?;
        if self.scalar.big_endian {
            array.reverse();
        }
        Some(array)
    }

    fn element(&self, index: usize) -> Option<&[u8]> {
        if self.length <= index {
            return None;
        }
        let place = self.fortran.map_or(index, |it| fortran_place(it, self.length, index));
        let start = place * self.stride + self.offset;
        self.bytes.get(start..start.checked_add(self.scalar.bytes)?)
    }
}

/// Where an element is among those of an array of `length` elements whose first dimension runs fastest.
fn fortran_place(shape: &[usize], length: usize, index: usize) -> usize {
    let (mut place, mut rest, mut stride) = (0, index, length);
    for size in shape.iter().rev() {
        stride /= size;
        place += rest % size * stride;
        rest /= size;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: &str, shape: &[usize], bytes: &[u8]) -> Array<'static> {
        let dtype = Dtype::Scalar(Scalar::parse(dtype).expect("a type"));
        Array::new(dtype, shape.to_vec(), false, Cow::Owned(bytes.to_vec())).expect("an array")
    }

    #[test]
    fn types_are_read_from_their_texts() {
        let scalar = |kind, bytes, big_endian| Some(Scalar { kind, bytes, big_endian });
        assert_eq!(Scalar::parse("<f8"), scalar('f', 8, false));
        assert_eq!(Scalar::parse(">i4"), scalar('i', 4, true));
        assert_eq!(Scalar::parse("|b1"), scalar('b', 1, false));
        assert_eq!(Scalar::parse("?"), scalar('b', 1, false));
        assert_eq!(Scalar::parse("<U7"), scalar('U', 28, false));
        assert_eq!(Scalar::parse("|O"), scalar('O', 8, false));
        for wrong in ["", "<", "f", "f3", "i16", "<M8[ns]", "c16", "U99999999999", "é8", "<é"] {
            assert_eq!(Scalar::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn elements_are_numbers_and_texts() {
        let column = array(">i2", &[2], &[0xff, 0xfe, 0, 3]);
        let column = column.column().expect("no record");
        assert_eq!(
            (0..3).map(|it| column.integer(it)).collect::<Vec<_>>(),
            [Some(-2), Some(3), None]
        );
        let texts = array("<U2", &[2], b"a\0\0\0\0\0\0\0b\0\0\0c\0\0\0");
        let texts = texts.column().expect("no record");
        assert_eq!([texts.text(0), texts.text(1)], [Some("a".to_owned()), Some("bc".to_owned())]);
        assert_eq!(texts.float(0), None);
    }

    #[test]
    fn columns_that_run_fastest_become_rows() {
        let mut array = array("u1", &[2, 3], &[1, 2, 3, 4, 5, 6]);
        assert_eq!(array.floats(), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        array.fortran = true;
        assert_eq!(array.floats(), Some(vec![1.0, 3.0, 5.0, 2.0, 4.0, 6.0]));
        array.shape = vec![1, 2, 3];
        assert_eq!(array.floats(), Some(vec![1.0, 3.0, 5.0, 2.0, 4.0, 6.0]));
        array.shape = vec![3, 1, 2];
        assert_eq!(array.floats(), Some(vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
        array.shape = vec![6];
        assert_eq!(array.floats(), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    }

    #[test]
    fn elements_have_bytes() {
        let of = |text: &str, shape: &[usize]| {
            let dtype = Dtype::Scalar(Scalar::parse(text).expect("a type"));
            Array::new(dtype, shape.to_vec(), false, Cow::Borrowed(&[])).map(|it| it.elements())
        };
        for text in ["S0", "V0", "U0"] {
            let problem = of(text, &[1 << 40]).expect_err("any number of nothing").to_string();
            assert!(problem.contains("have no bytes"), "{problem}");
            assert!(of(text, &[]).is_err() && of(text, &[1 << 40, 1 << 40]).is_err());
            assert_eq!(of(text, &[0, 7]).ok(), Some(0));
        }
        let record = Dtype::Record { fields: Vec::new(), bytes: 0 };
        assert!(Array::new(record, vec![1 << 62], false, Cow::Borrowed(&[])).is_err());
        // Whatever stands before the zero.
        assert!(of("f8", &[1 << 40, 1 << 40, 0]).is_err());
        assert_eq!(of("f8", &[0, 1 << 40, 1 << 40]).ok(), Some(0));
    }

    #[test]
    fn the_bytes_are_those_of_the_shape() {
        let dtype = Dtype::Scalar(Scalar { kind: 'f', bytes: 8, big_endian: false });
        for shape in [vec![3], vec![usize::MAX, 2], vec![]] {
            assert!(Array::new(dtype.clone(), shape, false, Cow::Borrowed(&[0; 16])).is_err());
        }
    }
}
