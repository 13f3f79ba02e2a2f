//! The command line by itself, for trying it out: `cargo run --release --example bench -- URL …`.

use std::process::ExitCode;

use clap::Parser;
use muster_loadgen::cli;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: cli::Args,
}

fn main() -> ExitCode {
    match cli::run(&Command::parse().args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
