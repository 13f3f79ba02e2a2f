//! The parameters of a step, and what is wrong with one: its line in `config.pbtxt`, its key and the nearest name.

use std::str::FromStr;

use backend::{BackendError, ModelSource};
use inference::signature::nearest;

use super::bounds::FileBounds;

/// The parameter that says which step it is.
pub(super) const STEP: &str = "step";
/// What the server itself adds to the parameters of every model.
const OF_SERVER: &str = "optimization.graph.level";

/// The parameters of one step.
pub(super) struct StepSettings<'a> {
    pub(super) source: &'a ModelSource,
    /// Of files that it decodes.
    pub(super) bounds: &'a FileBounds,
}

impl<'a> StepSettings<'a> {
    /// Those of a step that has these.
    ///
    /// # Errors
    /// When there is another one.
    pub(super) fn new(
        source: &'a ModelSource,
        bounds: &'a FileBounds,
        step: &str,
        known: &[&str],
    ) -> Result<StepSettings<'a>, BackendError> {
        let settings = StepSettings { source, bounds };
        let is_known = |it: &str| it == STEP || it == OF_SERVER || known.contains(&it);
        match source.options.keys().find(|it| !is_known(it)) {
            None => Ok(settings),
            Some(key) => {
                let hint = match nearest(key, known.iter().copied()) {
                    Some(near) => format!("the nearest is '{near}'"),
                    None => format!("it has {}", known.join(", ")),
                };
                let problem = format!("the step '{step}' has no such parameter; {hint}");
                Err(settings.wrong(key, problem))
            }
        }
    }

    /// Does a run have several rows of one text, and so no dimension of rows that clients know?
    pub(super) fn is_unbatched(&self) -> bool {
        self.source.hints.is_unbatched
    }

    /// The error about a parameter.
    pub(super) fn wrong(&self, key: &str, problem: impl std::fmt::Display) -> BackendError {
        let line = line_of(self.source, key);
        let place = line.map(|it| format!("config.pbtxt:{it}: ")).unwrap_or_default();
        BackendError::Load(format!("{place}parameter '{key}': {problem}"))
    }

    /// A text; `None` where it is not given.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.source.options.get(key).map(String::as_str)
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BackendError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let wrong = || self.wrong(key, format!("it is '{text}', expected {expected}"));
        read(text.trim()).map(Some).ok_or_else(wrong)
    }

    /// A count from 1 on.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>, BackendError> {
        self.read(key, "a whole number from 1 on", |it| it.parse().ok().filter(|it| *it > 0))
    }

    /// A count from 0 on.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn count_from_zero(&self, key: &str) -> Result<Option<usize>, BackendError> {
        self.read(key, "a whole number from 0 on", |it| it.parse().ok())
    }

    /// Yes or no.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, BackendError> {
        self.read(key, "true or false", |it| bool::from_str(it).ok())
    }

    /// One of several names.
    ///
    /// # Errors
    /// When it is none of those, with the nearest.
    pub(super) fn named<T>(
        &self,
        key: &str,
        known: &[&str],
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BackendError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        from_name(text.trim()).map(Some).ok_or_else(|| {
            let near = nearest(text, known.iter().copied());
            let near = near.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
            self.wrong(key, format!("'{text}' is none of {}{near}", known.join(", ")))
        })
    }

    /// Texts with commas between them; `None` where it is not given.
    pub(super) fn list(&self, key: &str) -> Option<Vec<String>> {
        let text = self.text(key)?;
        let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        Some(parts.map(str::to_owned).collect())
    }

    /// Numbers with commas between them.
    ///
    /// # Errors
    /// When one is none.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<f32>>, BackendError> {
        let one = |it: &str| it.trim().parse().ok().filter(|it: &f32| it.is_finite());
        let all = |it: &str| it.split(',').map(one).collect();
        self.read(key, "numbers with commas between them", all)
    }
}

/// The line of the configuration that has this key, where there is such a file and such a line.
fn line_of(source: &ModelSource, key: &str) -> Option<usize> {
    let text = backend::read_text(&source.directory.join("config.pbtxt")).ok()?;
    let quoted = [format!("\"{key}\""), format!("'{key}'")];
    let has = |line: &str| quoted.iter().any(|it| line.contains(it.as_str()));
    text.lines().position(has).map(|it| it + 1)
}
