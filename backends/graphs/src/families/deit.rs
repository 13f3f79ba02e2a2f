//! DeiT, also with the token of its teacher.

use crate::vision::Family;

pub(super) const FAMILY: Family = Family {
    model_types: &["deit"],
    base: "deit.",
    tokens: &["embeddings.cls_token", "embeddings.distillation_token"],
    heads: &[
        ("Model", &[]),
        ("ForImageClassification", &["classifier"]),
        ("ForImageClassificationWithTeacher", &["cls_classifier", "distillation_classifier"]),
    ],
    unused: &["pooler.", "mask_token"],
};
