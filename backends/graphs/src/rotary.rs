//! Rotary positions: queries and keys are turned by an angle that grows with the place of the token. Source:
//! "RoFormer", Su et al. 2021.

use crate::{
    attention::{Attention, places},
    blocks::{Sizes, Tokens, together},
    builder::{Builder, Value},
    frequencies::{Frequencies, Most},
    onnx::{Attribute, ElementType},
};

/// The cosines and sines of all places of a request.
#[derive(Debug, Clone)]
pub(crate) struct Rotary {
    cosines: Value,
    sines: Value,
    first: Value,
}

impl Rotary {
    /// For ids `[rows, tokens]`. All texts begin at the place 0.
    pub(crate) fn new(graph: &mut Builder, ids: &Value, frequencies: &Frequencies) -> Rotary {
        let places = places(graph, ids);
        let mut places = graph.cast(&places, ElementType::Float);
        if let Some(Most { key, tokens }) = frequencies.most {
            // To each place a zero is added, of which there are so many.
            let count = graph.whole_numbers(&[tokens as i64]);
            let zeros = graph.op("ConstantOfShape", &[&count], Vec::new());
            let shape = graph.op("Shape", &[ids], vec![Attribute::int("start", 1)]);
            let first = graph.whole_numbers(&[0]);
            let zeros = graph.op("Slice", &[&zeros, &first, &shape], Vec::new());
            places = graph.op_of_positions("Add", &[&places, &zeros], (key, tokens));
        }
        let axis = graph.whole_numbers(&[1]);
        let places = graph.op("Unsqueeze", &[&places, &axis], Vec::new());
        let of_place = graph.numbers(&frequencies.angles);
        let angles = graph.op("Mul", &[&places, &of_place], Vec::new());
        let [cosines, sines] = ["Cos", "Sin"].map(|function| {
            let found = graph.op(function, &[&angles], Vec::new());
            if frequencies.scale == 1.0 {
                return found;
            }
            let scale = graph.number(frequencies.scale);
            graph.op("Mul", &[&found, &scale], Vec::new())
        });
        Rotary { cosines, sines, first: graph.whole_numbers(&[0]) }
    }

    /// `[rows, tokens, size]`, each head turned: its second half is the other number of each pair.
    pub(crate) fn turn(&self, graph: &mut Builder, x: &Value) -> Value {
        let inputs = [x, &self.first, &self.cosines, &self.sines];
        graph.own_op("RotaryEmbedding", &inputs, vec![Attribute::int("interleaved", 0)])
    }

    /// Attention of queries, keys and values that lie side by side in a matrix, `[rows · tokens, 3 · size]`.
    pub(crate) fn attention(
        &self,
        graph: &mut Builder,
        together_with_values: &Value,
        tokens: &Tokens,
        sizes: &Sizes,
        bias: Option<&Value>,
    ) -> Value {
        let all = tokens.apart_with(graph, together_with_values, 3 * sizes.hidden);
        let [query, key, value] = graph.split(&all);
        let [query, key] = [query, key].map(|it| self.turn(graph, &it));
        let attention =
            Attention { heads: sizes.heads, mask: tokens.mask(), bias, ..Attention::default() };
        let seen = attention.add(graph, [&query, &key, &value]);
        together(graph, &seen, sizes.hidden)
    }
}
