//! Coalescing of jobs on one thread: those that join a task which has taken an instance run with it as one batch.
//!
//! A thread that serves many connections often has several requests before it at once. The first of them
//! takes the instance and yields once; those that have come by then run as one batch, and no job has crossed to
//! another thread. Plain data: `inline_run` decides which task waits and which one runs.

use std::thread::ThreadId;

use super::{fast_runs::RunKind, queue::Job};

/// A leading task and the jobs that have joined it.
struct Group {
    id: u64,
    thread: ThreadId,
    /// Of all its jobs, the leading task's included.
    rows: usize,
    /// The kind of the leading task's run; those that join are like it but for their rows.
    kind: RunKind,
    /// With their tickets, in order of arrival, without the leading task's.
    jobs: Vec<(u64, Job)>,
}

/// The groups of one model version: at most one on a thread, and no more than there are instances.
#[derive(Default)]
pub struct Coalescer {
    groups: Vec<Group>,
    next: u64,
    join_rate: JoinRate,
}

impl Coalescer {
    /// Is it likely that others would join a task that waits for them? Now and then the answer is yes only to find out.
    pub fn is_worth_waiting(&mut self) -> bool {
        self.join_rate.is_likely()
    }

    /// Opens a group around a job of so many rows, whose run alone is of that kind; returns its number.
    pub(crate) fn open(&mut self, thread: ThreadId, rows: usize, kind: RunKind) -> u64 {
        self.next += 1;
        self.groups.push(Group { id: self.next, thread, rows, kind, jobs: Vec::new() });
        self.next
    }

    /// The group on a thread: its number, the rows in it, and the kind of the leading task's run.
    pub(crate) fn on_thread(&self, thread: ThreadId) -> Option<(u64, usize, RunKind)> {
        self.groups.iter().find(|it| it.thread == thread).map(|it| (it.id, it.rows, it.kind))
    }

    /// Adds a job to an open group; else the job is dropped.
    pub fn join(&mut self, id: u64, ticket: u64, job: Job) {
        if let Some(group) = self.groups.iter_mut().find(|it| it.id == id) {
            group.rows += job.pending.rows;
            group.jobs.push((ticket, job));
        }
    }

    /// Takes a job out again; `None` when it is in none of them.
    pub fn withdraw(&mut self, ticket: u64) -> Option<Job> {
        self.groups.iter_mut().find_map(|group| {
            let at = group.jobs.iter().position(|(it, _)| *it == ticket)?;
            let (_, job) = group.jobs.remove(at);
            group.rows -= job.pending.rows;
            Some(job)
        })
    }

    /// Closes a group: its jobs with their tickets, in order of arrival.
    pub fn close(&mut self, id: u64) -> Vec<(u64, Job)> {
        let Some(at) = self.groups.iter().position(|it| it.id == id) else { return Vec::new() };
        let group = self.groups.swap_remove(at);
        self.join_rate.record(group.jobs.len());
        group.jobs
    }
}

/// How many join a task that lets them? A running mean.
#[derive(Default)]
struct JoinRate {
    mean: f32,
    passed: u32,
}

impl JoinRate {
    /// Weight of the last group in the mean.
    const STEP: f32 = 0.125;
    /// Others for which a task waits.
    const LIKELY: f32 = 0.5;
    /// Of the tasks that need not wait, one in so many does, to see whether that has changed.
    const PROBE: u32 = 16;

    fn is_likely(&mut self) -> bool {
        if JoinRate::LIKELY <= self.mean {
            return true;
        }
        self.passed = (self.passed + 1) % JoinRate::PROBE;
        self.passed == 0
    }

    fn record(&mut self, others: usize) {
        self.mean += JoinRate::STEP * (others as f32 - self.mean);
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;
    use crate::{policy::Pending, reply::Reply, work::Work};

    fn job(rows: usize) -> Job {
        let enqueued_at = Instant::now();
        let pending = Pending { rows, enqueued_at, shape_key: 0, length: 0, is_alone: false };
        let work = Work {
            about: None,
            parts: None,
            signature: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            rows,
        };
        Job::new(pending, work, None, Reply::none(), None)
    }

    fn kind() -> RunKind {
        RunKind::of(1, (0, 0), [])
    }

    #[test]
    fn jobs_join_on_their_thread_and_leave_with_its_group() {
        let (here, there) = (thread::current().id(), thread::spawn(|| ()).thread().id());
        let mut coalescer = Coalescer::default();
        let id = coalescer.open(here, 1, kind());
        coalescer.join(id, 7, job(2));
        assert_eq!(
            (coalescer.on_thread(here), coalescer.on_thread(there)),
            (Some((id, 3, kind())), None)
        );
        assert_eq!(coalescer.close(id).len(), 1);
        assert_eq!(coalescer.on_thread(here), None);
    }

    #[test]
    fn a_withdrawn_job_is_not_run() {
        let here = thread::current().id();
        let mut coalescer = Coalescer::default();
        let id = coalescer.open(here, 1, kind());
        coalescer.join(id, 7, job(2));
        assert!(coalescer.withdraw(7).is_some());
        assert!(coalescer.withdraw(7).is_none());
        assert_eq!(coalescer.on_thread(here), Some((id, 1, kind())));
        assert!(coalescer.close(id).is_empty());
    }

    #[test]
    fn a_task_that_is_always_alone_waits_for_company_once_in_sixteen_times() {
        let mut rate = JoinRate::default();
        let waits = (0..160).filter(|_| {
            let waits = rate.is_likely();
            if waits {
                rate.record(0);
            }
            waits
        });
        assert_eq!(waits.count(), 10);
    }

    #[test]
    fn one_large_group_is_enough_to_wait_for_the_next() {
        let mut rate = JoinRate::default();
        rate.record(7);
        assert!(rate.is_likely());
        (0..20).for_each(|_| rate.record(0));
        assert!(!rate.is_likely());
    }
}
