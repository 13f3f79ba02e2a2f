//! TensorFlow's names and numbers of element types.

use backend::DataType;

/// The name of a type.
pub const fn name(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Bool => "DT_BOOL",
        DataType::Uint8 => "DT_UINT8",
        DataType::Uint16 => "DT_UINT16",
        DataType::Uint32 => "DT_UINT32",
        DataType::Uint64 => "DT_UINT64",
        DataType::Int8 => "DT_INT8",
        DataType::Int16 => "DT_INT16",
        DataType::Int32 => "DT_INT32",
        DataType::Int64 => "DT_INT64",
        DataType::Fp16 => "DT_HALF",
        DataType::Bf16 => "DT_BFLOAT16",
        DataType::Fp32 => "DT_FLOAT",
        DataType::Fp64 => "DT_DOUBLE",
        DataType::Bytes => "DT_STRING",
    }
}

/// The number of a type in messages.
pub const fn number(dtype: DataType) -> i32 {
    match dtype {
        DataType::Bool => 10,
        DataType::Uint8 => 4,
        DataType::Uint16 => 17,
        DataType::Uint32 => 22,
        DataType::Uint64 => 23,
        DataType::Int8 => 6,
        DataType::Int16 => 5,
        DataType::Int32 => 3,
        DataType::Int64 => 9,
        DataType::Fp16 => 19,
        DataType::Bf16 => 14,
        DataType::Fp32 => 1,
        DataType::Fp64 => 2,
        DataType::Bytes => 7,
    }
}

/// The type of that number; `None` for one that is not served, and for 0, which stands for none.
pub fn of_number(given: i32) -> Option<DataType> {
    DataType::ALL.into_iter().find(|it| number(*it) == given)
}
