//! One setting under several names: what a server finds out by itself can be what another one is told, and what is
//! measured in full was tried for a moment before. Pure.

use crate::{
    run::Done,
    search::SPINNER,
    setting::{INSTANCES, OVER_CONFIG, ROWS, THREADS},
    step::Step,
};

/// A setting that was measured, whatever its names are.
#[derive(Debug, Clone)]
pub(crate) struct Tried<'a> {
    /// What stands for it: measured in full rather than for a moment, and the best of such.
    pub(crate) step: &'a Step,
    /// The same under other names, measured for as long.
    pub(crate) others: Vec<&'a Step>,
}

impl Done {
    /// The settings that were measured: those that can be recommended, the best one first, then the others.
    pub(crate) fn tried(&self) -> Vec<Tried<'_>> {
        let rest = |full: bool| self.steps.iter().filter(move |it| it.is_full() == full);
        let measured = self.best_first().chain(rest(true)).chain(rest(false));
        let mut all: Vec<Tried<'_>> = Vec::new();
        for step in measured.filter(|it| it.row().is_some()) {
            let Some(tried) = all.iter_mut().find(|it| is_same(it.step, step)) else {
                all.push(Tried { step, others: Vec::new() });
                continue;
            };
            let is_it = |it: &&Step| it.setting == step.setting;
            let is_known = is_it(&tried.step) || tried.others.iter().any(is_it);
            if !is_known && tried.step.length == step.length {
                tried.others.push(step);
            }
        }
        all
    }
}

/// Are these one setting? Their servers have the same instances, threads and rows on the same machine, whether told or
/// not, and were told the same of everything else.
fn is_same(one: &Step, other: &Step) -> bool {
    if one.setting == other.setting {
        return true;
    }
    let is_known = one.served.is_some() && one.served == other.served;
    is_known
        && one.setting.instance_type == other.setting.instance_type
        && told(one).eq(told(other))
        && has_wide_runs(one) == has_wide_runs(other)
}

/// What a server was told beside the numbers that it reports.
fn told(step: &Step) -> impl Iterator<Item = &(String, String)> {
    let reported = [INSTANCES, THREADS, "OMP_NUM_THREADS", ROWS];
    let environment = step.setting.environment.iter();
    environment.filter(move |it| !reported.contains(&&*it.0) && it.0 != OVER_CONFIG[0])
}

/// May a run take more threads than its server reports? Only where nobody has said how many, and processors are left.
fn has_wide_runs(step: &Step) -> bool {
    let is_told =
        step.setting.environment.iter().any(|it| [THREADS, "OMP_NUM_THREADS"].contains(&&*it.0));
    let spare = step
        .served
        .as_ref()
        .is_some_and(|it| it.engine == SPINNER && it.threads < step.setting.instance.cpus as u64);
    spare && !is_told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        served::Served,
        step::{Length, tests::of_rounds},
        verdict::tests::done,
    };

    fn step(environment: &[(&str, &str)], rate: f64, served: (u64, u64, u64)) -> Step {
        let (instances, threads, rows) = served;
        let served = Served {
            engine: SPINNER.to_owned(),
            version: None,
            device: "CPU".to_owned(),
            instances,
            threads,
            rows,
        };
        Step { served: Some(served), ..of_rounds(environment, &[rate]) }
    }

    fn names(steps: Vec<Step>) -> Vec<(String, Vec<String>)> {
        let done = done("Default", steps, None);
        let name = |it: &Step| it.setting.variables();
        let both = |it: &Tried<'_>| (name(it.step), it.others.iter().map(|it| name(it)).collect());
        done.tried().iter().map(both).collect()
    }

    #[test]
    fn what_a_server_finds_by_itself_and_is_told_is_one_setting() {
        let told = [(INSTANCES, "1"), (THREADS, "2")];
        let steps = vec![step(&[], 100.0, (1, 2, 8)), step(&told, 99.0, (1, 2, 8))];
        let both = format!("{INSTANCES}=1 {THREADS}=2");
        assert_eq!(names(steps), [("automatic".to_owned(), vec![both])]);
        // Fewer threads than processors: without a word of the operator runs may take all of them.
        let told = [(INSTANCES, "2"), (THREADS, "1")];
        assert_eq!(names(vec![step(&[], 1.0, (2, 1, 8)), step(&told, 1.0, (2, 1, 8))]).len(), 2);
        // Other rows, and something else that one was told.
        let rows = [(ROWS, "32")];
        assert_eq!(names(vec![step(&[], 1.0, (1, 2, 8)), step(&rows, 1.0, (1, 2, 32))]).len(), 2);
        let spins = [("MUSTER_BACKEND_CONFIG", "a,b=1")];
        assert_eq!(names(vec![step(&[], 1.0, (1, 2, 8)), step(&spins, 1.0, (1, 2, 8))]).len(), 2);
    }

    #[test]
    fn a_setting_stands_once_with_its_full_measurement() {
        let probe = Step { length: Length::Probe, ..step(&[("A", "1")], 7.0, (1, 2, 8)) };
        let full = Step { length: Length::Full, ..step(&[("A", "1")], 8.0, (1, 2, 8)) };
        let mut done = done("Default", vec![full.clone()], None);
        done.steps = vec![probe.clone(), full];
        done.ranked = vec![1];
        let [tried] = &done.tried()[..] else { panic!("expected one setting") };
        assert!(tried.step.is_full() && tried.others.is_empty());
        done.steps.truncate(1);
        done.ranked.clear();
        assert_eq!(done.tried().len(), 1, "of a job that was stopped there are only moments");
    }
}
