//! Several forests that are one model, as training by k folds makes them: one answer of the answers of all. Pure.

use crate::{
    categories::NamedCategories,
    forest::{
        calibration::Calibration,
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
    categories: Vec<NamedCategories>,
    /// Classes of its calibration.
    calibrated: Option<usize>,
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
            categories: document.categories.clone(),
            calibrated: document.calibration.as_ref().map(Calibration::classes),
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
        let calibrations = || {
            let (one, two) = (self.calibrated, other.calibrated);
            let text = |it: Option<usize>| {
                it.map_or("none".to_owned(), |classes| format!("of {classes} classes"))
            };
            (one != two).then(|| ("calibration", text(one), text(two)))
        };
        libraries()
            .or_else(objectives)
            .or_else(|| number("features", self.features, other.features))
            .or_else(|| number("outputs", self.sums, other.sums))
            .or_else(classes)
            .or_else(names)
            .or_else(missing)
            .or_else(transforms)
            .or_else(calibrations)
            .or_else(|| self.other_categories(other))
    }

    /// The first categories that differ: their codes would mean one thing in one forest, another in the other.
    fn other_categories(&self, other: &Face) -> Option<(&'static str, String, String)> {
        let (one, two) = (&self.categories, &other.categories);
        let at = (0..one.len().max(two.len())).find(|at| one.get(*at) != two.get(*at))?;
        let text = |it: Option<&NamedCategories>| match it {
            Some(it) => format!("of feature {}: {}", it.feature, it.codes()),
            None => "none".to_owned(),
        };
        Some(("categories", text(one.get(at)), text(two.get(at))))
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

    #[test]
    fn forests_of_one_model_have_the_same_categories_and_calibration() {
        let of = |names: [&str; 2]| {
            let named = NamedCategories {
                feature: 1,
                count: 2,
                names: names.map(str::to_owned).into(),
                ..NamedCategories::default()
            };
            Face::of(&Document { categories: vec![named], ..document(vec![stump()]) })
        };
        let face = of(["red", "blue"]);
        assert_eq!(face.difference(&of(["red", "blue"])), None);
        let (what, one, other) = face.difference(&of(["blue", "red"])).unwrap();
        assert_eq!(what, "categories");
        assert_eq!(one, "of feature 1: 0 for 'red', 1 for 'blue'");
        assert_eq!(other, "of feature 1: 0 for 'blue', 1 for 'red'");
        let without = Face::of(&document(vec![stump()]));
        assert_eq!(without.difference(&face).unwrap(), ("categories", "none".to_owned(), one));
        let calibrated = Face { calibrated: Some(2), ..face.clone() };
        let (what, one, other) = face.difference(&calibrated).unwrap();
        assert_eq!((what, &*one, &*other), ("calibration", "none", "of 2 classes"));
    }
}
