//! Notices that this process may use more or fewer processors than before: a control group's quota, or the affinity
//! mask, can change while it runs.

use std::{num::NonZeroUsize, time::Duration};

use machine::Machine;

/// How often the limits are read: a dozen small files.
const EVERY: Duration = Duration::from_secs(10);

/// Watches for ever. `read` looks at the machine, `adapt` is called with the new number of processors.
pub(super) async fn watch(
    mut cpus: usize,
    read: impl Fn() -> Machine,
    adapt: impl Fn(NonZeroUsize),
) {
    loop {
        tokio::time::sleep(EVERY).await;
        let now = read();
        if now.cpus == cpus {
            continue;
        }
        tracing::warn!(
            before = cpus,
            cpus = now.cpus,
            cpu_limit = now.cpu_reason,
            "the processors of this process have changed: models that are loaded from now on heed it, those that \
             serve keep their instances and threads until they are loaded anew"
        );
        cpus = now.cpus;
        adapt(NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        iter,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_changed_number_of_processors_is_heeded_once_within_ten_seconds() {
        let reads = Cell::new(0);
        let counts: Vec<usize> = [4, 4, 2].into_iter().chain(iter::repeat_n(3, 10)).collect();
        let read = || {
            let cpus = counts[reads.get()];
            reads.set(reads.get() + 1);
            Machine { cpus, ..Machine::read() }
        };
        let adapted = RefCell::new(Vec::new());
        let watching = watch(4, read, |it| adapted.borrow_mut().push(it.get()));
        let _ = tokio::time::timeout(Duration::from_secs(75), watching).await;
        assert_eq!(reads.get(), 7);
        assert_eq!(*adapted.borrow(), [2, 3]);
    }
}
