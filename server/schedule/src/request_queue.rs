//! What schedulers and ensembles have in common: whether they take requests, and how they end.

use std::time::Duration;

use inference::{error::Error, request::SequenceId};

/// Takes the requests of one model.
pub trait RequestQueue: Send + Sync {
    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::Overloaded`], [`Error::ModelNotReady`] or [`Error::ShuttingDown`].
    fn admit(&self) -> Result<(), Error>;

    /// Most batches that run at once.
    fn instances(&self) -> usize;

    /// Why the model cannot answer although it is loaded, if it cannot. Cheap.
    fn trouble(&self) -> Option<&'static str> {
        None
    }

    /// From now on nothing waits for more requests to batch with.
    fn flush(&self);

    /// Takes no more requests. What waits is still run.
    fn close(&self);

    /// Waits until nothing runs any more, after [`RequestQueue::close`]. Blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    fn wait_closed(&self, patience: Duration) -> usize;

    /// Drops the instances, after [`RequestQueue::wait_closed`].
    fn release(&self);

    /// Can a sequence have that id?
    fn takes_sequence(&self, _id: &SequenceId) -> bool {
        true
    }

    /// Is there an open sequence of that id?
    fn has_sequence(&self, _id: &SequenceId) -> bool {
        false
    }

    /// Ends the sequence of that id once its requests are answered.
    fn leave_sequence(&self, _id: &SequenceId) {}

    /// Are there sequences that wait for their next request, which would not find them elsewhere?
    fn has_open_sequences(&self) -> bool {
        false
    }
}
