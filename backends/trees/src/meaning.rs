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
    /// How many classes a classifier of scikit-learn gives probabilities of.
    pub(crate) classes: Option<usize>,
    /// The classes of such a classifier: themselves where they are whole numbers, else their places.
    pub(crate) class_numbers: Option<Arc<[i64]>>,
    /// The classes of such a classifier where they are texts.
    pub(crate) class_names: Option<Arc<[String]>>,
}

impl Meaning {
    /// That of a document.
    pub(crate) fn of(document: &Document) -> Meaning {
        let is_estimator = document.is_estimator;
        let classes = document.classes.filter(|_| is_estimator);
        // One that met a single class in training answers it; boosters give probabilities of two even so.
        let are_all = |known: usize, count: usize| known == count || known == 1;
        let (known, names) = (&document.class_numbers, &document.class_names);
        let class_numbers = classes.map(|count| match are_all(known.len(), count) {
            true => known.clone().into(),
            false => (0..count as i64).collect(),
        });
        let class_names = classes.filter(|count| are_all(names.len(), *count));
        let class_names = class_names.map(|_| names.clone().into());
        let gives_numbers =
            matches!(document.origin.library, Library::Lightgbm | Library::ScikitLearn);
        let threshold = threshold(document);
        Meaning { threshold, is_estimator, gives_numbers, classes, class_numbers, class_names }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::document::Origin;

    #[test]
    fn the_only_class_that_a_booster_met_is_what_it_answers_beside_two_probabilities() {
        let origin = Origin { library: Library::Lightgbm, version: String::new(), format: "text" };
        let mut document = Document::new(origin, Transform::Single(single::Transform::Logistic));
        document.is_estimator = true;
        document.classes = Some(2);
        let of = |numbers: &[i64]| {
            let meaning =
                Meaning::of(&Document { class_numbers: numbers.into(), ..document.clone() });
            (meaning.classes, meaning.class_numbers.unwrap().to_vec())
        };
        assert_eq!(of(&[5]), (Some(2), vec![5]));
        assert_eq!(of(&[3, 9]), (Some(2), vec![3, 9]));
        assert_eq!(of(&[]), (Some(2), vec![0, 1]));
    }
}
