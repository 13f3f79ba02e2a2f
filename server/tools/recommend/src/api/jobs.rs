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

use super::{
    fault::Fault,
    line,
    transitions::{Stop, begin, recover, settle, stop},
};
use crate::{
    job_folder::{JobFolder, Said},
    job_state::{JobState, JobStatus, ModelAt},
};

/// Jobs that are kept. For another one the oldest one that is over is forgotten.
const MOST: usize = 100;
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
    jobs: BTreeMap<String, JobEntry>,
    /// No further job is begun.
    is_closing: bool,
}

#[derive(Debug)]
struct JobEntry {
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
                    table.jobs.insert(name, JobEntry { state, folder, stop: Arc::default() });
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
        table.jobs.insert(name.to_owned(), JobEntry { state, folder, stop: Arc::default() });
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
        match stop(&mut entry.state, now) {
            Stop::IsOver => return Ok(()),
            Stop::AtOnce => {}
            Stop::WhenItSees => entry.stop.store(true, Ordering::Relaxed),
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
                begin(&mut entry.state);
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

impl JobEntry {
    /// Writes the state down. Where that fails the job goes on; only a restart would not know of it.
    fn write(&mut self, now: SystemTime) {
        settle(&mut self.state, now);
        if let Err(problem) = self.folder.write_state(&self.state) {
            line::print(format_args!("WARNING the state of a job cannot be written: {problem}"));
        }
    }
}

fn no_job(name: &str) -> Fault {
    Fault::not_found(format!("there is no job '{name}'"))
}

fn failed(problem: io::Error) -> Fault {
    Fault::internal(format!("the job cannot be written down: {problem}"))
}

#[cfg(test)]
mod tests;
