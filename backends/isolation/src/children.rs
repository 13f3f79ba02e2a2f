//! Workers as children of this process: the thread that starts them, and their exit statuses, where somebody else takes
//! those of all children.

use std::{
    collections::HashMap,
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender, SyncSender},
    },
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, WaitOptions, waitpid},
};

/// Stack of the thread that starts workers.
const STACK: usize = 256 << 10;

/// The children of this process whose exit statuses are wanted. Process 1 of a container takes the statuses of all
/// children, as it is given those that others leave behind: it notes them here.
///
/// A worker asks the system to end it with the thread that started it, so that all are started by one thread, which
/// lives as long as this does.
#[derive(Debug, Clone, Default)]
pub struct Children(Arc<Mutex<KnownChildren>>);

#[derive(Debug, Default)]
struct KnownChildren {
    /// The statuses that will be asked for, as far as they are there.
    wanted: HashMap<u32, Option<ExitStatus>>,
    /// To the thread that starts children, once there is one.
    starter: Option<Sender<Start>>,
}

/// A child to start, and where the outcome is waited for.
type Start = (Command, SyncSender<io::Result<Child>>);

impl Children {
    /// Starts a child whose status will be asked for.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
        // Under the lock: its status may be taken before this has returned.
        let mut known = self.lock();
        let starter = match &known.starter {
            Some(starter) => starter.clone(),
            None => known.starter.insert(starter()?).clone(),
        };
        let (told, outcome) = mpsc::sync_channel(1);
        let gone = || io::Error::other("the thread that starts processes is gone");
        starter.send((command, told)).map_err(|_| gone())?;
        let child = outcome.recv().map_err(|_| gone())??;
        known.wanted.insert(child.id(), None);
        Ok(child)
    }

    /// Takes statuses by `take` until there is none, and keeps those that will be asked for.
    pub fn reap(&self, mut take: impl FnMut() -> Option<(u32, ExitStatus)>) {
        // Under the lock, so that whoever finds its child gone finds its status here.
        let mut known = self.lock();
        while let Some((child, status)) = take() {
            if let Some(kept) = known.wanted.get_mut(&child) {
                *kept = Some(status);
            }
        }
    }

    /// The status of a child that ends. Blocking. `None` where nobody knows it.
    pub(crate) fn wait(&self, child: u32) -> Option<ExitStatus> {
        let pid = Pid::from_raw(child as i32);
        let taken = loop {
            match waitpid(pid, WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                taken => break taken.ok().flatten(),
            }
        };
        let kept = self.lock().wanted.remove(&child).flatten();
        taken.map(|(_, status)| ExitStatus::from_raw(status.as_raw())).or(kept)
    }

    fn lock(&self) -> MutexGuard<'_, KnownChildren> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that starts children until nobody has any to start.
fn starter() -> io::Result<Sender<Start>> {
    let (starter, starts) = mpsc::channel::<Start>();
    let start_all = move || {
        for (mut command, told) in starts {
            let child = command.spawn();
            // Files that are the child's are closed here before anybody hears of it.
            drop(command);
            let _ = told.send(child);
        }
    };
    thread::Builder::new().name("workers".to_owned()).stack_size(STACK).spawn(start_all)?;
    Ok(starter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        process::Stdio,
    };

    #[test]
    fn a_thread_that_has_a_child_started_may_end_before_it() {
        let children = Children::default();
        let of_thread = children.clone();
        // As a worker does: it is ended with the thread that started it.
        let script = ["--pdeathsig", "KILL", "cat"];
        let mut command = Command::new("setpriv");
        command.args(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let echo = |child: &mut Child| {
            child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        };
        let start = move || {
            let mut child = of_thread.spawn(command).unwrap();
            echo(&mut child);
            child
        };
        let mut child = thread::spawn(start).join().unwrap();
        (0..100).for_each(|_| echo(&mut child));
        child.kill().unwrap();
        assert!(children.wait(child.id()).is_some());
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "they are waited for by their numbers")]
    fn a_status_is_known_whoever_took_it() {
        let children = Children::default();
        let spawn = || children.spawn(Command::new("false")).unwrap();
        let own = spawn();
        assert_eq!(children.wait(own.id()).unwrap().code(), Some(1));
        let other = spawn();
        let pid = Pid::from_raw(other.id() as i32);
        let (_, status) = waitpid(pid, WaitOptions::empty()).unwrap().unwrap();
        let mut taken =
            vec![(other.id(), ExitStatus::from_raw(status.as_raw())), (1, Default::default())];
        children.reap(|| taken.pop());
        assert_eq!(children.wait(other.id()).unwrap().code(), Some(1));
        assert!(children.lock().wanted.is_empty());
    }
}
