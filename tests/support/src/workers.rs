//! Models in processes of their own, and what becomes of those.

use std::{fs, io};

use rustix::process::{Pid, Signal, kill_process};

use super::{Client, Page, Process, Reply, Repository, infer, is_to_come_again, wait_for};

const ALL: &str = "--isolation=all";

/// Has a model of the engine `identity` say when a run begins, with the line that holds [`BEGUN`]. Nothing else tells
/// that a process has taken a run: what is put into the memory that it shares may not have been looked at yet.
pub const SAYS_RUNS: (&str, &str) = ("execute_said", "true");
/// The words of that line.
pub const BEGUN: &str = "an execution has begun";

/// How many runs have begun so far, by the log. Not those that are told once more when their process has died.
pub fn begun(server: &Process) -> usize {
    let is_own = |it: &&String| it.contains(BEGUN) && !it.contains("last_lines");
    server.log().iter().filter(is_own).count()
}

/// The processes whose parent is that one.
pub fn workers(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|it| it.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, of) = (fields.next(), fields.next());
        state != Some("Z") && of == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}

/// Ends that process by SIGKILL.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends that process a signal.
pub fn signal(pid: u32, signal: Signal) {
    try_signal(pid, signal).unwrap();
}

/// The same to one that may have ended.
///
/// # Errors
/// Where it has.
pub fn try_signal(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process(Pid::from_raw(pid as i32).unwrap(), signal)?)
}

/// A number of a model's worker, as the page of metrics has it.
pub fn of_worker(page: &Page, model: &str, name: &str, label: &str) -> f64 {
    let mut labels = [format!("model=\"{model}\""), "version=\"1\"".to_owned(), label.to_owned()];
    labels.sort();
    let labels: Vec<&str> = labels.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    page.value(&format!("muster_worker_{name}{{{}}}", labels.join(",")))
}

/// Has that process ended?
pub fn is_gone(pid: &u32) -> bool {
    !fs::exists(format!("/proc/{pid}/exe")).unwrap()
}

/// Waits until the model is not ready for a reason that has this part, which may not be the first that is given: for a
/// moment the next process may be said to load. Its words.
#[track_caller]
pub fn wait_not_ready(client: &mut Client, model: &str, part: &str) -> String {
    wait_for(&format!("'{model}' not to be ready: {part}"), || {
        let reply = client.get(&format!("/v2/models/{model}/ready"));
        let error = (reply.status == 503).then(|| reply.error(503))?;
        error.contains(part).then_some(error)
    })
}

/// The reply to one who comes after the death of the model's process, and comes again as often as that is told.
#[track_caller]
pub fn ask_again(client: &mut Client, model: &str, body: impl AsRef<[u8]>) -> Reply {
    wait_for(&format!("a process of '{model}'"), || {
        let reply = client.post(&infer(model), &[], &body);
        (!is_to_come_again(&reply)).then_some(reply)
    })
}

/// A server whose models all run in processes of their own.
pub fn process(repository: &Repository, flags: &[&str]) -> Process {
    let flags: Vec<&str> = [ALL].into_iter().chain(flags.iter().copied()).collect();
    let mut process = Process::start(repository, &flags, &[]);
    process.wait_ready();
    process
}
