//! Requests whose process has died and that another device is to run: they go back into the queue.

use std::time::Instant;

use telemetry::metrics::Rerun;

use super::{
    policy::Pending, queue::Job, reply::Reply, rerun::Moved, shared::Shared, state::State,
    work::Work,
};

/// What is known of a request while it runs, beside its work, so that it can be put back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) ticket: u64,
    pub(crate) pending: Pending,
    pub(crate) deadline: Option<Instant>,
    pub(crate) level: Option<usize>,
}

/// A run that has left requests to another device, request by request.
pub(crate) struct Left {
    /// In the order of the requests, as are the next two.
    pub(crate) waited: Vec<Waited>,
    pub(crate) works: Vec<Work>,
    pub(crate) replies: Vec<Reply>,
    /// Those that are to run elsewhere, in the same order.
    pub(crate) moved: Vec<Moved>,
    /// Has it lasted too long? None runs elsewhere then.
    pub(crate) is_overdue: bool,
}

impl Left {
    /// Puts those back into the queue that are to run elsewhere and for which a client waits. A request whose process
    /// has died in its run shares no run with others from then on, and is counted once it has run again. Where the
    /// answers go, in their order: for those nowhere.
    pub(crate) fn put_back(self, shared: &Shared, state: &mut State) -> Vec<Reply> {
        let mut moved = self.moved.into_iter().peekable();
        let requests = self.waited.into_iter().zip(self.works).zip(self.replies).enumerate();
        let replies = requests.map(|(place, ((waited, work), reply))| {
            let Some(it) = moved.next_if(|it| it.place == place) else { return reply };
            if self.is_overdue || !reply.is_awaited() {
                shared.metrics.reruns(Rerun::Late, u64::from(it.has_crashed));
                return reply;
            }
            let Waited { ticket, pending, deadline, level } = waited;
            let pending = Pending { is_alone: pending.is_alone || it.has_crashed, ..pending };
            let counted = Some(shared.metrics.pending());
            let has_crashed = it.has_crashed;
            let job =
                Job { has_crashed, level, ..Job::new(pending, work, deadline, reply, counted) };
            state.queue.put_back(ticket, job);
            Reply::none()
        });
        replies.collect()
    }
}

impl Shared {
    /// Counts those of these jobs that a process has died in, where they leave the queue without another run.
    pub(crate) fn count_unrun<'a>(&self, jobs: impl IntoIterator<Item = &'a Job>, outcome: Rerun) {
        let crashed = jobs.into_iter().filter(|it| it.has_crashed).count();
        self.metrics.reruns(outcome, crashed as u64);
    }
}
