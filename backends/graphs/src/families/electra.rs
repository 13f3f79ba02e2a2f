//! ELECTRA. Source: `modeling_electra.py` of Hugging Face's transformers.

use super::bert::LAYER;
use crate::{
    encoder::{BERT, Defaults, Family, KEYS, Positions},
    heads::EncoderHead,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["electra"],
    base: "electra.",
    keys: KEYS,
    defaults: Defaults { hidden: 256, heads: 4, inner: 1024, ..BERT },
    positions: Positions::FromZero,
    segments: Some("embeddings.token_type_embeddings.weight"),
    takes_segments: true,
    projection: Some("embeddings_project"),
    layer: |layer, _| Ok(format!("encoder.layer.{layer}.")),
    names: LAYER,
    bias: None,
    relative: None,
    heads: &[
        ("Model", EncoderHead::Hidden),
        (
            "ForSequenceClassification",
            EncoderHead::Sequence {
                dense: "classifier.dense",
                activation: Some("gelu"),
                out: "classifier.out_proj",
            },
        ),
        ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
        ("ForQuestionAnswering", EncoderHead::Span { out: "qa_outputs" }),
        (
            "ForMaskedLM",
            EncoderHead::Vocabulary {
                dense: "generator_predictions.dense",
                activation: Some("gelu"),
                norm: "generator_predictions.LayerNorm",
                decoder: "generator_lm_head",
                bias: "generator_lm_head.bias",
            },
        ),
    ],
    unused: &["position_ids"],
};
