//! What stands in for SageMaker's own side around `/invocations`.

use std::sync::Arc;

use crate::{
    hosting::async_invocations::{self, Runner, Submitter},
    settings::aws::AwsFacade,
};
use models::stores::StoreSettings;

/// The state of the addresses below `/endpoints`, one for the whole server.
pub struct Facade {
    /// Asynchronous invocations; `None` where there are none.
    pub submitter: Option<Submitter>,
}

impl Facade {
    /// As the settings say; and what waits to be run asynchronously, for who runs it.
    pub fn new(config: &AwsFacade, stores: &StoreSettings) -> (Arc<Facade>, Option<Runner>) {
        let made = config.async_invocations.as_ref().map(|it| async_invocations::queue(it, stores));
        let (submitter, runner) = made.unzip();
        (Arc::new(Facade { submitter }), runner)
    }
}
