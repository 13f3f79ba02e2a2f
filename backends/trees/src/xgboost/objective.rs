//! Objectives of XGBoost by name: from the base score to margins, and from margins to predictions. Pure.

use crate::{
    error::FormatError,
    forest::single::{EXPECTILE_GAP, Transform},
};

/// An objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Objective {
    pub(super) transform: Transform,
    base: Base,
    /// Does it tell classes apart?
    pub(super) is_classifier: bool,
}

/// From the base score to a margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    AsItIs,
    Logit,
    Logarithm,
    Expectiles,
}

const fn regression(transform: Transform, base: Base) -> Objective {
    Objective { transform, base, is_classifier: false }
}

const fn classifier(transform: Transform, base: Base) -> Objective {
    Objective { transform, base, is_classifier: true }
}

/// All objectives that are known.
const OBJECTIVES: [(&str, Objective); 23] = [
    ("reg:squarederror", regression(Transform::Identity, Base::AsItIs)),
    // The name of `reg:squarederror` before 0.83.
    ("reg:linear", regression(Transform::Identity, Base::AsItIs)),
    ("reg:squaredlogerror", regression(Transform::Identity, Base::AsItIs)),
    ("reg:pseudohubererror", regression(Transform::Identity, Base::AsItIs)),
    ("reg:absoluteerror", regression(Transform::Identity, Base::AsItIs)),
    ("rank:pairwise", regression(Transform::Identity, Base::AsItIs)),
    ("rank:ndcg", regression(Transform::Identity, Base::AsItIs)),
    ("rank:map", regression(Transform::Identity, Base::AsItIs)),
    ("reg:quantileerror", regression(Transform::Identity, Base::AsItIs)),
    ("reg:expectileerror", regression(Transform::Expectiles, Base::Expectiles)),
    ("reg:logistic", regression(Transform::Logistic, Base::Logit)),
    ("binary:logistic", classifier(Transform::Logistic, Base::Logit)),
    ("binary:logitraw", classifier(Transform::Identity, Base::AsItIs)),
    ("binary:hinge", classifier(Transform::Hinge, Base::AsItIs)),
    ("count:poisson", regression(Transform::Exponential, Base::Logarithm)),
    ("reg:gamma", regression(Transform::Exponential, Base::Logarithm)),
    ("reg:tweedie", regression(Transform::Exponential, Base::Logarithm)),
    ("survival:cox", regression(Transform::Exponential, Base::Logarithm)),
    ("survival:aft", regression(Transform::Exponential, Base::Logarithm)),
    ("multi:softprob", classifier(Transform::Softmax, Base::AsItIs)),
    ("multi:softmax", classifier(Transform::ArgMax, Base::AsItIs)),
    // Names of graphics cards' own versions, which old files have.
    ("gpu:reg:linear", regression(Transform::Identity, Base::AsItIs)),
    ("gpu:binary:logistic", classifier(Transform::Logistic, Base::Logit)),
];

/// The objective of that name in a file of that version, major and minor number.
pub(super) fn objective(name: &str, version: (u32, u32)) -> Result<Objective, FormatError> {
    let Some((_, found)) = OBJECTIVES.iter().find(|(it, _)| *it == name) else {
        return Err(FormatError::new(format!(
            "objective '{name}' is not known; where one of XGBoost's own has the same transform, name it: \
             parameters {{ key: \"objective\" value: {{ string_value: \"reg:squarederror\" }} }}"
        )));
    };
    let mut objective = *found;
    match name {
        // Later versions read the base score of such files as the margin; those that wrote them did not.
        "binary:logitraw" if ((1, 0)..(1, 3)).contains(&version) => objective.base = Base::Logit,
        "reg:quantileerror" if (3, 4) <= version => objective.transform = Transform::Ascending,
        _ => {}
    }
    Ok(objective)
}

impl Objective {
    /// The margins that belong to base scores, as many as there are outputs.
    pub(super) fn margins(&self, scores: &[f32]) -> Vec<f32> {
        let each = |margin: fn(f32) -> f32| scores.iter().copied().map(margin).collect();
        match self.base {
            Base::AsItIs => scores.to_vec(),
            Base::Logit => each(|it| -(1.0 / it.clamp(1e-6, 1.0 - 1e-6) - 1.0).ln()),
            Base::Logarithm => each(f32::ln),
            Base::Expectiles => {
                let gap = |i: usize| {
                    inverse_softplus((scores[i] - scores[i - 1] - EXPECTILE_GAP).max(EXPECTILE_GAP))
                };
                (0..scores.len()).map(|i| if i == 0 { scores[0] } else { gap(i) }).collect()
            }
        }
    }
}

/// x with ln(1 + e^x) = y.
fn inverse_softplus(y: f32) -> f32 {
    y + (-(-y).exp_m1()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_score_is_a_prediction() {
        let margin =
            |name: &str, version, score| objective(name, version).unwrap().margins(&[score])[0];
        assert_eq!(margin("reg:squarederror", (3, 2), 0.3), 0.3);
        assert_eq!(margin("binary:logistic", (3, 2), 0.5), 0.0);
        assert!(margin("binary:logistic", (3, 2), 1.0).is_finite());
        assert_eq!(margin("count:poisson", (3, 2), 1.0), 0.0);
        assert_eq!(margin("binary:logitraw", (1, 2), 0.5), 0.0);
        assert_eq!(margin("binary:logitraw", (1, 3), 0.5), 0.5);
        assert_eq!(margin("binary:logitraw", (0, 0), 0.5), 0.5);
    }

    #[test]
    fn an_objective_that_is_not_known_is_named_with_the_way_around() {
        let text = objective("reg:mine", (3, 2)).unwrap_err().to_string();
        assert!(text.starts_with("objective 'reg:mine' is not known; "), "{text}");
        assert!(text.contains("key: \"objective\""), "{text}");
    }

    #[test]
    fn quantiles_are_sorted_from_3_4_on() {
        let transform = |version| objective("reg:quantileerror", version).unwrap().transform;
        assert_eq!(transform((3, 3)), Transform::Identity);
        assert_eq!(transform((3, 4)), Transform::Ascending);
    }
}
