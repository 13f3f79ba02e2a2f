//! The header of a `.npy` file: a magic number, a version, a length, and a Python dict of three entries.
//! Source of the rules: NumPy's description of the format (`numpy.lib.format`).

use std::fmt::{Display, Write};

use backend::{DataType, Shape};
use bytes::Bytes;

use crate::number::Excerpt;
use inference::{error::Error, signature::Port};

/// The bytes that every file begins with.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// What a header says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    /// Type of the elements. Never BYTES or BF16.
    pub(super) dtype: DataType,
    /// Are the elements' bytes in the other order than ours?
    pub(super) big_endian: bool,
    /// Size of each dimension.
    pub(super) shape: Shape,
    /// Does the first index vary fastest, rather than the last?
    pub(super) fortran_order: bool,
    /// Where the elements begin in the file.
    pub(super) data_start: usize,
}

impl Header {
    /// Are the elements those of a tensor of the input's type as they are?
    pub(super) fn is_in_place(&self, port: &Port) -> bool {
        let size = self.dtype.size().unwrap_or(1);
        self.dtype == port.dtype && !(self.big_endian && size > 1) && !self.is_transposed()
    }

    /// Are the elements in another order than a tensor has them? Both orders are one where no two sizes are above 1.
    pub(super) fn is_transposed(&self) -> bool {
        self.fortran_order && 1 < self.shape.dims().iter().filter(|it| 1 < **it).count()
    }

    /// The header of this file.
    pub(super) fn parse(file: &[u8]) -> Result<Header, Error> {
        let rest =
            file.strip_prefix(MAGIC).ok_or_else(|| invalid("the magic number is missing"))?;
        let cut = |before: &str| invalid(format_args!("the file ends before {before}"));
        let (&[major, minor], rest) = rest.split_first_chunk().ok_or_else(|| cut("its version"))?;
        let length = match (major, minor) {
            (1, 0) => {
                rest.split_first_chunk().map(|(it, rest)| (u16::from_le_bytes(*it).into(), rest))
            }
            (2 | 3, 0) => {
                rest.split_first_chunk().map(|(it, rest)| (u32::from_le_bytes(*it), rest))
            }
            _ => {
                let problem =
                    format_args!("expected version 1.0, 2.0 or 3.0, given {major}.{minor}");
                return Err(invalid(problem));
            }
        };
        let (length, rest) = length.ok_or_else(|| cut("the length of its header"))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (text, data) = rest.split_at_checked(length).ok_or_else(|| {
            let left = rest.len();
            invalid(format_args!("the header takes {length} bytes, the file has {left} more"))
        })?;
        let text =
            std::str::from_utf8(text).map_err(|_| invalid("the header is not UTF-8 text"))?;
        let (descr, fortran_order, shape) = Dict { text, at: 0 }.parse()?;
        let (dtype, big_endian) = element_type(descr)?;
        let data_start = file.len() - data.len();
        Ok(Header { dtype, big_endian, shape, fortran_order, data_start })
    }
}

fn invalid(problem: impl Display) -> Error {
    Error::InvalidRequest(format!("npy: {problem}"))
}

/// The header of a file in version 1.0, padded so that the elements begin at a multiple of 64 bytes.
///
/// `None` when there are so many dimensions that it takes more than 64 KiB.
pub(super) fn encode(descr: &str, shape: &Shape) -> Option<Bytes> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (");
    for (at, dim) in shape.dims().iter().enumerate() {
        // One dimension needs the comma that makes it a tuple.
        let comma = if at + 1 < shape.dims().len() { ", " } else { "" };
        let _ = write!(text, "{dim}{comma}");
    }
    text.push_str(if shape.dims().len() == 1 { ",), }" } else { "), }" });
    let before = MAGIC.len() + 4;
    let padded = (before + text.len() + 1).next_multiple_of(64) - before;
    let length = u16::try_from(padded).ok()?;
    let mut header = Vec::with_capacity(before + padded);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&[1, 0]);
    header.extend_from_slice(&length.to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header.resize(before + padded - 1, b' ');
    header.push(b'\n');
    Some(header.into())
}

/// NumPy's name of a type, little-endian; `None` where it has none.
pub(super) fn descr(dtype: DataType) -> Option<&'static str> {
    Some(match dtype {
        DataType::Bool => "|b1",
        DataType::Uint8 => "|u1",
        DataType::Uint16 => "<u2",
        DataType::Uint32 => "<u4",
        DataType::Uint64 => "<u8",
        DataType::Int8 => "|i1",
        DataType::Int16 => "<i2",
        DataType::Int32 => "<i4",
        DataType::Int64 => "<i8",
        DataType::Fp16 => "<f2",
        DataType::Fp32 => "<f4",
        DataType::Fp64 => "<f8",
        DataType::Bf16 | DataType::Bytes => return None,
    })
}

/// The type that NumPy names `descr`, and whether its bytes are in big-endian order.
fn element_type(descr: &str) -> Result<(DataType, bool), Error> {
    let (order, rest) = descr.split_at_checked(1).unwrap_or(("", descr));
    let dtype = match rest {
        "b1" => Some(DataType::Bool),
        "u1" => Some(DataType::Uint8),
        "u2" => Some(DataType::Uint16),
        "u4" => Some(DataType::Uint32),
        "u8" => Some(DataType::Uint64),
        "i1" => Some(DataType::Int8),
        "i2" => Some(DataType::Int16),
        "i4" => Some(DataType::Int32),
        "i8" => Some(DataType::Int64),
        "f2" => Some(DataType::Fp16),
        "f4" => Some(DataType::Fp32),
        "f8" => Some(DataType::Fp64),
        _ => None,
    };
    match (order, dtype) {
        ("<" | "|", Some(dtype)) => Ok((dtype, false)),
        (">", Some(dtype)) => Ok((dtype, true)),
        _ => {
            let reason = match rest.chars().next() {
                Some('O') => "pickled objects are never loaded",
                Some('S' | 'U') => "text does not travel as npy; send strings as JSON or CSV",
                _ => "expected booleans, integers or floats of 1 to 8 bytes",
            };
            let descr = Excerpt(descr);
            let problem = format_args!("arrays of dtype '{descr}' are not supported: {reason}");
            Err(invalid(problem))
        }
    }
}

/// Most dimensions of an array: what NumPy allows.
const MOST_DIMS: usize = 64;

/// Reads the dict: exactly the keys `descr`, `fortran_order` and `shape`, in any order.
struct Dict<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Dict<'a> {
    fn parse(mut self) -> Result<(&'a str, bool, Shape), Error> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.take("}") {
            let key = self.string()?;
            self.expect(":")?;
            let repeated = match key {
                "descr" if self.rest().starts_with('[') => {
                    return Err(invalid("structured arrays are not supported"));
                }
                "descr" => descr.replace(self.string()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                other => {
                    let key = Excerpt(other);
                    return Err(invalid(format_args!("the header has an unknown key '{key}'")));
                }
            };
            if repeated {
                return Err(invalid(format_args!("the header has the key '{key}' twice")));
            }
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        if !self.rest().is_empty() {
            return Err(self.unexpected("the end of the header"));
        }
        let lacks = |key: &str| invalid(format_args!("the header lacks '{key}'"));
        Ok((
            descr.ok_or_else(|| lacks("descr"))?,
            fortran_order.ok_or_else(|| lacks("fortran_order"))?,
            shape.ok_or_else(|| lacks("shape"))?,
        ))
    }

    /// What is left, without leading blanks.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_ascii_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected(&format!("'{token}'"))) }
    }

    fn string(&mut self) -> Result<&'a str, Error> {
        for quote in ['\'', '"'] {
            if let Some(inner) = self.rest().strip_prefix(quote) {
                let string = inner.split_once(quote);
                let (string, _) = string.ok_or_else(|| invalid("the header has an open quote"))?;
                self.at += string.len() + 2;
                return Ok(string);
            }
        }
        Err(self.unexpected("a string"))
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        if self.take("True") {
            return Ok(true);
        }
        if self.take("False") { Ok(false) } else { Err(self.unexpected("True or False")) }
    }

    fn tuple(&mut self) -> Result<Shape, Error> {
        let mut dims = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            dims.push(self.number()?);
            if dims.len() > MOST_DIMS {
                return Err(invalid(format_args!("expected at most {MOST_DIMS} dimensions")));
            }
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(Shape::new(&dims))
    }

    fn number(&mut self) -> Result<usize, Error> {
        let rest = self.rest();
        let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest.get(..end).unwrap_or_default();
        let number = digits.parse().map_err(|_| self.unexpected("a size"))?;
        self.at += end;
        Ok(number)
    }

    fn unexpected(&mut self, expected: &str) -> Error {
        let rest: String = self.rest().chars().take(20).collect();
        let place = format_args!("the header at offset {}", self.at);
        invalid(format_args!("{place}: expected {expected}, given '{rest}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(major: u8, text: &str) -> Result<Header, Error> {
        let length = (text.len() as u32).to_le_bytes();
        let length = if major == 1 { &length[..2] } else { &length[..] };
        Header::parse(&[MAGIC, &[major, 0], length, text.as_bytes()].concat())
    }

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = parse(1, text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn every_version_and_order_of_keys_is_read() {
        for major in 1..=3 {
            let text = r#"{"shape":(3,4), 'fortran_order': False,'descr' : '>i2'}   "#;
            let header = parse(major, text).unwrap();
            assert_eq!((header.dtype, header.big_endian), (DataType::Int16, true));
            assert_eq!(header.shape.dims(), [3, 4]);
        }
        assert!(parse(4, "").unwrap_err().to_string().contains("given 4.0"));
    }

    #[test]
    fn a_written_header_is_padded_to_a_multiple_of_64_bytes() {
        let header = encode("<f4", &Shape::new(&[3])).unwrap();
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        let expected = format!("{text}{}\n", " ".repeat(128 - 10 - 1 - text.len()));
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(&header[10..], expected.as_bytes());
    }

    #[test]
    fn shapes_of_any_rank_read_back() {
        for dims in [[].as_slice(), &[0], &[7, 0, 2]] {
            let file = encode("|u1", &Shape::new(dims)).unwrap();
            assert_eq!(Header::parse(&file).unwrap().shape.dims(), dims);
        }
    }

    #[test]
    fn objects_text_and_structures_are_refused_with_a_reason() {
        refused("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "pickled objects");
        refused("{'descr': '<U5', 'fortran_order': False, 'shape': (1,)}", "'<U5'");
        refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured");
        refused("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "expected booleans");
        let long = "x".repeat(1000);
        let shown = format!("'{}...'", "x".repeat(40));
        refused(&format!("{{'{long}': 1}}"), &shown);
        let text = format!("{{'descr': '{long}', 'fortran_order': False, 'shape': (1,)}}");
        refused(&text, &shown);
    }

    #[test]
    fn the_order_matters_where_two_sizes_are_above_one() {
        let transposed = |shape: &str| {
            let text = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': {shape}}}");
            parse(1, &text).unwrap().is_transposed()
        };
        for (shape, expected) in [
            ("()", false),
            ("(3,)", false),
            ("(1, 3)", false),
            ("(2, 2)", true),
            ("(2, 1, 2)", true),
        ] {
            assert_eq!(transposed(shape), expected, "{shape}");
        }
    }

    #[test]
    fn a_dict_with_other_or_missing_entries_is_refused() {
        refused("{'descr': '<f4', 'shape': (1,)}", "lacks 'fortran_order'");
        refused("{'fortran_order': False, 'shape': (1,)}", "lacks 'descr'");
        refused("{'descr': '<f4', 'descr': '<f4'}", "twice");
        refused("{'title': 'x'}", "unknown key 'title'");
        refused("{'shape': (-1,)}", "expected a size, given '-1,)}'");
        refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "the end");
        refused("{'descr': '<f4", "open quote");
    }
}
