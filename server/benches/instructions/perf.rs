//! Counting with the processor's own counters, by `perf stat` beside the running server.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Bench, FLAGS,
    support::{Outcome, server::Start},
};

/// In user space: what the kernel does for a request depends on the kernel.
const EVENT: &str = "instructions:u";

/// Can `perf` count here? In many containers and virtual machines it cannot.
pub fn works() -> bool {
    let output = Command::new("perf").args(["stat", "-x,", "-e", EVENT, "true"]).output();
    output.is_ok_and(|it| count(&String::from_utf8_lossy(&it.stderr)).is_some())
}

/// The difference of two stretches of one server's life.
pub fn per_request(bench: &Bench<'_>, few: u64, many: u64) -> Outcome<f64> {
    let server = Start { flags: &FLAGS, ..Start::new(bench.repository) }.start()?;
    bench.send(&server, few)?;
    let counted = |requests| -> Outcome<f64> {
        let perf = Perf::start(server.pid())?;
        bench.send(&server, requests)?;
        perf.stop()
    };
    let (less, more) = (counted(few)?, counted(many)?);
    Ok((more - less) / (many - few) as f64)
}

struct Perf(Child);

impl Perf {
    fn start(pid: u32) -> Outcome<Perf> {
        let mut command = Command::new("perf");
        command.args(["stat", "-x,", "-e", EVENT, "-p", &pid.to_string()]);
        let perf = command.stderr(Stdio::piped()).spawn();
        let perf = perf.map_err(|it| format!("cannot run perf: {it}"))?;
        // It does not say when it has begun to count.
        thread::sleep(Duration::from_millis(500));
        Ok(Perf(perf))
    }

    fn stop(mut self) -> Outcome<f64> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        let mut text = String::new();
        if let Some(mut output) = self.0.stderr.take() {
            output.read_to_string(&mut text)?;
        }
        self.0.wait()?;
        count(&text).ok_or(format!("perf counted nothing: {}", text.trim()).into())
    }
}

/// The number in front of `,,instructions:u,…`.
fn count(text: &str) -> Option<f64> {
    text.lines().find(|it| it.contains(EVENT))?.split(',').next()?.parse().ok()
}
