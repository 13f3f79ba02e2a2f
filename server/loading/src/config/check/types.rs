//! Element types and dimensions as a configuration writes them.

use backend::DataType;

use crate::config::check::report::Report;
use serving::config::raw;

/// The name of an element type in a configuration.
pub(crate) const fn type_name(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Bool => "TYPE_BOOL",
        DataType::Uint8 => "TYPE_UINT8",
        DataType::Uint16 => "TYPE_UINT16",
        DataType::Uint32 => "TYPE_UINT32",
        DataType::Uint64 => "TYPE_UINT64",
        DataType::Int8 => "TYPE_INT8",
        DataType::Int16 => "TYPE_INT16",
        DataType::Int32 => "TYPE_INT32",
        DataType::Int64 => "TYPE_INT64",
        DataType::Fp16 => "TYPE_FP16",
        DataType::Bf16 => "TYPE_BF16",
        DataType::Fp32 => "TYPE_FP32",
        DataType::Fp64 => "TYPE_FP64",
        DataType::Bytes => "TYPE_STRING",
    }
}

/// The number of an element type in a configuration.
pub(crate) fn type_number(dtype: DataType) -> i32 {
    raw::DataType::from_str_name(type_name(dtype)).unwrap_or_default() as i32
}

/// The element type of that number.
pub(crate) fn type_of_number(number: i32) -> Option<DataType> {
    DataType::ALL.into_iter().find(|&it| type_number(it) == number)
}

/// The element type of that number; noted when there is none.
pub(crate) fn data_type(place: &str, number: i32, report: &mut Report) -> Option<DataType> {
    let dtype = type_of_number(number);
    if dtype.is_none() {
        let given = match number {
            0 => "is missing".to_owned(),
            _ => format!("{number} is not known"),
        };
        let known = DataType::ALL.map(type_name).join(", ");
        report.problem(format!("{place}: data_type {given}; expected one of {known}"));
    }
    dtype
}

/// Dimensions as a configuration writes them: `[ 3, -1 ]`.
pub(crate) fn dims_text(dims: &[Option<usize>]) -> String {
    let sizes: Vec<String> =
        dims.iter().map(|it| it.map_or("-1".to_owned(), |size| size.to_string())).collect();
    match sizes.is_empty() {
        true => "[ ]".to_owned(),
        false => format!("[ {} ]", sizes.join(", ")),
    }
}
