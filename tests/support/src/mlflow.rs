//! MLflow's own tracking server (`tests/clients/mlflow_server.py`), with models that its own client registers.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use super::{Repository, python::python, root};

/// The server, running.
pub struct Mlflow {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its database and its artifacts.
    pub files: Repository,
}

impl Mlflow {
    /// `None` without Python.
    pub fn start() -> Option<Mlflow> {
        let files = Repository::new();
        let mut child = Command::new(python("requirements-mlflow.txt")?)
            .arg(root("tests/clients/mlflow_server.py"))
            .arg(files.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let port = line(&mut answers)["port"].as_u64().unwrap().try_into().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Some(Mlflow { child, commands, answers, address, files })
    }

    /// Has the script do this; what it says to that: the number of a version, or nothing.
    #[track_caller]
    pub fn tell(&mut self, command: &[&str]) -> Value {
        writeln!(self.commands, "{}", command.join(" ")).unwrap();
        line(&mut self.answers)
    }

    /// From now on nobody listens there.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Mlflow {
    fn drop(&mut self) {
        self.stop();
    }
}

#[track_caller]
fn line(answers: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    serde_json::from_str(&line).expect("an answer of the script, which writes errors to its own")
}
