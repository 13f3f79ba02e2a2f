//! The families of the response cache: by model, and of the cache in this process.

use std::sync::atomic::Ordering::Relaxed;

use super::{
    shown::Shown,
    text::{Text, microseconds, whole},
};
use crate::metrics::cache_counts::{CacheCounts, CacheGauges};

/// A family with one number for each model that has a cache: name, help, where the number comes from.
type Number = (&'static str, &'static str, fn(&CacheCounts) -> f64);

const COUNTERS: [Number; 4] = [
    ("nv_cache_num_hits_per_model", "Requests answered from the cache", |it| {
        whole(it.hits.load(Relaxed))
    }),
    ("nv_cache_num_misses_per_model", "Requests that were not in the cache", |it| {
        whole(it.misses.load(Relaxed))
    }),
    ("nv_cache_hit_duration_per_model", "Microseconds of lookups that found an answer", |it| {
        microseconds(it.hit_ns.load(Relaxed))
    }),
    (
        "nv_cache_miss_duration_per_model",
        "Microseconds of lookups that found none, and of what was put in then",
        |it| microseconds(it.miss_ns.load(Relaxed)),
    ),
];

/// Those of the models, and those of the cache where it is in this process.
pub(super) fn families(text: &mut Text, models: &[Shown<'_>], cache: Option<&CacheGauges>) {
    let kept = || models.iter().filter(|it| it.series.has_cache.load(Relaxed));
    for (name, help, number) in COUNTERS {
        text.counters(
            name,
            help,
            kept().map(|it| (it.series.labels.clone(), number(&it.counts.cache))),
        );
    }
    let Some(cache) = cache else { return };
    let used = whole(cache.bytes.get()) / whole(cache.size.max(1));
    text.gauges("nv_cache_util", "Share of the cache that is filled, 0 to 1", [(vec![], used)]);
    let gauges = [
        ("nv_cache_num_entries", "Answers in the cache", cache.entries.get()),
        ("nv_cache_num_lookups", "Looks into the cache", cache.hits.get() + cache.misses.get()),
        ("nv_cache_num_hits", "Looks that found an answer", cache.hits.get()),
        ("nv_cache_num_misses", "Looks that found none", cache.misses.get()),
        ("nv_cache_num_evictions", "Answers that had to make room", cache.evictions.get()),
        ("nv_cache_lookup_duration", "Microseconds of lookups", cache.lookup_ns.get() / 1000),
        (
            "nv_cache_insertion_duration",
            "Microseconds of insertions",
            cache.insertion_ns.get() / 1000,
        ),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, value);
    }
}
