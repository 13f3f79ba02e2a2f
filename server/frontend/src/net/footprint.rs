//! About how much memory connections take, and the signal that much of it has become free. The C library's allocator
//! keeps what is free, because parts of other connections lie in between.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

/// Less than that is not worth a signal.
const LEAST: usize = 16 << 20;

/// Bytes that connections take by their own count.
#[derive(Debug, Default)]
pub struct Footprint {
    now: AtomicUsize,
    /// The most there were since the last [`Footprint::forget`].
    most: AtomicUsize,
    fell: Notify,
}

impl Footprint {
    /// Counts these bytes until the part is dropped.
    pub fn take(&self, bytes: usize) -> Part<'_> {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(now, Relaxed);
        Part { footprint: self, bytes }
    }

    /// Returns when a quarter of the most that connections took has become free, and 16 MiB at least.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn fallen(&self) {
        loop {
            self.fell.notified().await;
            // A signal may be left from before it was forgotten.
            if self.has_fallen() {
                return;
            }
        }
    }

    fn has_fallen(&self) -> bool {
        let most = self.most.load(Relaxed);
        LEAST.max(most / 4) <= most.saturating_sub(self.now.load(Relaxed))
    }

    /// What is free now is given back, and signalled no more.
    pub fn forget(&self) {
        self.most.store(self.now.load(Relaxed), Relaxed);
    }
}

/// Bytes of one connection, counted while this lives.
#[derive(Debug)]
pub struct Part<'f> {
    footprint: &'f Footprint,
    bytes: usize,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.footprint.now.fetch_sub(self.bytes, Relaxed);
        if self.footprint.has_fallen() {
            self.footprint.fell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn has_fallen(footprint: &Footprint) -> bool {
        tokio::time::timeout(Duration::from_millis(1), footprint.fallen()).await.is_ok()
    }

    #[tokio::test]
    async fn much_that_becomes_free_is_signalled_until_it_is_given_back() {
        let footprint = Footprint::default();
        let mut parts: Vec<_> = (0..10).map(|_| footprint.take(LEAST / 2)).collect();
        parts.truncate(8);
        assert!(!has_fallen(&footprint).await, "a fifth");
        parts.truncate(7);
        assert!(has_fallen(&footprint).await);
        footprint.forget();
        parts.truncate(6);
        assert!(!has_fallen(&footprint).await, "half a mebibyte");
        parts.clear();
        assert!(has_fallen(&footprint).await);
    }
}
