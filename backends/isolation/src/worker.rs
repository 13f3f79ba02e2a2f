//! The worker's side: it loads one model, and runs the batches of its lanes, each on a thread of its own.

use std::{
    collections::HashMap,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Instant,
};

use backend::{
    Backend, BackendError, Batch, Device, Instance, MODEL_STACK, Model, ModelSource, NamedTensor,
    RunTerms, Stop, WorkerProgram,
};
use rustix::process::{Resource, Rlimit, Signal};

use crate::{
    arena::WorkerArena,
    become_program::become_program,
    channel::{ChannelError, Receiver, Sender},
    frame::{Encoding, Garbage, LONGEST},
    limits::MemoryBound,
    mailbox::{self, Incoming, Outgoing},
    message::{Answer, Entered, Execute, Fault, LoadAnswer, Loaded, Opened, ToWorker},
    sandbox::{Inside, Order, close_inherited, enter},
};

/// By so much more than the server is a worker the process to end where memory runs out.
const OOM_SCORE: i32 = 500;

/// Loads and runs a model for the server at the other end of standard input, until that is closed. A worker of the
/// engine that the server names must be among `engines`. To be called while there is one thread.
pub fn serve(engines: Vec<Arc<dyn Backend>>) -> ExitCode {
    close_inherited();
    let control = match control() {
        Ok(control) => control,
        Err(error) => {
            eprintln!(
                "'muster worker' is started by the server, for a model in a process of its own: {error}"
            );
            return ExitCode::FAILURE;
        }
    };
    be_a_worker();
    // Also where this process is stopped, and cannot notice that the socket is closed.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let shared = Arc::new(Shared { engines, model: OnceLock::new(), lanes: Mutex::default() });
    let load_stop = Arc::new(Stop::new());
    let ended = listen(&shared, &load_stop, control);
    if let Err(ChannelError::Closed) = ended {
        // Runs may not end, and libraries may take their time to: what they hold is the system's.
        // Its children are of its group.
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process_group(own, Signal::KILL);
        let _ = rustix::process::kill_process(own, Signal::KILL);
    }
    ExitCode::FAILURE
}

/// The socket on standard input, which is free for others then.
fn control() -> io::Result<UnixStream> {
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::net::getsockname(&socket)?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// The first to go where memory runs out, without a file of its memory where it crashes, and not to be ended by a
/// signal that asks for nothing.
fn be_a_worker() {
    environment::ignore_idle_signals();
    let path = "/proc/self/oom_score_adj";
    let score = fs::read_to_string(path).ok().and_then(|it| it.trim().parse::<i32>().ok());
    let _ = fs::write(path, (score.unwrap_or(0) + OOM_SCORE).min(1000).to_string());
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(Resource::Core, none);
}

struct Shared {
    engines: Vec<Arc<dyn Backend>>,
    model: OnceLock<Arc<dyn Model>>,
    /// Those that are open.
    lanes: Mutex<HashMap<u32, Runs>>,
}

/// The run that a lane makes, and the last that nobody waits for. The two come by ways of their own, in either
/// order.
#[derive(Default)]
struct Runs {
    running: Option<(u64, Arc<Stop>)>,
    stopped: Option<u64>,
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, HashMap<u32, Runs>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self, name: &str) -> Result<&dyn Backend, Fault> {
        let engine = self.engines.iter().find(|it| it.name() == name);
        let missing = || Fault::load(format!("this program has no engine '{name}'"));
        engine.map(|it| &**it).ok_or_else(missing)
    }

    /// The program that this process is to become for that model, if it is to become another one.
    fn program(&self, engine: &str, source: &ModelSource) -> Result<Option<WorkerProgram>, Fault> {
        Ok(self.engine(engine)?.program(source)?)
    }

    /// To be called before there is a second thread.
    fn enter(
        &self,
        order: &Order,
        engine: &str,
        source: &ModelSource,
        program: Option<&WorkerProgram>,
    ) -> Result<Inside, Fault> {
        let entered = enter(order, self.engine(engine)?, source, program);
        entered.map_err(|it| Fault::load(format!("the sandbox of its process: {it}")))
    }

    fn load(&self, engine: &str, source: &ModelSource) -> LoadAnswer {
        let engine = self.engine(engine)?;
        let model = engine.load(source)?;
        let loaded = Loaded {
            spec: model.spec().cloned(),
            signatures: model.signatures().cloned(),
            run_memory: model.run_memory(),
            notes: model.notes().to_vec(),
            keeps_state: model.keeps_state(),
            allows_trial_runs: model.allows_trial_runs(),
            warm_up: model.warm_up(),
            version: engine.version(),
            completed: model.completed_config().map(str::to_owned),
            answers_each: model.answers_calls(),
            // Parts go by the talk, which only programs of their own have.
            streams: false,
            // As only those have code of their own to ask.
            tells_readiness: false,
        };
        let _ = self.model.set(model);
        Ok(Box::new(loaded))
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, Fault> {
        let model = self.model.get().ok_or_else(|| Fault::load("no model is loaded".to_owned()))?;
        Ok(model.instantiate(device)?)
    }
}

impl Shared {
    /// Gives back what the model and its engine keep for later runs, once it is loaded. Blocking.
    fn trim_memory(&self) {
        if let Some(model) = self.model.get() {
            model.trim_memory();
            self.give_back_memory();
        }
    }

    /// Gives back what runs have left in the engine. Blocking.
    fn give_back_memory(&self) {
        self.engines.iter().for_each(|it| it.give_back_memory());
    }
}

impl Runs {
    /// A run begins that this stop ends.
    fn begin(&mut self, run: u64, stop: &Arc<Stop>) {
        if self.stopped.is_some_and(|it| run <= it) {
            stop.stop();
        }
        self.running = Some((run, stop.clone()));
    }

    /// Nobody waits for that run any more: what ends it, if it has begun.
    fn stop(&mut self, run: u64) -> Option<Arc<Stop>> {
        self.stopped = self.stopped.max(Some(run));
        self.running.as_ref().filter(|it| it.0 == run).map(|it| it.1.clone())
    }
}

/// Does what the server says, until it says no more.
fn listen(
    shared: &Arc<Shared>,
    load_stop: &Arc<Stop>,
    control: UnixStream,
) -> Result<(), ChannelError> {
    let mut answers = Some((Sender::new(control.try_clone()?), Sender::new(control.try_clone()?)));
    let own = control.try_clone()?;
    let mut messages = Receiver::with_files(control, LONGEST);
    // Kept to the end.
    let mut _pins = None;
    let mut bound = MemoryBound::default();
    loop {
        let message: ToWorker = messages.receive()?;
        match message {
            ToWorker::Load { engine, mut source, order, niceness } => {
                let Some((mut sender, mut refusal)) = answers.take() else { continue };
                // Threads have it from this one, which is the only one. A preference: where the system refuses it, the
                // model runs all the same.
                let _ = rustix::process::setpriority_process(None, niceness);
                // On this thread, the only one: those that it starts are in the sandbox too.
                let program = shared.program(&engine, &source);
                let entered = program.and_then(|program| {
                    let inside = shared.enter(&order, &engine, &source, program.as_ref())?;
                    Ok((program, inside))
                });
                let program = match entered {
                    Ok((program, Inside { pins, asks })) => {
                        _pins = Some(pins);
                        match asks {
                            // This process keeps none, so that nothing in it answers.
                            Some(asks) => sender.send_with(&Entered::Ok(true), &[asks.as_fd()])?,
                            None => sender.send(&Entered::Ok(false))?,
                        }
                        program
                    }
                    Err(fault) => {
                        sender.send(&Entered::Err(fault))?;
                        continue;
                    }
                };
                bound.begin(&source);
                if let Some(program) = program {
                    sender.write_in(Encoding::Json);
                    sender.send(&become_program(&program, &own))?;
                    continue;
                }
                source.stop = load_stop.clone();
                let shared = shared.clone();
                let spawned = spawn("load", move || {
                    // A server that is gone needs no answer.
                    let _ = sender.send(&caught(|| shared.load(&engine, &source)));
                });
                if let Err(fault) = spawned {
                    refusal.send(&LoadAnswer::Err(fault))?;
                }
            }
            ToWorker::StopLoad => load_stop.stop(),
            ToWorker::Open { lane, device, may_look, instance: _ } => {
                let mut file = || {
                    let lacks = || Garbage::Unexpected("a lane without its files".to_owned());
                    messages.file().ok_or_else(lacks)
                };
                let files = LaneFiles { socket: file()?.into(), frames: file()?, tensors: file()? };
                bound.add_thread();
                shared.lanes().insert(lane, Runs::default());
                let mut refusal = Sender::new(files.socket.try_clone()?);
                let of_lane = shared.clone();
                let spawned = spawn("lane", move || {
                    // It ends when the server says so.
                    let _ = run_lane(&of_lane, (lane, device), files, may_look);
                    of_lane.lanes().remove(&lane);
                });
                if let Err(fault) = spawned {
                    shared.lanes().remove(&lane);
                    // Other lanes go on.
                    let _ = refusal.send(&Opened::Err(fault));
                }
            }
            ToWorker::Stop { lane, run } => {
                let stop = shared.lanes().get_mut(&lane).and_then(|it| it.stop(run));
                if let Some(stop) = stop {
                    stop.stop();
                }
            }
            // Never: a model that is loaded here tells nothing of it.
            ToWorker::IsReady => drop(messages.file()),
            ToWorker::TrimMemory => aside(shared, Shared::trim_memory),
            ToWorker::GiveBackMemory => aside(shared, Shared::give_back_memory),
        }
    }
}

/// Gives memory back on a thread of its own. Where there is no memory for one, there is none to give back without it.
fn aside(shared: &Arc<Shared>, give_back: impl FnOnce(&Shared) + Send + 'static) {
    let shared = shared.clone();
    let builder = thread::Builder::new().name("trim".to_owned()).stack_size(MODEL_STACK);
    let _ = builder.spawn(move || give_back(&shared));
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let builder = thread::Builder::new().name(name.to_owned()).stack_size(MODEL_STACK);
    let spawned = builder.spawn(work).map(drop);
    spawned.map_err(|error| Fault::load(format!("its process can start no thread: {error}")))
}

/// What comes along with a lane.
struct LaneFiles {
    /// For the answer whether it is open.
    socket: UnixStream,
    frames: OwnedFd,
    tensors: OwnedFd,
}

/// Makes an instance and runs its batches.
fn run_lane(
    shared: &Shared,
    (lane, device): (u32, Device),
    files: LaneFiles,
    may_look: bool,
) -> Result<(), ChannelError> {
    let mut opening = Sender::new(files.socket);
    let memory = mailbox::open(files.frames)
        .and_then(|frames| Ok((frames, WorkerArena::open(files.tensors)?)));
    let ((mut answers, mut batches), arena): ((Outgoing, Incoming), _) = match memory {
        Ok(memory) => memory,
        Err(error) => {
            let text = format!("no memory to share for an instance: {error}");
            return opening.send(&Opened::Err(Fault::out_of_memory(text)));
        }
    };
    let keeps_state = shared.model.get().is_some_and(|it| it.keeps_state());
    let mut instance = match caught(|| shared.instantiate(device)) {
        Ok(instance) => instance,
        Err(fault) => return opening.send(&Opened::Err(fault)),
    };
    opening.send(&Opened::Ok(()))?;
    drop(opening);
    batches.look().bound(may_look);
    loop {
        let execute: Execute<'_> = batches.receive()?;
        let stop = Arc::new(Stop::new());
        stop.end_by(execute.ends_in.and_then(|it| Instant::now().checked_add(it)));
        shared.lanes().entry(lane).or_default().begin(execute.run, &stop);
        // What an engine keeps of a run must not be written over by the next.
        let inputs = arena.inputs(&execute.inputs, keeps_state);
        let began = Instant::now();
        let ran = caught(|| run(inputs?, &mut *instance, &execute, &stop));
        let took = began.elapsed();
        let outputs = match &ran {
            Ok(outputs) => arena.put(outputs),
            Err(fault) => Err(fault.clone()),
        };
        let is_lost = outputs.as_ref().is_err_and(Fault::is_panic);
        let wide = instance.has_run_wide();
        let run = execute.run;
        match answers.send(&Answer { run, took, wide, outputs }) {
            Err(ChannelError::TooLong { bytes, room }) => {
                let outputs = Err(Fault::execute(format!(
                    "the names and shapes of its outputs take {bytes} bytes, and a model in a process of its own has \
                     {room} for them"
                )));
                answers.send(&Answer { run, took, wide, outputs })?;
            }
            sent => sent?,
        }
        if is_lost {
            return Ok(());
        }
    }
}

/// Calls the engine; its panic becomes a fault.
fn caught<T>(call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    outcome.unwrap_or_else(|payload| Err(Fault::panic(&*payload)))
}

fn run(
    inputs: Vec<NamedTensor>,
    instance: &mut dyn Instance,
    execute: &Execute<'_>,
    stop: &Stop,
) -> Result<Vec<NamedTensor>, Fault> {
    let outputs: Vec<Arc<str>> = execute.outputs.iter().map(|it| Arc::from(*it)).collect();
    let rows = usize::try_from(execute.rows)
        .map_err(|it| Fault::from(BackendError::Execute(it.to_string())))?;
    let signature = execute.signature as usize;
    instance.expect_runs(RunTerms { wide: execute.wide, ..RunTerms::default() });
    let batch = Batch { inputs: &inputs, outputs: &outputs, rows, signature, stop };
    Ok(instance.execute(&batch)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_stopped_whether_it_begins_before_or_after_nobody_waits_for_it() {
        let (mut runs, stops) = (Runs::default(), [(); 4].map(|()| Arc::new(Stop::new())));
        runs.begin(0, &stops[0]);
        assert!(runs.stop(0).is_some_and(|it| Arc::ptr_eq(&it, &stops[0])));
        runs.begin(1, &stops[1]);
        assert!(!stops[1].is_stopped());
        assert!(runs.stop(0).is_none() && runs.stop(2).is_none());
        runs.begin(2, &stops[2]);
        runs.begin(3, &stops[3]);
        assert!(stops[2].is_stopped() && !stops[3].is_stopped());
    }
}
