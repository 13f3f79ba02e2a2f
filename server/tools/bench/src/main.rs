//! `muster-bench`: the load generator, as `muster bench ..` runs it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use muster_bench::cli;

#[derive(Parser)]
#[command(bin_name = "muster bench", version)]
struct Bench {
    #[command(flatten)]
    args: cli::Args,
}

fn main() -> ExitCode {
    cli::run(&Bench::parse().args).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
