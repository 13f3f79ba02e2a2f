//! The command line → commands and raw texts. clap knows the grammar and writes the help; values stay
//! texts, so that a bad one is reported together with those of the environment.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{
    ArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    booleans,
    compat::{
        foreign_flags::{self, SPELLINGS},
        tensorflow_command::{self, TensorFlow},
        text_embeddings_command::{self, TextEmbeddings},
        triton_command,
    },
    flags::FlagTable,
    given::Typed,
    grammar::{Declared, command},
    manual,
};
use inference::signature::nearest;

/// What was typed.
pub enum Parsed {
    /// `muster`, `muster serve`.
    Serve(Serve),
    /// `muster bench`, with everything that follows the word.
    Bench(Vec<OsString>),
    /// `muster predict`, likewise.
    Predict(Vec<OsString>),
    /// `muster recommend`, likewise.
    Recommend(Vec<OsString>),
    /// `muster health`.
    Health(Health),
    /// `muster env`: the options that it was given.
    Env(Vec<Typed>),
    /// `muster explain`.
    Explain(Explain),
    /// `muster check`.
    Check(Check),
    /// `muster pull`.
    Pull(Pull),
    /// A text to print: help.
    Print(String),
    /// The program and its version.
    Version(String),
    /// A command that does not exist: what else was typed may mean anything.
    Unknown,
}

/// `muster`, `muster serve`.
#[derive(Debug, Default, PartialEq)]
pub struct Serve {
    /// The word `serve` was there, as it is when a hosting platform starts the server.
    pub word: bool,
    /// `muster serve <path>`.
    pub path: Option<PathBuf>,
    /// Options in the order given; those with the word `serve` after those before it.
    pub settings: Vec<Typed>,
    /// Called as `tritonserver`.
    pub triton: bool,
    /// Nothing will be served: models need not be there.
    pub rehearsed: bool,
    /// Called as `tensorflow_model_server`.
    pub tensorflow: Option<TensorFlow>,
    /// Called as `text-embeddings-router`, or with its `--model-id`.
    pub text_embeddings: Option<TextEmbeddings>,
}

impl Serve {
    /// Was the program called by the name of another server, whose users have its defaults?
    pub fn is_named_as_another(&self) -> bool {
        self.triton || self.tensorflow.is_some() || self.text_embeddings.is_some()
    }
}

/// `muster health`.
#[derive(Debug, Default, PartialEq)]
pub struct Health {
    /// `--url`, the last one.
    pub url: Option<OsString>,
    /// Options of the server, in the order given.
    pub settings: Vec<Typed>,
}

/// `muster explain`.
#[derive(Debug, Default, PartialEq)]
pub struct Explain {
    /// `muster explain <path>`; `None` where it was left out.
    pub path: Option<PathBuf>,
    /// `--output`, the last one.
    pub output: Option<PathBuf>,
    /// `--write-onnx`, the last one.
    pub write_onnx: Option<PathBuf>,
    /// Options of the server, in the order given.
    pub settings: Vec<Typed>,
}

/// `muster check`.
#[derive(Debug, Default, PartialEq)]
pub struct Check {
    /// The server that would serve the models.
    pub serve: Serve,
    /// `--load`: each model is loaded, too.
    pub loads: bool,
    /// `--json`: for programs.
    pub is_json: bool,
}

/// `muster pull`.
#[derive(Debug, Default, PartialEq)]
pub struct Pull {
    /// `muster pull <name>..`.
    pub names: Vec<OsString>,
    /// `--update`: the lock file is to have them as they are now.
    pub updates: bool,
    /// Options of the server, in the order given.
    pub settings: Vec<Typed>,
}

/// The commands that exist.
const COMMANDS: [&str; 11] = [
    "serve",
    "check",
    "pull",
    "predict",
    "bench",
    "recommend",
    "health",
    "env",
    "explain",
    "completions",
    "man",
];

/// Parses the command line, program name first. What cannot be parsed goes to `problems`, and the
/// rest is parsed without it.
pub fn parse(mut args: Vec<OsString>, flags: &FlagTable, problems: &mut Vec<String>) -> Parsed {
    // An image whose entry point is muster gets `tritonserver` as its first argument.
    let is_triton = |it: Option<&OsString>| {
        it.is_some_and(|it| Path::new(it).file_name() == Some(OsStr::new(triton_command::COMMAND)))
    };
    let word = is_triton(args.get(1));
    if word {
        args.remove(1);
    }
    let triton = word || is_triton(args.first());
    if triton {
        write_out(&mut args, flags);
    }
    let (tensorflow, spelled) = tensorflow_command::take(&mut args, problems).unzip();
    let (text_embeddings, of_texts) =
        text_embeddings_command::take(&mut args, flags, problems).unzip();
    booleans::write_out(&mut args, flags, problems);
    take_short_words(&mut args, flags, problems);
    let mut command = command(flags, Declared::All);
    loop {
        let error = match command.try_get_matches_from_mut(&args) {
            Ok(matches) => {
                return match interpret(&matches, flags, problems) {
                    Parsed::Serve(mut serve) => {
                        // Of two spellings of one setting muster's own counts.
                        let others = spelled.into_iter().chain(of_texts).flatten();
                        let all: Vec<Typed> = others.chain(serve.settings).collect();
                        serve.settings = all;
                        Parsed::Serve(Serve { triton, tensorflow, text_embeddings, ..serve })
                    }
                    other => other,
                };
            }
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::DisplayHelp => return Parsed::Print(error.render().to_string()),
            ErrorKind::DisplayVersion => return Parsed::Version(error.render().to_string()),
            _ => {}
        }
        let culprit = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(text)) => text.clone(),
            _ => match error.get(ContextKind::InvalidSubcommand) {
                Some(ContextValue::String(text)) => text.clone(),
                _ => String::new(),
            },
        };
        problems.push(describe(&error, &culprit, &args, flags));
        let is_shell =
            culprit.contains("SHELL") || error.kind() == ErrorKind::MissingRequiredArgument;
        if error.kind() == ErrorKind::InvalidSubcommand || is_shell {
            return Parsed::Unknown;
        }
        // Each turn takes at least one argument away, so this ends.
        if !remove(&mut args, &culprit) {
            return Parsed::Serve(Serve::default());
        }
    }
}

/// Writes out the abbreviations that Triton takes: the beginning of one option, and of no other. One that is taken
/// without effect is never meant by its beginning.
fn write_out(args: &mut [OsString], flags: &FlagTable) {
    for arg in args.iter_mut().skip(1) {
        let Some(text) = arg.to_str().and_then(|it| it.strip_prefix("--")) else { continue };
        let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
        let is_known = |it: &str| flags.all_names().any(|known| known == it);
        let mut longer = flags.all_names().filter(|it| it.starts_with(name));
        let (first, second) = (longer.next(), longer.next());
        let Some(full) = first.filter(|_| second.is_none() && !name.is_empty()) else { continue };
        if !is_known(name) && !flags.is_without_effect(full) {
            *arg = format!("--{full}{value}").into();
        }
    }
}

/// Takes words such as `-hf` away, of which clap would see no more than `-h`.
fn take_short_words(args: &mut Vec<OsString>, flags: &FlagTable, problems: &mut Vec<String>) {
    let is_tool = |it: &OsString| booleans::TOOLS.iter().any(|tool| it == tool);
    let end = args.iter().position(is_tool).unwrap_or(args.len());
    let is_word = |it: &str| (it.starts_with("-h") || it.starts_with("-V")) && 2 < it.len();
    let mut at = 0;
    args.retain(|it| {
        let text = it.to_string_lossy();
        let is_taken = 0 < at && at < end && is_word(&text);
        at += 1;
        if is_taken {
            problems.push(unknown(text.split('=').next().unwrap_or_default(), flags));
        }
        !is_taken
    });
}

/// An argument that clap refused, in our words.
fn describe(error: &clap::Error, culprit: &str, args: &[OsString], flags: &FlagTable) -> String {
    let name = culprit.split([' ', '=']).next().unwrap_or(culprit);
    match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with("--") => unknown(name, flags),
        ErrorKind::UnknownArgument if name.starts_with('-') => {
            // clap names the first letter.
            let whole = args.iter().skip(1).map(|it| it.to_string_lossy());
            let whole = whole.rev().find(|it| it.starts_with(name) && !it.starts_with("--"));
            let whole = whole.as_deref().and_then(|it| it.split('=').next()).unwrap_or(name);
            unknown(whole, flags)
        }
        ErrorKind::UnknownArgument => format!("unexpected argument '{culprit}'"),
        ErrorKind::InvalidSubcommand => match nearest(culprit, COMMANDS) {
            Some(near) => format!("unknown command '{culprit}'; did you mean '{near}'?"),
            None => format!(
                "unknown command '{culprit}'; commands: {}. To serve a model file or directory: muster \
                 serve {culprit}",
                COMMANDS.join(", ")
            ),
        },
        ErrorKind::InvalidValue if culprit.contains("SHELL") => {
            format!("expected a shell: {}", manual::SHELLS.join(", "))
        }
        ErrorKind::MissingRequiredArgument => {
            format!("expected a shell: muster completions {}", manual::SHELLS.join("|"))
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("option {name} needs a value")
        }
        // The rest of clap's text is about usage.
        _ => {
            let text = error.render().to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// What to say of an option that there is not: what to do in place of another server's, or which one may be meant.
fn unknown(name: &str, flags: &FlagTable) -> String {
    let bare = name.trim_start_matches('-');
    let of_others = foreign_flags::advice(name)
        .or_else(|| tensorflow_command::in_words(bare))
        .or_else(|| text_embeddings_command::in_words(bare));
    if let Some(advice) = of_others {
        return format!("unknown option {name}; {advice}");
    }
    let effective = || flags.all_names().filter(|it| !flags.is_without_effect(it));
    let longer: Vec<String> = match bare {
        "" => Vec::new(),
        _ => effective().filter(|it| it.starts_with(bare)).map(|it| format!("--{it}")).collect(),
    };
    match (&*longer, nearest(bare, effective())) {
        ([one], _) => format!("unknown option {name}; did you mean {one}?"),
        ([_, ..], _) => format!("unknown option {name}; it could be {}", longer.join(", ")),
        ([], Some(near)) => format!("unknown option {name}; did you mean --{near}?"),
        ([], None) => format!("unknown option {name}; muster --help-all lists all"),
    }
}

/// Takes the refused argument away, together with what looks like its value.
fn remove(args: &mut Vec<OsString>, culprit: &str) -> bool {
    let name = culprit.split([' ', '=']).next().unwrap_or(culprit);
    let is_culprit = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        let is_long = name.starts_with("--") || !name.starts_with('-');
        let begins = |it: &str| it.starts_with(name) && !it.starts_with("--");
        arg == culprit || arg.split('=').next() == Some(name) || !is_long && begins(&arg)
    };
    let Some(at) = args.iter().skip(1).rposition(is_culprit).map(|it| it + 1) else {
        return false;
    };
    let option = args.remove(at).to_string_lossy().into_owned();
    let value_follows = option.starts_with('-')
        && !option.contains('=')
        && args.get(at).is_some_and(|it| {
            let it = it.to_string_lossy();
            !it.starts_with('-') && !COMMANDS.contains(&&*it)
        });
    if value_follows {
        args.remove(at);
    }
    true
}

fn interpret(matches: &ArgMatches, flags: &FlagTable, problems: &mut Vec<String>) -> Parsed {
    let mut serve = Serve { settings: typed(matches, flags), ..Serve::default() };
    match matches.subcommand() {
        Some(("serve", matches)) => {
            serve.word = true;
            serve.path = matches.get_one::<OsString>("path").map(PathBuf::from);
            serve.settings.extend(typed(matches, flags));
        }
        Some(("bench", matches)) => return Parsed::Bench(rest(matches)),
        Some(("predict", matches)) => return Parsed::Predict(rest(matches)),
        Some(("recommend", matches)) => return Parsed::Recommend(rest(matches)),
        Some(("health", matches)) => {
            serve.settings.extend(typed(matches, flags));
            let url =
                matches.get_many::<OsString>("url").and_then(|mut it| it.next_back()).cloned();
            return Parsed::Health(Health { url, settings: serve.settings });
        }
        Some(("env", matches)) => {
            serve.settings.extend(typed(matches, flags));
            return Parsed::Env(serve.settings);
        }
        Some(("explain", matches)) => {
            serve.settings.extend(typed(matches, flags));
            let last = |name| {
                matches
                    .get_many::<OsString>(name)
                    .and_then(|mut it| it.next_back())
                    .map(PathBuf::from)
            };
            return Parsed::Explain(Explain {
                path: last("path"),
                output: last("output"),
                write_onnx: last("write-onnx"),
                settings: serve.settings,
            });
        }
        Some(("check", matches)) => {
            serve.word = true;
            serve.path = matches.get_one::<OsString>("path").map(PathBuf::from);
            serve.settings.extend(typed(matches, flags));
            let (loads, is_json) = (matches.get_flag("load"), matches.get_flag("json"));
            return Parsed::Check(Check { serve, loads, is_json });
        }
        Some(("pull", matches)) => {
            serve.settings.extend(typed(matches, flags));
            let names = matches.get_many::<OsString>("names").unwrap_or_default();
            return Parsed::Pull(Pull {
                names: names.cloned().collect(),
                updates: matches.get_flag("update"),
                settings: serve.settings,
            });
        }
        Some(("completions", matches)) => {
            return match matches.get_one::<String>("shell").and_then(|it| it.parse().ok()) {
                Some(shell) => {
                    Parsed::Print(manual::completions(command(flags, Declared::Advertised), shell))
                }
                None => Parsed::Unknown,
            };
        }
        Some(("man", _)) => {
            return Parsed::Print(manual::page(command(flags, Declared::Advertised)));
        }
        Some((other, _)) => {
            problems.push(format!(
                "the command '{other}' is not offered: muster serves models and does not train them"
            ));
            return Parsed::Unknown;
        }
        None => {}
    }
    Parsed::Serve(serve)
}

/// All that follows a command that reads its arguments by itself.
fn rest(matches: &ArgMatches) -> Vec<OsString> {
    matches.get_many::<OsString>("args").unwrap_or_default().cloned().collect()
}

/// The options given at one level, each with its values in order.
fn typed(matches: &ArgMatches, flags: &FlagTable) -> Vec<Typed> {
    let mut typed = Vec::new();
    let own = flags.all_names().map(|it| (it, flags.full_name(it), false));
    let others = SPELLINGS.iter().map(|&(spelled, name)| (spelled, name, true));
    for (given, name, is_other) in own.chain(others) {
        let values = matches.get_many::<OsString>(given).unwrap_or_default();
        let places = matches.indices_of(given).into_iter().flatten();
        typed.extend(values.zip(places).map(|(value, place)| {
            let spelled = || format!("--{given} '{}' (command line)", value.to_string_lossy());
            let spelled = is_other.then(spelled);
            (place, Typed { name, value: value.clone(), spelled })
        }));
    }
    // Two spellings of one setting keep their order.
    typed.sort_by_key(|it| it.0);
    typed.into_iter().map(|it| it.1).collect()
}

/// Options given as words, as in a variable that holds further arguments.
pub(crate) fn parse_words(
    words: Vec<String>,
    flags: &FlagTable,
    problems: &mut Vec<String>,
) -> Vec<Typed> {
    // They were written for Triton, abbreviations included.
    let name = triton_command::COMMAND.to_owned();
    let args = std::iter::once(name).chain(words).map(OsString::from);
    match parse(args.collect(), flags, problems) {
        Parsed::Serve(serve) => serve.settings,
        Parsed::Bench(_)
        | Parsed::Predict(_)
        | Parsed::Recommend(_)
        | Parsed::Health(_)
        | Parsed::Env(_)
        | Parsed::Explain(_)
        | Parsed::Check(_)
        | Parsed::Pull(_)
        | Parsed::Print(_)
        | Parsed::Version(_)
        | Parsed::Unknown => Vec::new(),
    }
}
