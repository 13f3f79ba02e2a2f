//! From sums to what clients get: predictions as the library gives them, or classes and probabilities as Triton's FIL
//! does. Pure.

use std::sync::Arc;

use backend::{BackendError, NamedTensor, Shape, Tensor};

use crate::forest::{document::Transform, packed::Forest, single, sum::Sum};

/// What an output is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// What the library's `predict` gives.
    Predictions,
    /// The sums before the transform.
    Margins,
    /// A class by its number: of two classes 1 if its probability is above the threshold, of more the first of the
    /// largest probability.
    Class {
        /// Of two classes.
        threshold: f32,
    },
    /// The probabilities of both classes, where the model has that of one.
    BothClasses,
}

/// A row of sums in one precision, and the transform of that precision.
pub(crate) trait Predicted: Sum + Default + backend::Element + PartialOrd + Send {
    /// Predictions of the sums, in place. The first [`Forest::width`] are those.
    fn transform(transform: Transform, row: &mut [Self]);

    /// 1 - it.
    fn complement(self) -> Self;

    /// A class.
    fn number(class: usize) -> Self;

    /// Is it above the threshold?
    fn is_above(self, threshold: f32) -> bool;
}

impl Predicted for f32 {
    fn transform(transform: Transform, row: &mut [f32]) {
        match transform {
            Transform::Single(transform) => transform.apply(row),
            Transform::Double(_) => unreachable!("its sums have 64 bits"),
        }
    }

    fn complement(self) -> f32 {
        1.0 - self
    }

    fn number(class: usize) -> f32 {
        class as f32
    }

    fn is_above(self, threshold: f32) -> bool {
        threshold < self
    }
}

impl Predicted for f64 {
    fn transform(transform: Transform, row: &mut [f64]) {
        match transform {
            Transform::Double(transform) => transform.apply(row),
            Transform::Single(_) => unreachable!("its sums have 32 bits"),
        }
    }

    fn complement(self) -> f64 {
        1.0 - self
    }

    fn number(class: usize) -> f64 {
        class as f64
    }

    fn is_above(self, threshold: f32) -> bool {
        f64::from(threshold) < self
    }
}

impl Form {
    /// Columns of such an output.
    pub fn width(self, forest: &Forest) -> usize {
        match self {
            Form::Predictions => forest.width(),
            Form::Margins => forest.sums(),
            Form::Class { .. } => 1,
            Form::BothClasses => 2,
        }
    }

    /// The output of rows whose sums of 32 bits these are.
    pub fn single(self, forest: &Forest, sums: Vec<f32>) -> Vec<f32> {
        self.of(forest, sums)
    }

    /// The output of rows whose sums of 64 bits these are.
    pub fn double(self, forest: &Forest, sums: Vec<f64>) -> Vec<f64> {
        self.of(forest, sums)
    }

    fn of<T: Predicted>(self, forest: &Forest, mut sums: Vec<T>) -> Vec<T> {
        let (of_row, width) = (forest.sums(), forest.width());
        if self == Form::Margins {
            return sums;
        }
        sums.chunks_mut(of_row).for_each(|row| T::transform(forest.transform, row));
        let rows = sums.chunks(of_row).map(|row| &row[..width]);
        match self {
            Form::Margins => sums,
            Form::Predictions if width == of_row => sums,
            Form::Predictions => rows.flatten().copied().collect(),
            Form::Class { threshold } => {
                rows.map(|row| T::number(class_of(row, threshold))).collect()
            }
            Form::BothClasses => rows.flat_map(|row| [row[0].complement(), row[0]]).collect(),
        }
    }
}

fn class_of<T: Predicted>(row: &[T], threshold: f32) -> usize {
    match row {
        [only] => usize::from(only.is_above(threshold)),
        _ => (1..row.len()).fold(0, |best, i| if row[best] < row[i] { i } else { best }),
    }
}

/// The outputs of rows whose sums these are, in the forms that are asked for.
pub(crate) fn outputs<T: Predicted>(
    forest: &Forest,
    sums: Vec<T>,
    wanted: &[(Arc<str>, Form)],
) -> Result<Vec<NamedTensor>, BackendError> {
    let rows = sums.len() / forest.sums();
    let mut sums = Some(sums);
    let last = wanted.len().saturating_sub(1);
    let make = |(i, (name, form)): (usize, &(Arc<str>, Form))| {
        // The last output takes the sums, so that the usual one is no copy.
        let own = if i == last { sums.take() } else { sums.clone() };
        let values = form.of(forest, own.unwrap_or_default());
        let tensor = Tensor::from_vec(Shape::new(&[rows, form.width(forest)]), values);
        let tensor = tensor.map_err(|it| BackendError::Execute(it.to_string()))?;
        Ok(NamedTensor { name: name.clone(), tensor })
    };
    wanted.iter().enumerate().map(make).collect()
}

/// The transform under which a model tells Triton's FIL the probabilities of classes: a model that answers with the
/// number of a class has them, too.
pub fn probabilities(transform: Transform) -> Transform {
    match transform {
        Transform::Single(single::Transform::ArgMax) => {
            Transform::Single(single::Transform::Softmax)
        }
        Transform::Single(_) | Transform::Double(_) => transform,
    }
}

/// Are the predictions numbers of 64 bits?
pub fn is_double(transform: Transform) -> bool {
    match transform {
        Transform::Single(_) => false,
        Transform::Double(_) => true,
    }
}
