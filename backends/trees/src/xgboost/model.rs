//! The fields of XGBoost's JSON and UBJSON. Those that are not known are skipped.

use crate::{
    categories::Allowance,
    error::FormatError,
    forest::document::Tree,
    limits,
    xgboost::{
        base_score, categories,
        learner::{Booster, Learner},
        source::Source,
        tree,
    },
};

/// Reads a file in that format.
pub(super) fn read<S: Source>(
    source: &mut S,
    format: &'static str,
) -> Result<Learner, FormatError> {
    let mut learner = Learner::new(format);
    let mut is_learner = false;
    root(source, &mut learner, &mut is_learner, true)?;
    match is_learner {
        true => Ok(learner),
        false => Err(FormatError::new("there is no 'learner' in it, as XGBoost's models have")),
    }
}

/// The outermost object. A snapshot of memory holds it in its field `Model`.
fn root<S: Source>(
    source: &mut S,
    learner: &mut Learner,
    is_learner: &mut bool,
    may_be_snapshot: bool,
) -> Result<(), FormatError> {
    source.object(|source, key| match key {
        "learner" => {
            *is_learner = true;
            source.object(|source, key| learner_field(source, key, learner))
        }
        "version" => {
            let version: Vec<u32> = source.numbers()?;
            for (part, number) in learner.version.iter_mut().zip(version) {
                *part = number;
            }
            Ok(())
        }
        "Model" if may_be_snapshot => root(source, learner, is_learner, false),
        _ => source.skip(),
    })
}

fn learner_field<S: Source>(
    source: &mut S,
    key: &str,
    learner: &mut Learner,
) -> Result<(), FormatError> {
    match key {
        "attributes" => source.object(|source, key| {
            let text = source.text()?;
            if limits::ATTRIBUTES <= learner.attributes.len() {
                let most = limits::ATTRIBUTES;
                return Err(source.problem(format!("more than {most} attributes")));
            }
            learner.attributes.insert(key.to_owned(), text);
            Ok(())
        }),
        "feature_names" => source.array(|source| {
            if limits::NAMES <= learner.feature_names.len() {
                learner.has_too_many_names = true;
                return source.skip();
            }
            learner.feature_names.push(source.text()?);
            Ok(())
        }),
        "gradient_booster" => booster(source, learner),
        "learner_model_param" => source.object(|source, key| match key {
            "base_score" => {
                let text = source.text()?;
                learner.base_score = base_score::parse(&text)?;
                Ok(())
            }
            "num_class" => {
                learner.classes = number(source, key)?;
                Ok(())
            }
            "num_feature" => {
                learner.features = number(source, key)?;
                Ok(())
            }
            "num_target" => {
                learner.targets = number(source, key)?;
                Ok(())
            }
            _ => source.skip(),
        }),
        "objective" => source.object(|source, key| match key {
            "name" => {
                learner.objective = source.text()?;
                Ok(())
            }
            _ => source.skip(),
        }),
        _ => source.skip(),
    }
}

/// What the fields of a booster say, in any order.
#[derive(Default)]
struct Parts {
    name: String,
    trees: Vec<Tree>,
    tree_info: Vec<u32>,
    weight_drop: Vec<f64>,
    weights: Vec<f64>,
}

fn booster<S: Source>(source: &mut S, learner: &mut Learner) -> Result<(), FormatError> {
    let mut parts = Parts::default();
    source.object(|source, key| match key {
        "name" => {
            parts.name = source.text()?;
            Ok(())
        }
        "model" => model(source, &mut parts, learner),
        // The trees of dart.
        "gbtree" => source.object(|source, key| match key {
            "model" => model(source, &mut parts, learner),
            _ => source.skip(),
        }),
        "weight_drop" => {
            parts.weight_drop = source.numbers()?;
            Ok(())
        }
        _ => source.skip(),
    })?;
    let Parts { name, trees, tree_info, weight_drop, weights } = parts;
    learner.booster = match &*name {
        "gbtree" | "dart" => Booster::Trees { trees, outputs: tree_info, weights: weight_drop },
        "gblinear" => Booster::Linear { weights },
        _ => return Err(FormatError::new(format!("booster {name:?} is not known"))),
    };
    Ok(())
}

fn model<S: Source>(
    source: &mut S,
    parts: &mut Parts,
    learner: &mut Learner,
) -> Result<(), FormatError> {
    source.object(|source, key| match key {
        "trees" => source.array(|source| {
            if limits::TREES <= parts.trees.len() {
                return Err(source.problem(format!("more than {} trees", limits::TREES)));
            }
            let tree = tree::read(source, parts.trees.len())?;
            parts.trees.push(tree);
            Ok(())
        }),
        "tree_info" => {
            parts.tree_info = source.numbers()?;
            Ok(())
        }
        "iteration_indptr" => {
            learner.rounds = source.numbers()?;
            Ok(())
        }
        // That of dart, from 3.4 on.
        "weight_drop" => {
            parts.weight_drop = source.numbers()?;
            Ok(())
        }
        "weights" => {
            parts.weights = source.numbers()?;
            Ok(())
        }
        "gbtree_model_param" => source.object(|source, key| match key {
            "num_parallel_tree" => {
                learner.parallel_trees = number(source, key)?;
                Ok(())
            }
            _ => source.skip(),
        }),
        "cats" => source.object(|source, key| match key {
            "enc" => {
                let (mut feature, mut left) = (0, Allowance::default());
                source.array(|source| {
                    let found = categories::read(source, feature, &mut left)?;
                    learner.categories.extend(found);
                    feature += 1;
                    Ok(())
                })
            }
            _ => source.skip(),
        }),
        _ => source.skip(),
    })
}

/// A number from 0 in text, as parameters are written.
fn number<S: Source>(source: &mut S, key: &str) -> Result<usize, FormatError> {
    let text = source.text()?;
    let number = text.parse().ok().filter(|it: &usize| *it <= 1 << 31);
    number.ok_or_else(|| source.problem(format!("{key} is {text:?}, expected a number")))
}
