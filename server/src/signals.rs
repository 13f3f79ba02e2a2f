//! Handling of SIGTERM and SIGINT, from the start of the process. Before there is a server, they end the process.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// Handles the signals, on a thread of its own.
pub(super) struct Signals(Arc<Mutex<Action>>);

/// What a signal does to the process.
enum Action {
    /// The process ends, with 0 at SIGTERM, because no work has begun.
    Exit,
    /// The process ends as without a handler.
    Default,
    /// The server gets a message.
    Notify(UnboundedSender<()>),
}

impl Signals {
    /// Handles signals from its return on. Where the system refuses a handler, signals keep their usual effect.
    pub(super) fn start() -> Signals {
        let action = Arc::new(Mutex::new(Action::Exit));
        let (begun, has_begun) = mpsc::channel();
        let shared = action.clone();
        let listen = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let listened =
                runtime.and_then(|it| it.block_on(async { listen(&shared, begun).await }));
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
    pub(super) fn notify(&self) -> UnboundedReceiver<()> {
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

/// Handles signals for ever.
async fn listen(action: &Mutex<Action>, begun: mpsc::Sender<()>) -> io::Result<()> {
    let both = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [mut terminate, mut interrupt]: [Signal; 2] = match both {
        [Ok(terminate), Ok(interrupt)] => [terminate, interrupt],
        [Err(error), _] | [_, Err(error)] => return Err(error),
    };
    drop(begun);
    loop {
        let kind = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupt.recv() => SignalKind::interrupt(),
        };
        let status = 128 + kind.as_raw_value();
        match &*action.lock().unwrap_or_else(PoisonError::into_inner) {
            Action::Notify(server) => drop(server.send(())),
            Action::Exit if kind == SignalKind::terminate() => std::process::exit(0),
            Action::Exit | Action::Default => std::process::exit(status),
        }
    }
}
