//! The load of one version of a model: what is known of it before its engine has it.

use std::{collections::BTreeMap, num::NonZeroUsize, path::Path, sync::Arc, time::SystemTime};

use backend::{Backend, Stop};

use crate::{
    config::choose::EngineChoice, load::load_watch::LoadWatch, repository::local::FoundModel,
};
use serving::config::raw;

/// One model version on its way.
pub(super) struct Load<'a> {
    pub(super) found: &'a FoundModel,
    pub(super) raw: Option<&'a raw::ModelConfig>,
    pub(super) version: u64,
    pub(super) path: &'a Path,
    pub(super) choice: &'a EngineChoice,
    pub(super) engine: &'a dyn Backend,
    pub(super) options: BTreeMap<String, String>,
    pub(super) started: SystemTime,
    /// Processors to share out.
    pub(super) cpus: NonZeroUsize,
    pub(super) watch: &'a LoadWatch,
    /// Requested when the engine takes too long, to load the model or to make an instance.
    pub(super) stop: Arc<Stop>,
}
