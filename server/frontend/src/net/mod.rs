//! Ports and the threads behind them: accept connections, spread them over I/O threads, serve each by the front of
//! its port, and stop gracefully.
//!
//! One thread per core does I/O, each with a runtime of its own: a connection stays on its thread, and a request that
//! its task runs in place never crosses to another. The accepting task hands connections to the threads in turn.

pub(crate) mod arrival;
pub mod footprint;
pub mod places;
pub(crate) mod shared;
pub(crate) mod shared_tls;
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
use places::{ConnectionPlace, Places};
pub use task::Task;

/// Connections that wait to be accepted, per listener.
const BACKLOG: i32 = 4096;

/// First pause after a failed accept: descriptors or memory are short, and an immediate retry would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Longest pause between failed accepts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The connection is gone before it was accepted; the next one may be good.
fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

/// Opens a port.
///
/// # Errors
/// When the address is in use, or not one of this machine.
pub fn listen(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Without this option a restart would wait for old connections to time out.
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The service of one connection, to its end.
pub type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The front of a port: one protocol, and everything that it needs.
pub trait Front: Send + Sync {
    /// A copy for one I/O thread, so that the threads do not share reference counts.
    fn fork(&self) -> Arc<dyn Front>;

    /// Serves a connection to its end.
    fn serve(self: Arc<Self>, accepted: Accepted) -> Served;

    /// Closes a connection because too many are open, `open` of them. Says so first, if the protocol has a way to.
    fn refuse(self: Arc<Self>, stream: std::net::TcpStream, open: usize) -> Served;
}

/// The numbers of a port's fronts.
#[derive(Debug, Clone, Copy)]
pub struct PortFronts {
    /// For clients on this machine, which come over the loopback interface.
    pub here: usize,
    /// For all others.
    pub afar: usize,
}

impl PortFronts {
    fn of(self, peer: SocketAddr) -> usize {
        match peer.ip().to_canonical().is_loopback() {
            true => self.here,
            false => self.afar,
        }
    }
}

/// A connection on its way to the thread that serves it.
pub struct Accepted {
    /// The socket, set to non-blocking.
    pub stream: std::net::TcpStream,
    /// Its place among the open connections, for as long as the connection lives.
    pub place: ConnectionPlace,
    /// Keeps the server from stopping before the connection is done.
    pub guard: Guard,
}

/// The threads that serve connections.
pub struct IoThreads {
    /// The fronts, by the number that [`IoThreads::accept`] gets.
    fronts: Vec<Arc<dyn Front>>,
    senders: Vec<mpsc::UnboundedSender<(usize, Accepted)>>,
    threads: Vec<JoinHandle<()>>,
    /// Nothing is sent on it: it closes when all threads have ended.
    ended: mpsc::Receiver<()>,
    drain: Drain,
}

impl IoThreads {
    /// Starts `count` threads that serve connections. `cpus` is the number of processors.
    ///
    /// # Errors
    /// When the system refuses a thread or a runtime.
    pub fn start(
        count: NonZeroUsize,
        cpus: NonZeroUsize,
        fronts: Vec<Arc<dyn Front>>,
        drain: Drain,
    ) -> io::Result<IoThreads> {
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        let (running, ended) = mpsc::channel(1);
        for number in 0..count.get() {
            // Unbounded, but each entry has a place among the connections.
            let (sender, mut arrivals) = mpsc::unbounded_channel::<(usize, Accepted)>();
            let name = format!("http-{number}");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                // Offloaded work computes: more threads than processors would only take turns.
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
                    // The channel closes when the server is closing; connections finish first.
                    drain.finished(Duration::MAX).await;
                });
                // The clients of work that is still offloaded have left.
                runtime.shutdown_background();
            };
            threads.push(std::thread::Builder::new().name(name).spawn(serve)?);
            senders.push(sender);
        }
        Ok(IoThreads { fronts, senders, threads, ended, drain })
    }

    /// Accepts connections for these fronts until the server closes, and spreads them over the threads.
    pub async fn accept(
        &self,
        listener: TcpListener,
        fronts: PortFronts,
        places: Arc<Places>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut closing = self.drain.guard();
        let (mut turn, mut pause) = (0usize, ACCEPT_PAUSE);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = closing.closing() => break,
            };
            let accepted = accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer)));
            match accepted {
                Ok((stream, peer)) => {
                    pause = ACCEPT_PAUSE;
                    turn = turn.wrapping_add(1);
                    self.hand_over(stream, peer, turn, fronts.of(peer), &places);
                }
                Err(error) if is_about_one(&error) => {
                    tracing::debug!(%error, "lost a connection before it was accepted");
                }
                Err(error) => {
                    let closes_idle = places.make_room();
                    tracing::warn!(%error, closes_idle, "cannot accept a connection");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        // The kernel has accepted these connections before the port closes, so their clients expect an answer.
        let listener = listener.into_std()?;
        while let Ok((stream, peer)) = listener.accept() {
            stream.set_nonblocking(true)?;
            turn = turn.wrapping_add(1);
            self.hand_over(stream, peer, turn, fronts.of(peer), &places);
        }
        Ok(())
    }

    /// Hands a connection to the next thread in turn, or refuses it if too many are open.
    fn hand_over(
        &self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        turn: usize,
        front: usize,
        places: &Arc<Places>,
    ) {
        let Some(place) = places.take(peer.ip()) else {
            if let Some(front) = self.fronts.get(front) {
                tokio::spawn(front.clone().refuse(stream, places.used()));
            }
            return;
        };
        let Some(sender) = self.senders.get(turn % self.senders.len().max(1)) else { return };
        let guard = self.drain.guard();
        // Sending fails only after a panic of the whole thread. The connection is dropped.
        if sender.send((front, Accepted { stream, place, guard })).is_err() {
            tracing::error!("an I/O thread has ended");
        }
    }

    /// Lets the threads end once their connections are done, and waits for that at most for `patience`.
    pub async fn join(mut self, patience: Duration) {
        drop(self.senders);
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

/// Default number of I/O threads: one for each processor. They also run the fast models, and with one thread less a
/// processor would serve the slow models alone.
pub fn default_threads(cpus: usize) -> NonZeroUsize {
    NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_of_this_machine_by_the_loopback_addresses() {
        let fronts = PortFronts { here: 0, afar: 1 };
        for (peer, front) in [
            ("127.0.0.1:80", 0),
            ("127.8.0.1:80", 0),
            ("[::1]:80", 0),
            ("[::ffff:127.0.0.1]:80", 0),
            ("10.0.0.1:80", 1),
            ("[::ffff:10.0.0.1]:80", 1),
            ("[fe80::1]:80", 1),
        ] {
            assert_eq!(fronts.of(peer.parse().unwrap()), front, "{peer}");
        }
    }

    #[test]
    fn a_thousand_connections_may_wait_to_be_accepted() {
        let listener = listen(([127, 0, 0, 1], 0).into(), false).unwrap();
        let address = listener.local_addr().unwrap();
        for at in 0..1024 {
            // A closed connection keeps its place until it is accepted, and this test accepts none.
            let made = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
            assert!(made.is_ok(), "connection {at}: {made:?}");
        }
    }
}
