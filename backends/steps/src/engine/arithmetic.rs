//! The steps that take one tensor and give one: `normalize`, `softmax`, `top_k`, `argmax` and `scale`.

use std::sync::Arc;

use backend::{BackendError, ModelSource, NamedTensor};

use super::{
    call::{Call, invalid},
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, INTEGERS, port, spec},
    settings::Settings,
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
pub(super) fn dims(settings: &Settings<'_>) -> Vec<Option<usize>> {
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
pub(super) fn open(settings: &Settings<'_>, step: &str) -> Result<Opened, BackendError> {
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
fn axis(settings: &Settings<'_>, rank: usize) -> Result<usize, BackendError> {
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
        let inner: usize = given.dims.iter().skip(self.axis + 1).product();
        let outer: usize = given.dims.iter().take(self.axis).product();
        let line = |outer: usize, at: usize| -> Vec<f32> {
            let from = outer * length * inner + at;
            (0..length).map(|it| given.values[from + it * inner]).collect()
        };
        let mut lines = Vec::with_capacity(outer * inner);
        let mut picked: Vec<Vec<i64>> = Vec::new();
        for (outer, at) in (0..outer).flat_map(|it| (0..inner).map(move |at| (it, at))) {
            let mut values = line(outer, at);
            let indices = self.apply(&mut values)?;
            lines.push(values);
            picked.extend(indices);
        }
        let mut dims = given.dims.clone();
        let has_indices = !picked.is_empty();
        let width = match (lines.first(), picked.first()) {
            (_, Some(indices)) => indices.len(),
            (Some(values), None) => values.len(),
            (None, None) => 0,
        };
        dims[self.axis] = width;
        let output = |name: &Arc<str>| {
            let is_index = &**name == INDICES || matches!(self.operation, Operation::Argmax);
            match is_index && has_indices {
                true => call.integer_output(name, &dims, in_place(&picked, outer, inner)),
                false if is_index => call.integer_output(name, &dims, Vec::new()),
                false => call.float_output(name, &dims, in_place(&lines, outer, inner)),
            }
        };
        call.batch.outputs.iter().map(output).collect()
    }
}

impl Arithmetic {
    /// Turns the values along the axis into those of the output, or into their places.
    fn apply(&self, values: &mut Vec<f32>) -> Result<Option<Vec<i64>>, BackendError> {
        let count = values.len();
        match &self.operation {
            Operation::Normalize => normalize(values),
            Operation::Softmax => softmax(values),
            Operation::Argmax if count == 0 => {
                return Err(invalid(&self.input, "it has no values"));
            }
            Operation::Argmax => return Ok(Some(vec![argmax(values) as i64])),
            Operation::TopK(k) if *k > count => {
                let problem = format!("it has {count} values along the axis, and k is {k}");
                return Err(invalid(&self.input, &problem));
            }
            Operation::TopK(k) => {
                let mut ranked: Vec<usize> = (0..count).collect();
                // Stable: of equal values the first comes first.
                ranked.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
                ranked.truncate(*k);
                *values = ranked.iter().map(|it| values[*it]).collect();
                return Ok(Some(ranked.into_iter().map(|it| it as i64).collect()));
            }
            Operation::Scale(mean, std) => {
                let of = |all: &Vec<f32>, at: usize| match all.as_slice() {
                    [one] => Some(*one),
                    all => all.get(at).copied(),
                };
                for (at, value) in values.iter_mut().enumerate() {
                    let Some((mean, std)) = of(mean, at).zip(of(std, at)) else {
                        let problem = format!("it has {count} values along the axis");
                        return Err(invalid(&self.input, &problem));
                    };
                    *value = (*value - mean) / std;
                }
            }
        }
        Ok(None)
    }
}

/// Lines along an axis as the elements of a tensor.
fn in_place<T: Copy>(lines: &[Vec<T>], outer: usize, inner: usize) -> Vec<T> {
    let width = lines.first().map_or(0, Vec::len);
    let mut all = Vec::with_capacity(lines.len() * width);
    for block in lines.chunks(inner.max(1)).take(outer) {
        for at in 0..width {
            all.extend(block.iter().map(|it| it[at]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_back_to_their_places() {
        let lines = [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9], vec![10, 11, 12]];
        let expect = [1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12];
        assert_eq!(in_place(&lines, 2, 2), expect);
    }
}
