//! The page of a search for a limit: what each number of users met.

use super::{Chart, Name, Page, Series, milliseconds, number, report};
use crate::{Interval, Limit, Target, limit::NO_LIMIT};

/// What a line shows of a step.
type Value = fn(&Interval) -> f64;

impl Limit {
    /// The findings as a page.
    pub fn page(&self, target: &Target) -> Page {
        let mut facts = vec![("Steps".to_owned(), number(self.steps.len() as f64))];
        if let Some(best) = &self.best {
            facts.push(("Limit".to_owned(), format!("{} replies/s", number(best.throughput))));
            facts.push(("Users".to_owned(), number(best.users as f64)));
            facts.push(("p95".to_owned(), milliseconds(best.latency.p95)));
            facts.push(("p99".to_owned(), milliseconds(best.latency.p99)));
        }
        let chart = |title: &str, y_label: &str, lines: &[(&str, Value)]| Chart {
            title: title.to_owned(),
            x_label: "users".to_owned(),
            y_label: y_label.to_owned(),
            x: self.steps.iter().map(|it| it.users as f64).collect(),
            series: lines
                .iter()
                .map(|(name, value)| Series {
                    name: (*name).to_owned(),
                    values: self.steps.iter().map(|it| Some(value(it))).collect(),
                    line: true,
                })
                .collect(),
            points: true,
            names: self.steps.iter().map(|it| self.name(it)).collect(),
            ..Chart::default()
        };
        let mut table = report::intervals("Steps", &self.steps);
        for (row, step) in table.rows.iter_mut().zip(&self.steps) {
            row.mark = self.is_best(step).then_some("the limit");
        }
        Page {
            title: format!("Limit of {target}"),
            verdict: self.verdict(target),
            facts,
            charts: vec![
                chart("Throughput", "2xx replies per second", &[("replies", |it| it.throughput)]),
                chart(
                    "Latency",
                    "milliseconds",
                    &[
                        ("p50", |it| it.latency.p50.as_secs_f64() * 1e3),
                        ("p95", |it| it.latency.p95.as_secs_f64() * 1e3),
                        ("p99", |it| it.latency.p99.as_secs_f64() * 1e3),
                    ],
                ),
            ],
            tables: vec![table],
            notes: vec![
                self.rule(),
                "Each user sends the next request when the answer to the last one has been read."
                    .to_owned(),
            ],
            ..Page::default()
        }
    }

    /// What was found, in a sentence.
    fn verdict(&self, target: &Target) -> String {
        let why = self.bend.in_words();
        match &self.best {
            Some(best) => format!(
                "{target} carries {} replies per second with {}, 99 of 100 within {}; {why}.",
                number(best.throughput),
                report::users(best.users),
                milliseconds(best.latency.p99)
            ),
            None => format!("{target} has no limit within the rule: {NO_LIMIT}."),
        }
    }

    fn is_best(&self, step: &Interval) -> bool {
        self.best.is_some_and(|it| it.users == step.users)
    }

    /// What is said of a step in a chart. Only the limit has a label: the axis says the users of all.
    fn name(&self, step: &Interval) -> Name {
        let best = self.is_best(step);
        let users = report::users(step.users);
        let label = if best { format!("the limit: {users}") } else { String::new() };
        let text = format!("{users}: {} replies/s", number(step.throughput));
        Name { short: label.clone(), label, text, best }
    }
}
