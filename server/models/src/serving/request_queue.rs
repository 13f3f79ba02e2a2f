//! What schedulers and ensembles have in common: whether they take requests, and how they end.

use std::time::Duration;

use inference::{error::Error, request::SequenceId};
use schedule::{Scheduler, sequence::SequenceScheduler};

/// Takes the requests of one model.
pub trait RequestQueue: Send + Sync {
    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::Overloaded`] or [`Error::ShuttingDown`].
    fn admit(&self) -> Result<(), Error>;

    /// Most batches that run at once.
    fn instances(&self) -> usize;

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

impl RequestQueue for Scheduler {
    fn admit(&self) -> Result<(), Error> {
        Scheduler::admit(self)
    }

    fn instances(&self) -> usize {
        Scheduler::instances(self)
    }

    fn flush(&self) {
        Scheduler::flush(self);
    }

    fn close(&self) {
        Scheduler::close(self);
    }

    fn wait_closed(&self, patience: Duration) -> usize {
        Scheduler::wait_closed(self, patience)
    }

    fn release(&self) {
        Scheduler::release(self);
    }
}

impl RequestQueue for SequenceScheduler {
    fn admit(&self) -> Result<(), Error> {
        SequenceScheduler::admit(self)
    }

    fn instances(&self) -> usize {
        SequenceScheduler::instances(self)
    }

    fn flush(&self) {
        SequenceScheduler::flush(self);
    }

    fn close(&self) {
        SequenceScheduler::close(self);
    }

    fn wait_closed(&self, patience: Duration) -> usize {
        SequenceScheduler::wait_closed(self, patience)
    }

    fn release(&self) {
        SequenceScheduler::release(self);
    }

    fn takes_sequence(&self, id: &SequenceId) -> bool {
        self.takes(id)
    }

    fn has_sequence(&self, id: &SequenceId) -> bool {
        self.is_open(id)
    }

    fn leave_sequence(&self, id: &SequenceId) {
        self.leave(id);
    }

    fn has_open_sequences(&self) -> bool {
        self.has_open()
    }
}
