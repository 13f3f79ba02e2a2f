//! Which text counts for which setting: the command line, then `MUSTER_*`, then foreign variables.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
};

use super::{
    command_line::Typed,
    environment::Environment,
    flags::{self, Setting, Takes},
    foreign,
    report::Notice,
    value::Parse,
};
use inference::signature::nearest;

/// Where a value came from. Its text goes in front of the value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Origin {
    CommandLine,
    /// `MUSTER_HTTP_PORT`.
    Own(String),
    /// Another container's variable, and its own text, which need not be the setting's.
    Foreign(&'static str, String),
    /// Another server's spelling, file or default: all that is to be said of it.
    Other(String),
    /// The default of Triton, whose name the program was called by.
    Triton,
}

/// Defaults of Triton that are others here, and that its users would miss.
const TRITONS: [(&str, &str); 2] = [("allow-sagemaker", "false"), ("log-format", "default")];

/// A text for a setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) origin: Origin,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = flags::shown(self.name, &self.text);
        match &self.origin {
            Origin::CommandLine => write!(f, "--{} '{text}' (command line)", self.name),
            Origin::Other(text) => write!(f, "{text}, for --{}", self.name),
            Origin::Triton => write!(f, "--{} '{text}' (default of tritonserver)", self.name),
            Origin::Own(variable) => write!(f, "{variable}='{text}' (environment)"),
            Origin::Foreign(variable, text) => {
                write!(f, "{variable}='{text}' (environment, for --{})", self.name)
            }
        }
    }
}

/// The texts that count, by setting, and what to say about the others.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Never empty vectors; more than one text only where the setting takes many.
    given: HashMap<&'static str, Vec<Given>>,
    /// Texts for settings for which a better source gave some.
    lost: Vec<Given>,
    pub(super) notices: Vec<Notice>,
}

impl Sources {
    /// The texts for a setting, all of one origin.
    pub(super) fn all(&self, name: &str) -> &[Given] {
        self.given.get(name).map_or(&[], |it| &**it)
    }

    /// The text for a setting that takes one.
    pub(super) fn last(&self, name: &str) -> Option<&Given> {
        self.all(name).last()
    }

    /// The value of a setting; a text that does not parse goes to `problems` and is as good as none.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        parse: fn(&str) -> Parse<T>,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        debug_assert!(flags::setting(name).is_some(), "{name} is in the table");
        // Nobody sees what is wrong with a foreign variable that does not count, until one day it does.
        let is_foreign = |it: &&Given| matches!(it.origin, Origin::Foreign(..));
        for it in self.lost.iter().filter(|it| it.name == name).filter(is_foreign) {
            let _ = read_one(it, parse, problems);
        }
        self.last(name).and_then(|it| read_one(it, parse, problems))
    }

    /// The values of a setting that takes many.
    pub(super) fn read_all<T>(
        &self,
        name: &'static str,
        parse: fn(&str) -> Parse<T>,
        problems: &mut Vec<String>,
    ) -> Vec<T> {
        self.all(name).iter().filter_map(|it| read_one(it, parse, problems)).collect()
    }

    /// Every setting that something was given for, with its texts, by name.
    pub(super) fn given(&self) -> Vec<(&'static str, &[Given])> {
        let mut given: Vec<_> = self.given.iter().map(|(name, it)| (*name, &**it)).collect();
        given.sort_unstable_by_key(|it| it.0);
        given
    }

    /// Texts that do not count, as a better source gave some for the same setting.
    pub(super) fn lost(&self) -> &[Given] {
        &self.lost
    }

    /// Called as `tritonserver`: where nobody has said anything, it is as Triton has it.
    pub(super) fn offer_tritons(&mut self) {
        let given = |(name, text): (&'static str, &str)| Given {
            name,
            text: text.to_owned(),
            origin: Origin::Triton,
        };
        self.offer(TRITONS.map(given).into());
    }

    /// Puts texts in where no better source gave any.
    pub(super) fn offer(&mut self, given: Vec<Given>) {
        let mut by_name: HashMap<&'static str, Vec<Given>> = HashMap::new();
        for it in given {
            by_name.entry(it.name).or_default().push(it);
        }
        for (name, given) in by_name {
            match self.given.entry(name) {
                Entry::Vacant(free) => drop(free.insert(given)),
                Entry::Occupied(_) => self.lost.extend(given),
            }
        }
    }
}

fn read_one<T>(
    given: &Given,
    parse: fn(&str) -> Parse<T>,
    problems: &mut Vec<String>,
) -> Option<T> {
    parse(&given.text).map_err(|allowed| problems.push(format!("{given}: expected {allowed}"))).ok()
}

/// Collects what was given, everywhere.
pub(super) fn gather(
    typed: &[Typed],
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Sources {
    let mut sources = Sources::default();
    let mut from_command_line = Vec::new();
    for Typed { name, value, spelled } in typed {
        let origin = spelled.clone().map_or(Origin::CommandLine, Origin::Other);
        match value.to_str() {
            Some(text) => from_command_line.push(Given { name, text: text.to_owned(), origin }),
            None => problems.push(format!("--{name} (command line): expected UTF-8 text")),
        }
    }
    sources.offer(from_command_line);
    let own = own_variables(environment, &mut sources.notices, problems);
    sources.offer(own);
    foreign::offer(environment, problems, &mut |given| sources.offer(given));
    sources.without_effect();
    sources.notices.extend(unknown_own(environment));
    foreign::notices(environment, &sources.given, &mut sources.notices);
    sources
}

/// The text of a variable; `None` when it is not set or empty.
pub(super) fn variable_text(
    environment: &dyn Environment,
    name: &str,
    problems: &mut Vec<String>,
) -> Option<String> {
    match environment.variable(name)?.into_string() {
        Ok(text) => Some(text.trim().to_owned()).filter(|it| !it.is_empty()),
        Err(_) => {
            problems.push(format!("{name} (environment): expected UTF-8 text"));
            None
        }
    }
}

/// Texts of `MUSTER_*`.
fn own_variables(
    environment: &dyn Environment,
    notices: &mut Vec<Notice>,
    problems: &mut Vec<String>,
) -> Vec<Given> {
    let mut given = Vec::new();
    for name in flags::all_names() {
        let variable = flags::variable_of(name);
        let Some(text) = variable_text(environment, &variable, problems) else { continue };
        if is_service_link(&text) {
            notices.push(Notice::debug(format!(
                "{variable}={text} is Kubernetes's link to a service and no setting"
            )));
            continue;
        }
        let name = flags::ALIASES.iter().find(|it| it.0 == name).map_or(name, |it| it.1);
        let many = flags::setting(name).is_some_and(|it: &Setting| it.takes == Takes::Many);
        let texts = if many { text.split(';').collect() } else { vec![&*text] };
        given.extend(texts.into_iter().map(str::trim).filter(|it| !it.is_empty()).map(|text| {
            Given { name, text: text.to_owned(), origin: Origin::Own(variable.clone()) }
        }));
    }
    given
}

/// In a pod, a service named `muster-http` becomes `MUSTER_HTTP_PORT=tcp://10.0.0.7:80`.
fn is_service_link(text: &str) -> bool {
    ["tcp://", "udp://", "sctp://"].iter().any(|it| text.starts_with(it))
}

/// A warning for each `MUSTER_*` that is no setting. No error: Kubernetes makes such names too.
fn unknown_own(environment: &dyn Environment) -> Vec<Notice> {
    let mut names = environment.names();
    names.sort_unstable();
    let known: Vec<String> = flags::all_names().map(flags::variable_of).collect();
    let is_link = |it: &str| {
        it == "MUSTER_PORT" || ["_SERVICE_", "_TCP", "_UDP"].iter().any(|part| it.contains(part))
    };
    names
        .iter()
        .filter(|it| it.starts_with("MUSTER_") && !known.contains(it) && !is_link(it))
        .map(|name| {
            let near = nearest(name, known.iter().map(|it| &**it));
            let hint = near.map_or(String::new(), |it| format!("; did you mean {it}?"));
            Notice::warning(format!("unknown variable {name} is ignored{hint}"))
        })
        .collect()
}

impl Sources {
    /// Turns options that do nothing into notices, one for each reason.
    fn without_effect(&mut self) {
        for (reason, names) in flags::WITHOUT_EFFECT {
            let mut taken: Vec<String> = Vec::new();
            for name in *names {
                for it in self.given.remove(name).unwrap_or_default() {
                    // What is off here anyway may be switched off without a word.
                    if name.starts_with("allow-") && super::value::boolean(&it.text) == Ok(false) {
                        continue;
                    }
                    taken.push(it.to_string());
                }
            }
            if !taken.is_empty() {
                let text = format!("without effect ({reason}): {}", taken.join(", "));
                self.notices.push(Notice::warning(text));
            }
        }
    }
}
