//! Answers in this process: the least recently used make room for new ones.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem::size_of,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use backend::NamedTensor;

use crate::cache::{entry::copied, key::Key};
use telemetry::metrics::CacheGauges;

/// What an entry takes beside its tensors: itself, and its places in the two maps, which have room to spare.
const OVERHEAD: u64 = 2 * (size_of::<(Key, AnswerEntry)>() + size_of::<(u64, Key)>()) as u64;

/// What a tensor takes beside its elements: itself, and the owner of its buffer.
const TENSOR_OVERHEAD: u64 = (size_of::<NamedTensor>() + 64) as u64;

/// A cache of so many bytes.
pub struct Local {
    /// Most bytes, overheads included.
    size: u64,
    gauges: Arc<CacheGauges>,
    /// Guards the entries. Nothing is copied under it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, AnswerEntry>,
    /// Keys by when they were last used; the first is the next to go.
    order: BTreeMap<u64, Key>,
    /// The last moment.
    now: u64,
    bytes: u64,
    /// Models with an answer that was too large, which is logged once for each.
    logged: HashSet<String>,
}

/// An answer.
struct AnswerEntry {
    outputs: Arc<[NamedTensor]>,
    used: u64,
    bytes: u64,
}

impl Local {
    /// An empty one.
    pub(super) fn new(size: u64, gauges: Arc<CacheGauges>) -> Local {
        Local { size, gauges, state: Mutex::default() }
    }

    /// The answer of that key.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<NamedTensor>> {
        let mut state = self.lock();
        state.now += 1;
        let now = state.now;
        let entry = state.entries.get_mut(key)?;
        let before = std::mem::replace(&mut entry.used, now);
        let outputs = entry.outputs.clone();
        state.order.remove(&before);
        state.order.insert(now, *key);
        drop(state);
        Some(outputs.to_vec())
    }

    /// Counts a look.
    pub(super) fn looked(&self, found: bool, took: Duration) {
        match found {
            true => self.gauges.hits.add(1),
            false => self.gauges.misses.add(1),
        }
        self.gauges.lookup_ns.add(nanoseconds(took));
    }

    /// Keeps a copy of an answer: what is kept must not hold on to the batch that it is a part of.
    pub(super) fn put(&self, key: Key, outputs: &[NamedTensor], model: &str) {
        let started = Instant::now();
        let tensors = outputs.iter().map(|it| it.tensor.byte_len() as u64 + TENSOR_OVERHEAD);
        let bytes = tensors.sum::<u64>() + OVERHEAD;
        if self.size < bytes {
            if self.lock().logged.insert(model.to_owned()) {
                tracing::warn!(
                    model,
                    bytes,
                    size = self.size,
                    "an answer is larger than the whole cache and is not kept; of this model, this is not told \
                     again"
                );
            }
            return;
        }
        let outputs: Arc<[NamedTensor]> = outputs.iter().map(copied).collect();
        let mut gone = Vec::new();
        let mut state = self.lock();
        state.now += 1;
        let now = state.now;
        let entry = AnswerEntry { outputs, used: now, bytes };
        if let Some(before) = state.entries.insert(key, entry) {
            // Two equal requests at the same time.
            state.order.remove(&before.used);
            state.bytes -= before.bytes;
            gone.push(before);
        }
        state.order.insert(now, key);
        state.bytes += bytes;
        let mut evicted = 0;
        while self.size < state.bytes {
            let Some((_, oldest)) = state.order.pop_first() else { break };
            if let Some(entry) = state.entries.remove(&oldest) {
                state.bytes -= entry.bytes;
                evicted += 1;
                gone.push(entry);
            }
        }
        self.gauges.bytes.set(state.bytes);
        self.gauges.entries.set(state.entries.len() as u64);
        drop(state);
        self.gauges.evictions.add(evicted);
        self.gauges.insertion_ns.add(nanoseconds(started.elapsed()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock; if it did, at worst an entry would be lost.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use backend::{Shape, Tensor};

    use super::*;
    use crate::cache::key::KeyBuilder;
    use telemetry::metrics::{Metrics, MetricsSettings};

    fn key(number: u64) -> Key {
        let mut key = KeyBuilder::default();
        key.number(number);
        key.finish()
    }

    /// An answer of one tensor of so many bytes.
    fn answer(bytes: usize) -> Vec<NamedTensor> {
        let tensor = Tensor::from_vec(Shape::new(&[bytes]), vec![7u8; bytes]).unwrap();
        vec![NamedTensor { name: "y".into(), tensor }]
    }

    fn bytes_of(elements: u64) -> u64 {
        elements + TENSOR_OVERHEAD + OVERHEAD
    }

    fn cache(size: u64) -> Local {
        Local::new(size, Metrics::new(MetricsSettings::default()).cache(size))
    }

    /// Are the sums what the entries say?
    #[track_caller]
    fn check(cache: &Local) {
        let state = cache.lock();
        assert_eq!(state.bytes, state.entries.values().map(|it| it.bytes).sum::<u64>());
        assert_eq!(state.order.len(), state.entries.len());
        assert!(state.bytes <= cache.size);
        assert_eq!(cache.gauges.bytes.get(), state.bytes);
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = cache(3 * bytes_of(100));
        (0..3).for_each(|it| cache.put(key(it), &answer(100), "m"));
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(3), &answer(100), "m");
        assert!(cache.get(&key(1)).is_none());
        assert!([0, 2, 3].iter().all(|it| cache.get(&key(*it)).is_some()));
        assert_eq!(cache.gauges.evictions.get(), 1);
        check(&cache);
    }

    #[test]
    fn every_byte_is_accounted_for() {
        let cache = cache(20 * bytes_of(100));
        for number in 0..500u64 {
            cache.put(key(number % 37), &answer(usize::try_from(number * 7 % 300).unwrap()), "m");
            cache.get(&key(number % 11));
            check(&cache);
        }
    }

    #[test]
    fn what_is_larger_than_the_cache_is_not_kept_and_drives_nothing_out() {
        let cache = cache(2 * bytes_of(100));
        cache.put(key(0), &answer(100), "m");
        cache.put(key(1), &answer(10_000), "m");
        assert!(cache.get(&key(0)).is_some() && cache.get(&key(1)).is_none());
        check(&cache);
    }

    #[test]
    fn what_is_kept_is_a_copy_of_its_own() {
        let cache = cache(1 << 20);
        let batch = Tensor::from_vec(Shape::new(&[1000]), vec![1u8; 1000]).unwrap();
        let row = batch.slice_rows(10, 1).unwrap();
        cache.put(key(0), &[NamedTensor { name: "y".into(), tensor: row.clone() }], "m");
        let kept = cache.get(&key(0)).unwrap().remove(0).tensor;
        assert_eq!(kept.to_bytes(), row.to_bytes());
        assert_ne!(kept.contiguous().unwrap().as_ptr(), row.contiguous().unwrap().as_ptr());
    }
}
