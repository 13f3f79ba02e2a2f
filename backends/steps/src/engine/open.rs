//! Which steps there are, by their names.

use backend::{BackendError, ModelSource};
use inference::signature::nearest;

use super::{
    answer, arithmetic, audio,
    bounds::FileBounds,
    cast, classify, ctc, detect, detokenize, entail, entities, image,
    kind::Opened,
    mask, pool,
    settings::{STEP, StepSettings},
    similarity, splade, tokenize,
};

/// Opens a step.
type Open = fn(&StepSettings<'_>, &str) -> Result<Opened, BackendError>;

/// Name, parameters and what opens it.
const STEPS: [(&str, &[&str], Open); 20] = [
    ("tokenize", tokenize::PARAMETERS, |it, _| tokenize::open(it)),
    ("detokenize", detokenize::PARAMETERS, |it, _| detokenize::open(it)),
    ("image", image::PARAMETERS, |it, _| image::open(it)),
    ("audio", audio::PARAMETERS, |it, _| audio::open(it)),
    ("ctc", ctc::PARAMETERS, |it, _| ctc::open(it)),
    ("detect", detect::PARAMETERS, |it, _| detect::open(it)),
    ("pool", pool::PARAMETERS, |it, _| pool::open(it)),
    ("classify", classify::PARAMETERS, |it, _| classify::open(it)),
    ("entities", entities::PARAMETERS, |it, _| entities::open(it)),
    ("answer", answer::PARAMETERS, |it, _| answer::open(it)),
    ("mask", mask::PARAMETERS, |it, _| mask::open(it)),
    ("entail", entail::PARAMETERS, |it, _| entail::open(it)),
    ("splade", splade::PARAMETERS, |it, _| splade::open(it)),
    ("similarity", similarity::PARAMETERS, |it, _| similarity::open(it)),
    ("normalize", arithmetic::OF_AXIS, arithmetic::open),
    ("softmax", arithmetic::OF_AXIS, arithmetic::open),
    ("top_k", arithmetic::OF_TOP_K, arithmetic::open),
    ("argmax", arithmetic::OF_AXIS, arithmetic::open),
    ("scale", arithmetic::OF_SCALE, arithmetic::open),
    ("cast", cast::PARAMETERS, |it, _| cast::open(it)),
];

/// The step that the parameters describe. Blocking.
///
/// # Errors
/// When there is no such step, or a parameter or a file is wrong.
pub(super) fn open(source: &ModelSource, bounds: &FileBounds) -> Result<Opened, BackendError> {
    let names = || STEPS.iter().map(|it| it.0);
    let Some(name) = source.options.get(STEP) else {
        let all: Vec<&str> = names().collect();
        return Err(BackendError::Load(format!(
            "parameter '{STEP}' is missing; it is one of {}",
            all.join(", ")
        )));
    };
    let Some((name, known, open)) = STEPS.iter().find(|it| it.0 == name) else {
        let hint = match nearest(name, names()) {
            Some(near) => format!("the nearest is '{near}'"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        let problem = format!("there is no step '{name}'; {hint}");
        return Err(StepSettings { source, bounds }.wrong(STEP, problem));
    };
    open(&StepSettings::new(source, bounds, name, known)?, name)
}
