//! Handling of the signals that stop a process, of children that end, and of signals that ask for nothing, from the
//! start of the process. Before there is a server, a signal that stops it ends the process.

use std::{
    io::{self, IsTerminal},
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use environment::{IDLE_SIGNALS, real_time_signals};
use muster::{app::Wish, workers::Children};
use rustix::process::WaitOptions;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// The same signal within that time is one wish.
const ONE_WISH: Duration = Duration::from_secs(1);

/// Handles the signals, on a thread of its own.
pub(super) struct Signals(Arc<Mutex<Action>>);

/// What a signal does to the process.
enum Action {
    /// The process ends, with 0 at SIGTERM, because no work has begun.
    Exit,
    /// The process ends as without a handler.
    Default,
    /// The server gets a message.
    Notify(UnboundedSender<Wish>),
}

impl Signals {
    /// Handles signals from its return on. Where the system refuses a handler, signals keep their usual effect.
    pub(super) fn start(children: Children) -> Signals {
        let action = Arc::new(Mutex::new(Action::Exit));
        let (begun, has_begun) = mpsc::channel();
        let shared = action.clone();
        let listen = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let listened = runtime
                .and_then(|it| it.block_on(async { listen(&shared, &children, begun).await }));
            if let Err(error) = listened {
                eprintln!("cannot listen for signals, SIGKILL will stop this process: {error}");
            }
        };
        // The thread drops its sender once it listens, and also where it cannot.
        let started = thread::Builder::new().name("signals".to_owned()).spawn(listen);
        if started.is_ok() {
            let _ = has_begun.recv();
        }
        Signals(action)
    }

    /// From now on each signal is a message to the returned receiver.
    pub(super) fn notify(&self) -> UnboundedReceiver<Wish> {
        let (sender, signals) = unbounded_channel();
        self.set(Action::Notify(sender));
        signals
    }

    /// From now on signals end the process as without a handler.
    pub(super) fn restore_default(&self) {
        self.set(Action::Default);
    }

    fn set(&self, action: Action) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = action;
    }
}

/// A signal that stops the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopSignal {
    Hangup,
    Interrupt,
    Quit,
    Terminate,
}

impl StopSignal {
    const ALL: [StopSignal; 4] =
        [StopSignal::Hangup, StopSignal::Interrupt, StopSignal::Quit, StopSignal::Terminate];

    fn kind(self) -> SignalKind {
        match self {
            StopSignal::Hangup => SignalKind::hangup(),
            StopSignal::Interrupt => SignalKind::interrupt(),
            StopSignal::Quit => SignalKind::quit(),
            StopSignal::Terminate => SignalKind::terminate(),
        }
    }

    /// What it asks for. Whoever presses Ctrl-C has no balancer in front that would have to learn of the stop.
    fn wish(self) -> Wish {
        match self {
            StopSignal::Interrupt if io::stdin().is_terminal() => Wish::Now,
            _ => Wish::Drain,
        }
    }

    /// Is it to be handled? A hangup that `nohup` has the process ignore stays ignored.
    fn is_wanted(self, ignored: u64) -> bool {
        let bit = 1 << (self.kind().as_raw_value() - 1);
        match self {
            StopSignal::Hangup => ignored & bit == 0,
            StopSignal::Interrupt | StopSignal::Quit | StopSignal::Terminate => true,
        }
    }
}

/// Signals that this process ignores, a bit for each.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    line.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0)
}

/// Handles signals for ever.
async fn listen(
    action: &Mutex<Action>,
    workers: &Children,
    begun: mpsc::Sender<()>,
) -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    let (sender, mut stops) = unbounded_channel();
    for stop in StopSignal::ALL.into_iter().filter(|it| it.is_wanted(ignored)) {
        let mut signals = signal(stop.kind())?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                let _ = sender.send(stop);
            }
        });
    }
    let mut children = signal(SignalKind::child())?;
    for (number, name) in idle_signals(ignored) {
        ignore(number, name);
    }
    drop(begun);
    // Those that ended before there was a handler.
    reap(workers);
    let mut last = None;
    loop {
        let stop = tokio::select! {
            Some(stop) = stops.recv() => stop,
            _ = children.recv() => {
                reap(workers);
                continue;
            }
        };
        if is_echo(&mut last, stop, Instant::now()) {
            continue;
        }
        let status = 128 + stop.kind().as_raw_value();
        match &*action.lock().unwrap_or_else(PoisonError::into_inner) {
            Action::Notify(told) => drop(told.send(stop.wish())),
            Action::Exit if stop == StopSignal::Terminate => std::process::exit(0),
            Action::Exit | Action::Default => std::process::exit(status),
        }
    }
}

/// Signals that ask for nothing, but for those that the process was started to ignore.
fn idle_signals(ignored: u64) -> impl Iterator<Item = (i32, String)> {
    let named = IDLE_SIGNALS.map(|(number, name)| (number, name.to_owned()));
    let others = real_time_signals().map(|it| (it, format!("a real-time signal, {it}")));
    named.into_iter().chain(others).filter(move |(number, _)| ignored & 1 << (number - 1) == 0)
}

/// Handles a signal that asks for nothing: without a handler it would end the process. The first one is told.
fn ignore(number: i32, name: String) {
    // Where the system takes no handler, the signal keeps its effect.
    let Ok(mut signals) = signal(SignalKind::from_raw(number)) else { return };
    tokio::spawn(async move {
        if signals.recv().await.is_some() {
            tracing::info!(
                "{name} asks for nothing here and is ignored, as is each one that follows"
            );
        }
        while signals.recv().await.is_some() {}
    });
}

/// Is this the last signal again? GNU `timeout` sends it to the process and to its group, and both are one wish.
fn is_echo(last: &mut Option<(StopSignal, Instant)>, stop: StopSignal, now: Instant) -> bool {
    if last.is_some_and(|(it, at)| it == stop && now.duration_since(at) < ONE_WISH) {
        return true;
    }
    *last = Some((stop, now));
    false
}

/// Takes the exit statuses of children that have ended. Process 1 of a container is given those that others leave
/// behind, and a program that a shell has turned into has the shell's. Those of the server's own workers are kept.
fn reap(workers: &Children) {
    workers.reap(|| {
        let (child, status) = rustix::process::wait(WaitOptions::NOHANG).ok().flatten()?;
        let child = u32::try_from(child.as_raw_nonzero().get()).ok()?;
        Some((child, ExitStatus::from_raw(status.as_raw())))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_within_a_second_is_one_and_another_or_a_later_one_is_not() {
        let (mut last, start) = (None, Instant::now());
        let mut is_echo = |stop, ms| is_echo(&mut last, stop, start + Duration::from_millis(ms));
        assert!(!is_echo(StopSignal::Terminate, 0));
        assert!(is_echo(StopSignal::Terminate, 1));
        assert!(is_echo(StopSignal::Terminate, 999));
        assert!(!is_echo(StopSignal::Terminate, 1000));
        assert!(!is_echo(StopSignal::Interrupt, 1001));
    }

    #[test]
    fn a_hangup_that_is_ignored_stays_ignored() {
        let none = ignored("Name:\tmuster\nSigIgn:\t0000000000001000\n");
        assert!(StopSignal::ALL.iter().all(|it| it.is_wanted(none)));
        let nohup = ignored("SigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert!(!StopSignal::Hangup.is_wanted(nohup) && StopSignal::Quit.is_wanted(nohup));
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn a_signal_that_the_process_was_started_to_ignore_gets_no_handler() {
        let has = |ignored, number| idle_signals(ignored).any(|it| it.0 == number);
        let usr1 = SignalKind::user_defined1().as_raw_value();
        assert!(has(0, usr1) && !has(1 << (usr1 - 1), usr1));
        assert!(!has(0, SignalKind::terminate().as_raw_value()));
        assert!(has(0, 40) && has(0, 64));
    }
}
