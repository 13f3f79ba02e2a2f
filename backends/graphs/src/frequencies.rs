//! The angles by which rotary positions turn, and how configurations scale them for texts that are longer than those of
//! the training. Source: `modeling_rope_utils.py` of Hugging Face's transformers.

use std::f64::consts::TAU;

use crate::{config::Config, error::GraphError};

/// The angles of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frequencies {
    /// The angle of one place, for each pair of numbers in a head.
    pub(crate) angles: Vec<f32>,
    /// What cosines and sines are multiplied with.
    pub(crate) scale: f32,
    /// The most tokens that have these angles, if others have other ones. Which these are would depend on the longest
    /// text of a run.
    pub(crate) most: Option<Most>,
}

/// A number of tokens, and the key of `config.json` that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) key: &'static str,
    pub(crate) tokens: usize,
}

/// The longest text of a model, and of its first training.
pub(crate) const LONGEST: &str = "max_position_embeddings";
const FIRST_LONGEST: &str = "original_max_position_embeddings";

/// What a description of the angles may say.
const KEYS: [&str; 16] = [
    "rope_type",
    "type",
    "rope_theta",
    PARTIAL,
    "factor",
    FIRST_LONGEST,
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "low_freq_factor",
    "high_freq_factor",
    "short_factor",
    "long_factor",
];

const PARTIAL: &str = "partial_rotary_factor";

impl Frequencies {
    /// Those that `rope_parameters` describe, or `rope_scaling` in files of old, for heads of that size. `base`: where
    /// nothing says one.
    ///
    /// # Errors
    /// [`GraphError::Config`] for a way to scale them that is not known.
    pub(crate) fn of(config: Config<'_>, base: f64, head: usize) -> Result<Self, GraphError> {
        let base = config.number("rope_theta")?.unwrap_or(base);
        Frequencies::of_part(config.rope()?, config, base, head)
    }

    /// Those that a part of the configuration describes.
    ///
    /// # Errors
    /// As of [`Frequencies::of`].
    pub(crate) fn of_part(
        rope: Config<'_>,
        config: Config<'_>,
        base: f64,
        head: usize,
    ) -> Result<Self, GraphError> {
        rope.must_say_only(&KEYS)?;
        rope.must_be_one(PARTIAL)?;
        config.must_be_one(PARTIAL)?;
        let base = rope.number("rope_theta")?.unwrap_or(base);
        let plain = Frequencies::plain(base, head);
        let scaling = Scaling { rope, config, base, head };
        match rope.word("rope_type", rope.word("type", "default")?)? {
            "default" => Ok(plain),
            "linear" => {
                let factor = rope.needed("factor")? as f32;
                let angles = plain.angles.into_iter().map(|it| it / factor);
                Ok(Frequencies { angles: angles.collect(), ..plain })
            }
            // Up to its longest text a model has plain angles.
            "dynamic" => {
                rope.needed("factor")?;
                let most = Most { key: LONGEST, tokens: config.needed_size(LONGEST)? };
                Ok(Frequencies { most: Some(most), ..plain })
            }
            "yarn" => scaling.yarn(plain),
            "llama3" => scaling.llama3(plain),
            "longrope" => scaling.longrope(plain),
            _ => Err(rope.wrong("rope_type", "default, linear, dynamic, yarn, llama3 or longrope")),
        }
    }

    /// Angles that nothing scales.
    fn plain(base: f64, head: usize) -> Frequencies {
        let exponents = (0..head).step_by(2).map(|it| it as f32 / head as f32);
        let angles = exponents.map(|it| 1.0 / (base as f32).powf(it)).collect();
        Frequencies { angles, scale: 1.0, most: None }
    }

    /// Those of a larger base, all divided by a root of the factor. Source: "Transformer Upgrade: NTK-aware rotary
    /// positions", https://kexue.fm/archives/9706, as GTE had it before it was in transformers.
    ///
    /// # Errors
    /// [`GraphError::Config`] for another way to scale them.
    pub(crate) fn ntk(config: Config<'_>, base: f64, head: usize) -> Result<Self, GraphError> {
        let base = config.number("rope_theta")?.unwrap_or(base);
        let rope = config.rope()?;
        match rope.word("type", "default")? {
            "default" => Ok(Frequencies::plain(base, head)),
            "ntk" => {
                rope.must_say_only(&["type", "factor"])?;
                let factor = rope.needed("factor")?;
                let plain = Frequencies::plain(base * factor, head);
                let root = (factor as f32).powf(2.0 / head as f32);
                let angles = plain.angles.into_iter().map(|it| it / root);
                Ok(Frequencies { angles: angles.collect(), ..plain })
            }
            _ => Err(rope.wrong("type", "default or ntk")),
        }
    }
}

/// What angles are scaled by.
#[derive(Clone, Copy)]
struct Scaling<'a> {
    rope: Config<'a>,
    config: Config<'a>,
    base: f64,
    head: usize,
}

impl Scaling<'_> {
    /// The longest text of the first training. A key beside the description goes first.
    fn first_longest(self) -> Result<usize, GraphError> {
        let said = [self.config, self.rope].into_iter().find(|it| it.has(FIRST_LONGEST));
        match said {
            Some(it) => it.needed_size(FIRST_LONGEST),
            None => self.config.needed_size(LONGEST),
        }
    }

    /// `factor`, or by how much texts are longer than in the first training.
    fn factor(self, first_longest: usize) -> Result<f64, GraphError> {
        match self.rope.number("factor")? {
            Some(factor) => Ok(factor),
            None => Ok(self.config.needed_size(LONGEST)? as f64 / first_longest as f64),
        }
    }

    /// Slow angles are divided by a factor, fast ones stay. Source: "YaRN", Peng et al. 2023.
    fn yarn(self, plain: Frequencies) -> Result<Frequencies, GraphError> {
        let Scaling { rope, base, head, .. } = self;
        let first = self.first_longest()?;
        let factor = self.factor(first)?;
        let not_zero = |key| Ok::<_, GraphError>(rope.number(key)?.filter(|it| *it != 0.0));
        let grown = |by: f64| if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 };
        let usual = match (not_zero("mscale")?, not_zero("mscale_all_dim")?) {
            (Some(above), Some(below)) => grown(above) / grown(below),
            _ => grown(1.0),
        };
        let scale = rope.number("attention_factor")?.unwrap_or(usual) as f32;
        // The pair of numbers that turns so often in a text of the first training.
        let pair =
            |turns: f64| head as f64 * (first as f64 / (turns * TAU)).ln() / (2.0 * base.ln());
        let low = pair(not_zero("beta_fast")?.unwrap_or(32.0));
        let high = pair(not_zero("beta_slow")?.unwrap_or(1.0));
        let (low, high) = match rope.flag("truncate", true)? {
            true => (low.floor(), high.ceil()),
            false => (low, high),
        };
        let (low, high) = (low.max(0.0), high.min(head as f64 - 1.0));
        let width = if low == high { 0.001 } else { high - low };
        let scaled = plain.angles.iter().enumerate().map(|(at, angle)| {
            let slow = ((at as f32 - low as f32) / width as f32).clamp(0.0, 1.0);
            angle / factor as f32 * slow + angle * (1.0 - slow)
        });
        Ok(Frequencies { angles: scaled.collect(), scale, ..plain })
    }

    /// The same with other bounds, as Llama 3.1 has it.
    fn llama3(self, plain: Frequencies) -> Result<Frequencies, GraphError> {
        let number = |key| Ok::<_, GraphError>(self.rope.needed(key)? as f32);
        let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
        let (factor, first) = (number("factor")?, self.first_longest()? as f32);
        let scaled = plain.angles.iter().map(|angle| {
            let wave = TAU as f32 / angle;
            if wave < first / high {
                *angle
            } else if first / low < wave {
                angle / factor
            } else {
                let fast = (first / wave - low) / (high - low);
                (1.0 - fast) * angle / factor + fast * angle
            }
        });
        Ok(Frequencies { angles: scaled.collect(), ..plain })
    }

    /// Each angle is divided by a factor of its own. Source: "LongRoPE", Ding et al. 2024.
    fn longrope(self, plain: Frequencies) -> Result<Frequencies, GraphError> {
        let first = self.first_longest()?;
        let factor = self.factor(first)?;
        let usual = match factor <= 1.0 {
            true => 1.0,
            false => (1.0 + factor.ln() / (first as f64).ln()).sqrt(),
        };
        let scale = self.rope.number("attention_factor")?.unwrap_or(usual) as f32;
        let pairs = self.head / 2;
        self.rope.numbers("long_factor", pairs)?;
        let divisors = self.rope.numbers("short_factor", pairs)?;
        let scaled = plain.angles.iter().zip(divisors).map(|(angle, by)| angle / by as f32);
        let most = Some(Most { key: FIRST_LONGEST, tokens: first });
        Ok(Frequencies { angles: scaled.collect(), scale, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &str) -> Result<Frequencies, GraphError> {
        let config = serde_json::from_str(config).unwrap();
        Frequencies::of(Config(&config), 100.0, 4)
    }

    #[track_caller]
    fn check(found: &Frequencies, expected: &[f32]) {
        let close = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-6;
        assert!(found.angles.iter().zip(expected).all(close), "{found:?}");
        assert_eq!(found.angles.len(), expected.len());
    }

    #[test]
    fn angles_are_powers_of_the_base_which_stands_in_one_of_two_places() {
        check(&of("{}").unwrap(), &[1.0, 0.1]);
        check(&of(r#"{"rope_theta": 10000.0}"#).unwrap(), &[1.0, 0.01]);
        let both = r#"{"rope_theta": 9.0, "rope_parameters": {"rope_theta": 10000.0}}"#;
        check(&of(both).unwrap(), &[1.0, 0.01]);
        let linear = r#"{"rope_scaling": {"type": "linear", "factor": 4.0}}"#;
        check(&of(linear).unwrap(), &[0.25, 0.025]);
    }

    #[test]
    fn angles_of_old_files_have_a_larger_base_and_are_divided_by_a_root() {
        let config =
            serde_json::json!({"rope_scaling": {"type": "ntk", "factor": 4.0, "mixed_b": null}});
        // 100 · 4 is the base, and all are divided by the square root of 4.
        check(&Frequencies::ntk(Config(&config), 100.0, 4).unwrap(), &[0.5, 0.025]);
    }

    #[test]
    fn angles_that_depend_on_the_longest_text_of_a_run_are_bound_to_the_texts_before() {
        let dynamic = r#"{"max_position_embeddings": 9,
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}"#;
        let dynamic = of(dynamic).unwrap();
        check(&dynamic, &[1.0, 0.1]);
        assert_eq!(dynamic.most, Some(Most { key: LONGEST, tokens: 9 }));
        let long = r#"{"max_position_embeddings": 9, "rope_parameters": {"rope_type": "longrope",
            "original_max_position_embeddings": 3, "short_factor": [1, 2], "long_factor": [3, 4]}}"#;
        let long = of(long).unwrap();
        check(&long, &[1.0, 0.05]);
        assert_eq!(long.most, Some(Most { key: FIRST_LONGEST, tokens: 3 }));
        assert!((long.scale - 2f32.sqrt()).abs() < 1e-6, "{long:?}");
    }

    #[test]
    fn what_is_not_known_or_lacks_a_number_is_refused_by_its_key() {
        for (rope, key) in [
            (r#"{"rope_type": "proportional"}"#, "rope_type"),
            (r#"{"type": "ntk", "factor": 2.0}"#, "rope_type"),
            (r#"{"rope_type": "linear"}"#, "factor"),
            (r#"{"rope_type": "dynamic", "factor": 2.0}"#, LONGEST),
            (r#"{"rope_type": "yarn", "factor": 2.0}"#, LONGEST),
            (r#"{"rope_type": "llama3", "factor": 2.0}"#, "low_freq_factor"),
            (r#"{"mrope_section": [1, 1]}"#, "mrope_section"),
            (r#"{"partial_rotary_factor": 0.5}"#, PARTIAL),
            (
                r#"{"rope_type": "longrope", "original_max_position_embeddings": 4, "factor": 2,
                    "short_factor": [1], "long_factor": [1, 2]}"#,
                "short_factor",
            ),
        ] {
            let error = of(&format!(r#"{{"rope_parameters": {rope}}}"#)).unwrap_err();
            assert!(error.to_string().contains(&format!(" {key}: ")), "{error}");
        }
    }
}
