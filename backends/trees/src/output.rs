//! From sums to what clients get: predictions as the library gives them, or classes and probabilities as Triton's FIL
//! does. Pure.

use std::sync::Arc;

use backend::{BackendError, DataType, Element, Shape, Tensor};

use crate::{
    folds::{combine, mean, names_a_class},
    forest::{calibration::Said, document::Transform, packed::Forest, single},
    predicted::Predicted,
};

/// What an output is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// What the library's `predict` gives.
    Predictions,
    /// The same of one value, as one number a row and no list of one.
    Number,
    /// The sums before the transform.
    Margins,
    /// A class by its number: the prediction where that is one; else of two classes 1 if the prediction is above the
    /// threshold, of more the first of the largest probability.
    Class {
        /// Of two classes.
        threshold: f32,
    },
    /// The same, as one number a row and no list of one.
    Label {
        /// Of two classes.
        threshold: f32,
    },
    /// The probabilities of both classes, where the model has that of one.
    BothClasses,
    /// The leaf of each tree, by its number in the file.
    Leaves,
    /// What each feature contributes to each sum, and behind them what the sum is without any.
    Contributions {
        /// Is there one dimension for all sums, also where there are several?
        is_flat: bool,
    },
}

/// One output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Output {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// What it is.
    pub(crate) form: Form,
    /// Its type: of numbers with a fraction FP32 or FP64, whatever the forest computes in.
    pub(crate) dtype: DataType,
    /// Of classes: the number that each has in an answer; `None` for their places.
    pub(crate) class_numbers: Option<Arc<[i64]>>,
    /// Of classes: the text of each, where answers are texts.
    pub(crate) class_names: Option<Arc<[String]>>,
}

impl Output {
    /// Bytes of a row.
    pub(crate) fn bytes_of_row(&self, forests: &[Forest]) -> usize {
        let size = self.dtype.size().unwrap_or(0);
        self.form.dims(forests).into_iter().fold(size, usize::saturating_mul)
    }
}

impl Form {
    /// Dimensions of such an output of a row.
    pub fn dims(self, forests: &[Forest]) -> Vec<usize> {
        let first = &forests[0];
        match self {
            Form::Predictions => vec![first.width()],
            Form::Margins => vec![first.sums()],
            Form::Class { .. } => vec![1],
            Form::Label { .. } | Form::Number => Vec::new(),
            Form::BothClasses => vec![2],
            Form::Leaves => vec![forests.iter().map(|it| it.trees.len()).sum()],
            Form::Contributions { is_flat: false } if 1 < first.sums() => {
                vec![first.sums(), first.features + 1]
            }
            Form::Contributions { .. } => vec![first.sums() * (first.features + 1)],
        }
    }

    /// Is it made of the sums of rows?
    pub fn is_of_sums(self) -> bool {
        !matches!(self, Form::Leaves | Form::Contributions { .. })
    }

    fn of<T: Predicted>(self, forest: &Forest, sums: Vec<T>) -> Vec<T> {
        match self {
            Form::Margins => sums,
            _ => self.of_predictions(predictions(forest, sums), forest),
        }
    }

    /// The output of rows whose predictions these are.
    fn of_predictions<T: Predicted>(self, predictions: Vec<T>, forest: &Forest) -> Vec<T> {
        let width = forest.width();
        let rows = || predictions.chunks(width);
        match self {
            Form::Class { .. } | Form::Label { .. }
                if width == 1 && names_a_class(forest.transform) =>
            {
                predictions
            }
            Form::Class { threshold } | Form::Label { threshold } => {
                rows().map(|row| T::number(class_of(row, threshold))).collect()
            }
            Form::BothClasses => rows().flat_map(|row| [row[0].complement(), row[0]]).collect(),
            // The last two are not made of these.
            Form::Margins
            | Form::Predictions
            | Form::Number
            | Form::Leaves
            | Form::Contributions { .. } => predictions,
        }
    }

    /// The output of rows whose sums these are, those of each of a model's forests.
    fn of_all<T: Predicted>(self, forests: &[Forest], mut sums: Vec<Vec<T>>) -> Vec<T> {
        let first = &forests[0];
        match self {
            _ if sums.len() < 2 => self.of(first, sums.pop().unwrap_or_default()),
            Form::Margins => mean(sums),
            _ => {
                let all = forests.iter().zip(sums).map(|(forest, sums)| predictions(forest, sums));
                self.of_predictions(combine(first.transform, all.collect()), first)
            }
        }
    }
}

/// What the library's `predict` gives for rows whose sums these are.
fn predictions<T: Predicted>(forest: &Forest, mut sums: Vec<T>) -> Vec<T> {
    let (of_row, width) = (forest.sums(), forest.transformed());
    sums.chunks_mut(of_row).for_each(|row| T::transform(forest.transform, row));
    match width == of_row {
        true => sums,
        false => sums.chunks(of_row).flat_map(|row| &row[..width]).copied().collect(),
    }
}

fn class_of<T: Predicted>(row: &[T], threshold: f32) -> usize {
    match row {
        [only] => usize::from(only.is_above(threshold)),
        _ => (1..row.len()).fold(0, |best, i| if row[best] < row[i] { i } else { best }),
    }
}

/// An output of rows whose sums these are, those of each of a model's forests.
pub(crate) fn of_sums<T: Predicted>(
    output: &Output,
    forests: &[Forest],
    sums: Vec<Vec<T>>,
) -> Result<Tensor, BackendError> {
    let rows = sums[0].len() / forests[0].sums();
    if output.form == Form::Margins || forests[0].calibration.is_none() {
        return answered(output, forests, rows, output.form.of_all(forests, sums));
    }
    let all = forests.iter().zip(sums).map(|(forest, sums)| calibrated(forest, sums)).collect();
    answered(output, forests, rows, output.form.of_predictions(mean(all), &forests[0]))
}

/// The probabilities that calibration makes of sums.
fn calibrated<T: Predicted>(forest: &Forest, sums: Vec<T>) -> Vec<f64> {
    let Some(calibration) = &forest.calibration else {
        return predictions(forest, sums).into_iter().map(Into::into).collect();
    };
    let (said, width) = match calibration.said() {
        Said::Sums { .. } => (sums, forest.sums()),
        Said::Probabilities => (predictions(forest, sums), forest.transformed()),
    };
    let mut all = Vec::with_capacity(said.len() / width * calibration.classes());
    said.chunks(width)
        .for_each(|row| calibration.extend(row.iter().map(|it| (*it).into()), &mut all));
    all
}

/// An output whose values these are.
fn answered<T: Predicted>(
    output: &Output,
    forests: &[Forest],
    rows: usize,
    values: Vec<T>,
) -> Result<Tensor, BackendError> {
    let dims = output.form.dims(forests);
    let is_class = matches!(output.form, Form::Class { .. } | Form::Label { .. });
    match (&output.class_names, &output.class_numbers) {
        (Some(names), _) if is_class && output.dtype == DataType::Bytes => {
            return class_names(rows, &dims, values, names);
        }
        (_, Some(numbers)) if is_class => {
            return class_numbers(output.dtype, rows, &dims, values, numbers);
        }
        _ => {}
    }
    match output.dtype {
        _ if output.dtype == T::DTYPE => tensor(rows, &dims, values),
        DataType::Fp32 => {
            tensor(rows, &dims, values.into_iter().map(Predicted::to_single).collect())
        }
        _ => tensor::<f64>(rows, &dims, values.into_iter().map(Into::into).collect()),
    }
}

/// The texts of classes whose places these are.
fn class_names<T: Predicted>(
    rows: usize,
    dims: &[usize],
    places: Vec<T>,
    names: &[String],
) -> Result<Tensor, BackendError> {
    let last = names.len().saturating_sub(1);
    let of = |place: T| names.get((place.into() as usize).min(last)).map_or("", String::as_str);
    let dims: Vec<usize> = std::iter::once(rows).chain(dims.iter().copied()).collect();
    Tensor::from_strings(Shape::new(&dims), places.into_iter().map(of))
        .map_err(|it| BackendError::Execute(it.to_string()))
}

/// The numbers of classes whose places these are. The only class of a model is the answer, however likely it is.
fn class_numbers<T: Predicted>(
    dtype: DataType,
    rows: usize,
    dims: &[usize],
    places: Vec<T>,
    numbers: &[i64],
) -> Result<Tensor, BackendError> {
    let last = numbers.len().saturating_sub(1);
    let of = |place: T| numbers.get((place.into() as usize).min(last)).copied().unwrap_or(0);
    let numbers = places.into_iter().map(of);
    match dtype {
        DataType::Fp32 => tensor(rows, dims, numbers.map(|it| it as f32).collect()),
        DataType::Fp64 => tensor(rows, dims, numbers.map(|it| it as f64).collect()),
        _ => tensor::<i64>(rows, dims, numbers.collect()),
    }
}

/// Values of so many rows, each with these dimensions.
pub(crate) fn tensor<E: Element + Send>(
    rows: usize,
    dims: &[usize],
    values: Vec<E>,
) -> Result<Tensor, BackendError> {
    let dims: Vec<usize> = std::iter::once(rows).chain(dims.iter().copied()).collect();
    Tensor::from_vec(Shape::new(&dims), values).map_err(|it| BackendError::Execute(it.to_string()))
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

/// Are the sums, and what the transform makes of them, numbers of 64 bits?
pub fn is_double(transform: Transform) -> bool {
    match transform {
        Transform::Single(_) => false,
        Transform::Double(_) => true,
    }
}
