//! What a configuration says of threads, as the bytes of a `ConfigProto`. Pure.

use std::collections::BTreeMap;

use backend::ModelSource;
use prost::Message;

/// Threads inside an operator.
pub(crate) const INTRA: &str = "TF_NUM_INTRA_THREADS";

/// Threads among operators.
pub(crate) const INTER: &str = "TF_NUM_INTER_THREADS";

/// Which graph, by one of its tags.
pub(crate) const TAG: &str = "TF_GRAPH_TAG";

/// Which signature.
pub(crate) const SIGNATURE: &str = "TF_SIGNATURE_DEF";

/// What a model is loaded with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) tag: Option<String>,
    pub(crate) signature: Option<String>,
    /// 0: as many as TensorFlow finds processors.
    pub(crate) intra_op_threads: u32,
    pub(crate) inter_op_threads: u32,
}

/// The fields of `config.proto` that are set.
#[derive(Clone, PartialEq, prost::Message)]
struct ConfigProto {
    #[prost(int32, tag = "2")]
    intra_op_parallelism_threads: i32,
    #[prost(int32, tag = "5")]
    inter_op_parallelism_threads: i32,
    #[prost(bool, tag = "9")]
    use_per_session_threads: bool,
}

impl Settings {
    /// What the configuration says, else this instance's share of the processors inside an operator, and one thread
    /// among operators.
    pub(crate) fn of(source: &ModelSource) -> Result<Settings, String> {
        let text = |key: &str| source.options.get(key).filter(|it| !it.is_empty()).cloned();
        let share = u32::try_from(source.default_threads.get()).unwrap_or(u32::MAX);
        Ok(Settings {
            tag: text(TAG),
            signature: text(SIGNATURE),
            intra_op_threads: threads(&source.options, INTRA)?.unwrap_or(share),
            inter_op_threads: threads(&source.options, INTER)?.unwrap_or(1),
        })
    }

    /// A serialized `ConfigProto`. Each session has threads of its own: otherwise the first one of the process would
    /// decide for all.
    pub(crate) fn config(&self) -> Vec<u8> {
        let number = |it: u32| i32::try_from(it).unwrap_or(i32::MAX);
        let config = ConfigProto {
            intra_op_parallelism_threads: number(self.intra_op_threads),
            inter_op_parallelism_threads: number(self.inter_op_threads),
            use_per_session_threads: true,
        };
        config.encode_to_vec()
    }
}

/// More is a slip of the pen, and TensorFlow would start them.
const MOST_THREADS: u32 = 1024;

fn threads(options: &BTreeMap<String, String>, key: &str) -> Result<Option<u32>, String> {
    let Some(text) = options.get(key) else { return Ok(None) };
    let number = text.trim().parse::<u32>().ok().filter(|it| *it <= MOST_THREADS);
    let refused = || {
        format!(
            "parameter '{key}' is '{text}'; expected a number of threads up to {MOST_THREADS}, 0 for all processors"
        )
    };
    number.map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn source(options: &[(&str, &str)]) -> ModelSource {
        let options = options.iter().map(|(key, it)| ((*key).to_owned(), (*it).to_owned()));
        let default_threads = NonZeroUsize::new(3).unwrap();
        ModelSource { options: options.collect(), default_threads, ..ModelSource::new("m", "m") }
    }

    #[test]
    fn threads_are_the_share_of_the_processors_unless_the_configuration_says_so() {
        let settings = Settings::of(&source(&[])).unwrap();
        assert_eq!((settings.intra_op_threads, settings.inter_op_threads), (3, 1));
        // Field 2 is 3, field 5 is 1, field 9 is true.
        assert_eq!(settings.config(), [0x10, 3, 0x28, 1, 0x48, 1]);
        let settings = Settings::of(&source(&[(INTRA, "0"), (INTER, "4")])).unwrap();
        assert_eq!((settings.intra_op_threads, settings.inter_op_threads), (0, 4));
    }

    #[test]
    fn what_is_no_number_of_threads_is_named() {
        let problem = Settings::of(&source(&[(INTER, "many")])).unwrap_err();
        assert!(problem.contains(INTER) && problem.contains("'many'"), "{problem}");
        assert!(Settings::of(&source(&[(INTRA, "1025")])).is_err());
    }
}
