//! Estimators by their classes: trees, forests, boosted trees, and pipelines that end in one of them. Pure.

use crate::{
    error::FormatError,
    forest::{
        document::{Comparison, Document, Library, Origin, Rounding, Transform},
        double,
    },
    limits,
    sklearn::{
        boosting::{gradient, histogram},
        objects::{Objects, class_names, class_numbers, classes, count, needed, number},
        steps::Steps,
        tree::{Leaves, TreeReader, average_path},
    },
};

/// Steps of a pipeline. Each condition of a tree is taken through all of them.
const STEPS: usize = 16;

/// The document of the outermost object.
pub(super) fn read<O: Objects>(
    objects: &O,
    root: O::Ref,
    format: &'static str,
) -> Result<Document, FormatError> {
    let (estimator, steps) = match objects.class(root) {
        Some((module, "Pipeline")) if module.starts_with("sklearn.") => pipeline(objects, root)?,
        _ => (root, Vec::new()),
    };
    let (kind, is_classifier) = kind(objects, estimator)?;
    let features = features(objects, root, &steps, estimator)?;
    let version = objects.attribute(estimator, "_sklearn_version").and_then(|it| objects.text(it));
    let origin =
        Origin { library: Library::ScikitLearn, version: version.unwrap_or_default(), format };
    let mut document = Document::new(origin, Transform::Double(double::Transform::Identity));
    document.features = features;
    document.comparison = Comparison::LessOrEqual;
    if let Some(names) =
        objects.attribute(root, "feature_names_in_").and_then(|it| objects.members(it))
    {
        let names: Option<Vec<String>> = names.iter().map(|it| objects.text(*it)).collect();
        document.feature_names = names.filter(|it| it.len() == features).unwrap_or_default();
    }
    match kind {
        Kind::Tree => forest(objects, estimator, &[estimator], is_classifier, &mut document)?,
        Kind::Forest => {
            let trees = trees_of(objects, estimator)?;
            forest(objects, estimator, &trees, is_classifier, &mut document)?;
        }
        Kind::Isolation => isolation(objects, estimator, &mut document)?,
        Kind::Gradient => gradient(objects, estimator, is_classifier, &mut document)?,
        Kind::Histogram => histogram(objects, estimator, is_classifier, &mut document)?,
    }
    if is_classifier {
        document.class_numbers = class_numbers(objects, estimator)?;
        document.class_names = class_names(objects, estimator)?;
    }
    if !steps.is_empty() {
        let mut before = Steps::new(features, objects.bytes())?;
        for step in steps {
            before.push(objects, step)?;
        }
        before.fold_into(&mut document);
    }
    Ok(document)
}

/// Columns of a row. The first object of a pipeline knows them. Before 0.24 many a step does not, and trees and forests
/// have another name for it; no step that is read changes how many there are.
fn features<O: Objects>(
    objects: &O,
    root: O::Ref,
    steps: &[O::Ref],
    estimator: O::Ref,
) -> Result<usize, FormatError> {
    const NAMES: [&str; 2] = ["n_features_in_", "n_features_"];
    let candidates = [root].into_iter().chain(steps.iter().copied()).chain([estimator]);
    let mut named = candidates.flat_map(|it| NAMES.map(|name| (it, name)));
    let knowing = named.find(|(it, name)| objects.attribute(*it, name).is_some());
    let (knowing, name) = knowing.unwrap_or((estimator, NAMES[0]));
    count(objects, knowing, name, limits::FEATURES)
}

/// The last step of a pipeline, and those before it.
fn pipeline<O: Objects>(objects: &O, root: O::Ref) -> Result<(O::Ref, Vec<O::Ref>), FormatError> {
    let unclear =
        || FormatError::new("the steps of the Pipeline are no list of names and estimators");
    let steps = objects.members(needed(objects, root, "steps")?).ok_or_else(unclear)?;
    if STEPS < steps.len() {
        return Err(FormatError::new(format!("{} steps, at most {STEPS} are read", steps.len())));
    }
    let second = |it: &O::Ref| objects.members(*it)?.get(1).copied();
    let mut steps = steps.iter().map(second).collect::<Option<Vec<_>>>().ok_or_else(unclear)?;
    let last = steps.pop().ok_or_else(unclear)?;
    let does_nothing = |it: &O::Ref| {
        objects.is_none(*it) || objects.text(*it).is_some_and(|it| it == "passthrough")
    };
    steps.retain(|it| !does_nothing(it));
    Ok((last, steps))
}

/// What an estimator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tree,
    Forest,
    Isolation,
    Gradient,
    Histogram,
}

/// What the estimator is, and whether it tells classes apart.
fn kind<O: Objects>(objects: &O, of: O::Ref) -> Result<(Kind, bool), FormatError> {
    let Some((module, class)) = objects.class(of) else {
        return Err(FormatError::new("it holds no estimator of scikit-learn, but plain values"));
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
        _ => None,
    };
    kind.map(|it| (it, is_classifier)).ok_or_else(|| {
        FormatError::new(format!(
            "it holds {module}.{class}; of scikit-learn trees, forests and boosted trees are served, alone or behind \
             scalers in a pipeline: convert this one to ONNX, with skl2onnx"
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
    objects: &O,
    of: O::Ref,
    trees: &[O::Ref],
    is_classifier: bool,
    document: &mut Document,
) -> Result<(), FormatError> {
    let leaves = match is_classifier {
        true => {
            if number(objects, of, "n_outputs_")? != 1.0 {
                return Err(FormatError::new("classifiers of several targets are not served"));
            }
            document.classes = Some(classes(objects, of)?);
            Leaves::Probabilities
        }
        false => Leaves::Values,
    };
    document.rounding = Rounding::Single;
    let mut reader = TreeReader::new(objects);
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
    objects: &O,
    of: O::Ref,
    document: &mut Document,
) -> Result<(), FormatError> {
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
    let mut reader = TreeReader::new(objects);
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
