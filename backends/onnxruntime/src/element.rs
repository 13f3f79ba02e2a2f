//! Element types: ONNX Runtime's numbers and ours.

use backend::DataType;
use ort::sys::ONNXTensorElementDataType as Element;

/// ONNX Runtime's type.
pub(crate) fn to_element(dtype: DataType) -> Element {
    match dtype {
        DataType::Bool => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
        DataType::Uint8 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        DataType::Uint16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
        DataType::Uint32 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
        DataType::Uint64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
        DataType::Int8 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        DataType::Int16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
        DataType::Int32 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
        DataType::Int64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
        DataType::Fp16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
        DataType::Bf16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
        DataType::Fp32 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
        DataType::Fp64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
        DataType::Bytes => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING,
    }
}

/// Our type; `None` for the numbers of types that no protocol of ours carries (complex, 8 bits and less).
pub(crate) fn from_element(element: i32) -> Option<DataType> {
    DataType::ALL.into_iter().find(|&it| to_element(it) as i32 == element)
}

/// How ONNX calls a type of that number, for error texts.
pub(crate) fn name(element: i32) -> &'static str {
    match element {
        14 => "complex64",
        15 => "complex128",
        17 => "float8e4m3fn",
        18 => "float8e4m3fnuz",
        19 => "float8e5m2",
        20 => "float8e5m2fnuz",
        21 => "uint4",
        22 => "int4",
        23 => "float4e2m1",
        24 => "uint2",
        25 => "int2",
        26 => "float8e8m0",
        _ => from_element(element).map_or("unknown", DataType::name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_ours_has_its_own_number() {
        for dtype in DataType::ALL {
            assert_eq!(from_element(to_element(dtype) as i32), Some(dtype));
        }
        assert_eq!((from_element(0), from_element(14)), (None, None));
    }
}
