//! The program `muster-recommend`: what it says before it does anything.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster-recommend")).args(words).output().unwrap()
}

#[test]
fn help_names_the_command_as_users_type_it() {
    let help = run(&["--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success() && text.contains("Usage: muster recommend"), "{text}");
}

#[test]
fn arguments_that_cannot_be_used_are_status_2() {
    let wrong = run(&["no such model", "--instance", "nothing"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
    assert!(!wrong.stderr.is_empty());
}
