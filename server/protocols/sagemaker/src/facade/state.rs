//! The state of the local SageMaker runtime.

use std::sync::Arc;

use super::asked::Operations;
use crate::{
    async_invocations::{self, Runner, Submitter},
    settings::aws::AwsFacade,
};
use stores::StoreSettings;

/// The state of the addresses that clients of AWS call, one for the whole server.
pub struct Facade {
    /// The queue of asynchronous invocations; `None` where they are off.
    pub submitter: Option<Submitter>,
    /// The queue of operations on jobs of the Inference Recommender; `None` where they are off.
    pub operations: Option<Operations>,
}

impl Facade {
    /// The state by the settings, and the runner that the caller has to start.
    pub fn new(
        config: &AwsFacade,
        stores: &StoreSettings,
        operations: Option<Operations>,
    ) -> (Arc<Facade>, Option<Runner>) {
        let made = config.async_invocations.as_ref().map(|it| async_invocations::queue(it, stores));
        let (submitter, runner) = made.unzip();
        (Arc::new(Facade { submitter, operations }), runner)
    }
}
