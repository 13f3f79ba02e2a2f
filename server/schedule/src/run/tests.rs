//! Batches in which a request fails, panics or ends its process.

use super::*;
use backend::{Outage, RerunPolicy, Shape};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Doubles `x` into `y`; refuses a batch that holds the number 13; panics at 666; its process dies at 911, and at
/// the first run that holds 112.
struct Doubler {
    runs: Arc<AtomicUsize>,
}

impl Instance for Doubler {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let bytes = batch.inputs[0].tensor.to_bytes();
        let values: Vec<i32> =
            bytes.chunks_exact(4).map(|it| i32::from_le_bytes(it.try_into().unwrap())).collect();
        assert!(!values.contains(&666), "the number of the beast");
        let is_first = self.runs.load(Ordering::Relaxed) == 1;
        if values.contains(&911) || is_first && values.contains(&112) {
            return Err(BackendError::Crashed("the process ended".into()));
        }
        if values.contains(&13) {
            return Err(BackendError::Execute("unlucky".into()));
        }
        let doubled: Vec<i32> = values.iter().map(|it| it * 2).collect();
        let tensor = Tensor::from_vec(batch.inputs[0].tensor.shape().clone(), doubled).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

fn work(values: &[i32]) -> Work {
    let tensor = Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap();
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    Work {
        about: None,
        parts: None,
        signature: 0,
        inputs,
        outputs: vec!["y".into()],
        rows: values.len(),
    }
}

fn context() -> RunContext {
    RunContext {
        answers_calls: false,
        others: Vec::new(),
        batches: true,
        outputs: vec!["y".into()],
        rerun: RerunPolicy::default(),
        splits: Default::default(),
        ragged: None,
        padding: None,
    }
}

/// Jobs of which nothing is known, but that somebody waits for all of them.
fn alike<'a>(works: &'a [&'a Work]) -> Jobs<'a> {
    Jobs { works, standing: Standing::default(), wishes: ALWAYS }
}

const ALWAYS: &dyn Fn(usize) -> Wish = &|_| Wish::Until(None);

fn slot_of(runs: &Arc<AtomicUsize>) -> Slot {
    let runs = runs.clone();
    Slot::empty(Arc::new(move || Ok(Box::new(Doubler { runs: runs.clone() }))))
}

/// Runs jobs of these values; the answers (`None` for an error) and the number of runs made.
fn run_all(jobs: &[&[i32]]) -> (Vec<Option<Vec<i32>>>, usize) {
    let (answers, runs, _) = run_observed(jobs);
    (answers, runs)
}

/// The same, with what became of those whose process died.
fn run_observed(jobs: &[&[i32]]) -> (Vec<Option<Vec<i32>>>, usize, Reruns) {
    let (answers, runs, observed) = run_in(jobs, &context());
    let values = |done: Done| {
        let bytes = done.outputs[0].tensor.to_bytes();
        bytes.chunks_exact(4).map(|it| i32::from_le_bytes(it.try_into().unwrap())).collect()
    };
    (answers.into_iter().map(|it| it.ok().map(values)).collect(), runs, observed.reruns)
}

/// The answers of jobs of these values, the number of runs made, and what they have told.
fn run_in(jobs: &[&[i32]], context: &RunContext) -> (Vec<Result<Done, Error>>, usize, Observed) {
    let works: Vec<Work> = jobs.iter().map(|it| work(it)).collect();
    let works: Vec<&Work> = works.iter().collect();
    let runs = Arc::new(AtomicUsize::new(0));
    let mut observed = Observed::default();
    let observe = &mut |it: Execution<'_>| observed.take(&it);
    let answers = run(&mut slot_of(&runs), context, alike(&works), &Stop::new(), observe);
    (answers, runs.load(Ordering::Relaxed), observed)
}

#[test]
fn each_job_gets_its_own_rows() {
    let (answers, runs) = run_all(&[&[1], &[2, 3], &[4]]);
    assert_eq!(answers, [Some(vec![2]), Some(vec![4, 6]), Some(vec![8])]);
    assert_eq!(runs, 1);
}

#[test]
fn only_the_culprit_of_a_failing_batch_gets_the_error() {
    let jobs: Vec<[i32; 1]> = (8..24).map(|it| [it]).collect();
    let jobs: Vec<&[i32]> = jobs.iter().map(|it| it.as_slice()).collect();
    let (answers, runs) = run_all(&jobs);
    for (job, answer) in jobs.iter().zip(answers) {
        assert_eq!(answer, (job[0] != 13).then(|| vec![job[0] * 2]));
    }
    assert!(runs <= 1 + 2 * 4, "{runs} runs for 16 jobs");
}

#[test]
fn what_was_in_a_process_that_died_is_run_once_more_each_by_itself() {
    let (answers, runs) = run_all(&[&[1], &[112], &[2]]);
    assert_eq!(answers, [Some(vec![2]), Some(vec![224]), Some(vec![4])]);
    assert_eq!(runs, 1 + 3);
    let (answers, runs) = run_all(&[&[1], &[911], &[2], &[13]]);
    assert_eq!(answers, [Some(vec![2]), None, Some(vec![4]), None]);
    assert_eq!(runs, 1 + 4);
    assert_eq!(run_all(&[&[112]]), (vec![Some(vec![224])], 2));
    assert_eq!(run_all(&[&[911]]), (vec![None], 2));
}

#[test]
fn each_request_of_a_process_that_died_is_counted_once_by_what_became_of_it() {
    let reruns = |jobs: &[&[i32]]| run_observed(jobs).2;
    assert_eq!(reruns(&[&[1], &[13]]), Reruns::default());
    assert_eq!(reruns(&[&[1], &[112]]), Reruns { ok: 2, ..Reruns::default() });
    let expected = Reruns { ok: 2, failed: 2, ..Reruns::default() };
    assert_eq!(reruns(&[&[1], &[911], &[2], &[13]]), expected);
}

#[test]
fn a_request_that_ends_its_process_twice_is_told_from_those_beside_it() {
    let (_, _, observed) = run_in(&[&[1], &[911], &[13], &[2]], &context());
    assert_eq!(observed.killers, [1]);
}

#[test]
fn where_nothing_is_to_be_run_again_all_of_a_run_that_fails_get_its_error_and_are_counted() {
    let context = RunContext { rerun: RerunPolicy::Never, ..context() };
    for (jobs, error, never) in [
        (
            &[&[1][..], &[112], &[2]][..],
            "the process ended; a request that was in it is not run again, as parameter 'RERUN' is 'never'",
            3,
        ),
        (&[&[1], &[13]], "unlucky", 0),
        (&[&[1], &[666]], "the engine panicked: the number of the beast", 0),
    ] {
        let (answers, runs, observed) = run_in(jobs, &context);
        let told: Vec<String> = answers.into_iter().map(|it| it.unwrap_err().to_string()).collect();
        assert_eq!((told, runs), (vec![error.to_owned(); jobs.len()], 1));
        assert_eq!(observed.reruns, Reruns { never, ..Reruns::default() });
        assert!(observed.killers.is_empty());
    }
    let always = RunContext { rerun: RerunPolicy::Always, ..context };
    let (answers, runs, _) = run_in(&[&[1], &[112], &[2]], &always);
    assert_eq!((answers.iter().filter(|it| it.is_ok()).count(), runs), (3, 1 + 3));
}

#[test]
fn a_request_whose_instance_could_not_be_made_has_not_run_and_is_attempted_again_all_the_same() {
    let (died, runs) = (AtomicUsize::new(0), Arc::<AtomicUsize>::default());
    let made = runs.clone();
    let mut slot = Slot::empty(Arc::new(move || match died.fetch_add(1, Ordering::Relaxed) {
        0 => Err(BackendError::Crashed("the process ended".into())),
        _ => Ok(Box::new(Doubler { runs: made.clone() })),
    }));
    let context = RunContext { rerun: RerunPolicy::Never, ..context() };
    let answers = run(&mut slot, &context, alike(&[&work(&[1])]), &Stop::new(), &mut |_| ());
    assert!(answers[0].is_ok());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_request_whose_second_run_is_given_up_is_not_one_that_ends_processes() {
    for (is_given_up, expected) in [(false, vec![0]), (true, vec![])] {
        let runs = AtomicUsize::new(0);
        let repeats = |_: &_| match !is_given_up || runs.load(Ordering::Relaxed) < 2 {
            true => Repeat::Yes,
            false => Repeat::Late,
        };
        let standing = Standing::default();
        let attempt = |_: Attempt<'_, _>| -> Result<Vec<()>, RunFailure> {
            runs.fetch_add(1, Ordering::Relaxed);
            Err(RunFailure::Batch(BackendError::Crashed("ended".into())))
        };
        let attempts = in_halves(&[7], standing, ALWAYS, repeats, attempt);
        assert_eq!((attempts.killers, runs.into_inner()), (expected, 2));
    }
}

#[test]
fn a_request_that_nobody_waits_for_any_more_is_not_run_again_when_its_process_dies() {
    let (stop, work) = (Stop::new(), work(&[911]));
    stop.stop();
    let (runs, mut observed) = (Arc::default(), Observed::default());
    let observe = &mut |it: Execution<'_>| observed.take(&it);
    run(&mut slot_of(&runs), &context(), alike(&[&work]), &stop, observe);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(observed.reruns, Reruns { late: 1, ..Reruns::default() });
}

#[test]
fn of_those_whose_process_has_died_only_whom_somebody_waits_for_is_run_again() {
    let ended = |_: Attempt<'_, _>| -> Result<Vec<()>, RunFailure> {
        Err(RunFailure::Batch(BackendError::Crashed("ended".into())))
    };
    let gone_at = |places: &'static [usize]| {
        move |it| match places.contains(&it) {
            true => Wish::Gone,
            false => Wish::Until(None),
        }
    };
    let mut again = Vec::new();
    let standing = Standing::default();
    let attempts = in_halves(
        &[7, 8, 9, 10],
        standing,
        &gone_at(&[1, 3]),
        |_| Repeat::Yes,
        |attempt| match attempt.again {
            None => ended(attempt),
            Some(_) => {
                again.push(attempt.items.to_vec());
                Ok(vec![()])
            }
        },
    );
    assert_eq!(again, [[7], [9]]);
    let answered: Vec<bool> = attempts.answers.iter().map(Result::is_ok).collect();
    assert_eq!(answered, [true, false, true, false]);
    assert_eq!(attempts.reruns, Reruns { ok: 2, late: 2, ..Reruns::default() });
    assert!(attempts.killers.is_empty());
}

#[test]
fn what_is_run_again_in_halves_is_whom_somebody_waits_for() {
    let mut groups = Vec::new();
    let wishes = |it| if it == 1 || it == 4 { Wish::Gone } else { Wish::Until(None) };
    let attempts = in_halves(
        &[0, 1, 2, 3, 4],
        Standing::default(),
        &wishes,
        |_| Repeat::Yes,
        |attempt| {
            groups.push(attempt.items.to_vec());
            match attempt.items {
                group if group.contains(&3) => {
                    Err(RunFailure::Batch(BackendError::Execute("unlucky".into())))
                }
                group => Ok(group.to_vec()),
            }
        },
    );
    assert_eq!(groups, [vec![0, 1, 2, 3, 4], vec![0], vec![2, 3], vec![2], vec![3]]);
    let answers: Vec<Option<i32>> = attempts.answers.into_iter().map(Result::ok).collect();
    assert_eq!(answers, [Some(0), None, Some(2), None, None]);
    assert_eq!(attempts.reruns, Reruns::default());
}

#[test]
fn a_request_that_is_run_again_has_time_until_its_own_deadline() {
    let (hour, now) = (Duration::from_secs(3600), Instant::now());
    let deadlines = [Some(now + hour), None, Some(now)];
    let wishes = |place: usize| Wish::Until(deadlines[place]);
    let (first, second, third) = (work(&[1]), work(&[112]), work(&[2]));
    let works = [&first, &second, &third];
    let jobs = Jobs { wishes: &wishes, ..alike(&works) };
    let (runs, ends) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
    let (made, noted) = (runs.clone(), ends.clone());
    let mut slot = Slot::empty(Arc::new(move || {
        let doubler = Doubler { runs: made.clone() };
        Ok(Box::new(Noting { doubler, ends: noted.clone() }))
    }));
    run(&mut slot, &context(), jobs, &Stop::new(), &mut |_| ());
    assert_eq!(*ends.lock().unwrap(), [None, Some(now + hour), None, Some(now)]);
}

/// Notes when its runs are to end.
struct Noting {
    doubler: Doubler,
    ends: Arc<Mutex<Vec<Option<Instant>>>>,
}

impl Instance for Noting {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.ends.lock().unwrap().push(batch.stop.ends_by());
        self.doubler.execute(batch)
    }
}

#[test]
fn a_request_whose_client_leaves_while_it_waits_for_another_process_is_not_run_again() {
    let has_left = Arc::new(AtomicBool::new(false));
    let wishes = |_| match has_left.load(Ordering::Relaxed) {
        true => Wish::Gone,
        false => Wish::Until(None),
    };
    let (runs, made) = (Arc::<AtomicUsize>::default(), AtomicUsize::new(0));
    let (leaves, doubler) = (has_left.clone(), runs.clone());
    // The client leaves while the second instance is made.
    let mut slot = Slot::empty(Arc::new(move || {
        leaves.store(0 < made.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Ok(Box::new(Doubler { runs: doubler.clone() }))
    }));
    let (work, mut observed) = (work(&[112]), Observed::default());
    let works = [&work];
    let jobs = Jobs { wishes: &wishes, ..alike(&works) };
    let observe = &mut |it: Execution<'_>| observed.take(&it);
    run(&mut slot, &context(), jobs, &Stop::new(), observe);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(observed.reruns, Reruns { late: 1, ..Reruns::default() });
}

#[test]
fn what_a_process_has_died_in_is_left_to_another_device_where_that_can_serve() {
    let crashed = || RunFailure::Batch(BackendError::Crashed("ended".into()));
    let outage = || Outage { reason: "out".into(), retry_after: Duration::ZERO };
    let moved = |place, has_crashed| Moved { place, has_crashed };
    let attempts = |has_crashed, items: &[i32], fail: &dyn Fn() -> RunFailure| {
        let standing = Standing { has_crashed, moves: true };
        let runs = AtomicUsize::new(0);
        let attempts = in_halves(
            items,
            standing,
            ALWAYS,
            |_| Repeat::Yes,
            |_| -> Result<Vec<()>, RunFailure> {
                runs.fetch_add(1, Ordering::Relaxed);
                Err(fail())
            },
        );
        assert_eq!(runs.into_inner(), 1, "it is not run here again");
        attempts
    };
    let first = attempts(false, &[7, 8], &crashed);
    assert_eq!(first.moved, [moved(0, true), moved(1, true)]);
    assert_eq!((first.reruns, first.killers), (Reruns::default(), vec![]));
    // The second process that it ends is its own fault, wherever that was.
    let second = attempts(true, &[7], &crashed);
    assert_eq!((second.moved, second.killers), (vec![], vec![0]));
    assert_eq!(second.reruns, Reruns { failed: 1, ..Reruns::default() });
    let unavailable = || RunFailure::Batch(BackendError::Unavailable(outage()));
    assert_eq!(attempts(false, &[7], &unavailable).moved, [moved(0, false)]);
    // One that has a process alone and is told so has ended it.
    assert_eq!(attempts(true, &[7], &unavailable).moved, []);
    let none = || RunFailure::NoInstance(BackendError::Unavailable(outage()));
    assert_eq!(attempts(true, &[7], &none).moved, [moved(0, true)]);
}

#[test]
fn what_is_left_of_a_run_in_halves_waits_for_no_process_that_another_device_need_not_wait_for() {
    let standing = Standing { has_crashed: false, moves: true };
    // The run is refused, its first quarter is answered, and the process dies in the second.
    let attempts = in_halves(
        &[1, 2, 3, 4, 5, 6, 7, 8],
        standing,
        ALWAYS,
        |_| Repeat::Yes,
        |attempt| match attempt.items {
            [1, 2] => Ok(vec![(); 2]),
            [3, 4] => Err(RunFailure::Batch(BackendError::Crashed("ended".into()))),
            [1, ..] => Err(RunFailure::Batch(BackendError::Execute("unlucky".into()))),
            group => panic!("{group:?} is run here"),
        },
    );
    let moved: Vec<_> = attempts.moved.iter().map(|it| (it.place, it.has_crashed)).collect();
    let begun = |it| (it, it < 4);
    assert_eq!(moved, (2..8).map(begun).collect::<Vec<_>>());
    let answered: Vec<bool> = attempts.answers.iter().map(Result::is_ok).collect();
    assert_eq!(answered, [true, true, false, false, false, false, false, false]);
}

#[test]
fn where_nothing_is_to_be_run_again_another_device_runs_only_what_has_not_begun() {
    let standing = Standing { has_crashed: false, moves: true };
    let stop = Stop::new();
    let attempts = |fail: &dyn Fn() -> BackendError| {
        let repeats = |it: &_| Repeat::after(it, RerunPolicy::Never, &stop);
        in_halves(&[7, 8], standing, ALWAYS, repeats, |_| -> Result<Vec<()>, RunFailure> {
            Err(RunFailure::Batch(fail()))
        })
    };
    let crashed = attempts(&|| BackendError::Crashed("ended".into()));
    assert_eq!((crashed.moved, crashed.reruns.never), (vec![], 2));
    let outage = || Outage { reason: "out".into(), retry_after: Duration::ZERO };
    let unavailable = attempts(&|| BackendError::Unavailable(outage()));
    assert_eq!((unavailable.moved.len(), unavailable.reruns), (2, Reruns::default()));
}

#[test]
fn a_request_that_is_run_again_on_another_device_is_counted_there() {
    let standing = Standing { has_crashed: true, moves: true };
    let alone = AtomicBool::new(false);
    let attempts = in_halves(
        &[7],
        standing,
        ALWAYS,
        |_| Repeat::Yes,
        |attempt| {
            alone.store(attempt.alone, Ordering::Relaxed);
            Ok(vec![()])
        },
    );
    assert!(alone.into_inner(), "it shares its process with no other run");
    assert_eq!(attempts.reruns, Reruns { ok: 1, ..Reruns::default() });
}

#[test]
fn a_panic_fails_only_the_request_at_fault() {
    let (answers, _) = run_all(&[&[1], &[666], &[2]]);
    assert_eq!(answers, [Some(vec![2]), None, Some(vec![4])]);
}

#[test]
fn a_batch_that_was_stopped_or_whose_deadline_has_passed_is_not_tried_again() {
    let (stopped, late) = (Stop::new(), Stop::new());
    stopped.stop();
    late.end_by(Some(Instant::now()));
    assert_eq!([&stopped, &late].map(runs_of_failing_batch), [1, 1]);
}

/// The runs that a batch of two takes of which one fails.
fn runs_of_failing_batch(stop: &Stop) -> usize {
    let (one, two) = (work(&[13]), work(&[1]));
    let runs = Arc::new(AtomicUsize::new(0));
    run(&mut slot_of(&runs), &context(), alike(&[&one, &two]), stop, &mut |_| ());
    runs.load(Ordering::Relaxed)
}

#[test]
fn without_an_instance_everybody_hears_why() {
    let mut slot = Slot::empty(Arc::new(|| Err(BackendError::OutOfMemory("no room".into()))));
    let answers = run(&mut slot, &context(), alike(&[&work(&[1])]), &Stop::new(), &mut |_| ());
    assert_eq!(answers[0].as_ref().unwrap_err().to_string(), "no room");
}

#[test]
fn a_panic_in_the_making_of_an_instance_is_an_error() {
    let mut slot = Slot::empty(Arc::new(|| panic!("no luck")));
    let error = slot.fill().err().unwrap();
    assert_eq!(error.to_string(), "the engine panicked: no luck");
}

/// Returns one row whatever the batch.
struct OneRow;

impl Instance for OneRow {
    fn execute(&mut self, _: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tensor = Tensor::from_vec(Shape::new(&[1]), vec![0i32]).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

#[test]
fn an_output_with_other_rows_than_the_batch_is_an_error_that_says_so() {
    let work = work(&[1, 2]);
    let mut slot = Slot::empty(Arc::new(|| Ok(Box::new(OneRow))));
    let answers = run(&mut slot, &context(), alike(&[&work]), &Stop::new(), &mut |_| ());
    let text = answers[0].as_ref().unwrap_err().to_string();
    assert_eq!(
        text,
        "the engine returned output 'y' of shape [1] for a batch of 2 rows; where its first dimension is no batch, the \
         model's configuration needs max_batch_size: 0"
    );
}
