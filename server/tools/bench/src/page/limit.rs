//! The page of a search for a limit: what each number of users met.

use super::{Chart, Page, Series, report};
use crate::{Interval, Limit, Target};

/// What a line shows of a step.
type Value = fn(&Interval) -> f64;

impl Limit {
    /// The findings as a page.
    pub fn page(&self, target: &Target) -> Page {
        let mut facts = vec![("Steps".to_owned(), format!("{}", self.steps.len()))];
        if let Some(best) = &self.best {
            facts.push(("Limit".to_owned(), format!("{:.1} replies/s", best.throughput)));
            facts.push(("Users".to_owned(), format!("{}", best.users)));
            facts.push(("p95".to_owned(), report::milliseconds(best.latency.p95)));
            facts.push(("p99".to_owned(), report::milliseconds(best.latency.p99)));
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
            ..Chart::default()
        };
        let mut table = report::intervals("Steps", &self.steps);
        for (row, step) in table.rows.iter_mut().zip(&self.steps) {
            row.best = self.best.is_some_and(|it| it.users == step.users);
        }
        Page {
            title: format!("Limit of {target}"),
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
                self.to_string().trim_end().to_owned(),
                "Each user sends the next request when the answer to the last one has been read. Users are doubled \
                 until the server bends; then the steps between are tried."
                    .to_owned(),
            ],
            ..Page::default()
        }
    }
}
