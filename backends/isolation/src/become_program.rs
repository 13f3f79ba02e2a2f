//! A worker that becomes another program: the process, its sandbox, its socket and its pipes stay.

use std::{
    fs::File,
    io::{self, Seek, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::Command,
};

use backend::WorkerProgram;
use rustix::fs::MemfdFlags;

use crate::message::{Fault, LoadAnswer};

/// Becomes that program, which is given the socket and answers there. Comes back only where that cannot be done: with
/// what the server is told.
pub(crate) fn become_program(program: &WorkerProgram, control: &UnixStream) -> LoadAnswer {
    let error = match given(program, control) {
        // They stay open until the program is another one.
        Ok((given, _control)) => {
            let mut command = Command::new(&program.path);
            command.args(&program.args);
            command.env(program.given_in, given.as_raw_fd().to_string()).exec()
        }
        Err(error) => error,
    };
    let program = program.path.display();
    Err(Fault::load(format!("its process cannot become {program}: {error}")))
}

/// A file with what the program is given, and the socket, both of which it inherits.
fn given(program: &WorkerProgram, control: &UnixStream) -> io::Result<(File, OwnedFd)> {
    let control = rustix::io::dup(control)?;
    let mut file = File::from(rustix::fs::memfd_create("given", MemfdFlags::empty())?);
    let rest = program.given.strip_prefix('{').unwrap_or("}");
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    write!(file, "{{\"control\":{}{comma}{rest}", control.as_raw_fd())?;
    file.rewind()?;
    Ok((file, control))
}
