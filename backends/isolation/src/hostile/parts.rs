//! What workers do that no worker of ours does, by the name of their model.

use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use backend::{DataType, NamedTensor, Shape, Tensor};
use rustix::{
    process::{Pid, Signal},
    thread::futex::{self, Flags},
};

use crate::{
    arena::WorkerArena,
    channel::{Receiver, Sender},
    frame::{LONGEST, LONGEST_ANSWER},
    mailbox,
    mapping::Mapping,
    message::{Answer, Entered, Execute, Fault, LoadAnswer, Loaded, Opened, Placed, ToWorker},
    pages::{Counters, Half},
};

/// Room of a lane for the inputs of a run, in bytes.
pub(super) const HALF: u64 = 1 << 16;

/// Plays that part, until the server's side ends.
pub(super) fn play(part: &str, control: UnixStream) -> Result<(), Box<dyn std::error::Error>> {
    let mut answers = Sender::new(control.try_clone()?);
    let mut messages = Receiver::with_files(control.try_clone()?, LONGEST);
    if part == "stopped at the load" {
        stop_here();
    }
    if part == "leaves before the load" {
        leave(&control)?;
    }
    messages.receive::<ToWorker>()?;
    if part == "a file that is none" {
        answers.send(&Entered::Ok(true))?;
        thread::park();
    }
    answers.send(&Entered::Ok(false))?;
    match part {
        "has no threads" => {
            let fault = Fault::load(format!("{part}: Resource temporarily unavailable"));
            answers.send(&LoadAnswer::Err(fault))?;
        }
        it if it.starts_with("is denied a file") => {
            let fault = Fault::load(format!("{it}: Permission denied"));
            answers.send(&LoadAnswer::Err(fault))?;
        }
        "garbage at the load" => (&control).write_all(&[5, 0, 0, 0, 77, 77, 77, 77, 77])?,
        "a huge frame at the load" => (&control).write_all(&[0xff; 4])?,
        "leaves at the load" | "loads once"
            if part == "leaves at the load" || has_played(part)? =>
        {
            leave(&control)?;
        }
        _ => {
            let loaded = Loaded { allows_trial_runs: true, ..Loaded::default() };
            answers.send(&LoadAnswer::Ok(Box::new(loaded)))?;
        }
    }
    messages.receive::<ToWorker>()?;
    let mut file = || messages.file().ok_or("no file");
    play_a_lane(part, file()?.into(), file()?, file()?)
}

/// Says nothing any more.
fn leave(control: &UnixStream) -> io::Result<()> {
    rustix::net::shutdown(control, rustix::net::Shutdown::Both)?;
    thread::park();
    Ok(())
}

/// A file that says that a worker of this server has played its part, which is played once.
pub(super) fn played_once(server: Pid, part: &str) -> PathBuf {
    let part = part.replace(' ', "-");
    std::env::temp_dir().join(format!("muster-{part}-{}", server.as_raw_pid()))
}

/// Has another worker of the server played that part? It has from now on.
fn has_played(part: &str) -> io::Result<bool> {
    let server = rustix::process::getppid().ok_or(io::ErrorKind::NotFound)?;
    match File::create_new(played_once(server, part)) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        Err(error) => Err(error),
    }
}

fn play_a_lane(
    part: &str,
    socket: UnixStream,
    frames: OwnedFd,
    tensors: OwnedFd,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut opening = Sender::new(socket);
    let raw = Frames::open(frames.try_clone()?)?;
    let (mut sender, mut batches) = mailbox::open(frames)?;
    let arena = WorkerArena::open(tensors)?;
    match part {
        "stopped at the opening" => stop_here(),
        "answers before it is asked" => {
            let outputs = Ok(Vec::new());
            sender.send(&Answer { run: 0, took: Duration::ZERO, wide: false, outputs })?;
            opening.send(&Opened::Ok(()))?;
            loop {
                thread::park();
            }
        }
        "opens with files" => {
            let (one, other) = UnixStream::pair()?;
            opening.send_with(&Opened::Ok(()), &[one.as_fd(), other.as_fd()])?;
        }
        _ => opening.send(&Opened::Ok(()))?,
    }
    if part == "takes nothing" {
        loop {
            thread::park();
        }
    }
    if part.starts_with("reads nothing once") && !has_played(part)? {
        // It sees that there is a run, and ends without taking it.
        batches.wait(None)?;
        rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)?;
    }
    if part == "honest runs" {
        loop {
            let execute: Execute<'_> = batches.receive()?;
            let inputs = arena.inputs(&execute.inputs, true).map_err(|it| it.text)?;
            let (run, outputs) = (execute.run, arena.put(&inputs));
            sender.send(&Answer { run, took: Duration::ZERO, wide: false, outputs })?;
        }
    }
    let execute: Execute<'_> = batches.receive()?;
    let run = execute.run;
    let inputs = arena.inputs(&execute.inputs, true).map_err(|it| it.text)?;
    let honest =
        |run| Answer { run, took: Duration::ZERO, wide: false, outputs: arena.put(&inputs) };
    let mut lie = |dtype, dims: &[u64], at, len| {
        let output = Placed { name: "x".into(), dtype, dims: dims.into(), at, len };
        sender.send(&Answer { run, took: Duration::ZERO, wide: false, outputs: Ok(vec![output]) })
    };
    match part {
        "runs once" if has_played(part)? => {
            drop(sender);
        }
        "outside of the memory" => lie(DataType::Fp32, &[2], 2 * HALF - 4, 8)?,
        "beyond what can be addressed" => lie(DataType::Fp32, &[2], u64::MAX - 3, 8)?,
        "longer than there is memory" => lie(DataType::Bool, &[1 << 32], HALF, 1 << 32)?,
        "too few bytes" => lie(DataType::Fp32, &[3], HALF, 8)?,
        "dimensions that overflow" => lie(DataType::Fp32, &[1 << 63, 4], HALF, 8)?,
        "strings that lie" => {
            let text = NamedTensor {
                name: "x".into(),
                tensor: Tensor::new(
                    DataType::Uint32,
                    Shape::new(&[2]),
                    [9u32, 9].map(u32::to_le_bytes).concat().into(),
                )?,
            };
            arena.put(&[text]).map_err(|it| it.text)?;
            lie(DataType::Bytes, &[1], HALF, 8)?;
        }
        "twice" => {
            sender.send(&honest(run))?;
            // The second one is no answer to the first run.
            while !sender.was_taken() {
                thread::yield_now();
            }
            sender.send(&honest(run))?;
        }
        "counts on" => raw.count(u32::MAX >> 1),
        "another run" => sender.send(&honest(run + 1))?,
        "a huge frame" => raw.send(&[0xff; 4])?,
        "a frame that is too long" => raw.send(&(LONGEST_ANSWER as u32 + 1).to_le_bytes())?,
        "bytes at random" => {
            let bytes: Vec<u8> =
                (1..5000u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            raw.send(&[[0x80, 0x13, 0, 0].as_slice(), &bytes].concat())?;
        }
        "an answer that is not counted" => raw.write(&[100, 0, 0, 0, 1, 2])?,
        "gives its memory back" => raw.0.give_back(0, raw.0.len())?,
        "ends its lane" => drop(sender),
        "stopped in a run" => stop_here(),
        "in another group" => {
            let parent = rustix::process::getppid().ok_or("no parent")?;
            rustix::process::setpgid(None, Some(rustix::process::getpgid(Some(parent))?))?;
        }
        "a long text" => {
            let fault = Fault::execute("text ".repeat(1 << 20));
            sender.send(&Answer { run, took: Duration::ZERO, wide: false, outputs: Err(fault) })?;
        }
        _ => {
            sender.send(&honest(run))?;
        }
    }
    loop {
        thread::park();
    }
}

/// The memory of frames, for what no worker of ours puts there.
struct Frames(Mapping);

impl Frames {
    fn open(file: OwnedFd) -> io::Result<Frames> {
        Ok(Frames(Mapping::open_with_counters(file)?))
    }

    fn write(&self, frame: &[u8]) -> Result<(), &'static str> {
        let pages = self.0.pages();
        let at = pages.start(Half::Second) + size_of::<Counters>();
        pages.write(at, frame).ok_or("no room")
    }

    /// That frame, as the first answer.
    fn send(&self, frame: &[u8]) -> Result<(), &'static str> {
        self.write(frame)?;
        self.count(1);
        Ok(())
    }

    fn count(&self, frames: u32) {
        let sent = &self.0.pages().counters(Half::Second).sent;
        sent.store(frames, Ordering::SeqCst);
        let _ = futex::wake(sent, Flags::empty(), 1);
    }
}

/// This thread runs on for a moment, where the signal stops another one first.
fn stop_here() -> ! {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, Signal::STOP).expect("this process is there");
    loop {
        thread::park();
    }
}
