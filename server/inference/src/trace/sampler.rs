//! Which requests are traced: one in so many of a model, until there have been enough.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::settings::{Recounts, TraceState, Values};

/// No bound to the number of traces.
const UNLIMITED: u64 = u64::MAX;

/// Decides for the requests of one model, or of all models that have no settings of their own.
#[derive(Debug)]
pub(super) struct Sampler {
    values: Values,
    /// Requests so far.
    seen: AtomicU64,
    /// Traces that may still be made.
    left: AtomicU64,
}

impl Sampler {
    fn new(values: Values) -> Sampler {
        let left = values.count.unwrap_or(UNLIMITED);
        Sampler { values, seen: AtomicU64::new(0), left: AtomicU64::new(left) }
    }

    /// Goes on where another one stood.
    fn after(values: Values, before: &Sampler) -> Sampler {
        let (seen, left) = (before.seen.load(Relaxed), before.left.load(Relaxed));
        Sampler { values, seen: AtomicU64::new(seen), left: AtomicU64::new(left) }
    }

    pub(super) fn values(&self) -> Values {
        self.values
    }

    /// Traces that may still be made; `None` for any number.
    pub(super) fn left(&self) -> Option<u64> {
        Some(self.left.load(Relaxed)).filter(|it| *it != UNLIMITED)
    }

    /// Is the request that came now one to be traced?
    pub(super) fn takes(&self) -> bool {
        let seen = self.seen.fetch_add(1, Relaxed).wrapping_add(1);
        if seen.checked_rem(self.values.rate) != Some(0) {
            return false;
        }
        let one_less = |left: u64| match left {
            UNLIMITED => Some(UNLIMITED),
            left => left.checked_sub(1),
        };
        self.left.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}

/// Those of all models.
#[derive(Debug)]
pub(super) struct Samplers {
    global: Arc<Sampler>,
    models: BTreeMap<String, Arc<Sampler>>,
}

impl Samplers {
    pub(super) fn new(settings: &TraceState) -> Samplers {
        Samplers { global: Arc::new(Sampler::new(settings.global())), models: BTreeMap::new() }
    }

    /// Is anything traced of any model?
    pub(super) fn are_on(&self) -> bool {
        let all = std::iter::once(&self.global).chain(self.models.values());
        all.into_iter().any(|it| it.values.levels.are_on())
    }

    pub(super) fn global(&self) -> &Sampler {
        &self.global
    }

    pub(super) fn of(&self, model: &str) -> &Sampler {
        self.models.get(model).unwrap_or(&self.global)
    }

    /// Those after a change of the settings of `changed`, or of the server's. Whatever it is not about goes on as
    /// it was, with what it has counted.
    pub(super) fn renewed(
        &self,
        settings: &TraceState,
        changed: Option<&str>,
        recounts: Recounts,
    ) -> Samplers {
        let renew = |before: Option<&Arc<Sampler>>, values: Values, recounts: bool| match before {
            Some(before) if before.values == values && !recounts => before.clone(),
            Some(before) if !recounts => Arc::new(Sampler::after(values, before)),
            _ => Arc::new(Sampler::new(values)),
        };
        let recount = recounts == Recounts::Yes;
        let global = renew(Some(&self.global), settings.global(), recount && changed.is_none());
        let models = settings.models().map(|(name, values, inherits_count)| {
            let recounts = recount
                && match changed {
                    Some(changed) => changed == name,
                    None => inherits_count,
                };
            (name.to_owned(), renew(self.models.get(name), values, recounts))
        });
        Samplers { global, models: models.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceLevels;

    fn taken(rate: u64, count: Option<u64>, requests: usize) -> Vec<usize> {
        let levels = TraceLevels { timestamps: true, tensors: false };
        let sampler = Sampler::new(Values { levels, rate, count, log_frequency: 0 });
        (1..=requests).filter(|_| sampler.takes()).collect()
    }

    #[test]
    fn every_so_manieth_request_is_traced() {
        assert_eq!(taken(3, None, 10), [3, 6, 9]);
        assert_eq!(taken(1, None, 3), [1, 2, 3]);
        assert_eq!(taken(0, None, 3), [0usize; 0]);
    }

    #[test]
    fn no_more_are_traced_than_may_be() {
        assert_eq!(taken(2, Some(2), 10), [2, 4]);
        assert_eq!(taken(1, Some(0), 3), [0usize; 0]);
    }
}
