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
    /// Measures these settings in so many rounds: what came of each, in the order of the turns. Those that were not
    /// measured in all rounds, as the job's time was over, have fewer steps.
    pub(crate) fn in_rounds(&mut self, turns: &[Turn], rounds: u32) -> Vec<Vec<Step>> {
        let mut measured: Vec<Vec<Vec<Step>>> =
            turns.iter().map(|it| it.iter().map(|_| Vec::new()).collect()).collect();
        for round in 0..rounds {
            let mut order: Vec<_> = turns.iter().zip(&mut measured).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (turn, measured) in order {
                for step in self.steps(turn.clone(), Length::Round) {
                    let place = turn.iter().position(|it| it.0 == step.setting);
                    if let Some(steps) = place.and_then(|it| measured.get_mut(it)) {
                        steps.push(step);
                    }
                }
            }
        }
        self.steps.retain(|it| it.length != Length::Round);
        measured.into_iter().flatten().collect()
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
