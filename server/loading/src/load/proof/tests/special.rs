//! Models that mix rows only where one of them is special: no number, huge, a large index, negative, or all alike.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::*;

/// The most and the least number of a run, unless one is NaN.
fn most(it: &[f32]) -> f32 {
    it.iter().copied().fold(f32::MIN, f32::max)
}

fn least(it: &[f32]) -> f32 {
    it.iter().copied().fold(f32::MAX, f32::min)
}

/// What a model refuses.
fn refused<T>(says: &str) -> Result<T, BackendError> {
    Err(BackendError::InvalidInput(says.to_owned()))
}

/// Why the rows of a model of that type are found to depend on each other.
#[track_caller]
fn reason(
    dtype: &str,
    compute: impl FnMut(&[f32], usize) -> Result<Vec<f32>, BackendError> + Send + 'static,
) -> String {
    let config = config("max_batch_size: 8", dtype);
    match tried(&config, 0, compute).0 {
        Proof::Lacking(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn turned_if(is: bool, it: &[f32]) -> Vec<f32> {
    it.iter().map(|x| if is { -x } else { *x }).collect()
}

#[test]
fn zero_times_infinity_is_found() {
    let zero_times_sum =
        |it: &[f32], _| Ok(it.iter().map(|x| x + 0.0 * it.iter().sum::<f32>()).collect());
    let reason = reason("FP32", zero_times_sum);
    let says =
        "depends on the other rows of the run (output 'y', by an unlike value), beside rows of NaN";
    assert!(reason.contains(says), "{reason}");
}

#[test]
fn a_threshold_that_only_huge_numbers_reach_is_found() {
    for threshold in [1e8, 1e10, 1e20, 1e30] {
        mixes(move |it, _| turned_if(threshold < most(it), it));
        mixes(move |it, _| turned_if(least(it) < -threshold, it));
    }
    let reason = reason("FP32", |it, _| Ok(turned_if(1e8 < most(it), it)));
    assert!(reason.contains("beside rows of numbers of 1e8 and more, "), "{reason}");
}

#[test]
fn what_is_no_number_is_company_of_its_own() {
    mixes(|it, _| turned_if(it.iter().any(|x| x.is_nan()), it));
    mixes(|it, _| turned_if(it.contains(&f32::INFINITY), it));
    mixes(|it, _| turned_if(it.contains(&f32::NEG_INFINITY), it));
    // A sum that is NaN is above no threshold: each is company by itself.
    let alone = |it: &[f32]| turned_if(f32::MAX < it.iter().sum(), it);
    let config = config("max_batch_size: 2", "FP32");
    let (proof, runs) = tried(&config, 0, move |it, _| Ok(alone(it)));
    assert!(matches!(proof, Proof::Lacking(_)) && runs.iter().all(|it| *it <= 2), "{proof:?}");
}

#[test]
fn numbers_that_are_no_numbers_stay_in_their_rows_of_an_honest_model() {
    let softmax = |it: &[f32], _: usize| -> Vec<f32> {
        let row = |it: &[f32]| -> Vec<f32> {
            let parts: Vec<f32> = it.iter().map(|x| (x - most(it)).exp()).collect();
            parts.iter().map(|x| x / parts.iter().sum::<f32>()).collect()
        };
        it.chunks(WIDTH).flat_map(row).collect()
    };
    assert_eq!(proof(softmax), Proof::Independent);
    // All outputs are NaN for one row.
    let spread = |it: &[f32], _: usize| -> Vec<f32> {
        it.chunks(WIDTH).flat_map(|it| vec![it.iter().sum(); WIDTH]).collect()
    };
    assert_eq!(proof(spread), Proof::Independent);
}

#[test]
fn a_special_row_that_the_others_change_is_found() {
    // Only rows above the threshold depend on others.
    let large = |it: &[f32], rows: usize| -> Vec<f32> {
        let sum: f32 = it.iter().filter(|x| x.is_finite()).map(|x| x.abs().min(1e9)).sum();
        it.iter().map(|x| if 1e7 < *x { sum / rows as f32 } else { *x }).collect()
    };
    let config = config("max_batch_size: 8", "FP32");
    // Where this thread has to wait for a processor, a fast model is a slow one, of which less is tried.
    let mut attempts = (0..50).map(|_| tried(&config, 0, move |it, rows| Ok(large(it, rows))).0);
    let found = attempts.find_map(|it| match it {
        Proof::Lacking(reason) => Some(reason),
        _ => None,
    });
    let found = found.expect("it is found where there is time");
    assert!(found.contains("depends on the other rows of the run"), "{found}");
    assert!(found.contains("in a row of numbers of 1e8 and more"), "{found}");
}

#[test]
fn what_a_model_does_not_take_alone_is_no_company() {
    let refuses = |is: fn(f32) -> bool| {
        move |it: &[f32], _: usize| match it.iter().any(|x| is(*x)) {
            true => refused("not that"),
            false => Ok(it.to_vec()),
        }
    };
    let config = config("max_batch_size: 8", "FP32");
    for is in [|x: f32| x.is_nan(), |x: f32| x.is_infinite(), |x: f32| 1e7 < x.abs()] {
        assert_eq!(tried(&config, 0, refuses(is)).0, Proof::Independent);
    }
    // What it takes is company all the same.
    let turns = |it: &[f32], _: usize| match it.iter().any(|x| x.is_nan() || 1e20 < x.abs()) {
        true => refused("not that"),
        false => Ok(turned_if(1e11 < most(it), it)),
    };
    assert!(reason("FP32", turns).contains("beside rows of numbers of 1e12 and more"));
    // One that it takes alone, and not with others.
    let alone = |it: &[f32], rows: usize| match it.iter().any(|x| x.is_nan()) && 1 < rows {
        true => refused("not that"),
        false => Ok(it.to_vec()),
    };
    let reason = reason("FP32", alone);
    assert!(reason.contains("it takes one row and fails for several: not that"), "{reason}");
}

/// A model of indices below `below`, which turns all numbers where one is above `far`.
fn turning(below: f32, far: f32) -> impl Fn(&[f32], usize) -> Result<Vec<f32>, BackendError> {
    move |it, _| match most(it) < below {
        true => Ok(turned_if(far < most(it), it)),
        false => refused("index out of range"),
    }
}

#[test]
fn a_switch_by_the_largest_index_of_a_run_is_found_wherever_it_is() {
    for (below, far) in [(100.0, 64.0), (512.0, 300.0), (30_522.0, 20_000.0), (f32::MAX, 1e9)] {
        let reason = reason("INT64", turning(below, far));
        assert!(reason.contains("beside rows of the index "), "{reason}");
        let config = config("max_batch_size: 8", "INT64");
        assert_eq!(tried(&config, 0, turning(below, f32::MAX)).0, Proof::Independent, "{below}");
    }
}

#[test]
fn large_indices_are_company_however_slow_a_model_is() {
    for (below, far) in [(100.0, 80.0), (512.0, 400.0), (30_522.0, 20_000.0), (f32::MAX, 1e9)] {
        let turns = turning(below, far);
        let reason = reason("INT64", move |it, rows| {
            thread::sleep(BUDGET);
            turns(it, rows)
        });
        assert!(reason.contains("beside rows of the index "), "{below}: {reason}");
    }
}

#[test]
fn a_slow_model_is_tried_with_few_indices() {
    let config = config("max_batch_size: 8", "INT64");
    let turns = turning(30_522.0, f32::MAX);
    let (proof, runs) = tried(&config, 0, move |it, rows| {
        if most(it) < 30_522.0 {
            thread::sleep(BUDGET);
        }
        turns(it, rows)
    });
    assert_eq!(proof, Proof::Independent);
    // The rows of the proof, three with negative ones, some that are refused, and one pair.
    let (alone, together): (Vec<usize>, Vec<usize>) = runs.iter().partition(|it| **it == 1);
    assert!(alone.len() <= 7 + 8 && together == [7, 2, 2, 2, 2], "{runs:?}");
}

#[test]
fn no_index_is_tried_on_a_gpu() {
    let config = config("max_batch_size: 8", "INT64");
    let largest = Arc::new(AtomicU64::new(0));
    let seen = largest.clone();
    let compute = move |it: &[f32], _: usize| {
        seen.fetch_max(most(it) as u64, Relaxed);
        Ok(it.to_vec())
    };
    let mut fake = Fake { compute: Box::new(compute), runs: Vec::new(), dropped: 0 };
    let signature = config.signature(1, &Default::default());
    let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
    let proof = prove(&mut fake, &signature, &config, Path::new("."), true, &limit);
    assert_eq!((proof, largest.load(Relaxed)), (Ok(Proof::Independent), 1));
}

#[test]
fn an_index_that_says_how_much_there_is_to_do_is_no_larger_than_need_be() {
    let config = config("max_batch_size: 8", "INT64");
    let largest = Arc::new(AtomicU64::new(0));
    let seen = largest.clone();
    let (proof, _) = tried(&config, 0, move |it, _| {
        let turns = most(it) as u64;
        seen.fetch_max(turns, Relaxed);
        // 168 ms for 4095, 43 s for 65535.
        thread::sleep(std::time::Duration::from_nanos(10 * turns * turns));
        Ok(it.to_vec())
    });
    let largest = largest.load(Relaxed);
    assert_eq!(proof, Proof::Independent);
    assert!((63..=16_383).contains(&largest), "{largest}");
}

/// A model of `words` below 30,522 and of `places` below 512.
struct Embedding {
    words: Vec<u64>,
    places: Vec<u64>,
    /// Turns all numbers where that is true of the largest word and the largest place.
    turns: fn(u64, u64) -> bool,
}

impl Instance for Embedding {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let of = |at: usize| -> Vec<u64> {
            let bytes = batch.inputs[at].tensor.to_bytes();
            bytes.as_chunks().0.iter().map(|it| u64::from_le_bytes(*it)).collect()
        };
        let (words, places) = (of(0), of(1));
        let (word, place) = (*words.iter().max().unwrap(), *places.iter().max().unwrap());
        if 30_522 <= word || 512 <= place {
            return refused("index out of range");
        }
        self.words.push(word);
        self.places.push(place);
        let sums: Vec<f32> =
            words.iter().zip(&places).map(|(word, place)| (word + 3 * place) as f32).collect();
        let sums = turned_if((self.turns)(word, place), &sums);
        let tensor = Tensor::from_vec(batch.inputs[0].tensor.shape().clone(), sums).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

#[test]
fn each_input_of_indices_is_company_up_to_what_it_takes_itself() {
    let config = config_of(
        "max_batch_size: 8
         input [ { name: 'words' data_type: TYPE_INT64 dims: 4 }, { name: 'places' data_type: TYPE_INT64 dims: 4 } ]
         output { name: 'y' data_type: TYPE_FP32 dims: 4 }",
    );
    let proof_of = |turns: fn(u64, u64) -> bool| {
        let mut model = Embedding { words: Vec::new(), places: Vec::new(), turns };
        let signature = config.signature(1, &Default::default());
        let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
        let proof = prove(&mut model, &signature, &config, Path::new("."), false, &limit).unwrap();
        (proof, model.words.into_iter().max(), model.places.into_iter().max())
    };
    let (proof, word, place) = proof_of(|_, _| false);
    assert_eq!(proof, Proof::Independent);
    // To one part in four, or exactly where there is time.
    assert!(word.is_some_and(|it| (24_000..30_522).contains(&it)), "{word:?}");
    assert!(place.is_some_and(|it| (400..512).contains(&it)), "{place:?}");
    assert!(matches!(proof_of(|word, _| 20_000 < word).0, Proof::Lacking(_)));
    assert!(matches!(proof_of(|_, place| 300 < place).0, Proof::Lacking(_)));
}

#[test]
fn a_switch_by_a_negative_number_of_a_run_is_found_wherever_it_is() {
    for below in [-0.5, -50.0, -1e9] {
        let reason = reason("INT64", move |it, _| Ok(turned_if(least(it) < below, it)));
        assert!(reason.contains("beside rows of the index -"), "{reason}");
    }
    // A model that takes none.
    let config = config("max_batch_size: 8", "INT64");
    let refuses = |it: &[f32], _: usize| match least(it) < 0.0 {
        true => refused("negative"),
        false => Ok(it.to_vec()),
    };
    assert_eq!(tried(&config, 0, refuses).0, Proof::Independent);
}

#[test]
fn what_any_or_all_of_the_truths_of_a_run_decide_is_found() {
    for truth in [0.0, 1.0] {
        let moved = move |it: &[f32]| if it.contains(&truth) { 2.0 } else { 0.0 };
        let reason = reason("BOOL", move |it, _| Ok(it.iter().map(|x| x + moved(it)).collect()));
        assert!(reason.contains("depends on the other rows of the run"), "{reason}");
    }
    let config = config("max_batch_size: 8", "BOOL");
    let of_rows = |it: &[f32], _: usize| Ok(it.iter().map(|x| 1.0 - x).collect());
    assert_eq!(tried(&config, 0, of_rows).0, Proof::Independent);
}
