//! The steps that take one tensor and give one: `normalize`, `softmax`, `top_k`, `argmax` and `scale`.

use std::{mem, sync::Arc};

use backend::{BackendError, ModelSource, NamedTensor};

use super::{
    call::{Call, Numbers, invalid},
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, INTEGERS, port, spec},
    settings::StepSettings,
};
use crate::head::{
    function::{argmax, softmax},
    pool::normalize,
};

pub(super) const OF_AXIS: &[&str] = &["axis"];
pub(super) const OF_TOP_K: &[&str] = &["axis", "k"];
pub(super) const OF_SCALE: &[&str] = &["axis", "mean", "std"];

/// What a step does with the values along its axis.
enum Operation {
    Normalize,
    Softmax,
    Argmax,
    TopK(usize),
    /// Means and standard deviations: one for all values, or one for each.
    Scale(Vec<f32>, Vec<f32>),
}

struct Arithmetic {
    operation: Operation,
    input: Arc<str>,
    /// Counted in all dimensions, that of the rows included.
    axis: usize,
}

/// The names of input and output: those of the configuration where it has any.
pub(super) fn names(source: &ModelSource) -> (Arc<str>, Arc<str>) {
    let input = source.hints.inputs.first().map_or_else(|| "input".into(), |it| it.name.clone());
    let indices = |it: &str| it == INDICES;
    let mut outputs = source.hints.outputs.iter().filter(|it| !indices(&it.name));
    (input, outputs.next().map_or_else(|| "output".into(), |it| it.name.clone()))
}

/// The dimensions of the input: those of the configuration, else one of any size for each row.
pub(super) fn dims(settings: &StepSettings<'_>) -> Vec<Option<usize>> {
    let said = settings.source.hints.inputs.first().and_then(|it| it.dims.clone());
    let rows = usize::from(!settings.is_unbatched());
    let dims = said.unwrap_or_else(|| vec![None; rows + 1]);
    // A size that a configuration gives is fixed there.
    dims.into_iter().enumerate().map(|(at, it)| if at < rows { None } else { it }).collect()
}

const INDICES: &str = "indices";

/// Opens the one of that name.
///
/// # Errors
/// When a parameter is wrong.
pub(super) fn open(settings: &StepSettings<'_>, step: &str) -> Result<Opened, BackendError> {
    let operation = match step {
        "normalize" => Operation::Normalize,
        "softmax" => Operation::Softmax,
        "argmax" => Operation::Argmax,
        "top_k" => Operation::TopK(settings.count("k")?.unwrap_or(1)),
        _ => {
            let mean = settings.numbers("mean")?.unwrap_or_else(|| vec![0.0]);
            let std = settings.numbers("std")?.unwrap_or_else(|| vec![1.0]);
            if std.contains(&0.0) {
                return Err(settings.wrong("std", "nothing can be divided by 0"));
            }
            Operation::Scale(mean, std)
        }
    };
    let dims = dims(settings);
    let axis = axis(settings, dims.len())?;
    let (input, output) = names(settings.source);
    let mut along = dims.clone();
    let (dtypes, width) = match &operation {
        Operation::Argmax => (INTEGERS, Some(1)),
        Operation::TopK(k) => (FLOAT, Some(*k)),
        Operation::Normalize | Operation::Softmax | Operation::Scale(..) => (FLOAT, along[axis]),
    };
    along[axis] = width;
    let mut outputs = vec![port(&output, dtypes, &along)];
    if let Operation::TopK(_) = &operation {
        outputs.push(port(INDICES, INTEGERS, &along));
    }
    let spec = spec(settings.source, &[port(&input, FLOATS, &dims)], &outputs);
    if let Operation::Scale(mean, std) = &operation
        && let Some(width) = dims[axis]
    {
        for (key, values) in [("mean", mean), ("std", std)] {
            if ![1, width].contains(&values.len()) {
                let problem =
                    format!("it has {} numbers, the axis has {width} values", values.len());
                return Err(settings.wrong(key, problem));
            }
        }
    }
    Ok(Opened { spec, run: Box::new(Arithmetic { operation, input, axis }) })
}

/// The dimension along which values are taken, counted with that of the rows. As a parameter it is counted without,
/// or from the end where it is negative.
fn axis(settings: &StepSettings<'_>, rank: usize) -> Result<usize, BackendError> {
    let Some(text) = settings.text("axis") else { return Ok(rank - 1) };
    let rows = usize::from(!settings.is_unbatched());
    let axis = match text.trim().parse::<isize>() {
        Ok(axis) if axis < 0 => rank.checked_add_signed(axis),
        Ok(axis) => axis.checked_add_unsigned(rows).and_then(|it| usize::try_from(it).ok()),
        Err(_) => None,
    };
    axis.filter(|it| (rows..rank).contains(it)).ok_or_else(|| {
        let problem = format!("it is '{text}', and a row has {} dimensions", rank - rows);
        settings.wrong("axis", problem)
    })
}

impl Run for Arithmetic {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let given = call.floats(&self.input)?;
        let Some(&length) = given.dims.get(self.axis) else {
            return Err(invalid(&self.input, &format!("its shape is {:?}", given.dims)));
        };
        let mut dims = given.dims.clone();
        dims[self.axis] = self.width(length)?;
        let Reduction { mut values, mut indices } = match given.values.is_empty() {
            // Whatever the other dimensions are, there is nothing to go through.
            true => Reduction::default(),
            false => self.along(call, &given, length, dims[self.axis])?,
        };
        let mut outputs: Vec<NamedTensor> = Vec::with_capacity(call.batch.outputs.len());
        for name in call.batch.outputs {
            let made = outputs.iter().find(|it| it.name == *name).cloned();
            let is_index = &**name == INDICES || matches!(self.operation, Operation::Argmax);
            outputs.push(match made {
                Some(made) => made,
                None if is_index => call.integer_output(name, &dims, mem::take(&mut indices))?,
                None => call.float_output(name, &dims, mem::take(&mut values))?,
            });
        }
        Ok(outputs)
    }
}

/// So many blocks of lines are gone through before it is asked again whether the batch is still wanted.
const BLOCKS_OF_CHECK: usize = 256;

/// Elements of the outputs, in their places.
#[derive(Default)]
struct Reduction {
    values: Vec<f32>,
    /// Of steps that give places.
    indices: Vec<i64>,
}

/// The values along the axis at one place of the other dimensions.
#[derive(Default)]
struct Line {
    values: Vec<f32>,
    /// Places in the line, of steps that give them.
    places: Vec<usize>,
    /// Room for values in another order.
    spare: Vec<f32>,
}

impl Arithmetic {
    /// How many values of `length` along the axis the outputs have.
    ///
    /// # Errors
    /// When the step needs another number of them.
    fn width(&self, length: usize) -> Result<usize, BackendError> {
        let wrong = |problem: &str| Err(invalid(&self.input, problem));
        match &self.operation {
            Operation::Normalize | Operation::Softmax => Ok(length),
            Operation::Argmax if length == 0 => wrong("it has no values"),
            Operation::Argmax => Ok(1),
            Operation::TopK(k) if *k > length => {
                wrong(&format!("it has {length} values along the axis, and k is {k}"))
            }
            Operation::TopK(k) => Ok(*k),
            Operation::Scale(mean, std) => {
                let is_enough = |it: &Vec<f32>| it.len() == 1 || length <= it.len();
                match is_enough(mean) && is_enough(std) {
                    true => Ok(length),
                    false => wrong(&format!("it has {length} values along the axis")),
                }
            }
        }
    }

    /// All lines along the axis, `length` values each of the input and `width` of the outputs. Beside the outputs one
    /// line is held.
    fn along(
        &self,
        call: &Call<'_>,
        given: &Numbers<'_, f32>,
        length: usize,
        width: usize,
    ) -> Result<Reduction, BackendError> {
        let inner: usize = given.dims.iter().skip(self.axis + 1).product();
        let elements = given.values.len() / length * width;
        let (has_values, has_indices) = match self.operation {
            Operation::Argmax => (false, true),
            Operation::TopK(_) => (true, true),
            Operation::Normalize | Operation::Softmax | Operation::Scale(..) => (true, false),
        };
        let mut found = Reduction {
            values: vec![0.0; if has_values { elements } else { 0 }],
            indices: vec![0; if has_indices { elements } else { 0 }],
        };
        let mut line = Line::default();
        for (number, block) in given.values.chunks_exact(length * inner).enumerate() {
            if number.is_multiple_of(BLOCKS_OF_CHECK) {
                call.check()?;
            }
            for at in 0..inner {
                line.values.clear();
                line.values.extend(block.iter().skip(at).step_by(inner));
                self.apply(&mut line);
                let from = number * width * inner + at;
                let values = found.values.iter_mut().skip(from).step_by(inner);
                values.zip(&line.values).for_each(|(place, value)| *place = *value);
                let indices = found.indices.iter_mut().skip(from).step_by(inner);
                indices.zip(&line.places).for_each(|(place, index)| *place = *index as i64);
            }
        }
        Ok(found)
    }

    /// Turns the values along the axis into those of the output, and into their places.
    fn apply(&self, line: &mut Line) {
        let Line { values, places, spare } = line;
        match &self.operation {
            Operation::Normalize => normalize(values),
            Operation::Softmax => softmax(values),
            Operation::Argmax => {
                places.clear();
                places.push(argmax(values));
            }
            Operation::TopK(k) => {
                places.clear();
                places.extend(0..values.len());
                // Stable: of equal values the first comes first.
                places.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
                places.truncate(*k);
                spare.clear();
                spare.extend(places.iter().map(|it| values[*it]));
                mem::swap(values, spare);
            }
            Operation::Scale(mean, std) => {
                // There is one for each value, as `width` has checked.
                let of = |all: &[f32], at: usize| if let [one] = all { *one } else { all[at] };
                for (at, value) in values.iter_mut().enumerate() {
                    *value = (*value - of(mean, at)) / of(std, at);
                }
            }
        }
    }
}
