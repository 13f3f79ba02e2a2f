//! Where a model runs that nobody has given a place: in a process of its own where that costs it little, else in the
//! server's. Pure.
//!
//! A model that nobody has placed is loaded in a worker first, and each run there says what the engine took. What the
//! way there and back takes depends on who sleeps, and would be noise. If the model is too fast for a worker, it is let
//! go and loaded again in the server, so it is never half in each. The decision changes no answer, and is not part of
//! its hash.

use std::{fmt, time::Duration};

/// What a run takes longer in a process of its own where processors go to sleep between runs. docs/performance.md has
/// the measurements.
const WAKING: Duration = Duration::from_micros(60);

/// What it takes longer for each MiB of its inputs and outputs, which are copied.
const COPYING_A_MIB: Duration = Duration::from_micros(50);

/// A model belongs in a process of its own where that makes its runs longer by no more than one part in so many.
const PARTS: u32 = 33;

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
    /// Does it rest on how long runs took? Else no run changes it.
    pub(crate) is_measured: bool,
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
    /// Of all outputs together.
    pub(crate) output_bytes: usize,
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

    /// One that takes so long belongs in a process of its own.
    fn limit(self) -> Duration {
        let mib = (self.bytes + self.output_bytes) as f64 / f64::from(1 << 20);
        (WAKING + COPYING_A_MIB.mul_f64(mib)) * PARTS
    }
}

/// A model that runs in the server by the runs of its load belongs in a process of its own where runs of clients take
/// so many times what such a run may take. What they bring is not known here, so copying counts as of a few MiB.
const CLEARLY: u32 = 2;
const USUAL_COPIES: u32 = 4;

/// Does a model that runs in the server belong in a process of its own, since runs of clients take so long? Why then.
pub(crate) fn reconsidered(took: Duration) -> Option<String> {
    let limit = (WAKING + COPYING_A_MIB * USUAL_COPIES) * PARTS * CLEARLY;
    let why = || format!("a run for a client takes {took:.1?}, no less than {limit:.1?}");
    (limit <= took).then(why)
}

/// What is known of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The most telling of its first runs.
    pub(crate) run: Option<EngineRun>,
    /// Does its configuration bound what its process may take?
    pub(crate) is_bounded: bool,
    /// Does it bring libraries of operators, whose code is anybody's?
    pub(crate) brings_code: bool,
    /// Has its process died in the runs of its load?
    pub(crate) has_died: bool,
}

/// Where a model runs.
pub(crate) fn decide(known: Known) -> Decision {
    let apart = |why: String| Decision { place: Place::OwnProcess, is_measured: true, why };
    let within = |why: String| Decision { place: Place::Server, is_measured: true, why };
    match known {
        Known { is_bounded: true, .. } => {
            apart("its configuration bounds what its process may take".to_owned())
        }
        Known { has_died: true, .. } => apart("a run at its load has ended its process".to_owned()),
        Known { run: None, brings_code: true, .. } => apart(
            "no run at its load has told how long its libraries of operators take; model_warmup would"
                .to_owned(),
        ),
        Known { run: None, .. } => {
            within("no run at its load has told how long it takes; model_warmup would".to_owned())
        }
        Known { run: Some(run), .. } => {
            let (took, limit) = (run.took, run.limit());
            match took < limit {
                true => within(format!("a run takes {took:.1?}, less than {limit:.1?}")),
                false => apart(format!("a run takes {took:.1?}, no less than {limit:.1?}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: usize, bytes: usize, micros: u64) -> EngineRun {
        EngineRun { rows, bytes, output_bytes: 0, took: Duration::from_micros(micros) }
    }

    #[test]
    fn a_model_is_in_the_server_where_a_process_of_its_own_would_cost_more_than_three_percent() {
        let of = |run| Known { run, ..Known::default() };
        let place = |known| decide(known).place;
        assert_eq!(place(of(Some(run(1, 0, 1979)))), Place::Server);
        assert_eq!(place(of(Some(run(1, 0, 1980)))), Place::OwnProcess);
        // 2 MiB in and 6 MiB out.
        let large = |micros| EngineRun { output_bytes: 6 << 20, ..run(1, 2 << 20, micros) };
        assert_eq!(place(of(Some(large(15_179)))), Place::Server);
        assert_eq!(place(of(Some(large(15_180)))), Place::OwnProcess);
        assert_eq!(place(of(None)), Place::Server);
        for run in [None, Some(run(1, 4, 1))] {
            assert_eq!(place(Known { is_bounded: true, ..of(run) }), Place::OwnProcess);
            assert_eq!(place(Known { has_died: true, ..of(run) }), Place::OwnProcess);
        }
        let with_code = |run| place(Known { brings_code: true, ..of(run) });
        assert_eq!(with_code(None), Place::OwnProcess);
        assert_eq!(with_code(Some(run(1, 4, 1))), Place::Server);
    }

    #[test]
    fn runs_of_clients_that_take_clearly_longer_take_the_decision_back() {
        assert_eq!(reconsidered(Duration::from_millis(17)), None);
        let why = reconsidered(Duration::from_millis(45)).unwrap();
        assert_eq!(why, "a run for a client takes 45.0ms, no less than 17.2ms");
    }

    #[test]
    fn the_words_begin_with_the_value_of_the_parameter_and_have_the_measured_time() {
        let known = |micros| Known { run: Some(run(1, 4, micros)), ..Known::default() };
        let words = |micros| decide(known(micros)).to_string();
        assert_eq!(words(13), "in_process: a run takes 13.0µs, less than 2.0ms");
        assert_eq!(words(20_100), "process: a run takes 20.1ms, no less than 2.0ms");
    }

    #[test]
    fn the_shortest_run_of_the_largest_input_of_one_row_is_what_counts() {
        let telling = |runs: &[EngineRun]| runs.iter().copied().reduce(EngineRun::telling);
        assert_eq!(telling(&[run(1, 4, 9), run(1, 4, 7), run(1, 4, 8)]), Some(run(1, 4, 7)));
        assert_eq!(telling(&[run(1, 4, 7), run(1, 8, 900), run(1, 4, 7)]), Some(run(1, 8, 900)));
        assert_eq!(telling(&[run(8, 4, 1), run(1, 4, 9), run(8, 400, 1)]), Some(run(1, 4, 9)));
    }
}
