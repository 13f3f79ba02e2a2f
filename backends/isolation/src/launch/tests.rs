//! Processes that end, are killed or let go of, as the server hears of it.

use super::*;
use crate::sandbox::Sandbox;
use std::{os::unix::process::ExitStatusExt, process::ExitStatus, sync::mpsc};

fn start(script: &str) -> (Arc<Worker>, Receiver, mpsc::Receiver<()>) {
    let args = ["-c", script].map(OsString::from).into();
    let program = Program {
        path: "/bin/sh".into(),
        name: "sh".into(),
        args,
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        sandbox: Sandbox::On,
        kept: Vec::new(),
        temporary: std::env::temp_dir(),
        lacks_directory: Arc::default(),
    };
    let (sender, ended) = mpsc::channel();
    let told = move |_: Arc<Worker>| sender.send(()).unwrap();
    let (children, figures) = (Children::default(), Arc::default());
    let whose = Whose { model: "m".to_owned(), version: 1, device: None };
    let (worker, receiver) = Worker::start(&program, &whose, &children, &figures, told).unwrap();
    (worker, receiver, ended)
}

#[track_caller]
fn check(script: &str, how: &str, reason: EndReason, lines: &str) {
    let (worker, mut receiver, ended) = start(script);
    assert!(matches!(receiver.receive::<u32>(), Err(ChannelError::Closed)));
    ended.recv().unwrap();
    assert!(worker.is_dead());
    assert_eq!(worker.obituary(), format!("the process of model 'm' ended {how}"));
    assert_eq!(worker.end_reason(), reason);
    assert_eq!(worker.last_lines(), lines);
}

#[test]
fn the_end_of_a_process_is_noticed_and_told_with_its_last_lines() {
    check("echo one; echo two >&2; exit 3", "with exit code 3", EndReason::Exit, "one\ntwo");
    check("kill -SEGV $$", "by signal 11 (SIGSEGV)", EndReason::Signal, "");
}

#[test]
fn what_it_writes_before_it_ends_is_told_however_much_that_is() {
    let script = "head -c 60000 /dev/zero | tr '\\0' '\\n'; seq 2000; echo last; kill -ABRT $$";
    let (worker, mut receiver, _ended) = start(script);
    assert!(matches!(receiver.receive::<u32>(), Err(ChannelError::Closed)));
    assert!(worker.obituary().ends_with("by signal 6 (SIGABRT)"));
    assert!(worker.last_lines().ends_with("1999\n2000\nlast"), "{}", worker.last_lines());
}

#[test]
fn one_that_is_killed_while_the_memory_of_the_group_ran_out_has_died_of_that() {
    let of = |status, forced, has_run_out| {
        let end = End::of(Some(ExitStatus::from_raw(status)), forced, || has_run_out);
        (end.how, end.reason)
    };
    let killed = "by signal 9 (SIGKILL)";
    let of_memory = format!("{killed}, out of memory (killed by the kernel)");
    assert_eq!(of(9, None, true), (of_memory, EndReason::Memory));
    assert_eq!(of(9, None, false), (killed.to_owned(), EndReason::Signal));
    let timeout = Some(EndReason::Timeout);
    assert_eq!(of(9, timeout, true), (killed.to_owned(), EndReason::Timeout));
    assert_eq!(of(11, None, true).1, EndReason::Signal);
}

#[test]
fn a_process_that_closes_its_socket_is_ended() {
    let (worker, mut receiver, ended) = start("exec <&-; exec sleep 600");
    assert!(matches!(receiver.receive::<u32>(), Err(ChannelError::Closed)));
    assert!(worker.obituary().ends_with("by signal 9 (SIGKILL)"));
    ended.recv().unwrap();
}

#[test]
fn one_that_is_let_go_of_ends() {
    let (worker, _receiver, _ended) = start("exec sleep 600");
    let pid = Pid::from_raw(worker.pid() as i32).unwrap();
    drop(worker);
    assert!(rustix::process::test_kill_process(pid).is_err());
}
