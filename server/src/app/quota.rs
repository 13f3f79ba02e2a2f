//! Notices that this process may use more or fewer processors than before: a control group's quota, or the affinity
//! mask, can change while it runs.

use std::{num::NonZeroUsize, sync::Arc, thread, time::Duration};

use backend::MODEL_STACK;
use loading::Control;
use machine::Machine;

/// How often the limits are read: a dozen small files.
const EVERY: Duration = Duration::from_secs(10);

/// So many looks have found the same number before models that serve follow it: quotas that are tuned change often.
const STEADY: usize = 3;

/// What follows the number of processors.
pub(super) trait Follows {
    /// Models that are loaded from now on heed it.
    fn plan_for(&self, cpus: NonZeroUsize);

    /// Those that serve do, too. Returns at once.
    fn adapt(&self);
}

/// The models of a server.
impl Follows for Arc<Control> {
    fn plan_for(&self, cpus: NonZeroUsize) {
        self.set_cpus(cpus);
    }

    fn adapt(&self) {
        let control = self.clone();
        let builder = thread::Builder::new().name("load-adapt".to_owned()).stack_size(MODEL_STACK);
        if let Err(error) = builder.spawn(move || control.adapt_to_cpus()) {
            tracing::error!(%error, "no thread to bring models to the processors that there are");
        }
    }
}

/// Watches for ever. `read` looks at the machine.
pub(super) async fn watch(mut cpus: usize, read: impl Fn() -> Machine, models: impl Follows) {
    // Looks since the last change, where models that serve do not follow it yet.
    let mut looks = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let now = read();
        if now.cpus != cpus {
            tracing::warn!(
                before = cpus,
                cpus = now.cpus,
                cpu_limit = now.cpu_reason,
                "the processors of this process have changed: models that are loaded from now on heed it, and once it \
                 has lasted those that serve, where the server has chosen their instances or threads"
            );
            cpus = now.cpus;
            models.plan_for(NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN));
            looks = Some(0);
        }
        looks = looks.map(|it| it + 1);
        if looks == Some(STEADY) {
            looks = None;
            models.adapt();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        iter,
    };

    use super::*;

    impl Follows for &RefCell<Vec<usize>> {
        fn plan_for(&self, cpus: NonZeroUsize) {
            self.borrow_mut().push(cpus.get());
        }

        fn adapt(&self) {
            self.borrow_mut().push(0);
        }
    }

    /// What models are to follow, with a zero where those that serve are, while the numbers are read one by one.
    async fn followed(counts: &[usize]) -> Vec<usize> {
        let reads = Cell::new(0);
        let last = *counts.last().unwrap();
        let counts: Vec<usize> = counts.iter().copied().chain(iter::repeat_n(last, 10)).collect();
        let read = || {
            let cpus = counts[reads.get()];
            reads.set(reads.get() + 1);
            Machine { cpus, ..Machine::read() }
        };
        let followed = RefCell::new(Vec::new());
        let watching = watch(4, read, &followed);
        let _ = tokio::time::timeout(Duration::from_secs(75), watching).await;
        assert_eq!(reads.get(), 7);
        followed.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_number_of_processors_is_heeded_once_within_ten_seconds() {
        assert_eq!(followed(&[4, 4, 2, 3]).await, [2, 3, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn models_that_serve_follow_it_once_it_has_lasted() {
        assert_eq!(followed(&[2, 2, 2, 4]).await, [2, 0, 4, 0]);
        assert_eq!(followed(&[2, 3, 2, 3, 2, 3, 2]).await, [2, 3, 2, 3, 2, 3, 2]);
        assert!(followed(&[4]).await.is_empty());
    }
}
