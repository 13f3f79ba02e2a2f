//! Servers of the tests that answer wrongly when they are told to (`tests/clients/faulty.py`).

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::{Client, root, skip};

/// Such a server.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// Where it listens.
    pub address: SocketAddr,
}

impl Faults {
    /// What goes wrong from now on, and forgets what was asked.
    pub fn fail(&self, faults: Value) {
        let body = faults.to_string();
        Client::connect(self.address).post("/_faults", &[], body).expect(200);
    }

    /// What was asked: the method, the host, the path, whether there were credentials, and the range.
    pub fn asked(&self) -> Vec<(String, bool, Option<String>)> {
        let log = Client::connect(self.address).get("/_log").expect(200).json();
        let entry = |it: &Value| {
            let words: Vec<&str> = (0..3).map(|at| it[at].as_str().unwrap()).collect();
            (words.join(" "), it[3].as_bool().unwrap(), it[4].as_str().map(str::to_owned))
        };
        log.as_array().unwrap().iter().map(entry).collect()
    }
}

/// A script of `tests/clients` that serves until its input is closed.
pub struct Script {
    child: Child,
    /// The ports that it listens on.
    pub ports: Vec<u16>,
}

impl Script {
    /// Starts it with Python's own packages, and waits for the line with its ports; `None` without Python.
    pub fn start(script: &str, args: &[&str]) -> Option<Script> {
        let mut command = Command::new("python3");
        command.arg(root("tests/clients").join(script)).args(args);
        let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            skip(&format!("tests with {script}: there is no python3"));
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ports = line.split_whitespace().map(|it| it.parse().unwrap()).collect();
        Some(Script { child, ports })
    }

    /// The first of its ports, where faults are set.
    pub fn faults(&self) -> Faults {
        Faults { address: (Ipv4Addr::LOCALHOST, self.ports[0]).into() }
    }

    /// From now on nobody listens there.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A server in front of another one, which asks for credentials (`tests/clients/faulty_proxy.py`).
pub struct Proxy {
    script: Script,
}

impl Proxy {
    /// In front of `target`; `needs` is one of the options of the script, or nothing.
    pub fn start(target: SocketAddr, needs: &[&str]) -> Option<Proxy> {
        let target = format!("http://{target}");
        let script = Script::start("faulty_proxy.py", &[&[&*target], needs].concat())?;
        Some(Proxy { script })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.script.faults().address
    }

    /// As [`Faults::fail`].
    pub fn fail(&self, faults: Value) {
        self.script.faults().fail(faults);
    }

    /// As [`Faults::asked`].
    pub fn asked(&self) -> Vec<(String, bool, Option<String>)> {
        self.script.faults().asked()
    }

    /// From now on nobody listens there.
    pub fn stop(&mut self) {
        self.script.stop();
    }
}
