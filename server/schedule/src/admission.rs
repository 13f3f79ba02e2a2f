//! Can this request be answered in time? Pure arithmetic over what is learned and what waits.

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
}

/// How long may a request stay?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongestStay {
    /// One second, or twenty batches where these are slow; and as much longer as its own run takes longer
    /// than these.
    Auto,
    /// That long.
    Fixed(Duration),
    /// For ever.
    Unbounded,
}

/// Predictions are wrong by some per cent; what is admitted should still be in time then.
const MARGIN: f64 = 0.9;

/// Time from now to the answer of a request that joins the end of the queue.
pub fn predicted_stay(load: &Load) -> Duration {
    let instances = u32::try_from(load.instances.max(1)).unwrap_or(u32::MAX);
    let batches = u32::try_from(load.queued_batches).unwrap_or(u32::MAX);
    let ahead = load.running.saturating_add(load.batch_time.saturating_mul(batches));
    (ahead / instances).saturating_add(load.own_time)
}

/// The bound that `stay` sets; `None` for no bound.
pub fn bound(stay: LongestStay, load: &Load) -> Option<Duration> {
    match stay {
        LongestStay::Auto => {
            let batches = Duration::from_secs(1).max(load.batch_time.saturating_mul(20));
            // A large request behind small ones is slow by itself: that is no reason to refuse it.
            let excess = load.own_mean.saturating_sub(load.batch_time);
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
            instances: 2,
        };
        assert_eq!(predicted_stay(&load), ms(120 + 60));
    }

    #[test]
    fn a_fast_model_may_queue_for_a_second_and_a_slow_one_for_twenty_batches() {
        assert_eq!(bound(LongestStay::Auto, &load(ms(1), ms(1))), Some(ms(900)));
        assert_eq!(bound(LongestStay::Auto, &load(ms(100), ms(100))), Some(ms(1800)));
        assert_eq!(bound(LongestStay::Fixed(ms(100)), &load(ms(100), ms(100))), Some(ms(90)));
        assert_eq!(bound(LongestStay::Unbounded, &load(ms(100), ms(100))), None);
    }

    #[test]
    fn a_request_that_is_slow_by_itself_is_not_refused_for_that() {
        let load = load(ms(1), ms(2000));
        assert!(predicted_stay(&load) <= bound(LongestStay::Auto, &load).unwrap());
    }

    fn load(batch_time: Duration, own_time: Duration) -> Load {
        let own_mean = own_time;
        Load { running: ms(0), queued_batches: 1, batch_time, own_time, own_mean, instances: 1 }
    }

    #[test]
    fn absurd_queues_saturate_instead_of_overflowing() {
        let load = Load {
            running: Duration::MAX,
            queued_batches: usize::MAX,
            batch_time: Duration::MAX,
            own_time: Duration::MAX,
            own_mean: Duration::MAX,
            instances: 0,
        };
        assert_eq!(predicted_stay(&load), Duration::MAX);
    }
}
