//! Tests with workers that do what no worker of ours does: the worker is ended, the run fails with a named error, and
//! nobody waits for ever. The worker is this test program, which plays a part by the name of its model.

mod parts;

use std::{
    fs, io,
    os::fd::AsFd,
    sync::{Arc, RwLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use backend::{
    Backend, BackendError, Batch, Device, EndReason, EngineDescription, Instance, Model,
    ModelProcess, ModelSource, NamedTensor, ProcessFigures, RerunPolicy, RunTerms, Shape, Stop,
    Tensor,
};
use rustix::process::Pid;

use crate::{
    aboard::Run,
    children::Children,
    lane::Lane,
    launch::Worker,
    limits::Recycling,
    message::ToWorker,
    open::Host,
    program::Program,
    recycle::Recycler,
    sandbox::Sandbox,
    start::{Cause, NotLoaded},
    supervisor::Supervisor,
};
use parts::{HALF, play, played_once};

/// How long a test waits for what is sure to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays a worker where the server's side has started this program as one; else there is nothing to test.
#[test]
fn play_a_worker() {
    let Ok(part) = std::env::var("MUSTER_MODEL") else { return };
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return };
    // Whatever goes wrong here ends the process, as a worker that fails.
    play(&part, socket.into()).expect("the server's side has ended");
}

/// An engine that loads nothing here: its workers play their parts.
struct Elsewhere;

impl Backend for Elsewhere {
    fn name(&self) -> &'static str {
        "elsewhere"
    }

    fn description(&self) -> &'static EngineDescription {
        &EngineDescription::PLAIN
    }

    fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        Err(BackendError::Load("no models here".to_owned()))
    }
}

/// A model whose worker plays that part.
fn load(part: &str, stop: Stop) -> Result<Arc<Supervisor>, NotLoaded> {
    let program = Program {
        path: std::env::current_exe().unwrap(),
        name: "worker".into(),
        args: ["--exact", "hostile::play_a_worker", "--nocapture"].map(Into::into).into(),
        environment: std::env::vars_os().collect(),
        sandbox: if part == "is denied a file" { Sandbox::On } else { Sandbox::Off },
        kept: Vec::new(),
        temporary: std::env::temp_dir(),
        lacks_directory: Arc::default(),
    };
    let mut source = ModelSource::new(part, "/nowhere");
    source.stop = stop.into();
    Ok(Supervisor::start(&program, &Children::default(), &Elsewhere, &source)?.0)
}

fn open(supervisor: &Arc<Supervisor>) -> Result<Lane, BackendError> {
    open_until(supervisor, Arc::default())
}

fn open_until(supervisor: &Arc<Supervisor>, stop: Arc<Stop>) -> Result<Lane, BackendError> {
    Lane::new(host(supervisor, stop), None)
}

fn host(supervisor: &Arc<Supervisor>, stop: Arc<Stop>) -> Host {
    Host {
        supervisor: supervisor.clone(),
        sharing: Arc::<RwLock<()>>::default(),
        device: Device::Cpu,
        arena_bytes: HALF as usize,
        keeps_state: false,
        facts: None,
        may_run_again: true,
        stop,
    }
}

fn run(lane: &mut Lane, stop: &Stop) -> Result<Vec<NamedTensor>, BackendError> {
    let tensor = Tensor::from_vec(Shape::new(&[2]), vec![1.0f32, 2.0]).unwrap();
    let inputs = [NamedTensor { name: "x".into(), tensor }];
    lane.execute(&Batch { inputs: &inputs, outputs: &["x".into()], rows: 1, signature: 0, stop })
}

/// Fails where that takes for ever.
fn within_reason<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(PATIENCE).expect("an end")
}

#[track_caller]
fn check_ended(worker: &Worker) {
    assert!(worker.is_dead());
    let pid = Pid::from_raw(worker.pid() as i32).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "the process is still there");
}

/// A run of a worker that plays this part, after `honest` runs that go well, ends with it.
#[track_caller]
fn check(part: &'static str, honest: usize, is_given_up: bool) {
    let (worker, error) = within_reason(move || {
        let supervisor = load(part, Stop::new()).unwrap();
        let worker = supervisor.worker().unwrap();
        let mut lane = open(&supervisor).unwrap();
        let stop = Stop::new();
        if is_given_up {
            stop.give_up();
        }
        for _ in 0..honest {
            let taken = run(&mut lane, &stop).unwrap();
            assert_eq!(taken[0].tensor.as_slice_of::<f32>().unwrap(), [1.0, 2.0]);
        }
        (worker, run(&mut lane, &stop).unwrap_err())
    });
    let expected = format!("the process of model '{part}' ended by signal 9 (SIGKILL)");
    assert_eq!(error, BackendError::Crashed(expected));
    check_ended(&worker);
}

#[test]
fn answers_that_lie_about_their_tensors_end_the_worker() {
    check("outside of the memory", 0, false);
    check("beyond what can be addressed", 0, false);
    check("longer than there is memory", 0, false);
    check("too few bytes", 0, false);
    check("dimensions that overflow", 0, false);
    check("strings that lie", 0, false);
}

#[test]
fn answers_that_nobody_waits_for_end_the_worker() {
    check("twice", 1, false);
    check("another run", 0, false);
    check("answers before it is asked", 0, false);
    check("counts on", 0, false);
}

#[test]
fn bytes_that_are_no_answer_end_the_worker() {
    check("a huge frame", 0, false);
    check("a frame that is too long", 0, false);
    check("bytes at random", 0, false);
    check("ends its lane", 0, false);
}

#[test]
fn files_that_come_along_where_a_lane_is_opened_end_the_worker() {
    let (worker, error) = within_reason(|| {
        let supervisor = load("opens with files", Stop::new()).unwrap();
        (supervisor.worker().unwrap(), open(&supervisor).map(drop).unwrap_err())
    });
    assert!(matches!(error, BackendError::Crashed(_)), "{error}");
    check_ended(&worker);
}

#[test]
fn the_text_of_an_error_is_cut_so_that_it_is_an_answer() {
    let error = within_reason(|| {
        let supervisor = load("a long text", Stop::new()).unwrap();
        run(&mut open(&supervisor).unwrap(), &Stop::new()).unwrap_err()
    });
    let BackendError::Execute(text) = error else { panic!("{error:?}") };
    assert!(text.starts_with("text text") && text.len() == 64 << 10);
}

/// A lane of a model whose workers play that part and are replaced then, and what they have done.
fn recycled(
    part: &str,
    when: Recycling,
    rerun: RerunPolicy,
) -> (Lane, impl Fn() -> ProcessFigures + use<>) {
    let supervisor = load(part, Stop::new()).unwrap();
    let recycler = Recycler::new(when, rerun).map(Arc::new);
    let lane = Lane::new(host(&supervisor, Arc::default()), recycler).unwrap();
    (lane, move || supervisor.figures().figures())
}

/// Returns when the worker of the lane is another than that one.
fn wait_for_another(lane: &Lane, than: u32) {
    while pid(lane) == than {
        thread::yield_now();
    }
}

fn pid(lane: &Lane) -> u32 {
    lane.place().lock().unwrap().worker.pid()
}

#[test]
fn a_worker_that_holds_too_much_is_replaced_after_a_run_that_fails_too() {
    within_reason(|| {
        // Each holds more than a byte.
        let when = Recycling { above_bytes: Some(1), ..Recycling::default() };
        let (mut lane, figures) = recycled("a long text", when, RerunPolicy::default());
        let first = pid(&lane);
        assert!(matches!(run(&mut lane, &Stop::new()), Err(BackendError::Execute(_))));
        wait_for_another(&lane, first);
        assert_eq!(figures().restarts[EndReason::Recycle as usize], 1);
    });
}

#[test]
fn a_worker_is_replaced_once_it_has_answered_so_many_requests_whatever_runs_they_share() {
    within_reason(|| {
        let when = Recycling { after_requests: Some(6), ..Recycling::default() };
        let (mut lane, figures) = recycled("honest runs", when, RerunPolicy::default());
        let first = pid(&lane);
        let run_of = |requests, lane: &mut Lane| {
            lane.expect_runs(RunTerms { requests, ..RunTerms::default() });
            run(lane, &Stop::new()).unwrap();
        };
        run_of(5, &mut lane);
        // One that is not for clients.
        run_of(0, &mut lane);
        assert_eq!(pid(&lane), first);
        run_of(1, &mut lane);
        wait_for_another(&lane, first);
        run_of(5, &mut lane);
        assert_eq!(figures().restarts[EndReason::Recycle as usize], 1);
    });
}

#[test]
fn another_worker_is_warmed_up_with_the_last_run_unless_that_is_not_to_be_made_again() {
    within_reason(|| {
        let runs = |rerun| {
            let when = Recycling { after_requests: Some(1), ..Recycling::default() };
            let (mut lane, figures) = recycled("honest runs", when, rerun);
            let first = pid(&lane);
            lane.expect_runs(RunTerms { requests: 1, ..RunTerms::default() });
            run(&mut lane, &Stop::new()).unwrap();
            wait_for_another(&lane, first);
            figures().turn_overheads.counts().iter().sum::<u64>()
        };
        assert_eq!([RerunPolicy::Crash, RerunPolicy::Never].map(runs), [2, 1]);
    });
}

#[test]
fn a_run_that_a_worker_was_never_given_is_made_in_another_without_being_repeated() {
    let file = played_once(rustix::process::getpid(), "reads nothing once");
    let (outcome, worker) = within_reason(|| {
        let supervisor = load("reads nothing once", Stop::new()).unwrap();
        let worker = supervisor.worker().unwrap();
        let mut lane = open(&supervisor).unwrap();
        (run(&mut lane, &Stop::new()), worker)
    });
    fs::remove_file(file).unwrap();
    assert!(outcome.is_ok(), "{outcome:?}");
    check_ended(&worker);
}

#[test]
fn a_run_of_clients_that_finds_its_worker_dead_is_left_to_an_instance_that_is_warm() {
    let file = played_once(rustix::process::getpid(), "reads nothing once, of clients");
    within_reason(|| {
        for (part, is_noticed) in [("honest runs", true), ("reads nothing once, of clients", false)]
        {
            let supervisor = load(part, Stop::new()).unwrap();
            let mut lane = open(&supervisor).unwrap();
            lane.expect_runs(RunTerms::default());
            if is_noticed {
                supervisor.worker().unwrap().end(EndReason::Protocol);
            }
            let error = run(&mut lane, &Stop::new()).unwrap_err();
            assert!(matches!(error, BackendError::Crashed(_)), "{error}");
            assert!(lane.has_missed_run());
            let mut another = open(&supervisor).unwrap();
            another.expect_runs(RunTerms::default());
            assert!(run(&mut another, &Stop::new()).is_ok() && !another.has_missed_run());
        }
    });
    fs::remove_file(file).unwrap();
}

#[test]
fn a_worker_that_does_not_go_on_is_ended_with_the_run_that_is_given_up() {
    check("stopped in a run", 0, true);
    check("takes nothing", 0, true);
    check("an answer that is not counted", 0, true);
    check("gives its memory back", 0, true);
    check("in another group", 0, true);
}

#[test]
fn a_worker_that_is_stopped_takes_messages_until_there_is_no_room_and_is_ended_then() {
    within_reason(|| {
        let supervisor = load("stopped in a run", Stop::new()).unwrap();
        let worker = supervisor.worker().unwrap();
        let mut lane = open(&supervisor).unwrap();
        let stop = Arc::new(Stop::new());
        let asked = stop.clone();
        let running = thread::spawn(move || run(&mut lane, &asked));
        // Nothing waits for what has no room, however often it is said.
        (0..10_000).for_each(|run| worker.send_at_once(&ToWorker::Stop { lane: 7, run }));
        stop.give_up();
        assert!(matches!(running.join().unwrap(), Err(BackendError::Crashed(_))));
        check_ended(&worker);
    });
}

#[test]
fn loads_that_are_answered_with_garbage_fail_with_its_name() {
    // Where the load has not begun, the process may be at fault, and not the model.
    for (part, text, cause) in [
        ("leaves before the load", "while it was loaded", Cause::Process),
        ("a file that is none", "a word of a file without it", Cause::Process),
        ("garbage at the load", "cannot be read", Cause::Model),
        ("a huge frame at the load", "a frame of 4294967295 bytes", Cause::Model),
        ("leaves at the load", "while it was loaded", Cause::Model),
        ("is denied a file", "Permission denied", Cause::Sandbox),
        ("is denied a file where there is no sandbox", "Permission denied", Cause::Model),
        ("has no threads", "Resource temporarily unavailable", Cause::Process),
    ] {
        let not_loaded = within_reason(move || load(part, Stop::new()).map(drop)).unwrap_err();
        let BackendError::Load(told) = &not_loaded.error else { panic!("{not_loaded:?}") };
        assert!(told.contains(text) && told.contains(part), "{told}");
        assert_eq!(not_loaded.cause, cause, "{part}");
    }
}

#[test]
fn a_run_waits_for_a_process_that_another_has_alone_and_the_wait_is_not_its_time() {
    let (outcome, waited) = within_reason(|| {
        let supervisor = load("one honest run", Stop::new()).unwrap();
        let host = host(&supervisor, Arc::default());
        let sharing = host.sharing.clone();
        let mut lane = Lane::new(host, None).unwrap();
        let (stop, alone) = (Arc::new(Stop::new()), sharing.write().unwrap());
        let asked = stop.clone();
        let running = thread::spawn(move || run(&mut lane, &asked));
        while stop.waited(Instant::now()) < Duration::from_millis(1) {
            thread::yield_now();
        }
        drop(alone);
        (running.join().unwrap(), stop.waited(Instant::now()))
    });
    assert!(outcome.is_ok() && Duration::from_millis(1) <= waited, "{outcome:?}");
}

#[test]
fn an_instance_whose_process_has_died_is_fresh_until_it_has_run_in_another() {
    within_reason(|| {
        let supervisor = load("one honest run", Stop::new()).unwrap();
        let mut lane = open(&supervisor).unwrap();
        assert!(!lane.is_fresh());
        supervisor.worker().unwrap().end(EndReason::Protocol);
        assert!(lane.is_fresh());
        run(&mut lane, &Stop::new()).unwrap();
        assert!(!lane.is_fresh());
    });
}

#[test]
fn a_process_that_cannot_take_the_place_of_another_is_no_failure_of_the_request_that_waits() {
    let file = played_once(rustix::process::getpid(), "loads once");
    let error = within_reason(|| {
        let supervisor = load("loads once", Stop::new()).unwrap();
        let worker = supervisor.worker().unwrap();
        worker.end(EndReason::Protocol);
        while !worker.is_dead() {
            thread::yield_now();
        }
        supervisor.worker().map(drop)
    });
    fs::remove_file(file).unwrap();
    assert!(matches!(error, Err(BackendError::Unavailable(_))), "{error:?}");
}

#[test]
fn after_too_many_deaths_a_worker_serves_once_it_has_warmed_up() {
    within_reason(|| {
        let supervisor = load("honest runs", Stop::new()).unwrap();
        // As a load does: before it is told of the terms of any run.
        run(&mut open(&supervisor).unwrap(), &Stop::new()).unwrap();
        let runs = || supervisor.figures().figures().turn_overheads.counts().iter().sum::<u64>();
        supervisor.has_died_too_often();
        let worker = supervisor.worker().unwrap();
        assert_eq!(runs(), 2);
        // Whoever comes is let in, also while others run.
        let run = Run { rows: 1, requests: 1, may_run_again: true };
        let _boarded = worker.vitals().aboard().board(7, run);
        assert_eq!(supervisor.figures().outage(), None);
    });
}

#[test]
fn a_worker_that_does_not_warm_up_after_too_many_deaths_is_one_more_and_serves_nobody() {
    let file = played_once(rustix::process::getpid(), "runs once");
    let (error, outage) = within_reason(|| {
        let supervisor = load("runs once", Stop::new()).unwrap();
        run(&mut open(&supervisor).unwrap(), &Stop::new()).unwrap();
        supervisor.has_died_too_often();
        (supervisor.worker().map(drop), supervisor.figures().outage())
    });
    fs::remove_file(file).unwrap();
    let Err(BackendError::Unavailable(told)) = error else { panic!("{error:?}") };
    assert!(told.reason.contains("the next one did not warm up"), "{told:?}");
    for it in [told, outage.unwrap()] {
        assert!(Duration::from_secs(20) < it.retry_after, "{it:?}");
    }
}

#[test]
fn where_nothing_warms_it_up_one_request_at_a_time_is_let_in_until_one_is_answered() {
    within_reason(|| {
        let supervisor = load("honest runs", Stop::new()).unwrap();
        supervisor.has_died_too_often();
        let worker = supervisor.worker().unwrap();
        let outage = || supervisor.figures().outage();
        assert_eq!(outage(), None, "somebody is to come");
        let boards = |lane| {
            let run = Run { rows: 1, requests: 1, may_run_again: true };
            worker.vitals().aboard().board(lane, run)
        };
        let first = boards(0);
        let told = outage().expect("the first one runs");
        assert!(told.reason.contains("is to answer a request first"), "{told:?}");
        assert!(Duration::ZERO < told.retry_after);
        drop(first);
        assert_eq!(outage(), None, "it has failed, and another may try");
        run(&mut open(&supervisor).unwrap(), &Stop::new()).unwrap();
        let _next = boards(0);
        assert_eq!(outage(), None);
    });
}

#[test]
fn an_instance_that_is_never_made_ends_with_the_load_that_is_given_up() {
    let error = within_reason(|| {
        let supervisor = load("stopped at the opening", Stop::new()).unwrap();
        let stop = Arc::new(Stop::new());
        stop.give_up();
        open_until(&supervisor, stop).map(drop)
    });
    assert!(matches!(error, Err(BackendError::Crashed(_))), "{error:?}");
}

#[test]
fn a_worker_that_is_stopped_ends_with_the_load_that_is_given_up() {
    let error = within_reason(|| {
        let stop = Stop::new();
        stop.give_up();
        load("stopped at the load", stop).map(drop)
    });
    let Err(NotLoaded { error: BackendError::Load(_), .. }) = error else { panic!("{error:?}") };
}
