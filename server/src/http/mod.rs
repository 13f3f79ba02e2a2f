//! The HTTP listeners: accept, spread connections over I/O threads, serve them, stop gracefully.
//!
//! One thread per core that does I/O, each with a runtime of its own: a connection stays on its thread, and
//! a request that its task runs in place never crosses to another. The accepting task hands connections to
//! the threads in turn.

mod body;
mod connection;
mod handlers;
mod respond;
mod router;
mod service;
mod status;
mod timeouts;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use socket2::{Domain, Socket, Type};
use tokio::sync::mpsc;

pub use body::BodyLimits;
pub use service::{HttpSettings, Service};
pub use timeouts::Timeouts;

use crate::{
    drain::Guard,
    error::Error,
    limits::{Budget, Permit},
};

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

/// A connection on its way to the thread that serves it.
struct Accepted {
    stream: std::net::TcpStream,
    /// Of the connections that may be open.
    permit: Permit,
    /// Keeps the server from stopping before the connection is done.
    guard: Guard,
}

/// The threads that serve connections.
pub struct IoThreads {
    inboxes: Vec<mpsc::UnboundedSender<Accepted>>,
    threads: Vec<JoinHandle<()>>,
}

impl IoThreads {
    /// Starts `count` threads that serve every connection they are given.
    ///
    /// # Errors
    /// When the system refuses a thread or a runtime.
    pub fn start(count: NonZeroUsize, service: &Arc<Service>) -> io::Result<IoThreads> {
        let mut io = IoThreads { inboxes: Vec::new(), threads: Vec::new() };
        for number in 0..count.get() {
            // Unbounded, but each entry has a permit of the connection budget.
            let (inbox, mut arrivals) = mpsc::unbounded_channel();
            let name = format!("http-{number}");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                // What is put aside computes: more threads than processors would only take turns.
                .max_blocking_threads(service.settings.cpus.get())
                .thread_name(format!("{name}-aside"))
                // A client may ask for a model to be loaded.
                .thread_stack_size(backend::MODEL_STACK)
                .build()?;
            let service = Arc::new(Service::clone(service));
            let serve = move || {
                runtime.block_on(async {
                    while let Some(accepted) = arrivals.recv().await {
                        tokio::spawn(connection::serve(accepted, service.clone()));
                    }
                    // The inbox closes when the server is closing; connections finish first.
                    service.drain.finished(Duration::MAX).await;
                });
            };
            io.threads.push(std::thread::Builder::new().name(name).spawn(serve)?);
            io.inboxes.push(inbox);
        }
        Ok(io)
    }

    /// Accepts connections until the server closes and spreads them over the threads.
    pub async fn accept(&self, listener: TcpListener, service: Arc<Service>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut closing = service.drain.guard();
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
            self.hand_over(stream, turn, &service);
        }
        // Whoever got through to the port before it closes has been promised an answer.
        let listener = listener.into_std()?;
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            turn = turn.wrapping_add(1);
            self.hand_over(stream, turn, &service);
        }
        Ok(())
    }

    /// Gives a connection to the thread whose turn it is, unless there are too many.
    fn hand_over(&self, stream: std::net::TcpStream, turn: usize, service: &Arc<Service>) {
        let Some(permit) = service.connections.take(1) else {
            tokio::spawn(connection::refuse(stream, service.clone()));
            return;
        };
        let Some(inbox) = self.inboxes.get(turn % self.inboxes.len().max(1)) else { return };
        let guard = service.drain.guard();
        // A thread that is gone has panicked as a whole; its connections go to nobody.
        if inbox.send(Accepted { stream, permit, guard }).is_err() {
            tracing::error!("an I/O thread has ended");
        }
    }

    /// Lets the threads end once their connections are done, and waits for them. Blocking.
    pub fn join(self) {
        drop(self.inboxes);
        for thread in self.threads {
            if thread.join().is_err() {
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

/// The error of a connection beyond the cap.
fn too_many_connections(cap: &Budget) -> Error {
    Error::OutOfBudget(format!("{} connections are open, and no more allowed", cap.used()))
}
