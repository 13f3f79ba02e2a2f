//! `muster-bench`: the load generator, as `muster bench ..` runs it; and one request after the other, as
//! `muster predict ..` does.
#![forbid(unsafe_code)]

use std::{env, ffi::OsString, process::ExitCode};

use clap::Parser;
use launch::usage;
use muster_bench::{cli, predict};

/// The first word behind which this program is `muster predict`.
const PREDICT: &str = "predict";

#[derive(Parser)]
#[command(bin_name = "muster bench", version)]
struct Bench {
    #[command(flatten)]
    args: cli::Args,
}

#[derive(Parser)]
#[command(bin_name = "muster predict", version)]
struct Predict {
    #[command(flatten)]
    args: predict::Args,
}

fn main() -> ExitCode {
    let mut words: Vec<OsString> = env::args_os().collect();
    if words.get(1).is_some_and(|it| it == PREDICT) {
        words.remove(1);
        return usage::parse::<Predict>("muster predict", words)
            .map_or_else(|code| code, |it| predict(&it.args));
    }
    let bench = match usage::parse::<Bench>("muster bench", words) {
        Ok(bench) => bench,
        Err(code) => return code,
    };
    cli::run(&bench.args).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

/// Sends files to a model. A server that is made for it ends with this process, also at a signal.
fn predict(args: &predict::Args) -> ExitCode {
    let (stop, server) = match launch::signals::stop().and_then(|it| Ok((it, launch::server()?))) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    predict::run(args, &server, &stop)
}
