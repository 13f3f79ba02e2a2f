//! The counters of the response cache: by model, and of the cache in this process.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{
    Gauge,
    histogram::nanoseconds,
    model::{ModelMetrics, wall_clock_ms},
    summary::{HIT, MISS},
};

/// One request that was answered from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHit {
    /// From acceptance to the response.
    pub total: Duration,
    /// From acceptance to the look.
    pub queue: Duration,
    /// The look.
    pub lookup: Duration,
}

/// What is counted for each model whose answers are kept. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct CacheCounts {
    pub(super) hits: AtomicU64,
    pub(super) hit_ns: AtomicU64,
    pub(super) misses: AtomicU64,
    /// Lookups and insertions.
    pub(super) miss_ns: AtomicU64,
}

impl CacheCounts {
    pub(super) fn numbers(&self) -> [&AtomicU64; 4] {
        [&self.hits, &self.hit_ns, &self.misses, &self.miss_ns]
    }
}

impl ModelMetrics {
    /// From now on the counters of the cache are shown for this model.
    pub fn has_cache(&self) {
        self.0.series.has_cache.store(true, Relaxed);
    }

    /// Counts one request that was answered from the cache. It is a success, and no inference.
    pub fn cache_hit(&self, hit: CacheHit) {
        let counts = self.0.counters.mine();
        let (total, queue) = (nanoseconds(hit.total), nanoseconds(hit.queue));
        counts.cache.hits.fetch_add(1, Relaxed);
        counts.cache.hit_ns.fetch_add(nanoseconds(hit.lookup), Relaxed);
        counts.request.observe(total);
        counts.queue.observe(queue);
        counts.last_ms.store(wall_clock_ms(), Relaxed);
        if let Some(first_response) = &counts.first_response {
            first_response.observe(total / 1_000_000);
        }
        if let Some(summaries) = &self.0.series.summaries {
            summaries.observe(&[total, queue]);
            summaries.observe_one(HIT, nanoseconds(hit.lookup));
        }
    }

    /// Counts one request that was not in the cache: what the look and putting its answer in took. A success is
    /// counted beside it.
    pub fn cache_miss(&self, took: Duration) {
        let counts = self.0.counters.mine();
        counts.cache.misses.fetch_add(1, Relaxed);
        counts.cache.miss_ns.fetch_add(nanoseconds(took), Relaxed);
        if let Some(summaries) = &self.0.series.summaries {
            summaries.observe_one(MISS, nanoseconds(took));
        }
    }
}

/// The cache in this process. Whoever holds it keeps them right.
#[derive(Debug, Default)]
pub struct CacheGauges {
    /// Bytes that it may hold.
    pub(super) size: u64,
    /// Bytes that it holds.
    pub bytes: Gauge,
    /// Answers that it holds.
    pub entries: Gauge,
    /// Looks that found an answer.
    pub hits: Gauge,
    /// Looks that found none.
    pub misses: Gauge,
    /// Answers that had to make room.
    pub evictions: Gauge,
    /// Nanoseconds of lookups.
    pub lookup_ns: Gauge,
    /// Nanoseconds of insertions.
    pub insertion_ns: Gauge,
}

impl CacheGauges {
    pub(super) fn new(size: u64) -> CacheGauges {
        CacheGauges { size, ..CacheGauges::default() }
    }
}
