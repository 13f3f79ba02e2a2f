//! The states of a model's versions in TensorFlow Serving's terms, for its gRPC and REST calls.

use formats::tfs::{VersionState, VersionStatus};
use inference::error::Error;
use serving::{IndexEntry, ModelManager, State};

/// The states of a model's versions, the highest first; only of `version`, where one is named.
///
/// # Errors
/// Those of [`ModelManager::get`] where no state is known.
pub fn version_states(
    models: &ModelManager,
    name: &str,
    version: Option<u64>,
) -> Result<Vec<VersionStatus>, Error> {
    let entries = models.shown_states(name);
    let mut states: Vec<VersionStatus> = entries.iter().filter_map(state).collect();
    states.retain(|it| version.is_none_or(|version| it.version == version));
    if states.is_empty() {
        models.get(name, version)?;
    }
    states.sort_by_key(|it| std::cmp::Reverse(it.version));
    Ok(states)
}

fn state(entry: &IndexEntry) -> Option<VersionStatus> {
    let state = match entry.state {
        State::Unknown => VersionState::Start,
        State::Loading => VersionState::Loading,
        State::Ready => VersionState::Available,
        State::Unloading => VersionState::Unloading,
        State::Unavailable => VersionState::End,
    };
    let failure = entry.has_failed().then(|| entry.reason.to_string());
    Some(VersionStatus { version: entry.version?, state, failure })
}
