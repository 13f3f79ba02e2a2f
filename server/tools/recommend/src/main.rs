//! `muster-recommend`: load tests of the server beside it with other settings, as `muster recommend ..` runs it.
#![forbid(unsafe_code)]

use std::{env, path::PathBuf, process::ExitCode};

use clap::Parser;
use muster_recommend::cli;

#[derive(Parser)]
#[command(bin_name = "muster recommend", version)]
struct Recommend {
    #[command(flatten)]
    args: cli::Args,
}

fn main() -> ExitCode {
    let recommend = match launch::usage::parse::<Recommend>("muster recommend", env::args_os()) {
        Ok(recommend) => recommend,
        Err(code) => return code,
    };
    let stop = match launch::signals::stop() {
        Ok(stop) => stop,
        Err(error) => return fail(&format_args!("cannot listen for signals: {error}")),
    };
    let variable = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME");
    let state = state.or_else(|| variable("HOME").map(|it| it.join(".local/state")));
    let state = state.map(|it| it.join("muster/recommend"));
    match launch::server() {
        Ok(server) => cli::run(&recommend.args, &server, state, stop),
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
