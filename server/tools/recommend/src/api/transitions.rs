//! What becomes of the state of a job: when it begins, is to stop, is written, and is found again. The
//! time is the caller's, and nothing is read or written.

use std::time::SystemTime;

use crate::job_state::{JobState, JobStatus};

/// How often a job is begun again after its program has ended before it was over.
const MOST_BEGUN: u32 = 3;

/// How a job stops that is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It was over, or was asked before.
    IsOver,
    /// It had not begun.
    AtOnce,
    /// It is being done, and ends with what it has.
    WhenItSees,
}

/// The job is being done from now on.
pub(super) fn begin(state: &mut JobState) {
    state.status = JobStatus::InProgress;
    state.begun = state.begun.saturating_add(1);
}

/// The job is asked to end with what it has.
pub(super) fn stop(state: &mut JobState, now: SystemTime) -> Stop {
    match state.status {
        JobStatus::Pending => {
            (state.status, state.ended) = (JobStatus::Stopped, Some(now));
            Stop::AtOnce
        }
        JobStatus::InProgress => {
            state.status = JobStatus::Stopping;
            Stop::WhenItSees
        }
        JobStatus::Completed | JobStatus::Failed | JobStatus::Stopping | JobStatus::Stopped => {
            Stop::IsOver
        }
    }
}

/// The times of a state that changes now. They never run backwards, as the clock may when it is set.
pub(super) fn settle(state: &mut JobState, now: SystemTime) {
    state.ended = state.ended.map(|it| it.max(state.created));
    let ended = state.ended.unwrap_or(state.created);
    state.modified = now.max(state.modified).max(ended);
}

/// The state after a program has ended.
pub(super) fn recover(state: &mut JobState, now: SystemTime) {
    let end = |state: &mut JobState, status| (state.status, state.ended) = (status, Some(now));
    match state.status {
        JobStatus::InProgress if state.begun >= MOST_BEGUN => {
            end(state, JobStatus::Failed);
            let reason = "the recommender ended three times while it did this job";
            state.failure = Some(reason.to_owned());
        }
        JobStatus::InProgress => {
            state.status = JobStatus::Pending;
            state.steps.clear();
        }
        JobStatus::Stopping => end(state, JobStatus::Stopped),
        JobStatus::Pending | JobStatus::Completed | JobStatus::Failed | JobStatus::Stopped => {
            return;
        }
    }
    settle(state, now);
}
