//! Rows to try a model with: no two alike, and some of them extreme. From the same seed come the same rows. Pure.

use std::sync::Arc;

use backend::{DataType, NamedTensor, Shape, Tensor, distance};
use bytes::Bytes;

use crate::{config::model::ModelConfig, serving::validate::prepare};
use inference::{
    request::InferenceRequest,
    signature::{Port, Signature},
};
use schedule::work::Work;

/// By how much the floats of an extreme row are larger.
const EXTREME: f64 = 100.0;

/// No larger input is made up: rows of that size gain little from company, and trying them would take the memory of
/// several.
const MOST_ELEMENTS: usize = 4 << 20;

/// What rows are made from.
pub(crate) enum Recipe {
    /// A row that the configuration gives for warming up, in the engine's shapes.
    Given(Work),
    /// Numbers without a pattern.
    MadeUp {
        /// Size of every dimension that the model leaves open.
        open: usize,
        /// Whole numbers are below this.
        below: u64,
        /// What texts are made of.
        texts: Texts,
    },
}

/// What made-up texts are. No two of a recipe are of one length for long: a graph may pad to the longest of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Some words, with blanks between them.
    Words,
    /// A whole number, for graphs that read nothing else.
    Numbers,
}

/// Whole numbers below this are indices into nearly every table.
const FEW: u64 = 16;

/// What rows can be made from where nothing is given, the likeliest to be accepted and to tell much first. With
/// `only_bits`, whole numbers are zero or one: an index that is too large ends the use of a GPU.
pub(crate) fn made_up(signature: &Signature, only_bits: bool) -> Vec<Recipe> {
    let required = || signature.inputs.iter().filter(|it| !it.optional);
    let is_open = required().any(|it| it.dims.contains(&None));
    let is_whole = |it: &Port| {
        !matches!(
            it.dtype,
            DataType::Fp16
                | DataType::Bf16
                | DataType::Fp32
                | DataType::Fp64
                | DataType::Bool
                | DataType::Bytes
        )
    };
    let is_text = required().any(|it| it.dtype == DataType::Bytes);
    let texts: &[Texts] = if is_text { &[Texts::Words, Texts::Numbers] } else { &[Texts::Numbers] };
    let below: &[u64] = match required().any(is_whole) {
        true if only_bits => &[2],
        true => &[FEW, 2],
        false => &[2],
    };
    // Of a text, of nothing in particular, of images.
    // Of sounds, which some graphs take from several hundred samples on.
    let is_sound = |it: &Port| {
        !is_whole(it) && !matches!(it.dtype, DataType::Bool | DataType::Bytes) && *it.dims == [None]
    };
    let open: &[usize] = match (is_open, required().any(is_sound)) {
        (true, true) => &[8, 1, 64, 224, 4000],
        (true, false) => &[8, 1, 64, 224],
        (false, _) => &[1],
    };
    let mut recipes = Vec::new();
    for &open in open {
        for &below in below {
            recipes.extend(texts.iter().map(|&texts| Recipe::MadeUp { open, below, texts }));
        }
    }
    recipes
}

impl Recipe {
    /// One row of that number, as the engine takes it. `None` where it cannot be made.
    pub(crate) fn row(
        &self,
        number: u32,
        is_extreme: bool,
        signature: &Signature,
        config: &ModelConfig,
    ) -> Option<Work> {
        let (open, below, texts) = match self {
            Recipe::Given(work) => return varied(work, number as usize, is_extreme),
            Recipe::MadeUp { open, below, texts } => (*open, *below, *texts),
        };
        let mut next = numbers_from(number.wrapping_mul(2).wrapping_add(u32::from(is_extreme)));
        let required = signature.inputs.iter().filter(|it| !it.optional);
        let inputs = required.map(|port| {
            let dims = port.dims.iter().map(|it| it.unwrap_or(open));
            let shape: Shape = std::iter::once(1).chain(dims).collect();
            let tensor = match port.dtype {
                DataType::Bytes => texts.filled(shape, is_extreme, &mut next)?,
                dtype => filled(dtype, shape, below, is_extreme, &mut next)?,
            };
            Some(NamedTensor { name: Arc::clone(&port.name), tensor })
        });
        let inputs = inputs.collect::<Option<_>>()?;
        let mut request = InferenceRequest { inputs, ..InferenceRequest::default() };
        prepare(&mut request, signature, config).ok().map(|it| it.work)
    }
}

impl Texts {
    /// A tensor of them, those of an extreme row longer.
    fn filled(
        self,
        shape: Shape,
        is_extreme: bool,
        next: &mut impl FnMut() -> u32,
    ) -> Option<Tensor> {
        let elements = shape.elements().filter(|it| *it <= MOST_ELEMENTS)?;
        let (most_words, most_digits) = match (self, is_extreme) {
            (Texts::Words, false) => (6, 4),
            (Texts::Words, true) => (24, 6),
            (Texts::Numbers, false) => (1, 4),
            (Texts::Numbers, true) => (1, 8),
        };
        let word = |next: &mut dyn FnMut() -> u32| {
            let digits = 1 + next() % most_digits;
            (next() % 10_u32.pow(digits)).to_string()
        };
        let texts: Vec<String> = (0..elements)
            .map(|_| {
                let words: Vec<String> = (0..1 + next() % most_words).map(|_| word(next)).collect();
                words.join(" ")
            })
            .collect();
        Tensor::from_strings(shape, texts).ok()
    }
}

/// A tensor of numbers without a pattern: floats around zero, whole numbers below `below`.
fn filled(
    dtype: DataType,
    shape: Shape,
    below: u64,
    is_extreme: bool,
    next: &mut impl FnMut() -> u32,
) -> Option<Tensor> {
    let elements = shape.elements().filter(|it| *it <= MOST_ELEMENTS)?;
    let whole = |number: u32| match is_extreme {
        // The least and the largest.
        true => u64::from(number & 1) * (below - 1),
        false => u64::from(number) % below,
    };
    match dtype {
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => {
            let scale = if is_extreme { EXTREME } else { 1.0 };
            let values: Vec<f64> = (0..elements).map(|_| scale * around_zero(next)).collect();
            distance::of_floats(dtype, shape, &values)
        }
        DataType::Bool => {
            let bytes: Vec<u8> = (0..elements).map(|_| (next() & 1) as u8).collect();
            Tensor::new(dtype, shape, bytes.into()).ok()
        }
        _ => {
            let size = dtype.size()?;
            let bytes = (0..elements)
                .flat_map(|_| whole(next()).to_le_bytes().into_iter().take(size))
                .collect::<Vec<u8>>();
            Tensor::new(dtype, shape, bytes.into()).ok()
        }
    }
}

/// Numbers of 24 bits, as in "Numerical Recipes", good enough to have no two alike.
fn numbers_from(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_add(1).wrapping_mul(2_654_435_761);
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    }
}

/// A number of about the normal distribution.
fn around_zero(next: &mut impl FnMut() -> u32) -> f64 {
    let sum: f64 = (0..4).map(|_| f64::from(next()) / f64::from(1 << 24)).sum();
    (sum - 2.0) * 3.0_f64.sqrt()
}

/// Another row of the elements of this one, so that each is one that the model takes: they move on by `number`
/// places. The floats of an extreme one are larger.
fn varied(work: &Work, number: usize, is_extreme: bool) -> Option<Work> {
    let inputs = work.inputs.iter().map(|it| {
        let tensor = moved_on(&it.tensor, number)?;
        let tensor = match distance::floats(&tensor).filter(|_| is_extreme) {
            None => tensor,
            Some(values) => {
                let values: Vec<f64> = values.iter().map(|it| it * EXTREME).collect();
                distance::of_floats(tensor.dtype(), tensor.shape().clone(), &values)?
            }
        };
        Some(NamedTensor { name: it.name.clone(), tensor })
    });
    let inputs = inputs.collect::<Option<_>>()?;
    Some(Work { signature: 0, inputs, outputs: work.outputs.clone(), rows: work.rows })
}

fn moved_on(tensor: &Tensor, places: usize) -> Option<Tensor> {
    let elements = tensor.elements();
    if elements == 0 {
        return Some(tensor.clone());
    }
    let places = places % elements;
    let shape = tensor.shape().clone();
    match tensor.dtype().size() {
        None => {
            let mut texts: Vec<&[u8]> = tensor.strings().collect();
            texts.rotate_left(places);
            Tensor::from_strings(shape, texts).ok()
        }
        Some(size) => {
            let mut bytes = tensor.to_bytes().to_vec();
            bytes.rotate_left(places * size);
            Tensor::new(tensor.dtype(), shape, Bytes::from(bytes)).ok()
        }
    }
}
