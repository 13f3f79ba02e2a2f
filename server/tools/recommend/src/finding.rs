//! The verdict of a job, in a sentence or two: what to serve with, what that carries, and what it is held against.

use std::time::Duration;

use loadgen::{
    Interval, Percentile,
    page::{milliseconds, number},
};

use crate::{
    alike::Tried,
    job::Kind,
    run::{Done, Status},
    step::{Step, differ},
    windows::per_minute,
    words::users_in_words,
};

impl Done {
    /// What was found, for the top of a page.
    pub(crate) fn verdict(&self) -> String {
        let stopped = match self.status {
            Status::Stopped => "The job ended before all was tried. ",
            Status::Completed | Status::Failed => "",
        };
        let best = self.tried().into_iter().next().filter(|it| {
            self.ranked.first().is_some_and(|best| {
                self.steps.get(*best).is_some_and(|best| best.setting == it.step.setting)
            })
        });
        let Some((best, window)) = best.and_then(|it| {
            let window = *it.step.outcome.as_ref().ok()?.window()?;
            Some((it, window))
        }) else {
            return format!("{stopped}Nothing can be recommended: {}.", self.reason());
        };
        let step = best.step;
        let subject = match (&self.job.endpoint, step.setting.environment.is_empty()) {
            (Some(endpoint), _) => format!("{endpoint} carries"),
            (None, true) => {
                format!(
                    "Leave the settings automatic on {}: they carry",
                    step.setting.instance_type
                )
            }
            (None, false) => format!(
                "Serve with {} on {}: that carries",
                step.setting.described(),
                step.setting.instance_type
            ),
        };
        let within = match (step.row().is_some_and(|it| it.meets), self.job.stop.threshold) {
            (false, Some(threshold)) => {
                format!("Nothing tried has {threshold}; the nearest comes first here. ")
            }
            (false, None) => {
                "Requests failed with everything tried; the nearest comes first here. ".to_owned()
            }
            (true, _) => String::new(),
        };
        let carries = format!(
            "{subject} {} requests per minute with {}, {} of 100 answered within {}",
            number(per_minute(&window) as f64),
            users_in_words(window.users),
            self.percentile_number(),
            milliseconds(self.percentile().of(&window.latency)),
        );
        let (beside, faster) = (self.beside(&best), self.faster(step, &window));
        format!("{stopped}{within}{carries}{beside}.{faster}{}", self.machines(step))
    }

    /// Of which latency findings tell.
    pub(crate) fn percentile(&self) -> Percentile {
        self.job.stop.threshold.map_or(Percentile::P95, |it| it.percentile)
    }

    fn percentile_number(&self) -> u32 {
        match self.percentile() {
            Percentile::P95 => 95,
            Percentile::P99 => 99,
        }
    }

    /// How the best setting compares with the others, for the end of a sentence.
    fn beside(&self, best: &Tried<'_>) -> String {
        let is_other = |it: &&Step| {
            it.setting != best.step.setting
                && !best.others.iter().any(|one| one.setting == it.setting)
        };
        let others: Vec<&Step> = self.best_first().filter(is_other).collect();
        let Some(next) = others.first() else { return String::new() };
        let is_own = best.step.setting.environment.is_empty();
        match self.difference(best.step) {
            Some(it) if self.job.kind == Kind::Default && it.is_shown() => {
                format!(", {:.2} times what the server's own settings carry", it.throughput.median)
            }
            _ if is_own => ", and no other setting is shown to be better".to_owned(),
            _ if best.step.rounds.len() > 1 && !differ(best.step, next) => {
                format!(", and no difference to {} is shown", next.setting.described())
            }
            _ => String::new(),
        }
    }

    /// Why it is not one of those that carry more, where there are such and they answer later.
    fn faster(&self, step: &Step, window: &Interval) -> String {
        let carries_more = |it: &&Step| {
            let same = it.setting.instance_type == step.setting.instance_type;
            let row = it.row().filter(|it| it.meets && it.max_invocations > per_minute(window));
            same && row.is_some() && differ(it, step)
        };
        let latency = |it: &Step| it.outcome.as_ref().map_or(Duration::ZERO, |it| it.latency);
        let more: Vec<&Step> = self.best_first().filter(carries_more).collect();
        let most = more.iter().filter_map(|it| it.row()).map(|it| it.max_invocations).max();
        match most.filter(|_| more.iter().all(|it| latency(it) > latency(step))) {
            Some(most) => format!(" Others carry up to {} and answer later.", number(most as f64)),
            None => String::new(),
        }
    }

    /// The machines that the target takes, as a sentence; nothing without a target.
    fn machines(&self, step: &Step) -> String {
        let target = self.job.stop.max_invocations;
        let Some((target, row)) = target.zip(step.row()) else { return String::new() };
        let Some(count) = row.instances(Some(target)) else { return String::new() };
        let name = &step.setting.instance_type;
        let cost = step.setting.instance.price_per_hour.map_or_else(String::new, |_| {
            let currency = self.currency.as_ref().map_or_else(String::new, |it| format!(" {it}"));
            format!(", {:.3}{currency} an hour", row.cost_per_hour(Some(target)))
        });
        let target = number(target as f64);
        format!(" {} of {name} for {target} requests per minute{cost}.", number(count as f64))
    }
}

/// The point of a chart of throughput against latency.
pub(crate) fn point(step: &Step) -> Option<(f64, f64, Interval)> {
    let measured = step.outcome.as_ref().ok()?;
    let window = *measured.window()?;
    Some((per_minute(&window) as f64, measured.latency.as_secs_f64() * 1e3, window))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        setting::{INSTANCES, ROWS, THREADS},
        step::tests::of_rounds,
        verdict::tests::{FAST, NOISY, SLOW, done},
    };

    const TOLD: [(&str, &str); 2] = [(INSTANCES, "1"), (THREADS, "2")];

    #[test]
    fn the_verdict_names_the_setting_in_words_and_what_it_is_held_against() {
        let steps = vec![of_rounds(&TOLD, &FAST), of_rounds(&[], &SLOW)];
        let expected = "Serve with instances 1 · threads 2 · rows automatic on local.cpu2: that carries 5,940 requests \
                        per minute with 4 users, 95 of 100 answered within 5 ms, 1.10 times what the server's own \
                        settings carry.";
        assert_eq!(done("Default", steps, None).verdict(), expected);
        let steps = vec![of_rounds(&[], &FAST), of_rounds(&TOLD, &SLOW)];
        let own = done("Default", steps, None).verdict();
        assert!(own.starts_with("Leave the settings automatic on local.cpu2: they carry"), "{own}");
        assert!(own.ends_with(", and no other setting is shown to be better."), "{own}");
        let steps = vec![of_rounds(&[(ROWS, "8")], &NOISY), of_rounds(&[(ROWS, "1")], &SLOW)];
        let level = done("Advanced", steps, None).verdict();
        let end =
            ", and no difference to instances automatic · threads automatic · rows 1 is shown.";
        assert!(level.ends_with(end), "{level}");
    }

    #[test]
    fn machines_for_a_target_are_counted_and_what_is_not_within_the_limit_says_so() {
        let mut found = done("Default", vec![of_rounds(&TOLD, &[100.0])], None);
        found.job.stop.max_invocations = Some(30_000);
        found.currency = Some("USD".to_owned());
        found.steps[0].setting.instance.price_per_hour = Some(0.06);
        let verdict = found.verdict();
        let end = " 5 of local.cpu2 for 30,000 requests per minute, 0.300 USD an hour.";
        assert!(verdict.ends_with(end), "{verdict}");
        if let Ok(measured) = &mut found.steps[0].outcome {
            measured.chosen.meets = false;
        }
        assert!(found.verdict().starts_with("Requests failed with everything tried"), "{found:?}");
    }

    #[test]
    fn where_nothing_was_measured_the_reason_is_the_verdict() {
        let mut found = done("Default", Vec::new(), None);
        found.status = Status::Failed;
        assert_eq!(found.verdict(), "Nothing can be recommended: nothing was to be tried.");
    }
}
