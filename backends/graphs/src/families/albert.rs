//! ALBERT: layers of a group share their weights. Source: `modeling_albert.py` of Hugging Face's transformers.

use crate::{
    blocks::LayerNames,
    config::Config,
    encoder::{BERT, Defaults, Family, KEYS, Positions},
    error::GraphError,
    heads::EncoderHead,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["albert"],
    base: "albert.",
    keys: KEYS,
    defaults: Defaults {
        vocabulary: 30000,
        hidden: 4096,
        heads: 64,
        inner: 16384,
        activation: "gelu_new",
        ..BERT
    },
    positions: Positions::FromZero,
    segments: Some("embeddings.token_type_embeddings.weight"),
    takes_segments: true,
    projection: Some("encoder.embedding_hidden_mapping_in"),
    layer,
    names: LayerNames {
        query: "attention.query",
        key: "attention.key",
        value: "attention.value",
        out: "attention.dense",
        attention_norm: "attention.LayerNorm",
        up: "ffn",
        down: "ffn_output",
        norm: "full_layer_layer_norm",
    },
    bias: None,
    relative: None,
    heads: &[
        ("Model", EncoderHead::Hidden),
        (
            "ForSequenceClassification",
            EncoderHead::Sequence {
                dense: "albert.pooler",
                activation: Some("tanh"),
                out: "classifier",
            },
        ),
        ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
        ("ForQuestionAnswering", EncoderHead::Span { out: "qa_outputs" }),
        (
            "ForMaskedLM",
            EncoderHead::Vocabulary {
                dense: "predictions.dense",
                activation: None,
                norm: "predictions.LayerNorm",
                decoder: "predictions.decoder",
                bias: "predictions.bias",
            },
        ),
    ],
    unused: &["position_ids", "pooler.", "predictions.bias", "sop_classifier."],
};

/// A layer's group: groups have as many layers each.
fn layer(layer: usize, config: Config<'_>) -> Result<String, GraphError> {
    let layers = config.size("num_hidden_layers", FAMILY.defaults.layers)?;
    let groups = config.size("num_hidden_groups", 1)?;
    let of_group = config.size("inner_group_num", 1)?;
    if of_group != 1 {
        return Err(GraphError::Config {
            key: "inner_group_num".to_owned(),
            expected: "1".to_owned(),
            given: of_group.to_string(),
        });
    }
    let group = layer * groups / layers;
    Ok(format!("encoder.albert_layer_groups.{group}.albert_layers.0."))
}
