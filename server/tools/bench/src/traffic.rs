//! How many users there are at which time of a run. Pure.
//!
//! A user is a closed loop over a connection of its own: it sends its next request when it has read the reply. The
//! terms are those of SageMaker's Inference Recommender (`TrafficPattern` of `CreateInferenceRecommendationsJob`).

use std::time::Duration;

use serde::Serialize;

use crate::{Error, numbers::seconds};

/// Most users of a pattern: each is a connection, and a client's address has fewer than 64,512 ports for one server.
const MOST_USERS: f64 = 50_000.0;
/// Longest pattern.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A stretch of time in which users are added at an even pace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Phase {
    /// Users at its beginning, however many there were before.
    pub initial_users: usize,
    /// Users added per minute, one at a time.
    pub spawn_rate: f64,
    /// How long it lasts.
    #[serde(rename = "duration_s", serialize_with = "seconds")]
    pub duration: Duration,
}

/// Steps of equal length, each with as many users more as the first one has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stairs {
    /// Users that each step adds.
    pub users_per_step: usize,
    /// Number of steps.
    pub steps: usize,
    /// Length of each.
    #[serde(rename = "duration_s", serialize_with = "seconds")]
    pub duration: Duration,
}

/// The number of users over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// One after the other; at least one.
    Phases(Vec<Phase>),
    /// A climb.
    Stairs(Stairs),
}

/// From `at` on there are `users`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// Since the beginning of the pattern.
    pub(crate) at: Duration,
    pub(crate) users: usize,
}

impl Phase {
    /// Users at the time `since` its beginning.
    fn users(&self, since: Duration) -> f64 {
        // A rate that was divided and multiplied again must still reach the whole number that it is made for.
        self.initial_users as f64 + (self.spawn_rate * since.as_secs_f64() / 60.0 + 1e-9).floor()
    }

    /// When each of its users comes, the first ones together.
    fn changes(&self) -> impl Iterator<Item = Change> {
        let Phase { initial_users, spawn_rate, duration } = *self;
        let coming = move |nth: usize| Change {
            at: match nth {
                0 => Duration::ZERO,
                _ => Duration::try_from_secs_f64(60.0 * nth as f64 / spawn_rate)
                    .unwrap_or(Duration::MAX),
            },
            users: initial_users + nth,
        };
        let most = if spawn_rate > 0.0 { usize::MAX } else { 1 };
        (0..most).map(coming).take_while(move |it| it.at < duration)
    }
}

impl Traffic {
    /// `users` that come one after the other within `ramp` and stay until `duration` after it.
    pub fn ramp(users: usize, ramp: Duration, duration: Duration) -> Traffic {
        let stay = Phase { initial_users: users, spawn_rate: 0.0, duration };
        if ramp.is_zero() || users <= 1 {
            return Traffic::Phases(vec![Phase { duration: ramp + duration, ..stay }]);
        }
        let spawn_rate = 60.0 * (users - 1) as f64 / ramp.as_secs_f64();
        Traffic::Phases(vec![Phase { initial_users: 1, spawn_rate, duration: ramp }, stay])
    }

    /// From its first request to its last.
    pub fn duration(&self) -> Duration {
        match self {
            Traffic::Phases(phases) => {
                phases.iter().fold(Duration::ZERO, |sum, it| sum.saturating_add(it.duration))
            }
            Traffic::Stairs(it) => {
                it.duration.saturating_mul(u32::try_from(it.steps).unwrap_or(u32::MAX))
            }
        }
    }

    /// The same users in a time that is shorter by `factor`.
    pub fn faster(&self, factor: f64) -> Traffic {
        match self {
            Traffic::Phases(phases) => {
                let faster = |it: &Phase| Phase {
                    initial_users: it.initial_users,
                    spawn_rate: it.spawn_rate * factor,
                    duration: it.duration.div_f64(factor),
                };
                Traffic::Phases(phases.iter().map(faster).collect())
            }
            Traffic::Stairs(it) => {
                Traffic::Stairs(Stairs { duration: it.duration.div_f64(factor), ..*it })
            }
        }
    }

    /// Most users at a time.
    pub fn most_users(&self) -> usize {
        self.changes().iter().map(|it| it.users).max().unwrap_or(0)
    }

    /// Each change of the number of users, in the order of time. The first is at zero.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        let mut add = |change: Change| match changes.last() {
            Some(last) if last.users == change.users => {}
            _ => changes.push(change),
        };
        match self {
            Traffic::Phases(phases) => {
                let mut start = Duration::ZERO;
                for phase in phases {
                    let later = |it: Change| Change { at: start + it.at, ..it };
                    phase.changes().map(later).for_each(&mut add);
                    start += phase.duration;
                }
            }
            Traffic::Stairs(it) => (0..it.steps)
                .map(|step| Change {
                    at: it.duration * step as u32,
                    users: it.users_per_step * (step + 1),
                })
                .for_each(add),
        }
        changes
    }

    /// Can it be run?
    ///
    /// # Errors
    /// Names the setting, what was expected and what was given.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |setting, problem: String| Err(Error::plan(setting, problem));
        let most = match self {
            Traffic::Phases(phases) if phases.is_empty() => {
                return wrong("phases", "expected at least one".to_owned());
            }
            Traffic::Phases(phases) => {
                for Phase { spawn_rate, initial_users, .. } in phases {
                    if *initial_users == 0 {
                        return wrong(
                            "phases",
                            "expected 1 user or more at the start, given 0".to_owned(),
                        );
                    }
                    if !(spawn_rate.is_finite() && *spawn_rate >= 0.0) {
                        let problem =
                            format!("expected 0 or more users per minute, given {spawn_rate}");
                        return wrong("phases", problem);
                    }
                }
                phases.iter().map(|it| it.users(it.duration)).fold(0.0, f64::max)
            }
            Traffic::Stairs(it) if it.users_per_step == 0 || it.steps == 0 => {
                return wrong("stairs", "expected 1 user and 1 step or more, given 0".to_owned());
            }
            Traffic::Stairs(it) => it.users_per_step as f64 * it.steps as f64,
        };
        if most > MOST_USERS {
            return wrong(
                "users",
                format!("expected at most {MOST_USERS} at a time, given {most}"),
            );
        }
        let durations: Vec<Duration> = match self {
            Traffic::Phases(phases) => phases.iter().map(|it| it.duration).collect(),
            Traffic::Stairs(it) => vec![it.duration],
        };
        if durations.iter().any(Duration::is_zero) || self.duration() > LONGEST {
            let problem =
                format!("expected more than nothing and at most a week, given {durations:?}");
            return wrong("duration", problem);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(initial_users: usize, spawn_rate: f64, seconds: u64) -> Phase {
        Phase { initial_users, spawn_rate, duration: Duration::from_secs(seconds) }
    }

    fn changes(traffic: &Traffic) -> Vec<(f64, usize)> {
        traffic.changes().iter().map(|it| (it.at.as_secs_f64(), it.users)).collect()
    }

    #[test]
    fn users_come_one_at_a_time_and_the_next_phase_sets_its_own() {
        // The phases of Amazon's article on fraud detection: 2 users and 2 a minute, then 6 and 6.
        let traffic = Traffic::Phases(vec![phase(2, 2.0, 120), phase(6, 6.0, 30)]);
        let expected =
            [(0.0, 2), (30.0, 3), (60.0, 4), (90.0, 5), (120.0, 6), (130.0, 7), (140.0, 8)];
        assert_eq!(changes(&traffic), expected);
        assert_eq!((traffic.duration(), traffic.most_users()), (Duration::from_secs(150), 8));
        // One user, one more a minute, ten minutes: ten in the last one.
        assert_eq!(Traffic::Phases(vec![phase(1, 1.0, 600)]).most_users(), 10);
        assert_eq!(phase(2, 2.0, 120).users(Duration::from_secs(120)), 6.0);
    }

    #[test]
    fn a_time_scale_keeps_the_users() {
        let traffic = Traffic::Phases(vec![phase(2, 2.0, 120)]);
        let faster = traffic.faster(4.0);
        assert_eq!(faster, Traffic::Phases(vec![phase(2, 8.0, 30)]));
        assert_eq!(changes(&faster), [(0.0, 2), (7.5, 3), (15.0, 4), (22.5, 5)]);
    }

    #[test]
    fn stairs_and_ramps() {
        let duration = Duration::from_secs(10);
        let stairs = Traffic::Stairs(Stairs { users_per_step: 2, steps: 3, duration });
        assert_eq!(changes(&stairs), [(0.0, 2), (10.0, 4), (20.0, 6)]);
        assert_eq!(stairs.duration(), Duration::from_secs(30));
        let ramp = Traffic::ramp(4, Duration::from_secs(6), duration);
        assert_eq!(changes(&ramp), [(0.0, 1), (2.0, 2), (4.0, 3), (6.0, 4)]);
        assert_eq!(ramp.duration(), Duration::from_secs(16));
        assert_eq!(changes(&Traffic::ramp(4, Duration::ZERO, duration)), [(0.0, 4)]);
    }

    #[test]
    fn patterns_that_cannot_be_run_are_refused_before_anything_is_held() {
        for (traffic, expected) in [
            (Traffic::Phases(vec![]), "at least one"),
            (Traffic::Phases(vec![phase(0, 1.0, 1)]), "1 user or more"),
            (Traffic::Phases(vec![phase(1, -1.0, 1)]), "users per minute"),
            (Traffic::Phases(vec![phase(1, 1e12, 1)]), "at most 50000"),
            (Traffic::Phases(vec![phase(1, 1.0, 0)]), "more than nothing"),
            (Traffic::Phases(vec![phase(1, 0.0, u64::MAX)]), "at most a week"),
            (
                Traffic::Stairs(Stairs { users_per_step: 1, steps: 0, duration: LONGEST }),
                "1 user and 1 step",
            ),
        ] {
            let error = traffic.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{traffic:?}: {error}");
        }
    }
}
