//! What a job has found, as a page: the verdict, throughput against latency, a table, the course of the best setting.

use std::time::Duration;

use loadgen::{
    Percentile,
    page::{
        Chart, Listing, Name, Page, Row, Series, Table, course::over_time, milliseconds, number,
    },
};
use serde_json::{Value, json};

use crate::{
    alike::Tried, bottleneck::Used, finding::point, left_out::LeftOut, run::Done, step::Step,
    surroundings::Surroundings, winner, words::users_in_words,
};

impl Done {
    /// The findings as a page.
    pub(crate) fn page(&self, surroundings: &Surroundings) -> Page {
        let best = self.best_first().next();
        let model = self.job.model.clone().or(self.job.endpoint.clone()).unwrap_or_default();
        let tried = self.tried();
        let mut page = Page {
            title: format!("Which settings suit {model}"),
            verdict: self.verdict(),
            facts: best.map_or_else(Vec::new, |it| self.facts(it)),
            warnings: self.job.warnings.clone(),
            charts: vec![self.front(&tried)],
            tables: vec![
                self.settings(&tried),
                self.certainty(&tried),
                self.moments(&tried),
                self.not_measured(),
            ],
            notes: self.notes(surroundings),
            ..Page::default()
        };
        if let Some(measured) = best.and_then(|it| it.outcome.as_ref().ok()) {
            let named =
                |it: Chart| Chart { title: format!("The best setting: {}", it.title), ..it };
            page.details.extend(over_time(&measured.samples, true).into_iter().map(named));
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
            Some(format!("{} cannot be recommended: {problem}", self.words(it)))
        }));
        page
    }

    /// A setting in words, with its machine where there are several.
    fn words(&self, step: &Step) -> String {
        let machine = &step.setting.instance_type;
        let words = step.setting.described();
        match (self.job.endpoint.is_some(), self.has_machines()) {
            (true, _) => machine.clone(),
            (false, true) => format!("{machine} · {words}"),
            (false, false) => words,
        }
    }

    fn has_machines(&self) -> bool {
        let mut names = self.steps.iter().map(|it| &it.setting.instance_type);
        names.next().is_some_and(|first| names.any(|it| it != first))
    }

    /// The same of all its names, with what the server makes of what it finds by itself.
    fn all_words(&self, tried: &Tried<'_>) -> String {
        let mut words = self.words(tried.step);
        let is_own = tried.step.setting.environment.is_empty();
        if let Some(served) = tried.step.served.as_ref().filter(|_| is_own) {
            words += &format!(": instances {} · threads {}", served.instances, served.threads);
            words += &match served.rows {
                0 => " · each request alone".to_owned(),
                rows => format!(" · rows {rows}"),
            };
        }
        for other in &tried.others {
            let carried = other.row().map_or(0, |it| it.max_invocations);
            let (name, carried) = (other.setting.described(), number(carried as f64));
            words += &format!("; measured as {name}, too: {carried} requests/min");
        }
        words
    }

    /// Each setting at the load that stands for it, and those that no other beats in both throughput and latency.
    fn front(&self, tried: &[Tried<'_>]) -> Chart {
        let full = tried.iter().enumerate().filter(|it| it.1.step.is_full());
        let mut points: Vec<(f64, f64, Name)> = full
            .filter_map(|(place, tried)| {
                let (rate, latency, window) = point(tried.step)?;
                let words = self.words(tried.step);
                let best = self.is_best(tried.step);
                let users = users_in_words(window.users);
                let said = format!("{} requests/min, {} ms", number(rate), number(latency));
                let name = Name {
                    label: if best { format!("{words} (recommended)") } else { words.clone() },
                    short: match best {
                        true => format!("{} (recommended)", place + 1),
                        false => (place + 1).to_string(),
                    },
                    text: format!("{}: {words}, {users}: {said}", place + 1),
                    best,
                };
                Some((rate, latency, name))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let beaten = |it: &(f64, f64, Name)| {
            points.iter().any(|other| {
                other.0 >= it.0 && other.1 <= it.1 && (other.0, other.1) != (it.0, it.1)
            })
        };
        let values = |is: &dyn Fn(&(f64, f64, Name)) -> bool| {
            points.iter().map(|it| is(it).then_some(it.1)).collect()
        };
        let percentile = self.percentile_name();
        Chart {
            title: "Throughput and latency of each setting".to_owned(),
            x_label: "requests per minute".to_owned(),
            y_label: format!("{percentile}, milliseconds"),
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

    fn is_best(&self, step: &Step) -> bool {
        self.best_first().next().is_some_and(|it| it.setting == step.setting)
    }

    fn percentile_name(&self) -> &'static str {
        match self.percentile() {
            Percentile::P95 => "p95",
            Percentile::P99 => "p99",
        }
    }

    /// A table of settings: their numbers, their words, and the cells of each.
    fn table_of<'a>(
        &self,
        title: &str,
        columns: &[&str],
        tried: impl Iterator<Item = (usize, &'a Tried<'a>)>,
        cells: impl Fn(&Tried<'_>) -> Option<Vec<Value>>,
    ) -> Table {
        let row = |(place, tried): (usize, &Tried<'_>)| {
            let first = [json!(place + 1), json!(self.all_words(tried))];
            let cells = first.into_iter().chain(cells(tried)?).collect();
            Some(Row { cells, mark: self.is_best(tried.step).then_some("recommended") })
        };
        let columns = ["no.", "setting"].iter().chain(columns);
        Table {
            title: title.to_owned(),
            columns: columns.map(|it| (*it).to_owned()).collect(),
            rows: tried.filter_map(row).collect(),
        }
    }

    /// What each setting carries that was measured in full.
    fn settings(&self, tried: &[Tried<'_>]) -> Table {
        let (stop, percentile) = (&self.job.stop, self.percentile_name());
        let columns = [
            "requests/min",
            &format!("{percentile} ms"),
            "in time",
            "users",
            "machines",
            &self.priced("cost/h"),
            &self.priced("cost/million"),
            "CPU s/million",
            "cores",
            "MB",
            "what is full",
        ];
        let cells = |tried: &Tried<'_>| {
            let step = tried.step;
            let measured = step.outcome.as_ref().ok()?;
            let (window, row) = (measured.window()?, step.row()?);
            let target = stop.max_invocations;
            let price = step.setting.instance.price_per_hour;
            Some(vec![
                json!(row.max_invocations),
                json!(measured.latency.as_secs_f64() * 1e3),
                json!(stop.threshold.map(|_| if row.meets { "yes" } else { "no" })),
                json!(window.users),
                json!(target.and_then(|_| row.instances(target))),
                json!(price.map(|_| row.cost_per_hour(target))),
                json!(step.cost_per_million()),
                json!(step.cpu_per_million()),
                json!(window.server.map(|it| it.cores)),
                json!(window.server.map(|it| it.resident as f64 / 1e6)),
                json!(Used::of(step).map(|it| it.to_string())),
            ])
        };
        let full = tried.iter().enumerate().filter(|it| it.1.step.is_full());
        self.table_of("Settings", &columns, full, cells)
    }

    /// How sure the numbers are: what the rounds say, and whether the load generator was a bound.
    fn certainty(&self, tried: &[Tried<'_>]) -> Table {
        let columns = [
            "rounds",
            "requests/min of rounds",
            &format!("times {} (95 %)", self.base_name()),
            "load generator, % of a core",
        ];
        let cells = |tried: &Tried<'_>| {
            let step = tried.step;
            let spread = step.spread().filter(|_| step.rounds.len() > 1);
            let spread = spread
                .map(|(low, high)| format!("{} to {}", number(low as f64), number(high as f64)));
            Some(vec![
                json!(spread.as_ref().map(|_| step.rounds.len())),
                json!(spread),
                json!(self.difference(step).map(|it| it.to_string())),
                json!(step.client()),
            ])
        };
        let is_bound = |it: &Tried<'_>| it.step.outcome.as_ref().is_ok_and(|it| it.client_bound);
        let says_more = self.has_rounds() || tried.iter().any(is_bound);
        let full = tried.iter().enumerate().filter(|it| says_more && it.1.step.is_full());
        self.table_of("How sure that is", &columns, full, cells)
    }

    /// What was tried for a moment alone.
    fn moments(&self, tried: &[Tried<'_>]) -> Table {
        let columns = ["requests/min", &format!("{} ms", self.percentile_name()), "users"];
        let cells = |tried: &Tried<'_>| {
            let (rate, latency, window) = point(tried.step)?;
            Some(vec![json!(rate), json!(latency), json!(window.users)])
        };
        let brief = tried.iter().enumerate().filter(|it| !it.1.step.is_full());
        self.table_of("Tried for a moment", &columns, brief, cells)
    }

    /// What was not measured, and why.
    fn not_measured(&self) -> Table {
        let row = |it: &LeftOut| Row { cells: vec![json!(it.words), json!(it.why)], mark: None };
        Table {
            title: "Not measured".to_owned(),
            columns: ["what", "why"].map(str::to_owned).into(),
            rows: self.left_out.iter().map(row).collect(),
        }
    }

    /// The windows of the best setting, by their lengths.
    fn windows(&self) -> Option<String> {
        let best = self.best_first().next().and_then(|it| it.outcome.as_ref().ok());
        let lengths = best.iter().flat_map(|it| &it.windows).map(|it| it.end - it.start);
        let (least, most) = lengths.clone().min().zip(lengths.max())?;
        let (least, most) = (least.as_secs_f64(), most.as_secs_f64());
        Some(format!(" Windows of the best setting: {least:.1} to {most:.1} s."))
    }

    fn notes(&self, surroundings: &Surroundings) -> Vec<String> {
        let mut notes = vec![
            "Each setting is a server of its own. Each user sends the next request when the answer has been read. A \
             setting stands for the last number of users up to its plateau whose answers were in time."
                .to_owned(),
            "Automatic is what the server finds by itself. Settings of which it makes the same are one row, whatever \
             they are called."
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
        let served = self.best_first().next().and_then(|it| it.served.as_ref());
        notes.extend(served.map(|it| format!("The best setting ran with {it}.")));
        notes.extend(surroundings.models());
        notes.extend(self.differences().into_iter().map(|it| format!("{it}.")));
        notes
    }

    /// What is said of the best setting above all charts.
    fn facts(&self, step: &Step) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
        if let (Some(row), Ok(measured)) = (step.row(), &step.outcome) {
            add("Requests per minute", number(row.max_invocations as f64));
            add(&format!("Latency, {}", self.percentile_name()), milliseconds(measured.latency));
            if let Some(seconds) = step.cpu_per_million() {
                add("Per million requests", format!("{} s of processor time", number(seconds)));
            }
            if let Some(cost) = step.cost_per_million() {
                add(&self.priced("Per million requests"), number(cost));
            }
        }
        if self.job.endpoint.is_none() {
            add("Machine", step.setting.instance_type.clone());
            add("Settings", step.setting.described());
        }
        if let Some(used) = Used::of(step) {
            add("What is full", used.to_string());
        }
        if let Some(served) = &step.served {
            let version = served.version.as_ref().map_or_else(String::new, |it| format!(", {it}"));
            add("Engine", format!("{}{version}", served.engine));
        }
        if let Some(setup) = step.setup.filter(|it| *it > Duration::ZERO) {
            add("Ready after", format!("{:.1} s", setup.as_secs_f64()));
        }
        facts
    }
}
