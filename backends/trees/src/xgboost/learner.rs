//! A model of XGBoost as any of its formats tells it, and the document that it means.

use std::collections::BTreeMap;

use crate::{
    categories::NamedCategories,
    error::FormatError,
    forest::document::{Document, Library, Linear, Origin, Transform, Tree},
    limits,
    xgboost::objective::objective,
};

/// The attribute that a wrapper for scikit-learn leaves in the files that it saves.
const ESTIMATOR: &str = "scikit_learn";

/// A model of XGBoost. What a format does not say is as in [`Learner::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct Learner {
    /// The format as it is shown: `UBJ`.
    pub format: &'static str,
    /// The version that wrote it; zeros where the file does not say, as before 1.0.
    pub version: [u32; 3],
    /// Predictions without any tree: one for all outputs, or one for each.
    pub base_score: Vec<f32>,
    /// Columns of a row.
    pub features: usize,
    /// `num_class`: 0 unless it tells more than two classes apart.
    pub classes: usize,
    /// `num_target`: targets, labels or quantiles.
    pub targets: usize,
    /// Its objective by name.
    pub objective: String,
    /// `num_parallel_tree`: trees of each round and output.
    pub parallel_trees: usize,
    /// What computes margins.
    pub booster: Booster,
    /// Where rounds begin among the trees, and where the last one ends; empty where the file does not say.
    pub rounds: Vec<u32>,
    /// Attributes, such as `best_iteration`.
    pub attributes: BTreeMap<String, String>,
    /// Names of the columns; may be empty.
    pub feature_names: Vec<String>,
    /// Are there more names than are kept?
    pub has_too_many_names: bool,
    /// The features whose categories have names.
    pub categories: Vec<NamedCategories>,
    /// Was it a wrapper for scikit-learn that trained it? That predicts with the rounds up to the best one.
    pub is_of_estimator: bool,
}

/// What computes margins.
#[derive(Debug, Clone, PartialEq)]
pub enum Booster {
    /// `gbtree` and `dart`.
    Trees {
        /// The trees, whose outputs and weights are not set.
        trees: Vec<Tree>,
        /// `tree_info`: the output of each tree.
        outputs: Vec<u32>,
        /// `weight_drop`: the weight of each tree; none for 1.
        weights: Vec<f64>,
    },
    /// `gblinear`.
    Linear {
        /// For each feature, and then for the bias, a weight for each output.
        weights: Vec<f64>,
    },
}

impl Learner {
    /// A model without anything in it.
    pub fn new(format: &'static str) -> Learner {
        Learner {
            format,
            version: [0; 3],
            base_score: vec![0.5],
            features: 0,
            classes: 0,
            targets: 1,
            objective: String::new(),
            parallel_trees: 1,
            booster: Booster::Trees { trees: Vec::new(), outputs: Vec::new(), weights: Vec::new() },
            rounds: Vec::new(),
            attributes: BTreeMap::new(),
            feature_names: Vec::new(),
            has_too_many_names: false,
            categories: Vec::new(),
            is_of_estimator: false,
        }
    }

    /// The document that it means. `objective_instead` takes the place of its objective.
    ///
    /// # Errors
    /// An objective that is not known, or arrays that do not fit each other.
    pub fn into_document(self, objective_instead: Option<&str>) -> Result<Document, FormatError> {
        let name = objective_instead.map_or(self.objective, str::to_owned);
        let [major, minor, patch] = self.version;
        let objective = objective(&name, (major, minor))?;
        let outputs = match self.classes {
            0 | 1 => self.targets.max(1),
            classes => classes,
        };
        if limits::OUTPUTS < outputs {
            let most = limits::OUTPUTS;
            return Err(FormatError::new(format!("{outputs} outputs; at most {most} are served")));
        }
        let mut scores = spread(self.base_score, outputs)?;
        if matches!(self.booster, Booster::Linear { .. }) {
            // XGBoost adds the first to each output, also while it trains.
            scores = vec![scores[0]; outputs];
        }
        // Before 1.0 a file held the margin itself.
        let margins = if major == 0 { scores } else { objective.margins(&scores) };
        let version = match self.version {
            [0, 0, 0] => String::new(),
            _ => format!("{major}.{minor}.{patch}"),
        };
        let origin = Origin { library: Library::Xgboost, version, format: self.format };
        let mut document = Document::new(origin, Transform::Single(objective.transform));
        document.objective = name;
        document.classes = objective.is_classifier.then_some(self.classes.max(2));
        document.features = self.features;
        if !self.has_too_many_names {
            document.feature_names = self.feature_names;
        }
        document.base = margins.into_iter().map(f64::from).collect();
        match self.booster {
            Booster::Trees { trees, outputs: of_trees, weights } => {
                document.trees = joined(trees, of_trees, weights)?;
            }
            Booster::Linear { weights } => {
                if limits::FEATURES < self.features {
                    let (given, most) = (self.features, limits::FEATURES);
                    return Err(FormatError::new(format!(
                        "{given} features; at most {most} are served"
                    )));
                }
                document.linear = Some(linear(weights, self.features, outputs)?);
            }
        }
        let of_round = self.parallel_trees.max(1) * outputs;
        let trees = document.trees.len();
        document.rounds = match self.rounds.is_empty() {
            true if trees.is_multiple_of(of_round) => (0..=trees).step_by(of_round).collect(),
            true => Vec::new(),
            false => self.rounds.iter().map(|it| *it as usize).collect(),
        };
        let attribute = |name: &str| self.attributes.get(name)?.trim().parse::<usize>().ok();
        document.best_round = attribute("best_iteration");
        // It counts the trees of one output.
        let best_trees = attribute("best_ntree_limit").filter(|it| *it != 0);
        document.best_trees = best_trees.map(|it| it.saturating_mul(outputs).min(trees));
        if self.is_of_estimator || self.attributes.contains_key(ESTIMATOR) {
            let best = document.best_round.and_then(|it| document.rounds.get(it.checked_add(1)?));
            // Where it counts the trees it knows better: old files do not say how many a round has.
            document.best_trees = document.best_trees.or(best.copied());
        }
        if !self.categories.is_empty() {
            let remark = "categories have names in this file: texts are looked up among them, numbers are taken for codes";
            document.remarks.push(remark.to_owned());
        }
        document.categories = self.categories;
        Ok(document)
    }
}

/// One base score for each output.
fn spread(scores: Vec<f32>, outputs: usize) -> Result<Vec<f32>, FormatError> {
    match scores.len() {
        1 => Ok(vec![scores[0]; outputs]),
        given if given == outputs => Ok(scores),
        given => {
            Err(FormatError::new(format!("{given} base scores, the model has {outputs} outputs")))
        }
    }
}

/// The trees with their outputs and weights.
fn joined(
    mut trees: Vec<Tree>,
    outputs: Vec<u32>,
    weights: Vec<f64>,
) -> Result<Vec<Tree>, FormatError> {
    let count = trees.len();
    if outputs.len() != count {
        let given = outputs.len();
        return Err(FormatError::new(format!(
            "tree_info has {given} entries, the model has {count} trees"
        )));
    }
    if !weights.is_empty() && weights.len() != count {
        let given = weights.len();
        return Err(FormatError::new(format!(
            "weight_drop has {given} entries, the model has {count} trees"
        )));
    }
    let weights = weights.into_iter().chain(std::iter::repeat(1.0));
    for ((tree, output), weight) in trees.iter_mut().zip(outputs).zip(weights) {
        (tree.output, tree.weight) = (output as usize, weight);
    }
    Ok(trees)
}

/// A linear model from one column of weights: features, then biases, for each a number for each output.
fn linear(mut weights: Vec<f64>, features: usize, outputs: usize) -> Result<Linear, FormatError> {
    let expected = (features + 1).saturating_mul(outputs);
    if weights.len() != expected {
        let given = weights.len();
        return Err(FormatError::new(format!(
            "{given} weights of a linear model, expected {expected}"
        )));
    }
    let biases = weights.split_off(features * outputs);
    Ok(Linear { weights, biases })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::testing::stump;

    fn trees(count: usize) -> Booster {
        let outputs = (0..count as u32).map(|it| it % 2).collect();
        Booster::Trees { trees: vec![stump(); count], outputs, weights: vec![] }
    }

    #[test]
    fn an_early_stop_counts_the_trees_of_one_output() {
        let mut learner = Learner::new("JSON");
        (learner.objective, learner.classes) = ("multi:softprob".into(), 2);
        learner.booster = trees(8);
        learner.attributes.insert("best_ntree_limit".into(), "3".into());
        let document = learner.into_document(None).unwrap();
        assert_eq!((document.best_trees, document.rounds), (Some(6), vec![0, 2, 4, 6, 8]));
    }

    #[test]
    fn a_wrapper_for_scikit_learn_predicts_with_the_rounds_up_to_the_best() {
        let best_of = |is_of_estimator, attributes: &[&str]| {
            let mut learner = Learner { is_of_estimator, ..Learner::new("UBJ") };
            (learner.objective, learner.classes) = ("multi:softprob".into(), 2);
            learner.booster = trees(8);
            let attributes = attributes.iter().map(|it| ((*it).to_owned(), "1".to_owned()));
            learner.attributes = attributes.collect();
            learner.into_document(None).unwrap().best_trees
        };
        let best = "best_iteration";
        assert_eq!(best_of(true, &[best]), Some(4));
        assert_eq!(best_of(false, &[best, ESTIMATOR]), Some(4), "in a file that it saved");
        assert_eq!(best_of(true, &[best, "best_ntree_limit"]), Some(2), "it counts the trees");
        assert_eq!(best_of(false, &[best]), None, "a Booster takes all");
        assert_eq!(best_of(true, &[]), None, "it did not stop early");
    }

    #[test]
    fn files_from_before_1_0_hold_margins() {
        let of_version = |version| {
            let objective = "binary:logistic".to_owned();
            let learner = Learner { version, objective, ..Learner::new("legacy") };
            learner.into_document(None).unwrap().base
        };
        assert_eq!(of_version([0, 0, 0]), [0.5]);
        assert_eq!(of_version([1, 0, 0]), [0.0]);
    }

    #[test]
    fn a_linear_model_adds_the_first_base_score_to_each_output() {
        let of_booster = |booster| {
            let base_score = vec![0.5, -0.25];
            let objective = "reg:squarederror".to_owned();
            let learner =
                Learner { base_score, objective, targets: 2, booster, ..Learner::new("JSON") };
            learner.into_document(None).unwrap().base
        };
        assert_eq!(of_booster(Booster::Linear { weights: vec![3.0, 4.0] }), [0.5, 0.5]);
        let trees = Booster::Trees { trees: vec![], outputs: vec![], weights: vec![] };
        assert_eq!(of_booster(trees), [0.5, -0.25]);
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let mut learner = Learner { objective: "reg:linear".into(), ..Learner::new("JSON") };
        learner.base_score = vec![1.0; 3];
        let error = learner.clone().into_document(None).unwrap_err().to_string();
        assert_eq!(error, "3 base scores, the model has 1 outputs");
        learner.base_score = vec![1.0];
        learner.booster =
            Booster::Trees { trees: vec![stump()], outputs: vec![0], weights: vec![1.0, 2.0] };
        let error = learner.into_document(None).unwrap_err().to_string();
        assert_eq!(error, "weight_drop has 2 entries, the model has 1 trees");
    }
}
