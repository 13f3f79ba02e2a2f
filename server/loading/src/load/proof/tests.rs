//! Which models are found to mix rows, and which only round.

mod special;

use std::thread;

use backend::{Batch, DataType, Shape, Tensor, distance};

use super::{trial::BUDGET, *};
use crate::config::{
    choose::EngineChoice,
    complete::{Defaults, complete},
    engines::usual,
    pbtxt::ConfigReader,
};
use serving::config::raw::ModelConfig as RawConfig;

/// What a model makes of the numbers of a run, `WIDTH` in each row.
type Compute = dyn FnMut(&[f32], usize) -> Result<Vec<f32>, BackendError> + Send;

const WIDTH: usize = 4;

struct Fake {
    compute: Box<Compute>,
    runs: Vec<usize>,
    /// Rows that are left out of the answer.
    dropped: usize,
}

impl Instance for Fake {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.runs.push(batch.rows);
        let input = &batch.inputs[0].tensor;
        let values: Vec<f32> = match input.dtype() {
            DataType::Int64 => {
                let bytes = input.to_bytes();
                bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it) as f32).collect()
            }
            DataType::Bool => input.to_bytes().iter().map(|it| f32::from(*it)).collect(),
            DataType::Bytes => input.strings().map(measured).collect(),
            _ => distance::floats(input).unwrap().iter().map(|it| *it as f32).collect(),
        };
        let mut answer = (self.compute)(&values, batch.rows)?;
        answer.truncate((batch.rows - self.dropped.min(batch.rows)) * WIDTH);
        let shape = Shape::new(&[answer.len() / WIDTH, WIDTH]);
        let tensor = Tensor::from_vec(shape, answer).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

/// Words and letters of a text as one number, the words in front of the point.
fn measured(text: &[u8]) -> f32 {
    let words = text.split(|it| *it == b' ').count();
    words as f32 + text.len() as f32 / 1024.0
}

fn config(text: &str, dtype: &str) -> ModelConfig {
    let text = format!(
        "{text} input {{ name: 'x' data_type: TYPE_{dtype} dims: 4 }}
         output {{ name: 'y' data_type: TYPE_FP32 dims: 4 }}"
    );
    config_of(&text)
}

/// A configuration of the identity engine.
pub(crate) fn config_of(text: &str) -> ModelConfig {
    completed(&ConfigReader::default().parse_text("config.pbtxt", text).unwrap())
}

fn completed(raw: &RawConfig) -> ModelConfig {
    let choice = EngineChoice {
        platform: String::new(),
        backend: "identity".into(),
        default_model_filename: None,
        options: Default::default(),
    };
    complete(Some(raw), "m", &choice, &usual(), None, &Defaults::default()).unwrap().config
}

fn tried(
    config: &ModelConfig,
    dropped: usize,
    compute: impl FnMut(&[f32], usize) -> Result<Vec<f32>, BackendError> + Send + 'static,
) -> (Proof, Vec<usize>) {
    let mut fake = Fake { compute: Box::new(compute), runs: Vec::new(), dropped };
    let signature = config.signature(1, &Default::default());
    let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
    let proof = prove(&mut fake, &signature, config, Path::new("."), false, &limit).unwrap();
    (proof, fake.runs)
}

/// A model of floats that computes so.
fn proof(mut compute: impl FnMut(&[f32], usize) -> Vec<f32> + Send + 'static) -> Proof {
    tried(&config("max_batch_size: 8", "FP32"), 0, move |it, rows| Ok(compute(it, rows))).0
}

#[track_caller]
fn mixes(compute: impl FnMut(&[f32], usize) -> Vec<f32> + Send + 'static) {
    let proof = proof(compute);
    let Proof::Lacking(reason) = proof else { panic!("it was found to be independent") };
    assert!(reason.contains("depends on the other rows of the run"), "{reason}");
}

fn mean(values: &[f32], rows: usize, column: usize) -> f32 {
    values.iter().skip(column).step_by(WIDTH).sum::<f32>() / rows as f32
}

#[test]
fn rows_that_are_answered_alone_are_independent() {
    assert_eq!(proof(|it, _| it.iter().map(|x| x * 2.0 + 1.0).collect()), Proof::Independent);
}

#[test]
fn models_that_mix_rows_are_found_wherever_the_other_row_stands() {
    mixes(|it, rows| it.iter().enumerate().map(|(at, x)| x - mean(it, rows, at % WIDTH)).collect());
    // From the row before, from the row behind, from the first one.
    let at = |it: &[f32], at: usize| it.get(at).copied().unwrap_or(0.0);
    mixes(move |it, _| (0..it.len()).map(|i| it[i] + at(it, i.wrapping_sub(WIDTH))).collect());
    mixes(move |it, _| (0..it.len()).map(|i| it[i] + at(it, i + WIDTH)).collect());
    mixes(|it, _| (0..it.len()).map(|i| it[i] - it[i % WIDTH]).collect());
    // The scale of the whole run, in 127 steps.
    mixes(|it, _| {
        let step = it.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
        it.iter().map(|x| (x / step).round() * step).collect()
    });
}

#[test]
fn what_only_rows_of_zeros_but_for_one_element_show_is_found() {
    let filled = |it: &[f32]| it.iter().filter(|x| **x != 0.0).count();
    let signed = |it: &[f32], is: bool| it.iter().map(|x| if is { -x } else { *x }).collect();
    // A switch by the longest row of the run.
    mixes(move |it, _| signed(it, it.chunks(WIDTH).map(filled).max() < Some(2)));
    // One by how much there is in the run, which rows that are all alike share.
    let by_number = proof(move |it, _| signed(it, filled(it) < 2));
    let Proof::Lacking(reason) = by_number else { panic!("it was found to be independent") };
    assert!(reason.contains("depends on how many are in the run"), "{reason}");
}

#[test]
fn rounding_that_depends_on_the_number_of_rows_is_no_mixing() {
    // The order of sums.
    let noise = |it: &[f32], rows: usize| -> Vec<f32> {
        it.iter().map(|x| x * (1.0 + rows as f32 * 1e-6)).collect()
    };
    assert_eq!(proof(noise), Proof::Independent);
    // The same before a graph rounds to a hundred steps.
    let steps = |it: &[f32], rows: usize| -> Vec<f32> {
        it.iter().map(|x| (x * 50.0 + rows as f32 * 0.05).round() / 50.0).collect()
    };
    assert_eq!(proof(steps), Proof::Independent);
    let Proof::Lacking(reason) = proof(|it, rows| it.iter().map(|x| x * rows as f32).collect())
    else {
        panic!("it was found to be independent")
    };
    assert!(reason.contains("depends on how many are in the run"), "{reason}");
}

#[test]
fn answers_by_chance_prove_nothing() {
    let mut turn = 0.0;
    let chance = proof(move |it, _| {
        turn += 1.0;
        it.iter().map(|x| x + turn).collect()
    });
    let reason = "its answers to the same rows differ from run to run";
    assert_eq!(chance, Proof::Lacking(reason.to_owned()));
}

#[test]
fn answers_of_other_rows_are_no_batch() {
    let config = config("max_batch_size: 8", "FP32");
    let (proof, _) = tried(&config, 1, |it, _| Ok(it.to_vec()));
    let shape = "its first dimension is no batch: output 'y' has the shape [0,4] for 1 row";
    assert_eq!(proof, Proof::NoBatch(shape.to_owned()));
}

#[test]
fn an_output_whose_first_dimension_is_always_one_is_no_batch_of_several() {
    let first = |it: &[f32], _: usize| it[..WIDTH].to_vec();
    let several = "its first dimension is no batch: output 'y' has the shape [1,4] for 7 rows";
    assert_eq!(proof(first), Proof::NoBatch(several.to_owned()));
}

#[test]
fn a_model_of_one_row_is_tried_with_one_row() {
    let config = config("max_batch_size: 1", "FP32");
    let (proof, runs) = tried(&config, 0, |it, _| Ok(it.to_vec()));
    assert!(proof == Proof::Independent && runs.iter().all(|it| *it == 1), "{proof:?} {runs:?}");
    let (proof, _) = tried(&config, 1, |it, _| Ok(it.to_vec()));
    assert!(matches!(proof, Proof::NoBatch(_)), "{proof:?}");
    // What it takes is not known. That says nothing of its rows.
    let refused = |_: &[f32], _| Err(BackendError::InvalidInput("not that".to_owned()));
    assert_eq!(tried(&config, 0, refused).0, Proof::Independent);
}

#[test]
fn a_model_of_few_indices_is_tried_with_fewer() {
    let below = |most: f32| {
        move |it: &[f32], _| match it.iter().all(|x| *x < most) {
            true => Ok(it.to_vec()),
            false => Err(BackendError::InvalidInput("index out of range".to_owned())),
        }
    };
    let config = config("max_batch_size: 8", "INT64");
    assert_eq!(tried(&config, 0, below(2.0)).0, Proof::Independent);
    let (proof, _) = tried(&config, 0, below(0.0));
    let reason = "it takes none of the inputs that it was tried with: index out of range";
    assert_eq!(proof, Proof::Lacking(reason.to_owned()));
}

#[test]
fn a_slow_model_runs_each_row_alone_and_all_together_and_a_fast_one_with_every_size() {
    let config =
        config("max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 6 ] }", "FP32");
    let (proof, runs) = tried(&config, 0, |it, _| {
        thread::sleep(BUDGET);
        Ok(it.to_vec())
    });
    // And beside huge numbers and what is no number, three of a kind at once.
    let slow = [1, 1, 1, 1, 1, 1, 1, 7, 4, 4];
    assert_eq!((proof, runs.as_slice()), (Proof::Independent, slow.as_slice()));
    // Where this thread has to wait for a processor, a fast model is a slow one.
    let mut attempts = (0..50).map(|_| tried(&config, 0, |it, _| Ok(it.to_vec())));
    let has_all = |runs: &[usize]| [1, 2, 3, 5, 6, 7].iter().all(|it| runs.contains(it));
    let found = attempts.find(|(proof, runs)| *proof == Proof::Independent && has_all(runs));
    assert!(found.is_some(), "no attempt was made with every size");
}

#[test]
fn company_is_silent_quiet_and_loud_and_each_is_compared() {
    // A floor below the loudest of the run, in decibels.
    let decibels =
        |it: &[f32]| -> Vec<f32> { it.iter().map(|x| 20.0 * x.abs().max(1e-5).log10()).collect() };
    for below in [40.0, 80.0, 120.0] {
        mixes(move |it, _| {
            let all = decibels(it);
            let top = all.iter().copied().fold(f32::MIN, f32::max);
            all.iter().map(|x| x.max(top - below)).collect()
        });
        // The mean in the place of the loudest.
        mixes(move |it, rows| {
            let all = decibels(it);
            let mean = all.iter().sum::<f32>() / (rows * WIDTH) as f32;
            all.iter().map(|x| x.max(mean - below / 4.0)).collect()
        });
    }
    // What is silent has a part in nothing but the number of rows with a sound.
    mixes(|it, _| {
        let sounds = it.chunks(WIDTH).filter(|row| row.iter().any(|x| *x != 0.0)).count();
        it.iter().map(|x| x / sounds.max(1) as f32).collect()
    });
}

#[test]
fn a_model_of_two_rows_at_most_is_found_beside_each_company() {
    let config = config("max_batch_size: 2", "FP32");
    let (proof, runs) = tried(&config, 0, |it, _| {
        let top = it.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        Ok(it.iter().map(|x| x.abs().max(top * 1e-4)).collect())
    });
    assert!(matches!(proof, Proof::Lacking(_)));
    assert!(runs.iter().all(|it| *it <= 2), "{runs:?}");
}

#[test]
fn answers_that_are_alike_or_no_numbers_prove_nothing() {
    for (answer, says) in [(f32::NAN, "is no number for any"), (3.0, "is the same for all")] {
        let Proof::Lacking(reason) = proof(move |it, _| vec![answer; it.len()]) else {
            panic!("it was found to be independent")
        };
        assert!(reason.contains("prove nothing") && reason.contains(says), "{reason}");
    }
    // Labels that stay the same.
    let label = |it: &[f32]| if it.iter().all(|x| x.is_finite()) { 1.0 } else { 0.0 };
    assert!(matches!(proof(move |it, _| vec![label(it); it.len()]), Proof::Lacking(_)));
}

#[test]
fn the_search_for_a_proof_does_not_end_with_the_budget() {
    let config = config("max_batch_size: 8", "INT64");
    // The first sixteen indices are all alike.
    let (proof, runs) = tried(&config, 0, |it, _| {
        thread::sleep(BUDGET / 2);
        Ok(it.iter().map(|x| if *x < 16.0 { 0.0 } else { *x }).collect())
    });
    assert_eq!(proof, Proof::Independent);
    assert!(runs.contains(&7), "{runs:?}");
    // Those behind show how rows mix.
    let (proof, _) = tried(&config, 0, |it, _| {
        let most = it.iter().fold(0.0f32, |most, x| most.max(*x));
        Ok(it.iter().map(|x| if *x < 16.0 { 0.0 } else { *x / most }).collect())
    });
    assert!(matches!(proof, Proof::Lacking(_)));
}

/// What is found of a model of `ids` and another input of that name and type, which answers no numbers unless all of
/// the latter is one. Rows mix where `mixes`.
fn masked(name: &str, dtype: &str, mixes: bool) -> Proof {
    let text = format!(
        "max_batch_size: 8
         input {{ name: 'ids' data_type: TYPE_INT64 dims: 4 }}
         input {{ name: '{name}' data_type: TYPE_{dtype} dims: 4 }}
         output {{ name: 'y' data_type: TYPE_FP32 dims: 4 }}"
    );
    let raw = ConfigReader::default().parse_text("config.pbtxt", &text).unwrap();
    let config = completed(&raw);
    let masked = move |batch: &Batch<'_>| {
        let of = |name: &str| {
            let input = batch.inputs.iter().find(|it| &*it.name == name).unwrap();
            let values: Vec<f32> = match distance::floats(&input.tensor) {
                Some(values) => values.iter().map(|it| *it as f32).collect(),
                None => {
                    let size = input.tensor.dtype().size().unwrap();
                    let bytes = input.tensor.to_bytes();
                    bytes.chunks_exact(size).map(|it| f32::from(it[0])).collect()
                }
            };
            values
        };
        let (ids, mask) = (of("ids"), of(name));
        let most = ids.iter().fold(0.0f32, |most, x| most.max(*x));
        let each = ids.chunks(WIDTH).zip(mask.chunks(WIDTH));
        each.flat_map(|(ids, mask)| {
            let is_whole = mask.iter().all(|it| *it == 1.0);
            ids.iter()
                .map(|x| match (is_whole, mixes) {
                    (false, _) => f32::NAN,
                    (true, false) => *x,
                    (true, true) => *x / most.max(1.0),
                })
                .collect::<Vec<f32>>()
        })
        .collect()
    };
    let mut fake = Masked(masked);
    let signature = config.signature(1, &Default::default());
    let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
    prove(&mut fake, &signature, &config, Path::new("."), false, &limit).unwrap()
}

struct Masked<F>(F);

impl<F: FnMut(&Batch<'_>) -> Vec<f32> + Send> Instance for Masked<F> {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let answer = (self.0)(batch);
        let tensor = Tensor::from_vec(Shape::new(&[batch.rows, WIDTH]), answer).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

#[test]
fn masks_are_ones_whatever_they_are_called_and_of_whatever_type() {
    for name in ["attention_mask", "input.2"] {
        for dtype in ["INT64", "INT32", "BOOL"] {
            assert_eq!(masked(name, dtype, false), Proof::Independent, "{name} {dtype}");
            assert!(matches!(masked(name, dtype, true), Proof::Lacking(_)), "{name} {dtype}");
        }
    }
    assert_eq!(masked("mask", "FP32", false), Proof::Independent);
    assert!(matches!(masked("mask", "FP32", true), Proof::Lacking(_)));
}

#[test]
fn the_samples_of_the_configuration_are_what_a_model_is_tried_with() {
    let sample = "max_batch_size: 8 model_warmup { name: 'w' batch_size: 1
        inputs { key: 'x' value { data_type: TYPE_FP32 dims: 4 random_data: true } } }";
    let config = config(sample, "FP32");
    // Random data are numbers of 0.5 or more, which nothing made up is.
    let (proof, _) = tried(&config, 0, |it, _| match it.iter().all(|x| 0.5 <= *x) {
        true => Ok(it.to_vec()),
        false => Err(BackendError::InvalidInput("below a half".to_owned())),
    });
    assert_eq!(proof, Proof::Independent);
}

#[test]
fn a_model_that_pads_texts_to_the_longest_of_a_run_is_found() {
    let config = config("max_batch_size: 8", "STRING");
    let finds = |measure: fn(f32) -> f32| {
        let (proof, _) = tried(&config, 0, move |it, _| {
            let longest = it.iter().map(|x| measure(*x)).fold(0.0, f32::max);
            Ok(it.iter().map(|x| longest - measure(*x)).collect())
        });
        let Proof::Lacking(reason) = proof else { panic!("it was found to be independent") };
        assert!(reason.contains("depends on the other rows of the run"), "{reason}");
    };
    let words: fn(f32) -> f32 = f32::trunc;
    let letters: fn(f32) -> f32 = f32::fract;
    finds(words);
    finds(letters);
    let (proof, _) = tried(&config, 0, |it, _| Ok(it.to_vec()));
    assert_eq!(proof, Proof::Independent);
}

#[test]
fn a_model_of_texts_that_are_numbers_is_tried_with_those() {
    let config = config("max_batch_size: 8", "STRING");
    let (proof, _) = tried(&config, 0, |it, _| match it.iter().all(|x| *x < 2.0) {
        true => Ok(it.to_vec()),
        false => Err(BackendError::InvalidInput("no number".to_owned())),
    });
    assert_eq!(proof, Proof::Independent);
}

/// What is found of a model of `x`, of that type, which answers with these outputs by the numbers of a run.
fn proof_of(
    dtype: &str,
    outputs: &[(&'static str, DataType)],
    compute: impl FnMut(&[f32], usize) -> Vec<Tensor> + Send,
) -> Proof {
    let names: Vec<&str> = outputs.iter().map(|it| it.0).collect();
    let outputs: String = outputs
        .iter()
        .map(|(name, dtype)| {
            let dtype = dtype.to_string().replace("BYTES", "STRING");
            format!("output {{ name: '{name}' data_type: TYPE_{dtype} dims: -1 }} ")
        })
        .collect();
    let text = format!(
        "max_batch_size: 8 input {{ name: 'x' data_type: TYPE_{dtype} dims: 4 }} {outputs}"
    );
    let config = config_of(&text);
    let mut fake = Outputs { names, compute };
    let signature = config.signature(1, &Default::default());
    let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
    prove(&mut fake, &signature, &config, Path::new("."), false, &limit).unwrap()
}

struct Outputs<F> {
    names: Vec<&'static str>,
    compute: F,
}

impl<F: FnMut(&[f32], usize) -> Vec<Tensor> + Send> Instance for Outputs<F> {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let input = &batch.inputs[0].tensor;
        let values: Vec<f32> = match distance::floats(input) {
            Some(values) => values.iter().map(|it| *it as f32).collect(),
            None => {
                let bytes = input.to_bytes();
                bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it) as f32).collect()
            }
        };
        let answers = (self.compute)(&values, batch.rows).into_iter().zip(&self.names);
        Ok(answers.map(|(tensor, name)| NamedTensor { name: (*name).into(), tensor }).collect())
    }
}

/// One value for each row.
fn column<T: backend::Element + Send>(values: Vec<T>) -> Tensor {
    Tensor::from_vec(Shape::new(&[values.len(), 1]), values).unwrap()
}

/// The first number of each row.
fn first(it: &[f32]) -> Vec<f32> {
    it.iter().step_by(WIDTH).copied().collect()
}

#[test]
fn a_label_that_a_tie_decides_is_no_mixing() {
    // The threshold is within rounding of the first row that is tried, the number of rows decides on which side.
    let label = |score: &f32, rows: usize, tie: f32| -> i64 {
        i64::from(tie * (1.0 + (rows as f32 - 1.5) * 1e-6) <= *score)
    };
    for with_floats in [true, false] {
        let mut tie = None;
        let outputs: &[_] = match with_floats {
            true => &[("label", DataType::Int64), ("score", DataType::Fp32)],
            false => &[("label", DataType::Int64)],
        };
        let found = proof_of("FP32", outputs, move |it, rows| {
            let scores = first(it);
            let tie = *tie.get_or_insert(scores[0]);
            let labels = column(scores.iter().map(|it| label(it, rows, tie)).collect());
            if with_floats { vec![labels, column(scores)] } else { vec![labels] }
        });
        assert_eq!(found, Proof::Independent, "with floats: {with_floats}");
    }
    // The same of whole numbers, in which nothing can be changed by as little.
    let mut tie = None;
    let found = proof_of("INT64", &[("label", DataType::Int64)], move |it, rows| {
        let scores: Vec<f32> = it.chunks(WIDTH).map(|it| it[0] + it[1] / 17.0).collect();
        let tie = *tie.get_or_insert(scores[0]);
        vec![column(scores.iter().map(|it| label(it, rows, tie)).collect())]
    });
    assert_eq!(found, Proof::Independent);
}

#[test]
fn labels_that_follow_the_number_of_rows_or_the_others_are_found() {
    for dtype in ["FP32", "INT64"] {
        let says = |compute: fn(&[f32], usize) -> Vec<Tensor>| {
            let outputs = [("label", DataType::Int64), ("score", DataType::Fp32)];
            let Proof::Lacking(reason) = proof_of(dtype, &outputs, compute) else {
                panic!("{dtype}: it was found to be independent")
            };
            reason
        };
        // How many rows there are.
        let reason = says(|it, rows| vec![column(vec![rows as i64; rows]), column(first(it))]);
        assert!(reason.contains("how many are in the run"), "{reason}");
        // A threshold of a run.
        let reason = says(|it, _| {
            let scores = first(it);
            let mean = scores.iter().sum::<f32>() / scores.len() as f32;
            let labels = scores.iter().map(|it| i64::from(mean < *it)).collect();
            vec![column(labels), column(scores)]
        });
        assert!(reason.contains("the other rows of the run"), "{reason}");
        // A place in the order of all rows.
        let reason = says(|it, _| {
            let scores = first(it);
            let place = |own: &f32| scores.iter().filter(|it| *it < own).count() as i64;
            vec![column(scores.iter().map(place).collect()), column(scores.clone())]
        });
        assert!(reason.contains("the other rows of the run"), "{reason}");
    }
}

#[test]
fn a_small_number_that_mixes_is_found_beside_a_large_one() {
    // A share of the run beside a number of another scale, in one output.
    let share = |large: f32| {
        proof_of("FP32", &[("y", DataType::Fp32)], move |it, rows| {
            let scores: Vec<f32> = first(it).iter().map(|it| it.clamp(-3.0, 3.0).exp()).collect();
            let sum: f32 = scores.iter().sum();
            let values = scores.iter().flat_map(|it| [large + it, it / sum]).collect();
            vec![Tensor::from_vec(Shape::new(&[rows, 2]), values).unwrap()]
        })
    };
    for large in [0.0, 1e5] {
        assert!(matches!(share(large), Proof::Lacking(_)), "beside {large}");
    }
    // By rounding a small one differs as much.
    let rounding = proof_of("FP32", &[("y", DataType::Fp32)], |it, rows| {
        let small = |it: &f32| [1e5 + it * 1e3, it * (1.0 + rows as f32 * 1e-3)];
        let values = first(it).iter().flat_map(small).collect();
        vec![Tensor::from_vec(Shape::new(&[rows, 2]), values).unwrap()]
    });
    assert_eq!(rounding, Proof::Independent);
}

#[test]
fn a_constant_output_says_nothing_and_one_that_is_constant_alone_only_is_found() {
    let outputs = [("y", DataType::Fp32), ("scale", DataType::Fp32)];
    let constant = proof_of("FP32", &outputs, |it, rows| {
        vec![column(first(it)), column(vec![14.5_f32; rows])]
    });
    assert_eq!(constant, Proof::Independent);
    let alone = proof_of("FP32", &outputs, |it, rows| {
        let scores = first(it);
        let most = scores.iter().copied().fold(f32::MIN, f32::max);
        let beside = scores.iter().map(|it| 1.0 + (it - most)).collect();
        assert_eq!(scores.len(), rows);
        vec![column(scores), column(beside)]
    });
    let Proof::Lacking(reason) = alone else { panic!("it was found to be independent") };
    assert!(reason.contains("'scale'") && reason.contains("other rows"), "{reason}");
}

/// Has as much to do as the largest number of its input says: nothing for a usual or a loud one, and without end for an
/// extreme one.
struct Counting {
    stopped: usize,
}

impl Instance for Counting {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let input = &batch.inputs[0].tensor;
        let largest = distance::floats(input).unwrap().into_iter().fold(0.0, f64::max);
        if 1e4 < largest {
            while !batch.stop.is_stopped() {
                thread::sleep(std::time::Duration::from_millis(1));
            }
            self.stopped += 1;
            return Err(BackendError::Execute("it was stopped".to_owned()));
        }
        Ok(vec![NamedTensor { name: "y".into(), tensor: input.clone() }])
    }
}

#[test]
fn a_row_that_says_how_much_there_is_to_do_is_ended_and_the_others_prove() {
    let config = config("max_batch_size: 8", "FP32");
    let signature = config.signature(1, &Default::default());
    let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
    let mut counting = Counting { stopped: 0 };
    let proof = prove(&mut counting, &signature, &config, Path::new("."), false, &limit);
    assert_eq!((proof, counting.stopped), (Ok(Proof::Independent), 1));
}
