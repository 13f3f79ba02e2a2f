//! Jobs that gather around a task which has taken an instance, to run with it on its thread.
//!
//! A thread that serves many connections often has several requests before it at once. The first of them
//! takes the instance and lets the others come; what has come by its next turn runs as one batch, and no job
//! has crossed to another thread. Plain data: who waits and who runs is in [`super::here`].

use std::thread::ThreadId;

use super::queue::Job;

/// The jobs around one task.
struct Gathering {
    id: u64,
    thread: ThreadId,
    /// Of all its jobs, the leading task's included.
    rows: usize,
    /// With their tickets, in order of arrival, without the leading task's.
    jobs: Vec<(u64, Job)>,
}

/// The gatherings of one model version: at most one on a thread, and no more than there are instances.
#[derive(Default)]
pub struct Gatherings {
    open: Vec<Gathering>,
    next: u64,
    company: Company,
}

impl Gatherings {
    /// Is it likely that others would join a task that waits for them? Now and then it says so only to see.
    pub fn are_likely(&mut self) -> bool {
        self.company.is_likely()
    }

    /// Opens one around a job of so many rows; returns its number.
    pub fn begin(&mut self, thread: ThreadId, rows: usize) -> u64 {
        self.next += 1;
        self.open.push(Gathering { id: self.next, thread, rows, jobs: Vec::new() });
        self.next
    }

    /// The one on a thread: its number, and the rows in it.
    pub fn on(&self, thread: ThreadId) -> Option<(u64, usize)> {
        self.open.iter().find(|it| it.thread == thread).map(|it| (it.id, it.rows))
    }

    /// Adds a job to one that is open; else the job is dropped.
    pub fn join(&mut self, id: u64, ticket: u64, job: Job) {
        if let Some(gathering) = self.open.iter_mut().find(|it| it.id == id) {
            gathering.rows += job.pending.rows;
            gathering.jobs.push((ticket, job));
        }
    }

    /// Takes a job out again; `None` when it is in none of them.
    pub fn withdraw(&mut self, ticket: u64) -> Option<Job> {
        self.open.iter_mut().find_map(|gathering| {
            let at = gathering.jobs.iter().position(|(it, _)| *it == ticket)?;
            let (_, job) = gathering.jobs.remove(at);
            gathering.rows -= job.pending.rows;
            Some(job)
        })
    }

    /// Closes one: its jobs, in order of arrival.
    pub fn end(&mut self, id: u64) -> Vec<Job> {
        let Some(at) = self.open.iter().position(|it| it.id == id) else { return Vec::new() };
        let gathering = self.open.swap_remove(at);
        self.company.record(gathering.jobs.len());
        gathering.jobs.into_iter().map(|(_, job)| job).collect()
    }
}

/// How many join a task that lets them? A running mean.
#[derive(Default)]
struct Company {
    mean: f32,
    passed: u32,
}

impl Company {
    /// Weight of the last gathering in the mean.
    const STEP: f32 = 0.125;
    /// Others for which a task waits.
    const LIKELY: f32 = 0.5;
    /// Of the tasks that need not wait, one in so many does, to see whether that has changed.
    const PROBE: u32 = 16;

    fn is_likely(&mut self) -> bool {
        if Company::LIKELY <= self.mean {
            return true;
        }
        self.passed = (self.passed + 1) % Company::PROBE;
        self.passed == 0
    }

    fn record(&mut self, others: usize) {
        self.mean += Company::STEP * (others as f32 - self.mean);
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;
    use crate::{policy::Pending, reply::Reply, run::Work};

    fn job(rows: usize) -> Job {
        Job {
            pending: Pending { rows, enqueued_at: Instant::now(), shape_key: 0 },
            work: Work { inputs: Vec::new(), outputs: Vec::new(), rows },
            expiry: None,
            deadline: None,
            reply: Reply::unheard(),
            counted: None,
        }
    }

    #[test]
    fn jobs_join_on_their_thread_and_leave_with_its_gathering() {
        let (here, there) = (thread::current().id(), thread::spawn(|| ()).thread().id());
        let mut gatherings = Gatherings::default();
        let id = gatherings.begin(here, 1);
        gatherings.join(id, 7, job(2));
        assert_eq!((gatherings.on(here), gatherings.on(there)), (Some((id, 3)), None));
        assert_eq!(gatherings.end(id).len(), 1);
        assert_eq!(gatherings.on(here), None);
    }

    #[test]
    fn a_withdrawn_job_is_not_run() {
        let here = thread::current().id();
        let mut gatherings = Gatherings::default();
        let id = gatherings.begin(here, 1);
        gatherings.join(id, 7, job(2));
        assert!(gatherings.withdraw(7).is_some());
        assert!(gatherings.withdraw(7).is_none());
        assert_eq!(gatherings.on(here), Some((id, 1)));
        assert!(gatherings.end(id).is_empty());
    }

    #[test]
    fn a_task_that_is_always_alone_waits_for_company_once_in_sixteen_times() {
        let mut company = Company::default();
        let waits = (0..160).filter(|_| {
            let waits = company.is_likely();
            if waits {
                company.record(0);
            }
            waits
        });
        assert_eq!(waits.count(), 10);
    }

    #[test]
    fn one_gathering_of_many_is_enough_to_wait_for_the_next() {
        let mut company = Company::default();
        company.record(7);
        assert!(company.is_likely());
        (0..20).for_each(|_| company.record(0));
        assert!(!company.is_likely());
    }
}
