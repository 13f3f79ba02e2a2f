//! What a text costs beside its graph: `cargo bench -p backend-steps --bench text`.
//!
//! Tokens of four kinds of tokenizers, for texts of 8, 80 and 400 words, as ids alone and with the places of the
//! tokens; then what becomes of a graph's outputs. Each number is the median of 15 rounds of one thread's processor
//! time.

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    time::Duration,
};

use backend::{DataType, ModelSpec, TensorSpec};
use backend_steps::{
    Detail, Dir, Encode, Folder, Input, Opened, Overrides, Parameters, Pipeline, RowOutput, Step,
    Tokenizer,
};
use inference::task::Task;
use rustix::time::{ClockId, clock_gettime};

const KINDS: [&str; 4] = ["wordpiece", "byte_bpe", "regex_bpe", "unigram"];
const WORDS: [usize; 3] = [8, 80, 400];
const ROUNDS: usize = 15;
/// Calls of a round take so long at least, so that the clock's steps do not count.
const ROUND: Duration = Duration::from_millis(20);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines")
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Microseconds of a call: the median of the rounds, after one that is not counted.
fn micros(mut call: impl FnMut()) -> f64 {
    let mut calls = 1u32;
    let mut round = |calls: u32| {
        let begin = processor_time();
        (0..calls).for_each(|_| call());
        processor_time() - begin
    };
    while round(calls) < ROUND {
        calls *= 2;
    }
    let mut rounds: Vec<f64> =
        (0..ROUNDS).map(|_| round(calls).as_secs_f64() * 1e6 / f64::from(calls)).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// The same texts in every run.
fn text(words: usize) -> String {
    let corpus =
        std::fs::read_to_string(fixtures().join("corpus.txt")).expect("it is in the repository");
    let words: Vec<&str> = corpus.split_whitespace().skip(100).take(words).collect();
    words.join(" ")
}

fn tokens() {
    println!("| Tokenizer | Words | Tokens | ids, µs | µs a token | with places, µs |");
    println!("|---|--:|--:|--:|--:|--:|");
    for kind in KINDS {
        let file = fixtures().join("tokens").join(kind).join("tokenizer.json");
        let bytes = std::fs::read(file).expect("it is in the repository");
        let tokenizer = Tokenizer::from_bytes(&bytes, "tokenizer.json", false).expect("it is one");
        for words in WORDS {
            let text = text(words);
            let encode = |detail| {
                let how = Encode { add_special_tokens: true, detail, truncation: None };
                tokenizer.encode(&text, None, &how).expect("the text is one of words")
            };
            let count = encode(Detail::Ids).windows[0].ids.len();
            let ids = micros(|| drop(black_box(encode(Detail::Ids))));
            let places = micros(|| drop(black_box(encode(Detail::Characters))));
            let each = ids / count as f64;
            println!("| {kind} | {words} | {count} | {ids:.1} | {each:.2} | {places:.1} |");
        }
    }
}

/// The pipeline of a folder, whose graph takes ids, mask and types and gives this output.
fn pipeline(folder: &str, output: &str, dims: &[Option<usize>]) -> Pipeline {
    let dir = fixtures().join(folder).join("folder");
    let folder = Folder::read(&Dir::alone(&dir), &Overrides::default()).expect("it is a folder");
    let port = |name: &str, dtype, dims: &[Option<usize>]| TensorSpec {
        name: name.into(),
        dtype,
        dims: dims.to_vec(),
        any_rank: false,
        optional: false,
    };
    let inputs = ["input_ids", "attention_mask", "token_type_ids"];
    let spec = ModelSpec {
        inputs: inputs.map(|it| port(it, DataType::Int64, &[None, None])).to_vec(),
        outputs: vec![port(output, DataType::Fp32, dims)],
        ..ModelSpec::default()
    };
    match Pipeline::open(&folder, &spec).expect("the graph fits the folder") {
        Opened::Pipeline(pipeline) => *pipeline,
        Opened::Tensors(reason) => panic!("served as tensors: {reason}"),
    }
}

/// What becomes of one row of a graph's output, from its numbers to the reply.
fn head(what: &str, pipeline: &Pipeline, task: Task, output: &str, dims: &[usize], words: usize) {
    let (text, parameters) = (text(words), Parameters::default());
    let tokens = {
        let prepared = pipeline.prepare(task, &Input::Text(&text), &parameters);
        let prepared = prepared.expect("the text is one of words");
        let ids = prepared.rows[0].inputs[0].tensor.as_slice_of::<i64>();
        ids.map_or(0, <[i64]>::len)
    };
    let dims: Vec<usize> = dims.iter().map(|it| if *it == 0 { tokens } else { *it }).collect();
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|it| (it % 97) as f32 / 97.0).collect();
    let both = micros(|| {
        let prepared = pipeline.prepare(task, &Input::Text(&text), &parameters);
        let prepared = prepared.expect("the text is one of words");
        let outputs =
            [RowOutput { name: output, dims: dims.clone(), values: (&values[..]).into() }];
        let reduced = pipeline.reduce(&prepared.rows[0].work, &outputs).expect("it has the dims");
        drop(black_box(pipeline.finish(prepared.context, vec![reduced])));
    });
    let before =
        micros(|| drop(black_box(pipeline.prepare(task, &Input::Text(&text), &parameters))));
    println!("| {what} | {dims:?} | {before:.1} | {:.1} |", both - before);
}

fn main() {
    tokens();
    println!("\n| Task | Output of a row | before the graph, µs | behind it, µs |");
    println!("|---|--:|--:|--:|");
    let classifier = pipeline("sst2", "logits", &[None, Some(2)]);
    head("a label of two", &classifier, Task::TextClassification, "logits", &[2], 8);
    let embedder = pipeline("st-6", "token_embeddings", &[None, None, Some(32)]);
    for words in [8, 80] {
        let (task, output) = (Task::SentenceEmbedding, "token_embeddings");
        head("a mean of tokens", &embedder, task, output, &[0, 32], words);
    }
}
