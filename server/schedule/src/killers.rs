//! Requests that have ended the process of their model twice: remembered for a while, so that they end no third one.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::work::Work;

/// One is remembered for so long.
const REMEMBERED: Duration = Duration::from_secs(600);

/// At most so many are remembered: the latest.
const MOST: usize = 64;

/// Those of one model, as hashes of their inputs. The keys of the hashes are chance: nobody can make a request that has
/// the hash of another.
#[derive(Default)]
pub(crate) struct Killers {
    /// Are there any? Requests are hashed only then.
    any: AtomicBool,
    keys: RandomState,
    /// Guards the hashes and what is said of them, the oldest first.
    known: Mutex<VecDeque<Killer>>,
}

struct Killer {
    since: Instant,
    hash: u64,
    /// What ended the process.
    what: String,
}

/// A request is one that was remembered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownKiller {
    /// What it has ended the process with.
    pub(crate) what: String,
    /// For how long it is still refused.
    pub(crate) left: Duration,
}

impl Killers {
    /// That request has ended the process twice.
    pub(crate) fn remember(&self, work: &Work, what: String, now: Instant) {
        let hash = self.hash(work);
        let mut known = self.lock();
        known.retain(|it| it.hash != hash);
        if known.len() == MOST {
            known.pop_front();
        }
        known.push_back(Killer { since: now, hash, what });
        self.any.store(true, Relaxed);
    }

    /// Is that request one of them? Reads its inputs if there are any.
    pub(crate) fn find(&self, work: &Work, now: Instant) -> Option<KnownKiller> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let hash = self.hash(work);
        let mut known = self.lock();
        let age = |it: &Killer| now.saturating_duration_since(it.since);
        while known.front().is_some_and(|it| REMEMBERED <= age(it)) {
            known.pop_front();
        }
        self.any.store(!known.is_empty(), Relaxed);
        let found = known.iter().find(|it| it.hash == hash)?;
        Some(KnownKiller { what: found.what.clone(), left: REMEMBERED.saturating_sub(age(found)) })
    }

    fn hash(&self, work: &Work) -> u64 {
        let mut hasher = self.keys.build_hasher();
        work.signature.hash(&mut hasher);
        for input in &work.inputs {
            input.name.hash(&mut hasher);
            input.tensor.dtype().hash(&mut hasher);
            input.tensor.shape().hash(&mut hasher);
            // However they are cut: the length is that of the type and shape, or in the bytes themselves.
            input.tensor.segments().iter().for_each(|it| hasher.write(it));
        }
        hasher.finish()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Killer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use backend::{NamedTensor, Shape, Tensor};

    use super::*;

    fn work(name: &str, shape: &[usize], values: &[i32]) -> Work {
        let tensor = Tensor::from_vec(Shape::new(shape), values.to_vec()).unwrap();
        let inputs = vec![NamedTensor { name: name.into(), tensor }];
        Work { about: None, parts: None, signature: 0, inputs, outputs: vec!["y".into()], rows: 1 }
    }

    #[test]
    fn a_request_with_the_same_inputs_is_known_for_a_while_and_no_other() {
        let (killers, now) = (Killers::default(), Instant::now());
        let killer = work("x", &[1, 2], &[6, 7]);
        assert_eq!(killers.find(&killer, now), None);
        killers.remember(&killer, "by a signal".into(), now);
        let later = now + Duration::from_secs(1);
        let known =
            KnownKiller { what: "by a signal".into(), left: REMEMBERED - Duration::from_secs(1) };
        assert_eq!(killers.find(&killer.clone(), later), Some(known));
        for other in [
            work("x", &[1, 2], &[6, 8]),
            work("x", &[2, 1], &[6, 7]),
            work("z", &[1, 2], &[6, 7]),
            Work { signature: 1, ..killer.clone() },
        ] {
            assert_eq!(killers.find(&other, later), None);
        }
        assert_eq!(killers.find(&killer, now + REMEMBERED), None);
        assert!(!killers.any.load(Relaxed), "requests are not hashed any more");
    }

    #[test]
    fn a_tensor_in_several_pieces_is_the_same_request() {
        let (killers, now) = (Killers::default(), Instant::now());
        let whole = work("x", &[2, 1], &[6, 7]);
        let parts = [work("x", &[1, 1], &[6]), work("x", &[1, 1], &[7])];
        let mut cut = whole.clone();
        cut.inputs[0].tensor = Tensor::concat(parts.iter().map(|it| &it.inputs[0].tensor)).unwrap();
        killers.remember(&cut, String::new(), now);
        assert!(killers.find(&whole, now).is_some());
    }

    #[test]
    fn the_latest_are_remembered() {
        let (killers, now) = (Killers::default(), Instant::now());
        let all: Vec<Work> = (0..=MOST as i32).map(|it| work("x", &[1], &[it])).collect();
        all.iter().for_each(|it| killers.remember(it, String::new(), now));
        all.iter().for_each(|it| drop(killers.find(it, now)));
        assert_eq!(killers.find(&all[0], now), None);
        assert!(all[1..].iter().all(|it| killers.find(it, now).is_some()));
    }
}
