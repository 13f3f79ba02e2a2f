//! BERT. Source: `modeling_bert.py` of Hugging Face's transformers.

use crate::{
    blocks::LayerNames,
    encoder::{BERT, Family, KEYS, Positions},
    heads::EncoderHead,
};

/// The names in a layer, which several families share.
pub(super) const LAYER: LayerNames = LayerNames {
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    out: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    norm: "output.LayerNorm",
};

pub(super) const FAMILY: Family = Family {
    model_types: &["bert"],
    base: "bert.",
    keys: KEYS,
    defaults: BERT,
    positions: Positions::FromZero,
    segments: Some("embeddings.token_type_embeddings.weight"),
    takes_segments: true,
    projection: None,
    layer: |layer, _| Ok(format!("encoder.layer.{layer}.")),
    names: LAYER,
    bias: None,
    relative: Some("attention.self.distance_embedding"),
    heads: &[
        ("Model", EncoderHead::Hidden),
        (
            "ForSequenceClassification",
            EncoderHead::Sequence {
                dense: "bert.pooler.dense",
                activation: Some("tanh"),
                out: "classifier",
            },
        ),
        ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
        ("ForQuestionAnswering", EncoderHead::Span { out: "qa_outputs" }),
        (
            "ForMaskedLM",
            EncoderHead::Vocabulary {
                dense: "cls.predictions.transform.dense",
                activation: None,
                norm: "cls.predictions.transform.LayerNorm",
                decoder: "cls.predictions.decoder",
                bias: "cls.predictions.bias",
            },
        ),
    ],
    // Positions are in files whose model has distances in their place.
    unused: &[
        "position_ids",
        "position_embeddings",
        "pooler.",
        "cls.seq_relationship.",
        "cls.predictions.bias",
    ],
};
