//! NumPy's own format for one array. Pure.

use std::borrow::Cow;

use crate::{
    error::FormatError,
    ndarray::{Array, Dtype, Scalar},
};

/// Longest header.
const HEADER: usize = 1 << 16;

/// Reads a file.
///
/// # Errors
/// It is none, or its elements are objects.
pub(super) fn read(bytes: Vec<u8>) -> Result<Array<'static>, FormatError> {
    let (header, start) = header(&bytes)
        .ok_or_else(|| FormatError::new("an array of the archive has no header of NumPy"))?;
    let parts = parts(header).ok_or_else(|| {
        let header = header.chars().take(200).collect::<String>();
        FormatError::new(format!("an array of the archive is {header:?}, which is not read"))
    })?;
    let (dtype, fortran, shape) = parts;
    let mut bytes = bytes;
    bytes.drain(..start);
    Array::new(dtype, shape, fortran, Cow::Owned(bytes))
}

/// The header's text, and where the elements begin.
fn header(bytes: &[u8]) -> Option<(&str, usize)> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let (length, start) = match version[0] {
        1 => (usize::from(u16::from_le_bytes(*rest.first_chunk()?)), 10),
        2 | 3 => (usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?, 12),
        _ => return None,
    };
    let end = start + Some(length).filter(|it| *it <= HEADER)?;
    Some((std::str::from_utf8(bytes.get(start..end)?).ok()?, end))
}

/// Type, order and shape of `{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }`.
fn parts(header: &str) -> Option<(Dtype, bool, Vec<usize>)> {
    let behind = |key: &str| {
        let (_, rest) = header.split_once(&format!("'{key}':"))?;
        Some(rest.trim_start())
    };
    let fortran = behind("fortran_order")?.starts_with("True");
    let shape = behind("shape")?.strip_prefix('(')?.split_once(')')?.0;
    let sizes = shape.split(',').map(str::trim).filter(|it| !it.is_empty());
    let shape = sizes.map(|it| it.parse().ok()).collect::<Option<Vec<_>>>()?;
    let descr = behind("descr")?;
    let dtype = match descr.strip_prefix('[') {
        None => Dtype::Scalar(scalar(quoted(descr)?.0)?),
        Some(fields) => record(fields.split_once(']')?.0)?,
    };
    Some((dtype, fortran, shape))
}

/// Fields `('a', '<i8'), ('', '|V7')`, one behind the other.
fn record(text: &str) -> Option<Dtype> {
    let mut fields = Vec::new();
    let mut bytes: usize = 0;
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('(') {
        let (name, behind) = quoted(behind.trim_start())?;
        let (dtype, behind) = quoted(behind.trim_start().strip_prefix(',')?.trim_start())?;
        let scalar = scalar(dtype)?;
        fields.push((name.to_owned(), bytes, scalar));
        bytes = bytes.checked_add(scalar.bytes)?;
        rest = behind.split_once(')')?.1;
    }
    Some(Dtype::Record { fields, bytes })
}

/// What stands between quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('\'')?.split_once('\'')
}

fn scalar(text: &str) -> Option<Scalar> {
    Scalar::parse(text).filter(|it| it.kind != 'O')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\0", length.as_slice(), header.as_bytes(), data].concat()
    }

    #[test]
    fn numbers_and_records() {
        let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }      \n";
        let array = read(file(header, &[1, 0, 2, 0])).expect("sound");
        assert_eq!((array.floats(), array.shape), (Some(vec![1.0, 2.0]), vec![1, 2]));
        let header = "{'descr': [('a', '|u1'), ('', '|V1'), ('b', '<i2')], 'fortran_order': False, 'shape': (1,), }";
        let array = read(file(header, &[7, 0, 5, 1])).expect("sound");
        assert_eq!(array.field("a").and_then(|it| it.integer(0)), Some(7));
        assert_eq!(array.field("b").and_then(|it| it.integer(0)), Some(261));
    }

    #[test]
    fn what_is_none_is_refused() {
        let sound = "{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }";
        for (header, data) in [
            (sound, [0u8; 3].as_slice()),
            (&sound.replace("(1,)", "(4294967296,)"), &[0; 2]),
            (&sound.replace("(1,)", "(-1,)"), &[0; 2]),
            (&sound.replace("<i2", "|O"), &[0; 8]),
            (&sound.replace("<i2", "|S0").replace("(1,)", "(1099511627776, 1099511627776)"), &[]),
            (&sound.replace("<i2", "|V0").replace("(1,)", "(9223372036854775807,)"), &[]),
            (&sound.replace("'descr'", "'else'"), &[0; 2]),
            ("", &[]),
        ] {
            assert!(read(file(header, data)).is_err(), "{header}");
        }
        assert!(read(b"\x93NUMPY\x01\0\xff\xff".to_vec()).is_err());
        assert!(read(Vec::new()).is_err());
    }
}
