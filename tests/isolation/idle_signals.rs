//! Signals that ask for nothing: neither the server nor a model's process ends by them.

use rustix::process::Signal;

use crate::support::{
    Process, Repository, first_of, infer, row, wait_for,
    workers::{kill, process, signal, workers},
};

const NAMES: [&str; 10] =
    ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PWR", "STKFLT", "PIPE", "XFSZ"];

#[test]
fn signals_that_ask_for_nothing_do_not_end_the_server_and_each_is_told_once() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    for name in NAMES {
        server.signal(name);
        server.signal(name);
    }
    // Of the real-time signals there are many.
    for name in ["RTMIN", "64"] {
        server.signal(name);
    }
    server.wait_for_line("SIGUSR1 asks for nothing here and is ignored");
    server.wait_for_line("SIGALRM asks for nothing here and is ignored");
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(3))), 3.0);
    let told = server.log().iter().filter(|it| it.contains("SIGUSR1 asks for nothing")).count();
    assert_eq!(told, 1);
    server.signal("TERM");
    assert!(server.wait().status.success());
}

#[test]
fn signals_that_ask_for_nothing_do_not_end_the_process_of_a_model_and_others_do() {
    let repository = Repository::identity("m", &[]);
    let mut server = process(&repository, &[]);
    server.wait_ready();
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(3))), 3.0);
    let worker = workers(server.id())[0];
    for number in
        [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::POWER]
    {
        signal(worker, number);
    }
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(4))), 4.0);
    assert_eq!(workers(server.id()), [worker]);
    kill(worker);
    wait_for("another process", || {
        let now = workers(server.id());
        (now.len() == 1 && now != [worker]).then_some(())
    });
}
