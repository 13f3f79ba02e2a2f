//! Gives memory back to the system that connections have freed.

use std::{sync::Arc, time::Duration};

use frontend::net::footprint::Footprint;

/// Connections that end, or come to rest, do so one after the other.
const SETTLING: Duration = Duration::from_secs(2);

/// The shortest time from one time to the next: other threads may wait for the allocator meanwhile.
const PAUSE: Duration = Duration::from_secs(5);

/// Has memory given back for ever, each time that connections have freed much of it.
pub(super) async fn watch(
    footprint: Arc<Footprint>,
    give_back: impl Fn() + Clone + Send + 'static,
) {
    loop {
        footprint.fallen().await;
        tokio::time::sleep(SETTLING).await;
        footprint.forget();
        // This thread accepts connections.
        let _ = tokio::task::spawn_blocking(give_back.clone()).await;
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use inference::ledger::Ledger;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back_once_for_connections_that_end_together() {
        let footprint = Footprint::new(&Ledger::new(0, Some(1 << 40)));
        let given = Arc::<AtomicUsize>::default();
        let counter = given.clone();
        let give_back = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let watch = tokio::spawn(watch(footprint.clone(), give_back));
        for rounds in 1..3 {
            let parts: Vec<_> = (0..100).map(|_| footprint.take(1 << 20)).collect();
            drop(parts);
            tokio::time::sleep(SETTLING + 2 * PAUSE).await;
            assert_eq!(given.load(Ordering::Relaxed), rounds);
        }
        watch.abort();
    }
}
