//! `muster-recommend`: load tests of the server beside it with other settings, as `muster recommend ..` runs it.
#![forbid(unsafe_code)]

mod signals;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use muster_recommend::cli;

/// The program that serves.
const SERVER: &str = "muster";

#[derive(Parser)]
#[command(bin_name = "muster recommend", version)]
struct Recommend {
    #[command(flatten)]
    args: cli::Args,
}

fn main() -> ExitCode {
    let recommend = Recommend::parse();
    let stop = match signals::stop() {
        Ok(stop) => stop,
        Err(error) => return fail(&format_args!("cannot listen for signals: {error}")),
    };
    let variable = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME");
    let state = state.or_else(|| variable("HOME").map(|it| it.join(".local/state")));
    let state = state.map(|it| it.join("muster/recommend"));
    match env::current_exe() {
        Ok(own) => cli::run(&recommend.args, &server(&own), state, stop),
        Err(error) => fail(&error),
    }
}

/// The server beside this program, else the one on the `PATH`.
fn server(own: &Path) -> PathBuf {
    let beside = own.with_file_name(SERVER);
    if beside.is_file() {
        return beside;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|it| it.join(SERVER)).find(|it| it.is_file());
    // Where there is none, the error of starting it names where it should be.
    on_path.unwrap_or(beside)
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
