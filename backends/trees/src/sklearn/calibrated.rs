//! `CalibratedClassifierCV`: its estimators, each with the calibrators that were fitted to what it says. Pure.

use crate::{
    error::FormatError,
    folds,
    forest::{
        calibration::{Calibration, Calibrator, Isotonic, Said},
        document::Document,
    },
    ndarray::Dtype,
    sklearn::{
        objects::{Objects, classes, needed, number},
        tree::TreeReader,
    },
};

/// One of its estimators.
pub(super) struct CalibratedPart<R> {
    pub(super) estimator: R,
    calibrators: R,
    /// Classes of the whole.
    classes: usize,
}

/// The first of these names that an object has.
fn either<O: Objects>(objects: &O, of: O::Ref, names: [&str; 2]) -> Result<O::Ref, FormatError> {
    let found = names.iter().find_map(|name| objects.attribute(of, name));
    found.map_or_else(|| needed(objects, of, names[0]), Ok)
}

/// Its estimators; `None` where an object is no such classifier.
pub(super) fn parts<O: Objects>(
    objects: &O,
    of: O::Ref,
) -> Result<Option<Vec<CalibratedPart<O::Ref>>>, FormatError> {
    let Some((_, "CalibratedClassifierCV")) =
        objects.class(of).filter(|it| it.0.starts_with("sklearn."))
    else {
        return Ok(None);
    };
    let count = classes(objects, of)?;
    let list = objects.members(needed(objects, of, "calibrated_classifiers_")?).unwrap_or_default();
    if list.is_empty() || folds::MOST < list.len() {
        return Err(FormatError::new(format!(
            "{} calibrated classifiers, expected 1 to {}",
            list.len(),
            folds::MOST
        )));
    }
    let part = |it: O::Ref| {
        // Until 1.1, and until 0.23.
        let estimator = either(objects, it, ["estimator", "base_estimator"])?;
        let calibrators = either(objects, it, ["calibrators", "calibrators_"])?;
        Ok(CalibratedPart { estimator, calibrators, classes: count })
    };
    list.into_iter().map(part).collect::<Result<_, _>>().map(Some)
}

/// Gives a document the calibration of its part.
pub(super) fn calibrate<O: Objects>(
    reader: &mut TreeReader<O>,
    estimator: O::Ref,
    part: CalibratedPart<O::Ref>,
    document: &mut Document,
) -> Result<(), FormatError> {
    let objects = reader.objects();
    if document.classes != Some(part.classes) {
        return Err(FormatError::new(format!(
            "one of its estimators tells {} classes apart, and the calibrated classifier {}",
            document.classes.unwrap_or(0),
            part.classes
        )));
    }
    let class = objects.class(estimator).map_or("", |it| it.1);
    let said = match class {
        "GradientBoostingClassifier" => {
            let loss = objects.text(needed(objects, estimator, "loss")?);
            let divisor = if loss.as_deref() == Some("exponential") { 2.0 } else { 1.0 };
            Said::Sums { divisor }
        }
        "HistGradientBoostingClassifier" => Said::Sums { divisor: 1.0 },
        // LightGBM has that function from 4.7 on, as it has this attribute.
        "LGBMClassifier"
            if objects.attribute(estimator, "_fitted_with_feature_names").is_some() =>
        {
            Said::Sums { divisor: 1.0 }
        }
        _ => Said::Probabilities,
    };
    let calibrators = objects.members(part.calibrators).unwrap_or_default();
    reader.count(calibrators.len() * size_of::<Calibrator>(), 0)?;
    let calibrators = calibrators.into_iter().map(|it| calibrator(reader, it));
    let calibration = Calibration::new(said, calibrators.collect::<Result<_, _>>()?)?;
    if calibration.classes() != part.classes {
        return Err(FormatError::new(format!(
            "calibrators of {} classes, the classifier has {}",
            calibration.classes(),
            part.classes
        )));
    }
    document.calibration = Some(calibration);
    Ok(())
}

fn calibrator<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
) -> Result<Calibrator, FormatError> {
    let objects = reader.objects();
    match objects.class(of) {
        Some((_, "_SigmoidCalibration")) => Ok(Calibrator::Sigmoid {
            slope: number(objects, of, "a_")?,
            intercept: number(objects, of, "b_")?,
        }),
        Some((_, "IsotonicRegression")) => {
            // The second names are those before 0.24.
            let mut points = |names: [&str; 2]| {
                let array = objects.array(either(objects, of, names)?)?;
                let array =
                    array.ok_or_else(|| FormatError::new(format!("{} is no array", names[0])))?;
                reader.count(array.elements().saturating_mul(size_of::<f64>()), 0)?;
                Ok(array)
            };
            let x = points(["X_thresholds_", "_necessary_X_"])?;
            let y = points(["y_thresholds_", "_necessary_y_"])?;
            let is_single = matches!(&x.dtype, Dtype::Scalar(it) if it.bytes == size_of::<f32>());
            let [x, y] = [x, y].map(|it| it.floats().unwrap_or_default());
            Ok(Calibrator::Isotonic(Isotonic::new(x, y, is_single)?))
        }
        other => Err(FormatError::new(format!(
            "it is calibrated by {}, which is not served: calibrate it with method='sigmoid' or 'isotonic'",
            other.map_or("something unknown", |it| it.1)
        ))),
    }
}
