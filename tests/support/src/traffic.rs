//! Clients that ask one model again and again, each on a connection of its own, and note what they get.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::{Client, PATIENCE, infer, is_to_come_again, row, wait_for};

/// Such clients, until [`Traffic::stop`].
pub struct Traffic {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answers: AtomicUsize,
    failures: AtomicUsize,
    /// Do they come again where that is told?
    comes_again: bool,
}

impl Traffic {
    /// Starts `clients` that ask `model`, which must be of those that `Repository::with_identity` makes.
    pub fn start(address: SocketAddr, model: &str, clients: usize) -> Traffic {
        Traffic::with(Shared::default(), address, model, clients)
    }

    /// The same, who come again where they are told so, as the process of the model is not there for a second or more.
    pub fn patient(address: SocketAddr, model: &str, clients: usize) -> Traffic {
        let shared = Shared { comes_again: true, ..Shared::default() };
        Traffic::with(shared, address, model, clients)
    }

    fn with(shared: Shared, address: SocketAddr, model: &str, clients: usize) -> Traffic {
        let shared = Arc::new(shared);
        let client = |number: usize| {
            let (shared, path) = (shared.clone(), infer(model));
            thread::spawn(move || ask_on(address, &path, number, &shared))
        };
        let clients = (0..clients).map(client).collect();
        Traffic { shared, clients }
    }

    /// Answers so far.
    pub fn answers(&self) -> usize {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Has a request failed?
    pub fn has_failed(&self) -> bool {
        0 < self.shared.failures.load(Ordering::Relaxed)
    }

    /// Waits until there are so many more answers, or a request has failed.
    #[track_caller]
    pub fn wait_for_more(&self, answers: usize) {
        let before = self.answers();
        wait_for(&format!("{answers} more answers within {PATIENCE:?}"), || {
            (self.has_failed() || before + answers <= self.answers()).then_some(())
        });
    }

    /// Ends it: the number of answers. Fails with what the clients got instead of one.
    #[track_caller]
    pub fn stop(self) -> usize {
        self.shared.stop.store(true, Ordering::Relaxed);
        let failures: Vec<String> =
            self.clients.into_iter().flat_map(|it| it.join().unwrap()).collect();
        assert!(failures.is_empty(), "{} requests failed: {:?}", failures.len(), failures.first());
        self.shared.answers.load(Ordering::Relaxed)
    }
}

fn ask_on(address: SocketAddr, path: &str, number: usize, shared: &Shared) -> Vec<String> {
    let (mut client, body) = (Client::connect(address), row(number as i32));
    let expected = format!("\"data\":[{number}.0,");
    let mut failures = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) && failures.len() < 3 {
        match client.try_request("POST", path, &[], Some(body.as_bytes())) {
            Ok(Some(reply)) if reply.status == 200 && reply.text().contains(&expected) => {
                shared.answers.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(reply)) if shared.comes_again && is_to_come_again(&reply) => {}
            other => {
                shared.failures.fetch_add(1, Ordering::Relaxed);
                failures.push(match other {
                    Ok(Some(reply)) => format!("{} {}", reply.status, reply.text()),
                    Ok(None) => "the connection was closed".to_owned(),
                    Err(error) => error.to_string(),
                });
                client = Client::connect(address);
            }
        }
    }
    failures
}
