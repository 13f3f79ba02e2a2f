//! How models come and go: which are loaded when, and by whom.

use std::{path::PathBuf, time::Duration};

use super::{
    hosted_start::HostedStart,
    multi_model::MultiModel,
    named_models::{self, LabelRule},
};
use configuration::{
    Environment, Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("model-control-mode", "none", "none: all models are loaded at the start. poll: the repository is looked at again and again. explicit: models are loaded by request").named("MODE"),
    Flag::boolean("watch", "false", "Load again what changes on disk: the control mode poll, which then looks every second unless --repository-poll-secs says otherwise"),
    Flag::value("repository-poll-secs", "15", "How often the control mode poll looks at the repository. A change is taken up at the second look that finds it the same").named("SECONDS"),
    Flag::many("load-model", "A model to load at the start in the control mode explicit; * for all").named("NAME"),
    Flag::boolean("model-namespacing", "false", "Models of several repositories may have the same name; none of them is found by that name alone"),
    Flag::value("model-load-retry-count", "0", "How often a load that failed is tried again").named("COUNT"),
    Flag::boolean("model-load-on-demand", "false", "A request for a model that is not loaded loads it; with the control modes none, which then loads nothing at the start, and explicit"),
    Flag::value("model-memory-budget", "", "Bytes that models loaded on demand may take together; those unused for longest are unloaded to make room. Default: no limit. Of a multi-model endpoint: what models may take before a load is refused").named("BYTES"),
];

/// Where what comes with a request to load a model is kept, if the environment says nothing else.
const SCRATCH: &str = "/tmp";

/// How often the directories of models that are named are looked at, if nothing is said.
const NAMED_EVERY: Duration = Duration::from_secs(1);

/// How models come and go.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelControl {
    /// `--model-control-mode`, and what belongs to the mode.
    pub mode: ControlMode,
    /// `--model-namespacing`: may models of several repositories have one name?
    pub namespacing: bool,
    /// `--model-load-retry-count`: how often a load that failed is tried again.
    pub retries: usize,
    /// `--model-load-on-demand`: a request for a model that is not loaded loads it.
    pub on_demand: Option<OnDemand>,
    /// `--sagemaker-multi-model`: models come and go as a platform says, and in no other way.
    pub multi_model: Option<MultiModel>,
    /// Which models of a platform's folder are loaded at the start; `None` where `mode` says it all.
    pub hosted: Option<HostedStart>,
    /// `TMPDIR`: where files that come with a request to load a model are kept.
    pub scratch: PathBuf,
    /// Which versions labels may stand for.
    pub labels: LabelRule,
}

/// When models are loaded.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlMode {
    /// At the start, and never again.
    None,
    /// Whenever the repository changes, which is looked at so often.
    Poll(Duration),
    /// By request, and these at the start.
    Explicit(AtStart),
}

/// Which models are loaded at the start.
#[derive(Debug, Clone, PartialEq)]
pub enum AtStart {
    /// `--load-model=*`.
    All,
    /// `--load-model`, each a name.
    These(Vec<String>),
}

/// How models are loaded by requests for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnDemand {
    /// `--model-memory-budget`: bytes that all models may take together; `None` for any number.
    pub budget: Option<u64>,
}

impl ModelControl {
    /// May models be loaded and unloaded by request?
    pub fn is_explicit(&self) -> bool {
        matches!(self.mode, ControlMode::Explicit(_))
    }

    /// Models come and go by the platform's requests, and in no other way.
    pub fn set_multi_model(&mut self, multi_model: MultiModel) {
        self.mode = ControlMode::None;
        self.on_demand = None;
        self.multi_model = Some(multi_model);
    }
}

/// Reads the settings, but for those of multi-model endpoints. `are_named`: the models are named one by one.
/// `is_multi_model`: it is to be such an endpoint.
pub fn resolve(
    are_named: bool,
    sources: &Sources,
    environment: &dyn Environment,
    is_multi_model: bool,
    problems: &mut Vec<String>,
) -> ModelControl {
    let given = sources.read("model-control-mode", control_mode, problems);
    let watches = sources.read("watch", value::boolean, problems).unwrap_or(false);
    let word = if watches { watched_mode(given, sources, problems) } else { given };
    let names = sources.read_all("load-model", value::text, problems);
    let interval = sources
        .read("repository-poll-secs", value::seconds_above_zero, problems)
        .unwrap_or(if watches { WATCHED_EVERY } else { Duration::from_secs(15) });
    let followed = sources.read("file-system-poll-wait-seconds", value::seconds, problems);
    let mode = match word.unwrap_or_default() {
        _ if are_named => named_mode(word, followed, sources, problems),
        ModeWord::None => ControlMode::None,
        ModeWord::Poll => ControlMode::Poll(interval),
        ModeWord::Explicit => ControlMode::Explicit(match names.as_slice() {
            [all] if all == "*" => AtStart::All,
            _ => AtStart::These(names.clone()),
        }),
    };
    match mode {
        ControlMode::Explicit(AtStart::These(_)) => {
            problems.extend(sources.all("load-model").iter().filter(|it| it.text == "*").map(
                |it| format!("{it}: expected no other --load-model, as '*' means all models"),
            ));
        }
        ControlMode::Explicit(AtStart::All) => {}
        ControlMode::None | ControlMode::Poll(_) if is_multi_model => {}
        ControlMode::None | ControlMode::Poll(_) => {
            let named = sources.all("load-model").iter().filter(|it| !it.text.is_empty());
            problems.extend(named.map(|it| {
                format!(
                    "{it}: needs --model-control-mode=explicit; without it all models of the repository are \
                     loaded"
                )
            }));
        }
    }
    let demanded = sources.read("model-load-on-demand", value::boolean, problems).unwrap_or(false);
    let budget = sources.read("model-memory-budget", value::bytes_from_one, problems);
    let is_used = demanded || is_multi_model;
    if let (Some(given), Some(_), false) = (sources.last("model-memory-budget"), budget, is_used) {
        problems.push(format!(
            "{given}: needs --model-load-on-demand=true (or --sagemaker-multi-model=true), as a model that is unloaded to make room must come \
             back when it is asked for"
        ));
    }
    if let (Some(given), ControlMode::Poll(_)) = (sources.last("model-load-on-demand"), &mode)
        && demanded
        && !is_multi_model
    {
        problems.push(format!(
            "{given}: expected --model-control-mode none or explicit; poll loads every model that there is"
        ));
    }
    ModelControl {
        mode,
        namespacing: sources.read("model-namespacing", value::boolean, problems).unwrap_or(false),
        retries: sources.read("model-load-retry-count", value::number, problems).unwrap_or(0),
        on_demand: demanded.then_some(OnDemand { budget }),
        multi_model: None,
        hosted: None,
        scratch: environment
            .variable("TMPDIR")
            .filter(|it| !it.is_empty())
            .map_or(SCRATCH.into(), PathBuf::from),
        labels: named_models::labels(sources, problems),
    }
}

/// How often `--watch` looks.
const WATCHED_EVERY: Duration = Duration::from_secs(1);

/// The control mode with `--watch`, beside which no other one makes sense.
fn watched_mode(
    given: Option<ModeWord>,
    sources: &Sources,
    problems: &mut Vec<String>,
) -> Option<ModeWord> {
    if given.is_some_and(|it| it != ModeWord::Poll)
        && let (Some(watch), Some(mode)) =
            (sources.last("watch"), sources.last("model-control-mode"))
    {
        problems
            .push(format!("{watch}: expected no control mode but poll beside it, given {mode}"));
    }
    Some(ModeWord::Poll)
}

/// The control mode for models that are named: they are followed, unless that was switched off.
fn named_mode(
    given: Option<ModeWord>,
    every: Option<Duration>,
    sources: &Sources,
    problems: &mut Vec<String>,
) -> ControlMode {
    match (given, every) {
        (Some(ModeWord::Explicit), _) => {
            problems.extend(sources.last("model-control-mode").map(|it| {
                format!("{it}: expected none or poll where models are named; clients change them by request to reload")
            }));
            ControlMode::None
        }
        (Some(ModeWord::None), _) | (_, Some(Duration::ZERO)) => ControlMode::None,
        (Some(ModeWord::Poll) | None, every) => ControlMode::Poll(every.unwrap_or(NAMED_EVERY)),
    }
}

/// `--model-control-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ModeWord {
    #[default]
    None,
    Poll,
    Explicit,
}

fn control_mode(text: &str) -> Parse<ModeWord> {
    match &*text.to_ascii_lowercase() {
        "none" => Ok(ModeWord::None),
        "poll" => Ok(ModeWord::Poll),
        "explicit" => Ok(ModeWord::Explicit),
        _ => Err("none, poll or explicit".to_owned()),
    }
}
