//! Which place gets the next run, or the next instance, where a model has processes of its own: one for each device
//! that it has instances on. A process may have died: its instances are made anew, and warmed, before they get a run. A
//! device may be out, as its process is not started again at once: its places are left alone while another can serve.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::Device;

use super::{ratelimit::Limited, running::Running, slot::Slot, state::State};

/// Where no instance could make a run for so long, the model is not ready, and nobody need wait for it.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// A place that is left alone is looked at again after so long, where requests wait.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl State {
    /// Takes the idle instance for the next run: of those that can make it, the one that was used last.
    pub fn take_idle(&mut self) -> Option<Slot> {
        if !self.is_apart() {
            return self.idle.pop();
        }
        let at = self.idle.iter().rposition(|it| self.is_ready(it))?;
        Some(self.idle.remove(at))
    }

    /// Is there one?
    pub fn has_idle(&self) -> bool {
        match self.is_apart() {
            true => self.idle.iter().any(|it| self.is_ready(it)),
            false => !self.idle.is_empty(),
        }
    }

    /// Takes the place where the next instance is to be made: there is work, and no other worker to do it.
    pub fn place_to_fill(&mut self, now: Instant) -> Option<Slot> {
        if now < self.make_after {
            return None;
        }
        if !self.is_apart() {
            return self.unmade.pop();
        }
        // First those whose device has made an instance before: on another none may ever be made.
        if let Some(at) = self.idle.iter().rposition(|it| self.is_to_be_made_anew(it)) {
            return Some(self.idle.remove(at));
        }
        let at = self.unmade.iter().rposition(|it| self.is_to_be_made(it))?;
        Some(self.unmade.remove(at))
    }

    /// From when on one more instance may be made; `None` where all places have one, or are left alone.
    pub fn makes_at(&self) -> Option<Instant> {
        let waits = match self.is_apart() {
            true => {
                self.unmade.iter().any(|it| self.is_to_be_made(it))
                    || self.idle.iter().any(|it| self.is_to_be_made_anew(it))
            }
            false => !self.unmade.is_empty(),
        };
        waits.then_some(self.make_after)
    }

    /// Takes a place whose instance was lost with its process, to make it anew, where there is another process or one
    /// is started.
    pub fn lost_place(&mut self, now: Instant) -> Option<Slot> {
        if let Some(at) = self.lost_among(&self.idle, now) {
            return Some(self.idle.remove(at));
        }
        let at = self.lost_among(&self.unmade, now)?;
        Some(self.unmade.remove(at))
    }

    /// Is there one?
    pub fn has_lost_place(&self, now: Instant) -> bool {
        self.lost_among(&self.idle, now).or_else(|| self.lost_among(&self.unmade, now)).is_some()
    }

    fn lost_among(&self, slots: &[Slot], now: Instant) -> Option<usize> {
        if !self.is_apart() || self.closing || now < self.make_after {
            return None;
        }
        slots.iter().rposition(|it| it.is_due(now) && self.is_next(it.device()))
    }

    /// Is no instance made there, by a worker or for a run, nor waited for by one? Lost ones are made one after the
    /// other, so that the first is ready soonest.
    fn is_next(&self, device: Device) -> bool {
        let is_at_it = |it: &Running| it.device == device && it.stop.is_waiting();
        !self.filling.contains(&device) && !self.runs.batches().any(is_at_it)
    }

    /// Is there no instance that could make a run, as all of them were lost with their processes, for so long that
    /// nobody need wait for one?
    pub fn is_out_of_service(&mut self, now: Instant) -> bool {
        self.note_service(now);
        self.unserved_since.is_some_and(|it| WORTH_WAITING <= now.saturating_duration_since(it))
    }

    /// Notes since when there is none.
    pub fn note_service(&mut self, now: Instant) {
        let serves = !self.is_apart()
            || self.idle.iter().chain(&self.awaiting).any(|it| !it.is_lost())
            || self.runs.batches().any(|it| !it.stop.is_waiting());
        let is_at_it = !self.filling.is_empty() || self.runs.has_batch();
        let places = self.idle.iter().chain(&self.unmade).chain(&self.awaiting);
        let is_lost = is_at_it || places.into_iter().any(Slot::is_lost);
        let since = self.unserved_since.unwrap_or(now);
        self.unserved_since = (!serves && is_lost).then_some(since);
    }

    /// Takes an instance back whose run has waited for these resources.
    pub fn take_awaiting(&mut self, limited: &Arc<Limited>) -> Option<Slot> {
        let is_its = |it: &Slot| it.limit().is_some_and(|it| Arc::ptr_eq(it, limited));
        let at = self.awaiting.iter().position(is_its)?;
        Some(self.awaiting.swap_remove(at))
    }

    /// One of the instances that are made there is made, or cannot be.
    pub fn has_filled(&mut self, device: Device) {
        if let Some(at) = self.filling.iter().position(|it| *it == device) {
            self.filling.swap_remove(at);
        }
    }

    /// When to look again for a place, where none is free.
    pub fn looks_at(&self, now: Instant) -> Option<Instant> {
        let waits =
            |it: &Slot| self.is_left_alone(it) || it.is_lost() && !self.is_next(it.device());
        let leaves_some = self.is_apart() && self.idle.iter().chain(&self.unmade).any(waits);
        let looks_again = leaves_some.then(|| now + LOOK_AGAIN);
        self.makes_at().into_iter().chain(looks_again).min()
    }

    /// Is there no instance left to serve the queue: idle, running, or to be made in the place of a lost one? One whose
    /// device is left alone serves nothing.
    pub fn is_without_instances(&self) -> bool {
        let left_alone = match self.is_apart() {
            true => self.idle.iter().filter(|it| self.is_left_alone(it)).count(),
            false => 0,
        };
        self.unmade.len() + left_alone == self.slots
    }

    /// May what runs there be left to another device, where its process dies?
    pub fn may_move(&self, slot: &Slot) -> bool {
        slot.is_apart() && self.has_other(slot.device())
    }

    /// Places on devices that can serve; all where none can.
    pub fn serving_places(&self) -> usize {
        if !self.is_apart() {
            return self.slots;
        }
        let out: usize = self.kinds.iter().filter(|(it, _)| it.is_out()).map(|(_, it)| it).sum();
        Some(self.slots.saturating_sub(out)).filter(|it| 0 < *it).unwrap_or(self.slots)
    }

    /// Are its instances in processes of the model's own?
    pub(crate) fn is_apart(&self) -> bool {
        self.kinds.iter().any(|(it, _)| it.is_apart())
    }

    /// Is it one for the next run, as its instance can make that at once? Where every device is out all of them are: a
    /// run says then that there is no process, or waits for the one that loads.
    fn is_ready(&self, slot: &Slot) -> bool {
        match slot.is_out() {
            true => !self.has_other(slot.device()),
            false => !slot.has_lost_process(),
        }
    }

    /// Is its instance one of a process that has died, and is there another? A run would wait for that.
    fn is_to_be_made_anew(&self, slot: &Slot) -> bool {
        slot.has_lost_process() && !slot.is_out() && self.is_next(slot.device())
    }

    /// Is there none, and could one be made?
    fn is_to_be_made(&self, slot: &Slot) -> bool {
        !self.is_left_alone(slot) && (!slot.is_lost() || self.is_next(slot.device()))
    }

    /// Is its device out, and another not?
    fn is_left_alone(&self, slot: &Slot) -> bool {
        slot.is_out() && self.has_other(slot.device())
    }

    /// Is there another device with places that can serve?
    fn has_other(&self, device: Device) -> bool {
        let others = self.kinds.iter().filter(|(it, places)| it.device() != device && 0 < *places);
        others.into_iter().any(|(it, _)| !it.is_out())
    }
}

#[cfg(test)]
mod tests;
