//! What a job has found, as a table for people.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{describe::metrics, left_out::LeftOut, run::Done, surroundings::Surroundings};

impl Done {
    /// The name of a column of prices, with what they are in.
    pub(crate) fn priced(&self, name: &str) -> String {
        match &self.currency {
            Some(currency) => format!("{name} ({currency})"),
            None => name.to_owned(),
        }
    }

    /// The table as a file of its own: with what its numbers are of, and all that was not measured.
    pub(crate) fn table_file(&self, surroundings: &Surroundings) -> String {
        let mut text = format!("{}\n{}\n", self.table(), surroundings.stated);
        for model in surroundings.models() {
            let _ = write!(text, "\n- {model}");
        }
        let engines = self.best_first().filter_map(|it| Some((it.name(), it.served.as_ref()?)));
        for (name, served) in engines {
            let _ = write!(text, "\n- {name}: {served}");
        }
        if !self.left_out.is_empty() {
            text.push_str("\n\nNot measured:\n");
        }
        for LeftOut { what, why, .. } in &self.left_out {
            let _ = write!(text, "\n- {what}: {why}");
        }
        text + "\n"
    }

    /// The steps that can be recommended, the best one first, as a table of Markdown.
    pub fn table(&self) -> String {
        // Only where there were rounds, each of which is one of the interval.
        let ratio = self.has_rounds().then(|| format!("times {} (95 %)", self.base_name()));
        let columns = [
            "machine",
            "count",
            "requests/min each",
            "ms",
            &self.priced("cost/h"),
            &self.priced("cost/million"),
            "CPU s/million",
            "CPU %",
            "memory %",
            "client CPU %",
            "within",
        ];
        let columns: Vec<&str> =
            columns.into_iter().chain(ratio.as_deref()).chain(["settings"]).collect();
        let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
        let target = self.job.stop.max_invocations;
        for step in self.best_first() {
            let Some(row) = step.row() else { continue };
            let metrics = metrics(&self.job, step);
            let shown = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| "–".to_owned(), |it| format!("{it:.digits$}"))
            };
            let number =
                |name: &str, digits| shown(metrics.get(name).and_then(Value::as_f64), digits);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |{} {} |",
                step.setting.instance_type,
                row.instances(target).map_or_else(|| "–".to_owned(), |it| it.to_string()),
                row.max_invocations,
                row.model_latency,
                number("CostPerHour", 4),
                shown(step.cost_per_million(), 3),
                shown(step.cpu_per_million(), 1),
                number("CpuUtilization", 0),
                number("MemoryUtilization", 2),
                step.client().unwrap_or_default(),
                if row.meets { "yes" } else { "no" },
                ratio.as_ref().map_or_else(String::new, |_| {
                    let difference = self.difference(step).map(|it| it.to_string());
                    format!(" {} |", difference.unwrap_or_else(|| "–".to_owned()))
                }),
                step.setting.variables(),
            );
        }
        text
    }
}
