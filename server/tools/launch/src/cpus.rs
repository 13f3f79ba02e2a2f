//! On which processors something runs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Does something on these processors, then goes back to those of before. On all of them where none are said.
///
/// # Errors
/// When the system refuses the processors.
pub fn on_cpus<T>(cpus: &[usize], action: impl FnOnce() -> T) -> std::io::Result<T> {
    if cpus.is_empty() {
        return Ok(action());
    }
    let mine = sched_getaffinity(None)?;
    sched_setaffinity(None, &set_of(cpus))?;
    let done = action();
    sched_setaffinity(None, &mine)?;
    Ok(done)
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|it| **it < CpuSet::MAX_CPU).for_each(|it| set.set(*it));
    set
}

/// The processors of this process, in order.
pub fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|it| set.is_set(*it)).collect()
}
