//! The run of a batch on a worker's thread, from the jobs that are taken out of the queue to the answers that leave: it
//! is begun under the lock, made without it, and what it tells of later ones is taken in under it again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::Stop;

use super::{
    busy::BusyRun,
    fast_runs::RunKind,
    moved::{Left, Waited},
    queue::Job,
    ratelimit::ResourcePermit,
    rerun::Standing,
    run::{self, Execution, Jobs, Observed},
    running::{Caller, Ended, Running},
    shared::Shared,
    slot::Slot,
    state::State,
    thread_time::{RunTime, ThreadTime},
    watchdog::{RunPlace, SEEN_AFTER},
    work::{Done, Work},
};
use inference::error::Error;
use telemetry::metrics::BatchReason;

/// What a worker is to run next.
pub(super) struct Next {
    /// Where.
    pub(super) slot: Slot,
    /// What its instance had to wait for.
    pub(super) permit: Option<ResourcePermit>,
    /// So many jobs, and why no more, as the queue has decided.
    pub(super) jobs: usize,
    pub(super) reason: BatchReason,
    pub(super) now: Instant,
    /// Since when this thread could have run it.
    pub(super) since: Instant,
}

/// A batch that was begun and has not ended.
pub(super) struct BatchRun {
    slot: Slot,
    stop: Arc<Stop>,
    works: Vec<Work>,
    /// What else is known of its jobs, where they may be left to another device.
    waited: Vec<Waited>,
    standing: Standing,
    reason: BatchReason,
    /// The longest of its rows of text; else 0.
    length: usize,
    /// What its time is likely to depend on.
    kind: RunKind,
    /// Are others shorter?
    is_padded: bool,
    /// Does its time say something of those of others?
    is_known: bool,
    since: Instant,
    /// `None` once it has run.
    busy: Option<BusyRun>,
}

/// What has come of the run.
struct Outcome<'a> {
    works: &'a [&'a Work],
    answers: &'a [Result<Done, Error>],
    observed: &'a Observed,
    /// How long this thread has computed for it.
    computed: Duration,
    /// Has a job failed?
    failed: bool,
}

impl BatchRun {
    /// Takes its jobs out of the queue.
    pub(super) fn begin(next: Next, shared: &Shared, state: &mut State) -> BatchRun {
        let Next { mut slot, permit, jobs, reason, now, since } = next;
        let (taken, reason) = state.queue.take_run(jobs, reason, now);
        let rows = taken.iter().map(|(_, it)| it.pending.rows).sum();
        let lengths = || taken.iter().map(|(_, it)| it.pending.length);
        let length = lengths().max().unwrap_or(0);
        let is_padded = lengths().any(|it| it != length);
        let shape_key = taken.first().map_or(0, |(_, it)| it.pending.shape_key);
        // As long as one of them may wait.
        let deadline =
            taken.iter().map(|(_, it)| it.deadline).reduce(|a, b| Some(a?.max(b?))).flatten();
        // Runs of other signatures than the first have times of their own, of which nothing is known.
        let is_known = taken.iter().all(|(_, it)| it.work.signature == 0);
        let place = if is_known { slot.run_place() } else { RunPlace::Server };
        let usual = state.usual_time(rows);
        let (limit, patience) = (shared.settings.run_limit.of(usual, place), place.patience(usual));
        let stop = Arc::new(Stop::new());
        stop.end_by(deadline);
        stop.limit_to(limit.and_then(|it| now.checked_add(it + SEEN_AFTER)));
        let has_crashed = matches!(&taken[..], [(_, only)] if only.has_crashed);
        let standing = Standing { has_crashed, moves: state.may_move(&slot) };
        let mut callers = Vec::with_capacity(taken.len());
        let mut replies = Vec::with_capacity(taken.len());
        let mut works = Vec::with_capacity(taken.len());
        let mut waited = Vec::new();
        for (ticket, job) in taken {
            // Its metrics do not count it among those that wait any more.
            let Job { reply, work, pending, deadline, level, .. } = job;
            callers.push(Caller::new(ticket, deadline));
            replies.push(reply);
            works.push(work);
            if standing.moves {
                waited.push(Waited { ticket, pending, deadline, level });
            }
        }
        state.runs.begin(Running {
            callers,
            replies,
            rows,
            stop: stop.clone(),
            started: now,
            limit,
            patience,
            device: slot.device(),
            is_apart: slot.is_apart(),
            permit,
        });
        let kind = RunKind::of(rows, (shape_key, length), &works);
        let busy = shared.settings.busy.begin();
        slot.may_run_wide(busy.is_only && state.queue.is_empty());
        let busy = Some(busy);
        BatchRun {
            slot,
            stop,
            works,
            waited,
            standing,
            reason,
            length,
            kind,
            is_padded,
            is_known,
            since,
            busy,
        }
    }

    /// Makes it, and answers its requests. Notes in `busy_since` from when on this thread could run the next batch,
    /// where there is one. Is this thread to go on? Not where the run was given up before it ended, and another works
    /// in its place. Blocking.
    pub(super) fn make(mut self, shared: &Shared, busy_since: &mut Option<Instant>) -> bool {
        let works: Vec<&Work> = self.works.iter().collect();
        let began = ThreadTime::now();
        let mut observed = Observed { times: Vec::with_capacity(1), ..Observed::default() };
        let observe = &mut |it: Execution<'_>| observed.take(&it);
        let wishes = |place| shared.lock().runs.wish(&self.stop, place, Instant::now());
        let jobs = Jobs { works: &works, standing: self.standing, wishes: &wishes };
        let answers = run::run(&mut self.slot, &shared.context, jobs, &self.stop, observe);
        self.slot.may_run_wide(false);
        self.busy = None;
        let computed = began.elapsed();
        let failed = answers.iter().any(Result::is_err);
        observed.reruns.count(&shared.metrics);
        shared.remember_killers(&works, &answers, &observed.killers);
        // A batch that succeeds takes one execution.
        let is_retry = 1 < observed.times.len();
        shared.observe(&observed.times, if is_retry { BatchReason::Retry } else { self.reason });

        // The instance goes back before the answers leave: a client that sends its next request at once must
        // find it idle.
        let mut state = shared.lock();
        let now = Instant::now();
        let Some(Ended { replies, overdue }) = state.runs.end(&self.stop, failed, now) else {
            return shared.come_back(state, self.slot, &self.stop);
        };
        let outcome =
            Outcome { works: &works, answers: &answers, observed: &observed, computed, failed };
        self.teach(shared, &mut state, &outcome, now);
        let replies = match observed.moved.is_empty() {
            true => replies,
            false => {
                let (moved, is_overdue) = (observed.moved, overdue.is_some());
                let (waited, works) = (self.waited, self.works);
                Left { waited, works, replies, moved, is_overdue }.put_back(shared, &mut state)
            }
        };
        *busy_since = state.is_backlogged(now).then_some(now);
        shared.put_back(state, self.slot);
        let answers = match overdue {
            Some(time) => shared.overdue_answers(answers, time),
            None => answers,
        };
        for (reply, answer) in replies.into_iter().zip(answers) {
            reply.send(answer);
        }
        true
    }

    /// What it tells of later runs.
    fn teach(&self, shared: &Shared, state: &mut State, outcome: &Outcome<'_>, now: Instant) {
        let Outcome { works, answers, observed, computed, failed } = *outcome;
        let times = observed.times.as_slice();
        // The shapes of a padded run are not those that each of its requests has alone.
        if times.len() == 1 && !self.is_padded {
            shared.sample(state, works, answers);
        }
        // Runs with more threads say nothing of those that have company.
        let learns = !self.slot.has_run_wide();
        if self.is_known && learns {
            state.learn(times);
            // That of several is that of none of them.
            let computed = Some(computed).filter(|_| times.len() == 1);
            for time in times {
                let kind = self.kind.with_rows(time.batch_rows);
                state.fast.record(kind, RunTime { took: time.infer, computed }, now);
            }
        }
        if !times.is_empty() {
            shared.learn_memory(state, observed.has_halved(answers), now);
        }
        let [time] = times else { return };
        if 0 < self.length {
            if learns {
                state.queue.learn_run(time.batch_rows, self.length, time.infer);
            }
            shared.metrics.text_run(time.batch_rows, self.length);
        }
        // A batch of which something failed, or was run again, took longer than the next one will.
        if learns && !failed && !observed.has_repeated() {
            let occupied = now.saturating_duration_since(self.since);
            state.learn_occupancy(time.batch_rows, occupied.saturating_sub(self.stop.waited(now)));
        }
    }
}
