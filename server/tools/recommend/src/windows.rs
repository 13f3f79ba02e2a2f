//! What the windows of a load test say: when it has seen enough, and which of them counts. Pure.

use loadgen::{Interval, Percentile, Threshold};
use serde::{Deserialize, Serialize};

use crate::{job::Conditions, words::users_in_words};

/// A window that is faster by no more than this is not faster.
const FLAT: f64 = 1.03;
/// So many windows in a row decide.
const ROW: usize = 2;
/// Windows after one that must not be faster for that one to be the plateau.
const AFTER: usize = 3;
/// A test ends where more than this share of requests fails.
const MOST_ERRORS: f64 = 0.01;

/// Why a test ended before its load did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// As many requests per minute were answered as were asked for.
    Reached,
    /// Answers came too late.
    Late,
    /// More users brought no more throughput.
    Flat,
    /// Requests failed.
    Errors,
}

/// Has the test seen enough with these windows?
pub fn stop(windows: &[Interval], conditions: &Conditions) -> Option<Stop> {
    let last = windows.last()?;
    let row = windows.len().checked_sub(ROW).and_then(|it| windows.get(it..));
    let all = |is: &dyn Fn(&Interval) -> bool| row.is_some_and(|it| it.iter().all(is));
    if all(&|it| it.error_rate() > MOST_ERRORS) {
        return Some(Stop::Errors);
    }
    if conditions.max_invocations.is_some_and(|it| per_minute(last) >= it) {
        return Some(Stop::Reached);
    }
    if conditions.threshold.is_some_and(|threshold| all(&|it| !threshold.is_met(it))) {
        return Some(Stop::Late);
    }
    (!conditions.continue_flat && plateau(windows).is_some()).then_some(Stop::Flat)
}

/// The first window whose throughput none of the next three exceeds by more than 3 %, although users grew.
pub fn plateau(windows: &[Interval]) -> Option<usize> {
    (0..windows.len()).find(|&index| {
        let (Some(window), Some(after)) =
            (windows.get(index), windows.get(index + 1..index + 1 + AFTER))
        else {
            return false;
        };
        let grew = after.iter().all(|it| it.users > window.users);
        grew && after.iter().all(|it| it.throughput <= window.throughput * FLAT)
    })
}

/// The window that stands for a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Which one.
    pub index: usize,
    /// Is it within the threshold, and did none of its requests fail?
    pub meets: bool,
}

/// The last window up to the plateau that is within the threshold and without errors; without a threshold the plateau
/// itself. Where none is, the first one. `None` without any.
pub fn chosen(windows: &[Interval], threshold: Option<Threshold>) -> Option<Chosen> {
    let end = plateau(windows).unwrap_or(windows.len().checked_sub(1)?);
    let upto = windows.get(..=end)?;
    let good = |it: &Interval| {
        it.ok() > 0 && it.errors == 0 && threshold.is_none_or(|threshold| threshold.is_met(it))
    };
    let meets = upto.iter().rposition(good);
    Some(Chosen { index: meets.unwrap_or(0), meets: meets.is_some() })
}

/// What a window carries, in words; latency is that of the threshold's percentile, else of 95 of 100 replies.
pub fn line(window: &Interval, threshold: Option<Threshold>) -> String {
    let percentile = threshold.map_or(Percentile::P95, |it| it.percentile);
    let latency = percentile.of(&window.latency).as_secs_f64() * 1e3;
    let (users, rate) = (window.users, per_minute(window));
    let failed = match window.errors {
        0 => String::new(),
        errors => format!(", {errors} failed"),
    };
    format!("{}: {rate} requests/min, {latency:.1} ms{failed}", users_in_words(users))
}

/// 2xx replies per minute, a whole number.
pub fn per_minute(window: &Interval) -> u64 {
    (window.throughput * 60.0).round() as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use loadgen::Latency;
    use std::time::Duration;

    /// A window of so many users, with a throughput per second and a latency in milliseconds.
    pub(crate) fn window(
        users: usize,
        throughput: f64,
        milliseconds: u64,
        errors: u64,
    ) -> Interval {
        let wait = Duration::from_millis(milliseconds);
        let latency = Latency {
            mean: wait,
            p50: wait,
            p90: wait,
            p95: wait,
            p99: wait,
            p99_9: wait,
            max: wait,
        };
        let requests = throughput as u64 + errors;
        Interval {
            start: Duration::ZERO,
            end: Duration::from_secs(1),
            users,
            requests,
            errors,
            throughput,
            latency,
            generator: None,
            server: None,
            gpu: None,
        }
    }

    fn within(milliseconds: u64) -> Option<Threshold> {
        let latency = Duration::from_millis(milliseconds);
        Some(Threshold { percentile: Percentile::P95, latency })
    }

    #[test]
    fn a_window_is_a_line() {
        assert_eq!(line(&window(4, 99.0, 12, 0), None), "4 users: 5940 requests/min, 12.0 ms");
        let failing = line(&window(1, 1.0, 5, 2), within(10));
        assert_eq!(failing, "1 user: 60 requests/min, 5.0 ms, 2 failed");
    }

    #[test]
    fn the_plateau_needs_three_windows_with_more_users_that_are_no_faster() {
        let rates = [100.0, 190.0, 270.0, 274.0, 271.0];
        let climb: Vec<Interval> =
            rates.iter().enumerate().map(|(at, rate)| window(at + 1, *rate, 5, 0)).collect();
        assert_eq!(plateau(&climb), None);
        let flat = [climb.clone(), vec![window(6, 277.0, 9, 0)]].concat();
        assert_eq!(plateau(&flat), Some(2));
        assert_eq!(stop(&flat, &Conditions::default()), Some(Stop::Flat));
        let goes_on = Conditions { continue_flat: true, ..Conditions::default() };
        assert_eq!(stop(&flat, &goes_on), None);
        // Fewer users that are no faster say nothing.
        let fewer = [climb, vec![window(1, 100.0, 5, 0)]].concat();
        assert_eq!(plateau(&fewer), None);
    }

    #[test]
    fn a_test_ends_at_its_target_at_late_answers_and_at_errors() {
        let conditions =
            Conditions { max_invocations: Some(6000), threshold: within(20), continue_flat: false };
        let ends = |windows: &[Interval]| stop(windows, &conditions);
        assert_eq!(ends(&[window(1, 99.0, 5, 0)]), None);
        assert_eq!(ends(&[window(1, 100.0, 5, 0)]), Some(Stop::Reached));
        assert_eq!(ends(&[window(1, 50.0, 25, 0)]), None);
        assert_eq!(ends(&[window(1, 50.0, 25, 0), window(2, 60.0, 30, 0)]), Some(Stop::Late));
        assert_eq!(ends(&[window(1, 50.0, 25, 0), window(2, 60.0, 10, 0)]), None);
        assert_eq!(ends(&[window(1, 50.0, 5, 9), window(2, 60.0, 5, 9)]), Some(Stop::Errors));
        assert_eq!(ends(&[]), None);
    }

    #[test]
    fn the_window_that_counts_is_the_last_good_one_up_to_the_plateau() {
        let windows = [
            window(1, 100.0, 5, 0),
            window(2, 190.0, 12, 0),
            window(3, 195.0, 18, 0),
            window(4, 194.0, 25, 0),
            window(5, 195.0, 31, 0),
        ];
        assert_eq!(chosen(&windows, None), Some(Chosen { index: 1, meets: true }));
        assert_eq!(chosen(&windows[..4], within(20)), Some(Chosen { index: 2, meets: true }));
        assert_eq!(chosen(&windows, within(10)), Some(Chosen { index: 0, meets: true }));
        assert_eq!(chosen(&windows, within(4)), Some(Chosen { index: 0, meets: false }));
        let failing = [window(1, 100.0, 5, 0), window(2, 190.0, 5, 1)];
        assert_eq!(chosen(&failing, None), Some(Chosen { index: 0, meets: true }));
        assert_eq!(chosen(&[], None), None);
    }
}
