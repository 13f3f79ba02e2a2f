//! Where a model runs that nobody has given a place: in a process of its own where that costs it little, else in the
//! server's. Pure.

use std::{fmt, time::Duration};

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

impl Place {
    /// Its name in the parameter `ISOLATION`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Server => "in_process",
            Place::OwnProcess => "process",
        }
    }
}

/// Where a model runs, and why: words for those who look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) place: Place,
    pub(crate) why: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place.name(), self.why)
    }
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

/// Where a model runs. `run` is the most telling of its first ones, `is_bounded` says that its configuration bounds
/// what its process may take.
pub(crate) fn decide(run: Option<EngineRun>, is_bounded: bool) -> Decision {
    let apart = |why: String| Decision { place: Place::OwnProcess, why };
    if is_bounded {
        return apart("its configuration bounds what its process may take".to_owned());
    }
    let Some(EngineRun { took, .. }) = run else {
        return apart(
            "no run at its load has told how long it takes; model_warmup would".to_owned(),
        );
    };
    let limit = WORTH_A_PROCESS;
    match took < limit {
        true => {
            let why = format!("a run takes {took:.1?}, less than {limit:?}");
            Decision { place: Place::Server, why }
        }
        false => apart(format!("a run takes {took:.1?}, no less than {limit:?}")),
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
        let place = |run, is_bounded| decide(run, is_bounded).place;
        assert_eq!(place(Some(run(1, 4, limit - 1)), false), Place::Server);
        assert_eq!(place(Some(run(1, 4, limit)), false), Place::OwnProcess);
        assert_eq!(place(Some(run(1, 4, 1)), true), Place::OwnProcess);
        assert_eq!(place(None, false), Place::OwnProcess);
    }

    #[test]
    fn the_words_begin_with_the_value_of_the_parameter_and_have_the_measured_time() {
        let words = |micros| decide(Some(run(1, 4, micros)), false).to_string();
        assert_eq!(words(13), "in_process: a run takes 13.0µs, less than 1ms");
        assert_eq!(words(20_100), "process: a run takes 20.1ms, no less than 1ms");
    }

    #[test]
    fn the_shortest_run_of_the_largest_input_of_one_row_is_what_counts() {
        let telling = |runs: &[EngineRun]| runs.iter().copied().reduce(EngineRun::telling);
        assert_eq!(telling(&[run(1, 4, 9), run(1, 4, 7), run(1, 4, 8)]), Some(run(1, 4, 7)));
        assert_eq!(telling(&[run(1, 4, 7), run(1, 8, 900), run(1, 4, 7)]), Some(run(1, 8, 900)));
        assert_eq!(telling(&[run(8, 4, 1), run(1, 4, 9), run(8, 400, 1)]), Some(run(1, 4, 9)));
    }
}
