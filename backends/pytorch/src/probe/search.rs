//! Looking for types and shapes that a module takes. Pure.
//!
//! A shape that weights or texts of libtorch suggest counts as found when the module takes it. One that is
//! only a guess counts when the module takes no guess of another type or rank, and guesses are allowed.

use std::collections::{HashSet, VecDeque};

use backend::DataType;

use super::{
    known::{KnownInput, OPEN, ROWS, Sample, Success, Trial, sample},
    refine::refine,
};
use crate::{
    error::TrialError,
    interface::{Interface, Weight},
};

/// No more runs than this.
const MOST_RUNS: usize = 200;

/// Sides of images, in the order in which they are tried.
const SIDES: [usize; 4] = [32, 28, 64, 224];

/// Finds zeros that the module takes.
///
/// # Errors
/// Why not, as the part of a sentence.
pub(super) fn search(
    interface: &Interface,
    known: &[KnownInput],
    may_guess: bool,
    trial: &mut dyn Trial,
) -> Result<Success, TrialError> {
    let mut queue = Queue::default();
    let options: Vec<Vec<Sample>> = known.iter().map(|it| suggested(it, interface)).collect();
    for samples in combined(&options) {
        queue.push_last(samples, true);
    }
    let dtype = weights_type(interface);
    let guesses: Vec<Vec<Sample>> = known.iter().map(|it| guessed(it, dtype)).collect();
    for samples in alike(&guesses) {
        queue.push_last(samples, false);
    }
    let mut found: Vec<Success> = Vec::new();
    let mut first_problem = None;
    for _ in 0..MOST_RUNS {
        let Some((samples, is_told)) = queue.waiting.pop_front().filter(|_| !trial.is_over())
        else {
            break;
        };
        match trial.run(&samples) {
            Ok(facts) if is_told => return Ok((samples, facts)),
            Ok(facts) => found.push((samples, facts)),
            Err(line) => {
                for better in refine(&samples, line.line(), |it| known[it].is_open()) {
                    queue.push_first(better);
                }
                first_problem.get_or_insert(line);
            }
        }
    }
    match found.as_slice() {
        [] => Err(match first_problem {
            Some(line) => {
                let first = "no trial run on zeros succeeded, the first one failed with";
                TrialError::new(format_args!("{first}: {line}"))
            }
            None => TrialError::new("there was nothing to try"),
        }),
        [_] if may_guess => Ok(found.remove(0)),
        [(only, _)] => {
            Err(TrialError::new(format_args!("it takes {}, and perhaps more", shown(only))))
        }
        [(a, _), (b, _), ..] => {
            Err(TrialError::new(format_args!("it takes {} as well as {}", shown(a), shown(b))))
        }
    }
}

impl KnownInput {
    /// May a search change its type or shape?
    fn is_open(&self) -> bool {
        self.dtype.is_none() || self.dims.is_none()
    }
}

/// What waits to be tried, each once.
#[derive(Default)]
struct Queue {
    /// With each: is it more than a guess?
    waiting: VecDeque<(Vec<Sample>, bool)>,
    seen: HashSet<Vec<Sample>>,
}

impl Queue {
    fn push_last(&mut self, samples: Vec<Sample>, is_told: bool) {
        if samples.iter().all(Sample::is_small) && self.seen.insert(samples.clone()) {
            self.waiting.push_back((samples, is_told));
        }
    }

    fn push_first(&mut self, samples: Vec<Sample>) {
        let new = self.seen.insert(samples.clone());
        // What was a guess before is more than that now.
        let guessed = self.waiting.iter().position(|(it, is_told)| !is_told && *it == samples);
        if let Some(at) = guessed {
            self.waiting.remove(at);
        }
        if samples.iter().all(Sample::is_small) && (new || guessed.is_some()) {
            self.waiting.push_front((samples, true));
        }
    }
}

/// One option for each input: the first ones, the second ones, and so on.
fn alike(options: &[Vec<Sample>]) -> Vec<Vec<Sample>> {
    let most = options.iter().map(Vec::len).max().unwrap_or(0);
    let alike = (0..most).map(|at| options.iter().map(move |it| it.get(at).or(it.last()).cloned()));
    alike.filter_map(Iterator::collect).collect()
}

/// The same, and then each with each, as many as may be run.
fn combined(options: &[Vec<Sample>]) -> Vec<Vec<Sample>> {
    let mut all = alike(options);
    let mut each: Vec<Vec<Sample>> = vec![Vec::new()];
    for options in options {
        let longer = each.iter().flat_map(|begin| {
            options.iter().map(move |it| [begin.as_slice(), std::slice::from_ref(it)].concat())
        });
        each = longer.take(MOST_RUNS).collect();
    }
    all.extend(each);
    all
}

/// Zeros that the weights suggest, or the configuration as far as it goes.
fn suggested(known: &KnownInput, interface: &Interface) -> Vec<Sample> {
    if known.dtype.is_some() && known.dims.is_some() {
        return OPEN.iter().filter_map(|&size| sample(known, ROWS, size)).collect();
    }
    let mut samples: Vec<Sample> = Vec::new();
    for weight in &interface.weights {
        samples.extend(suggestions(weight).into_iter().filter(|it| known.allows(it)));
    }
    if let Some(dims) = &known.dims {
        // The shape is known, the type is not: that of the weights goes first.
        let types = [weights_type(interface), DataType::Fp32, DataType::Int64];
        let typed = types.map(|it| KnownInput {
            dtype: Some(it),
            dims: Some(dims.clone()),
            ..known.clone()
        });
        let sized = |it: &KnownInput| sample(it, ROWS, OPEN[0]);
        samples.extend(typed.iter().filter_map(sized));
    }
    samples
}

/// What the module that holds the weight takes, by its class.
fn suggestions(weight: &Weight) -> Vec<Sample> {
    let Some(dtype) = weight.dtype else { return Vec::new() };
    let dims = weight.dims.as_slice();
    let samples = |shapes: &[&[usize]]| {
        shapes.iter().map(|it| Sample { dtype, dims: it.to_vec() }).collect::<Vec<Sample>>()
    };
    let images = |channels: usize| {
        let image = |side: usize| Sample { dtype, dims: vec![ROWS, channels, side, side] };
        SIDES.map(image).to_vec()
    };
    match (weight.class.as_str(), weight.name.as_str(), dims) {
        ("Linear", "weight", &[_, width]) => samples(&[&[ROWS, width]]),
        ("Embedding" | "EmbeddingBag", "weight", _) => [DataType::Int64, DataType::Int32]
            .map(|dtype| Sample { dtype, dims: vec![ROWS, OPEN[0]] })
            .to_vec(),
        ("LSTM" | "GRU" | "RNN", "weight_ih_l0", &[_, width]) => {
            samples(&[&[ROWS, OPEN[0], width]])
        }
        ("ConvTranspose2d", "weight", &[channels, _, _, _])
        | (_, "weight", &[_, channels, _, _]) => images(channels),
        ("ConvTranspose1d", "weight", &[channels, _, _]) | (_, "weight", &[_, channels, _]) => {
            samples(&[&[ROWS, channels, 32], &[ROWS, channels, 128]])
        }
        (_, "weight", &[_, channels, _, _, _]) => samples(&[&[ROWS, channels, 16, 16, 16]]),
        ("BatchNorm2d", "weight", &[channels]) => images(channels),
        ("BatchNorm1d" | "LayerNorm" | "RMSNorm", "weight", &[width]) => samples(&[&[ROWS, width]]),
        (_, _, &[a, b]) if weight.name != "bias" => samples(&[&[ROWS, b], &[ROWS, a]]),
        _ => Vec::new(),
    }
}

/// The type of the first weight that has one of floats.
fn weights_type(interface: &Interface) -> DataType {
    let floats = [DataType::Fp16, DataType::Bf16, DataType::Fp32, DataType::Fp64];
    let mut types = interface.weights.iter().filter_map(|it| it.dtype);
    types.find(|it| floats.contains(it)).unwrap_or(DataType::Fp32)
}

/// Zeros that a module may well take, whatever it is. One for each rank and type, of sizes that are primes and
/// not alike, so that texts about them can be understood.
fn guessed(known: &KnownInput, dtype: DataType) -> Vec<Sample> {
    const SHAPES: [&[usize]; 4] = [&[ROWS, 7], &[ROWS, 3, 31, 37], &[ROWS, 5, 11], &[ROWS]];
    if !known.is_open() {
        return sample(known, ROWS, OPEN[0]).into_iter().collect();
    }
    let types = known.dtype.map_or(vec![dtype, DataType::Int64], |it| vec![it]);
    let all = types
        .iter()
        .flat_map(|&dtype| SHAPES.iter().map(move |it| Sample { dtype, dims: it.to_vec() }));
    all.filter(|it| known.allows(it)).collect()
}

fn shown(samples: &[Sample]) -> String {
    let one = |it: &Sample| {
        let dims: Vec<String> = it.dims.iter().map(ToString::to_string).collect();
        format!("{} [{}]", it.dtype, dims.join(","))
    };
    samples.iter().map(one).collect::<Vec<_>>().join(" with ")
}
