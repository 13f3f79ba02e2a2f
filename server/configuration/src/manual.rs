//! The manual page, and what completes the command line in shells: both are made of the command's own declaration.

use clap::Command;
use clap_complete::Shell;

/// The shells whose command line can be completed.
pub(crate) const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The script of that shell.
pub(crate) fn completions(mut command: Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The page in the form of `man`.
pub(crate) fn page(command: Command) -> String {
    let mut text = Vec::new();
    // A vector takes all that is written.
    let _ = clap_mangen::Man::new(command).render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
