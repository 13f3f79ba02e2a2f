//! One setting, tried: what came of it, in one turn or in several.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    difference::Difference, ranking::Row, rejection::Rejection, served::Served, setting::Setting,
    trial::Measured, windows::per_minute,
};

/// One setting, tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// What was tried.
    pub setting: Setting,
    /// What came of it, or why it cannot be recommended.
    pub outcome: Result<Measured, Rejection>,
    /// From the start of its server until that was ready.
    pub setup: Option<Duration>,
    /// What its server has made of it: the engine, and what runs at a time.
    #[serde(default)]
    pub served: Option<Served>,
    /// Starts such a server.
    pub command: String,
    /// Has the load generator used the processors of the server?
    #[serde(default)]
    pub shares_processors: bool,
    /// For how long it was measured.
    pub length: Length,
    /// What each of several rounds said.
    pub rounds: Vec<Row>,
}

/// How long a setting is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Length {
    /// A moment.
    Probe,
    /// One of several turns that make its full time together.
    Round,
    /// The whole pattern.
    Full,
}

impl Length {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Length::Probe => "for a moment",
            Length::Round => "for a round",
            Length::Full => "fully",
        }
    }
}

impl Step {
    /// One for which no server is started: what it is asked for runs already, or cannot run here.
    pub(crate) fn without_server(setting: Setting, outcome: Result<Measured, Rejection>) -> Step {
        Step {
            setting,
            outcome,
            setup: None,
            served: None,
            command: String::new(),
            shares_processors: false,
            length: Length::Full,
            rounds: Vec::new(),
        }
    }

    /// The machine and the variables, in words.
    pub fn name(&self) -> String {
        format!("{} {}", self.setting.instance_type, self.setting.variables())
    }

    /// Was it measured for its full time?
    pub fn is_full(&self) -> bool {
        self.length == Length::Full
    }

    /// The fewest and the most requests per minute of its rounds, where there were several.
    pub fn spread(&self) -> Option<(u64, u64)> {
        range(&self.rounds, |it| it.max_invocations)
    }

    /// Seconds of processor time that the server takes for a million requests, where they are known.
    pub fn cpu_per_million(&self) -> Option<f64> {
        let window = self.outcome.as_ref().ok()?.window()?;
        let cores = window.server?.cores;
        (window.throughput > 0.0).then(|| cores / window.throughput * 1e6)
    }

    /// What the load generator used, 100 for a core, and whether more load would have taken another one.
    pub fn client(&self) -> Option<String> {
        let measured = self.outcome.as_ref().ok()?;
        let bound = if measured.client_bound { ", bound" } else { "" };
        Some(format!("{:.0}{bound}", measured.client_cores * 100.0))
    }

    /// What its machine costs for a million requests, where it has a price.
    pub fn cost_per_million(&self) -> Option<f64> {
        self.setting.instance.price_per_hour?;
        self.row().map(|it| it.cost_per_inference() * 1e6).filter(|it| it.is_finite())
    }

    /// What it says for a ranking; `None` of a failed step.
    pub fn row(&self) -> Option<Row> {
        let measured = self.outcome.as_ref().ok()?;
        let window = measured.window()?;
        Some(Row {
            meets: measured.chosen.meets,
            max_invocations: per_minute(window),
            // Never 0, as in the service.
            model_latency: (measured.latency.as_secs_f64() * 1e3).round().max(1.0) as u64,
            price: self
                .setting
                .instance
                .price_per_hour
                .unwrap_or(self.setting.instance.cpus as f64),
            cpu: window.server.map_or(0.0, |it| it.cores * 100.0),
        })
    }
}

/// The round of the middle throughput, with what all of them said in their order; a failed one if there is one.
pub(crate) fn middle(mut steps: Vec<Step>) -> Option<Step> {
    if let Some(failed) = steps.iter().position(|it| it.outcome.is_err()) {
        return Some(steps.swap_remove(failed));
    }
    let rounds: Vec<Row> = steps.iter().filter_map(Step::row).collect();
    steps.sort_by_key(|it| it.row().map_or(0, |it| it.max_invocations));
    let middle = steps.len() / 2;
    (middle < steps.len()).then(|| Step { rounds, ..steps.swap_remove(middle) })
}

/// The lowest and the highest of a figure.
fn range<T: Ord + Copy>(rows: &[Row], of: impl Fn(&Row) -> T) -> Option<(T, T)> {
    rows.iter().map(&of).min().zip(rows.iter().map(&of).max())
}

/// Is a difference between two settings shown? Of few rounds it is where those of one do not overlap with those of the
/// other in throughput or in latency.
pub(crate) fn differ(one: &Step, other: &Step) -> bool {
    let overlap = |of: fn(&Row) -> u64| {
        let ranges = range(&one.rounds, of).zip(range(&other.rounds, of));
        ranges.is_some_and(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
    };
    match Difference::of(&one.rounds, &other.rounds).filter(Difference::is_decided) {
        Some(difference) => difference.is_shown(),
        None => !overlap(|it| it.max_invocations) || !overlap(|it| it.model_latency),
    }
}

/// Puts the server's own setting first where no difference to the best one is shown, and they take as many machines.
pub(crate) fn prefer_automatic(steps: &[Step], ranked: &mut [usize], target: Option<u64>) {
    let step = |it: &usize| steps.get(*it);
    let Some(best) = ranked.first().and_then(step) else { return };
    let rest = |it: &Step| it.row().map(|it| (it.meets, it.instances(target)));
    let is_same = |it: &Step| {
        it.setting.environment.is_empty()
            && it.setting.instance_type == best.setting.instance_type
            && !differ(best, it)
            && rest(it) == rest(best)
    };
    if let Some(place) = ranked.iter().position(|it| step(it).is_some_and(is_same))
        && let Some(upto) = ranked.get_mut(..=place)
    {
        upto.rotate_right(1);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        prices::Instance,
        windows::{Chosen, tests::window},
    };
    use std::time::SystemTime;

    fn step(environment: &[(&str, &str)], per_second: f64) -> Step {
        let window = window(4, per_second, 5, 0);
        let environment = environment.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        Step {
            setting: Setting {
                instance_type: "local.cpu2".to_owned(),
                instance: Instance { cpus: 2, gpu: false, price_per_hour: None },
                environment: environment.collect(),
            },
            outcome: Ok(Measured {
                started: SystemTime::UNIX_EPOCH,
                ended: SystemTime::UNIX_EPOCH,
                samples: Vec::new(),
                windows: vec![window],
                chosen: Chosen { index: 0, meets: true },
                latency: Duration::from_millis(5),
                stop: None,
                client_bound: false,
                client_cores: 0.25,
                answers_vary: false,
                answers: Vec::new(),
            }),
            setup: None,
            served: None,
            command: String::new(),
            shares_processors: false,
            length: Length::Round,
            rounds: Vec::new(),
        }
    }

    /// The same step with that answer to its body.
    pub(crate) fn answered(mut step: Step, answer: &[u8]) -> Step {
        if let Ok(measured) = &mut step.outcome {
            measured.answers = vec![answer.to_vec()];
        }
        step
    }

    /// A setting that carried so much in its rounds.
    pub(crate) fn of_rounds(environment: &[(&str, &str)], rates: &[f64]) -> Step {
        middle(rates.iter().map(|it| step(environment, *it)).collect()).unwrap()
    }

    #[test]
    fn with_enough_rounds_the_interval_of_their_ratio_decides() {
        // Their ranges overlap, as the machine becomes slower, and one is always faster.
        let automatic = of_rounds(&[], &[100.0, 95.0, 90.0, 85.0, 80.0, 75.0]);
        let faster = of_rounds(&[("A", "1")], &[110.0, 104.5, 99.0, 93.5, 88.0, 82.5]);
        let noisy = of_rounds(&[("A", "2")], &[101.0, 94.0, 92.0, 84.0, 82.0, 74.0]);
        for (other, first) in [(&faster, 0), (&noisy, 1)] {
            let mut ranked = vec![0, 1];
            prefer_automatic(&[other.clone(), automatic.clone()], &mut ranked, None);
            assert_eq!(ranked[0], first, "{:?}", other.setting.environment);
        }
    }

    #[test]
    fn a_setting_wins_over_the_automatic_one_only_where_their_rounds_do_not_overlap() {
        let rounds = |environment: &[(&str, &str)], rates: [f64; 3]| {
            middle(rates.map(|it| step(environment, it)).into()).unwrap()
        };
        let automatic = rounds(&[], [100.0, 120.0, 90.0]);
        assert_eq!(automatic.spread(), Some((5400, 7200)));
        assert_eq!(automatic.row().unwrap().max_invocations, 6000);
        let noisy = rounds(&[("A", "1")], [110.0, 130.0, 150.0]);
        let better = rounds(&[("A", "2")], [130.0, 131.0, 150.0]);
        let mut quicker = rounds(&[("A", "3")], [110.0, 120.0, 100.0]);
        quicker.rounds.iter_mut().for_each(|it| it.model_latency = 2);
        // The one that overlaps takes fewer machines for 6,300 requests per minute.
        for (other, target, first) in
            [(&noisy, None, 1), (&better, None, 0), (&quicker, None, 0), (&noisy, Some(6300), 0)]
        {
            let mut ranked = vec![0, 1];
            prefer_automatic(&[other.clone(), automatic.clone()], &mut ranked, target);
            assert_eq!(ranked[0], first, "{:?}", other.setting.environment);
        }
    }

    #[test]
    fn a_round_that_failed_is_what_came_of_the_setting() {
        let mut failed = step(&[], 100.0);
        failed.outcome = Err(Rejection::new("another answer"));
        let step = middle(vec![step(&[], 100.0), failed, step(&[], 90.0)]).unwrap();
        assert_eq!(step.outcome.unwrap_err().reason(), "another answer");
    }
}
