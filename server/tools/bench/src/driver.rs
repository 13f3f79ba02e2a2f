//! The event loop: when is which request sent over which connection, and when is the run over?

use std::{
    borrow::Cow,
    collections::VecDeque,
    time::{Duration, Instant},
};

use mio::{Events, Poll, Token};

use crate::{
    Check, Error, FirstBad, Load, Plan, Report,
    arrivals::Schedule,
    check::BodyHash,
    connection::{Capture, Connection, Outcome, Wire},
    failures::{NoReply, refusal},
    report::Course,
    series::Series,
    slot::{Destination, Job, Slot, check, open},
    tally::{Tally, beginning},
    timer::Timer,
    usage::{Readings, ServerProcess, own_cpu},
};

const TIMER: Token = Token(usize::MAX);
/// How often timeouts are looked for.
const SCAN: Duration = Duration::from_millis(20);
/// How long a connection that could not be opened is left alone.
const REST: Duration = Duration::from_millis(50);
/// With [`Check::Sample`]: from one reply that is checked to the next at least, and as a multiple of the time that the
/// last check has taken.
const SAMPLE: Duration = Duration::from_millis(20);
const SAMPLE_REST: u32 = 20;
/// Replies are read in pieces of this size, in bytes.
const BUFFER: usize = 128 * 1024;
/// Most events of one wake-up; more are reported by the next.
const EVENTS: usize = 1024;

impl Plan {
    /// Carries it out on this thread. Blocks until it is over.
    ///
    /// # Errors
    /// When the plan makes no sense, the server cannot be reached at the start, or the system refuses
    /// what the generator needs. What happens to requests later is part of the report.
    pub fn run(&self) -> Result<Report, Error> {
        self.validate()?;
        let (course, tally) = Driver::new(self)?.run()?;
        Ok(Report::new(self, course, tally))
    }
}

struct Driver<'p> {
    plan: &'p Plan,
    /// The requests as they are written.
    wires: Vec<Wire>,
    poll: Poll,
    timer: Timer,
    slots: Vec<Slot>,
    /// Slots without a request, the one that has waited longest first, and since when. At most one entry
    /// per slot.
    free: VecDeque<(usize, Instant)>,
    /// Slots without a request whose users are not there.
    parked: Vec<usize>,
    /// `None` in a closed loop.
    schedule: Option<Schedule>,
    series: Series,
    buffer: Vec<u8>,
    next_request: usize,
    in_flight: usize,
    /// Counted requests that were sent.
    sent: u64,
    next_scan: Instant,
    /// When the next reply is checked that is one of a sample.
    next_sample: Instant,
    /// Counted requests that have ended and are not in the plan's progress, and those among them that failed.
    untold: (u64, u64),
    first_bad: Option<FirstBad>,
    /// When counting begins.
    opens: Instant,
    /// When sending ends.
    closes: Option<Instant>,
    /// Has it ended? Requests may still be on their way.
    ended: bool,
}

impl<'p> Driver<'p> {
    fn new(plan: &'p Plan) -> Result<Driver<'p>, Error> {
        let place = Destination::of(plan)?;
        let poll = Poll::new().map_err(Error::system("event queue"))?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let changes = match &plan.load {
            Load::Users(traffic) => traffic.changes(),
            Load::Closed | Load::Open { .. } => Vec::new(),
        };
        let most = plan.most_connections();
        let first = changes.first().map_or(most, |it| it.users);
        let slots: Result<Vec<Slot>, Error> = (0..most)
            .map(|index| match index < first {
                true => open(&place, index, first, plan, &poll),
                false => Ok(Slot::closed(&place, index, plan)),
            })
            .collect();
        let start = Instant::now();
        let opens = start + plan.warm_up;
        let closes = plan.time().map(|it| opens + it);
        Ok(Driver {
            plan,
            wires: plan.requests.iter().map(|it| Wire::new(it, &plan.target)).collect(),
            poll,
            timer,
            slots: slots?,
            free: (0..first).map(|index| (index, start)).collect(),
            parked: (first..most).collect(),
            schedule: match plan.load {
                Load::Closed | Load::Users(_) => None,
                Load::Open { rate, arrivals } => {
                    let gap = Duration::from_secs_f64(1.0 / rate);
                    Some(Schedule::new(arrivals, gap, start, plan.seed))
                }
            },
            series: Series::new(opens, closes, most, changes, plan.deadline),
            buffer: vec![0; BUFFER],
            next_request: 0,
            in_flight: 0,
            sent: 0,
            next_scan: start + SCAN,
            next_sample: start,
            untold: (0, 0),
            first_bad: None,
            opens,
            closes,
            ended: false,
        })
    }

    fn run(mut self) -> Result<(Course, Tally), Error> {
        let mut events = Events::with_capacity(EVENTS);
        while Instant::now() < self.opens {
            self.turn(&mut events, Some(self.opens))?;
        }
        let own_before = own_cpu();
        let plan = self.plan;
        let process = plan.pid.map(|pid| ServerProcess { pid, may_go: plan.may_go });
        let readings = Readings::begin(process, plan.metrics.clone(), plan.progress.clone())?;
        readings.take();
        let mut enough = false;
        while !enough && !self.is_over(Instant::now()) {
            enough = self.advance_series(&readings);
            let boundary = self.closes.map_or(self.series.next(), |it| it.min(self.series.next()));
            self.turn(&mut events, Some(boundary))?;
        }
        let now = Instant::now();
        // What was due just before the end is sent if it can be: the loop may have woken late.
        if !enough {
            self.dispatch(now);
            self.count_unsent();
        }
        self.ended = true;
        let closed = self.closes.map_or(now, |closes| closes.min(now));
        let samples = self.series.close(closed);
        let own_cpu = own_cpu().saturating_sub(own_before);
        (0..samples.max(1)).for_each(|_| readings.take());
        while self.in_flight > 0 {
            self.turn(&mut events, None)?;
        }
        self.tell();
        let mut readings = readings.finish()?;
        let elapsed = closed.saturating_duration_since(self.opens);
        let (tally, samples, windows) = self.series.finish(&readings);
        // A server that is gone at the end has been there at the beginning.
        let after = readings.pop().and_then(Result::ok).unwrap_or_default();
        let before = readings.into_iter().next().transpose()?.unwrap_or_default();
        let first_bad = self.first_bad.take();
        Ok((Course { elapsed, own_cpu, before, after, samples, windows, first_bad }, tally))
    }

    /// Ends the samples and windows that are over. Tells whether the plan has seen enough.
    fn advance_series(&mut self, readings: &Readings) -> bool {
        let now = Instant::now();
        let (samples, windows) = self.series.advance(now);
        (0..samples).for_each(|_| readings.take());
        if let Some(progress) = self.plan.progress.as_ref().filter(|_| samples > 0) {
            progress.see(|it| it.sample = self.series.samples().last().copied());
        }
        if windows > 0 {
            self.admit_users(now);
        }
        let enough = self.plan.enough.as_ref().filter(|_| samples > 0);
        enough.is_some_and(|it| it(self.series.windows()))
    }

    /// Gives the users that have come a place.
    fn admit_users(&mut self, now: Instant) {
        let users = self.series.users();
        let comes = |index: &usize| *index < users;
        let coming: Vec<usize> = self.parked.iter().copied().filter(comes).collect();
        self.parked.retain(|it| !comes(it));
        self.free.extend(coming.into_iter().map(|index| (index, now)));
    }

    /// Sends what is due, waits until something happens, at the latest until `boundary`, and handles it.
    fn turn(&mut self, events: &mut Events, boundary: Option<Instant>) -> Result<(), Error> {
        let now = Instant::now();
        if now >= self.next_scan {
            self.scan(now);
        }
        self.dispatch(now);
        let wake = self.next_wake(now, boundary);
        self.timer.arm(wake, Instant::now())?;
        match self.poll.poll(events, None) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(Error::system("event queue")(error)),
        }
        for event in &*events {
            if event.token() != TIMER {
                self.advance(event.token().0, event.is_read_closed() || event.is_error());
            }
        }
        Ok(())
    }

    /// Handles an event of a connection, then sends what can be sent now.
    fn advance(&mut self, index: usize, closing: bool) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let wire = slot.job.and_then(|job| self.wires.get(job.request));
        let outcome = slot.connection.advance(wire, &mut self.buffer, closing);
        if outcome != Outcome::Pending {
            let now = Instant::now();
            self.settle(index, outcome, now);
            self.dispatch(now);
        }
    }

    /// Sends while there is something due and a connection free.
    fn dispatch(&mut self, now: Instant) {
        while let Some(due) = self.next_due(now).filter(|&due| due <= now) {
            let Some((index, since)) = self.next_free() else { break };
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            self.launch(index, since, due, now);
        }
    }

    /// The slot that has waited longest. Those whose users have left are put away.
    fn next_free(&mut self) -> Option<(usize, Instant)> {
        while let Some(slot) = self.free.pop_front() {
            if slot.0 < self.series.users() {
                return Some(slot);
            }
            self.parked.push(slot.0);
        }
        None
    }

    /// The moment of the next request, come or not; `None` when there will be none.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        if self.ended || self.plan.count.is_some_and(|count| self.sent >= count) {
            return None;
        }
        let due = self.schedule.as_ref().map_or(now, Schedule::next);
        Some(due).filter(|&due| self.closes.is_none_or(|closes| due < closes))
    }

    /// Sends a request that was due at `due` over a slot that has been free `since`.
    fn launch(&mut self, index: usize, since: Instant, due: Instant, now: Instant) {
        let request = self.next_request;
        let Some((slot, wire)) = self.slots.get_mut(index).zip(self.wires.get(request)) else {
            return;
        };
        self.next_request = (request + 1) % self.wires.len();
        let counted = due >= self.opens;
        if counted {
            self.sent += 1;
            let ready = due.max(since);
            let own_lag = now.saturating_duration_since(ready);
            self.series.open().sent(wire.len(), now.saturating_duration_since(due), own_lag);
        }
        if slot.connection.is_closed() {
            self.series.open().reconnects += u64::from(slot.was_open);
            (slot.unchecked, slot.was_open) = (true, true);
        }
        slot.connection.capture = match &self.plan.check {
            Check::FirstReply(_) if slot.unchecked => Capture::Body(Vec::new()),
            Check::Sample(_) if now >= self.next_sample => {
                self.next_sample = now + SAMPLE;
                Capture::Body(Vec::new())
            }
            Check::EveryBody(_) => Capture::Hash(BodyHash::default()),
            Check::Nothing | Check::FirstReply(_) | Check::Sample(_) => Capture::Nothing,
        };
        let (number, expires) = (self.sent, now + self.plan.timeout);
        slot.job = Some(Job { request, number, due, expires, counted });
        self.in_flight += 1;
        let outcome = slot.connection.start(wire, self.poll.registry());
        self.settle(index, outcome, now);
    }

    /// Counts the end of a request, if it is one, and frees its slot.
    fn settle(&mut self, index: usize, outcome: Outcome, now: Instant) {
        if outcome == Outcome::Pending {
            return;
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Some(job) = slot.job.take() else { return };
        self.in_flight -= 1;
        match outcome {
            Outcome::Failed(NoReply::Connect) => slot.rests_until = Some(now + REST),
            _ => self.free.push_back((index, now)),
        }
        match outcome {
            Outcome::Pending => {}
            Outcome::Replied { status, bytes } => {
                let tally = self.series.open();
                if check(self.plan, slot, job.request, status, tally) {
                    let done = Instant::now();
                    let rest = done.saturating_duration_since(now).saturating_mul(SAMPLE_REST);
                    self.next_sample = self.next_sample.max(done + rest);
                }
                if job.counted {
                    let latency = now.saturating_duration_since(job.due);
                    tally.reply(status, latency, bytes);
                    if !(200..300).contains(&status) {
                        tally.refusal(status, &slot.connection.beginning);
                    }
                }
            }
            Outcome::Failed(failure) if job.counted => {
                let problem = problem(failure, slot, self.plan.timeout);
                self.series.open().failure(failure, &problem);
            }
            Outcome::Failed(_) => {}
        }
        if job.counted {
            let good = matches!(outcome, Outcome::Replied { status: 200..300, .. });
            self.untold.0 += 1;
            self.untold.1 += u64::from(!good);
            if !good && self.first_bad.is_none() {
                let at = now.saturating_duration_since(self.opens);
                let problem = match outcome {
                    Outcome::Failed(failure) => {
                        problem(failure, slot, self.plan.timeout).into_owned()
                    }
                    Outcome::Replied { status, .. } => {
                        let Connection { beginning: body, .. } = &slot.connection;
                        refusal(status, slot.connection.content_type(), &beginning(body))
                    }
                    Outcome::Pending => String::new(),
                };
                let Job { request, number, .. } = job;
                let users = self.series.users();
                self.first_bad = Some(FirstBad { at, users, request, number, problem });
            }
        }
    }

    /// Gives up on requests that take too long, and ends the rest of connections.
    fn scan(&mut self, now: Instant) {
        self.next_scan = now + SCAN;
        self.tell();
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            if slot.rests_until.is_some_and(|until| now >= until) {
                slot.rests_until = None;
                self.free.push_back((index, now));
            }
            if slot.job.is_some_and(|job| now >= job.expires) {
                slot.connection.abandon();
                self.settle(index, Outcome::Failed(NoReply::Timeout), now);
            }
        }
    }

    /// Tells the plan's progress, if it has one, what has come since the last time.
    fn tell(&mut self) {
        let (ended, bad) = std::mem::take(&mut self.untold);
        if let Some(progress) = &self.plan.progress {
            progress.add(ended, bad);
        }
    }

    /// Is it time to end the measurement?
    fn is_over(&self, now: Instant) -> bool {
        let counted_all = self.plan.count.is_some_and(|count| self.sent >= count);
        self.closes.is_some_and(|closes| now >= closes) || (counted_all && self.in_flight == 0)
    }

    /// Counts what was due within the measurement and found no free connection until its end.
    fn count_unsent(&mut self) {
        let (Some(schedule), Some(closes)) = (&mut self.schedule, self.closes) else { return };
        let left = self.plan.count.map_or(u64::MAX, |count| count.saturating_sub(self.sent));
        let unsent = &mut self.series.open().unsent;
        while schedule.next() < closes && *unsent < left {
            *unsent += u64::from(schedule.next() >= self.opens);
            schedule.advance();
        }
    }

    fn next_wake(&self, now: Instant, boundary: Option<Instant>) -> Instant {
        // A request that finds no connection free is sent when one becomes so.
        let due = self.next_due(now).filter(|_| !self.free.is_empty());
        [boundary, due].into_iter().flatten().fold(self.next_scan, Instant::min)
    }
}

/// What went wrong with the request of a slot.
fn problem(failure: NoReply, slot: &Slot, timeout: Duration) -> Cow<'_, str> {
    match failure {
        NoReply::Timeout => format!("no reply within {} s", timeout.as_secs_f64()).into(),
        NoReply::Connect | NoReply::Reset | NoReply::Malformed => slot.connection.problem().into(),
    }
}
