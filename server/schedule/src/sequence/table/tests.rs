//! Sequences that come, wait, run and go, with numbers for requests.

use super::*;

const IDLE: Duration = Duration::from_secs(1);
const FIRST: u8 = 1;
const LAST: u8 = 2;

/// A table of one instance with so many seats, and its clock.
struct Scene {
    table: Table<u32>,
    now: Instant,
}

impl Scene {
    fn new(instances: usize, seats: usize) -> Scene {
        Scene { table: Table::new(instances, seats), now: Instant::now() }
    }

    /// A request of sequence `id`; `None` where it is refused.
    fn ask(&mut self, id: u64, flags: u8, job: u32) -> Option<(Number, u64)> {
        let asked =
            Asked { id: SequenceId::Number(id), start: flags & FIRST != 0, end: flags & LAST != 0 };
        if !asked.start && !self.table.is_open(&asked.id) {
            return None;
        }
        let entered = self.table.enter(&asked, job, self.now);
        self.table.seat(|_| false);
        Some(entered)
    }

    /// The next request of each row of an instance.
    fn heads(&self, instance: usize) -> Vec<(usize, u32)> {
        self.table.heads(instance).map(|it| (it.row, *it.job)).collect()
    }

    /// Runs the next request of a row; `ends` where that was the last of its sequence.
    fn run(&mut self, instance: usize, row: usize, ends: bool) -> u32 {
        let taken = self.table.take(instance, &[row]).pop().unwrap();
        self.table.finish(taken.number, None, ends, self.now);
        self.table.seat(|_| false);
        taken.job
    }
}

#[test]
fn a_sequence_begins_with_a_start_and_with_nothing_else() {
    let mut scene = Scene::new(1, 1);
    assert_eq!(scene.ask(1, 0, 10), None);
    assert!(scene.ask(1, FIRST, 11).is_some());
    assert!(scene.ask(1, 0, 12).is_some());
    assert_eq!(scene.table.queued(), 2);
}

#[test]
fn requests_of_a_sequence_run_one_after_another_in_their_order() {
    let mut scene = Scene::new(1, 2);
    scene.ask(1, FIRST, 10);
    scene.ask(1, 0, 11);
    assert_eq!(scene.heads(0), [(0, 10)]);
    let taken = scene.table.take(0, &[0]).pop().unwrap();
    assert_eq!(scene.heads(0), []);
    scene.table.finish(taken.number, None, false, scene.now);
    assert_eq!(scene.heads(0), [(0, 11)]);
}

#[test]
fn sequences_spread_over_instances_and_the_rest_wait_in_order() {
    let mut scene = Scene::new(2, 1);
    for id in 1..=4 {
        scene.ask(id, FIRST, id as u32 * 10);
    }
    scene.ask(3, 0, 31);
    assert_eq!((scene.heads(0), scene.heads(1)), (vec![(0, 10)], vec![(0, 20)]));
    assert_eq!(scene.run(1, 0, true), 20);
    assert_eq!(scene.heads(1), [(0, 30)]);
    scene.run(1, 0, false);
    assert_eq!(scene.run(1, 0, true), 31);
    assert_eq!(scene.heads(1), [(0, 40)]);
}

#[test]
fn an_end_frees_the_seat_once_it_has_run_and_the_id_at_once() {
    let mut scene = Scene::new(1, 1);
    scene.ask(1, FIRST | LAST, 10);
    assert_eq!(scene.ask(1, 0, 11), None);
    // Another sequence of the same id waits for the seat of the first.
    scene.ask(1, FIRST, 12);
    assert_eq!(scene.run(0, 0, true), 10);
    assert_eq!(scene.heads(0), [(0, 12)]);
}

#[test]
fn a_sequence_that_is_left_ends_with_its_last_request() {
    let mut scene = Scene::new(1, 1);
    let leave = |scene: &mut Scene, id| scene.table.leave(&SequenceId::Number(id));
    assert_eq!(leave(&mut scene, 1), None);
    scene.ask(1, FIRST, 10);
    scene.ask(1, 0, 11);
    scene.ask(2, FIRST, 20);
    assert_eq!(leave(&mut scene, 1), None);
    assert_eq!(scene.ask(1, 0, 12), None);
    assert_eq!(scene.run(0, 0, false), 10);
    assert_eq!(scene.heads(0), [(0, 11)]);
    assert_eq!(scene.run(0, 0, false), 11);
    // The next one sits there now, and leaves at once where it has nothing to run.
    assert_eq!(scene.run(0, 0, false), 20);
    assert_eq!(leave(&mut scene, 2), Some(Seat { instance: 0, row: 0 }));
    assert_eq!(scene.table.free_seat(&|_| false), Some(Seat { instance: 0, row: 0 }));
    assert!(!scene.table.has_open());
}

#[test]
fn a_start_within_a_sequence_takes_its_seat() {
    let mut scene = Scene::new(1, 1);
    let first = scene.ask(1, FIRST, 10).unwrap();
    let again = scene.ask(1, FIRST, 11).unwrap();
    assert_eq!(first.0, again.0);
    scene.run(0, 0, false);
    assert_eq!(scene.heads(0), [(0, 11)]);
}

#[test]
fn an_idle_sequence_loses_its_seat_and_must_start_again() {
    let mut scene = Scene::new(1, 1);
    scene.ask(1, FIRST, 10);
    scene.ask(2, FIRST, 20);
    scene.run(0, 0, false);
    assert_eq!(scene.table.next_expiry(0, IDLE), Some(scene.now + IDLE));
    scene.table.expire(scene.now + IDLE / 2, IDLE);
    assert!(scene.table.is_open(&SequenceId::Number(1)));
    scene.now += IDLE;
    scene.table.expire(scene.now, IDLE);
    scene.table.seat(|_| false);
    assert_eq!(scene.heads(0), [(0, 20)]);
    assert_eq!(scene.ask(1, 0, 11), None);
}

#[test]
fn a_sequence_with_work_is_never_idle() {
    let mut scene = Scene::new(1, 1);
    scene.ask(1, FIRST, 10);
    scene.table.expire(scene.now + 10 * IDLE, Duration::ZERO);
    assert_eq!(scene.heads(0), [(0, 10)]);
    let taken = scene.table.take(0, &[0]).pop().unwrap();
    scene.table.expire(scene.now + 10 * IDLE, Duration::ZERO);
    scene.table.finish(taken.number, None, false, scene.now);
    assert!(scene.ask(1, 0, 11).is_some());
}

#[test]
fn a_cancelled_request_takes_the_rest_of_its_sequence_with_it() {
    let mut scene = Scene::new(1, 1);
    scene.ask(1, FIRST, 10);
    let (number, ticket) = scene.ask(1, 0, 11).unwrap();
    scene.ask(1, 0, 12);
    scene.ask(2, FIRST, 20);
    let taken = scene.table.take(0, &[0]).pop().unwrap();
    assert_eq!(scene.table.cancel(number, ticket), [11, 12]);
    assert_eq!(scene.ask(1, 0, 13), None);
    // The one that runs is answered, then the seat is free.
    assert_eq!(scene.heads(0), []);
    scene.table.finish(taken.number, None, false, scene.now);
    scene.table.seat(|_| false);
    assert_eq!(scene.heads(0), [(0, 20)]);
    assert_eq!(scene.table.queued(), 1);
}

#[test]
fn a_request_that_runs_is_not_cancelled() {
    let mut scene = Scene::new(1, 1);
    let (number, ticket) = scene.ask(1, FIRST, 10).unwrap();
    scene.table.take(0, &[0]);
    assert!(scene.table.cancel(number, ticket).is_empty());
    assert!(scene.table.is_open(&SequenceId::Number(1)));
}

#[test]
fn a_sequence_in_the_backlog_can_be_cancelled() {
    let mut scene = Scene::new(1, 1);
    scene.ask(1, FIRST, 10);
    let (number, ticket) = scene.ask(2, FIRST, 20).unwrap();
    scene.ask(3, FIRST, 30);
    assert_eq!(scene.table.cancel(number, ticket), [20]);
    scene.run(0, 0, true);
    assert_eq!(scene.heads(0), [(0, 30)]);
}

#[test]
fn the_seat_of_a_request_that_was_lost_while_it_ran_is_free() {
    let mut scene = Scene::new(1, 1);
    scene.ask(1, FIRST, 10);
    scene.table.take(0, &[0]);
    scene.ask(1, 0, 11);
    scene.ask(2, FIRST, 20);
    assert_eq!(scene.table.lose(0), [11]);
    scene.table.seat(|_| false);
    assert_eq!(scene.heads(0), [(0, 20)]);
}

#[test]
fn a_lost_instance_ends_its_sequences_and_no_others() {
    let mut scene = Scene::new(2, 1);
    scene.ask(1, FIRST, 10);
    scene.ask(2, FIRST, 20);
    assert_eq!(scene.table.lose(0), [10]);
    assert_eq!(scene.heads(1), [(0, 20)]);
    assert_eq!(scene.ask(1, 0, 11), None);
}

#[test]
fn a_sequence_sits_down_on_an_instance_that_is_out_only_where_no_other_has_a_seat() {
    let mut table = Table::new(2, 1);
    let asked = |id| Asked { id: SequenceId::Number(id), start: true, end: false };
    let mut seated = |id, out: usize| {
        let (number, _) = table.enter(&asked(id), 10, Instant::now());
        table.seat(|it| it == out);
        table.seat_of(number).map(|it| it.instance)
    };
    assert_eq!([seated(1, 0), seated(2, 0), seated(3, 0)], [Some(1), Some(0), None]);
}
