//! Rotary positions: queries and keys are turned by an angle that grows with the place of the token. Source:
//! "RoFormer", Su et al. 2021, and `modeling_rope_utils.py` of Hugging Face's transformers.

use crate::{
    attention::{Attention, places},
    blocks::{Sizes, Tokens, together},
    builder::{Builder, Value},
    config::Config,
    error::GraphError,
    onnx::{Attribute, ElementType},
};

/// The angles of one place for each pair of numbers in a head.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frequencies(Vec<f32>);

impl Frequencies {
    /// Those that a configuration describes, for heads of that size. `base`: where it says none.
    ///
    /// # Errors
    /// [`GraphError::Config`] for a way to scale them that is not known.
    pub(crate) fn of(config: Config<'_>, base: f32, head: usize) -> Result<Self, GraphError> {
        let kind = config.word("rope_type", config.word("type", "default")?)?;
        let factor = config.float("factor", 1.0)?;
        config.must_be_one("partial_rotary_factor")?;
        let base = config.float("rope_theta", f64::from(base))?;
        let (base, divisor) = match kind {
            "default" => (base, 1.0),
            "linear" => (base, factor),
            // Source: "Transformer Upgrade: NTK-aware rotary positions", https://kexue.fm/archives/9706, as GTE has it.
            "ntk" => {
                config.must_be_nothing("mixed_b")?;
                (base * factor, factor.powf(2.0 / head as f32))
            }
            other => {
                return Err(GraphError::Config {
                    key: "rope_type".to_owned(),
                    expected: "default, linear or ntk".to_owned(),
                    given: other.to_owned(),
                });
            }
        };
        let exponents = (0..head).step_by(2).map(|it| it as f32 / head as f32);
        Ok(Frequencies(exponents.map(|it| 1.0 / base.powf(it) / divisor).collect()))
    }
}

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
        let places = graph.cast(&places, ElementType::Float);
        let axis = graph.whole_numbers(&[1]);
        let places = graph.op("Unsqueeze", &[&places, &axis], Vec::new());
        let frequencies = graph.numbers(&frequencies.0);
        let angles = graph.op("Mul", &[&places, &frequencies], Vec::new());
        Rotary {
            cosines: graph.op("Cos", &[&angles], Vec::new()),
            sines: graph.op("Sin", &[&angles], Vec::new()),
            first: graph.whole_numbers(&[0]),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, expected: &[f32]) {
        let config = serde_json::from_str(config).unwrap();
        let found = Frequencies::of(Config(&config), 100.0, 4).unwrap();
        let close = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-6;
        assert!(found.0.iter().zip(expected).all(close), "{found:?}");
        assert_eq!(found.0.len(), expected.len());
    }

    #[test]
    fn frequencies_are_powers_of_the_base_and_are_scaled_as_the_configuration_says() {
        check("{}", &[1.0, 0.1]);
        check(r#"{"rope_theta": 10000.0}"#, &[1.0, 0.01]);
        check(r#"{"rope_type": "linear", "factor": 4.0}"#, &[0.25, 0.025]);
        // 100 · 4 is the base, and all are divided by the square root of 4.
        check(r#"{"type": "ntk", "factor": 4.0}"#, &[0.5, 0.025]);
    }

    #[test]
    fn a_way_to_scale_that_is_not_known_is_refused() {
        for (config, key) in [
            (r#"{"rope_type": "dynamic"}"#, "rope_type"),
            (r#"{"type": "ntk", "factor": 2.0, "mixed_b": 0.5}"#, "mixed_b"),
            (r#"{"partial_rotary_factor": 0.5}"#, "partial_rotary_factor"),
        ] {
            let config = serde_json::from_str(config).unwrap();
            let error = Frequencies::of(Config(&config), 100.0, 4).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
