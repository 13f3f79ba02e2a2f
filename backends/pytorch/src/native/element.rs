//! Element types: the interface's numbers and ours.

use backend::DataType;
use pytorch_abi::element;

/// The number; `None` for the types that libtorch has no operators for.
pub(super) fn to_element(dtype: DataType) -> Option<u32> {
    match dtype {
        DataType::Bool => Some(element::BOOL),
        DataType::Uint8 => Some(element::UINT8),
        DataType::Int8 => Some(element::INT8),
        DataType::Int16 => Some(element::INT16),
        DataType::Int32 => Some(element::INT32),
        DataType::Int64 => Some(element::INT64),
        DataType::Fp16 => Some(element::FP16),
        DataType::Bf16 => Some(element::BF16),
        DataType::Fp32 => Some(element::FP32),
        DataType::Fp64 => Some(element::FP64),
        DataType::Bytes => Some(element::STRINGS),
        DataType::Uint16 | DataType::Uint32 | DataType::Uint64 => None,
    }
}

/// Our type.
pub(super) fn from_element(element: u32) -> Option<DataType> {
    DataType::ALL.into_iter().find(|&it| to_element(it) == Some(element))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_one_type() {
        let numbers = element::BOOL..=element::STRINGS;
        let types: Vec<_> = numbers.clone().filter_map(from_element).collect();
        assert_eq!(types.len(), numbers.count());
        assert_eq!(from_element(element::OTHER), None);
    }
}
