//! NumPy's arrays, numbers and types in a pickle. Pure.

use std::borrow::Cow;

use crate::{
    error::FormatError,
    ndarray::{Array, Dtype, Scalar, bytes_of},
    pickle::value::{Behind, Pickle, Value},
};

/// Dimensions that an array may have, and fields that a type may have.
const MOST: usize = 64;

/// An array, in whichever of the forms pickles have for one. `None` where the value is none, or one of objects.
///
/// # Errors
/// Its size is not that of its bytes.
pub fn array<'a>(pickle: &'a Pickle, value: Value) -> Result<Option<Array<'a>>, FormatError> {
    let Some(parts) = parts(pickle, value) else { return Ok(None) };
    let Some(dtype) = dtype(pickle, parts.dtype) else { return Ok(None) };
    Array::new(dtype, parts.shape, parts.fortran, parts.bytes).map(Some)
}

struct Parts<'a> {
    dtype: Value,
    shape: Vec<usize>,
    fortran: bool,
    bytes: Cow<'a, [u8]>,
}

fn parts<'a>(pickle: &'a Pickle, value: Value) -> Option<Parts<'a>> {
    let object = pickle.object(value)?;
    let (_, name) = pickle.class(value)?;
    match name {
        "_reconstruct" => {
            let state = pickle.sequence(object.state?)?;
            let [_, shape_value, dtype, fortran, bytes] = *state else { return None };
            Some(Parts {
                dtype,
                shape: shape(pickle, shape_value)?,
                fortran: fortran == Value::Bool(true),
                bytes: pickle.bytes(bytes)?,
            })
        }
        "_frombuffer" => {
            let [bytes, dtype, shape_value, order] = *pickle.arguments(value)? else { return None };
            let fortran = pickle.text(order)? == "F";
            let bytes = pickle.bytes(bytes)?;
            Some(Parts { dtype, shape: shape(pickle, shape_value)?, fortran, bytes })
        }
        "NumpyArrayWrapper" => {
            let Some(Behind::Raw(span)) = object.behind else { return None };
            let fortran = pickle.text(pickle.attribute(value, "order")?)? == "F";
            Some(Parts {
                dtype: pickle.attribute(value, "dtype")?,
                shape: shape(pickle, pickle.attribute(value, "shape")?)?,
                fortran,
                bytes: Cow::Borrowed(pickle.raw(span)),
            })
        }
        _ => None,
    }
}

/// A number, be it Python's or NumPy's, or an array of one.
pub fn number(pickle: &Pickle, value: Value) -> Option<f64> {
    match value {
        Value::Bool(it) => Some(f64::from(u8::from(it))),
        Value::Int(it) => Some(it as f64),
        Value::Float(it) => Some(it),
        _ => scalar(pickle, value)?.column()?.float(0),
    }
}

/// A whole number, be it Python's or NumPy's.
pub fn integer(pickle: &Pickle, value: Value) -> Option<i64> {
    match value {
        Value::Bool(it) => Some(i64::from(it)),
        Value::Int(it) => Some(it),
        _ => scalar(pickle, value)?.column()?.integer(0),
    }
}

fn scalar<'a>(pickle: &'a Pickle, value: Value) -> Option<Array<'a>> {
    let (_, name) = pickle.class(value)?;
    if name != "scalar" {
        let found = array(pickle, value).ok().flatten()?;
        return (found.elements() == 1).then_some(found);
    }
    let [dtype_value, bytes] = *pickle.arguments(value)? else { return None };
    let dtype = dtype(pickle, dtype_value)?;
    Array::new(dtype, Vec::new(), false, pickle.bytes(bytes)?).ok()
}

/// The members of an array of objects, in its order.
pub fn objects<'a>(pickle: &'a Pickle, value: Value) -> Option<&'a [Value]> {
    let object = pickle.object(value)?;
    match object.behind {
        Some(Behind::Pickle(inner)) => objects_of(pickle, inner),
        _ => objects_of(pickle, value),
    }
}

fn objects_of<'a>(pickle: &'a Pickle, value: Value) -> Option<&'a [Value]> {
    let object = pickle.object(value)?;
    let [_, _, dtype_value, _, members] = *pickle.sequence(object.state?)? else { return None };
    match dtype(pickle, dtype_value)? {
        Dtype::Scalar(Scalar { kind: 'O', .. }) => pickle.sequence(members),
        _ => None,
    }
}

/// What joblib writes behind its wrapper of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapped {
    /// So many bytes, behind padding if that is said.
    Raw { bytes: usize, padded: bool },
    /// Another pickle.
    Pickle,
}

/// What follows a value that is joblib's wrapper of an array. `None` where it is none.
///
/// # Errors
/// The wrapper does not say what follows it.
pub(super) fn wrapped(pickle: &Pickle, value: Value) -> Result<Option<Wrapped>, FormatError> {
    if !pickle.is(value, "joblib", "NumpyArrayWrapper") {
        return Ok(None);
    }
    let unclear = || FormatError::new("pickle: an array of joblib has no shape or type");
    let attribute = |name| pickle.attribute(value, name).ok_or_else(unclear);
    let dtype = dtype(pickle, attribute("dtype")?).ok_or_else(unclear)?;
    if matches!(dtype, Dtype::Scalar(Scalar { kind: 'O', .. })) {
        return Ok(Some(Wrapped::Pickle));
    }
    let shape = shape(pickle, attribute("shape")?).ok_or_else(unclear)?;
    let padding = pickle.attribute(value, "numpy_array_alignment_bytes");
    let padded = !matches!(padding, None | Some(Value::None));
    Ok(Some(Wrapped::Raw { bytes: bytes_of(&dtype, &shape)?, padded }))
}

fn shape(pickle: &Pickle, value: Value) -> Option<Vec<usize>> {
    let sizes = pickle.sequence(value).filter(|it| it.len() <= MOST)?;
    let size = |it: &Value| usize::try_from(integer_of(*it)?).ok();
    sizes.iter().map(size).collect()
}

fn integer_of(value: Value) -> Option<i64> {
    match value {
        Value::Int(it) => Some(it),
        _ => None,
    }
}

fn dtype(pickle: &Pickle, value: Value) -> Option<Dtype> {
    let (package, name) = pickle.class(value)?;
    if !package.starts_with("numpy") || name != "dtype" {
        return None;
    }
    let text = pickle.text(*pickle.arguments(value)?.first()?)?;
    let state = pickle.sequence(pickle.object(value)?.state?)?;
    let [_, order, subtype, names, fields, size, ..] = *state else { return None };
    if subtype != Value::None {
        return None;
    }
    if names == Value::None {
        return scalar_type(pickle, text, order).map(Dtype::Scalar);
    }
    let names = pickle.sequence(names).filter(|it| it.len() <= MOST)?;
    let bytes = usize::try_from(integer_of(size)?).ok()?;
    let field = |name: &Value| {
        let name = pickle.text(*name)?;
        let [inner, offset, ..] = *pickle.sequence(pickle.attribute(fields, name)?)? else {
            return None;
        };
        let inner_state = pickle.sequence(pickle.object(inner)?.state?)?;
        let inner_text = pickle.text(*pickle.arguments(inner)?.first()?)?;
        let scalar = scalar_type(pickle, inner_text, *inner_state.get(1)?)?;
        let offset = usize::try_from(integer_of(offset)?).ok()?;
        let is_inside = offset.checked_add(scalar.bytes)? <= bytes;
        is_inside.then(|| (name.to_owned(), offset, scalar))
    };
    let fields = names.iter().map(field).collect::<Option<Vec<_>>>()?;
    Some(Dtype::Record { fields, bytes })
}

fn scalar_type(pickle: &Pickle, text: &str, order: Value) -> Option<Scalar> {
    let scalar = Scalar::parse(text)?;
    Some(Scalar { big_endian: pickle.text(order)? == ">", ..scalar })
}
