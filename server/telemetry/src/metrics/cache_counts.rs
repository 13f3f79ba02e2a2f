//! The counters of the response cache: by model, and of the cache in this process.

use std::{sync::atomic::AtomicU64, time::Duration};

use super::gauge::Gauge;

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

/// The cache in this process. The cache keeps them right.
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
