//! Several forests that are one model, as training by k folds makes them: one answer of the answers of all. Pure.

use crate::{
    forest::{
        document::{Document, Library, Transform},
        single,
    },
    predicted::Predicted,
};

/// Forests of a model.
pub const MOST: usize = 100;

/// What must be equal in all forests of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Face {
    library: Library,
    objective: String,
    features: usize,
    sums: usize,
    class_numbers: Vec<i64>,
    class_names: Vec<String>,
    missing: Option<f64>,
    transform: Transform,
}

impl Face {
    /// That of a document.
    pub fn of(document: &Document) -> Face {
        Face {
            library: document.origin.library,
            objective: document.objective.clone(),
            features: document.features,
            sums: document.sums(),
            class_numbers: document.class_numbers.clone(),
            class_names: document.class_names.clone(),
            missing: document.missing,
            transform: document.transform,
        }
    }

    /// In what two of them differ: what it is called, what the one and the other have.
    pub fn difference(&self, other: &Face) -> Option<(&'static str, String, String)> {
        let number = |name, one: usize, two: usize| {
            (one != two).then(|| (name, one.to_string(), two.to_string()))
        };
        let libraries = || {
            let (one, two) = (self.library.name(), other.library.name());
            (one != two).then(|| ("library", one.to_owned(), two.to_owned()))
        };
        let objectives = || {
            let (one, two) = (&self.objective, &other.objective);
            (one != two).then(|| ("objective", one.clone(), two.clone()))
        };
        let classes = || {
            let (one, two) = (&self.class_numbers, &other.class_numbers);
            (one != two).then(|| ("classes", format!("{one:?}"), format!("{two:?}")))
        };
        let names = || {
            let (one, two) = (&self.class_names, &other.class_names);
            (one != two).then(|| ("classes", format!("{one:?}"), format!("{two:?}")))
        };
        let missing = || {
            let (one, two) = (self.missing, other.missing);
            (one != two).then(|| ("missing value", format!("{one:?}"), format!("{two:?}")))
        };
        let transforms = || {
            let (one, two) = (self.transform, other.transform);
            (one != two).then(|| ("predictions", format!("{one:?}"), format!("{two:?}")))
        };
        libraries()
            .or_else(objectives)
            .or_else(|| number("features", self.features, other.features))
            .or_else(|| number("outputs", self.sums, other.sums))
            .or_else(classes)
            .or_else(names)
            .or_else(missing)
            .or_else(transforms)
    }
}

/// One answer of those of several forests, all of the same length, of which there is at least one: the class that most
/// of them name, else their mean. As XGBoost's container: the least of several classes that are named as often, and
/// the mean is rounded after each addition.
pub(crate) fn combine<T: Predicted>(transform: Transform, answers: Vec<Vec<T>>) -> Vec<T> {
    if names_a_class(transform) { votes(&answers) } else { mean(answers) }
}

/// Is a prediction the number of a class?
pub(crate) fn names_a_class(transform: Transform) -> bool {
    let classes = [single::Transform::ArgMax, single::Transform::Hinge];
    matches!(transform, Transform::Single(it) if classes.contains(&it))
}

/// The mean of each value.
pub(crate) fn mean<T: Predicted>(answers: Vec<Vec<T>>) -> Vec<T> {
    let count = T::number(answers.len());
    let mut answers = answers.into_iter();
    let mut sums = answers.next().unwrap_or_default();
    for answer in answers {
        sums.iter_mut().zip(answer).for_each(|(sum, it)| *sum += it);
    }
    sums.iter_mut().for_each(|it| *it /= count);
    sums
}

fn votes<T: Predicted>(answers: &[Vec<T>]) -> Vec<T> {
    let length = answers.first().map_or(0, Vec::len);
    let vote = |at: usize| {
        let named = || answers.iter().map(|it| it[at]);
        let count = |class: T| named().filter(|it| *it == class).count();
        let better = |best: T, it: T| {
            let (one, two) = (count(best), count(it));
            one < two || one == two && it < best
        };
        named().reduce(|best, it| if better(best, it) { it } else { best })
    };
    (0..length).filter_map(vote).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::testing::{document, stump};

    #[test]
    fn most_votes_win_and_of_equals_the_least_class() {
        let classes = |transform, answers: &[&[f32]]| {
            combine(Transform::Single(transform), answers.iter().map(|it| it.to_vec()).collect())
        };
        let three: [&[f32]; 3] = [&[2.0, 1.0, 5.0], &[0.0, 1.0, 3.0], &[2.0, 0.0, 4.0]];
        assert_eq!(classes(single::Transform::ArgMax, &three), [2.0, 1.0, 3.0]);
        let two: [&[f32]; 2] = [&[1.0, 0.0], &[0.0, 0.0]];
        assert_eq!(classes(single::Transform::Hinge, &two), [0.0, 0.0]);
        assert_eq!(classes(single::Transform::Softmax, &two), [0.5, 0.0]);
    }

    #[test]
    fn means_are_rounded_after_each_addition_as_by_numpy_in_32_bits() {
        // numpy.mean of three arrays of float32. With sums of 64 bits it ends in 8.
        let thirds = mean(vec![vec![0.51_f32], vec![0.95], vec![0.14]]);
        assert_eq!(thirds[0].to_bits(), 0x3f08_8889);
        assert_eq!(mean(vec![vec![0.5_f32]]), [0.5]);
    }

    #[test]
    fn forests_of_one_model_agree() {
        let one = document(vec![stump()]);
        let face = Face::of(&one);
        assert_eq!(face.difference(&face.clone()), None);
        let wider = Face { features: face.features + 1, ..face.clone() };
        assert_eq!(face.difference(&wider).unwrap().0, "features");
        let other = Face { objective: "reg:gamma".to_owned(), ..face.clone() };
        let (what, _, given) = face.difference(&other).unwrap();
        assert_eq!((what, &*given), ("objective", "reg:gamma"));
    }
}
