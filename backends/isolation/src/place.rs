//! Where a model runs that nobody has given a place: in a process of its own where that costs it little, else in the
//! server's. Pure.

use std::time::Duration;

/// A model that runs for so long loses at most 3 % of what two busy processors do where it is in a process of its own;
/// one that runs for less loses more. docs/performance.md has the measurements.
const WORTH_A_PROCESS: Duration = Duration::from_millis(1);

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the server's process.
    Server,
    /// In a process of its own.
    OwnProcess,
}

/// One run, as the engine has made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineRun {
    pub(crate) rows: usize,
    /// Of all inputs together.
    pub(crate) bytes: usize,
    /// Without what the way to the process and back takes.
    pub(crate) took: Duration,
}

impl EngineRun {
    /// The one of two that says more about a request alone: of fewer rows, then of larger inputs, as those of one row
    /// may be made up and as small as they can be. The shorter of two alike: the other had to wait for a processor.
    pub(crate) fn telling(self, other: EngineRun) -> EngineRun {
        let key = |it: &EngineRun| (it.rows, usize::MAX - it.bytes, it.took);
        if key(&other) < key(&self) { other } else { self }
    }
}

/// Where a model runs, and why: a sentence for the log. `run` is the most telling of its first ones, `is_bounded` says
/// that its configuration bounds the memory of its process.
pub(crate) fn decide(run: Option<EngineRun>, is_bounded: bool) -> (Place, String) {
    if is_bounded {
        let why = "its configuration bounds the memory of its process";
        return (Place::OwnProcess, why.to_owned());
    }
    let Some(EngineRun { took, .. }) = run else {
        let why = "no run at its load has told how long it takes; model_warmup would";
        return (Place::OwnProcess, why.to_owned());
    };
    let limit = WORTH_A_PROCESS;
    match took < limit {
        true => (Place::Server, format!("a run takes {took:.1?}, less than {limit:?}")),
        false => (Place::OwnProcess, format!("a run takes {took:.1?}, no less than {limit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: usize, bytes: usize, micros: u64) -> EngineRun {
        EngineRun { rows, bytes, took: Duration::from_micros(micros) }
    }

    #[test]
    fn a_model_that_runs_for_less_than_the_limit_is_in_the_server() {
        let limit = WORTH_A_PROCESS.as_micros() as u64;
        let place = |run, is_bounded| decide(run, is_bounded).0;
        assert_eq!(place(Some(run(1, 4, limit - 1)), false), Place::Server);
        assert_eq!(place(Some(run(1, 4, limit)), false), Place::OwnProcess);
        assert_eq!(place(Some(run(1, 4, 1)), true), Place::OwnProcess);
        assert_eq!(place(None, false), Place::OwnProcess);
    }

    #[test]
    fn the_shortest_run_of_the_largest_input_of_one_row_is_what_counts() {
        let telling = |runs: &[EngineRun]| runs.iter().copied().reduce(EngineRun::telling);
        assert_eq!(telling(&[run(1, 4, 9), run(1, 4, 7), run(1, 4, 8)]), Some(run(1, 4, 7)));
        assert_eq!(telling(&[run(1, 4, 7), run(1, 8, 900), run(1, 4, 7)]), Some(run(1, 8, 900)));
        assert_eq!(telling(&[run(8, 4, 1), run(1, 4, 9), run(8, 400, 1)]), Some(run(1, 4, 9)));
    }
}
