//! Boosted trees of scikit-learn. Pure.
//!
//! A binary classifier has one sum. Here it has two, of which the first stays zero: made probabilities that add up to
//! one, they are those of both classes.

use crate::{
    error::FormatError,
    forest::{
        document::{Document, Rounding, Transform},
        double,
    },
    limits,
    sklearn::{
        advice,
        objects::{Objects, classes, floats, needed, number, prior},
        tree::{Leaves, TreeReader},
    },
};

/// `GradientBoostingClassifier` and `GradientBoostingRegressor`.
pub(super) fn gradient<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
    is_classifier: bool,
    document: &mut Document,
) -> Result<(), FormatError> {
    let objects = reader.objects();
    let columns = columns(objects, of, is_classifier, document)?;
    let loss = objects.text(needed(objects, of, "loss")?).unwrap_or_default();
    // With this loss a probability is that of twice the sum.
    let scale = if is_classifier && loss == "exponential" { 2.0 } else { 1.0 };
    document.rounding = Rounding::Single;
    base(objects, of, is_classifier, columns, document)?;
    let rate = number(objects, of, "learning_rate")? * scale;
    let estimators = objects.members(needed(objects, of, "estimators_")?).unwrap_or_default();
    let mut push = |estimator: O::Ref, document: &mut Document| {
        let number = document.trees.len();
        let tree = needed(objects, estimator, "tree_")?;
        let (mut tree, width) = reader.tree(tree, number, Leaves::Values)?;
        if width != 1 || number == limits::TREES {
            return Err(FormatError::of_tree(
                number,
                format!("leaves of {width} values, expected 1"),
            ));
        }
        tree.weight = rate;
        tree.output = output(number, columns, document);
        document.trees.push(tree);
        Ok(())
    };
    for entry in estimators {
        // Rows of the array are lists in some files; in others all members follow each other.
        match objects.members(entry) {
            Some(row) => row.into_iter().try_for_each(|it| push(it, document))?,
            None => push(entry, document)?,
        }
    }
    finish(columns, document)
}

/// `HistGradientBoostingClassifier` and `HistGradientBoostingRegressor`.
pub(super) fn histogram<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
    is_classifier: bool,
    document: &mut Document,
) -> Result<(), FormatError> {
    let objects = reader.objects();
    if objects.attribute(of, "_preprocessor").is_some_and(|it| !objects.is_none(it)) {
        return Err(FormatError::new(format!(
            "it was trained with categories: {}",
            advice::CATEGORIES
        )));
    }
    let columns = columns(objects, of, is_classifier, document)?;
    document.rounding = Rounding::Double;
    let baseline = floats(objects, of, "_baseline_prediction")?;
    if baseline.len() != columns {
        let given = baseline.len();
        return Err(FormatError::new(format!("{given} baselines, the model has {columns}")));
    }
    document.base = both(baseline, is_classifier);
    let loss = objects.text(needed(objects, of, "loss")?).unwrap_or_default();
    if !is_classifier && matches!(&*loss, "poisson" | "gamma") {
        document.transform = Transform::Double(double::Transform::Exponential);
    }
    let rounds = objects.members(needed(objects, of, "_predictors")?).unwrap_or_default();
    for round in rounds {
        for predictor in objects.members(round).unwrap_or_default() {
            let number = document.trees.len();
            let mut tree = reader.predictor(predictor, number)?;
            tree.output = output(number, columns, document);
            document.trees.push(tree);
            if limits::TREES < document.trees.len() {
                return Err(FormatError::new(format!("more than {} trees", limits::TREES)));
            }
        }
    }
    finish(columns, document)
}

/// Trees of a round.
fn columns<O: Objects>(
    objects: &O,
    of: O::Ref,
    is_classifier: bool,
    document: &mut Document,
) -> Result<usize, FormatError> {
    if !is_classifier {
        return Ok(1);
    }
    let classes = classes(objects, of)?;
    document.classes = Some(classes);
    document.transform = Transform::Double(double::Transform::Softmax);
    Ok(if classes <= 2 { 1 } else { classes })
}

/// The sum that a tree adds to.
fn output(number: usize, columns: usize, document: &Document) -> usize {
    match columns {
        1 => document.base.len() - 1,
        _ => number % columns,
    }
}

fn finish(columns: usize, document: &mut Document) -> Result<(), FormatError> {
    let trees = document.trees.len();
    if trees == 0 || !trees.is_multiple_of(columns) {
        return Err(FormatError::new(format!("{trees} trees, expected {columns} a round")));
    }
    document.rounds = (0..=trees).step_by(columns).collect();
    Ok(())
}

/// A zero before the only sum of a classifier.
fn both(base: Vec<f64>, is_classifier: bool) -> Vec<f64> {
    match (is_classifier, &base[..]) {
        (true, [only]) => vec![0.0, *only],
        _ => base,
    }
}

/// With what the sums of gradient boosting begin: what another estimator predicts, which here is a constant.
fn base<O: Objects>(
    objects: &O,
    of: O::Ref,
    is_classifier: bool,
    columns: usize,
    document: &mut Document,
) -> Result<(), FormatError> {
    let init = needed(objects, of, "init_")?;
    let sums = match objects.class(init).map(|it| it.1) {
        _ if objects.text(init).is_some_and(|it| it == "zero") => vec![0.0; columns],
        Some("DummyClassifier") if is_classifier => {
            let priors = prior(objects, init)?;
            match (columns, &priors[..]) {
                (1, [_, positive]) => vec![(positive / (1.0 - positive)).ln()],
                _ => {
                    let sum = priors.iter().map(|it| it.ln()).sum::<f64>();
                    // The losses that it had until 1.3 did not take the mean away. Probabilities are the same.
                    let loss = objects.attribute(of, "_loss").and_then(|it| objects.class(it));
                    let has_mean = loss.is_some_and(|it| !it.0.ends_with("_gb_losses"));
                    let mean = if has_mean { sum / priors.len() as f64 } else { 0.0 };
                    priors.iter().map(|it| it.ln() - mean).collect()
                }
            }
        }
        Some("DummyRegressor") if !is_classifier => floats(objects, init, "constant_")?,
        other => {
            let class = other.unwrap_or("something else");
            return Err(FormatError::new(format!(
                "its init is a {class}; only constants are read: convert it to ONNX, with skl2onnx"
            )));
        }
    };
    if sums.len() != columns {
        let given = sums.len();
        return Err(FormatError::new(format!("init has {given} values, the model has {columns}")));
    }
    document.base = both(sums, is_classifier);
    Ok(())
}
