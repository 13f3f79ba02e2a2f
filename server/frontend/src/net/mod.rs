//! Ports and the threads behind them: accept, spread connections over I/O threads, let each be served by what
//! speaks on its port, stop gracefully.
//!
//! One thread per core that does I/O, each with a runtime of its own: a connection stays on its thread, and
//! a request that its task runs in place never crosses to another. The accepting task hands connections to
//! the threads in turn.

mod task;
pub mod tls;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use socket2::{Domain, Socket, Type};
use tokio::sync::mpsc;

use crate::drain::{Drain, Guard};
use inference::limits::{Budget, Permit};
pub use task::Task;

/// Connections that wait to be accepted, per listener.
const BACKLOG: i32 = 4096;

/// Pause after a failed accept: descriptors or memory are short, and trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Opens a port.
///
/// # Errors
/// When the address is taken or not ours.
pub fn listen(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Without it a restart would wait for old connections to time out.
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// What is done with one connection, to its end.
pub type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What speaks on a port: one protocol, and everything that it needs.
pub trait Front: Send + Sync {
    /// A copy for one I/O thread, so that the threads do not count references in one place.
    fn fork(&self) -> Arc<dyn Front>;

    /// Serves a connection to its end.
    fn serve(self: Arc<Self>, accepted: Accepted) -> Served;

    /// Says that there are too many connections, if the protocol has a word for it, and closes this one.
    fn refuse(self: Arc<Self>, stream: std::net::TcpStream) -> Served;
}

/// A connection on its way to the thread that serves it.
pub struct Accepted {
    /// The connection, not blocking.
    pub stream: std::net::TcpStream,
    /// Of the connections that may be open; held while it is.
    pub permit: Permit,
    /// Keeps the server from stopping before the connection is done.
    pub guard: Guard,
}

/// The threads that serve connections.
pub struct IoThreads {
    /// What speaks on the ports, by the number that [`IoThreads::accept`] is given.
    fronts: Vec<Arc<dyn Front>>,
    inboxes: Vec<mpsc::UnboundedSender<(usize, Accepted)>>,
    threads: Vec<JoinHandle<()>>,
    /// Nothing is sent; each thread closes its end when it is done.
    ended: mpsc::Receiver<()>,
    drain: Drain,
    connections: Arc<Budget>,
}

impl IoThreads {
    /// Starts `count` threads that serve every connection they are given. `cpus` is the number of processors,
    /// `connections` how many may be open.
    ///
    /// # Errors
    /// When the system refuses a thread or a runtime.
    pub fn start(
        count: NonZeroUsize,
        cpus: NonZeroUsize,
        fronts: Vec<Arc<dyn Front>>,
        drain: Drain,
        connections: Arc<Budget>,
    ) -> io::Result<IoThreads> {
        let (mut inboxes, mut threads) = (Vec::new(), Vec::new());
        let (running, ended) = mpsc::channel(1);
        for number in 0..count.get() {
            // Unbounded, but each entry has a permit of the connection budget.
            let (inbox, mut arrivals) = mpsc::unbounded_channel::<(usize, Accepted)>();
            let name = format!("http-{number}");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                // What is offloaded computes: more threads than processors would only take turns.
                .max_blocking_threads(cpus.get())
                .thread_name(format!("{name}-offload"))
                .build()?;
            let fronts: Vec<Arc<dyn Front>> = fronts.iter().map(|it| it.fork()).collect();
            let (drain, running) = (drain.clone(), running.clone());
            let serve = move || {
                let _running = running;
                runtime.block_on(async {
                    while let Some((front, accepted)) = arrivals.recv().await {
                        let Some(front) = fronts.get(front) else { continue };
                        tokio::spawn(front.clone().serve(accepted));
                    }
                    // The inbox closes when the server is closing; connections finish first.
                    drain.finished(Duration::MAX).await;
                });
                // What is still offloaded has lost its client.
                runtime.shutdown_background();
            };
            threads.push(std::thread::Builder::new().name(name).spawn(serve)?);
            inboxes.push(inbox);
        }
        Ok(IoThreads { fronts, inboxes, threads, ended, drain, connections })
    }

    /// Accepts connections for the front of that number until the server closes, and spreads them over the
    /// threads.
    pub async fn accept(&self, listener: TcpListener, front: usize) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut closing = self.drain.guard();
        let mut turn = 0usize;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = closing.closing() => break,
            };
            let stream = match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            turn = turn.wrapping_add(1);
            self.hand_over(stream, turn, front);
        }
        // Whoever got through to the port before it closes has been promised an answer.
        let listener = listener.into_std()?;
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            turn = turn.wrapping_add(1);
            self.hand_over(stream, turn, front);
        }
        Ok(())
    }

    /// Gives a connection to the thread whose turn it is, unless there are too many.
    fn hand_over(&self, stream: std::net::TcpStream, turn: usize, front: usize) {
        let Some(permit) = self.connections.take(1) else {
            if let Some(front) = self.fronts.get(front) {
                tokio::spawn(front.clone().refuse(stream));
            }
            return;
        };
        let Some(inbox) = self.inboxes.get(turn % self.inboxes.len().max(1)) else { return };
        let guard = self.drain.guard();
        // A thread that is gone has panicked as a whole; its connections go to nobody.
        if inbox.send((front, Accepted { stream, permit, guard })).is_err() {
            tracing::error!("an I/O thread has ended");
        }
    }

    /// Lets the threads end once their connections are done, and waits for them, at most for `patience`.
    pub async fn join(mut self, patience: Duration) {
        drop(self.inboxes);
        let is_late = tokio::time::timeout(patience, self.ended.recv()).await.is_err();
        for thread in self.threads {
            if is_late && !thread.is_finished() {
                tracing::warn!("an I/O thread did not end in time");
            } else if thread.join().is_err() {
                tracing::error!("an I/O thread panicked");
            }
        }
    }
}

/// Threads that do I/O where nobody says how many: one for each processor, since they also run the models
/// that are fast, and a thread less would leave a processor to the slow ones alone.
pub fn default_threads(cpus: usize) -> NonZeroUsize {
    NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_connections_may_wait_to_be_accepted() {
        let listener = listen(([127, 0, 0, 1], 0).into(), false).unwrap();
        let address = listener.local_addr().unwrap();
        for at in 0..1024 {
            // One that is closed again keeps its place until it is accepted, which nobody does here.
            let made = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
            assert!(made.is_ok(), "connection {at}: {made:?}");
        }
    }
}
