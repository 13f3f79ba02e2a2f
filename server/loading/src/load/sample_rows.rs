//! Rows to try a model with: no two alike, and some of them silent or extreme. From the same seed come the same rows.
//! Pure.

use std::{hash::RandomState, sync::Arc};

use backend::{DataType, NamedTensor, Shape, Tensor, distance};
use bytes::Bytes;

use inference::{
    request::InferenceRequest,
    signature::{Port, Signature},
};
use schedule::work::Work;
use serving::{config::model::ModelConfig, validate::prepare};

/// No larger input is made up: rows of that size gain little from company, and trying them would take the memory of
/// several.
const MOST_ELEMENTS: usize = 4 << 20;

/// How large the numbers of a row are beside those of an ordinary one. A model that mixes rows by their largest, least
/// or mean number shows it in a row beside one that is much louder, much quieter, or silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    Silent,
    Quiet,
    /// As loud as an ordinary row, but zero behind the first element of each input: what is padded or counted is so.
    Sparse,
    Ordinary,
    Loud,
    Extreme,
}

impl Loudness {
    /// By how much floats are larger.
    fn factor(self) -> f64 {
        match self {
            Loudness::Silent => 0.0,
            Loudness::Quiet => 1e-4,
            Loudness::Ordinary | Loudness::Sparse => 1.0,
            Loudness::Loud => 1e2,
            Loudness::Extreme => 1e6,
        }
    }

    /// An index below `below`, of such a row.
    fn index(self, number: u64, below: u64) -> u64 {
        match self {
            Loudness::Silent => 0,
            Loudness::Quiet => number % below.min(2),
            Loudness::Ordinary | Loudness::Sparse => number % below,
            // The least and the largest.
            Loudness::Loud => (number & 1) * (below - 1),
            Loudness::Extreme => below - 1 - number % (below / 4).max(1),
        }
    }

    /// A truth of such a row. A model that asks whether any row says so, or all do, shows it beside one that says the
    /// same throughout.
    fn is_true(self, number: u32) -> bool {
        match self {
            Loudness::Silent => false,
            Loudness::Quiet => number.is_multiple_of(8),
            Loudness::Ordinary | Loudness::Sparse => number & 1 == 1,
            Loudness::Loud => !number.is_multiple_of(8),
            Loudness::Extreme => true,
        }
    }
}

/// What rows are made from.
#[derive(Debug)]
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
        /// Required inputs all of whose elements are this, in their order. `None`: they are made as others are.
        fixed: Vec<Option<u8>>,
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

/// Where the first indices of a table are all special, others are not. The largest that it has is not known.
const MANY: [u64; 4] = [32, 128, 1000, 30_000];

/// So many inputs are taken for masks in turn where no name says which are.
const MOST_UNNAMED: usize = 4;

pub(crate) fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

pub(crate) fn is_whole(dtype: DataType) -> bool {
    !is_float(dtype) && !matches!(dtype, DataType::Bool | DataType::Bytes)
}

/// The least and the largest number of a type that is for samples of sounds and images, rather than for indices.
fn range(dtype: DataType) -> Option<(f64, f64)> {
    match dtype {
        DataType::Uint8 => Some((0.0, f64::from(u8::MAX))),
        DataType::Int8 => Some((f64::from(i8::MIN), f64::from(i8::MAX))),
        DataType::Uint16 => Some((0.0, f64::from(u16::MAX))),
        DataType::Int16 => Some((f64::from(i16::MIN), f64::from(i16::MAX))),
        _ => None,
    }
}

/// Does its name say that an input tells which elements of others count?
pub(crate) fn is_named_mask(name: &str) -> bool {
    name.to_ascii_lowercase().contains("mask")
}

/// Does its name say that it has numbers of two kinds of text?
fn is_of_two_kinds(port: &Port) -> bool {
    let name = port.name.to_ascii_lowercase();
    ["type_id", "segment"].iter().any(|it| name.contains(it))
}

/// Which inputs are all ones or zeros, in the order in which that is tried. Of a mask without a pattern often nothing
/// comes but what is no number.
fn masks(signature: &Signature) -> Vec<Vec<Option<u8>>> {
    let required = || signature.inputs.iter().filter(|it| !it.optional);
    let named = |value: u8| -> Vec<Option<u8>> {
        required().map(|it| is_named_mask(&it.name).then_some(value)).collect()
    };
    let free = vec![None; required().count()];
    let mut all = vec![named(1), free];
    let may_be =
        |it: &Port| (is_whole(it.dtype) || it.dtype == DataType::Bool) && !is_named_mask(&it.name);
    let unnamed: Vec<usize> =
        required().enumerate().filter(|(_, it)| may_be(it)).map(|(at, _)| at).collect();
    if 1 < required().count() {
        // The last ones first: what a mask is for stands before it.
        let alone = unnamed.iter().rev().take(MOST_UNNAMED).map(|it| vec![*it]);
        // Or all but one.
        let most = unnamed.get(1..).filter(|it| 1 < it.len()).map(<[usize]>::to_vec);
        for ones in alone.chain(most) {
            let mut fixed = named(1);
            for at in ones {
                fixed[at] = Some(1);
            }
            all.push(fixed);
        }
    }
    // Of some masks zeros are what counts.
    all.push(named(0));
    let mut seen: Vec<Vec<Option<u8>>> = Vec::new();
    for it in all {
        if !seen.contains(&it) {
            seen.push(it);
        }
    }
    seen
}

/// What rows can be made from where nothing is given, the likeliest to be accepted and to tell much first. With
/// `only_bits`, whole numbers are zero or one: an index that is too large ends the use of a GPU.
pub(crate) fn made_up(signature: &Signature, only_bits: bool) -> Vec<Recipe> {
    let required = || signature.inputs.iter().filter(|it| !it.optional);
    let is_open = required().any(|it| it.dims.contains(&None));
    let is_text = required().any(|it| it.dtype == DataType::Bytes);
    let texts: &[Texts] = if is_text { &[Texts::Words, Texts::Numbers] } else { &[Texts::Numbers] };
    let whole = |it: &Port| is_whole(it.dtype);
    let is_index = |it: &Port| whole(it) && range(it.dtype).is_none();
    let below: &[u64] = match required().any(whole) {
        true if only_bits => &[2],
        true if required().any(is_index) => &[FEW, 2, MANY[0], MANY[1], MANY[2], MANY[3]],
        true => &[MANY[0], FEW, 2],
        false => &[2],
    };
    // Of a text, of nothing in particular, of images.
    // Of sounds, which some graphs take from several hundred samples on.
    let is_sound =
        |it: &Port| (is_float(it.dtype) || range(it.dtype).is_some()) && *it.dims == [None];
    let open: &[usize] = match (is_open, required().any(is_sound)) {
        (true, true) => &[8, 1, 64, 224, 4000],
        (true, false) => &[8, 1, 64, 224],
        (false, _) => &[1],
    };
    let masks = masks(signature);
    let mut recipes = Vec::new();
    for &open in open {
        for &below in below {
            for &texts in texts {
                let fixed = masks.iter().cloned();
                recipes.extend(fixed.map(|fixed| Recipe::MadeUp { open, below, texts, fixed }));
            }
        }
    }
    recipes
}

impl Recipe {
    /// One row of that number, as the engine takes it. `None` where it cannot be made.
    pub(crate) fn row(
        &self,
        number: u32,
        loudness: Loudness,
        signature: &Signature,
        config: &ModelConfig,
    ) -> Option<Work> {
        let (open, below, texts, fixed) = match self {
            Recipe::Given(work) => return varied(work, number as usize, loudness),
            Recipe::MadeUp { open, below, texts, fixed } => (*open, *below, *texts, fixed),
        };
        let mut next = numbers_from(number);
        let required = signature.inputs.iter().filter(|it| !it.optional);
        let inputs = required.enumerate().map(|(at, port)| {
            let dims = port.dims.iter().map(|it| it.unwrap_or(open));
            let shape: Shape = std::iter::once(1).chain(dims).collect();
            let tensor = match (port.dtype, fixed.get(at).copied().flatten()) {
                (DataType::Bytes, _) => texts.filled(shape, loudness, &mut next)?,
                (dtype, Some(value)) => filled_with(value, dtype, shape)?,
                (dtype, None) => {
                    let below = if is_of_two_kinds(port) { below.min(2) } else { below };
                    filled(dtype, shape, below, loudness, &mut next)?
                }
            };
            Some(NamedTensor { name: Arc::clone(&port.name), tensor })
        });
        let inputs = inputs.collect::<Option<_>>()?;
        let mut request = InferenceRequest { inputs, ..InferenceRequest::default() };
        prepare(&mut request, signature, config, &RandomState::new()).ok().map(|it| it.work)
    }
}

impl Texts {
    /// A tensor of them, those of a loud row longer.
    fn filled(
        self,
        shape: Shape,
        loudness: Loudness,
        next: &mut impl FnMut() -> u32,
    ) -> Option<Tensor> {
        let elements = shape.elements().filter(|it| *it <= MOST_ELEMENTS)?;
        let (most_words, most_digits) = match (self, loudness) {
            (Texts::Words, Loudness::Silent) => {
                return Tensor::from_strings(shape, vec![""; elements]).ok();
            }
            (Texts::Numbers, Loudness::Silent) => {
                return Tensor::from_strings(shape, vec!["0"; elements]).ok();
            }
            (_, Loudness::Quiet | Loudness::Sparse) => (1, 1),
            (Texts::Words, Loudness::Ordinary) => (6, 4),
            (Texts::Words, Loudness::Loud | Loudness::Extreme) => (24, 6),
            (Texts::Numbers, Loudness::Ordinary) => (1, 4),
            (Texts::Numbers, Loudness::Loud | Loudness::Extreme) => (1, 8),
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

/// A tensor of nothing but that number.
fn filled_with(value: u8, dtype: DataType, shape: Shape) -> Option<Tensor> {
    let elements = shape.elements().filter(|it| *it <= MOST_ELEMENTS)?;
    if is_float(dtype) {
        return distance::of_floats(dtype, shape, &vec![f64::from(value); elements]);
    }
    let one: Vec<u8> = u64::from(value).to_le_bytes().into_iter().take(dtype.size()?).collect();
    Tensor::new(dtype, shape, one.repeat(elements).into()).ok()
}

/// A tensor of numbers without a pattern: floats around zero, whole numbers below `below`.
fn filled(
    dtype: DataType,
    shape: Shape,
    below: u64,
    loudness: Loudness,
    next: &mut impl FnMut() -> u32,
) -> Option<Tensor> {
    let elements = shape.elements().filter(|it| *it <= MOST_ELEMENTS)?;
    if is_float(dtype) {
        let values = (0..elements).map(|_| around_zero(next)).collect();
        return scaled(dtype, shape, values, loudness);
    }
    let size = dtype.size()?;
    let measures = range(dtype).filter(|_| FEW < below);
    let mut element = || match (dtype, measures) {
        (DataType::Bool, _) => u64::from(loudness.is_true(next())),
        (_, Some((least, largest))) => {
            // A tenth of what there is is ordinary.
            let value = match loudness {
                Loudness::Quiet => f64::from(next() % 2),
                loudness => largest / 10.0 * loudness.factor() * around_zero(next),
            };
            let value = if least < 0.0 { value } else { value.abs() };
            (value.clamp(least, largest) as i64).cast_unsigned()
        }
        (_, None) => loudness.index(u64::from(next()), below),
    };
    let mut bytes: Vec<u8> =
        (0..elements).flat_map(|_| element().to_le_bytes().into_iter().take(size)).collect();
    if loudness == Loudness::Sparse {
        bytes.iter_mut().skip(size).for_each(|it| *it = 0);
    }
    Tensor::new(dtype, shape, bytes.into()).ok()
}

/// Larger floats of two bytes soon become infinite.
const LARGEST_FP16: f64 = 30_000.0;

/// Floats as large as those of such a row.
fn scaled(dtype: DataType, shape: Shape, values: Vec<f64>, loudness: Loudness) -> Option<Tensor> {
    let largest = if dtype == DataType::Fp16 { LARGEST_FP16 } else { f64::MAX };
    // No zero has a sign.
    let scale = |it: f64| (it * loudness.factor()).clamp(-largest, largest) + 0.0;
    let mut values: Vec<f64> = values.into_iter().map(scale).collect();
    if loudness == Loudness::Sparse {
        values.iter_mut().skip(1).for_each(|it| *it = 0.0);
    }
    distance::of_floats(dtype, shape, &values)
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
/// places. The floats of a loud one are larger.
fn varied(work: &Work, number: usize, loudness: Loudness) -> Option<Work> {
    let inputs = work.inputs.iter().map(|it| {
        let tensor = moved_on(&it.tensor, number)?;
        let tensor = match distance::floats(&tensor).filter(|_| !is_named_mask(&it.name)) {
            None => tensor,
            Some(values) => scaled(tensor.dtype(), tensor.shape().clone(), values, loudness)?,
        };
        Some(NamedTensor { name: it.name.clone(), tensor })
    });
    let inputs = inputs.collect::<Option<_>>()?;
    Some(Work {
        about: None,
        parts: None,
        signature: 0,
        inputs,
        outputs: work.outputs.clone(),
        rows: work.rows,
    })
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
