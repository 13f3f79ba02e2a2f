//! Which models run in processes of their own.

use std::{collections::BTreeSet, path::PathBuf};

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};
use machine::Machine;

use crate::workers::{Sandbox, Which};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("isolation", "", "Which models run in processes of their own, so that a crash ends that process alone: off, all, auto, or names of models with commas between them. With auto, models on the CPU do, if their runs read 32 MiB of weights or more, or if their files do not tell. Default: auto; all with --worker-sandbox=strict; off for a multi-model endpoint. A model's parameter ISOLATION goes before it: process, in_process or auto").named("MODELS"),
    Flag::value("worker-sandbox", "on", "What models in processes of their own may reach: on (their files and those that their configuration names, the engine's libraries, GPUs, a temporary directory; no network, no other programs), strict (without what a configuration names; the server does not start where the kernel has no landlock or no seccomp), or off (whatever the server may reach)").named("MODE"),
    Flag::value("worker-arena-bytes", "auto", "The largest inputs of one run of a model in a process of its own, and its largest outputs. Memory is taken as it is used. auto: 1GiB, at most an eighth of the memory, and of what a process may have of addresses (ulimit -v) a 64th, and of the largest file (ulimit -f) half").named("BYTES"),
];

/// The most that `auto` allows for one half of the memory that a lane shares with its worker.
const ARENA: u64 = 1 << 30;

/// Which models run in processes of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Isolation {
    /// `--isolation`: which they are.
    pub which: Which,
    /// `--worker-arena-bytes`: the largest inputs of one run, and its largest outputs.
    pub arena_bytes: usize,
    /// `--worker-sandbox`: what they may reach.
    pub sandbox: Sandbox,
    /// What is the server's own: no setting of a model opens any of it to a worker.
    pub kept: Vec<PathBuf>,
}

/// Reads the settings. `is_multi_model`: models come with requests, and are many.
pub(super) fn resolve(
    sources: &Sources,
    machine: &Machine,
    is_multi_model: bool,
    problems: &mut Vec<String>,
) -> Isolation {
    let asked = sources.read("isolation", which, problems);
    let given = sources.read("worker-arena-bytes", arena_bytes, problems).flatten();
    let file = machine.largest_file.map(|it| it / 2);
    let bytes = given.unwrap_or_else(|| {
        let parts =
            [machine.memory.map(|it| it / 8), machine.address_space.map(|it| it / 64), file];
        parts.into_iter().flatten().fold(ARENA, u64::min)
    });
    if let Some(most) = file.filter(|it| *it < bytes) {
        problems.push(format!(
            "--worker-arena-bytes={bytes}: no more than {most} can be had, as this process may make no file of more than \
             twice that (ulimit -f)"
        ));
    }
    let arena_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let sandbox = sources.read("worker-sandbox", sandbox, problems).unwrap_or(Sandbox::On);
    // A strict sandbox is there for models that nobody vouches for.
    if (asked.as_ref(), sandbox) == (Some(&Which::Auto), Sandbox::Strict) {
        problems.push(
            "--isolation=auto has fast models run in the server's process, which --worker-sandbox=strict is to \
             prevent; write --isolation=all, or --worker-sandbox=on"
                .to_owned(),
        );
    }
    let which = asked.unwrap_or(match sandbox {
        Sandbox::Strict => Which::All,
        // Each process would take memory of its own, and each first request wait for one to start.
        Sandbox::On | Sandbox::Off if is_multi_model => none(),
        Sandbox::On | Sandbox::Off => Which::Auto,
    });
    Isolation { which, arena_bytes, sandbox, kept: Vec::new() }
}

fn sandbox(text: &str) -> Parse<Sandbox> {
    match text {
        "off" => Ok(Sandbox::Off),
        "on" => Ok(Sandbox::On),
        "strict" => Ok(Sandbox::Strict),
        _ => Err("off, on or strict".to_owned()),
    }
}

fn none() -> Which {
    Which::Named(BTreeSet::new())
}

fn which(text: &str) -> Parse<Which> {
    match text {
        "off" => Ok(none()),
        "all" => Ok(Which::All),
        "auto" => Ok(Which::Auto),
        _ if text.split(',').any(|it| is_no_name(it.trim())) => {
            Err("off, all, auto, or names of models with commas between them".to_owned())
        }
        _ => Ok(Which::Named(text.split(',').map(|it| it.trim().to_owned()).collect())),
    }
}

/// Words that somebody writes who means no model. One of such a name may say it itself, by its parameter.
fn is_no_name(text: &str) -> bool {
    let words = [
        "",
        "off",
        "all",
        "auto",
        "on",
        "true",
        "false",
        "yes",
        "no",
        "0",
        "1",
        "none",
        "process",
        "in_process",
    ];
    words.iter().any(|it| it.eq_ignore_ascii_case(text))
}

fn arena_bytes(text: &str) -> Parse<Option<u64>> {
    match text {
        "auto" => Ok(None),
        _ => value::bytes_from_one(text).map(Some),
    }
}
