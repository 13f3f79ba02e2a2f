//! A sparse matrix of SciPy's in the form `csr`: for each row the columns that are not zero, and their values.

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;

use super::{
    array::{self, array},
    zip::{File, Listed},
};
use crate::{
    expansion::{OMITTED, Room},
    npy,
};
use inference::{
    error::{Error, HTTP_BODY_LIMIT},
    signature::Port,
};

/// Is an archive with these files, without their ending, one that `scipy.sparse.save_npz` writes?
pub(super) fn is_sparse(has: impl Fn(&str) -> bool) -> bool {
    has("format") && has("shape") && has("data")
}

/// Bytes that [`decode`] takes at most for these files: indices are widened to eight bytes twice, values to an element
/// of `size`. The dense rows may be as large as `most`.
pub(super) fn expanded(size: usize, files: &[Listed], most: usize, limit: Option<u64>) -> usize {
    let limit = limit.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX);
    let widened = files.iter().map(|it| array::elements(it).saturating_mul(16 + size));
    let shape = files.iter().find(|it| it.name == "shape").and_then(|it| numbers(&it.start));
    let dense = match shape.as_deref() {
        Some([rows, width]) => rows.saturating_mul(*width).saturating_mul(size),
        _ => usize::MAX,
    };
    let widened = widened.fold(0, usize::saturating_add);
    widened.saturating_add(dense.min(most).min(limit))
}

/// The numbers of a file that is short enough to be known whole by its first bytes.
fn numbers(file: &[u8]) -> Option<Vec<usize>> {
    let (name, labels) = ("".into(), [].into());
    let port = Port {
        name,
        dtype: DataType::Int64,
        dims: vec![None],
        any_rank: false,
        scalar: false,
        optional: false,
        labels,
        text_codes: Default::default(),
    };
    let words = npy::decode(&port, &Bytes::copy_from_slice(file)).ok()?.to_bytes();
    let words = words.as_chunks::<8>().0.iter().map(|it| i64::from_le_bytes(*it));
    words.map(|it| usize::try_from(it).ok()).collect()
}

/// The matrix as rows of the input's type, zeros included. `sent`: bytes of the archive.
///
/// # Errors
/// When it is of another form than csr, does not hold together, or is too large when it is dense.
pub(super) fn decode(
    port: &Port,
    files: &[File],
    sent: usize,
    limit: Option<u64>,
) -> Result<Tensor, Error> {
    let file = |name: &str| {
        let found = files.iter().find(|it| it.name == name);
        found.ok_or_else(|| invalid(format!("expected the array '{name}', found none")))
    };
    if !file("format")?.data.trim_ascii_end().ends_with(b"csr") {
        return Err(invalid("expected a matrix in the form csr; convert it by tocsr()"));
    }
    let integers = |name: &str| -> Result<Vec<usize>, Error> {
        let port = Port { name: name.into(), dtype: DataType::Int64, ..port.clone() };
        let tensor = array(&port, file(name)?, &mut Room::of(OMITTED, sent))?.to_bytes();
        let words = tensor.as_chunks::<8>().0.iter();
        let mut sizes = Vec::with_capacity(words.len());
        for word in words {
            let size = usize::try_from(i64::from_le_bytes(*word));
            sizes.push(size.map_err(|_| invalid(format!("'{name}' has a number below 0")))?);
        }
        Ok(sizes)
    };
    let (shape, starts, columns) = (integers("shape")?, integers("indptr")?, integers("indices")?);
    let &[rows, width] = shape.as_slice() else {
        return Err(invalid(format!("expected a shape of 2 numbers, given {}", shape.len())));
    };
    if Some(starts.len()) != rows.checked_add(1) {
        return Err(invalid(format!("indptr has {} numbers for {rows} rows", starts.len())));
    }
    let size = port.dtype.size().ok_or_else(|| {
        Error::input(&*port.name, "npz: expected texts, given a matrix of numbers")
    })?;
    let length = rows.checked_mul(width).and_then(|it| it.checked_mul(size));
    let length = length.unwrap_or(usize::MAX);
    OMITTED.check(sent, length)?;
    if let Some(limit) = limit.filter(|&it| it < length as u64) {
        return Err(Error::BodyTooLarge { given: length as u64, limit, setting: HTTP_BODY_LIMIT });
    }
    let values = array(port, file("data")?, &mut Room::of(OMITTED, sent))?;
    if values.elements() != columns.len() {
        let (data, indices) = (values.elements(), columns.len());
        return Err(invalid(format!("data has {data} numbers, indices has {indices}")));
    }
    let values = values.to_bytes();
    let mut dense = vec![0u8; length];
    for (row, (start, end)) in starts.iter().zip(starts.iter().skip(1)).enumerate() {
        let places = columns.get(*start..*end);
        let places = places.ok_or_else(|| invalid(format!("indptr is wrong at row {row}")))?;
        for (place, &column) in (*start..).zip(places) {
            if column >= width {
                let problem = format!("row {row} has a column {column}, of {width}");
                return Err(invalid(problem));
            }
            let at = (row * width + column) * size;
            let cell = dense.get_mut(at..at + size).unwrap_or_default();
            if cell.iter().any(|&it| it != 0) {
                return Err(invalid(format!("row {row} has column {column} twice")));
            }
            cell.copy_from_slice(values.get(place * size..(place + 1) * size).unwrap_or_default());
        }
    }
    Tensor::new(port.dtype, Shape::new(&[rows, width]), dense.into())
        .map_err(|problem| Error::input(&*port.name, problem.to_string()))
}

fn invalid(problem: impl std::fmt::Display) -> Error {
    Error::InvalidRequest(format!("npz: sparse matrix: {problem}"))
}
