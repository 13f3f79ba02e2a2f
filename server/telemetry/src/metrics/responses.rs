//! Responses of decoupled models by their place in the answer: the first ones, so that their number is bounded.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    histogram::nanoseconds,
    statistics::{ResponseStatistics, Total},
};

/// Places that are made room for at a time.
const CHUNK: usize = 8;

/// Chunks of one table. Responses at later places are not counted by place.
const CHUNKS: usize = 16;

/// What came of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEnd {
    /// It was given.
    Success,
    /// An error stood in its place, the last of the answer.
    Fail,
    /// It had nothing but the end of the answer.
    Empty,
    /// Nobody waited for it any more.
    Cancel,
}

/// The table of one lane.
#[derive(Default)]
pub(super) struct Responses {
    chunks: [OnceLock<Box<[Place; CHUNK]>>; CHUNKS],
}

/// What is counted of one place.
#[derive(Default)]
struct Place {
    infer: Counted,
    output: Counted,
    success: Counted,
    fail: Counted,
    empty: Counted,
    cancel: Counted,
}

#[derive(Default)]
struct Counted {
    count: AtomicU64,
    /// Nanoseconds.
    ns: AtomicU64,
}

impl Counted {
    fn add(&self, count: u64, ns: u64) {
        self.count.fetch_add(count, Relaxed);
        self.ns.fetch_add(ns, Relaxed);
    }

    fn total(&self) -> Total {
        Total { count: self.count.load(Relaxed), ns: self.ns.load(Relaxed) }
    }
}

impl Place {
    fn all(&self) -> [&Counted; 6] {
        [&self.infer, &self.output, &self.success, &self.fail, &self.empty, &self.cancel]
    }
}

impl Responses {
    /// Counts a response at that place, which came so long after the one before it.
    pub(super) fn count(&self, place: usize, end: ResponseEnd, took: Duration) {
        let Some(place) = self.place(place) else { return };
        let took = nanoseconds(took);
        let own = match end {
            ResponseEnd::Success => &place.success,
            ResponseEnd::Fail => &place.fail,
            ResponseEnd::Empty => &place.empty,
            ResponseEnd::Cancel => return place.cancel.add(1, took),
        };
        own.add(1, took);
        place.infer.add(1, took);
        if end == ResponseEnd::Success {
            // Nothing is copied after the model has given it.
            place.output.add(1, 0);
        }
    }

    /// Adds all that another table has counted.
    pub(super) fn absorb(&self, other: &Responses) {
        for (number, theirs) in other.places() {
            let Some(ours) = self.place(number) else { continue };
            for (sum, more) in ours.all().into_iter().zip(theirs.all()) {
                let Total { count, ns } = more.total();
                sum.add(count, ns);
            }
        }
    }

    /// What has been counted, by place, ascending.
    pub(super) fn statistics(&self) -> Vec<ResponseStatistics> {
        let all = self.places().map(|(place, it)| ResponseStatistics {
            place,
            compute_infer: it.infer.total(),
            compute_output: it.output.total(),
            success: it.success.total(),
            fail: it.fail.total(),
            empty_response: it.empty.total(),
            cancel: it.cancel.total(),
        });
        let is_counted = |it: &ResponseStatistics| {
            [it.success, it.fail, it.empty_response, it.cancel].iter().any(|it| 0 < it.count)
        };
        all.filter(is_counted).collect()
    }

    fn place(&self, number: usize) -> Option<&Place> {
        let chunk = self.chunks.get(number / CHUNK)?;
        chunk.get_or_init(Box::default).get(number % CHUNK)
    }

    fn places(&self) -> impl Iterator<Item = (usize, &Place)> {
        let chunks = self.chunks.iter().enumerate();
        let made = chunks.filter_map(|(at, it)| Some((at * CHUNK, it.get()?)));
        made.flat_map(|(from, it)| it.iter().enumerate().map(move |(at, it)| (from + at, it)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_own_numbers_and_their_number_is_bounded() {
        let (responses, others) = (Responses::default(), Responses::default());
        let took = Duration::from_nanos(7);
        (0..10_000).for_each(|it| responses.count(it, ResponseEnd::Success, took));
        others.count(1, ResponseEnd::Success, took);
        others.count(2, ResponseEnd::Empty, took);
        others.count(3, ResponseEnd::Cancel, took);
        responses.absorb(&others);
        let statistics = responses.statistics();
        assert_eq!(statistics.len(), CHUNK * CHUNKS);
        assert_eq!(statistics[1].success, Total { count: 2, ns: 14 });
        let third = statistics[2];
        assert_eq!((third.success.count, third.empty_response.count), (1, 1));
        assert_eq!(third.compute_infer, Total { count: 2, ns: 14 });
        assert_eq!(statistics[3].cancel, Total { count: 1, ns: 7 });
        assert_eq!(others.statistics().iter().map(|it| it.place).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
