//! What the process of a model and the server say to each other beside runs: parts of answers, and what the model's own
//! code asks of the server.
//!
//! Each lane of a program has a talk: a Unix socket, and a thread at the server's end of it. The thread sleeps until
//! the worker says something, or until there is something to tell it. Others leave that with it and ring; they never
//! wait. What a worker sends is bounded by the length of a frame, by the parts that may wait, and by the requests to
//! others that it may have at once.

mod asks;
mod calls;
mod inbox;
mod message;
mod outbox;

use std::{
    io,
    os::unix::net::UnixStream,
    sync::{Arc, Weak},
    thread,
    time::Instant,
};

use backend::{Call, CallAnswer, CallError, HostHandle};
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

use crate::{
    channel::ChannelError, frame::Garbage, launch::Worker, mailbox::HearsEnd, patience::LOOK,
};
use asks::Asks;
use calls::{Ends, Shared, send};
use inbox::Inbox;
use message::{FromWorker, ToWorker, parameters, tensors};
use outbox::Outbox;

/// The server's end of a lane's talk. Dropped, it ends once nobody waits for a call of the lane.
pub(crate) struct Talk {
    shared: Arc<Shared>,
    worker: Weak<Worker>,
}

impl Talk {
    /// A talk with that worker, and the worker's end of its socket. `longest`: the most bytes of tensors that it may
    /// send at once.
    ///
    /// # Errors
    /// Where the system has no socket, or no thread.
    pub(crate) fn open(
        worker: &Arc<Worker>,
        host: &HostHandle,
        longest: usize,
    ) -> io::Result<(Talk, UnixStream)> {
        let name = format!("talk-{}", worker.pid());
        let weak = Arc::downgrade(worker);
        let (talk, theirs) = Talk::start(name, weak, (worker.model(), host), longest)?;
        let hears: Weak<dyn HearsEnd> = Arc::downgrade(&talk.shared) as _;
        worker.vitals().ends().are_for(hears);
        Ok((talk, theirs))
    }

    fn start(
        name: String,
        worker: Weak<Worker>,
        (model, host): (&str, &HostHandle),
        longest: usize,
    ) -> io::Result<(Talk, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let shared = Arc::new(Shared::new()?);
        let asks = Asks::new(&shared, host, model, longest);
        let side = Side {
            shared: shared.clone(),
            asks,
            worker: worker.clone(),
            outbox: Outbox::default(),
        };
        let run = move || side.run(&ours, Inbox::new(longest));
        thread::Builder::new().name(name).spawn(run)?;
        Ok((Talk { shared, worker }, theirs))
    }

    /// That run is about to be sent, with these calls.
    /// `deadline`: when they end, whatever they have come to.
    pub(crate) fn begin(&self, run: u64, calls: &[Call<'_>], deadline: Option<Instant>) {
        self.shared.begin(run, calls, deadline);
    }

    /// That run has ended: with these answers, or with none.
    pub(crate) fn finish(&self, run: u64, answers: Option<&[Result<CallAnswer, CallError>]>) {
        self.shared.finish(run, answers);
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.shared.close(self.worker.upgrade());
    }
}

/// What the thread of a talk has.
struct Side {
    shared: Arc<Shared>,
    asks: Asks,
    worker: Weak<Worker>,
    outbox: Outbox,
}

impl Side {
    /// Until the lane or the worker ends.
    fn run(mut self, stream: &UnixStream, mut inbox: Inbox) {
        let end = self.talk(stream, &mut inbox);
        let worker = self.worker.upgrade();
        let text = match (&worker, &end) {
            (Some(worker), Err(error)) => {
                worker.note_fault(error);
                worker.obituary()
            }
            _ => "the model's instance has ended".to_owned(),
        };
        self.shared.dies(text);
    }

    /// By way of a stream that does not block.
    fn talk(&mut self, stream: &UnixStream, inbox: &mut Inbox) -> Result<(), ChannelError> {
        while !self.shared.is_over() {
            self.take_news()?;
            self.outbox.write(stream)?;
            self.sleep(stream)?;
            let has_hung_up = self.shared.has_hung_up();
            while has_hung_up || self.outbox.has_room() {
                match inbox.read(stream, |frame| self.take(frame)) {
                    // What has come before the end is heard.
                    Ok(()) if has_hung_up => {}
                    Ok(()) => break,
                    Err(ChannelError::Timeout) if has_hung_up => return Err(ChannelError::Closed),
                    Err(ChannelError::Timeout) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Until there is something to read, to write, or to tell.
    fn sleep(&self, stream: &UnixStream) -> Result<(), ChannelError> {
        let mut wanted = PollFlags::empty();
        // One that reads nothing is not listened to: what it is answered would have to be kept.
        wanted.set(PollFlags::IN, self.outbox.has_room());
        wanted.set(PollFlags::OUT, !self.outbox.is_empty());
        let bell = self.shared.bell();
        let mut files =
            [PollFd::new(stream, wanted), PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        // Nobody rings where a call has ended that the lane is kept for.
        let look = self.shared.is_closed().then(|| Timespec::try_from(LOOK).ok()).flatten();
        match poll(&mut files, look.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ChannelError::Io(error.into())),
        }
        if files.last().is_some_and(|it| !it.revents().is_empty()) {
            self.shared.silence();
        }
        Ok(())
    }

    /// What the worker is to be told.
    fn take_news(&mut self) -> Result<(), ChannelError> {
        for (call, note) in self.shared.notes() {
            if 0 < note.taken {
                self.outbox.push(&ToWorker::Taken { call, parts: note.taken }, &[])?;
            }
            if note.has_left {
                self.outbox.push(&ToWorker::Left { call }, &[])?;
            }
        }
        self.asks.answer(&mut self.outbox)
    }

    /// A frame has come.
    fn take(&mut self, (json, behind): (&[u8], &[u8])) -> Result<(), ChannelError> {
        let said = serde_json::from_slice(json).map_err(|it| Garbage::NoJson(it.to_string()))?;
        let outbox = &mut self.outbox;
        match said {
            FromWorker::Part { call, outputs, parameters: said, last } => {
                let (outputs, parameters) = (tensors(&outputs, behind)?, parameters(said));
                if let Some(parts) = self.shared.sender(call) {
                    send(&parts, CallAnswer { outputs, parameters, again: false }, last)?;
                }
                if last {
                    self.shared.end(call, Ends::Answer(None));
                }
            }
            FromWorker::End { call, error } => self.shared.end(call, Ends::Answer(error)),
            FromWorker::Full { call } => self.shared.is_full(call),
            FromWorker::Again { call } => self.shared.end(call, Ends::Run),
            FromWorker::Infer(ask) => self.asks.infer(*ask, behind, outbox)?,
            FromWorker::Cancel { ask } => self.asks.cancel(ask),
            FromWorker::Control { ask, verb } => self.asks.control(ask, verb, behind, outbox)?,
            FromWorker::Metric(said) => self.asks.metric(*said, outbox)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
