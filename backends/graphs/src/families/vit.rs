//! ViT.

use crate::vision::Family;

pub(super) const FAMILY: Family = Family {
    model_types: &["vit"],
    base: "vit.",
    tokens: &["embeddings.cls_token"],
    heads: &[("Model", &[]), ("ForImageClassification", &["classifier"])],
    unused: &["pooler.", "mask_token"],
};
