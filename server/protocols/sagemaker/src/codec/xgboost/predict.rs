//! From the outputs of an exported model to what XGBoost itself would have predicted, and what can be said of it.

use std::borrow::Cow;

use backend::{DataType, NamedTensor, Shape, Tensor};

use super::{
    objective::{Objective, PARAMETER},
    options::OutputKey as Key,
};
use crate::codec::predictions::Predictions;
use formats::{recordio::floats, reply};
use inference::{error::Error, request::InferenceResponse, signature::Signature};

/// Classes that a file may have. What a configuration says beyond that is not listed in replies.
const MOST_CLASSES: usize = 1 << 16;

/// The classes that a configuration says, where they are listed.
pub(super) fn listed(told: Option<usize>) -> Option<usize> {
    told.filter(|it| *it <= MOST_CLASSES)
}

/// What is known of a model besides its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// What it was trained for.
    pub objective: Option<Objective>,
    /// Classes that it tells apart.
    pub classes: Option<usize>,
    /// Labels, targets or quantiles of which a prediction has a number each. A file of XGBoost says it, and then its
    /// output is what `predict` gives.
    pub targets: Option<usize>,
}

/// The predictions of a response, as the container's `predict` would give them.
pub(super) struct Raw {
    objective: Objective,
    rows: usize,
    /// Numbers in one prediction: one for each class, or for each target.
    classes: usize,
    /// Are there several targets?
    is_of_targets: bool,
    /// `[rows, classes]`.
    values: Vec<f32>,
    /// How many classes there are, as far as the outputs tell; `None` too for what is no classifier.
    all_classes: Option<usize>,
}

impl Raw {
    /// Those of a response.
    ///
    /// A converted classifier gives a label and probabilities: two of them are `binary:logistic`, of which XGBoost
    /// predicts the probability of class 1; more are `multi:softprob`. Without a label, several numbers are
    /// `multi:softprob`, and one is a regression, or a probability if its name begins so. A label alone is
    /// `multi:softmax`. What was `told` goes before that: classes count where the outputs do not say how many there
    /// are, and of several targets a prediction is a list. More numbers than an objective has of one target are those
    /// of several.
    ///
    /// # Errors
    /// When the outputs are no such thing, or cannot be the predictions of the objective that was given.
    pub(super) fn of(
        told: &Told,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<Raw, Error> {
        let rows = reply::rows_of(signature, response).unwrap_or_else(|| agreed(response));
        let scores = response.outputs.iter().find(|it| is_float(it.tensor.dtype()));
        let label = response.outputs.iter().find(|it| is_integer(it.tensor.dtype()));
        let derived = || match (scores, label) {
            (Some(scores), label) => derive(scores, label.is_some(), rows),
            (None, _) => Objective::Softmax,
        };
        let objective = told.objective.unwrap_or_else(derived);
        let classes = matches!(objective, Objective::Hinge | Objective::Softmax);
        let output = match classes {
            true => label.or(scores),
            false => scores.or(label),
        };
        let NamedTensor { name, tensor } = output.ok_or_else(|| {
            Error::Internal(
                "the model has no output of numbers that could be a prediction".to_owned(),
            )
        })?;
        let (values, columns) = (floats(tensor), columns(tensor, rows));
        let all_classes = match objective {
            Objective::Regression => None,
            Objective::Logistic | Objective::LogitRaw | Objective::Hinge => Some(2),
            Objective::Softmax | Objective::Softprob => scores
                .map(|it| self::columns(&it.tensor, rows))
                .filter(|&it| it > 1 || objective == Objective::Softprob)
                .or(listed(told.classes)),
        };
        let raw = |classes, values| {
            let is_of_targets = 1 < classes && objective != Objective::Softprob;
            Ok(Raw { objective, rows, classes, is_of_targets, values, all_classes })
        };
        match (objective, columns) {
            (Objective::Softprob, 1..) | (_, 1) => raw(columns, values),
            // What a file of XGBoost predicts is not made of anything else.
            (_, 2..) if told.targets == Some(columns) => raw(columns, values),
            (Objective::Logistic | Objective::LogitRaw, 2) => {
                raw(1, values.iter().skip(1).step_by(2).copied().collect())
            }
            (Objective::Hinge | Objective::Softmax, 2..) => {
                raw(1, values.chunks(columns).map(|it| largest(it) as f32).collect())
            }
            (Objective::Regression, 2..) | (Objective::Logistic | Objective::LogitRaw, 3..) => {
                raw(columns, values)
            }
            _ => Err(Error::Internal(format!(
                "output '{name}' has {columns} numbers in a row, which is no prediction of {objective:?}; the \
                 model parameter {PARAMETER} says what it is"
            ))),
        }
    }

    /// The predictions alone.
    pub(super) fn scores<'a>(&self, name: &'a str) -> Result<Predictions<'a>, Error> {
        Predictions::new(self.rows, vec![(name.into(), self.values(&self.values)?)])
    }

    /// What was asked for of each prediction; NaN where that cannot be said.
    pub(super) fn select(&self, keys: &[Key]) -> Result<Predictions<'static>, Error> {
        let fields = keys.iter().map(|&key| Ok((Cow::Borrowed(key.name()), self.field(key)?)));
        Predictions::new(self.rows, fields.collect::<Result<_, Error>>()?)
    }

    /// Of several targets what is said of each is a list.
    fn field(&self, key: Key) -> Result<Tensor, Error> {
        if !self.objective.knows(key) {
            return column(vec![f32::NAN; self.rows]);
        }
        let several = self.objective == Objective::Softprob;
        let rows = self.values.chunks(self.classes.max(1));
        match key {
            Key::PredictedLabel => match self.objective {
                Objective::Logistic => self.of_each(|it| i64::from(it > 0.5)),
                Objective::LogitRaw => self.of_each(|it| i64::from(it > 0.0)),
                Objective::Softprob => column(rows.map(|it| largest(it) as i64).collect()),
                // These predict the label itself.
                Objective::Regression | Objective::Hinge | Objective::Softmax => {
                    self.values(&self.values)
                }
            },
            Key::Labels => {
                let Some(classes) = self.all_classes else {
                    return column(vec![f32::NAN; self.rows]);
                };
                let labels = (0..self.rows).flat_map(|_| 0..classes as i64).collect();
                tensor(&[self.rows, classes], labels)
            }
            Key::Probability | Key::RawScore if several => {
                column(rows.map(|it| it.get(largest(it)).copied().unwrap_or(f32::NAN)).collect())
            }
            Key::Probabilities | Key::RawScores if several => self.values(&self.values),
            Key::Probability | Key::RawScore | Key::PredictedScore => self.values(&self.values),
            Key::Probabilities | Key::RawScores => {
                let both = self.values.iter().flat_map(|&it| [1.0 - it, it]).collect();
                match self.is_of_targets {
                    true => tensor(&[self.rows, self.classes, 2], both),
                    false => tensor(&[self.rows, 2], both),
                }
            }
        }
    }

    /// As many numbers as the predictions have.
    fn values(&self, values: &[f32]) -> Result<Tensor, Error> {
        match self.classes {
            1 if self.objective != Objective::Softprob => column(values.to_vec()),
            classes => tensor(&[self.rows, classes], values.to_vec()),
        }
    }

    /// A number for each that the predictions have.
    fn of_each(&self, number: impl Fn(f32) -> i64) -> Result<Tensor, Error> {
        let numbers = self.values.iter().map(|it| number(*it)).collect();
        match self.is_of_targets {
            true => tensor(&[self.rows, self.classes], numbers),
            false => column(numbers),
        }
    }
}

/// What the model was trained for, from its scores and whether there is a label beside them.
fn derive(scores: &NamedTensor, with_label: bool, rows: usize) -> Objective {
    match (with_label, columns(&scores.tensor, rows)) {
        (true, 0..=2) => Objective::Logistic,
        (false, 0..=1) if scores.name.to_ascii_lowercase().starts_with("prob") => {
            Objective::Logistic
        }
        (false, 0..=1) => Objective::Regression,
        _ => Objective::Softprob,
    }
}

/// The first dimension of all outputs of a model that does not batch, whose rows its own shapes count; 1 where they
/// differ or there is none.
fn agreed(response: &InferenceResponse) -> usize {
    let mut sizes = response.outputs.iter().map(|it| it.tensor.shape().rows());
    let first = sizes.next().flatten();
    first.filter(|it| sizes.all(|other| other == Some(*it))).unwrap_or(1)
}

fn columns(tensor: &Tensor, rows: usize) -> usize {
    tensor.elements().checked_div(rows).unwrap_or(0)
}

/// Where the largest number of a row is; the first of equal ones.
fn largest(row: &[f32]) -> usize {
    let mut best = 0;
    for (at, value) in row.iter().enumerate() {
        if row.get(best).is_some_and(|it| it < value) {
            best = at;
        }
    }
    best
}

fn column<T: backend::Element + Send>(values: Vec<T>) -> Result<Tensor, Error> {
    tensor(&[values.len()], values)
}

fn tensor<T: backend::Element + Send>(dims: &[usize], values: Vec<T>) -> Result<Tensor, Error> {
    Tensor::from_vec(Shape::new(dims), values).map_err(|it| Error::Internal(it.to_string()))
}

fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

fn is_integer(dtype: DataType) -> bool {
    !is_float(dtype) && dtype != DataType::Bytes
}
