//! Rows of a batch, by an engine that says what it was given.

use std::sync::Mutex;

use inference::error::Error;

use super::*;
use crate::sequence::settings::Control;

/// Adds `x` to its state and gives both; refuses the number 13, panics at 666. Every input of every run is noted.
struct Adder(Arc<Mutex<Given>>);

/// The inputs of all runs, by name.
type Given = Vec<Vec<(String, Vec<i32>)>>;

fn values(tensor: &Tensor) -> Vec<i32> {
    let bytes = tensor.to_bytes();
    bytes.chunks_exact(4).map(|it| i32::from_le_bytes(it.try_into().unwrap())).collect()
}

fn ints(shape: &[usize], values: &[i32]) -> Tensor {
    Tensor::from_vec(Shape::new(shape), values.to_vec()).unwrap()
}

impl Instance for Adder {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let given = batch.inputs.iter().map(|it| (it.name.to_string(), values(&it.tensor)));
        let given: Vec<(String, Vec<i32>)> = given.collect();
        self.0.lock().unwrap().push(given.clone());
        let of = |name: &str| given.iter().find(|it| it.0 == name).unwrap().1.clone();
        let (x, state) = (of("x"), of("sum_in"));
        assert!(!x.contains(&666), "the number of the beast");
        if x.contains(&13) {
            return Err(BackendError::Execute("unlucky".into()));
        }
        let sums: Vec<i32> = x.iter().zip(state).map(|(a, b)| a + b).collect();
        let output =
            |name: &str| NamedTensor { name: name.into(), tensor: ints(&[x.len(), 1], &sums) };
        Ok(vec![output("y"), output("sum_out")])
    }
}

fn wiring() -> Wiring {
    let flag = Flag::Int32([0, 1]);
    let control = |name: &str, signal| Control { name: name.into(), signal };
    Wiring {
        batches: true,
        controls: vec![
            control("start", Signal::Start(flag)),
            control("end", Signal::End(flag)),
            control("ready", Signal::Ready(flag)),
            control("id", Signal::Id(IdType::Int32)),
        ],
        states: vec![ImplicitState {
            input: "sum_in".into(),
            output: "sum_out".into(),
            initial: ints(&[1, 1], &[100]),
        }],
        hashes: Default::default(),
    }
}

fn work(value: i32) -> Work {
    let inputs = vec![NamedTensor { name: "x".into(), tensor: ints(&[1, 1], &[value]) }];
    Work { about: None, parts: None, signature: 0, inputs, outputs: vec!["y".into()], rows: 1 }
}

/// Runs a batch of these numbers, `None` for an empty row: each a start of the sequence of its row. The answers, and
/// all inputs of all runs.
fn run_all(numbers: &[Option<i32>], mode: RunMode) -> (Vec<Option<i32>>, Given) {
    let (answers, given, _) = run_counted(numbers, mode);
    (answers, given)
}

/// The same, and how many rows were counted for each run.
fn run_counted(numbers: &[Option<i32>], mode: RunMode) -> (Vec<Option<i32>>, Given, Vec<usize>) {
    let mut counted = Vec::new();
    let given = Arc::default();
    let maker = Arc::clone(&given);
    let mut slot = Slot::empty(Arc::new(move || Ok(Box::new(Adder(Arc::clone(&maker))))));
    let works: Vec<Option<Work>> = numbers.iter().map(|it| it.map(work)).collect();
    let ids: Vec<SequenceId> =
        (0..numbers.len()).map(|it| SequenceId::Number(it as u64 + 7)).collect();
    let rows = works.iter().zip(&ids).map(|(work, id)| {
        work.as_ref().map(|work| Row { work, id, start: true, end: false, carried: None })
    });
    let rows: Vec<Option<Row<'_>>> = rows.collect();
    let attempts = run(&mut slot, &wiring(), &rows, mode, &Stop::new(), &mut |it: &Timings| {
        counted.push(it.batch_rows)
    });
    let answer = |it: Result<Ran, Error>| {
        let ran = it.ok()?;
        let carried = &ran.carried.unwrap().tensors[0];
        assert_eq!(carried.shape().dims(), [1, 1]);
        assert_eq!(values(carried), values(&ran.done.outputs[0].tensor));
        Some(values(carried)[0])
    };
    let answers = attempts.answers.into_iter().map(answer).collect();
    let given = given.lock().unwrap().clone();
    (answers, given, counted)
}

const FIXED: RunMode = RunMode {
    rows: Rows::Fixed,
    rerun: RerunPolicy::Crash,
    answers_calls: false,
    keeps_state: false,
};
const FREE: RunMode = RunMode { rows: Rows::Free, ..FIXED };

#[test]
fn a_row_without_a_request_is_masked_and_everybody_keeps_his_own() {
    let (answers, given) = run_all(&[Some(1), None, Some(3)], FIXED);
    assert_eq!(answers, [Some(101), Some(103)]);
    let expected: Vec<(String, Vec<i32>)> = [
        ("x", vec![1, 0, 3]),
        ("start", vec![1, 0, 1]),
        ("end", vec![0, 0, 0]),
        ("ready", vec![1, 0, 1]),
        ("id", vec![7, 0, 9]),
        ("sum_in", vec![100, 0, 100]),
    ]
    .map(|(name, values)| (name.to_owned(), values))
    .into();
    assert_eq!(given, [expected]);
}

#[test]
fn rows_without_a_request_are_counted_as_they_are_run() {
    assert_eq!(run_counted(&[None, Some(3)], FIXED).2, [2]);
    assert_eq!(run_counted(&[None, Some(3)], FREE).2, [1]);
}

#[test]
fn only_the_request_at_fault_fails_and_the_others_keep_their_rows() {
    let (answers, given) = run_all(&[Some(1), Some(13), Some(3), Some(4)], FIXED);
    assert_eq!(answers, [Some(101), None, Some(103), Some(104)]);
    let x: Vec<Vec<i32>> = given.iter().map(|it| it[0].1.clone()).collect();
    assert_eq!(x, [vec![1, 13, 3, 4], vec![1, 13], vec![1], vec![0, 13], vec![0, 0, 3, 4]]);
}

#[test]
fn rows_that_are_free_stand_close() {
    let (answers, given) = run_all(&[Some(13), Some(666), Some(3)], FREE);
    assert_eq!(answers, [None, None, Some(103)]);
    let x: Vec<Vec<i32>> = given.iter().map(|it| it[0].1.clone()).collect();
    assert_eq!(x.last().unwrap(), &[3]);
}

#[test]
fn a_run_that_must_not_be_repeated_fails_for_all() {
    let kept = RunMode { keeps_state: true, ..FIXED };
    for mode in [kept, RunMode { rerun: RerunPolicy::Never, ..FIXED }] {
        let (answers, given) = run_all(&[Some(1), Some(13)], mode);
        assert_eq!(answers, [None, None]);
        assert_eq!(given.len(), 1);
    }
}

#[test]
fn what_is_kept_is_the_state_of_the_next_request_until_a_start() {
    let (work, id) = (work(1), SequenceId::Number(1));
    let tensors = vec![ints(&[1, 1], &[5])];
    let carried = CarriedState { key: 0, tensors };
    let state = |start| {
        let row = Row { work: &work, id: &id, start, end: false, carried: Some(&carried) };
        let inputs = wiring().inputs(&[Some(row)]).unwrap();
        values(&inputs.last().unwrap().tensor)
    };
    assert_eq!((state(false), state(true)), (vec![5], vec![100]));
}

#[test]
fn ids_are_written_in_the_type_of_the_model() {
    let text = SequenceId::Text("abc".into());
    let number = SequenceId::Number(1 << 40);
    assert!(IdType::Text.holds(&text) && !IdType::Text.holds(&number));
    assert!(IdType::Int64.holds(&number) && !IdType::Int32.holds(&number));
    assert!(!IdType::Uint64.holds(&text));
    let work = work(1);
    let row = Row { work: &work, id: &text, start: true, end: true, carried: None };
    let tensor = signal(Signal::Id(IdType::Text), &[Some(row), None], true).unwrap();
    assert_eq!(tensor.strings().collect::<Vec<_>>(), [b"abc".as_slice(), b""]);
    assert_eq!(tensor.shape().dims(), [2, 1]);
}

#[test]
fn a_whole_sequence_of_several_rows_is_one_for_each() {
    let inputs = vec![NamedTensor { name: "x".into(), tensor: ints(&[2, 1], &[1, 2]) }];
    let work =
        Work { about: None, parts: None, signature: 0, inputs, outputs: vec!["y".into()], rows: 2 };
    let inputs = wiring().whole_sequence(&work).unwrap();
    let of = |name: &str| values(&inputs.iter().find(|it| &*it.name == name).unwrap().tensor);
    assert_eq!((of("x"), of("end"), of("sum_in")), (vec![1, 2], vec![1, 1], vec![100, 100]));
}
