//! The event loop: when is which request sent over which connection, and when is the run over?

use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use mio::{Events, Poll, Token};

use crate::{
    Check, CheckedReply, Error, Load, Plan, Report,
    arrivals::Schedule,
    check::BodyHash,
    connection::{Capture, Connection, Outcome, Wire},
    report::Window,
    tally::{Failure, Tally},
    timer::Timer,
    usage::{PendingReading, own_cpu},
};

const TIMER: Token = Token(usize::MAX);
/// Longest wait for each of the connections that are opened before the run.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often timeouts are looked for.
const SCAN: Duration = Duration::from_millis(20);
/// How long a connection that could not be opened is left alone.
const REST: Duration = Duration::from_millis(50);
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
        let mut driver = Driver::new(self)?;
        let window = driver.run()?;
        Ok(Report::new(self, window, driver.tally))
    }
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
struct Job {
    request: usize,
    /// When it was to be sent: latency counts from here.
    due: Instant,
    expires: Instant,
    /// Was it due within the measurement?
    counted: bool,
}

#[derive(Debug)]
struct Slot {
    connection: Connection,
    job: Option<Job>,
    /// Not used before this.
    rests_until: Option<Instant>,
    /// The next 2xx reply is the first of this connection.
    unchecked: bool,
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
    /// `None` in a closed loop.
    schedule: Option<Schedule>,
    tally: Tally,
    buffer: Vec<u8>,
    next_request: usize,
    in_flight: usize,
    /// Counted requests that were sent.
    sent: u64,
    next_scan: Instant,
    /// Counted requests that have ended and are in the plan's progress, and those among them that failed.
    told: (u64, u64),
    /// When counting begins.
    opens: Instant,
    /// When sending ends.
    closes: Option<Instant>,
    /// Has it ended? Requests may still be on their way.
    ended: bool,
}

impl<'p> Driver<'p> {
    fn new(plan: &'p Plan) -> Result<Driver<'p>, Error> {
        let address = plan.target.resolve()?;
        let poll = Poll::new().map_err(Error::system("event queue"))?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let slots: Result<Vec<Slot>, Error> =
            (0..plan.connections).map(|index| open(address, index, plan, &poll)).collect();
        let authority = plan.target.authority();
        let start = Instant::now();
        let opens = start + plan.warm_up;
        Ok(Driver {
            plan,
            wires: plan.requests.iter().map(|it| Wire::new(it, &authority)).collect(),
            poll,
            timer,
            slots: slots?,
            free: (0..plan.connections).map(|index| (index, start)).collect(),
            schedule: match plan.load {
                Load::Closed => None,
                Load::Open { rate, arrivals } => {
                    let gap = Duration::from_secs_f64(1.0 / rate);
                    Some(Schedule::new(arrivals, gap, start, plan.seed))
                }
            },
            tally: Tally::new(plan.deadline),
            buffer: vec![0; BUFFER],
            next_request: 0,
            in_flight: 0,
            sent: 0,
            next_scan: start + SCAN,
            told: (0, 0),
            opens,
            closes: plan.duration.map(|it| opens + it),
            ended: false,
        })
    }

    fn run(&mut self) -> Result<Window, Error> {
        let mut events = Events::with_capacity(EVENTS);
        while Instant::now() < self.opens {
            self.turn(&mut events, Some(self.opens))?;
        }
        let own_before = own_cpu();
        let before = PendingReading::begin(self.plan.pid)?;
        while !self.is_over(Instant::now()) {
            self.turn(&mut events, self.closes)?;
        }
        let now = Instant::now();
        // What was due just before the end is sent if it can be: the loop may have woken late.
        self.dispatch(now);
        self.count_unsent();
        self.ended = true;
        let closed = self.closes.map_or(now, |closes| closes.min(now));
        let own_cpu = own_cpu().saturating_sub(own_before);
        let after = PendingReading::begin(self.plan.pid)?;
        while self.in_flight > 0 {
            self.turn(&mut events, None)?;
        }
        self.tell();
        let elapsed = closed.saturating_duration_since(self.opens);
        Ok(Window { elapsed, own_cpu, before: before.finish()?, after: after.finish()? })
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
            let Some((index, since)) = self.free.pop_front() else { break };
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            self.launch(index, since, due, now);
        }
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
            self.tally.sent(wire.len(), now.saturating_duration_since(due), own_lag);
        }
        if slot.connection.is_closed() {
            self.tally.reconnects += 1;
            slot.unchecked = true;
        }
        slot.connection.capture = match &self.plan.check {
            Check::FirstReply(_) if slot.unchecked => Capture::Body(Vec::new()),
            Check::EveryBody(_) => Capture::Hash(BodyHash::default()),
            Check::Nothing | Check::FirstReply(_) => Capture::Nothing,
        };
        slot.job = Some(Job { request, due, expires: now + self.plan.timeout, counted });
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
            Outcome::Failed(Failure::Connect) => slot.rests_until = Some(now + REST),
            _ => self.free.push_back((index, now)),
        }
        match outcome {
            Outcome::Pending => {}
            Outcome::Replied { status, bytes } => {
                check(self.plan, slot, job.request, status, &mut self.tally);
                if job.counted {
                    let latency = now.saturating_duration_since(job.due);
                    self.tally.reply(status, latency, bytes);
                    if !(200..300).contains(&status) {
                        self.tally.refusal(status, &slot.connection.beginning);
                    }
                }
            }
            Outcome::Failed(failure) if job.counted => self.tally.failure(failure),
            Outcome::Failed(_) => {}
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
                self.settle(index, Outcome::Failed(Failure::Timeout), now);
            }
        }
    }

    /// Tells the plan's progress, if it has one, what has come since the last time.
    fn tell(&mut self) {
        let Some(progress) = &self.plan.progress else { return };
        let ended = self.tally.replies() + self.tally.failures.total();
        let bad = ended - self.tally.latency.len();
        progress.add(ended - self.told.0, bad - self.told.1);
        self.told = (ended, bad);
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
        while schedule.next() < closes && self.tally.unsent < left {
            self.tally.unsent += u64::from(schedule.next() >= self.opens);
            schedule.advance();
        }
    }

    fn next_wake(&self, now: Instant, boundary: Option<Instant>) -> Instant {
        // A request that finds no connection free is sent when one becomes so.
        let due = self.next_due(now).filter(|_| !self.free.is_empty());
        [boundary, due].into_iter().flatten().fold(self.next_scan, Instant::min)
    }
}

/// Opens a connection before the run: blocking, so that a server that is not there is an error and not
/// ten seconds of failures.
fn open(address: SocketAddr, index: usize, plan: &Plan, poll: &Poll) -> Result<Slot, Error> {
    let connection = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .and_then(|it| Connection::open(it, address, Token(index), poll.registry(), plan.is_grpc()))
        .map_err(|source| Error::Connect {
            address: address.to_string(),
            number: index + 1,
            of: plan.connections,
            source,
        })?;
    Ok(Slot { connection, job: None, rests_until: None, unchecked: true })
}

/// Judges a 2xx reply, where the plan wants that.
fn check(plan: &Plan, slot: &mut Slot, request: usize, status: u16, tally: &mut Tally) {
    let capture = std::mem::replace(&mut slot.connection.capture, Capture::Nothing);
    if !(200..300).contains(&status) {
        return;
    }
    let right = match (&plan.check, capture) {
        (Check::FirstReply(judge), Capture::Body(body)) => {
            slot.unchecked = false;
            judge(&CheckedReply { request, status, body: &body })
        }
        (Check::EveryBody(hashes), Capture::Hash(hash)) => {
            hashes.get(request) == Some(&hash.value())
        }
        _ => return,
    };
    tally.checked += 1;
    tally.wrong += u64::from(!right);
}
