//! What a job has measured, kept while it is done, so that the same job goes on from there after a signal or a crash.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    basis::Basis,
    job_folder::JobFolder,
    job_state::{JobState, JobStatus},
    process::start_of,
    setting::Setting,
    step::{Length, Step},
};

/// How long a server that was left behind may take to end.
const END: Duration = Duration::from_secs(20);
/// How often a lock is asked for that another job holds.
const TURN: Duration = Duration::from_millis(200);

/// What is kept of a job, and what was.
#[derive(Debug, Default)]
pub struct Journal {
    /// Where; nowhere by default.
    folder: Option<(JobFolder, JobState)>,
    /// Steps of the earlier program that were not asked for yet.
    earlier: Vec<Step>,
    /// The answers of its first setting.
    answers: Option<Vec<Vec<u8>>>,
    /// Held while the job measures.
    lock: Option<File>,
    /// Servers that were started, each with the time of its beginning.
    servers: Vec<(u32, u64)>,
}

/// Where a journal is.
#[derive(Debug, Clone)]
pub struct JournalPaths {
    /// Locked by the job that measures, of all that there are in this place.
    pub lock: PathBuf,
    /// The folder of the job.
    pub folder: PathBuf,
}

impl JournalPaths {
    /// Below a directory of all jobs, by what the job asks for.
    pub fn below(root: &Path, basis: &Basis) -> JournalPaths {
        JournalPaths { lock: root.join(LOCK), folder: root.join(basis.name()) }
    }
}

/// The name of the lock in a directory of jobs.
pub const LOCK: &str = "measuring";

/// Why nothing is kept of a job.
#[derive(Debug)]
pub enum Trouble {
    /// It was asked to stop while another job measured.
    Stopped,
    /// Something could not be read or written.
    Kept(String, io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Stopped => f.write_str("stopped while another job measured"),
            Trouble::Kept(path, error) => {
                write!(f, "{path}: {error}; the job goes on, and cannot be resumed")
            }
        }
    }
}

impl Journal {
    /// One that keeps nothing but the servers of this program, once no other job measures. `lock` is that of all jobs.
    ///
    /// # Errors
    /// When it was asked to stop in the meantime, or the lock cannot be written.
    pub(crate) fn alone(
        lock: &Path,
        stop: &AtomicBool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Journal, Trouble> {
        Ok(Journal { lock: Some(take_lock(lock, stop, say)?), ..Journal::default() })
    }

    /// The journal of such a job, once no other job measures. `fresh` forgets what an earlier one measured, and so does
    /// another `basis`. `say` is told what was found.
    ///
    /// # Errors
    /// When it was asked to stop in the meantime, or the journal cannot be kept.
    pub fn open(
        place: &JournalPaths,
        basis: &Basis,
        bodies: usize,
        fresh: bool,
        stop: &AtomicBool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Journal, Trouble> {
        let JournalPaths { lock, folder } = place;
        let lock = take_lock(lock, stop, say)?;

        let read = |folder: JobFolder| -> io::Result<Journal> {
            // A state in another form is replaced.
            let found = folder.state().ok().flatten();
            let mut earlier = folder.tried()?;
            earlier.retain(|it| it.outcome.is_ok());
            let answers = folder.answers(bodies);
            let is_half_done = found.as_ref().is_some_and(|it| it.status != JobStatus::Completed);
            let is_half_done = is_half_done && !earlier.is_empty();
            let obstacle = match found.as_ref().and_then(|it| basis.differs(&it.basis)) {
                _ if fresh => Some("as --fresh asks for".to_owned()),
                None if answers.is_none() => {
                    Some("the answers of the first setting are gone".to_owned())
                }
                differs => differs,
            };
            let state = match (found, obstacle) {
                (Some(found), None) if is_half_done => {
                    say(&format!("GOES ON after {} trials of an earlier start", earlier.len()));
                    found
                }
                (_, obstacle) => {
                    if let Some(why) = obstacle.filter(|_| is_half_done) {
                        say(&format!("STARTS ANEW {why}"));
                    }
                    folder.clear()?;
                    earlier.clear();
                    JobState::new(basis.request().clone(), SystemTime::now())
                }
            };
            let mut state = state;
            (state.basis, state.status) = (basis.values(), JobStatus::InProgress);
            state.modified = SystemTime::now();
            folder.write_state(&state)?;
            let answers = answers.filter(|_| !earlier.is_empty());
            Ok(Journal { folder: Some((folder, state)), earlier, answers, ..Journal::default() })
        };
        let journal = JobFolder::create(folder).and_then(read).map_err(failed(folder))?;
        Ok(Journal { lock: Some(lock), ..journal })
    }

    /// When the job began for the first time.
    pub fn created(&self) -> Option<SystemTime> {
        self.folder.as_ref().map(|it| it.1.created)
    }

    /// The answers that those of all settings must be equal to.
    pub fn answers(&self) -> Option<Vec<Vec<u8>>> {
        self.answers.clone()
    }

    /// What an earlier program measured of a setting, once for each time that it did.
    pub fn take(&mut self, setting: &Setting, length: Length) -> Option<Step> {
        let is_same = |it: &Step| it.setting == *setting && it.length == length;
        let place = self.earlier.iter().position(is_same)?;
        Some(self.earlier.remove(place))
    }

    /// Keeps a step; `is_first` with the answers of it. The sentence says what went wrong, and then no more is kept.
    pub fn add(&mut self, step: &Step, is_first: bool) -> Option<String> {
        let (folder, state) = self.folder.as_mut()?;
        state.modified = SystemTime::now();
        let answers = step.outcome.as_ref().ok().filter(|_| is_first);
        let kept = answers.map_or(Ok(()), |it| folder.write_answers(&it.answers));
        let kept = kept.and_then(|()| folder.add(step)).and_then(|()| folder.write_state(state));
        let problem = kept.err()?;
        self.folder = None;
        Some(format!("{problem}: nothing more is kept; the job goes on, and cannot be resumed"))
    }

    /// Tells later jobs of a server that they have to end, should this program not come to it.
    pub fn serves(&mut self, server: u32) {
        let (Some(lock), Some(start)) = (&mut self.lock, start_of(server)) else { return };
        self.servers.retain(|(server, start)| start_of(*server) == Some(*start));
        self.servers.push((server, start));
        let servers: String =
            self.servers.iter().map(|(server, start)| format!(" {server} {start}")).collect();
        // Without the line the servers stay where this program is killed.
        let _ = write_lock(lock, &format!("{}{servers}", std::process::id()));
    }

    /// The job is over: nothing is left of what was completed.
    pub fn end(self, status: JobStatus) -> io::Result<()> {
        let Some((folder, mut state)) = self.folder else { return Ok(()) };
        if status == JobStatus::Completed {
            folder.clear()?;
        }
        state.modified = SystemTime::now();
        (state.status, state.ended) = (status, Some(state.modified));
        folder.write_state(&state)
    }
}

/// Why something at that path is not kept.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> Trouble + use<> {
    let path = path.display().to_string();
    move |error| Trouble::Kept(path, error)
}

/// The lock of all jobs, once no other one holds it; servers that its last holder has left behind are ended.
fn take_lock(path: &Path, stop: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<File, Trouble> {
    let root = path.parent().unwrap_or(path);
    fs::create_dir_all(root).map_err(failed(root))?;
    let mut lock = lock(path, stop, say)?;
    take_over(&mut lock, say).map_err(failed(path))?;
    Ok(lock)
}

/// The lock of all jobs, once no other one holds it.
fn lock(path: &Path, stop: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<File, Trouble> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut lock = options.open(path).map_err(failed(path))?;
    let mut has_said = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(fs::TryLockError::Error(error)) => return Err(failed(path)(error)),
            Err(fs::TryLockError::WouldBlock) if stop.load(Ordering::Relaxed) => {
                return Err(Trouble::Stopped);
            }
            Err(fs::TryLockError::WouldBlock) => {}
        }
        if !has_said {
            let text = read_lock(&mut lock).unwrap_or_default();
            let process = text.split(' ').next().unwrap_or_default();
            say(&format!("WAITING another job measures on this machine (process {process})"));
            has_said = true;
        }
        thread::sleep(TURN);
    }
}

/// Ends the servers that a job has left behind which was killed, unless another job measures already, which has done
/// so.
///
/// # Errors
/// Those of the file system.
pub fn end_left_behind(path: &Path, say: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut lock = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        lock => lock?,
    };
    match lock.try_lock() {
        Ok(()) => take_over(&mut lock, say),
        Err(fs::TryLockError::WouldBlock) => Ok(()),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Ends the servers of a job that was killed, and writes this process in its place.
fn take_over(lock: &mut File, say: &mut dyn FnMut(&str)) -> io::Result<()> {
    let text = read_lock(lock)?;
    let words: Vec<&str> = text.split(' ').skip(1).collect();
    for server in words.chunks_exact(2) {
        if let [server, start] = server
            && let (Ok(server), Ok(start)) = (server.parse(), start.parse())
        {
            end(server, start, say);
        }
    }
    write_lock(lock, &std::process::id().to_string())
}

/// Ends the server of that number. It may be another process's by now, which has begun at another time.
fn end(server: u32, start: u64, say: &mut dyn FnMut(&str)) {
    if start_of(server) == Some(start)
        && let Some(pid) = i32::try_from(server).ok().and_then(Pid::from_raw)
    {
        say(&format!("ENDED the server that an earlier job left behind (process {server})"));
        let until = Instant::now() + END;
        // It may end by itself in these moments.
        let _ = kill_process(pid, Signal::TERM);
        while start_of(server) == Some(start) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        if start_of(server) == Some(start) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn read_lock(lock: &mut File) -> io::Result<String> {
    let mut text = String::new();
    lock.seek(SeekFrom::Start(0))?;
    lock.read_to_string(&mut text)?;
    Ok(text)
}

fn write_lock(lock: &mut File, text: &str) -> io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process::Command, sync::Arc};

    use serde_json::json;

    use super::*;
    use crate::step::tests::{answered, of_rounds};

    fn root(name: &str) -> std::path::PathBuf {
        let name = format!("muster-journal-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&root);
        root
    }

    fn open(root: &Path, machine: &str, fresh: bool) -> (Journal, Vec<String>) {
        let basis = Basis::new(json!("job"), &[("the machine", machine)]);
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let stop = AtomicBool::new(false);
        let place = JournalPaths::below(root, &basis);
        (Journal::open(&place, &basis, 1, fresh, &stop, &mut say).unwrap(), said)
    }

    #[test]
    fn a_job_goes_on_until_it_is_completed_or_its_basis_is_another() {
        let root = root("basis");
        let step = answered(of_rounds(&[("A", "1")], &[100.0]), b"[1]");
        let kept = |fresh, machine| {
            let (mut journal, said) = open(&root, machine, fresh);
            let found = journal.take(&step.setting, step.length);
            assert!(journal.take(&step.setting, step.length).is_none(), "once for each time");
            assert_eq!(found.is_some(), journal.answers().is_some());
            assert_eq!(journal.add(&step, found.is_none()), None);
            (found.is_some(), said.join(" "))
        };
        assert_eq!(kept(false, "two cores"), (false, String::new()));
        let (found, said) = kept(false, "two cores");
        assert!(found && said.starts_with("GOES ON after 1 trials"), "{said}");
        let (found, said) = kept(false, "four cores");
        assert!(!found && said == "STARTS ANEW the machine is not what it was", "{said}");
        let (found, said) = kept(true, "four cores");
        assert!(!found && said == "STARTS ANEW as --fresh asks for", "{said}");
        open(&root, "four cores", false).0.end(JobStatus::Stopped).unwrap();
        assert!(kept(false, "four cores").0);
        open(&root, "four cores", false).0.end(JobStatus::Completed).unwrap();
        assert_eq!(kept(false, "four cores"), (false, String::new()));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_full_disk_is_said_once_and_the_job_goes_on() {
        let root = root("full");
        let (mut journal, _) = open(&root, "m", false);
        let name = Basis::new(json!("job"), &[]).name();
        symlink("/dev/full", root.join(name).join("tried.jsonl")).unwrap();
        let step = of_rounds(&[], &[100.0]);
        let problem = journal.add(&step, true).unwrap();
        assert!(problem.contains("No space left") && problem.contains("goes on"), "{problem}");
        assert_eq!(journal.add(&step, false), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_second_job_waits_for_the_first_one_or_is_stopped() {
        let root = root("two");
        let (first, _) = open(&root, "m", false);
        let stop = Arc::new(AtomicBool::new(false));
        let basis = Basis::new(json!("other"), &[]);
        let thread = thread::spawn({
            let (root, stop) = (root.clone(), stop.clone());
            move || {
                let mut said = String::new();
                let mut say = |line: &str| {
                    said.push_str(line);
                    stop.store(true, Ordering::Relaxed);
                };
                let place = JournalPaths::below(&root, &basis);
                let outcome = Journal::open(&place, &basis, 1, false, &stop, &mut say);
                (outcome.map(drop), said)
            }
        });
        let (outcome, said) = thread.join().unwrap();
        assert!(matches!(outcome, Err(Trouble::Stopped)), "{outcome:?}");
        assert!(said.ends_with(&format!("(process {})", std::process::id())), "{said}");
        drop(first);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_job_that_keeps_nothing_yet_waits_as_well_and_others_wait_for_it() {
        let root = root("alone");
        let stop = AtomicBool::new(true);
        let alone = Journal::alone(&root.join(LOCK), &stop, &mut |_| {}).unwrap();
        let second = Journal::alone(&root.join(LOCK), &stop, &mut |_| {});
        assert!(matches!(second, Err(Trouble::Stopped)));
        drop(alone);
        assert!(Journal::alone(&root.join(LOCK), &stop, &mut |_| {}).is_ok());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn servers_that_were_left_behind_are_ended_and_no_other_process() {
        let root = root("left");
        let server = || Command::new("sleep").arg("600").spawn().unwrap();
        let (mut journal, _) = open(&root, "m", false);
        let mut over = server();
        journal.serves(over.id());
        over.kill().unwrap();
        over.wait().unwrap();
        let servers = [server(), server()];
        servers.iter().for_each(|it| journal.serves(it.id()));
        // As if it was killed: nothing is ended.
        drop(journal);
        let reapers = servers.map(|mut it| thread::spawn(move || it.wait().unwrap()));
        let mut said = Vec::new();
        // A process that another test starts has the lock, too, until it is a program of its own.
        for _ in 0..100_000 {
            if said.is_empty() {
                end_left_behind(&root.join(LOCK), &mut |it| said.push(it.to_owned())).unwrap();
            }
        }
        assert!(said.iter().all(|it| it.starts_with("ENDED the server")), "{said:?}");
        assert_eq!(said.len(), 2, "{said:?}");
        reapers.into_iter().for_each(|it| assert!(!it.join().unwrap().success()));
        assert!(open(&root, "m", false).1.is_empty(), "it is ended once");
        // The number is another process's now.
        let me = std::process::id();
        fs::write(root.join("measuring"), format!("1 {me} 1")).unwrap();
        assert!(open(&root, "m", false).1.is_empty());
        fs::remove_dir_all(root).unwrap();
    }
}
