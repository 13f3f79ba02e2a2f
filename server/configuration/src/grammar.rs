//! The commands and options as clap declares them: the grammar of the command line, and the texts of help.

use clap::{Arg, ArgAction, Command, builder::OsStringValueParser};

use crate::{
    compat::foreign_flags::SPELLINGS,
    flags::{Flag, FlagTable, Takes},
    manual,
};

/// Which options a command declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declared {
    /// All that are taken.
    All,
    /// Those that help shows: a shell would offer the others, too.
    Advertised,
}

/// All commands with their options, and what help says of them.
pub(crate) fn command(flags: &FlagTable, declared: Declared) -> Command {
    let examples = "Examples:\n  \
        muster serve model.onnx\n  \
        muster --model-repository models --http-port 9000\n  \
        muster --model-repository s3://bucket/models --model-control-mode explicit --load-model fraud\n\n\
        A boolean alone is true: --emf. --no-emf is false, and so is --emf=false.\n\n\
        Every option is also an environment variable: --http-port 9000 is MUSTER_HTTP_PORT=9000. The command line \
        beats MUSTER_*, which beats the variables of SageMaker, TensorFlow Serving and Triton containers.";
    let rest = Arg::new("args")
        .action(ArgAction::Append)
        .value_parser(OsStringValueParser::new())
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true);
    Command::new("muster")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A model server. Without a command it serves, as with `serve`")
        .after_help(examples)
        .disable_help_flag(true)
        .args([help(), help_all()])
        .args(options(flags, declared))
        .subcommand(
            Command::new("serve")
                .version(env!("CARGO_PKG_VERSION"))
                .display_name("muster")
                .about("Serve models: a file, a directory, or the configured repository")
                .after_help(examples)
                .disable_help_flag(true)
                .args([help(), help_all()])
                .arg(path())
                .args(options(flags, declared)),
        )
        .subcommand(check(flags, declared))
        .subcommand(pull(flags, declared))
        .subcommand(
            Command::new("predict")
                .about("Send files to a model and print what it answers")
                .disable_help_flag(true)
                .arg(rest.clone()),
        )
        .subcommand(
            Command::new("bench")
                .about("Send requests to a server and measure")
                .disable_help_flag(true)
                .arg(rest.clone()),
        )
        .subcommand(
            Command::new("recommend")
                .about("Find out which settings and which machine suit a model")
                .disable_help_flag(true)
                .arg(rest),
        )
        .subcommand(
            Command::new("health")
                .about("Ask the server on this machine whether it is healthy")
                .after_help(
                    "The address follows from the server's settings: options given here, then options of \
                     process 1 if it is muster, as in a container, then the environment. Exit \
                     status: 0 if the answer is 200, else 1, and a line that says why not.",
                )
                .arg(help())
                .arg(plain("url").value_name("URL").help(
                    "Ask this address instead: http[s]://<host>[:<port>][/<path>]; without a path, /ping",
                ))
                .args(unseen(flags, declared)),
        )
        .subcommand(
            Command::new("env")
                .about("Show what the environment comes to: settings, and what has no effect")
                .after_help(
                    "Prints each variable of muster and of the containers that it replaces which is set: what it \
                     became, which lost against which, which have no effect, which nobody knows; then the settings \
                     that differ from their defaults, as `muster serve` would have them. Secrets are not shown, and \
                     whether there are models is not looked at. Options of the server may be given, too. Exit \
                     status: 0, or 1 and everything that is wrong.",
                )
                .arg(help())
                .args(unseen(flags, declared)),
        )
        .subcommand(
            Command::new("explain")
                .about("Show what a folder with a text model was understood to be, and how to do the same by hand")
                .after_help(
                    "Prints the line that the server's log would have, each file that was read, ignored or missing, \
                     and the config.pbtxt files of an ensemble of steps that does the same. Nothing is served. \
                     Options of the server that concern pipelines and engines may be given, such as --task. Exit \
                     status: 0, or 1 and what is wrong.",
                )
                .arg(help())
                .arg(
                    Arg::new("path")
                        .value_name("DIR")
                        .value_parser(OsStringValueParser::new())
                        .help("A folder as `muster serve DIR` takes it: of a model, or of several"),
                )
                .arg(plain("output").value_name("DIR").help(
                    "Write the ensembles there as a repository, with copies of the files that they need",
                ))
                .arg(plain("write-onnx").value_name("FILE").help(
                    "Write the graph that is made for the folder's safetensors, with the weights inside",
                ))
                .args(unseen(flags, declared)),
        )
        .subcommand(
            Command::new("completions")
                .about("Print what completes the command line in a shell")
                .after_help(
                    "bash: muster completions bash >~/.local/share/bash-completion/completions/muster\n\
                     zsh:  muster completions zsh >~/.zfunc/_muster, with ~/.zfunc in fpath\n\
                     fish: muster completions fish >~/.config/fish/completions/muster.fish",
                )
                .arg(help())
                .disable_help_flag(true)
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .required(true)
                        .value_parser(manual::SHELLS)
                        .help("The shell"),
                ),
        )
        .subcommand(
            Command::new("man")
                .about("Print the manual page: muster man | man -l -")
                .arg(help())
                .disable_help_flag(true),
        )
        // Platforms start images with the word `train` by mistake.
        .subcommand(Command::new("train").hide(true))
}

/// What is to be served.
fn path() -> Arg {
    Arg::new("path").value_name("MODEL").value_parser(OsStringValueParser::new()).help(
        "A model file (model.onnx), a model's directory, or a model repository. Where there is none of that name, \
         a model that is fetched first: <owner>/<name> or hf://<owner>/<name>@<revision> of Hugging Face's hub. \
         models:/<name>/<version> and models:/<name>@<alias> are of MLflow's registry. oci://<host>/<name>:<tag> \
         is an image of a registry. https://<address>#sha256=<digest> is a file",
    )
}

/// `muster check`.
fn check(flags: &FlagTable, declared: Declared) -> Command {
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("check")
        .about("Say which models `serve` would serve, and why it would not serve the others")
        .after_help(
            "Prints a line for each model, and a summary. Files and configurations are checked, and no model is \
             loaded. Options of the server may be given, such as --model-repository. Exit status: 0 where all models \
             would be served, 1 where one would not or there is none, 2 where the command line or a setting is wrong.",
        )
        .arg(help())
        .arg(path())
        .arg(switch("load").help("Load each model, too, one after another"))
        .arg(switch("json").help("Print JSON"))
        .args(unseen(flags, declared))
}

/// `muster pull`.
fn pull(flags: &FlagTable, declared: Declared) -> Command {
    Command::new("pull")
        .about("Fetch models by name, and print where they lie: what `serve` does before it starts")
        .after_help(
            "Prints the directory of each on standard output, and what is done on standard error. Only what a server \
             needs is fetched: one graph, its weights, and what describes it. What has come before a break is not \
             fetched again. Options of the server that concern models by name may be given, such as --hub-cache-dir \
             and --pipeline-graph. Exit status: 0, or 1 and what is wrong.",
        )
        .arg(help())
        .arg(
            Arg::new("names")
                .value_name("NAME")
                .action(ArgAction::Append)
                .num_args(0..)
                .value_parser(OsStringValueParser::new())
                .help("As `muster serve NAME` takes it, or several. Default: the one of HF_MODEL_ID"),
        )
        .arg(Arg::new("update").long("update").action(ArgAction::SetTrue).help(
            "Write the models into --lock-file as they are now. Without it, what is in the file stays",
        ))
        .args(unseen(flags, declared))
}

/// `--help`, with the options that a command does not hide from it.
fn help() -> Arg {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    help.help("Print help, with the usual options")
}

/// `--help-all`, with all options.
fn help_all() -> Arg {
    let help = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    help.help("Print help, with all options")
}

/// The options of a command that takes them and shows none.
fn unseen(flags: &FlagTable, declared: Declared) -> impl Iterator<Item = Arg> {
    let all = options(flags, Declared::All).filter(move |_| declared == Declared::All);
    all.map(|it| it.hide(true))
}

fn options(flags: &FlagTable, declared: Declared) -> impl Iterator<Item = Arg> {
    let is_hidden = |it: &&'static str| flags.flag(it).is_none();
    let others = SPELLINGS.iter().map(|it| it.0);
    let hidden = flags.all_names().filter(is_hidden).chain(others).map(|it| plain(it).hide(true));
    let visible = flags.with_headings().map(|(heading, it)| {
        visible(it).help_heading(heading).hide_short_help(!flags.is_common(it))
    });
    visible.chain(hidden.filter(move |_| declared == Declared::All))
}

fn visible(flag: &Flag) -> Arg {
    let default = match flag.default {
        "" => String::new(),
        default => format!(" [{default}]"),
    };
    let help = format!("{}{default}", flag.help);
    let arg = plain(flag.name).value_name(flag.value_name).help(help);
    match flag.takes {
        Takes::Boolean => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        Takes::Value | Takes::Many => arg,
    }
}

fn plain(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("VALUE")
        .value_parser(OsStringValueParser::new())
        .allow_negative_numbers(true)
        .action(ArgAction::Append)
}
