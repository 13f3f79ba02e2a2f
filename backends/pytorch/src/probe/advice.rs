//! The lines of a configuration that say what could not be found out. Pure.

use std::fmt;

use backend::{DataType, TensorHint};

use super::known::KnownInput;

/// Why shapes and types are not known, and what is.
pub(super) struct Advice<'a> {
    pub(super) inputs: &'a [KnownInput],
    pub(super) outputs: &'a [TensorHint],
    pub(super) reason: String,
}

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "types and shapes do not stand in a TorchScript file, and could not be found out: {}; write \
             into config.pbtxt, with the dots filled in:",
            self.reason
        )?;
        for it in self.inputs {
            line(f, "input", &it.name, it.dtype, it.dims.as_deref())?;
        }
        for it in self.outputs {
            line(f, "output", &it.name, it.dtype, it.dims.as_deref())?;
        }
        match self.outputs {
            [] => line(f, "output", "OUTPUT__0", None, None),
            _ => Ok(()),
        }
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    name: &str,
    dtype: Option<DataType>,
    dims: Option<&[Option<usize>]>,
) -> fmt::Result {
    let dims = match dims {
        None => "..".to_owned(),
        Some([]) => "1".to_owned(),
        Some(dims) => {
            let dims = dims.iter().map(|it| it.map_or("-1".to_owned(), |it| it.to_string()));
            dims.collect::<Vec<_>>().join(", ")
        }
    };
    write!(f, " {what} {{ name: \"{name}\" data_type: {} dims: [ {dims} ] }}", type_name(dtype))
}

/// The type's name in a configuration.
pub(super) fn type_name(dtype: Option<DataType>) -> String {
    match dtype {
        None => "..".to_owned(),
        Some(DataType::Bytes) => "TYPE_STRING".to_owned(),
        Some(dtype) => format!("TYPE_{dtype}"),
    }
}
