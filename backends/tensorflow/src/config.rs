//! What a configuration says of threads, precision and the graph, as the bytes of a `ConfigProto`. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZeroUsize,
};

use backend::ModelSource;
use prost::Message;

use crate::saved_model::{GraphChoice, Overrides};

/// The variable in which TensorFlow reads whether it uses oneDNN.
pub(crate) const ONEDNN: &str = "TF_ENABLE_ONEDNN_OPTS";

/// Threads inside an operator.
pub(crate) const INTRA: &str = "TF_NUM_INTRA_THREADS";

/// Threads among operators.
pub(crate) const INTER: &str = "TF_NUM_INTER_THREADS";

/// Which graph, by one of its tags.
pub(crate) const TAG: &str = "TF_GRAPH_TAG";

/// Which signature.
pub(crate) const SIGNATURE: &str = "TF_SIGNATURE_DEF";

/// In which precision operators calculate.
pub(crate) const PRECISION: &str = "TF_MIXED_PRECISION";

/// Whether each session has threads of its own, as it always has here.
pub(crate) const OWN_THREADS: &str = "TF_USE_PER_SESSION_THREADS";

/// Operations that another server runs when it has loaded the graph.
const FIRST_OPERATIONS: &str = "TF_INIT_OPS_FILE";

/// Instances that share a session, at most.
pub(crate) const SHARE: &str = "MAX_SESSION_SHARE_COUNT";

/// A parameter of a model's configuration that cannot be heeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParameterError {
    name: &'static str,
    given: String,
    /// What would do, or what to do instead.
    remedy: String,
}

impl ParameterError {
    fn new(name: &'static str, given: &str, remedy: impl fmt::Display) -> ParameterError {
        ParameterError { name, given: given.to_owned(), remedy: remedy.to_string() }
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParameterError { name, given, remedy } = self;
        write!(f, "parameter '{name}' is '{given}'{remedy}")
    }
}

impl std::error::Error for ParameterError {}

/// What holds for all models.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    /// Sessions of a model that does not say how many instances share one; `None` for one.
    pub(crate) sessions: Option<NonZeroUsize>,
    /// How often each request of a warm-up file is run.
    pub(crate) warm_up_iterations: usize,
    /// May a signature be classified or regressed with only where its file says that it is for that?
    pub(crate) checks_methods: bool,
    /// The tags of the graph of a model that does not say; empty for the usual one.
    pub(crate) tags: BTreeSet<String>,
    /// Do the operators that can calculate in bfloat16, where a model does not say?
    pub(crate) is_bfloat16: bool,
}

/// What a model is loaded with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionSettings {
    pub(crate) graph: GraphChoice,
    pub(crate) signature: Option<String>,
    /// 0: as many as TensorFlow finds processors.
    pub(crate) intra_op_threads: u32,
    pub(crate) inter_op_threads: u32,
    /// Do the operators that can calculate in bfloat16?
    pub(crate) is_bfloat16: bool,
    /// Instances that share a session, at most.
    pub(crate) share: NonZeroUsize,
    /// Sessions of the instances that are planned.
    pub(crate) sessions: usize,
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
    #[prost(message, optional, tag = "10")]
    graph_options: Option<GraphOptions>,
}

/// `GraphOptions`.
#[derive(Clone, PartialEq, prost::Message)]
struct GraphOptions {
    #[prost(message, optional, tag = "10")]
    rewrite_options: Option<RewriterConfig>,
}

/// `RewriterConfig`.
#[derive(Clone, PartialEq, prost::Message)]
struct RewriterConfig {
    #[prost(bool, tag = "19")]
    disable_meta_optimizer: bool,
    /// A `Toggle`.
    #[prost(int32, tag = "31")]
    auto_mixed_precision_onednn_bfloat16: i32,
}

/// `Toggle.ON`.
const ON: i32 = 1;

impl SessionSettings {
    /// What the configuration says, else what holds for all models: so many sessions, or one that all instances share
    /// where that is `None`; the processors of the instances that share a session inside an operator, and one thread
    /// among operators.
    ///
    /// # Errors
    /// A parameter that cannot be read, or that a right answer would need and that is not heeded here.
    pub(crate) fn of(
        source: &ModelSource,
        defaults: &Defaults,
    ) -> Result<SessionSettings, ParameterError> {
        let text = |key: &str| source.options.get(key).filter(|it| !it.is_empty()).cloned();
        let instances: usize = source.placements.iter().map(|it| it.instances.get()).sum();
        if let Some(file) = text(FIRST_OPERATIONS) {
            return Err(ParameterError::new(
                FIRST_OPERATIONS,
                &file,
                ", and operations are not run before a model serves but for the SavedModel's own initialiser: write \
                 the model so that this does what is needed, and take the parameter out",
            ));
        }
        let share = match (share(&source.options)?, defaults.sessions) {
            (Some(share), _) => share,
            (None, Some(sessions)) => one_or(instances.div_ceil(sessions.get())),
            (None, None) => NonZeroUsize::MAX,
        };
        let together = one_or(instances).min(share);
        let own = source.default_threads.saturating_mul(together);
        let own = u32::try_from(own.get()).unwrap_or(u32::MAX).min(MOST_THREADS);
        Ok(SessionSettings {
            graph: match text(TAG) {
                Some(tag) => GraphChoice::Tag(tag),
                None if defaults.tags.is_empty() => GraphChoice::Usual,
                None => GraphChoice::Tags(defaults.tags.clone()),
            },
            signature: text(SIGNATURE),
            intra_op_threads: threads(&source.options, INTRA)?.unwrap_or(own),
            inter_op_threads: threads(&source.options, INTER)?.unwrap_or(1),
            is_bfloat16: precision(&source.options)?.unwrap_or(defaults.is_bfloat16),
            share,
            sessions: instances.div_ceil(share.get()),
        })
    }

    /// A serialized `ConfigProto`. Each session has threads of its own: otherwise the first one of the process would
    /// decide for all. `overrides`: what the SavedModel says of its own session.
    pub(crate) fn config(&self, overrides: &Overrides) -> Vec<u8> {
        let number = |it: u32| i32::try_from(it).unwrap_or(i32::MAX);
        let rewrites = RewriterConfig {
            disable_meta_optimizer: overrides.disables_meta_optimizer,
            auto_mixed_precision_onednn_bfloat16: if self.is_bfloat16 { ON } else { 0 },
        };
        let are_usual = rewrites == RewriterConfig::default();
        let config = ConfigProto {
            intra_op_parallelism_threads: number(self.intra_op_threads),
            inter_op_parallelism_threads: number(self.inter_op_threads),
            use_per_session_threads: true,
            graph_options: (!are_usual).then_some(GraphOptions { rewrite_options: Some(rewrites) }),
        };
        config.encode_to_vec()
    }
}

/// More is a slip of the pen, and TensorFlow would start them.
const MOST_THREADS: u32 = 1024;

fn threads(
    options: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Option<u32>, ParameterError> {
    let Some(text) = options.get(key) else { return Ok(None) };
    let number = text.trim().parse::<u32>().ok().filter(|it| *it <= MOST_THREADS);
    let refused = || {
        let expected = format_args!(
            "; expected a number of threads up to {MOST_THREADS}, 0 for all processors"
        );
        ParameterError::new(key, text, expected)
    };
    number.map(Some).ok_or_else(refused)
}

fn share(options: &BTreeMap<String, String>) -> Result<Option<NonZeroUsize>, ParameterError> {
    let Some(text) = options.get(SHARE) else { return Ok(None) };
    let count = text.trim().parse().map_err(|_| {
        ParameterError::new(SHARE, text, "; expected how many instances share a session, from 1")
    });
    count.map(Some)
}

/// Is a model to run in the threads of other models, which it does not?
pub(crate) fn shares_threads(source: &ModelSource) -> bool {
    let text = source.options.get(OWN_THREADS).map(|it| it.trim().to_ascii_lowercase());
    text.is_some_and(|it| ["0", "false", "no", "off"].contains(&&*it))
}

fn precision(options: &BTreeMap<String, String>) -> Result<Option<bool>, ParameterError> {
    let Some(text) = options.get(PRECISION) else { return Ok(None) };
    match &*text.trim().to_ascii_lowercase() {
        "off" => Ok(Some(false)),
        "bfloat16" => Ok(Some(true)),
        _ => Err(ParameterError::new(PRECISION, text, "; expected off or bfloat16")),
    }
}

fn one_or(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{Device, Placement};

    fn source(options: &[(&str, &str)]) -> ModelSource {
        let options = options.iter().map(|(key, it)| ((*key).to_owned(), (*it).to_owned()));
        let default_threads = NonZeroUsize::new(3).unwrap();
        ModelSource { options: options.collect(), default_threads, ..ModelSource::new("m", "m") }
    }

    fn defaults(sessions: usize) -> Defaults {
        Defaults {
            sessions: NonZeroUsize::new(sessions),
            warm_up_iterations: 1,
            checks_methods: false,
            tags: BTreeSet::new(),
            is_bfloat16: false,
        }
    }

    fn of(options: &[(&str, &str)]) -> Result<SessionSettings, ParameterError> {
        SessionSettings::of(&source(options), &defaults(0))
    }

    #[test]
    fn threads_are_the_share_of_the_processors_unless_the_configuration_says_so() {
        let settings = of(&[]).unwrap();
        assert_eq!((settings.intra_op_threads, settings.inter_op_threads), (3, 1));
        // Field 2 is 3, field 5 is 1, field 9 is true.
        let plain = settings.config(&Overrides::default());
        assert_eq!(plain, [0x10, 3, 0x28, 1, 0x48, 1]);
        let disabled = Overrides { disables_meta_optimizer: true, ignored: Vec::new() };
        // Field 10 of field 10 has true in its field 19.
        let more = [0x52, 5, 0x52, 3, 0x98, 0x01, 1];
        assert_eq!(settings.config(&disabled), [&plain[..], &more].concat());
        let settings = of(&[(INTRA, "0"), (INTER, "4")]).unwrap();
        assert_eq!((settings.intra_op_threads, settings.inter_op_threads), (0, 4));
    }

    #[test]
    fn what_is_no_number_of_threads_is_named() {
        let problem = of(&[(INTER, "many")]).unwrap_err().to_string();
        assert!(problem.contains(INTER) && problem.contains("'many'"), "{problem}");
        assert!(of(&[(INTRA, "1025")]).is_err());
    }

    #[test]
    fn operators_calculate_in_bfloat16_where_the_model_or_else_the_server_says_so() {
        let plain = of(&[]).unwrap().config(&Overrides::default());
        let half = of(&[(PRECISION, "bfloat16")]).unwrap();
        // Field 10 of field 10 has ON in its field 31.
        let more = [0x52, 5, 0x52, 3, 0xf8, 0x01, 1];
        assert_eq!(half.config(&Overrides::default()), [&plain[..], &more].concat());
        let all = Defaults { is_bfloat16: true, ..defaults(0) };
        let settings = |own: &[(&str, &str)]| SessionSettings::of(&source(own), &all).unwrap();
        assert!(settings(&[]).is_bfloat16 && !settings(&[(PRECISION, "off")]).is_bfloat16);
        let problem = of(&[(PRECISION, "float16")]).unwrap_err().to_string();
        let parts = [PRECISION, "'float16'", "off or bfloat16"];
        assert!(parts.iter().all(|it| problem.contains(it)), "{problem}");
    }

    #[test]
    fn the_tag_of_the_model_goes_before_those_of_the_server() {
        let tags: BTreeSet<String> = ["serve".to_owned(), "gpu".to_owned()].into();
        let all = Defaults { tags: tags.clone(), ..defaults(0) };
        let graph = |own: &[(&str, &str)]| SessionSettings::of(&source(own), &all).unwrap().graph;
        assert_eq!(graph(&[]), GraphChoice::Tags(tags.clone()));
        assert_eq!(graph(&[(TAG, "tpu")]), GraphChoice::Tag("tpu".to_owned()));
        assert_eq!(of(&[]).unwrap().graph, GraphChoice::Usual);
    }

    #[test]
    fn operations_that_are_to_run_first_are_refused_with_what_to_do() {
        let problem = of(&[(FIRST_OPERATIONS, "init.json")]).unwrap_err().to_string();
        let parts = [FIRST_OPERATIONS, "init.json", "take the parameter out"];
        assert!(parts.iter().all(|it| problem.contains(it)), "{problem}");
    }

    #[test]
    fn instances_share_a_session_and_its_processors_unless_there_are_to_be_several() {
        let check = |options: &[(&str, &str)], sessions, expected: (usize, usize, u32)| {
            let mut source = source(options);
            let instances = NonZeroUsize::new(5).unwrap();
            source.placements = vec![Placement { device: Device::Cpu, instances }];
            let it = SessionSettings::of(&source, &defaults(sessions)).unwrap();
            let found = (it.share.get(), it.sessions, it.intra_op_threads);
            assert_eq!(found, expected, "{options:?} {sessions}");
        };
        check(&[], 0, (usize::MAX, 1, 15));
        check(&[(SHARE, "2")], 0, (2, 3, 6));
        check(&[(SHARE, "9")], 3, (9, 1, 15));
        check(&[], 2, (3, 2, 9));
        check(&[], 20, (1, 5, 3));
        check(&[(SHARE, "1"), (INTRA, "1")], 0, (1, 5, 1));
        for wrong in ["0", "-1", "all"] {
            let problem = of(&[(SHARE, wrong)]).unwrap_err().to_string();
            assert!(problem.contains(SHARE) && problem.contains(wrong), "{problem}");
        }
    }
}
