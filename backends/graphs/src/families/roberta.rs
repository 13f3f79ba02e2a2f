//! RoBERTa, and what has its layers and its positions: XLM-RoBERTa, CamemBERT. Source: `modeling_roberta.py` of Hugging
//! Face's transformers.

use super::bert::LAYER;
use crate::{
    encoder::{BERT, Defaults, Family, KEYS, Positions},
    heads::EncoderHead,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["roberta", "xlm-roberta", "camembert"],
    base: "roberta.",
    keys: KEYS,
    defaults: Defaults { vocabulary: 50265, padding: 1, ..BERT },
    positions: Positions::BehindPadding,
    segments: Some("embeddings.token_type_embeddings.weight"),
    takes_segments: false,
    projection: None,
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
                activation: Some("tanh"),
                out: "classifier.out_proj",
            },
        ),
        ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
        ("ForQuestionAnswering", EncoderHead::Span { out: "qa_outputs" }),
        (
            "ForMaskedLM",
            EncoderHead::Vocabulary {
                dense: "lm_head.dense",
                activation: Some("gelu"),
                norm: "lm_head.layer_norm",
                decoder: "lm_head.decoder",
                bias: "lm_head.bias",
            },
        ),
    ],
    unused: &["position_ids", "pooler.", "lm_head.bias"],
};
