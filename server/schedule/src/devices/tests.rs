//! Places on two devices, of which one is out, or has had another process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use backend::{BackendError, Batch, Instance, NamedTensor, Processes, Stop};

use super::*;
use crate::{
    learn::RunTimes,
    policy::BatchPolicy,
    queue::Queue,
    test_process::{TestProcess, on},
};

const DEVICES: [Device; 2] = [Device::Gpu(0), Device::Gpu(1)];

/// An instance whose process may have died.
struct Nothing(Arc<AtomicBool>);

impl Instance for Nothing {
    fn execute(&mut self, _: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        Ok(Vec::new())
    }

    fn has_lost_process(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Two devices with a process and an idle instance each; the second is the one that was used last.
struct Two {
    state: State,
    processes: [Arc<TestProcess>; 2],
    have_died: [Arc<AtomicBool>; 2],
    /// Can no instance be made?
    is_full: Arc<AtomicBool>,
}

impl Two {
    fn new() -> Two {
        let (processes, have_died): ([Arc<TestProcess>; 2], [Arc<AtomicBool>; 2]) =
            Default::default();
        let is_full = Arc::<AtomicBool>::default();
        let all: Processes =
            DEVICES.iter().zip(&processes).map(|(device, it)| on(*device, it)).collect();
        let slots = DEVICES.iter().zip(&have_died).map(|(device, has_died)| {
            let (has_died, is_full) = (has_died.clone(), is_full.clone());
            let make = Arc::new(move || match is_full.load(Relaxed) {
                true => Err(BackendError::OutOfMemory("no room".to_owned())),
                false => Ok(Box::new(Nothing(has_died.clone())) as Box<dyn Instance>),
            });
            let mut slot = Slot::empty_on(*device, make).apart(all.clone());
            slot.fill().unwrap();
            slot
        });
        let queue = Queue::new(BatchPolicy::one_by_one(), Vec::new(), 0, 0);
        let state = State::new(queue, slots.collect(), RunTimes::default());
        Two { state, processes, have_died, is_full }
    }

    fn is_out(&self, which: usize, is_out: bool) {
        self.processes[which].is_out.store(is_out, Relaxed);
    }

    fn has_died(&self, which: usize) {
        self.have_died[which].store(true, Relaxed);
    }

    fn take_idle(&mut self) -> Option<Device> {
        self.state.take_idle().map(|it| it.device())
    }

    fn take_unmade(&mut self) -> Option<Device> {
        self.state.place_to_fill(Instant::now()).map(|it| it.device())
    }
}

#[test]
fn a_device_that_is_out_gets_no_run_while_another_is_idle_or_runs() {
    let mut two = Two::new();
    two.is_out(1, true);
    assert_eq!(two.take_idle(), Some(DEVICES[0]));
    assert_eq!(two.take_idle(), None, "what waits is for the other, which runs");
    assert!(!two.state.has_idle() && !two.state.has_room(Instant::now()));
    let now = Instant::now();
    assert_eq!(two.state.looks_at(now), Some(now + LOOK_AGAIN));
    two.is_out(1, false);
    assert!(two.state.has_idle());
    assert_eq!(two.take_idle(), Some(DEVICES[1]));
}

#[test]
fn where_every_device_is_out_a_run_is_given_to_one_that_says_so() {
    let mut two = Two::new();
    two.is_out(0, true);
    two.is_out(1, true);
    assert_eq!([two.take_idle(), two.take_idle()], [Some(DEVICES[1]), Some(DEVICES[0])]);
}

#[test]
fn where_the_process_of_every_device_has_died_and_is_out_runs_are_given_to_those_that_say_so() {
    let mut two = Two::new();
    for device in [0, 1] {
        two.has_died(device);
        two.is_out(device, true);
    }
    assert!(two.state.has_idle());
    assert_eq!(two.state.makes_at(), None, "there is no process to make one in");
    assert_eq!([two.take_idle(), two.take_idle()], [Some(DEVICES[1]), Some(DEVICES[0])]);
}

#[test]
fn a_place_that_can_never_be_made_keeps_no_other_device_from_being_served() {
    let mut two = Two::new();
    let never = two.state.idle.remove(0).another();
    two.state.put_back_unmade(never, Instant::now());
    two.has_died(1);
    // Each attempt fails.
    let mut now = Instant::now();
    let mut turns = Vec::new();
    for _ in 0..4 {
        now = two.state.make_after.max(now);
        let slot = two.state.place_to_fill(now).expect("a place");
        turns.push(slot.device());
        two.state.put_back_unmade(slot.another(), now);
    }
    assert_eq!(turns, [DEVICES[1], DEVICES[0], DEVICES[1], DEVICES[0]]);
}

#[test]
fn no_instance_serves_where_one_device_is_out_and_none_can_be_made_on_the_other() {
    let mut two = Two::new();
    let never = two.state.idle.remove(0).another();
    two.state.put_back_unmade(never, Instant::now());
    assert!(!two.state.is_without_instances());
    two.has_died(1);
    assert!(!two.state.is_without_instances(), "it is made anew");
    two.is_out(1, true);
    assert!(two.state.is_without_instances());
    two.is_out(0, true);
    assert!(!two.state.is_without_instances(), "it says that no device can serve");
}

#[test]
fn an_instance_whose_process_has_died_is_made_anew_before_it_gets_a_run() {
    let mut two = Two::new();
    two.has_died(1);
    assert_eq!(two.take_idle(), Some(DEVICES[0]));
    assert_eq!(two.take_idle(), None);
    assert!(two.state.makes_at().is_some());
    two.is_out(1, true);
    assert_eq!(two.take_unmade(), None, "its process is not there yet");
    assert_eq!(two.state.makes_at(), None);
    two.is_out(1, false);
    assert_eq!(two.take_unmade(), Some(DEVICES[1]));
}

#[test]
fn an_instance_that_was_lost_with_its_process_is_made_anew_without_work_for_it() {
    let mut two = Two::new();
    let now = Instant::now();
    assert!(!two.state.has_lost_place(now));
    two.has_died(1);
    assert!(two.state.has_lost_place(now) && two.state.needs_worker(now));
    two.is_out(1, true);
    assert!(!two.state.has_lost_place(now), "there is no process for it");
    two.is_out(1, false);
    two.state.closing = true;
    assert!(!two.state.has_lost_place(now));
    two.state.closing = false;
    let slot = two.state.lost_place(now).unwrap();
    assert_eq!(slot.device(), DEVICES[1]);
    assert!(!two.state.has_lost_place(now));
    // It could not be made: it is tried again, but not at once.
    two.state.put_back_unmade(slot, now);
    assert!(!two.state.has_lost_place(now));
    let later = two.state.make_after;
    assert!(two.state.has_lost_place(later));
    let slot = two.state.lost_place(later).unwrap();
    // One that there has never been is made when there is work for it.
    two.state.put_back_unmade(slot.another(), now);
    assert!(!two.state.has_lost_place(later) && two.state.makes_at().is_some());
}

#[test]
fn an_instance_that_cannot_be_made_anew_is_lost_all_the_same_and_tried_again_later() {
    let mut two = Two::new();
    two.has_died(0);
    two.has_died(1);
    let now = Instant::now();
    drop(two.state.lost_place(now));
    let mut slot = two.state.lost_place(now).unwrap();
    two.is_full.store(true, Relaxed);
    slot.fill_anew().unwrap_err();
    two.state.put_back_unmade(slot, now);
    let soon = two.state.make_after;
    assert!(!two.state.has_lost_place(soon), "each time costs a run of the warm-up");
    assert!(two.state.has_lost_place(soon + Duration::from_secs(5)));
    two.state.note_service(now);
    assert!(two.state.is_out_of_service(now + WORTH_WAITING), "there is none");
}

#[test]
fn a_model_is_out_of_service_when_all_of_its_instances_have_been_lost_for_a_second() {
    let mut two = Two::new();
    let now = Instant::now();
    two.has_died(0);
    two.has_died(1);
    assert!(!two.state.is_out_of_service(now), "it may be over soon");
    assert!(two.state.is_out_of_service(now + WORTH_WAITING));
    let slot = two.state.lost_place(now).unwrap();
    two.state.filling.push(slot.device());
    drop(two.state.lost_place(now));
    assert!(two.state.is_out_of_service(now + WORTH_WAITING), "they are being made");
    two.state.has_filled(slot.device());
    let mut made = slot.another();
    two.have_died[1].store(false, Relaxed);
    made.fill().unwrap();
    assert!(two.state.put_back(made).is_none());
    assert!(!two.state.is_out_of_service(now + 2 * WORTH_WAITING), "one can make a run");
    two.has_died(1);
    assert!(!two.state.is_out_of_service(now + 3 * WORTH_WAITING), "it counts anew");
}

#[test]
fn a_model_of_which_an_instance_waits_for_its_resources_is_in_service_while_another_is_made_anew() {
    let mut two = Two::new();
    let now = Instant::now();
    two.has_died(1);
    let lost = two.state.lost_place(now).unwrap();
    two.state.filling.push(lost.device());
    let waits = two.state.take_idle().unwrap();
    two.state.awaiting.push(waits);
    two.state.note_service(now);
    assert!(!two.state.is_out_of_service(now + WORTH_WAITING));
    two.has_died(0);
    two.state.note_service(now);
    assert!(two.state.is_out_of_service(now + WORTH_WAITING), "it is lost as well");
}

#[test]
fn instances_of_a_device_that_were_lost_are_made_anew_one_after_the_other() {
    let mut two = Two::new();
    let now = Instant::now();
    let mut beside = two.state.idle[1].another();
    beside.fill().unwrap();
    assert!(two.state.put_back(beside).is_none());
    two.has_died(1);
    let first = two.state.lost_place(now).unwrap();
    two.state.filling.push(first.device());
    assert!(!two.state.has_lost_place(now) && two.state.place_to_fill(now).is_none());
    assert_eq!(two.state.makes_at(), None, "nobody need look before the first is made");
    two.has_died(0);
    assert_eq!(two.state.lost_place(now).unwrap().device(), DEVICES[0], "it has its own process");
    two.state.has_filled(first.device());
    // A run has one made for itself.
    let stop = Arc::new(Stop::new());
    let waiting = stop.wait();
    two.state.runs.begin(Running {
        callers: Vec::new(),
        replies: Vec::new(),
        rows: 1,
        stop: stop.clone(),
        started: now,
        limit: None,
        patience: None,
        device: DEVICES[1],
        is_apart: true,
        permit: None,
    });
    assert!(!two.state.has_lost_place(now));
    drop(waiting);
    assert_eq!(two.state.lost_place(now).unwrap().device(), DEVICES[1]);
}

#[test]
fn no_instance_is_made_on_a_device_that_is_out() {
    let mut two = Two::new();
    while let Some(slot) = two.state.take_idle() {
        two.state.unmade.push(slot.another());
    }
    two.is_out(1, true);
    assert_eq!([two.take_unmade(), two.take_unmade()], [Some(DEVICES[0]), None]);
    two.is_out(1, false);
    assert_eq!(two.take_unmade(), Some(DEVICES[1]));
}

#[test]
fn what_runs_on_a_device_may_be_left_to_the_other_while_that_can_serve() {
    let mut two = Two::new();
    let slot = two.state.take_idle().unwrap();
    assert!(two.state.may_move(&slot));
    two.is_out(0, true);
    assert!(!two.state.may_move(&slot));
    two.is_out(0, false);
    // It has no places any more.
    two.state.kinds[1].1 = 0;
    two.state.kinds[0].1 = 0;
    assert!(!two.state.may_move(&slot));
}

#[test]
fn a_wait_is_reckoned_with_the_devices_that_can_serve() {
    let two = Two::new();
    assert_eq!(two.state.serving_places(), 2);
    two.is_out(1, true);
    assert_eq!(two.state.serving_places(), 1);
    two.is_out(0, true);
    assert_eq!(two.state.serving_places(), 2);
}
