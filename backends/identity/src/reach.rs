//! Attempts to reach beyond the model, as hostile code would make them: they harm nobody where they succeed.

use std::{
    env, fs,
    io::{self, ErrorKind},
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use rustix::process::{getppid, test_kill_process};

/// A file that every system has, and that no model needs.
const FOREIGN: &str = "/etc/passwd";

/// Where every process may write that nothing keeps from it.
const FOREIGN_DIRECTORY: &str = "/var/tmp";

/// What was tried, and what came of it, as `read /etc/passwd: done` or `read /etc/passwd: denied`.
pub(crate) fn attempts() -> Vec<String> {
    let own = env::temp_dir();
    let file = format!("muster-reach-{}", std::process::id());
    vec![
        said(&format!("read {FOREIGN}"), fs::read(FOREIGN).map(drop)),
        said(
            "read the server's variables",
            of_parent("environ").and_then(|it| fs::read(it).map(drop)),
        ),
        said("list /", fs::read_dir("/").map(drop)),
        said(
            &format!("write to {FOREIGN_DIRECTORY}"),
            write(&Path::new(FOREIGN_DIRECTORY).join(&file)),
        ),
        said("write to TMPDIR", write(&own.join(&file))),
        said("listen on TCP", TcpListener::bind("127.0.0.1:0").map(drop)),
        said("bind UDP", UdpSocket::bind("127.0.0.1:0").map(drop)),
        said("make a socket", UnixStream::pair().map(drop)),
        said("start a program", start()),
        said("signal the server", signal()),
        said("start a thread", thread::Builder::new().spawn(|| ()).map(drop)),
    ]
}

fn said(what: &str, outcome: io::Result<()>) -> String {
    match outcome {
        Ok(()) => format!("{what}: done"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => format!("{what}: denied"),
        Err(error) => format!("{what}: {error}"),
    }
}

fn of_parent(file: &str) -> io::Result<String> {
    let parent = getppid().ok_or(ErrorKind::NotFound)?;
    Ok(format!("/proc/{}/{file}", parent.as_raw_pid()))
}

fn write(path: &Path) -> io::Result<()> {
    fs::write(path, "")?;
    fs::remove_file(path)
}

fn start() -> io::Result<()> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exit 0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()?.wait().map(drop)
}

/// The one that changes nothing.
fn signal() -> io::Result<()> {
    let parent = getppid().ok_or(ErrorKind::NotFound)?;
    Ok(test_kill_process(parent)?)
}
