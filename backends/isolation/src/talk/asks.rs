//! What a model's own code asks of the server, and what it is answered.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
    thread,
};

use backend::{
    Ask, CallCode, CallError, Control, Host, HostHandle, MetricChange, Parameter, PartReceiver,
    SequenceFlags, parts,
};

use super::{
    calls::{Leads, Shared},
    message::{
        SaidAsk, SaidControl, SaidMetric, ToWorker, Value, is_all, parameters, said, split, tensors,
    },
    outbox::Outbox,
};
use crate::{channel::ChannelError, frame::Garbage};

/// Most requests of a worker to other models that are answered at once.
const MOST_ASKS: usize = 256;

/// Most loads and unloads of a worker at once: each has a thread.
const MOST_CONTROLS: usize = 16;

/// Flags of Triton's C interface.
const SEQUENCE_START: u32 = 1;
const SEQUENCE_END: u32 = 2;

/// The asks of a worker that are not answered yet.
pub(super) struct Asks {
    shared: Arc<Shared>,
    host: HostHandle,
    /// The model that asks.
    model: Arc<str>,
    /// Bytes that the inputs of all asks may take.
    longest: usize,
    open: HashMap<u64, OpenAsk>,
    ready: BTreeSet<u64>,
    /// Those that have a thread.
    controls: BTreeSet<u64>,
}

struct OpenAsk {
    answer: PartReceiver,
    waker: Waker,
    bytes: usize,
}

/// Wakes the thread of the talk for an ask.
struct AskWaker {
    shared: Weak<Shared>,
    ask: u64,
}

impl Wake for AskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.is_ready(self.ask);
        }
    }
}

impl Asks {
    pub(super) fn new(
        shared: &Arc<Shared>,
        host: &HostHandle,
        model: &str,
        longest: usize,
    ) -> Asks {
        let (open, ready, controls) = Default::default();
        let (shared, host) = (shared.clone(), host.clone());
        Asks { shared, host, model: model.into(), longest, open, ready, controls }
    }

    /// A request to another model.
    ///
    /// # Errors
    /// Where its tensors are none, or its number is that of another.
    pub(super) fn infer(
        &mut self,
        asked: SaidAsk<'_>,
        behind: &[u8],
        outbox: &mut Outbox,
    ) -> Result<(), ChannelError> {
        let number = asked.ask;
        self.is_new(number)?;
        let inputs = tensors(&asked.inputs, behind)?;
        let taken: usize = self.open.values().map(|it| it.bytes).sum();
        let (host, leads) = match self.may_infer(&asked, taken + behind.len()) {
            Ok(allowed) => allowed,
            Err(error) => return ended(number, Err(error), outbox),
        };
        let Leads { mut lineage, deadline } = leads;
        lineage.push(self.model.clone());
        let place = SequenceFlags {
            start: asked.flags & SEQUENCE_START != 0,
            end: asked.flags & SEQUENCE_END != 0,
        };
        let (sender, answer) = parts();
        let waker = AskWaker { shared: Arc::downgrade(&self.shared), ask: number };
        let waker = Waker::from(Arc::new(waker));
        self.open.insert(number, OpenAsk { answer, waker, bytes: behind.len() });
        self.ready.insert(number);
        let ask = Ask {
            lineage,
            model: asked.model.into(),
            version: asked.version,
            id: Some(asked.id).filter(|it| !it.is_empty()).map(Into::into),
            inputs,
            rest: asked.rest.map(Into::into),
            outputs: asked.outputs.into_iter().map(Into::into).collect(),
            parameters: parameters(asked.parameters),
            sequence: asked.correlation.map(|it| (it, place)),
            timeout_us: asked.timeout_us,
            deadline,
            is_decoupled: asked.decoupled,
            trace: None,
        };
        host.infer(ask, sender);
        Ok(())
    }

    /// Who answers such a request, and what has led to it.
    fn may_infer(
        &self,
        asked: &SaidAsk<'_>,
        bytes: usize,
    ) -> Result<(Arc<dyn Host>, Leads), CallError> {
        let refused = |code, text: String| CallError { code, text };
        let leads = self.shared.leads(&asked.calls).ok_or_else(|| {
            let text = "BLS is only supported during the 'execute' function.";
            refused(CallCode::InvalidArg, text.to_owned())
        })?;
        if MOST_ASKS <= self.open.len() {
            let text =
                format!("the model has {MOST_ASKS} requests to others that are not answered");
            return Err(refused(CallCode::Unavailable, text));
        }
        if self.longest < bytes {
            let longest = self.longest;
            let text = format!(
                "the inputs of the model's requests to others take {bytes} bytes, and there is room for {longest} \
                 (--worker-arena-bytes)"
            );
            return Err(refused(CallCode::Unavailable, text));
        }
        Ok((self.host()?, leads))
    }

    /// Nobody waits for the answer to that request any more.
    pub(super) fn cancel(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// To load another model, to unload it, or whether it is ready.
    ///
    /// # Errors
    /// Where its files are not those that are there, or its number is that of another.
    pub(super) fn control(
        &mut self,
        number: u64,
        verb: SaidControl,
        mut behind: &[u8],
        outbox: &mut Outbox,
    ) -> Result<(), ChannelError> {
        self.is_new(number)?;
        let control = match verb {
            SaidControl::IsReady { model, version } => {
                let ready = self.host().map(|it| it.is_ready(&model, version));
                let ready = ready.map(|it| Some(Value::Bool(it)));
                is_all(behind)?;
                return ended(number, ready, outbox);
            }
            SaidControl::Unload { model, dependents } => Control::Unload { model, dependents },
            SaidControl::Load { model, config, files } => {
                let files = files.into_iter().map(|(name, len)| {
                    let own = split(&mut behind, len).ok_or_else(|| Garbage::Outside(name.clone()));
                    own.map(|it| (name, it.to_vec()))
                });
                let files = files.collect::<Result<_, Garbage>>()?;
                Control::Load { model, config, files }
            }
        };
        is_all(behind)?;
        match self.begin_control(number, control) {
            Ok(()) => {
                self.controls.insert(number);
                Ok(())
            }
            Err(error) => ended(number, Err(error), outbox),
        }
    }

    /// On a thread of its own: it lasts as long as a load.
    fn begin_control(&self, number: u64, control: Control) -> Result<(), CallError> {
        let host = self.host()?;
        let unavailable = |text| CallError { code: CallCode::Unavailable, text };
        if MOST_CONTROLS <= self.controls.len() {
            let text = format!("the model has {MOST_CONTROLS} loads or unloads under way already");
            return Err(unavailable(text));
        }
        let shared = Arc::downgrade(&self.shared);
        let control = move || {
            let how = host.control(control).map(|()| None);
            drop(host);
            if let Some(shared) = shared.upgrade() {
                shared.is_done(number, how);
            }
        };
        let name = format!("control-{}", self.model);
        let spawned = thread::Builder::new().name(name).spawn(control);
        spawned.map(drop).map_err(|it| unavailable(format!("the system has no thread: {it}")))
    }

    /// A metric of the model's own.
    ///
    /// # Errors
    /// Never, as an answer is a short one.
    pub(super) fn metric(&self, said: SaidMetric, outbox: &mut Outbox) -> Result<(), ChannelError> {
        let ask = said.ask;
        let change = MetricChange {
            family: said.family,
            description: said.description,
            kind: said.kind,
            labels: said.labels.into_iter().collect(),
            buckets: said.buckets,
            verb: said.verb,
        };
        let value = self.host().and_then(|it| it.metric(change));
        let value = value.map(|it| Some(Value::Number(it)));
        ask.map_or(Ok(()), |ask| ended(ask, value, outbox))
    }

    /// What has come for the worker is sent while there is room.
    ///
    /// # Errors
    /// Where a part is longer than a frame can be.
    pub(super) fn answer(&mut self, outbox: &mut Outbox) -> Result<(), ChannelError> {
        let (ready, done) = self.shared.asks();
        self.ready.extend(ready);
        for (ask, how) in done {
            self.controls.remove(&ask);
            ended(ask, how, outbox)?;
        }
        while outbox.has_room()
            && let Some(number) = self.ready.first().copied()
        {
            let Some(ask) = self.open.get_mut(&number) else {
                self.ready.remove(&number);
                continue;
            };
            match ask.answer.poll_next(&mut Context::from_waker(&ask.waker)) {
                Poll::Pending => {
                    self.ready.remove(&number);
                }
                Poll::Ready(Ok(Some(part))) => {
                    let outputs = said(&part.outputs);
                    let parameters: BTreeMap<&str, &Parameter> =
                        part.parameters.iter().map(|(name, it)| (&**name, it)).collect();
                    let said = ToWorker::Answered { ask: number, outputs, parameters };
                    outbox.push(&said, &part.outputs)?;
                }
                Poll::Ready(end) => {
                    self.open.remove(&number);
                    ended(number, end.map(|_| None), outbox)?;
                }
            }
        }
        Ok(())
    }

    fn host(&self) -> Result<Arc<dyn Host>, CallError> {
        self.host.0.clone().ok_or_else(|| CallError {
            code: CallCode::Unavailable,
            text: "the model is loaded outside of a server: there is nobody to ask".to_owned(),
        })
    }

    fn is_new(&self, number: u64) -> Result<(), Garbage> {
        match self.open.contains_key(&number) || self.controls.contains(&number) {
            true => Err(Garbage::Unexpected(format!("a second ask of number {number}"))),
            false => Ok(()),
        }
    }
}

/// That was all.
fn ended(
    ask: u64,
    how: Result<Option<Value>, CallError>,
    outbox: &mut Outbox,
) -> Result<(), ChannelError> {
    let (error, value) = match how {
        Ok(value) => (None, value),
        Err(error) => (Some(error), None),
    };
    outbox.push(&ToWorker::Ended { ask, error, value }, &[])
}
