//! The page of a run: its course over time, its windows, its answers.

use std::time::Duration;

use serde_json::json;

use super::{Page, Row, Table, course::over_time, milliseconds, number};
use crate::{Interval, Report, failures::NoReply};

impl Report {
    /// The findings of the run as a page.
    pub fn page(&self) -> Page {
        let load = match (&self.traffic, self.rate) {
            (Some(_), _) => format!("up to {} users", self.connections),
            (None, Some(rate)) => {
                format!("{} requests/s due, {} connections", number(rate), self.connections)
            }
            (None, None) => users(self.connections),
        };
        let mut facts = vec![
            ("Load".to_owned(), load),
            ("Throughput".to_owned(), format!("{} replies/s", number(self.throughput))),
            ("p50".to_owned(), milliseconds(self.latency.p50)),
            ("p95".to_owned(), milliseconds(self.latency.p95)),
            ("p99".to_owned(), milliseconds(self.latency.p99)),
            ("Without a 2xx reply".to_owned(), number((self.requests - self.ok) as f64)),
        ];
        if let Some(server) = &self.server {
            let per_request = server.cpu.per_request.as_secs_f64() * 1e6;
            facts.push(("Server".to_owned(), format!("{:.2} cores", server.cpu.cores)));
            facts.push((
                "Server, per request".to_owned(),
                format!("{} µs of processor time", number(per_request)),
            ));
        }
        let mut answers: Vec<Row> = self
            .statuses
            .iter()
            .map(|(status, count)| {
                let text = self.refusals.get(status).map(String::as_str).unwrap_or_default();
                row([json!(status.to_string()), json!(count), json!(text)])
            })
            .collect();
        for failure in NoReply::ALL {
            let name = match failure {
                NoReply::Connect => "not connected",
                NoReply::Reset => "connection closed before the reply",
                NoReply::Timeout => "no reply in time",
                NoReply::Malformed => "not HTTP",
            };
            let count = self.failures.of(failure);
            if count > 0 {
                let problem = self.problems.get(failure.name());
                answers.push(row([json!(name), json!(count), json!(problem)]));
            }
        }
        Page {
            title: format!("Load test of {}", self.target),
            verdict: self.verdict(),
            facts,
            warnings: self.warnings.clone(),
            charts: over_time(&self.samples, self.traffic.is_some()),
            tables: vec![
                intervals("Windows", &self.windows),
                Table {
                    title: "Answers".to_owned(),
                    columns: ["status", "requests", "beginning of the first one"]
                        .map(str::to_owned)
                        .into(),
                    rows: answers,
                },
            ],
            notes: notes(self),
            ..Page::default()
        }
    }

    /// What was found, in two sentences.
    fn verdict(&self) -> String {
        let target = &self.target;
        let bad = self.requests - self.ok;
        let first = self.first_bad.as_ref().map_or_else(String::new, |it| {
            format!(" The first one after {:.1} s: {}.", it.at.as_secs_f64(), it.problem)
        });
        if self.ok == 0 {
            let requests = number(self.requests as f64);
            return format!(
                "{target} answered none of {requests} requests with a 2xx status.{first}"
            );
        }
        let per_second = self.ok as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON);
        let answered = match bad {
            0 => "every request".to_owned(),
            bad => {
                format!(
                    "all but {} of {} requests",
                    number(bad as f64),
                    number(self.requests as f64)
                )
            }
        };
        let wrong = match self.wrong {
            0 => String::new(),
            wrong => format!(
                " {} of {} checked answers are wrong.",
                number(wrong as f64),
                number(self.checked as f64)
            ),
        };
        format!(
            "{target} answered {answered}: {} replies per second, 95 of 100 of them within {}.{wrong}{first}",
            number(per_second),
            milliseconds(self.latency.p95)
        )
    }
}

/// How many users there are.
pub(super) fn users(users: usize) -> String {
    format!("{users} user{}", if users == 1 { "" } else { "s" })
}

fn notes(report: &Report) -> Vec<String> {
    let how = match report.rate {
        Some(_) => {
            "Requests were due at their own times, and latency counts from then, also while a request waited for a \
             connection."
        }
        None => "Each user sends the next request when the answer to the last one has been read.",
    };
    let mut notes = vec![
        how.to_owned(),
        "Latencies are of 2xx replies. A window is the time in which the number of users stays, or ten seconds, \
         without its first fifth (at most a second)."
            .to_owned(),
        format!(
            "{:.1} s after {:.1} s of warm-up; the generator used {:.2} cores.",
            report.elapsed.as_secs_f64(),
            report.warm_up.as_secs_f64(),
            report.generator.cores
        ),
    ];
    if report.checked > 0 {
        notes
            .push(format!("{} answers were checked, {} were wrong.", report.checked, report.wrong));
    }
    notes
}

/// The name of a column, and what is in it.
type Column = (&'static str, Box<dyn Fn(&Interval) -> serde_json::Value>);

/// A row for each interval. Columns that would be empty are left out.
pub(super) fn intervals(title: &str, intervals: &[Interval]) -> Table {
    let milliseconds = |it: Duration| json!(it.as_secs_f64() * 1e3);
    let mut columns: Vec<Column> = vec![
        ("users", Box::new(|it| json!(it.users))),
        ("replies/s", Box::new(|it| json!(it.throughput))),
        ("errors", Box::new(|it| json!(it.errors))),
        ("p50 ms", Box::new(move |it| milliseconds(it.latency.p50))),
        ("p95 ms", Box::new(move |it| milliseconds(it.latency.p95))),
        ("p99 ms", Box::new(move |it| milliseconds(it.latency.p99))),
        ("max ms", Box::new(move |it| milliseconds(it.latency.max))),
    ];
    if intervals.iter().any(|it| !it.start.is_zero()) {
        columns.insert(0, ("from s", Box::new(|it| json!(it.start.as_secs_f64()))));
        columns.insert(1, ("to s", Box::new(|it| json!(it.end.as_secs_f64()))));
    }
    if intervals.iter().any(|it| it.server.is_some()) {
        columns.push(("cores", Box::new(|it| json!(it.server.map(|it| it.cores)))));
        let megabytes = |it: &Interval| json!(it.server.map(|it| it.resident as f64 / 1e6));
        columns.push(("MB", Box::new(megabytes)));
    }
    if intervals.iter().any(|it| it.gpu.is_some()) {
        columns.push(("GPU %", Box::new(|it| json!(it.gpu.map(|it| it.utilization * 100.0)))));
        columns.push(("GPU MB", Box::new(|it| json!(it.gpu.map(|it| it.memory as f64 / 1e6)))));
    }
    let cells = |it: &Interval| row(columns.iter().map(|(_, cell)| cell(it)).collect::<Vec<_>>());
    Table {
        title: title.to_owned(),
        columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: intervals.iter().map(cells).collect(),
    }
}

pub(super) fn row(cells: impl Into<Vec<serde_json::Value>>) -> Row {
    Row { cells: cells.into(), mark: None }
}
