//! ViT, and DeiT, which also has the token of its teacher.

use crate::vision::Family;

pub(super) const VIT: Family = Family {
    model_types: &["vit"],
    base: "vit.",
    tokens: &["embeddings.cls_token"],
    heads: &[("Model", &[]), ("ForImageClassification", &["classifier"])],
    unused: &["pooler.", "mask_token"],
};

pub(super) const DEIT: Family = Family {
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
