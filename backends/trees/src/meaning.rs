//! What a file says of its predictions, and a forest does not. Pure.

use std::sync::Arc;

use crate::forest::{
    document::{Document, Library, Transform},
    double, single,
};

/// What predictions mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meaning {
    /// Above which prediction a label is the second of two classes, where no parameter says so.
    pub(crate) threshold: f32,
    /// Is the model an estimator of scikit-learn?
    pub(crate) is_estimator: bool,
    /// Does `predict` of its library give one number a row where there is one value, and no list of one?
    pub(crate) gives_numbers: bool,
    /// The classes of a classifier of scikit-learn: themselves where they are whole numbers, else their places.
    pub(crate) class_numbers: Option<Arc<[i64]>>,
    /// The classes of such a classifier where they are texts.
    pub(crate) class_names: Option<Arc<[String]>>,
}

impl Meaning {
    /// That of a document.
    pub(crate) fn of(document: &Document) -> Meaning {
        let is_estimator = document.is_estimator;
        let places = |count: usize| (0..count as i64).collect();
        let numbers = |count: usize| match document.class_numbers.len() == count {
            true => document.class_numbers.clone().into(),
            false => places(count),
        };
        let class_numbers = document.classes.filter(|_| is_estimator).map(numbers);
        let names = &document.class_names;
        let class_names = document.classes.filter(|it| is_estimator && names.len() == *it);
        let class_names = class_names.map(|_| names.clone().into());
        let gives_numbers =
            matches!(document.origin.library, Library::Lightgbm | Library::ScikitLearn);
        let threshold = threshold(document);
        Meaning { threshold, is_estimator, gives_numbers, class_numbers, class_names }
    }
}

/// Zero for sums, a half for probabilities. A mean of the trees is a probability.
fn threshold(document: &Document) -> f32 {
    let is_sum = matches!(
        document.transform,
        Transform::Single(single::Transform::Identity)
            | Transform::Double(double::Transform::Identity)
    );
    let is_classifier = document.classes == Some(2);
    if is_classifier && is_sum && document.average_over.is_none() { 0.0 } else { 0.5 }
}
