//! Can this request be answered in time? Pure arithmetic over what is learned and what waits.
//!
//! A queue that is bounded by count would be too long for slow models and too short for fast ones. So the time to an
//! answer is predicted from the times of earlier runs. The bound is a time, or twenty batches of a slow model. Such a
//! batch is one that is worth its time, or a usual request; batches that wait grow with the queue, and their bound
//! would, too. Before a model has run, nothing is refused.

use std::time::Duration;

/// What stands between a new request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Time that the batches now running still need, summed.
    pub running: Duration,
    /// Batches that the queue makes, the last one perhaps not full.
    pub queued_batches: usize,
    /// Expected time of one of these.
    pub batch_time: Duration,
    /// Time of the new request's own batch, on the slow side.
    pub own_time: Duration,
    /// The same on the average.
    pub own_mean: Duration,
    /// Time of a batch of the size that is worth its time, or of a usual request where that has more rows.
    pub usual_time: Duration,
    /// Instances that work on the queue.
    pub instances: usize,
}

/// What a request waits for before it joins the queue, as its inputs are to be prepared: by what waits there, and by
/// how long such work took of late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpectedWait {
    /// Until a thread is free for it.
    pub whole: Duration,
    /// Of that, for one piece of work.
    pub piece: Duration,
    /// Pieces of work that wait for a thread.
    pub requests: usize,
}

/// How long may a request stay?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongestStay {
    /// Any time while few wait. Where more than few do: one second, or twenty batches of the size that is worth its
    /// time, or twenty usual requests, where these are slow; and as much longer as its own run takes longer than these.
    Auto,
    /// That long.
    Fixed(Duration),
    /// For ever.
    Unbounded,
}

/// Predictions leave out what comes before the queue and after the run, which a busy server takes long for: ten to
/// twenty per cent. What is admitted should be in time all the same.
const MARGIN: f64 = 0.8;

/// Time from now to the answer of a request that joins the end of the queue.
pub fn predicted_stay(load: &Load) -> Duration {
    let instances = u32::try_from(load.instances.max(1)).unwrap_or(u32::MAX);
    let batches = u32::try_from(load.queued_batches).unwrap_or(u32::MAX);
    let ahead = load.running.saturating_add(load.batch_time.saturating_mul(batches));
    // Instances share what waits, but not the last batch of it, which the request joins.
    let last = match load.queued_batches {
        0 => Duration::ZERO,
        _ => load.batch_time - load.batch_time / instances,
    };
    (ahead / instances).saturating_add(load.own_time.max(last))
}

/// The bound that `stay` sets; `None` for no bound.
pub fn bound(stay: LongestStay, load: &Load) -> Option<Duration> {
    match stay {
        LongestStay::Auto => {
            // Not of the batches that wait: these grow with the queue, which would grow with its own bound.
            let batches = Duration::from_secs(1).max(load.usual_time.saturating_mul(20));
            // A large request behind small ones is slow by itself: that is no reason to refuse it.
            let excess = load.own_mean.saturating_sub(load.usual_time);
            Some(batches.mul_f64(MARGIN).saturating_add(excess))
        }
        LongestStay::Fixed(longest) => Some(longest.mul_f64(MARGIN)),
        LongestStay::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_stay_is_what_runs_and_what_waits_shared_by_the_instances_and_its_own_run() {
        let load = Load {
            running: ms(40),
            queued_batches: 4,
            batch_time: ms(50),
            own_time: ms(60),
            own_mean: ms(50),
            usual_time: ms(50),
            instances: 2,
        };
        assert_eq!(predicted_stay(&load), ms(120 + 60));
    }

    #[test]
    fn the_last_batch_runs_on_one_instance() {
        let queued = Load {
            running: ms(0),
            queued_batches: 1,
            batch_time: ms(400),
            own_time: ms(12),
            own_mean: ms(12),
            usual_time: ms(40),
            instances: 2,
        };
        assert_eq!(predicted_stay(&queued), ms(400));
        assert_eq!(predicted_stay(&Load { queued_batches: 3, ..queued }), ms(800));
        assert_eq!(predicted_stay(&Load { queued_batches: 0, ..queued }), ms(12));
    }

    #[test]
    fn a_fast_model_may_queue_for_a_second_and_a_slow_one_for_twenty_batches() {
        assert_eq!(bound(LongestStay::Auto, &load(ms(1), ms(1))), Some(ms(800)));
        assert_eq!(bound(LongestStay::Auto, &load(ms(100), ms(100))), Some(ms(1600)));
        assert_eq!(bound(LongestStay::Fixed(ms(100)), &load(ms(100), ms(100))), Some(ms(80)));
        assert_eq!(bound(LongestStay::Unbounded, &load(ms(100), ms(100))), None);
    }

    #[test]
    fn a_request_that_is_slow_by_itself_is_not_refused_for_that() {
        let load = load(ms(1), ms(2000));
        assert!(predicted_stay(&load) <= bound(LongestStay::Auto, &load).unwrap());
    }

    fn load(batch_time: Duration, own_time: Duration) -> Load {
        let own_mean = own_time;
        let usual_time = batch_time;
        Load {
            running: ms(0),
            queued_batches: 1,
            batch_time,
            own_time,
            own_mean,
            usual_time,
            instances: 1,
        }
    }

    #[test]
    fn batches_that_grow_with_the_queue_do_not_raise_its_bound() {
        let crowded = Load { batch_time: ms(600), ..load(ms(40), ms(12)) };
        assert_eq!(bound(LongestStay::Auto, &crowded), Some(ms(800)));
    }

    #[test]
    fn absurd_queues_saturate_instead_of_overflowing() {
        let load = Load {
            running: Duration::MAX,
            queued_batches: usize::MAX,
            batch_time: Duration::MAX,
            own_time: Duration::MAX,
            own_mean: Duration::MAX,
            usual_time: Duration::MAX,
            instances: 0,
        };
        assert_eq!(predicted_stay(&load), Duration::MAX);
    }
}
