//! `--tensorflow-onednn`: does TensorFlow use oneDNN? It reads that from the environment when it is opened, so it is
//! decided before the process has a second thread, from the command line and the environment alone.

use std::ffi::OsString;

use super::{
    engines::{ONEDNN, OneDnnWord, onednn_word},
    flags,
};
use configuration::{
    Environment, Sources,
    command_line::{self, Parsed},
    gather, value,
};

/// What TensorFlow itself reads.
const VARIABLE: &str = "TF_ENABLE_ONEDNN_OPTS";

/// Does TensorFlow use oneDNN, and why?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneDnn {
    /// Does it?
    pub is_on: bool,
    /// The reason, for the log.
    pub reason: String,
}

/// What holds in a process with that command line, program name first, and that environment. Mistakes in them are said
/// where the whole configuration is read.
pub fn onednn(args: impl IntoIterator<Item = OsString>, environment: &dyn Environment) -> OneDnn {
    let flags = flags::table();
    let problems = &mut Vec::new();
    let typed = match command_line::parse(args.into_iter().collect(), &flags, problems) {
        Parsed::Serve(serve) => serve.settings,
        _ => Vec::new(),
    };
    of(&gather(&typed, &flags, environment, problems), environment)
}

fn of(sources: &Sources, environment: &dyn Environment) -> OneDnn {
    let text = environment.variable(VARIABLE).and_then(|it| it.into_string().ok());
    if let Some(text) = text.filter(|it| !it.is_empty()) {
        let is_off = ["0", "false"].contains(&&*text.to_ascii_lowercase());
        return OneDnn { is_on: !is_off, reason: format!("{VARIABLE}={text} (environment)") };
    }
    let given = sources.last(ONEDNN).map(ToString::to_string).unwrap_or_default();
    match sources.read(ONEDNN, onednn_word, &mut Vec::new()).unwrap_or_default() {
        OneDnnWord::On => OneDnn { is_on: true, reason: given },
        OneDnnWord::Off => OneDnn { is_on: false, reason: given },
        OneDnnWord::Auto => match comings_and_goings(sources) {
            Some(why) => OneDnn {
                is_on: false,
                reason: format!("{why}, and the memory of models comes back only without it"),
            },
            None => OneDnn { is_on: true, reason: "models stay loaded".to_owned() },
        },
    }
}

/// The setting by which models are unloaded while the server runs. Versions of named models that follow each other are
/// none: the next one takes the memory that the last one had.
fn comings_and_goings(sources: &Sources) -> Option<String> {
    let is_on = |name| sources.read(name, value::boolean, &mut Vec::new()) == Some(true);
    let is_mode = |it: &&str| matches!(&*it.to_ascii_lowercase(), "poll" | "explicit");
    let mode = sources.last("model-control-mode");
    let given = ["sagemaker-multi-model", "model-load-on-demand", "watch"]
        .into_iter()
        .find(|it| is_on(*it));
    let given = given.or_else(|| sources.last("model-memory-budget").map(|it| it.name));
    let given = given.or_else(|| mode.filter(|it| is_mode(&&*it.text)).map(|it| it.name));
    given.and_then(|it| sources.last(it)).map(|it| format!("models come and go by {it}"))
}
