//! DistilBERT. Source: `modeling_distilbert.py` of Hugging Face's transformers.

use crate::{
    blocks::LayerNames,
    encoder::{BERT, Defaults, Family, Keys, Positions},
    heads::EncoderHead,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["distilbert"],
    base: "distilbert.",
    keys: Keys {
        hidden: "dim",
        heads: "n_heads",
        inner: "hidden_dim",
        layers: "n_layers",
        activation: "activation",
    },
    defaults: Defaults { layers: 6, ..BERT },
    positions: Positions::FromZero,
    segments: None,
    takes_segments: false,
    projection: None,
    layer: |layer, _| Ok(format!("transformer.layer.{layer}.")),
    names: LayerNames {
        query: "attention.q_lin",
        key: "attention.k_lin",
        value: "attention.v_lin",
        out: "attention.out_lin",
        attention_norm: "sa_layer_norm",
        up: "ffn.lin1",
        down: "ffn.lin2",
        norm: "output_layer_norm",
    },
    bias: None,
    relative: None,
    heads: &[
        ("Model", EncoderHead::Hidden),
        (
            "ForSequenceClassification",
            EncoderHead::Sequence {
                dense: "pre_classifier",
                activation: Some("relu"),
                out: "classifier",
            },
        ),
        ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
        ("ForQuestionAnswering", EncoderHead::Span { out: "qa_outputs" }),
        (
            "ForMaskedLM",
            EncoderHead::Vocabulary {
                dense: "vocab_transform",
                activation: None,
                norm: "vocab_layer_norm",
                decoder: "vocab_projector",
                bias: "vocab_projector.bias",
            },
        ),
    ],
    unused: &["position_ids"],
};
