//! What a run gets beside the inputs of its requests.

use std::{borrow::Cow, path::Path, sync::Arc};

use backend::{BackendError, NamedTensor};

use crate::load::{load_error::LoadError, sequence_settings};
use schedule::{ragged::Ragged, sequence::Wiring, work::Work};
use serving::config::model::{ModelConfig, Scheduling};

/// What a run gets beside the inputs of its requests.
#[derive(Debug, Clone)]
pub(crate) enum ExtraInputs {
    /// Nothing.
    Plain,
    /// Where in its sequence a request stands, and what the sequence has kept.
    Sequences(Wiring),
    /// What there is to say about a batch of different shapes.
    Ragged(Arc<Ragged>),
}

impl ExtraInputs {
    /// That of a model. `dir` is its directory. Blocking.
    ///
    /// # Errors
    /// When a file that belongs to the model is not there, or not what it should be.
    pub(crate) fn of(config: &ModelConfig, dir: &Path) -> Result<ExtraInputs, LoadError> {
        match &config.scheduling {
            Scheduling::Sequences(batching) => {
                Ok(ExtraInputs::Sequences(sequence_settings::wiring(config, batching, dir)?))
            }
            Scheduling::Plain | Scheduling::Dynamic(_) => match &config.ragged {
                Some(ragged) => Ok(ExtraInputs::Ragged(Arc::new(ragged.clone()))),
                None => Ok(ExtraInputs::Plain),
            },
        }
    }

    /// All inputs of a run of this request alone, which is a whole sequence where there are any.
    pub(crate) fn inputs<'a>(
        &self,
        work: &'a Work,
    ) -> Result<Cow<'a, [NamedTensor]>, BackendError> {
        match self {
            ExtraInputs::Plain => Ok(Cow::Borrowed(&work.inputs)),
            ExtraInputs::Sequences(wiring) => wiring.whole_sequence(work).map(Cow::Owned),
            ExtraInputs::Ragged(ragged) => ragged.gather(&[work]).map(Cow::Owned),
        }
    }
}
