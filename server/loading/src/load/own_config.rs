//! Models with code of their own: what that code says of the configuration, and what it is told.

use backend::Model;

use crate::{
    config::complete::RowsKnown,
    load::{create_error::CreateError, loader::Loader, placement::Plan, version_load::Load},
};
use serving::config::raw;

/// May a request to that model have any number of answers?
pub(super) fn is_decoupled(raw: &raw::ModelConfig) -> bool {
    raw.model_transaction_policy.is_some_and(|it| it.decoupled)
}

/// A model that is to give any number of answers must be able to.
pub(super) fn check_parts(
    raw: Option<&raw::ModelConfig>,
    model: &dyn Model,
) -> Result<(), CreateError> {
    match raw.is_some_and(is_decoupled) && !model.streams() {
        true => Err(CreateError::Refused(
            "model_transaction_policy { decoupled: true }: the model gives each request one answer, as do all \
             models in processes of their own (--isolation) that are not Python code"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

impl Loader {
    /// The configuration as the model's own code has completed it; `None` where it has added nothing.
    ///
    /// # Errors
    /// [`CreateError::Refused`] where that is none.
    pub(super) fn completed_by_itself(
        &self,
        model: &dyn Model,
    ) -> Result<Option<raw::ModelConfig>, CreateError> {
        let read = |json: &str| {
            self.reader.parse_json("auto_complete_config", json).map_err(|it| {
                CreateError::Refused(format!(
                    "its code has completed its configuration to one that is not valid: {it}"
                ))
            })
        };
        model.completed_config().map(read).transpose()
    }

    /// Tells the model's own code the configuration that it is served with.
    pub(super) fn tell_config(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        plan: &Plan,
    ) -> Result<(), CreateError> {
        if !model.answers_calls() {
            return Ok(());
        }
        let mut completed = self.complete(load, model, RowsKnown::Independent)?;
        completed.show_instances(&plan.groups);
        model.settle(&self.reader.to_json(&completed.raw).to_string().into());
        Ok(())
    }
}
