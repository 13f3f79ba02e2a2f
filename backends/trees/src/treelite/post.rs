//! Post-processors of treelite by their names: from sums to predictions.

use crate::{
    error::FormatError,
    forest::{document::Transform, double, single},
    treelite::{header::Header, model::Outputs},
};

/// The transform that has the bits of the library's evaluator.
pub(super) fn transform(header: &Header, outputs: &Outputs) -> Result<Transform, FormatError> {
    let (alpha, ratio) = (header.sigmoid_alpha, header.ratio_c);
    let scale = f64::from(alpha);
    let (for_single, for_double) = match &*header.post_processor {
        "identity" | "identity_multiclass" => {
            (single::Transform::Identity, double::Transform::Identity)
        }
        "signed_square" => (single::Transform::SignedSquare, double::Transform::SignedSquare),
        "hinge" => (single::Transform::Hinge, double::Transform::Hinge),
        "sigmoid" | "multiclass_ova" => {
            (single::Transform::Sigmoid { scale: alpha }, double::Transform::Logistic { scale })
        }
        "exponential" => (single::Transform::Exponential, double::Transform::Exponential),
        "exponential_standard_ratio" => (
            single::Transform::PowerOfTwo { ratio },
            double::Transform::PowerOfTwo { ratio: f64::from(ratio) },
        ),
        "logarithm_one_plus_exp" => {
            (single::Transform::LogOnePlusExponential, double::Transform::LogOnePlusExponential)
        }
        "softmax" => (single::Transform::Softmax, double::Transform::SoftmaxInSingle),
        other => {
            return Err(FormatError::new(format!(
                "post-processor {other:?} of treelite is not known"
            )));
        }
    };
    // Those of classes take one target, and the others the first class of each.
    let is_possible = match &*header.post_processor {
        "identity" | "identity_multiclass" => true,
        "softmax" | "multiclass_ova" => outputs.targets() == 1,
        _ => outputs.are_numbers(),
    };
    match is_possible {
        false => Err(FormatError::new(format!(
            "post-processor {:?} for {} targets and {} outputs is not served",
            header.post_processor,
            outputs.targets(),
            outputs.sums()
        ))),
        true if header.is_double => Ok(Transform::Double(for_double)),
        true => Ok(Transform::Single(for_single)),
    }
}
