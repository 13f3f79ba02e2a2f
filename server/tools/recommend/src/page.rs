//! What a job has found, as a page: throughput against latency, the course of the best setting, and a table.

use std::time::Duration;

use loadgen::{
    Interval,
    page::{Chart, Listing, Page, Row, Series, Table, course::over_time},
};
use serde_json::json;

use crate::{
    bottleneck::Used, run::Done, step::Step, surroundings::Surroundings, windows::per_minute,
    winner,
};

impl Done {
    /// The findings as a page.
    pub(crate) fn page(&self, surroundings: &Surroundings) -> Page {
        let best = self.ranked.first().and_then(|it| self.steps.get(*it));
        let model = self.job.model.clone().or(self.job.endpoint.clone()).unwrap_or_default();
        let mut page = Page {
            title: format!("Which settings suit {model}"),
            facts: best.map_or_else(Vec::new, facts),
            warnings: self.job.warnings.clone(),
            charts: vec![self.front()],
            tables: vec![self.rows()],
            notes: self.notes(surroundings),
            ..Page::default()
        };
        if !self.left_out.is_empty() {
            page.tables.push(self.not_measured());
        }
        if let Some(measured) = best.and_then(|it| it.outcome.as_ref().ok()) {
            let named =
                |it: Chart| Chart { title: format!("The best setting: {}", it.title), ..it };
            page.charts.extend(over_time(&measured.samples, true).into_iter().map(named));
        }
        if let Some(best) = best.filter(|_| self.job.endpoint.is_none()) {
            let listing = |title: &str, text| Listing { title: title.to_owned(), text };
            if let Some(text) = winner::config_pbtxt(best) {
                page.listings.push(listing("config.pbtxt of the best setting", text));
            }
            page.listings.push(listing("The container with it", winner::docker_run(best, &model)));
        }
        page.warnings.extend(self.steps.iter().filter_map(|it| {
            let problem = it.outcome.as_ref().err()?;
            Some(format!("{} cannot be recommended: {problem}", it.name()))
        }));
        page
    }

    /// Each setting at the load that stands for it, and those that no other beats in both throughput and latency.
    fn front(&self) -> Chart {
        let mut points: Vec<(f64, f64, String)> = self
            .steps
            .iter()
            .filter(|it| it.is_full())
            .filter_map(|step| {
                let measured = step.outcome.as_ref().ok()?;
                let window = measured.window()?;
                let latency = measured.latency.as_secs_f64() * 1e3;
                Some((per_minute(window) as f64, latency, name(step, window)))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let beaten = |it: &(f64, f64, String)| {
            points.iter().any(|other| {
                other.0 >= it.0 && other.1 <= it.1 && (other.0, other.1) != (it.0, it.1)
            })
        };
        let values = |is: &dyn Fn(&(f64, f64, String)) -> bool| {
            points.iter().map(|it| is(it).then_some(it.1)).collect()
        };
        Chart {
            title: "Throughput and latency of each setting".to_owned(),
            x_label: "requests per minute".to_owned(),
            y_label: "milliseconds".to_owned(),
            x: points.iter().map(|it| it.0).collect(),
            series: vec![
                Series {
                    name: "settings".to_owned(),
                    values: values(&|it| beaten(it)),
                    line: false,
                },
                Series {
                    name: "not beaten".to_owned(),
                    values: values(&|it| !beaten(it)),
                    line: true,
                },
            ],
            points: true,
            names: points.iter().map(|it| it.2.clone()).collect(),
            ..Chart::default()
        }
    }

    fn rows(&self) -> Table {
        let columns = [
            "machine",
            "settings",
            "tried",
            "users",
            "requests/min",
            "of rounds",
            &format!("times {} (95 %)", self.base_name()),
            "ms",
            "within",
            "count",
            &self.priced("cost/h"),
            &self.priced("cost/million"),
            "CPU s/million",
            "cores",
            "MB",
            "client CPU %",
            "what is full",
        ];
        let target = self.job.stop.max_invocations;
        let best = self.ranked.first();
        let cells = |(index, step): (usize, &Step)| {
            let measured = step.outcome.as_ref().ok()?;
            let (window, row) = (measured.window()?, step.row()?);
            let cost = step.setting.instance.price_per_hour.map(|_| row.cost_per_hour(target));
            let cells = vec![
                json!(step.setting.instance_type),
                json!(step.setting.variables()),
                json!(step.length.name()),
                json!(window.users),
                json!(row.max_invocations),
                json!(step.spread().map(|(low, high)| format!("{low} to {high}"))),
                json!(self.difference(step).map(|it| it.to_string())),
                json!(measured.latency.as_secs_f64() * 1e3),
                json!(if row.meets { "yes" } else { "no" }),
                json!(row.instances(target)),
                json!(cost),
                json!(step.cost_per_million()),
                json!(step.cpu_per_million()),
                json!(window.server.map(|it| it.cores)),
                json!(window.server.map(|it| it.resident as f64 / 1e6)),
                json!(step.client()),
                json!(Used::of(step).map(|it| it.to_string())),
            ];
            Some(Row { cells, best: best == Some(&index) })
        };
        Table {
            title: "All settings".to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: self.steps.iter().enumerate().filter_map(cells).collect(),
        }
    }

    /// The windows of the best setting, by their lengths.
    fn windows(&self) -> Option<String> {
        let best = self.ranked.first().and_then(|it| self.steps.get(*it)?.outcome.as_ref().ok());
        let lengths = best.iter().flat_map(|it| &it.windows).map(|it| it.end - it.start);
        let (least, most) = lengths.clone().min().zip(lengths.max())?;
        let (least, most) = (least.as_secs_f64(), most.as_secs_f64());
        Some(format!(" Windows of the best setting: {least:.1} to {most:.1} s."))
    }

    /// What was not measured, and why.
    fn not_measured(&self) -> Table {
        let row = |(what, why): &(String, String)| Row {
            cells: vec![json!(what), json!(why)],
            best: false,
        };
        Table {
            title: "Not measured".to_owned(),
            columns: ["what", "why"].map(str::to_owned).into(),
            rows: self.left_out.iter().map(row).collect(),
        }
    }

    fn notes(&self, surroundings: &Surroundings) -> Vec<String> {
        let mut notes = vec![
            "Each setting is a server of its own. Each user sends the next request when the answer has been read. A \
             setting stands for the last number of users up to its plateau whose answers were in time."
                .to_owned(),
            format!(
                "Answers of all settings were compared with those of the first one, before the load and under it; a \
                 setting that answers something else cannot be recommended. Numbers may differ by a share of {}.",
                self.job.tolerance
            ),
            "What has rounds was measured in turns, there and back. A ratio is the median of pairs of rounds, with its \
             bootstrap interval of 95 %; a difference is claimed only where the interval of six rounds excludes 1, and \
             of fewer rounds where they do not overlap."
                .to_owned(),
            "Where the load generator is marked as bound, it used more than 80 % of a core: throughput is a lower bound."
                .to_owned(),
            "Full is what is used to 90 % at the load that stands for a setting: processors by the server, and by the \
             load generator where it shares them, GPUs by what their sensors say."
                .to_owned(),
            format!("{}{}", surroundings.stated, self.windows().unwrap_or_default()),
        ];
        notes.extend(surroundings.models());
        notes.extend(self.differences().into_iter().map(|it| format!("{it}.")));
        notes
    }
}

fn facts(step: &Step) -> Vec<(String, String)> {
    let mut facts = vec![
        ("Best machine".to_owned(), step.setting.instance_type.clone()),
        ("Settings".to_owned(), step.setting.variables()),
    ];
    if let (Some(row), Ok(measured)) = (step.row(), &step.outcome) {
        facts.push(("Requests per minute".to_owned(), row.max_invocations.to_string()));
        facts.push((
            "Latency".to_owned(),
            format!("{:.1} ms", measured.latency.as_secs_f64() * 1e3),
        ));
        if let Some(seconds) = step.cpu_per_million() {
            facts.push((
                "Per million requests".to_owned(),
                format!("{seconds:.0} s of processor time"),
            ));
        }
    }
    facts.extend(Used::of(step).map(|it| ("What is full".to_owned(), it.to_string())));
    facts.extend(step.served.as_ref().map(|it| ("Engine".to_owned(), it.to_string())));
    let setup = step.setup.unwrap_or(Duration::ZERO).as_secs_f64();
    facts.push(("Ready after".to_owned(), format!("{setup:.1} s")));
    facts
}

fn name(step: &Step, window: &Interval) -> String {
    format!("{}, {}, {} users", step.setting.instance_type, step.setting.variables(), window.users)
}
