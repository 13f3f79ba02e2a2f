//! What can be said of how the settings of a job differ: beside the server's own, the best, and the noise.

use crate::{
    difference::Difference,
    job::Kind,
    run::Done,
    step::{Step, differ},
};

impl Done {
    /// The settings that can be recommended, the best one first.
    pub(crate) fn best_first(&self) -> impl Iterator<Item = &Step> {
        self.ranked.iter().filter_map(|it| self.steps.get(*it))
    }

    /// What settings are held against: the server's own of a default job, else the best.
    pub(crate) fn base_name(&self) -> &'static str {
        match self.job.kind {
            Kind::Default => "automatic",
            Kind::Advanced => "the best",
        }
    }

    /// Was each setting measured in several rounds?
    pub(crate) fn has_rounds(&self) -> bool {
        self.best_first().any(|it| it.rounds.len() > 1)
    }

    /// A setting beside what it is held against; `None` for that itself, and where they were not measured in turns.
    pub(crate) fn difference(&self, step: &Step) -> Option<Difference> {
        let is_own = |it: &&Step| {
            it.setting.environment.is_empty()
                && it.setting.instance_type == step.setting.instance_type
        };
        let base = match self.job.kind {
            Kind::Default => self.steps.iter().filter(|it| it.is_full()).find(is_own),
            Kind::Advanced => self.best_first().next(),
        };
        let base = base.filter(|it| it.rounds.len() > 1 && it.setting != step.setting)?;
        Difference::of(&step.rounds, &base.rounds)
    }

    /// What the settings that can be recommended carry beside what they are held against, a sentence each; and beside
    /// which of them the best one is no winner.
    pub fn differences(&self) -> Vec<String> {
        let base = match self.job.kind {
            Kind::Default => "the server's own settings",
            Kind::Advanced => "the best setting",
        };
        let of_setting = |step: &Step| {
            let difference = self.difference(step)?;
            Some(format!("{}: {difference} times the requests of {base}", step.name()))
        };
        let of_twin = |noise: &Difference| {
            format!("the noise: a setting carries {noise} times the requests of itself")
        };
        let noise = self.noise.iter().map(of_twin);
        noise.chain(self.best_first().filter_map(of_setting)).chain(self.level()).collect()
    }

    /// The settings to which the best one shows no difference that is more than the noise; `None` where it is the
    /// winner, or there are no rounds.
    fn level(&self) -> Option<String> {
        let mut steps = self.best_first().filter(|it| it.rounds.len() > 1);
        let best = steps.next()?;
        let is_noise = |it: &Step| {
            let measured = self.noise.zip(self.difference(it));
            measured.is_some_and(|(noise, difference)| difference.is_within(&noise))
        };
        let is_level = |it: &&Step| !differ(best, it) || is_noise(it);
        let others: Vec<String> = steps.filter(is_level).map(Step::name).collect();
        (!others.is_empty()).then(|| {
            format!("no difference within the noise: {}, {}", best.name(), others.join(", "))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;
    use crate::{job::Job, run::Status, step::tests::of_rounds};

    /// A job that is over, with these settings, the best one first.
    pub(crate) fn done(kind: &str, steps: Vec<Step>, noise: Option<Difference>) -> Done {
        let job = json!({"JobName": "j", "JobType": kind, "InputConfig": {"ModelName": "m"}});
        let steps: Vec<Step> =
            steps.into_iter().map(|it| Step { length: crate::step::Length::Full, ..it }).collect();
        Done {
            job: Job::parse(&job).unwrap(),
            status: Status::Completed,
            ranked: (0..steps.len()).collect(),
            steps,
            noise,
            left_out: Vec::new(),
            payload: String::new(),
            time_scale: 1.0,
            currency: None,
            created: UNIX_EPOCH,
            ended: UNIX_EPOCH,
        }
    }

    pub(crate) const FAST: [f64; 6] = [110.0, 104.5, 99.0, 93.5, 88.0, 82.5];
    pub(crate) const SLOW: [f64; 6] = [100.0, 95.0, 90.0, 85.0, 80.0, 75.0];
    pub(crate) const NOISY: [f64; 6] = [101.0, 94.0, 92.0, 84.0, 82.0, 74.0];

    #[test]
    fn settings_of_an_advanced_job_are_held_against_the_best_and_it_against_the_noise() {
        let steps = vec![of_rounds(&[("A", "1")], &FAST), of_rounds(&[("A", "2")], &SLOW)];
        let twin = of_rounds(&[("A", "1")], &NOISY);
        let noise = Difference::of(&twin.rounds, &steps[1].rounds);
        let said = done("Advanced", steps, noise).differences();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("the noise: a setting carries 1.00 ("), "{said:?}");
        let expected = "local.cpu2 A=2: 0.91 (0.91 to 0.91 in 6 rounds) times the requests of the best setting";
        assert_eq!(said[1], expected);
    }

    #[test]
    fn where_the_interval_holds_one_there_is_no_winner() {
        let steps = vec![of_rounds(&[("A", "1")], &NOISY), of_rounds(&[("A", "2")], &SLOW)];
        let said = done("Advanced", steps, None).differences();
        assert!(said[0].contains("no difference shown"), "{said:?}");
        let level = "no difference within the noise: local.cpu2 A=1, local.cpu2 A=2";
        assert_eq!(said.last().unwrap(), level);
        // Of one round nothing is said.
        let steps = vec![of_rounds(&[("A", "1")], &[1.0]), of_rounds(&[("A", "2")], &[1.0])];
        assert!(done("Advanced", steps, None).differences().is_empty());
    }

    #[test]
    fn a_difference_that_is_no_more_than_the_noise_makes_no_winner() {
        let said = |twin: &[f64; 6]| {
            let steps = vec![of_rounds(&[("A", "1")], &FAST), of_rounds(&[("A", "2")], &SLOW)];
            let noise = Difference::of(&of_rounds(&[("A", "2")], twin).rounds, &steps[1].rounds);
            done("Advanced", steps, noise).differences().pop().unwrap()
        };
        // A setting carries up to 1.2 times as much as itself, and the best one 1.1 times as much as the other.
        let level = said(&[120.0, 95.0, 108.0, 85.0, 96.0, 75.0]);
        assert_eq!(level, "no difference within the noise: local.cpu2 A=1, local.cpu2 A=2");
        assert!(said(&NOISY).contains("times the requests of the best setting"));
    }

    #[test]
    fn settings_of_a_default_job_are_held_against_the_servers_own() {
        let steps = vec![of_rounds(&[("A", "1")], &FAST), of_rounds(&[], &SLOW)];
        let said = done("Default", steps, None).differences();
        let expected = "local.cpu2 A=1: 1.10 (1.10 to 1.10 in 6 rounds) times the requests of";
        assert_eq!(said, [format!("{expected} the server's own settings")]);
    }
}
