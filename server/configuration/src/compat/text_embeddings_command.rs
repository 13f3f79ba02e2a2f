//! The command line and the variables of Text Embeddings Inference: called by its name, or with its `--model-id`,
//! muster understands both and has its defaults.

use std::{
    ffi::{OsStr, OsString},
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::foreign_flags::{self, SPELLINGS};
use crate::{
    environment::{Environment, variable_text},
    flags::FlagTable,
    given::{Given, Origin, Typed},
    report::Notice,
    sources::Sources,
};
use inference::signature::nearest;

/// What the command is called.
const COMMAND: &str = "text-embeddings-router";

/// The option that no other server has.
const MODEL: &str = "model-id";

/// The option that is the beginning of every text.
const PROMPT: &str = "default-prompt";

/// Called by that name, or with that option.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextEmbeddings {
    /// `--model-id`.
    model: Option<OsString>,
    /// Lines about options that do nothing.
    notices: Vec<Notice>,
}

/// What one of its options and the variable of that name become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// A setting of all servers of texts: with the setting's own text.
    Text(&'static str),
    /// A setting of the whole server, with the setting's own text.
    Server(&'static str),
    /// The address of all ports, where it is one; names of machines are passed over, as there.
    Address,
    /// A switch for lines of the log in JSON.
    Json,
    /// The directory of the model.
    Model,
    /// The same, whose text is never shown.
    Secret(&'static str),
    /// Nothing, and why.
    Nothing(&'static str),
    /// Nothing, if the text is this one; else nothing as well, and why.
    NothingBut(&'static str, &'static str),
}

use Means::{Address, Json, Model, Nothing, NothingBut, Secret, Server, Text};

const SPANS: &str =
    "spans go out over HTTP: --trace-config opentelemetry,url=http://host:4318/v1/traces";

/// Option, variable, meaning.
#[rustfmt::skip]
const OPTIONS: &[(&str, &str, Means)] = &[
    (MODEL, "MODEL_ID", Model),
    ("port", "PORT", Server("http-port")),
    ("hostname", "HOSTNAME", Address),
    ("prometheus-port", "PROMETHEUS_PORT", Server("metrics-port")),
    ("payload-limit", "PAYLOAD_LIMIT", Server("http-max-input-size")),
    ("max-concurrent-requests", "MAX_CONCURRENT_REQUESTS", Server("default-max-queue-size")),
    ("json-output", "JSON_OUTPUT", Json),
    ("api-key", "API_KEY", Text("api-key")),
    ("pooling", "POOLING", Text("pooling")),
    ("auto-truncate", "AUTO_TRUNCATE", Text("auto-truncate")),
    ("max-client-batch-size", "MAX_CLIENT_BATCH_SIZE", Text("max-client-batch-size")),
    ("max-batch-tokens", "MAX_BATCH_TOKENS", Text("max-batch-tokens")),
    ("max-batch-requests", "MAX_BATCH_REQUESTS", Text("max-batch-requests")),
    ("tokenization-workers", "TOKENIZATION_WORKERS", Text("tokenization-workers")),
    (PROMPT, "DEFAULT_PROMPT", Text(PROMPT)),
    ("default-prompt-name", "DEFAULT_PROMPT_NAME", Text("default-prompt-name")),
    ("served-model-name", "SERVED_MODEL_NAME", Text("served-model-name")),
    ("revision", "REVISION", Server("hub-revision")),
    ("hf-token", "HF_TOKEN", Secret("hub-token")),
    ("hf-api-token", "HF_API_TOKEN", Secret("hub-token")),
    ("huggingface-hub-cache", "HUGGINGFACE_HUB_CACHE", Server("hub-cache-dir")),
    ("dtype", "DTYPE", Nothing("the graph has its types")),
    ("dense-path", "DENSE_PATH", Nothing("modules.json names the dense layers")),
    ("device-id", "DEVICE_ID", NothingBut("0", "CUDA_VISIBLE_DEVICES says which GPUs are used")),
    ("uds-path", "UDS_PATH", Nothing("models run in this process")),
    ("disable-spans", "DISABLE_SPANS", Nothing("lines of the log have no spans")),
    ("otlp-endpoint", "OTLP_ENDPOINT", Nothing(SPANS)),
    ("otlp-service-name", "OTLP_SERVICE_NAME", Nothing(SPANS)),
    ("cors-allow-origin", "CORS_ALLOW_ORIGIN", Server("cors-allow-origin")),
];

/// Options that may stand alone.
const SWITCHES: [&str; 3] = ["auto-truncate", "json-output", "disable-spans"];

/// Its defaults, where muster's are others.
const DEFAULTS: [(&str, &str); 11] = [
    ("allow-http", "true"),
    ("http-port", "3000"),
    ("allow-grpc", "false"),
    ("allow-sagemaker", "false"),
    ("allow-metrics", "true"),
    ("metrics-port", "9000"),
    ("metrics-names", "tei"),
    ("tei-root", "true"),
    ("max-client-batch-size", "32"),
    ("http-max-input-size", "2000000"),
    // Its key is for the model alone.
    ("auth-open", "health,metrics"),
];

/// Takes its name and its options out of the arguments, program name first; what is left is muster's own. `None` where
/// the program was not called by that name, and nothing names a model as there.
pub fn take(
    args: &mut Vec<OsString>,
    flags: &FlagTable,
    problems: &mut Vec<String>,
) -> Option<(TextEmbeddings, Vec<Typed>)> {
    let is_name = |it: &OsString| Path::new(it).file_name() == Some(OsStr::new(COMMAND));
    // An image whose entry point is muster gets the name as its first argument, or the options alone.
    if args.get(1).is_some_and(is_name) {
        args.remove(1);
    } else if !args.first().is_some_and(is_name) && !names_model(args) {
        return None;
    }
    let mut found = TextEmbeddings::default();
    let (mut typed, mut others) = (Vec::new(), Vec::new());
    let mut all = std::mem::take(args).into_iter().peekable();
    others.extend(all.next());
    while let Some(argument) = all.next() {
        let text = argument.to_string_lossy().into_owned();
        let Some((given, value)) = option(&text) else {
            others.push(argument);
            continue;
        };
        let Some((name, _, means)) = OPTIONS.iter().find(|it| it.0 == given) else {
            let of_all = SPELLINGS.iter().map(|it| it.0).chain(["help", "help-all", "version"]);
            match flags.all_names().chain(of_all).any(|it| it == given) {
                true => others.push(argument),
                false => problems.push(unknown(given, flags)),
            }
            continue;
        };
        let may_stand_alone = SWITCHES.contains(name);
        let is_value = |it: &OsString| !may_stand_alone || *it == "true" || *it == "false";
        let value = match value {
            Some(value) => value.into(),
            None => match all.next_if(is_value) {
                Some(value) => value,
                None if may_stand_alone => "true".into(),
                None => {
                    problems.push(format!("option --{name} needs a value"));
                    continue;
                }
            },
        };
        found.option(name, *means, value, &mut typed);
    }
    *args = others;
    Some((found, typed))
}

/// Do only options follow the program's name, one of them that names a model as there?
fn names_model(args: &[OsString]) -> bool {
    let is_model = |it: &OsString| option(&it.to_string_lossy()).is_some_and(|it| it.0 == MODEL);
    let begins = args.get(1).is_some_and(|it| it.to_string_lossy().starts_with('-'));
    begins && args.iter().any(is_model)
}

/// The name of an option, and its value where that stands behind `=`.
fn option(text: &str) -> Option<(&str, Option<&str>)> {
    match text.strip_prefix("--") {
        Some(bare) => Some(match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        }),
        None => {
            let value = text.strip_prefix("-p")?;
            let value = value.strip_prefix('=').unwrap_or(value);
            Some(("port", Some(value).filter(|it| !it.is_empty())))
        }
    }
}

fn unknown(name: &str, flags: &FlagTable) -> String {
    let near = nearest(name, OPTIONS.iter().map(|it| it.0).chain(flags.all_names()));
    let hint = foreign_flags::advice(&format!("--{name}")).unwrap_or_else(|| {
        near.map_or("muster --help-all lists muster's own".to_owned(), |it| {
            format!("did you mean --{it}?")
        })
    });
    format!("unknown option --{name} of {COMMAND}; {hint}")
}

impl TextEmbeddings {
    /// One of its options.
    fn option(
        &mut self,
        name: &'static str,
        means: Means,
        value: OsString,
        typed: &mut Vec<Typed>,
    ) {
        if means == Model {
            self.model = Some(value);
            return;
        }
        let text = value.to_string_lossy();
        let is_own = means == Text(name);
        let shown = if matches!(means, Secret(_)) { "" } else { &*text };
        let spelled = (!is_own).then(|| format!("--{name}={shown} (command line)"));
        match means.setting(&text) {
            Ok((setting, text)) => {
                // A text that is no UTF-8 is refused with those of all settings.
                let value = if is_own { value } else { text.into() };
                typed.push(Typed { name: setting, value, spelled });
            }
            Err(why) => {
                let notice = |why| Notice::info(format!("without effect ({why}): --{name}"));
                self.notices.extend(why.map(notice));
            }
        }
    }

    /// The directory of the model, where one is named: on the command line, else by `MODEL_ID`.
    pub fn model(
        &self,
        environment: &dyn Environment,
        problems: &mut Vec<String>,
    ) -> Option<PathBuf> {
        let typed = || self.model.clone().map(PathBuf::from);
        typed().or_else(|| variable_text(environment, "MODEL_ID", problems).map(PathBuf::from))
    }

    /// Settings that are not given have the texts of its variables, else its defaults.
    pub fn offer(
        &self,
        sources: &mut Sources<'_>,
        environment: &dyn Environment,
        problems: &mut Vec<String>,
    ) {
        sources.notices.extend(self.notices.iter().cloned());
        offer_variables(|_| true, sources, environment, problems);
        let origin = || Origin::Other(format!("default of {COMMAND}"));
        let default =
            |(name, text): (&'static str, &str)| Given::new(name, text.to_owned(), origin());
        sources.offer(DEFAULTS.map(default).into());
        // Replies call the model what the command line does.
        let model = self.model(environment, &mut Vec::new());
        let name = model.and_then(|it| it.into_os_string().into_string().ok());
        sources.offer(
            name.map(|it| Given::new("served-model-name", it, origin())).into_iter().collect(),
        );
    }
}

impl Means {
    /// The setting and its text; else why it has no effect, where that is worth a line.
    fn setting(self, text: &str) -> Result<(&'static str, String), Option<&'static str>> {
        match self {
            Text(setting) | Server(setting) | Secret(setting) => Ok((setting, text.to_owned())),
            Address if text.parse::<IpAddr>().is_ok() => Ok(("http-address", text.to_owned())),
            Address => Err(Some("it is no address, so that all are listened on")),
            Json if text == "true" => Ok(("log-format", "json".to_owned())),
            Json | Model => Err(None),
            NothingBut(usual, _) if text == usual => Err(None),
            Nothing(why) | NothingBut(_, why) => Err(Some(why)),
        }
    }
}

/// Where a task of embeddings is named: settings of texts that are not given have the texts of its variables.
pub fn offer_of_task(
    sources: &mut Sources<'_>,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) {
    let is_embedding = sources.last("task").is_some_and(|it| it.text.ends_with("-embedding"));
    if is_embedding {
        offer_variables(|means| matches!(means, Text(_)), sources, environment, problems);
    }
}

/// Offers the texts of its variables that are wanted, with one line for those that count.
fn offer_variables(
    is_wanted: fn(Means) -> bool,
    sources: &mut Sources<'_>,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) {
    let mut applied = Vec::new();
    for &(_, variable, means) in OPTIONS.iter().filter(|it| is_wanted(it.2)) {
        let Some(text) = variable_text(environment, variable, problems) else { continue };
        // A prompt may end in a blank.
        let whole = environment.variable(variable).and_then(|it| it.into_string().ok());
        let text = whole.filter(|_| means == Text(PROMPT)).unwrap_or(text);
        match means.setting(&text) {
            Ok((setting, value)) => {
                let counts = sources.last(setting).is_none();
                let given = Given::new(setting, value, Origin::Foreign(variable, text));
                sources.offer(vec![given]);
                let shown = sources.last(setting).filter(|_| counts).map(Given::shown);
                applied.extend(shown.map(|it| format!("{variable}: --{setting} {it}")));
            }
            // Every container has the name of a machine there.
            Err(_) if means == Address => {}
            Err(why) => {
                let notice = |why| Notice::info(format!("without effect ({why}): {variable}"));
                sources.notices.extend(why.map(notice));
            }
        }
    }
    if !applied.is_empty() {
        let text = format!("applied from the environment: {}", applied.join("; "));
        sources.notices.push(Notice::info(text));
    }
}

/// What to do in place of one of its options, where the program has another name; `None` where it is no option of its
/// own.
pub(crate) fn in_words(name: &str) -> Option<String> {
    let means = OPTIONS.iter().find(|it| it.0 == name)?.2;
    let own = match means {
        Text(one) | Server(one) | Secret(one) => format!("here it is --{one}"),
        Address => "here it is --http-address".to_owned(),
        Json => "here it is --log-format=json".to_owned(),
        Model => "in its place: the model follows the word: muster serve MODEL".to_owned(),
        Nothing(why) | NothingBut(_, why) => format!("muster has none like it: {why}"),
    };
    Some(format!(
        "{own}. `muster {COMMAND}` takes the options of Text Embeddings Inference as they are"
    ))
}

/// Every option, and the settings that it may be about, those of its defaults at the end: for a test that there are
/// such flags.
pub fn meant_settings() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let of_options = OPTIONS.iter().map(|(name, _, means)| match *means {
        Text(one) | Server(one) | Secret(one) => (*name, vec![one]),
        Address => (*name, vec!["http-address"]),
        Json => (*name, vec!["log-format"]),
        Model | Nothing(_) | NothingBut(..) => (*name, vec![]),
    });
    of_options.chain(DEFAULTS.iter().map(|it| (it.0, vec![it.0])))
}
