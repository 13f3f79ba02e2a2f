//! Where a model runs that nobody has given a place: in a process of its own where that costs it little, else in the
//! server's. Pure.
//!
//! It is decided before the model is loaded, so that each is loaded once, where it stays. A process of its own costs
//! each run some 60 µs, and memory of some 10 MiB. A run that reads all of its weights takes milliseconds where they
//! are many, so that the bytes of weights bound both. The decision changes no answer, and is not part of its hash.

use std::{fmt, time::Duration};

use backend::Foresight;

/// A model whose runs read fewer bytes of weights is in the server. To read as many takes a processor 2 to 3 ms: a
/// process of its own makes that longer by 3 % at most, and takes a third of their memory. The measurements are in
/// docs/background/performance.md.
const LEAST_WEIGHTS: u64 = 32 << 20;

/// A model that runs in the server belongs in a process of its own where runs of clients take so long as a rule: that
/// makes them longer by 1 % at most, and it can be ended with a run that does not end.
const LONG_RUN: Duration = Duration::from_millis(17);

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelPlace {
    /// In the server's process.
    Server,
    /// In a process of its own.
    OwnProcess,
}

impl ModelPlace {
    /// Its name in the parameter `ISOLATION`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ModelPlace::Server => "in_process",
            ModelPlace::OwnProcess => "process",
        }
    }
}

/// Where a model runs, and why: words for those who look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) place: ModelPlace,
    /// Does it rest on what the files tell? Else no run changes it.
    pub(crate) is_foreseen: bool,
    pub(crate) why: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place.name(), self.why)
    }
}

/// What is known of a model before it is loaded.
#[derive(Debug, Clone)]
pub(crate) struct KnownModel {
    /// Does its configuration bound what its process may take?
    pub(crate) is_bounded: bool,
    /// Does it bring libraries of operators, whose code is anybody's?
    pub(crate) brings_code: bool,
    /// Has a server ended while it loaded the model, or made its first run?
    pub(crate) has_ended_server: bool,
    pub(crate) foresight: Foresight,
}

/// Where a model runs.
pub(crate) fn decide(known: KnownModel) -> Decision {
    let apart = |why: String| Decision { place: ModelPlace::OwnProcess, is_foreseen: true, why };
    let within = |why: String| Decision { place: ModelPlace::Server, is_foreseen: true, why };
    match known {
        KnownModel { is_bounded: true, .. } => {
            apart("its configuration bounds what its process may take".to_owned())
        }
        KnownModel { brings_code: true, .. } => {
            apart("it brings libraries of operators".to_owned())
        }
        KnownModel { has_ended_server: true, .. } => apart(
            "it was being loaded, or made its first run, when the server ended last".to_owned(),
        ),
        KnownModel { foresight: Foresight::Unknown(why), .. } => apart(why),
        KnownModel { foresight: Foresight::Weights(bytes), .. } => {
            let (weights, least) = (mib(bytes), mib(LEAST_WEIGHTS));
            match bytes < LEAST_WEIGHTS {
                true => within(format!("its runs read weights of {weights}, less than {least}")),
                false => apart(format!("its runs read weights of {weights}, no less than {least}")),
            }
        }
    }
}

/// Does a model that runs in the server belong in a process of its own, since runs of clients take so long? Why then.
pub(crate) fn reconsidered(took: Duration) -> Option<String> {
    let why = || format!("a run for a client takes {took:.1?}, no less than {LONG_RUN:.1?}");
    (LONG_RUN <= took).then(why)
}

/// Rounded down, so that what is less looks less.
fn mib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(bytes: u64) -> KnownModel {
        let foresight = Foresight::Weights(bytes);
        KnownModel { is_bounded: false, brings_code: false, has_ended_server: false, foresight }
    }

    #[test]
    fn a_model_is_in_the_server_where_a_process_of_its_own_would_be_much_beside_its_weights() {
        let place = |known| decide(known).place;
        assert_eq!(place(known(0)), ModelPlace::Server);
        assert_eq!(place(known(LEAST_WEIGHTS - 1)), ModelPlace::Server);
        assert_eq!(place(known(LEAST_WEIGHTS)), ModelPlace::OwnProcess);
        for more in [
            KnownModel { is_bounded: true, ..known(0) },
            KnownModel { brings_code: true, ..known(0) },
            KnownModel { has_ended_server: true, ..known(0) },
            KnownModel { foresight: Foresight::Unknown("it has loops".to_owned()), ..known(0) },
        ] {
            assert_eq!(place(more), ModelPlace::OwnProcess);
        }
    }

    #[test]
    fn runs_of_clients_that_are_long_take_the_decision_back() {
        assert_eq!(reconsidered(Duration::from_millis(16)), None);
        let why = reconsidered(Duration::from_millis(45)).unwrap();
        assert_eq!(why, "a run for a client takes 45.0ms, no less than 17.0ms");
    }

    #[test]
    fn the_words_begin_with_the_value_of_the_parameter_and_have_the_bytes() {
        let words = |bytes| decide(known(bytes)).to_string();
        let small = words(LEAST_WEIGHTS - 1);
        assert_eq!(small, "in_process: its runs read weights of 31.9 MiB, less than 32.0 MiB");
        let large = words(160 << 20);
        assert_eq!(large, "process: its runs read weights of 160.0 MiB, no less than 32.0 MiB");
        let foresight = Foresight::Unknown("its loops may be long".to_owned());
        let unknown = decide(KnownModel { foresight, ..known(0) }).to_string();
        assert_eq!(unknown, "process: its loops may be long");
    }
}
