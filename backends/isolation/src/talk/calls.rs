//! The calls of a lane that are open, and what the worker is to be told of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    time::Instant,
};

use backend::{Call, CallAnswer, CallCode, CallError, MOST_PARTS, NotSent, PartSender};
use rustix::event::{EventfdFlags, eventfd};

use super::message::{CallId, Value};
use crate::{frame::Garbage, launch::Worker, mailbox::HearsEnd};

/// The worker is told of so many parts that were read at once. Each time costs both processes a wake. One that waits
/// with fewer asks for it.
const TOLD_PARTS: u32 = (MOST_PARTS / 2) as u32;

/// What the threads that have to do with a talk share.
pub(crate) struct Shared {
    /// Guards what follows.
    state: Mutex<State>,
    /// A call has ended, or none is answered any more.
    news: Condvar,
    /// Wakes the thread of the talk.
    bell: OwnedFd,
}

#[derive(Default)]
pub(super) struct State {
    calls: BTreeMap<CallId, OpenCall>,
    /// What the worker is to be told: one entry of each call at most.
    notes: BTreeMap<CallId, Note>,
    /// Asks whose answers may have another part.
    ready: BTreeSet<u64>,
    /// Asks that a thread of their own has done.
    done: Vec<Done>,
    /// The process has ended.
    has_ended: bool,
    /// Why no call is answered any more.
    dead: Option<CallError>,
    /// The lane is gone. The worker stays as long as somebody waits for a call.
    closed: Option<Option<Arc<Worker>>>,
}

/// An ask, and what has come of it.
pub(super) type Done = (u64, Result<Option<Value>, CallError>);

/// What ends with a call.
pub(super) enum Ends {
    /// The answer to its request, with an error or without.
    Answer(Option<CallError>),
    /// Its run alone: the request is run once more.
    Run,
}

struct OpenCall {
    /// `None`: the run itself answers it, or its answer has ended.
    parts: Option<PartSender>,
    /// Parts that were read, of which the worker has not been told.
    taken: u32,
    /// Does the worker wait for the next one to be read?
    is_full: bool,
    leads: Leads,
    /// Was its run answered?
    has_begun: bool,
}

/// What has led to a request of the model's own.
#[derive(Clone, Default)]
pub(super) struct Leads {
    /// The models, the outermost first.
    pub(super) lineage: Vec<Arc<str>>,
    /// When the calls end, whatever it has come to.
    pub(super) deadline: Option<Instant>,
}

/// What the worker is to be told of a call.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) taken: u32,
    pub(super) has_left: bool,
}

impl Shared {
    pub(super) fn new() -> std::io::Result<Shared> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Shared { state: Mutex::default(), news: Condvar::new(), bell })
    }

    /// Can be read once the thread is to look.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn silence(&self) {
        // Where it was read already, somebody rings again or has nothing to say.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    fn ring(&self) {
        // It cannot be full, as nobody rings 2^64 times.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That run is about to be sent, with these calls.
    pub(super) fn begin(self: &Arc<Self>, run: u64, calls: &[Call<'_>], deadline: Option<Instant>) {
        for (index, call) in calls.iter().enumerate() {
            let id = (run, index as u32);
            let lineage = call.about.map(|it| it.lineage.clone()).unwrap_or_default();
            let (parts, leads) = (call.parts.cloned(), Leads { lineage, deadline });
            let open = OpenCall { parts, taken: 0, is_full: false, leads, has_begun: false };
            self.state().calls.insert(id, open);
            let Some(parts) = call.parts else { continue };
            let weak = Arc::downgrade(self);
            parts.on_taken(move || note(&weak, |state| state.takes(id)));
            let weak = Arc::downgrade(self);
            parts.on_left(move || note(&weak, |state| state.leaves(id)));
        }
    }

    /// That run has ended: with these answers, or with none. Blocks until all has come that requests which are to be
    /// run once more have sent.
    pub(super) fn finish(&self, run: u64, answers: Option<&[Result<CallAnswer, CallError>]>) {
        let mut ends = Vec::new();
        let is_again = |it: &Result<CallAnswer, CallError>| it.as_ref().is_ok_and(|it| it.again);
        let again = answers.into_iter().flatten().enumerate().filter(|it| is_again(it.1));
        let again: Vec<CallId> = again.map(|(at, _)| (run, at as u32)).collect();
        let sends = |state: &mut State| {
            let sends = |id: &CallId| state.calls.get(id).is_some_and(|it| it.parts.is_some());
            state.dead.is_none() && again.iter().any(sends)
        };
        let state = self.news.wait_while(self.state(), sends);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let dead = state.dead.clone();
        let those: Vec<CallId> =
            state.calls.range((run, 0)..=(run, u32::MAX)).map(|it| *it.0).collect();
        for id in those {
            let answer = answers.and_then(|it| it.get(id.1 as usize));
            let end = match (answer, &dead) {
                (Some(Ok(_)), None) => None,
                (Some(Ok(_)), Some(error)) => Some(Some(error.clone())),
                (Some(Err(error)), _) => Some(Some(error.clone())),
                (None, _) => Some(None),
            };
            match end {
                None => {
                    if let Some(call) = state.calls.get_mut(&id) {
                        call.has_begun = true;
                        if call.parts.is_none() {
                            state.forget(id);
                        }
                    }
                }
                Some(end) => ends.push((state.forget(id), end)),
            }
        }
        drop(state);
        // Without the lock: those who wait are woken.
        for (call, end) in ends {
            if let (Some(parts), Some(error)) = (call.and_then(|it| it.parts), end) {
                parts.end(Err(error));
            }
        }
    }

    /// The worker waits for parts of that call to be read, and is told at once of those that were. Called by the thread
    /// of the talk, which looks for notes before it sleeps.
    pub(super) fn is_full(&self, id: CallId) {
        let mut state = self.state();
        let Some(call) = state.calls.get_mut(&id) else { return };
        call.is_full = true;
        state.tell(id);
    }

    /// Where the parts of that call's answer go. `None` where it has ended.
    pub(super) fn sender(&self, id: CallId) -> Option<PartSender> {
        self.state().calls.get(&id)?.parts.clone()
    }

    /// Nothing more comes of that call.
    pub(super) fn end(&self, id: CallId, what: Ends) {
        let mut state = self.state();
        let Some(call) = state.calls.get_mut(&id) else { return };
        let parts = call.parts.take();
        if call.has_begun {
            state.forget(id);
        } else {
            state.notes.remove(&id);
        }
        drop(state);
        self.news.notify_all();
        if let (Some(parts), Ends::Answer(error)) = (parts, what) {
            parts.end(error.map_or(Ok(()), Err));
        }
    }

    /// What has led to these calls, and when the last of them ends. `None` where none is open.
    pub(super) fn leads(&self, calls: &[CallId]) -> Option<Leads> {
        let state = self.state();
        let mut all: Vec<&Leads> =
            calls.iter().filter_map(|it| Some(&state.calls.get(it)?.leads)).collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.lineage.len()));
        let mut lineage = all.first()?.lineage.clone();
        // Those of the others stand before it: what matters is who is in it, and how many.
        for name in all.iter().skip(1).flat_map(|it| it.lineage.iter()) {
            if !lineage.contains(name) {
                lineage.insert(0, name.clone());
            }
        }
        let deadlines: Option<Vec<Instant>> = all.iter().map(|it| it.deadline).collect();
        Some(Leads { lineage, deadline: deadlines.and_then(|it| it.into_iter().max()) })
    }

    /// That ask's answer may have another part.
    pub(super) fn is_ready(&self, ask: u64) {
        self.state().ready.insert(ask);
        self.ring();
    }

    /// A thread has done what was asked.
    pub(super) fn is_done(&self, ask: u64, how: Result<Option<Value>, CallError>) {
        self.state().done.push((ask, how));
        self.ring();
    }

    pub(super) fn has_hung_up(&self) -> bool {
        self.state().has_ended
    }

    /// The lane is gone.
    pub(super) fn close(&self, worker: Option<Arc<Worker>>) {
        self.state().closed = Some(worker);
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed.is_some()
    }

    /// Is the lane gone, with nobody who waits for a call?
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        let waits =
            |it: &OpenCall| it.parts.as_ref().is_some_and(|it| !it.has_left() && !it.has_ended());
        state.closed.is_some() && !state.calls.values().any(waits)
    }

    /// No call is answered any more. Those whose run is not answered yet are left to whoever has sent it.
    pub(super) fn dies(&self, text: String) {
        let error = CallError { code: CallCode::Unavailable, text };
        let mut state = self.state();
        state.dead = Some(error.clone());
        let begun = |it: &(&CallId, &OpenCall)| it.1.has_begun;
        let those: Vec<CallId> = state.calls.iter().filter(begun).map(|it| *it.0).collect();
        let calls: Vec<_> = those.into_iter().filter_map(|it| state.forget(it)).collect();
        let worker = state.closed.take();
        drop(state);
        self.news.notify_all();
        for parts in calls.into_iter().filter_map(|it| it.parts) {
            parts.end(Err(error.clone()));
        }
        drop(worker);
    }

    /// What the worker is to be told of calls, once.
    pub(super) fn notes(&self) -> BTreeMap<CallId, Note> {
        std::mem::take(&mut self.state().notes)
    }

    /// The asks that may have another part, once, and those that a thread has done.
    pub(super) fn asks(&self) -> (BTreeSet<u64>, Vec<Done>) {
        let mut state = self.state();
        (std::mem::take(&mut state.ready), std::mem::take(&mut state.done))
    }
}

impl HearsEnd for Shared {
    /// What the process has sent is read, and then the talk ends.
    fn ends(&self) {
        self.state().has_ended = true;
        self.ring();
    }
}

impl State {
    /// A part of that call was read. Is the worker to be told now?
    fn takes(&mut self, id: CallId) -> bool {
        let Some(call) = self.calls.get_mut(&id).filter(|it| it.parts.is_some()) else {
            return false;
        };
        call.taken += 1;
        self.tell(id)
    }

    /// Notes the parts that were read, where the worker is to be told of them now.
    fn tell(&mut self, id: CallId) -> bool {
        let Some(call) = self.calls.get_mut(&id) else { return false };
        let least = if call.is_full { 1 } else { TOLD_PARTS };
        if call.taken < least {
            return false;
        }
        call.is_full = false;
        self.notes.entry(id).or_default().taken += std::mem::take(&mut call.taken);
        true
    }

    /// Nobody waits for that call any more. Is the worker to be told?
    fn leaves(&mut self, id: CallId) -> bool {
        let is_open = self.calls.get(&id).is_some_and(|it| it.parts.is_some());
        if is_open {
            self.notes.entry(id).or_default().has_left = true;
        }
        is_open
    }

    fn forget(&mut self, id: CallId) -> Option<OpenCall> {
        self.notes.remove(&id);
        self.calls.remove(&id)
    }
}

/// Something has come of a call. Rings where `what` says that the worker is to be told.
fn note(shared: &Weak<Shared>, what: impl FnOnce(&mut State) -> bool) {
    let Some(shared) = shared.upgrade() else { return };
    let is_told = what(&mut shared.state());
    if is_told {
        shared.ring();
    }
}

/// A part is sent on, with the end where it is the last one. One that nobody waits for any more, or that comes behind
/// the end, is dropped.
///
/// # Errors
/// Where more of them wait than the worker was to send.
pub(super) fn send(parts: &PartSender, part: CallAnswer, is_last: bool) -> Result<(), Garbage> {
    let sent = if is_last { parts.send_last(part) } else { parts.send(part) };
    match sent {
        Ok(()) | Err(NotSent::Left | NotSent::Ended) => Ok(()),
        Err(NotSent::Full) => {
            Err(Garbage::Unexpected("more parts of an answer than were asked for".to_owned()))
        }
    }
}
