//! Element types and shapes: the interface's numbers and those of `tch`.

use pytorch_abi::element;
use smallvec::{SmallVec, smallvec};
use tch::{Kind, Tensor};

use crate::{failure::torch_problem, problem::TorchProblem};

/// The type with that number.
pub(crate) fn kind(element: u32) -> Option<Kind> {
    match element {
        element::BOOL => Some(Kind::Bool),
        element::UINT8 => Some(Kind::Uint8),
        element::INT8 => Some(Kind::Int8),
        element::INT16 => Some(Kind::Int16),
        element::INT32 => Some(Kind::Int),
        element::INT64 => Some(Kind::Int64),
        element::FP16 => Some(Kind::Half),
        element::BF16 => Some(Kind::BFloat16),
        element::FP32 => Some(Kind::Float),
        element::FP64 => Some(Kind::Double),
        _ => None,
    }
}

/// The number of a tensor's type; [`element::OTHER`] for one that cannot be served.
pub(crate) fn of(tensor: &Tensor) -> u32 {
    match tensor.f_kind() {
        Ok(Kind::Bool) => element::BOOL,
        Ok(Kind::Uint8) => element::UINT8,
        Ok(Kind::Int8) => element::INT8,
        Ok(Kind::Int16) => element::INT16,
        Ok(Kind::Int) => element::INT32,
        Ok(Kind::Int64) => element::INT64,
        Ok(Kind::Half) => element::FP16,
        Ok(Kind::BFloat16) => element::BF16,
        Ok(Kind::Float) => element::FP32,
        Ok(Kind::Double) => element::FP64,
        // Types that `tch` does not know are an error of it.
        Ok(_) | Err(_) => element::OTHER,
    }
}

/// The dimensions of a tensor. `Tensor::size` panics where there are none, as for nested tensors.
pub(crate) fn dims(tensor: &Tensor) -> Result<SmallVec<[i64; 6]>, TorchProblem> {
    let it = tensor.as_ptr().cast_mut();
    // SAFETY: the tensor is there, and not written to.
    let rank = unsafe { torch_sys::at_dim(it) };
    torch_problem()?;
    let mut dims = smallvec![0; rank];
    // SAFETY: there is room for as many dimensions as the tensor has.
    unsafe { torch_sys::at_shape(it, dims.as_mut_ptr()) };
    torch_problem()?;
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn every_type_has_its_own_number() {
        for number in element::BOOL..=element::FP64 {
            let tensor = Tensor::empty([0], (kind(number).expect("a type"), Device::Cpu));
            assert_eq!(of(&tensor), number);
        }
        assert_eq!(kind(element::OTHER), None);
        assert_eq!(of(&Tensor::empty([0], (Kind::ComplexFloat, Device::Cpu))), element::OTHER);
    }
}
