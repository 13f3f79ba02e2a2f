//! The addresses of TensorFlow Serving, below `/v1/models`.

use hyper::Method;

use super::{GET, POST, Route, model_path, unknown};
use crate::error::Error;

/// `name[/versions/n][:verb | /metadata]`
pub(super) fn route<'a>(
    path: &str,
    rest: &[&'a str],
) -> Result<(&'static [Method], Route<'a>), Error> {
    let (name, version, metadata) = match rest {
        [name] => (*name, None, false),
        [name, "metadata"] => (*name, None, true),
        [name, "versions", version] => (*name, Some(*version), false),
        [name, "versions", version, "metadata"] => (*name, Some(*version), true),
        [_, "labels", ..] => {
            let text = "version labels are not supported; name a version, or none for the latest";
            return Err(Error::Unimplemented(text.into()));
        }
        _ => return Err(unknown(path)),
    };
    // The verb hangs on the last part: the version where there is one, else the name.
    let last = version.unwrap_or(name);
    let (last, verb) = last.rsplit_once(':').map_or((last, None), |(it, verb)| (it, Some(verb)));
    let model = match version {
        Some(_) => model_path(name, Some(last))?,
        None => model_path(last, None)?,
    };
    match (verb, metadata) {
        (None, false) => Ok((GET, Route::ModelStatus(model))),
        (None, true) => Ok((GET, Route::TensorFlowMetadata(model))),
        (Some("predict"), false) => Ok((POST, Route::Predict(model))),
        (Some(verb @ ("classify" | "regress")), false) => Err(Error::Unimplemented(format!(
            "the method '{verb}' is not supported; use ':predict'"
        ))),
        _ => Err(unknown(path)),
    }
}
