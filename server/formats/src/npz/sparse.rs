//! A sparse matrix of SciPy's in the form `csr`: for each row the columns that are not zero, and their values.

use backend::{DataType, Shape, Tensor};

use super::{array::array, zip::File};
use crate::expansion::{Allowance, OMITTED};
use inference::{
    error::{Error, HTTP_BODY_LIMIT},
    grant::Grant,
    signature::Port,
};

/// Is an archive with these files, without their ending, one that `scipy.sparse.save_npz` writes?
pub(super) fn is_sparse(has: impl Fn(&str) -> bool) -> bool {
    has("format") && has("shape") && has("data")
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
    grant: &Grant,
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
        let tensor =
            array(&port, file(name)?, &mut Allowance::of(OMITTED, sent), grant)?.to_bytes();
        let words = tensor.as_chunks::<8>().0.iter();
        grant.take(|_| words.len().saturating_mul(size_of::<usize>()))?;
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
    let values = array(port, file("data")?, &mut Allowance::of(OMITTED, sent), grant)?;
    if values.elements() != columns.len() {
        let (data, indices) = (values.elements(), columns.len());
        return Err(invalid(format!("data has {data} numbers, indices has {indices}")));
    }
    let values = values.to_bytes();
    grant.take(|_| length)?;
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
        .map_err(|problem| Error::input(&*port.name, problem))
}

fn invalid(problem: impl std::fmt::Display) -> Error {
    Error::InvalidRequest(format!("npz: sparse matrix: {problem}"))
}
