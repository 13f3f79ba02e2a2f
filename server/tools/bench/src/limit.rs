//! Where a server bends: the most load that it carries while its answers stay quick. Pure but for the measuring, which
//! is a function of the caller's.

use std::time::Duration;

use serde::Serialize;

use crate::{Error, Interval, Latency};

/// A window that is faster by no more than this is not faster.
const FLAT: f64 = 1.03;
/// A server that fails more than this share of its requests is past its limit.
const MOST_ERRORS: f64 = 0.01;
/// Users are told apart down to this share of their number.
const RESOLUTION: usize = 8;

/// Which latency is held against a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Percentile {
    /// 95 of 100 replies are quicker.
    P95,
    /// 99 of 100.
    P99,
}

impl Percentile {
    /// That percentile.
    pub fn of(self, latency: &Latency) -> Duration {
        match self {
            Percentile::P95 => latency.p95,
            Percentile::P99 => latency.p99,
        }
    }
}

/// The longest that a percentile may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// Which one.
    pub percentile: Percentile,
    /// The longest that it may be.
    #[serde(rename = "latency_us", serialize_with = "crate::numbers::micros")]
    pub latency: Duration,
}

impl Threshold {
    /// Is this window quick enough?
    pub fn is_met(&self, window: &Interval) -> bool {
        window.ok() > 0 && self.percentile.of(&window.latency) <= self.latency
    }
}

/// Why more users bring nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bend {
    /// They wait too long.
    Latency,
    /// Throughput grows no more.
    Flat,
    /// More than one of a hundred requests fails.
    Errors,
    /// There were as many as were allowed, and the server has not bent.
    MostUsers,
}

impl Bend {
    /// In words that may end a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Bend::Latency => "more of them wait too long",
            Bend::Flat => "more of them bring no more throughput",
            Bend::Errors => "with more of them requests fail",
            Bend::MostUsers => "the server has not bent; --most-users tries more of them",
        }
    }
}

/// What is said where there is no limit.
pub(crate) const NO_LIMIT: &str = "one user alone waits too long, or its requests fail";

/// The limit of a server, and how it was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The longest that answers may take; `None`: as long as they like.
    pub threshold: Option<Threshold>,
    /// Users that were to be tried at most.
    pub most_users: usize,
    /// The step of the highest throughput within the threshold; `None` if one user alone is past it.
    pub best: Option<Interval>,
    /// Why it is not higher.
    pub bend: Bend,
    /// All steps, by their users.
    pub steps: Vec<Interval>,
}

impl Limit {
    /// By which rule it was found, in sentences.
    pub fn rule(&self) -> String {
        let gain = (FLAT - 1.0) * 100.0;
        let errors = MOST_ERRORS * 100.0;
        let share = 100.0 / FLAT;
        let most = self.most_users;
        let (within, late, longest) = match self.threshold {
            Some(it) => (format!(" that has {it}"), "answers come too late, ", ""),
            None => (
                String::new(),
                "",
                " Answers may take as long as they like: --p95 or --p99 sets a limit.",
            ),
        };
        format!(
            "The limit is the fewest users with {share:.0} % of the highest throughput{within}. Users are doubled, up to \
             {most}, until {late}more than {errors:.0} % of the requests fail, or two doublings bring no more than \
             {gain:.0} % of throughput. Then the steps between are tried.{longest}"
        )
    }
}

/// Doubles the users until the server bends, then looks between the last step before and the first one after it.
/// `measure` tells what so many users meet. The limit is the fewest users with 97 % of the highest throughput there is
/// within the threshold.
///
/// # Errors
/// Those of `measure`.
pub fn find_limit(
    threshold: Option<Threshold>,
    most_users: usize,
    mut measure: impl FnMut(usize) -> Result<Interval, Error>,
) -> Result<Limit, Error> {
    let mut steps: Vec<Interval> = Vec::new();
    let mut bend = Bend::MostUsers;
    let mut users = 1;
    loop {
        let step = measure(users)?;
        steps.push(step);
        if let Some(found) = past(&step, threshold) {
            bend = found;
            break;
        }
        if let [.., before, last, now] = steps.as_slice()
            && now.throughput.max(last.throughput) <= before.throughput * FLAT
        {
            bend = Bend::Flat;
            break;
        }
        if users >= most_users {
            break;
        }
        users = (users * 2).min(most_users);
    }
    let within: Vec<f64> =
        steps.iter().filter(|it| past(it, threshold).is_none()).map(|it| it.throughput).collect();
    if let [.., before, last] = within.as_slice()
        && *last <= before * FLAT
    {
        // It had levelled out before its answers came too late.
        bend = Bend::Flat;
    }
    let highest = within.into_iter().fold(0.0, f64::max);
    let is_beyond = |it: &Interval| match bend {
        Bend::Latency | Bend::Errors => past(it, threshold).is_some(),
        Bend::Flat | Bend::MostUsers => it.throughput * FLAT >= highest,
    };
    let beyond = steps.iter().find(|it| is_beyond(it)).map_or(users, |it| it.users);
    let mut high = beyond;
    let mut low = steps.iter().map(|it| it.users).filter(|it| *it < high).max().unwrap_or(0);
    while high - low > (low / RESOLUTION).max(1) && low > 0 {
        let middle = low + (high - low) / 2;
        let step = measure(middle)?;
        steps.push(step);
        match is_beyond(&step) {
            true => high = middle,
            false => low = middle,
        }
    }
    steps.sort_by_key(|it| it.users);
    Ok(Limit { threshold, most_users, best: best(&steps, threshold).copied(), bend, steps })
}

/// Why a step is past the limit, if it is.
fn past(step: &Interval, threshold: Option<Threshold>) -> Option<Bend> {
    if step.ok() == 0 || step.error_rate() > MOST_ERRORS {
        return Some(Bend::Errors);
    }
    threshold.is_some_and(|it| !it.is_met(step)).then_some(Bend::Latency)
}

/// Of the steps that are not past the limit, the first one by users whose throughput no other exceeds by 3 %.
fn best(steps: &[Interval], threshold: Option<Threshold>) -> Option<&Interval> {
    let within = || steps.iter().filter(|it| past(it, threshold).is_none());
    let highest = within().map(|it| it.throughput).fold(0.0, f64::max);
    within().find(|it| it.throughput * FLAT >= highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of `places` requests at a time that each take `service` milliseconds.
    fn server(places: usize, service: f64) -> impl FnMut(usize) -> Result<Interval, Error> {
        move |users| {
            let throughput = users.min(places) as f64 / service * 1e3;
            let wait = Duration::from_secs_f64(users as f64 / throughput);
            Ok(interval(users, throughput, wait, 0))
        }
    }

    fn interval(users: usize, throughput: f64, wait: Duration, errors: u64) -> Interval {
        let latency = Latency {
            mean: wait,
            p50: wait,
            p90: wait,
            p95: wait,
            p99: wait,
            p99_9: wait,
            max: wait,
        };
        Interval {
            start: Duration::ZERO,
            end: Duration::from_secs(1),
            users,
            requests: throughput as u64,
            errors,
            throughput,
            latency,
            generator: None,
            server: None,
            gpu: None,
        }
    }

    fn p99(milliseconds: u64) -> Option<Threshold> {
        let latency = Duration::from_millis(milliseconds);
        Some(Threshold { percentile: Percentile::P99, latency })
    }

    fn users(limit: &Limit) -> Option<usize> {
        limit.best.map(|it| it.users)
    }

    #[test]
    fn without_a_threshold_it_is_the_fewest_users_with_all_the_throughput() {
        let limit = find_limit(None, 256, server(12, 10.0)).unwrap();
        assert_eq!((users(&limit), limit.bend), (Some(12), Bend::Flat), "{limit:?}");
        assert!(limit.steps.len() <= 10, "{limit:?}");
        let one = find_limit(None, 256, server(1, 10.0)).unwrap();
        assert_eq!((users(&one), one.bend), (Some(1), Bend::Flat));
    }

    #[test]
    fn with_a_threshold_it_is_the_most_throughput_within_it() {
        // Each user more adds a millisecond once all places are taken.
        let far = find_limit(p99(40), 256, server(10, 10.0)).unwrap();
        assert_eq!((users(&far), far.bend), (Some(10), Bend::Flat), "{far:?}");
        // Latency and throughput grow together: a batching server.
        let batching = |users: usize| {
            let wait = Duration::from_secs_f64(0.002 + 0.0005 * users as f64);
            Ok(interval(users, users as f64 / wait.as_secs_f64(), wait, 0))
        };
        let limit = find_limit(p99(20), 256, batching).unwrap();
        assert_eq!(limit.bend, Bend::Latency);
        assert!((32..=36).contains(&users(&limit).unwrap()), "{limit:?}");
    }

    #[test]
    fn a_server_that_fails_or_never_bends_is_said_to() {
        let failing = |users: usize| {
            let errors = if users > 4 { 100 } else { 0 };
            Ok(interval(users, 100.0 * users as f64, Duration::from_millis(1), errors))
        };
        let limit = find_limit(None, 256, failing).unwrap();
        assert_eq!((users(&limit), limit.bend), (Some(4), Bend::Errors), "{limit:?}");
        let limit = find_limit(None, 12, server(64, 10.0)).unwrap();
        assert_eq!((users(&limit), limit.bend), (Some(12), Bend::MostUsers), "{limit:?}");
        let limit = find_limit(p99(5), 12, server(64, 10.0)).unwrap();
        assert_eq!((users(&limit), limit.bend), (None, Bend::Latency), "{limit:?}");
    }
}
