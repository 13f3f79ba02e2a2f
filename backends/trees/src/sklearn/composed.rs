//! What stands around estimators: searches, pipelines, and calibration, which is several models. Pure.

use crate::{
    error::FormatError,
    forest::document::{Document, Library, Origin},
    limits,
    sklearn::{
        calibrated::{self, CalibratedPart},
        estimator,
        objects::{Objects, class_names, class_numbers, count, needed, texts},
        steps::Steps,
        tree::TreeReader,
    },
};

/// Steps of a pipeline. Each condition of a tree is taken through all of them.
const STEPS: usize = 16;
/// Estimators that do nothing but hold another, one within the other.
const HOLDERS: usize = 8;

/// The documents of the outermost object: one, or those whose answers are averaged.
pub(super) fn read<O: Objects>(
    objects: &O,
    root: O::Ref,
    format: &'static str,
) -> Result<Vec<Document>, FormatError> {
    let mut reader = TreeReader::new(objects);
    let whole = Held::of(objects, root)?;
    let Some(parts) = calibrated::parts(objects, whole.estimator)? else {
        return Ok(vec![document(&mut reader, &[root], &whole, format)?]);
    };
    let classes = needed(objects, whole.estimator, "classes_")?;
    let numbers = class_numbers(objects, classes)?;
    let names = class_names(objects, classes)?;
    let bytes = names.iter().map(String::len).sum::<usize>()
        + names.len() * size_of::<String>()
        + numbers.len() * size_of::<i64>();
    let mut of_part = |part: CalibratedPart<O::Ref>| {
        let held = Held::of(objects, part.estimator)?;
        let steps = whole.steps.iter().chain(&held.steps).copied().collect();
        let held = Held { estimator: held.estimator, steps };
        let knowing = [root, whole.estimator, part.estimator];
        let mut document = document(&mut reader, &knowing, &held, format)?;
        calibrated::calibrate(&mut reader, held.estimator, part, &mut document)?;
        reader.count(bytes, 0)?;
        (document.class_numbers, document.class_names) = (numbers.clone(), names.clone());
        Ok(document)
    };
    parts.into_iter().map(&mut of_part).collect()
}

/// An estimator, and the steps that a row goes through before it.
struct Held<R> {
    estimator: R,
    steps: Vec<R>,
}

impl<R: Copy> Held<R> {
    /// What an object comes down to.
    fn of<O: Objects<Ref = R>>(objects: &O, root: R) -> Result<Held<R>, FormatError> {
        let (mut estimator, mut steps) = (root, Vec::new());
        for _ in 0..HOLDERS {
            let class = objects.class(estimator).filter(|it| it.0.starts_with("sklearn."));
            estimator = match class.map(|it| it.1) {
                Some("Pipeline") => {
                    let (last, before) = pipeline(objects, estimator)?;
                    steps.extend(before);
                    last
                }
                Some(
                    "GridSearchCV"
                    | "RandomizedSearchCV"
                    | "HalvingGridSearchCV"
                    | "HalvingRandomSearchCV",
                ) => needed(objects, estimator, "best_estimator_")?,
                Some("FrozenEstimator") => needed(objects, estimator, "estimator")?,
                _ => return Ok(Held { estimator, steps }),
            };
        }
        Err(FormatError::new(format!(
            "more than {HOLDERS} pipelines and searches, one within the other: save the innermost alone, as \
             best_estimator_ of a search"
        )))
    }
}

/// The last step of a pipeline, and those before it.
fn pipeline<O: Objects>(objects: &O, root: O::Ref) -> Result<(O::Ref, Vec<O::Ref>), FormatError> {
    let unclear =
        || FormatError::new("the steps of the Pipeline are no list of names and estimators");
    let steps = objects.members(needed(objects, root, "steps")?).ok_or_else(unclear)?;
    if STEPS < steps.len() {
        return Err(FormatError::new(format!(
            "{} steps of a pipeline, at most {STEPS} are read: convert it to ONNX, with skl2onnx",
            steps.len()
        )));
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

/// The document of an estimator behind its steps. `knowing` are the objects around it, the outermost first.
fn document<O: Objects>(
    reader: &mut TreeReader<O>,
    knowing: &[O::Ref],
    held: &Held<O::Ref>,
    format: &'static str,
) -> Result<Document, FormatError> {
    let objects = reader.objects();
    let Held { estimator, steps } = held;
    let columns = || features(objects, knowing, steps, *estimator);
    let mut document = estimator::read(reader, *estimator, columns, format)?;
    let outermost = knowing[0];
    let features = document.features;
    let mut named = knowing.iter().filter_map(|it| objects.attribute(*it, "feature_names_in_"));
    if let Some(names) = named.next().and_then(|it| objects.members(it)) {
        let names = Some(names).filter(|it| it.len() == features && it.len() <= limits::NAMES);
        document.feature_names = names.and_then(|it| texts(objects, &it)).unwrap_or_default();
        let names = &document.feature_names;
        let bytes =
            names.iter().map(String::len).sum::<usize>() + names.len() * size_of::<String>();
        reader.count(bytes, 0).map_err(|_| {
            FormatError::new(
                "its estimators have more names of columns than the file has bytes for",
            )
        })?;
    } else if !steps.is_empty() || 1 < knowing.len() {
        // The estimator within was trained on arrays, whatever its library calls their columns.
        document.feature_names.clear();
    }
    let version = objects.attribute(outermost, "_sklearn_version").and_then(|it| objects.text(it));
    if objects.class(outermost).is_some_and(|it| it.0.starts_with("sklearn.")) {
        let version = version.unwrap_or_default();
        document.origin = Origin { library: Library::ScikitLearn, version, format };
    }
    if !steps.is_empty() {
        let mut before = Steps::new(features, objects.bytes())?;
        for step in steps {
            before.push(objects, *step)?;
        }
        before.fold_into(&mut document)?;
    }
    Ok(document)
}

/// Columns of a row. The first object of a pipeline knows them. Before 0.24 many a step does not, and trees and forests
/// have another name for it; no step that is read changes how many there are.
fn features<O: Objects>(
    objects: &O,
    knowing: &[O::Ref],
    steps: &[O::Ref],
    estimator: O::Ref,
) -> Result<usize, FormatError> {
    const NAMES: [&str; 2] = ["n_features_in_", "n_features_"];
    let candidates = knowing.iter().chain(steps).copied().chain([estimator]);
    let mut named = candidates.flat_map(|it| NAMES.map(|name| (it, name)));
    let knowing = named.find(|(it, name)| objects.attribute(*it, name).is_some());
    let (knowing, name) = knowing.unwrap_or((estimator, NAMES[0]));
    count(objects, knowing, name, limits::FEATURES)
}
