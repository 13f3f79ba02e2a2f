//! The findings as Markdown.

use std::{collections::BTreeMap, fmt::Write};

use crate::{
    phases::{Goal, Phase},
    support::process::Work,
};

/// What every phase took.
pub fn phases(title: &str, phases: &[Phase]) -> String {
    let mut out = format!(
        "| {title} | seconds | CPU ms | CPU | wake-ups/s | goal |\n|---|--:|--:|--:|--:|---|\n"
    );
    for phase in phases {
        let (total, seconds) = (phase.total(), phase.took.as_secs_f64());
        let share = total.cpu.as_secs_f64() / seconds;
        let goal =
            |text: String, met: bool| format!("{text}: {}", if met { "reached" } else { "missed" });
        let goal = match phase.goal {
            Goal::Share(most) => goal(format!("{:.1} %", most * 100.0), share <= most),
            Goal::Time(most) => goal(format!("{} ms", most.as_millis()), total.cpu <= most),
            Goal::None => String::new(),
        };
        let _ = writeln!(
            out,
            "| {} | {seconds:.2} | {:.2} | {:.3} % | {:.1} | {goal} |",
            phase.name,
            total.cpu.as_secs_f64() * 1e3,
            share * 100.0,
            total.waits as f64 / seconds,
        );
    }
    out
}

/// Who woke up in the idle phases, most often first.
pub fn who(phases: &[Phase]) -> String {
    let still = || phases.iter().filter(|it| matches!(it.goal, Goal::Share(_)));
    let seconds: f64 = still().map(|it| it.took.as_secs_f64()).sum();
    let mut kinds = BTreeMap::<&str, Work>::new();
    for (name, work) in still().flat_map(|it| &it.work) {
        let kind = kinds.entry(name).or_default();
        *kind += *work;
        kind.threads = work.threads;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, it)| std::cmp::Reverse(it.waits));
    let mut out =
        String::from("| While idle | threads | wake-ups/s | CPU µs/s |\n|---|--:|--:|--:|\n");
    for (name, work) in kinds {
        let _ = writeln!(
            out,
            "| `{name}` | {} | {:.2} | {:.1} |",
            work.threads,
            work.waits as f64 / seconds,
            work.cpu.as_secs_f64() * 1e6 / seconds,
        );
    }
    out
}
