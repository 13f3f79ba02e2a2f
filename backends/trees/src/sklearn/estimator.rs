//! Estimators by their classes: trees, forests and boosted trees. Pure.

use crate::{
    error::FormatError,
    forest::{
        document::{Comparison, Document, Library, Origin, Rounding, Transform},
        double,
    },
    limits,
    sklearn::{
        booster,
        boosting::{gradient, histogram},
        objects::{Objects, class_names, class_numbers, classes, needed, number},
        tree::{Leaves, TreeReader, average_path},
    },
};

/// The document of an estimator for rows of so many columns, where that is known already.
pub(super) fn read<O: Objects>(
    reader: &mut TreeReader<O>,
    estimator: O::Ref,
    features: impl FnOnce() -> Result<usize, FormatError>,
    format: &'static str,
) -> Result<Document, FormatError> {
    let objects = reader.objects();
    let (kind, is_classifier) = kind(objects, estimator)?;
    let version = objects.attribute(estimator, "_sklearn_version").and_then(|it| objects.text(it));
    let origin =
        Origin { library: Library::ScikitLearn, version: version.unwrap_or_default(), format };
    if let Kind::Booster(library) = kind {
        let document = booster::read(reader, estimator, library, is_classifier)?;
        let origin = Origin { format, ..document.origin.clone() };
        return Ok(Document { origin, ..document });
    }
    let mut document = Document::new(origin, Transform::Double(double::Transform::Identity));
    document.is_estimator = true;
    document.features = features()?;
    document.comparison = Comparison::LessOrEqual;
    match kind {
        Kind::Booster(_) => {}
        Kind::Tree => forest(reader, estimator, &[estimator], is_classifier, &mut document)?,
        Kind::Forest => {
            let trees = trees_of(objects, estimator)?;
            forest(reader, estimator, &trees, is_classifier, &mut document)?;
        }
        Kind::Isolation => isolation(reader, estimator, &mut document)?,
        Kind::Gradient => gradient(reader, estimator, is_classifier, &mut document)?,
        Kind::Histogram => histogram(reader, estimator, is_classifier, &mut document)?,
    }
    if is_classifier {
        let classes = needed(objects, estimator, "classes_")?;
        document.class_numbers = class_numbers(objects, classes)?;
        document.class_names = class_names(objects, classes)?;
    }
    Ok(document)
}

/// What an estimator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tree,
    Forest,
    Isolation,
    Gradient,
    Histogram,
    /// One of another library.
    Booster(Library),
}

/// What the estimator is, and whether it tells classes apart.
fn kind<O: Objects>(objects: &O, of: O::Ref) -> Result<(Kind, bool), FormatError> {
    let Some((module, class)) = objects.class(of) else {
        return Err(FormatError::new(
            "it holds no estimator of scikit-learn, but plain values: save the fitted estimator itself",
        ));
    };
    let is_of = |package: &str| module.strip_prefix(package).is_some_and(|it| it.starts_with('.'));
    let (name, is_classifier) = match class.strip_suffix("Classifier") {
        Some(name) => (name, true),
        None => (class.strip_suffix("Regressor").unwrap_or(class), false),
    };
    let kind = match name {
        "DecisionTree" | "ExtraTree" if is_of("sklearn.tree") => Some(Kind::Tree),
        "RandomForest" | "ExtraTrees" if is_of("sklearn.ensemble") => Some(Kind::Forest),
        "IsolationForest" if is_of("sklearn.ensemble") => Some(Kind::Isolation),
        "GradientBoosting" if is_of("sklearn.ensemble") => Some(Kind::Gradient),
        "HistGradientBoosting" if is_of("sklearn.ensemble") => Some(Kind::Histogram),
        "XGB" | "XGBRF" | "XGBRanker" if is_of("xgboost") => Some(Kind::Booster(Library::Xgboost)),
        "LGBM" | "LGBMRanker" if is_of("lightgbm") => Some(Kind::Booster(Library::Lightgbm)),
        _ => None,
    };
    kind.map(|it| (it, is_classifier)).ok_or_else(|| {
        FormatError::new(format!(
            "it holds {module}.{class}; of scikit-learn trees, forests and boosted trees are served, also those of \
             XGBoost and LightGBM, alone, calibrated or behind scalers in a pipeline: convert this one to ONNX, with \
             skl2onnx"
        ))
    })
}

/// The fitted trees of a forest.
fn trees_of<O: Objects>(objects: &O, of: O::Ref) -> Result<Vec<O::Ref>, FormatError> {
    let trees = objects.members(needed(objects, of, "estimators_")?).unwrap_or_default();
    match trees.len() {
        0 => Err(FormatError::new("estimators_ is no list of trees")),
        _ => Ok(trees),
    }
}

/// Trees whose leaves are averaged.
fn forest<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
    trees: &[O::Ref],
    is_classifier: bool,
    document: &mut Document,
) -> Result<(), FormatError> {
    let objects = reader.objects();
    let leaves = match is_classifier {
        true => {
            if number(objects, of, "n_outputs_")? != 1.0 {
                return Err(FormatError::new(
                    "it is a classifier of several targets, and those of one are served: train one for each target, or \
                     convert it to ONNX, with skl2onnx",
                ));
            }
            document.classes = Some(classes(objects, of)?);
            Leaves::Probabilities
        }
        false => Leaves::Values,
    };
    document.rounding = Rounding::Single;
    for (number, tree) in trees.iter().enumerate() {
        let (tree, width) = reader.tree(needed(objects, *tree, "tree_")?, number, leaves)?;
        if number == 0 {
            document.base = vec![0.0; width];
        }
        if width != document.base.len() || document.classes.is_some_and(|it| it != width) {
            let expected = document.classes.unwrap_or(document.base.len());
            return Err(FormatError::of_tree(
                number,
                format!("leaves of {width} values, expected {expected}"),
            ));
        }
        document.trees.push(tree);
    }
    document.average_over = (trees.len() != 1).then_some(trees.len() as f64);
    Ok(())
}

/// Trees whose leaves say how deep they are.
fn isolation<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
    document: &mut Document,
) -> Result<(), FormatError> {
    let objects = reader.objects();
    let trees = trees_of(objects, of)?;
    let samples = match objects.attribute(of, "_max_samples") {
        Some(_) => number(objects, of, "_max_samples")?,
        None => number(objects, of, "max_samples_")?,
    };
    let columns = objects.members(needed(objects, of, "estimators_features_")?).unwrap_or_default();
    if columns.len() != trees.len() {
        let (lists, trees) = (columns.len(), trees.len());
        return Err(FormatError::new(format!(
            "{lists} lists of features, there are {trees} trees"
        )));
    }
    let offset = number(objects, of, "offset_")?;
    document.transform = Transform::Double(double::Transform::Inlier { offset });
    document.rounding = Rounding::Single;
    document.base = vec![0.0];
    document.average_over = Some(trees.len() as f64 * average_path(samples));
    for (number, (estimator, columns)) in trees.iter().zip(columns).enumerate() {
        let (mut tree, _) =
            reader.tree(needed(objects, *estimator, "tree_")?, number, Leaves::Depths)?;
        let columns = objects.array(columns)?.filter(|it| it.elements() <= limits::FEATURES);
        let columns = columns.and_then(|it| it.floats()).unwrap_or_default();
        reader.count(columns.len() * size_of::<f64>(), number)?;
        for (node, feature) in tree.feature.iter_mut().enumerate() {
            if tree.left[node] < 0 {
                continue;
            }
            match columns.get(*feature as usize) {
                Some(column) if 0.0 <= *column => *feature = *column as u32,
                _ => {
                    return Err(FormatError::of_node(
                        number,
                        node,
                        format!("feature {feature}, its tree has {}", columns.len()),
                    ));
                }
            }
        }
        document.trees.push(tree);
    }
    Ok(())
}
