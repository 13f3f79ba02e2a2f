//! Settings in turns: each is measured once in every round, there and back, so that a machine that becomes slower all
//! the time does so for none more than for others.

use crate::{
    bench::Bench,
    setting::Setting,
    shares::Share,
    step::{Length, Step, middle},
};

/// Settings that are measured at the same time, each on its processors.
pub(crate) type Turn = Vec<(Setting, Share)>;

impl Bench<'_> {
    /// Measures these settings in so many rounds: what came of each, in the order of the turns. All that were measured
    /// have as many steps, fewer where the job's time was over; a turn all of whose settings have failed is over.
    pub(crate) fn in_rounds(&mut self, turns: &[Turn], rounds: u32) -> Vec<Vec<Step>> {
        let mut measured: Vec<Vec<Vec<Step>>> =
            turns.iter().map(|it| it.iter().map(|_| Vec::new()).collect()).collect();
        for round in 0..rounds {
            let mut order: Vec<_> = turns.iter().zip(&mut measured).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (turn, measured) in order {
                // A server that is never ready takes its ten minutes each time.
                if measured.iter().all(|it| has_failed(it)) {
                    self.ahead.over(Length::Round, None);
                    continue;
                }
                for step in self.steps(turn.clone(), Length::Round) {
                    let place = turn.iter().position(|it| it.0 == step.setting);
                    if let Some(steps) = place.and_then(|it| measured.get_mut(it)) {
                        steps.push(step);
                    }
                }
            }
        }
        self.steps.retain(|it| it.length != Length::Round);
        let mut measured: Vec<Vec<Step>> = measured.into_iter().flatten().collect();
        align(&mut measured);
        measured
    }

    /// Keeps what the rounds of a setting say together.
    pub(crate) fn conclude(&mut self, rounds: Vec<Step>) {
        if let Some(step) = middle(rounds) {
            let step = Step { length: Length::Full, ..step };
            self.means.watch.show(&step);
            self.steps.push(step);
        }
    }
}

/// Has one of these rounds failed?
fn has_failed(rounds: &[Step]) -> bool {
    rounds.iter().any(|it| it.outcome.is_err())
}

/// Leaves as many rounds of each setting as all have that were measured and did not fail: what stands in the same
/// place followed one another. A job that ends within a round has one more of some.
fn align(measured: &mut [Vec<Step>]) {
    let compared = |it: &&Vec<Step>| !it.is_empty() && !has_failed(it);
    let Some(common) = measured.iter().filter(compared).map(Vec::len).min() else { return };
    for rounds in measured.iter_mut().filter(|it| !has_failed(it)) {
        rounds.truncate(common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Job, journal::Journal, means::Means, prices::Prices, ranking::Objective,
        rejection::Rejection, shares::Places, step::tests::of_rounds, watch::Watch,
    };
    use serde_json::json;

    #[test]
    fn a_turn_whose_settings_have_failed_is_not_begun_again() {
        let job = Job::parse(&json!({"JobName": "j", "JobType": "Default", "RoleArn": "r",
            "InputConfig": {"ModelName": "m", "EndpointConfigurations": [{"InstanceType": "local.cpu1"}]}}));
        let means = Means {
            program: "no/such/program".into(),
            prices: Prices::default(),
            places: Places::default(),
            bodies: Vec::new(),
            time_scale: 1.0,
            stop: Default::default(),
            objective: Objective::Cost,
            environment: Vec::new(),
            trust: Default::default(),
            has_lists: false,
            watch: Watch::default(),
        };
        let turn = |name: &str| {
            let setting = of_rounds(&[("A", name)], &[100.0]).setting;
            vec![(setting, Share { server: Vec::new(), generator: Vec::new() })]
        };
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let job = job.unwrap();
        let mut bench = Bench::new(&job, &means, Journal::default(), &mut say);
        let measured = bench.in_rounds(&[turn("1"), turn("2")], 3);
        assert_eq!(measured.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert!(measured.iter().all(|it| has_failed(it)));
        assert_eq!(said.iter().filter(|it| it.starts_with("FAILED")).count(), 2, "{said:?}");
    }

    #[test]
    fn a_round_that_only_some_settings_had_is_left_out() {
        let steps = |count: usize| vec![of_rounds(&[], &[100.0]); count];
        let mut failed = steps(5);
        failed[4].outcome = Err(Rejection::new("another answer"));
        // The last one's turn never came.
        let mut measured = [steps(4), steps(3), failed, steps(0)];
        align(&mut measured);
        assert_eq!(measured.each_ref().map(Vec::len), [3, 3, 5, 0]);
        assert_eq!(measured.map(|it| has_failed(&it)), [false, false, true, false]);
        align(&mut []);
    }
}
