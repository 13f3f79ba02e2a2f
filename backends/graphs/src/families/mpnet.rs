//! MPNet: attention has a bias by the distance of two tokens. Source: `modeling_mpnet.py` of transformers.

use crate::{
    attention::distances,
    blocks::LayerNames,
    builder::{Builder, Value},
    config::Config,
    encoder::{BERT, Defaults, Family, KEYS, Positions},
    error::GraphError,
    heads::EncoderHead,
    onnx::Attribute,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["mpnet"],
    base: "mpnet.",
    keys: KEYS,
    defaults: Defaults { vocabulary: 30527, ..BERT },
    positions: Positions::Behind(1),
    segments: None,
    takes_segments: false,
    projection: None,
    layer: |layer, _| Ok(format!("encoder.layer.{layer}.")),
    names: LayerNames {
        query: "attention.attn.q",
        key: "attention.attn.k",
        value: "attention.attn.v",
        out: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        up: "intermediate.dense",
        down: "output.dense",
        norm: "output.LayerNorm",
    },
    bias: Some(bias),
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

/// Tokens that are farther apart than this are as far as can be.
const FARTHEST: i64 = 128;

/// So many kinds of distances are told apart, however many rows the table of the configuration has.
const BUCKETS: i64 = 32;
const ROWS_OF_TABLE: &str = "relative_attention_num_buckets";

/// The bias of each head for each pair of tokens: `[1, heads, tokens, tokens]`.
fn bias(
    graph: &mut Builder,
    prefix: &str,
    config: Config<'_>,
    ids: &Value,
    heads: usize,
) -> Result<Value, GraphError> {
    let rows = config.size(ROWS_OF_TABLE, BUCKETS as usize)?;
    if (rows as i64) < BUCKETS {
        return Err(config.wrong(ROWS_OF_TABLE, "32 or more, of which 32 are used"));
    }
    let most = config.size("max_position_embeddings", FAMILY.defaults.positions)? as i64;
    let table =
        graph.weight(&format!("{prefix}encoder.relative_attention_bias.weight"), &[rows, heads])?;
    // The bucket of each distance that there can be, the most negative first.
    let of_distance: Vec<i64> = (1 - most..most).map(|it| bucket(it, BUCKETS)).collect();
    let of_distance = graph.whole_numbers(&of_distance);
    let distance = distances(graph, ids);
    let offset = graph.whole_number(most - 1);
    let distance = graph.op("Add", &[&distance, &offset], Vec::new());
    let bucket = graph.op("Gather", &[&of_distance, &distance], Vec::new());
    let bias = graph.op("Gather", &[&table, &bucket], Vec::new());
    let zero = graph.whole_numbers(&[0]);
    let bias = graph.op("Transpose", &[&bias], vec![Attribute::ints("perm", &[2, 0, 1])]);
    Ok(graph.op("Unsqueeze", &[&bias, &zero], Vec::new()))
}

/// The bucket of a token so many places behind another one. Each near distance has one, far ones share theirs.
/// Half of the buckets are for tokens before. Source: T5, Raffel et al. 2020, as `relative_position_bucket` has it.
fn bucket(distance: i64, buckets: i64) -> i64 {
    let half = buckets / 2;
    let side = if 0 < distance { half } else { 0 };
    let (distance, near) = (distance.abs(), half / 2);
    if distance < near {
        return side + distance;
    }
    let ratio = (distance as f32 / near as f32).ln() / (FARTHEST as f64 / near as f64).ln() as f32;
    let far = near + (ratio * (half - near) as f32) as i64;
    side + far.min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_tokens_have_buckets_of_their_own_and_far_ones_share_them() {
        let found =
            [-600, -128, -20, -8, -7, -1, 0, 1, 7, 8, 20, 128, 600].map(|it| bucket(it, 32));
        assert_eq!(found, [15, 15, 10, 8, 7, 1, 0, 17, 23, 24, 26, 31, 31]);
    }
}
