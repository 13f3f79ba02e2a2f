//! More or fewer instances while requests are served: new ones are made before they are counted, old ones go when
//! they are idle.

use std::time::Instant;

use backend::{BackendError, Device};

use super::{scheduler::Scheduler, slot::Slot, state::State, worker};

impl Scheduler {
    /// Has so many instances on each device from now on; no request is dropped, and none waits for it. False,
    /// and nothing is changed, where one would be on a device that the model was not loaded for. Blocking: new
    /// instances are made first.
    ///
    /// # Errors
    /// When one cannot be made; then the instances stay as they were.
    pub fn resize(&self, wanted: &[(Device, usize)]) -> Result<bool, BackendError> {
        let shared = &self.shared;
        let Some(mut missing) = shared.lock().missing(wanted) else { return Ok(false) };
        for slot in &mut missing {
            slot.fill()?;
        }
        let mut state = shared.lock();
        missing.into_iter().for_each(|it| state.add(it));
        let surplus = state.shrink(wanted);
        let wake = state.wake_needed_worker(Instant::now());
        shared.hints.update(&state);
        drop(state);
        drop(surplus);
        // Workers without a place end, and those with one look at what waits.
        shared.changed.notify_all();
        worker::wake(shared, wake);
        Ok(true)
    }
}

impl State {
    /// Places that are to be added; `None` where a device is unknown.
    fn missing(&self, wanted: &[(Device, usize)]) -> Option<Vec<Slot>> {
        let mut missing = Vec::new();
        for (device, count) in wanted {
            let (pattern, there) = self.kinds.iter().find(|(it, _)| it.device() == *device)?;
            missing.extend((*there..*count).map(|_| pattern.another()));
        }
        Some(missing)
    }

    fn add(&mut self, slot: Slot) {
        if let Some(kind) = self.kinds.iter_mut().find(|(it, _)| it.device() == slot.device()) {
            kind.1 += 1;
        }
        self.slots += 1;
        self.idle.push(slot);
    }

    /// Takes away what is there and not wanted. Those in use go when they are given back; the others are
    /// returned, to be dropped when the lock is free.
    fn shrink(&mut self, wanted: &[(Device, usize)]) -> Vec<Slot> {
        let mut gone = Vec::new();
        for (pattern, there) in &mut self.kinds {
            let device = pattern.device();
            let keep = wanted.iter().find(|it| it.0 == device).map_or(0, |it| it.1);
            while keep < *there {
                *there -= 1;
                self.slots -= 1;
                let place = take(&mut self.unmade, device).or_else(|| take(&mut self.idle, device));
                match place {
                    Some(slot) => gone.push(slot),
                    None => self.surplus.push(device),
                }
            }
        }
        gone
    }
}

fn take(slots: &mut Vec<Slot>, device: Device) -> Option<Slot> {
    let at = slots.iter().position(|it| it.device() == device)?;
    Some(slots.remove(at))
}
