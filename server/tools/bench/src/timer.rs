//! A timer of nanosecond resolution in the event queue: the queue's own timeout counts milliseconds,
//! which is too coarse for arrivals.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use mio::{Interest, Registry, Token, unix::SourceFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::Error;

/// Wakes the event loop once per arming.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Never read: events are edge-triggered, and setting the timer clears its count.
    descriptor: OwnedFd,
    armed: Option<Instant>,
}

impl Timer {
    pub(crate) fn new(registry: &Registry, token: Token) -> Result<Timer, Error> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|errno| Error::System { what: "timer", source: errno.into() })?;
        registry
            .register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)
            .map_err(Error::system("timer"))?;
        Ok(Timer { descriptor, armed: None })
    }

    /// Makes sure of a wake-up at `at` or before.
    pub(crate) fn arm(&mut self, at: Instant, now: Instant) -> Result<(), Error> {
        if self.armed.is_some_and(|armed| armed <= at && armed > now) {
            return Ok(());
        }
        // Zero would disarm it.
        let wait = at.saturating_duration_since(now).max(Duration::from_nanos(1));
        let value = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: interval, it_value: value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &setting)
            .map_err(|errno| Error::System { what: "timer", source: errno.into() })?;
        self.armed = Some(at);
        Ok(())
    }
}
