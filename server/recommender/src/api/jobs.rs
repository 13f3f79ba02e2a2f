//! All jobs: in memory, and each in a folder of its own. One at a time is being done, in the order in which they were
//! asked for.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::{fault::Fault, line};
use crate::job_folder::{JobFolder, JobState, JobStatus, ModelAt, Said};

/// Jobs that are kept. For another one the oldest one that is over is forgotten.
const MOST: usize = 100;
/// How often a job is begun again after its program has ended before it was over.
const MOST_BEGUN: u32 = 3;
/// Jobs are at least so far from each other, so that their order is known.
const NEXT: Duration = Duration::from_micros(10);

/// All jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    root: PathBuf,
    /// Guards the jobs and their folders.
    table: Mutex<Table>,
    /// A job is there to be done, or no further one will be.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    jobs: BTreeMap<String, Entry>,
    /// No further job is begun.
    is_closing: bool,
}

#[derive(Debug)]
struct Entry {
    state: JobState,
    folder: JobFolder,
    /// Ends the job when it is being done.
    stop: Arc<AtomicBool>,
}

/// A job that is to be done now.
#[derive(Debug)]
pub(super) struct Work {
    /// Its name.
    pub(super) name: String,
    /// As it is.
    pub(super) state: JobState,
    /// Its folder.
    pub(super) folder: JobFolder,
    /// Is set when it has to end.
    pub(super) stop: Arc<AtomicBool>,
}

impl Jobs {
    /// The jobs in the folders of a directory. What was being done goes on; what was to be stopped is stopped.
    pub(super) fn open(root: &Path, now: SystemTime) -> io::Result<Jobs> {
        fs::create_dir_all(root)?;
        let mut table = Table::default();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let folder = JobFolder::create(&entry.path())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match folder.state() {
                Ok(Some(mut state)) => {
                    recover(&mut state, now);
                    folder.write_state(&state)?;
                    table.jobs.insert(name, Entry { state, folder, stop: Arc::default() });
                }
                // A program ended before the job was accepted, or it is no job: only what is empty goes.
                Ok(None) if fs::remove_dir(entry.path()).is_ok() => {}
                Ok(None) => {
                    line::print(format_args!("WARNING '{name}' is left alone: it is no job"))
                }
                Err(problem) => {
                    line::print(format_args!("WARNING job '{name}' is left out: {problem}"))
                }
            }
        }
        Ok(Jobs { root: root.to_owned(), table: Mutex::new(table), changed: Condvar::new() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a job.
    pub(super) fn create(
        &self,
        name: &str,
        request: Value,
        model: Option<ModelAt>,
        now: SystemTime,
    ) -> Result<(), Fault> {
        let mut table = self.table();
        if table.jobs.contains_key(name) {
            return Err(Fault::in_use(format!("there is a job '{name}' already")));
        }
        table.make_room()?;
        let newest = table.jobs.values().map(|it| it.state.created).max();
        let after = newest.and_then(|it| it.checked_add(NEXT)).unwrap_or(now);
        let mut state = JobState::new(request, now.max(after));
        state.model = model;
        let folder = JobFolder::create(&self.root.join(name)).map_err(failed)?;
        let written = folder.clear().and_then(|()| folder.write_state(&state));
        if let Err(problem) = written {
            // Nothing is left of a job that is refused.
            let _ = folder.remove();
            return Err(failed(problem));
        }
        table.jobs.insert(name.to_owned(), Entry { state, folder, stop: Arc::default() });
        self.changed.notify_all();
        Ok(())
    }

    /// What is read from a job's state.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&JobState) -> T,
    ) -> Result<T, Fault> {
        let table = self.table();
        table.jobs.get(name).map(|it| read(&it.state)).ok_or_else(|| no_job(name))
    }

    /// What is read from the states of all jobs.
    pub(super) fn read_all<T>(
        &self,
        read: impl FnOnce(&mut dyn Iterator<Item = &JobState>) -> T,
    ) -> T {
        read(&mut self.table().jobs.values().map(|it| &it.state))
    }

    /// The lines that a job has said; `None` where there is no such job.
    pub(super) fn said(&self, name: &str) -> Option<Vec<Said>> {
        let folder = self.table().jobs.get(name).map(|it| it.folder.clone())?;
        folder.said().ok()
    }

    /// Adds a line to what a job has said.
    pub(super) fn say(&self, name: &str, line: &str) {
        if let Some(entry) = self.table().jobs.get(name) {
            // The line is not worth the job.
            let _ = entry.folder.say(line, SystemTime::now());
        }
    }

    /// Asks a job to end with what it has. One that is over stays as it is.
    pub(super) fn stop(&self, name: &str, now: SystemTime) -> Result<(), Fault> {
        let mut table = self.table();
        let entry = table.jobs.get_mut(name).ok_or_else(|| no_job(name))?;
        match entry.state.status {
            JobStatus::Pending => {
                (entry.state.status, entry.state.ended) = (JobStatus::Stopped, Some(now));
            }
            JobStatus::InProgress => {
                entry.state.status = JobStatus::Stopping;
                entry.stop.store(true, Ordering::Relaxed);
            }
            JobStatus::Completed | JobStatus::Failed | JobStatus::Stopping | JobStatus::Stopped => {
                return Ok(());
            }
        }
        entry.write(now);
        Ok(())
    }

    /// Waits for a job that is to be done, which begins at the time of `clock`; `None` when no further one is.
    pub(super) fn next(&self, clock: fn() -> SystemTime) -> Option<Work> {
        let mut table = self.table();
        loop {
            if table.is_closing {
                return None;
            }
            let waiting = table.jobs.iter_mut();
            let waiting = waiting.filter(|it| it.1.state.status == JobStatus::Pending);
            if let Some((name, entry)) = waiting.min_by_key(|it| it.1.state.created) {
                entry.state.status = JobStatus::InProgress;
                entry.state.begun += 1;
                entry.write(clock());
                return Some(Work {
                    name: name.clone(),
                    state: entry.state.clone(),
                    folder: entry.folder.clone(),
                    stop: entry.stop.clone(),
                });
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Changes the state of the job that is being done. Nothing changes any more when no further job is begun, and
    /// `false` says so: what is on disk says that the job is to go on.
    pub(super) fn change(
        &self,
        name: &str,
        now: SystemTime,
        change: impl FnOnce(&mut JobState),
    ) -> bool {
        let mut table = self.table();
        let stays = table.is_closing;
        if let Some(entry) = table.jobs.get_mut(name).filter(|_| !stays) {
            change(&mut entry.state);
            entry.write(now);
        }
        !stays
    }

    /// Ends what is being done, and begins no further job.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.is_closing = true;
        table.jobs.values().for_each(|it| it.stop.store(true, Ordering::Relaxed));
        self.changed.notify_all();
    }
}

impl Table {
    /// Forgets the oldest job that is over where there are too many.
    fn make_room(&mut self) -> Result<(), Fault> {
        if self.jobs.len() < MOST {
            return Ok(());
        }
        let over = self.jobs.iter().filter(|it| it.1.state.status.is_over());
        let oldest = over.min_by_key(|it| it.1.state.created).map(|it| it.0.clone());
        let Some(oldest) = oldest else {
            return Err(Fault::limit(format!("{MOST} jobs are not over yet, no more are kept")));
        };
        // The folder first: where it stays, the job does.
        if let Some(entry) = self.jobs.get(&oldest) {
            entry.folder.remove().map_err(failed)?;
        }
        self.jobs.remove(&oldest);
        Ok(())
    }
}

impl Entry {
    /// Writes the state down. Where that fails the job goes on; only a restart would not know of it.
    fn write(&mut self, now: SystemTime) {
        settle(&mut self.state, now);
        if let Err(problem) = self.folder.write_state(&self.state) {
            line::print(format_args!("WARNING the state of a job cannot be written: {problem}"));
        }
    }
}

/// The times of a state that changes now. They never run backwards, as the clock may when it is set.
fn settle(state: &mut JobState, now: SystemTime) {
    state.ended = state.ended.map(|it| it.max(state.created));
    let ended = state.ended.unwrap_or(state.created);
    state.modified = now.max(state.modified).max(ended);
}

/// The state after a program has ended.
fn recover(state: &mut JobState, now: SystemTime) {
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

fn no_job(name: &str) -> Fault {
    Fault::not_found(format!("there is no job '{name}'"))
}

fn failed(problem: io::Error) -> Fault {
    Fault::internal(format!("the job cannot be written down: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::UNIX_EPOCH;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("muster-jobs-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn open(&self) -> Jobs {
            Jobs::open(&self.0, at(1000)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    fn create(jobs: &Jobs, name: &str) -> Result<(), Fault> {
        jobs.create(name, json!({"JobName": name}), None, at(1))
    }

    fn status(jobs: &Jobs, name: &str) -> JobStatus {
        jobs.read(name, |it| it.status).unwrap()
    }

    #[test]
    fn jobs_are_done_one_after_the_other_and_a_name_is_used_once() {
        let folder = Folder::new("order");
        let jobs = folder.open();
        // The clock stands still, and the order is kept.
        for name in ["b", "a", "c"] {
            create(&jobs, name).unwrap();
        }
        assert_eq!(create(&jobs, "a"), Err(Fault::in_use("there is a job 'a' already")));
        let work = jobs.next(|| at(2)).unwrap();
        assert_eq!((work.name.as_str(), status(&jobs, "b")), ("b", JobStatus::InProgress));
        assert_eq!(status(&jobs, "a"), JobStatus::Pending);
        jobs.stop("a", at(2)).unwrap();
        assert_eq!(jobs.next(|| at(2)).unwrap().name, "c");
        assert_eq!(
            jobs.read("a", |it| (it.status, it.ended)),
            Ok((JobStatus::Stopped, Some(at(2))))
        );

        jobs.stop("b", at(3)).unwrap();
        assert!(work.stop.load(Ordering::Relaxed));
        assert_eq!(status(&jobs, "b"), JobStatus::Stopping);
        jobs.change("b", at(4), |it| it.status = JobStatus::Stopped);
        // One that is over stays as it is.
        jobs.stop("b", at(5)).unwrap();
        assert_eq!(jobs.read("b", |it| it.modified), Ok(at(4)));
        assert_eq!(jobs.stop("x", at(5)), Err(no_job("x")));
        jobs.close();
        assert!(jobs.next(|| at(2)).is_none());
    }

    #[test]
    fn after_a_restart_jobs_are_there_and_the_one_that_was_being_done_goes_on() {
        let folder = Folder::new("restart");
        let jobs = folder.open();
        for name in ["a", "b", "c"] {
            create(&jobs, name).unwrap();
        }
        let work = jobs.next(|| at(2)).unwrap();
        jobs.change("a", at(3), |it| it.steps.push(json!({})));
        work.folder.say("a line", at(3)).unwrap();
        jobs.stop("b", at(3)).unwrap();
        // It ends while "a" is being done, which is not written down as stopped.
        jobs.close();
        jobs.change("a", at(4), |it| it.status = JobStatus::Stopped);

        let jobs = folder.open();
        assert_eq!(jobs.read("a", |it| (it.status, it.steps.len())), Ok((JobStatus::Pending, 0)));
        assert_eq!(
            (status(&jobs, "b"), status(&jobs, "c")),
            (JobStatus::Stopped, JobStatus::Pending)
        );
        assert_eq!(jobs.said("a").unwrap()[0].message, "a line");
        assert_eq!(jobs.next(|| at(2)).unwrap().name, "a");
        let jobs = folder.open();
        assert_eq!(jobs.next(|| at(2)).unwrap().name, "a");
        // Three times is enough.
        let jobs = folder.open();
        assert_eq!(status(&jobs, "a"), JobStatus::Failed);
        assert_eq!(jobs.next(|| at(2)).unwrap().name, "c");
        jobs.stop("c", at(5)).unwrap();
        assert_eq!(status(&folder.open(), "c"), JobStatus::Stopped);
        // What cannot be read is left out.
        fs::write(folder.0.join("c/job.json"), "{").unwrap();
        fs::create_dir(folder.0.join("d")).unwrap();
        fs::write(folder.0.join("notes.txt"), "").unwrap();
        let jobs = folder.open();
        assert!(jobs.read("c", |_| ()).is_err() && jobs.read("d", |_| ()).is_err());
        assert!(!folder.0.join("d").exists());
        create(&jobs, "c").unwrap();
        assert_eq!(status(&jobs, "c"), JobStatus::Pending);
    }

    #[test]
    fn times_of_a_job_never_run_backwards_where_the_clock_does() {
        let folder = Folder::new("clock");
        let jobs = folder.open();
        let create = |name: &str, now| jobs.create(name, json!({"JobName": name}), None, at(now));
        create("a", 5000).unwrap();
        // It is set back.
        create("b", 100).unwrap();
        let created = |name: &str| jobs.read(name, |it| it.created).unwrap();
        assert!(created("b") > created("a"));
        let times = |jobs: &Jobs, name: &str| {
            let [created, ended, modified] =
                jobs.read(name, |it| [Some(it.created), it.ended, Some(it.modified)]).unwrap();
            assert!(created <= ended && ended <= modified, "{created:?} {ended:?} {modified:?}");
        };
        jobs.stop("b", at(101)).unwrap();
        times(&jobs, "b");
        assert_eq!(jobs.next(|| at(2)).unwrap().name, "a");
        jobs.change("a", at(6000), |it| it.steps.push(json!({})));
        jobs.change("a", at(102), |it| (it.status, it.ended) = (JobStatus::Failed, Some(at(102))));
        times(&jobs, "a");
        assert_eq!(jobs.read("a", |it| it.modified), Ok(at(6000)));
        // Nor do they where the program starts again before the time of its jobs.
        create("c", 7000).unwrap();
        jobs.next(|| at(2)).unwrap();
        jobs.stop("c", at(7001)).unwrap();
        times(&folder.open(), "c");
    }

    #[test]
    fn a_job_whose_folder_cannot_be_removed_stays() {
        let folder = Folder::new("stays");
        let jobs = folder.open();
        for number in 0..MOST {
            create(&jobs, &format!("j{number}")).unwrap();
        }
        jobs.stop("j3", at(3)).unwrap();
        // A file is in the place of the folder.
        let path = folder.0.join("j3");
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(create(&jobs, "x").is_err());
        assert_eq!(status(&jobs, "j3"), JobStatus::Stopped);
        // A folder that is gone is no reason to stay.
        fs::remove_file(&path).unwrap();
        create(&jobs, "x").unwrap();
        assert!(jobs.read("j3", |_| ()).is_err());
    }

    #[test]
    fn the_oldest_job_that_is_over_makes_room() {
        let folder = Folder::new("room");
        let jobs = folder.open();
        for number in 0..MOST {
            create(&jobs, &format!("j{number}")).unwrap();
        }
        let text = "100 jobs are not over yet, no more are kept";
        assert_eq!(create(&jobs, "x"), Err(Fault::limit(text)));
        jobs.stop("j7", at(2)).unwrap();
        jobs.stop("j3", at(3)).unwrap();
        create(&jobs, "x").unwrap();
        assert!(jobs.read("j3", |_| ()).is_err() && jobs.read("j7", |_| ()).is_ok());
        assert!(!folder.0.join("j3").exists());
    }
}
