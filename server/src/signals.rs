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
pub(super) struct Signals(Arc<Mutex<Then>>);

/// The effect of a signal.
enum Then {
    /// The process ends, with 0 at SIGTERM, because no work has begun.
    End,
    /// The process ends as without a handler.
    EndAsUsual,
    /// The server gets a message.
    Tell(UnboundedSender<()>),
}

impl Signals {
    /// Handles signals from its return on. Where the system refuses a handler, signals keep their usual effect.
    pub(super) fn start() -> Signals {
        let then = Arc::new(Mutex::new(Then::End));
        let (begun, has_begun) = mpsc::channel();
        let shared = then.clone();
        let hear = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let heard = runtime.and_then(|it| it.block_on(async { hear(&shared, begun).await }));
            if let Err(error) = heard {
                eprintln!("cannot listen for signals, SIGKILL will stop this process: {error}");
            }
        };
        // The thread drops its sender once it listens, and also where it cannot.
        let started = thread::Builder::new().name("signals".to_owned()).spawn(hear);
        if started.is_ok() {
            let _ = has_begun.recv();
        }
        Signals(then)
    }

    /// From now on each signal is a message to the returned receiver.
    pub(super) fn tell(&self) -> UnboundedReceiver<()> {
        let (tell, signals) = unbounded_channel();
        self.set(Then::Tell(tell));
        signals
    }

    /// From now on signals end the process as without a handler.
    pub(super) fn end_as_usual(&self) {
        self.set(Then::EndAsUsual);
    }

    fn set(&self, then: Then) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = then;
    }
}

/// Handles signals for ever.
async fn hear(then: &Mutex<Then>, begun: mpsc::Sender<()>) -> io::Result<()> {
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
        let as_usual = 128 + kind.as_raw_value();
        match &*then.lock().unwrap_or_else(PoisonError::into_inner) {
            Then::Tell(server) => drop(server.send(())),
            Then::End if kind == SignalKind::terminate() => std::process::exit(0),
            Then::End | Then::EndAsUsual => std::process::exit(as_usual),
        }
    }
}
