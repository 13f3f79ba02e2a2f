//! Exit statuses of workers, where somebody else takes those of all children.

use std::{
    collections::HashMap,
    io,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The children of this process whose exit statuses are wanted. Process 1 of a container takes the statuses of all
/// children, as it is given those that others leave behind: it notes them here.
#[derive(Debug, Clone, Default)]
pub struct Children(Arc<Mutex<HashMap<u32, Option<ExitStatus>>>>);

impl Children {
    /// Starts a child whose status will be asked for.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        // Under the lock: its status may be taken before this has returned.
        let mut wanted = self.lock();
        let child = command.spawn()?;
        wanted.insert(child.id(), None);
        Ok(child)
    }

    /// Takes statuses by `take` until there is none, and keeps those that will be asked for.
    pub fn reap(&self, mut take: impl FnMut() -> Option<(u32, ExitStatus)>) {
        // Under the lock, so that whoever finds its child gone finds its status here.
        let mut wanted = self.lock();
        while let Some((child, status)) = take() {
            if let Some(kept) = wanted.get_mut(&child) {
                *kept = Some(status);
            }
        }
    }

    /// The status of a child that ends. Blocking. `None` where nobody knows it.
    pub(crate) fn wait(&self, child: &mut Child) -> Option<ExitStatus> {
        let status = child.wait().ok();
        let kept = self.lock().remove(&child.id()).flatten();
        status.or(kept)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Option<ExitStatus>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::WaitOptions;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_status_is_known_whoever_took_it() {
        let children = Children::default();
        let spawn = || children.spawn(&mut Command::new("false")).unwrap();
        let mut own = spawn();
        assert_eq!(children.wait(&mut own).unwrap().code(), Some(1));
        let mut other = spawn();
        let pid = rustix::process::Pid::from_raw(other.id() as i32);
        let (_, status) = rustix::process::waitpid(pid, WaitOptions::empty()).unwrap().unwrap();
        let mut taken =
            vec![(other.id(), ExitStatus::from_raw(status.as_raw())), (1, Default::default())];
        children.reap(|| taken.pop());
        assert_eq!(children.wait(&mut other).unwrap().code(), Some(1));
        assert!(children.lock().is_empty());
    }
}
