//! Rows of a folder of the fixtures, as graphs of several kinds take them.

use std::path::Path;

use backend::{DataType, ModelSpec, TensorSpec};
use steps::{Dir, Folder, Opened, Overrides};

use super::*;

const BOUNDS: RunBounds = RunBounds { rows: 8, tokens: 512 };

/// The pipeline of a graph with these inputs, which takes so many tokens, or any number.
fn pipeline(inputs: &[&str], tokens: Option<usize>) -> Pipeline {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines");
    let folder =
        Folder::read(&Dir::alone(&root.join("st-6/folder")), &Overrides::default()).unwrap();
    let tensor = |name: &str, dtype, dims: &[Option<usize>]| TensorSpec {
        name: name.into(),
        dtype,
        dims: dims.into(),
        any_rank: false,
        optional: false,
    };
    let pair = [None, tokens];
    let spec = ModelSpec {
        inputs: inputs.iter().map(|it| tensor(it, DataType::Int64, &pair)).collect(),
        outputs: vec![tensor("last_hidden_state", DataType::Fp32, &[None, tokens, Some(32)])],
        ..ModelSpec::default()
    };
    match Pipeline::open(&folder, &spec).unwrap() {
        Opened::Pipeline(pipeline) => *pipeline,
        Opened::Tensors(reason) => panic!("{reason}"),
    }
}

const INPUTS: [&str; 2] = ["input_ids", "attention_mask"];

/// The job of a text of so many tokens.
fn job(runs: &RowRuns, steps: &Pipeline, tokens: usize) -> RowJob {
    let (inputs, length) =
        steps.text().unwrap().trial_row(&"so happy ".repeat(40), tokens).unwrap();
    assert_eq!(length, tokens);
    runs.job(steps, vec![inputs], tokens).unwrap()
}

fn numbers(job: &RowJob, input: usize) -> Vec<i64> {
    let bytes = job.work.inputs[input].tensor.to_bytes();
    bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it)).collect()
}

#[test]
fn rows_of_a_graph_of_one_length_are_filled_up_to_it() {
    let steps = pipeline(&INPUTS, Some(12));
    let runs = RowRuns::new(&steps, Some(BOUNDS), false);
    let short = job(&runs, &steps, 5);
    assert_eq!(short.work.inputs[0].tensor.shape().dims(), [1, 12]);
    assert_eq!(numbers(&short, 1), [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    let long = job(&runs, &steps, 12);
    assert_eq!(numbers(&long, 1), [1; 12]);
    assert_eq!((short.length, short.shape_key), (long.length, long.shape_key));
}

#[test]
fn rows_are_of_one_kind_where_the_graph_knows_what_is_padding() {
    let steps = pipeline(&INPUTS, None);
    let runs = RowRuns::new(&steps, Some(BOUNDS), false);
    let (short, long) = (job(&runs, &steps, 5), job(&runs, &steps, 9));
    assert_eq!(short.shape_key, long.shape_key);
    assert_eq!((short.length, numbers(&short, 1)), (5, vec![1; 5]));
    let steps = pipeline(&INPUTS[..1], None);
    let runs = RowRuns::new(&steps, Some(BOUNDS), false);
    assert!(runs.padding.is_none());
    assert_ne!(job(&runs, &steps, 5).shape_key, job(&runs, &steps, 9).shape_key);
}

#[test]
fn on_a_gpu_there_are_few_lengths_and_none_that_the_graph_does_not_take() {
    let steps = pipeline(&INPUTS, None);
    let runs = RowRuns::new(&steps, Some(BOUNDS), true);
    let lengths = [5, 9, 17, 33].map(|it| job(&runs, &steps, it).length);
    assert_eq!(lengths, [8, 16, 24, 48]);
    let most = steps.text().unwrap().max_tokens();
    assert_eq!(job(&runs, &steps, most).length, most);
}

#[test]
fn strict_rows_of_one_length_are_a_job_that_no_other_joins() {
    let steps = pipeline(&INPUTS, None);
    let runs = RowRuns::new(&steps, Some(BOUNDS), false);
    assert_eq!(runs.rows_of_job([5, 5, 5].into_iter()), 1);
    let runs = runs.strict();
    assert_eq!(runs.rows_of_job([5, 5, 6, 5].into_iter()), 2);
    assert_eq!(runs.rows_of_job([5; 100].into_iter()), USUAL_ROWS);
    let row = |text: &str| steps.text().unwrap().trial_row(text, 5).unwrap().0;
    let rows = vec![row("so happy so happy"), row("a sad night was that")];
    let together = runs.job(&steps, rows, 5).unwrap();
    assert_eq!(together.work.rows, 2);
    assert_eq!(together.work.inputs[0].tensor.shape().dims(), [2, 5]);
    assert_ne!(job(&runs, &steps, 5).shape_key, job(&runs, &steps, 5).shape_key);
}
