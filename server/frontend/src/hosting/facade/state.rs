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
    pub later: Option<Submitter>,
}

impl Facade {
    /// As the settings say; and what waits to be run asynchronously, for who runs it.
    pub fn new(config: &AwsFacade, stores: &StoreSettings) -> (Arc<Facade>, Option<Runner>) {
        let made = config.later.as_ref().map(|it| async_invocations::queue(it, stores));
        let (later, waiting) = made.unzip();
        (Arc::new(Facade { later }), waiting)
    }
}
