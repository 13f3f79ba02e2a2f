//! Distances that attention compares with what tokens say.

use crate::{
    attention::distances,
    builder::{Builder, Value},
    error::GraphError,
    onnx::{Attribute, ElementType},
};

/// What attention compares with distances, by a table that each layer has. Source: "Improve Transformer Models with
/// Better Relative Position Embeddings", Huang et al. 2020.
pub(crate) struct Relative {
    /// The name of the table in a layer.
    table: &'static str,
    /// The longest text.
    most: usize,
    /// The entry of the table for each query's distance from each key, `[tokens, tokens]`, INT32.
    of_queries: Value,
    /// The same with a row for each key, where keys are compared, too.
    of_keys: Option<Value>,
}

impl Relative {
    /// Of ids `[rows, tokens]`.
    pub(crate) fn new(
        graph: &mut Builder,
        ids: &Value,
        (table, most): (&'static str, usize),
        compared: Compared,
    ) -> Relative {
        let distances = distances(graph, ids);
        let farthest = graph.whole_number(most as i64 - 1);
        let entries = graph.op("Sub", &[&farthest, &distances], Vec::new());
        let of_queries = graph.cast(&entries, ElementType::Int32);
        let of_keys = match compared {
            Compared::Queries => None,
            Compared::Both => Some(graph.op("Transpose", &[&of_queries], Vec::new())),
        };
        Relative { table, most, of_queries, of_keys }
    }

    /// What the layer of that prefix adds to attention, of queries and keys `[rows, tokens, size]`. `sizes`: how many
    /// heads there are, and the size of one.
    pub(crate) fn bias(
        &self,
        graph: &mut Builder,
        prefix: &str,
        [query, key]: [&Value; 2],
        sizes: [usize; 2],
    ) -> Result<Value, GraphError> {
        let name = format!("{prefix}{}.weight", self.table);
        let table = graph.weight(&name, &[2 * self.most - 1, sizes[1]])?;
        let table = graph.op("Transpose", &[&table], Vec::new());
        let mut sum = at_distances(graph, query, &table, &self.of_queries, sizes);
        if let Some(entries) = &self.of_keys {
            let of_keys = at_distances(graph, key, &table, entries, sizes);
            let of_keys = turned(graph, &of_keys);
            sum = graph.op("Add", &[&sum, &of_keys], Vec::new());
        }
        let scale = graph.numbers(&[1.0 / (sizes[1] as f32).sqrt()]);
        Ok(graph.op("Mul", &[&sum, &scale], Vec::new()))
    }
}

/// What is compared with distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    Queries,
    /// Queries and keys.
    Both,
}

/// What each token of `content`, `[rows, tokens, size]`, has in common with the table's entry for its distance to each
/// other token: `[rows, heads, tokens, tokens]`. `table` is `[heads, size of a head, entries]`, or without heads where
/// these share it; `entries` says which one each pair takes, `[tokens, tokens]`, INT32.
pub(crate) fn at_distances(
    graph: &mut Builder,
    content: &Value,
    table: &Value,
    entries: &Value,
    [heads, size]: [usize; 2],
) -> Value {
    let apart = graph.whole_numbers(&[0, 0, heads as i64, size as i64]);
    let content = graph.op("Reshape", &[content, &apart], Vec::new());
    let perm = vec![Attribute::ints("perm", &[0, 2, 1, 3])];
    let content = graph.op("Transpose", &[&content], perm);
    let all = graph.op("MatMul", &[&content, table], Vec::new());
    let outer = graph.op("Shape", &[&all], vec![Attribute::int("end", 2)]);
    let pairs = graph.op("Shape", &[entries], Vec::new());
    let shape = graph.op("Concat", &[&outer, &pairs], vec![Attribute::int("axis", 0)]);
    let at = graph.op("Expand", &[entries, &shape], Vec::new());
    graph.op("GatherElements", &[&all, &at], vec![Attribute::int("axis", 3)])
}

/// `[rows, heads, tokens, tokens]` with the last two the other way round.
pub(crate) fn turned(graph: &mut Builder, pairs: &Value) -> Value {
    graph.op("Transpose", &[pairs], vec![Attribute::ints("perm", &[0, 1, 3, 2])])
}

/// The row of DeBERTa's table for each distance, the most negative first, up to where all have the last. `buckets`: how
/// many there are to a side, and the largest distance that they tell apart.
pub(crate) fn of_distances(span: i64, buckets: Option<(i64, i64)>) -> Vec<i64> {
    let at = |distance: i64| {
        let bucket = buckets.map_or(distance, |(count, most)| bucket(distance, count, most));
        (bucket + span).clamp(0, 2 * span - 1)
    };
    // At the far end of a table the row is the last, and none of a longer text is another.
    let farthest = (1..FARTHEST).find(|it| at(-it) == 0 && at(*it) == 2 * span - 1);
    let farthest = farthest.unwrap_or(FARTHEST);
    (-farthest..=farthest).map(at).collect()
}

/// Distances are looked at up to here.
const FARTHEST: i64 = 1 << 16;

/// The bucket of a distance: near ones have one each, far ones share theirs, the more the farther they are.
fn bucket(distance: i64, buckets: i64, most: i64) -> i64 {
    let half = buckets / 2;
    if distance.abs() <= half {
        return distance;
    }
    let (far, widest) = (distance.abs() as f32 / half as f32, (most - 1) as f32 / half as f32);
    let behind = (far.ln() / widest.ln() * (half - 1) as f32).ceil() as i64;
    distance.signum() * (half + behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `make_log_bucket_position` of transformers says, with the sizes of DeBERTa of version 3.
    #[test]
    fn near_distances_have_buckets_of_their_own_and_far_ones_share_them() {
        for (distance, expected) in [
            (1, 1),
            (127, 127),
            (128, 128),
            (129, 129),
            (200, 169),
            (300, 207),
            (511, 255),
            (512, 256),
            (600, 270),
        ] {
            assert_eq!(bucket(distance, 256, 512), expected);
            assert_eq!(bucket(-distance, 256, 512), -expected);
        }
    }

    #[test]
    fn a_table_reaches_to_where_all_distances_have_its_last_row() {
        let rows = of_distances(256, Some((256, 512)));
        assert_eq!(rows.len(), 2 * 512 + 1);
        assert_eq!((rows[0], rows[1], rows[512], rows[1024]), (0, 1, 256, 511));
        assert_eq!(of_distances(2, None), [0, 1, 2, 3, 3]);
    }
}
