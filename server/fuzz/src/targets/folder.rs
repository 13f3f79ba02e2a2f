//! Folders as Hugging Face's libraries save them: configurations, tokenizers, the inputs and outputs of a graph, and
//! what one input becomes.

use std::{collections::BTreeMap, fs, path::Path, sync::LazyLock};

use backend::{ModelSpec, TensorSpec};
use formats::expansion::Limit;
use inference::task::{Medium, RowForm, Task};
use steps::{
    Dir, Folder, Input, JpegLibrary, Opened, Overrides, Parameters, Pipeline, Step, is_pipeline,
};
use tempfile::TempDir;

use super::{Target, json, media::files};
use crate::{oracle, seen::Seen, signatures::port};

/// What the files of a folder take: each value of a JSON file as one of a tree, each key of a vocabulary several times.
/// A tokenizer has a cache, and a processor of sounds has tables.
const BOUND: Limit = Limit { free: 64 << 20, ratio: 1000, most: usize::MAX };

/// Bytes of an error, and of what a small row takes beside its values.
const BESIDE: usize = 64 << 10;

/// Rows above this are not made.
const LARGEST_ROW: usize = 32 << 20;

/// A line that begins a file.
const MARK: &str = "=== ";

/// The part of an input that is the metadata of the graph: lines of a key, a blank and a value.
const METADATA: &str = "metadata";

/// The files that an input may have, and no others.
const FILES: [&str; 25] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "modules.json",
    "preprocessor_config.json",
    "processor_config.json",
    "muster.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "1_SpladePooling/config.json",
    "2_Dense/config.json",
    "2_Dense/model.safetensors",
    "2_Normalize/config.json",
    "3_Normalize/config.json",
    "0_Transformer/config.json",
    "0_Transformer/sentence_bert_config.json",
    "0_Transformer/tokenizer.json",
    "0_Transformer/tokenizer_config.json",
    "0_Transformer/special_tokens_map.json",
];

/// Inputs and outputs of graphs.
const GRAPHS: [(&[&str], &[&str]); 14] = [
    (TEXT, &["logits FP32 [-1,-1]"]),
    (TEXT, &["logits FP32 [-1,-1,-1]"]),
    (TEXT, &["last_hidden_state FP32 [-1,-1,-1]", "pooler_output FP32 [-1,16]"]),
    (TEXT, &["start_logits FP32 [-1,-1]", "end_logits FP32 [-1,-1]"]),
    (&["input_ids INT32 [-1,16]", "attention_mask INT32 [-1,16]"], &["logits FP32 [-1,3]"]),
    (
        &[
            "input_ids INT64 [-1,-1]",
            "attention_mask INT64 [-1,-1]",
            "position_ids INT64 [-1,-1]",
            "past_key_values.0.key FP32 [-1,-1,-1,-1]",
            "past_key_values.0.value FP32 [-1,-1,-1,-1]",
        ],
        &["logits FP32 [-1,-1]", "sentence_embedding FP32 [-1,16]"],
    ),
    (
        &["pixel_values FP32 [-1,3,-1,-1]"],
        &["logits FP32 [-1,-1]", "last_hidden_state FP32 [-1,-1,-1]", "pooler_output FP32 [-1,-1]"],
    ),
    (
        &["pixel_values FP32 [-1,3,-1,-1]", "pixel_mask INT64 [-1,-1,-1]"],
        &["logits FP32 [-1,-1,-1]", "pred_boxes FP32 [-1,-1,4]"],
    ),
    (
        &[
            "input_ids INT64 [-1,-1]",
            "pixel_values FP32 [-1,3,-1,-1]",
            "attention_mask INT64 [-1,-1]",
        ],
        &["logits_per_image FP32 [-1,-1]", "text_embeds FP32 [-1,16]", "image_embeds FP32 [-1,16]"],
    ),
    (&["input_values FP32 [-1,-1]", "attention_mask INT64 [-1,-1]"], &["logits FP32 [-1,-1,-1]"]),
    (&["input_values FP32 [-1,-1]"], &["logits FP32 [-1,-1]"]),
    (&["input_features FP32 [-1,-1,-1]"], &["logits FP32 [-1,-1]"]),
    (&["input_values FP32 [-1,-1,-1]"], &["logits FP32 [-1,-1]"]),
    (&["images FP32 [-1,3,-1,-1]"], &["output0 FP32 [-1,-1,-1]"]),
];

const TEXT: &[&str] =
    &["input_ids INT64 [-1,-1]", "attention_mask INT64 [-1,-1]", "token_type_ids? INT64 [-1,-1]"];

/// A folder. The first byte says what the graph is; then come the files, each behind a line with its name.
pub(super) const FOLDER: Target = Target {
    name: "folder",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((graph, files)) = data.split_first() else { return seen };
        let (inputs, outputs) = GRAPHS[usize::from(*graph) % GRAPHS.len()];
        let folder = TempDir::new().expect("a directory can be made");
        let mut spec = ModelSpec {
            inputs: inputs.iter().map(|it| tensor(it)).collect(),
            outputs: outputs.iter().map(|it| tensor(it)).collect(),
            ..ModelSpec::default()
        };
        for (name, content) in parts(files) {
            match name {
                METADATA => spec.metadata = metadata(content),
                name => write(folder.path(), name, content),
            }
        }
        write(folder.path(), "model.onnx", b"");
        oracle::within(BOUND, data.len(), || open(&mut seen, folder.path(), &spec));
        seen
    },
    examples,
    words: WORDS,
};

/// An input or output with its first dimension.
fn tensor(line: &str) -> TensorSpec {
    let port = port(line);
    TensorSpec {
        name: port.name,
        dtype: port.dtype,
        dims: port.dims,
        any_rank: false,
        optional: port.optional,
    }
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    let parent = path.parent().expect("it is in the folder");
    fs::create_dir_all(parent).and_then(|()| fs::write(&path, content)).expect("it can be written");
}

/// The files of an input that are among those of a folder, and the metadata.
fn parts(mut rest: &[u8]) -> Vec<(&'static str, &[u8])> {
    let mut parts = Vec::new();
    while let Some(line) = rest.strip_prefix(MARK.as_bytes()) {
        let end = line.iter().position(|it| *it == b'\n').unwrap_or(line.len());
        let (name, content) = line.split_at(end);
        let content = content.get(1..).unwrap_or_default();
        let next = content.windows(MARK.len() + 1).position(|it| {
            it.split_first().is_some_and(|(first, mark)| *first == b'\n' && mark == MARK.as_bytes())
        });
        let (content, behind) = content.split_at(next.unwrap_or(content.len()));
        rest = behind.get(1..).unwrap_or_default();
        let known = FILES.into_iter().chain([METADATA]).find(|it| it.as_bytes() == name);
        parts.extend(known.map(|name| (name, content)));
    }
    parts
}

fn metadata(content: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(content);
    let pairs = text.lines().filter_map(|it| it.split_once(' '));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn open(seen: &mut Seen, path: &Path, spec: &ModelSpec) {
    let overrides = Overrides { jpeg_library: JpegLibrary::None, ..Overrides::default() };
    seen.fact(is_pipeline(path, None));
    let dir = Dir::alone(path);
    if let Some(Some((Opened::Pipeline(mut pipeline), _))) =
        seen.result(Pipeline::of_graph(Some(&dir), &overrides, spec))
    {
        seen.fact("of its graph");
        use_pipeline(seen, &mut pipeline);
    }
    let Some(folder) = seen.result(Folder::read(&dir, &overrides)) else { return };
    match seen.result(Pipeline::open(&folder, spec)) {
        None => {}
        Some(Opened::Tensors(reason)) => {
            seen.result(Err::<(), _>(reason));
        }
        Some(Opened::Pipeline(mut pipeline)) => {
            seen.result(pipeline.explain(&folder).map(|_| ()));
            use_pipeline(seen, &mut pipeline);
        }
    }
}

/// Asks a pipeline all that a server asks it, and prepares an input.
fn use_pipeline(seen: &mut Seen, pipeline: &mut Pipeline) {
    let task = pipeline.task();
    seen.fact((task, pipeline.labels().len().min(3), pipeline.tasks().len()));
    seen.fact((
        pipeline.dimensions().is_some(),
        pipeline.tower_dimensions().map(|it| it.is_some()),
    ));
    seen.fact((pipeline.fixed_tokens(), pipeline.may_pad(), pipeline.padding_side().name()));
    seen.fact((pipeline.patch_numbers().checked_ilog2(), pipeline.warnings().len()));
    assert!(!pipeline.describe().is_empty(), "it is described");
    seen.fact(pipeline.fit(1 << 30).is_some());
    for input in inputs(task) {
        let Some(asked) = seen.result(pipeline.bytes_to_prepare(&input)) else { continue };
        let prepare = || pipeline.prepare(task, &input, &Parameters::default());
        let prepared = match task.medium() {
            // Of a text nothing is asked; its tokens are counted otherwise.
            Medium::Text => prepare(),
            Medium::Image | Medium::Audio if LARGEST_ROW < asked => continue,
            Medium::Image | Medium::Audio => {
                oracle::within_asked(asked.saturating_add(BESIDE), prepare)
            }
        };
        if let Some(prepared) = seen.result(prepared) {
            seen.fact((prepared.rows.len().min(3), prepared.tokens().min(32)));
        }
    }
}

/// Inputs of a task.
fn inputs(task: Task) -> Vec<Input<'static>> {
    static PICTURE: LazyLock<Vec<u8>> =
        LazyLock::new(|| one_of("tests/fixtures/pipelines/pictures"));
    static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
        files("tests/fixtures/pipelines/speech").into_iter().next().expect("there is one")
    });
    const SAID: &str = "The quick brown fox lives in [MASK] <mask>, é 世界.";
    const LABELS: &[&str] = &["a cat", "dogs"];
    let facts = task.facts();
    let file = match facts.medium {
        Medium::Text => None,
        Medium::Image => Some(PICTURE.as_slice()),
        Medium::Audio => Some(SOUND.as_slice()),
    };
    let mut inputs = match (facts.row, file) {
        (RowForm::One, None) if facts.inputs.iter().any(|it| 1 < it.len()) => {
            vec![Input::Text(SAID), Input::Pair("who?", SAID)]
        }
        (RowForm::One, None) => vec![Input::Text(SAID)],
        (RowForm::One, Some(file)) => vec![Input::File(file)],
        (RowForm::Labels, None) => vec![Input::Candidates(SAID, LABELS)],
        (RowForm::Labels, Some(file)) => vec![Input::FileCandidates(file, LABELS)],
        (RowForm::Compared, _) => vec![Input::Sentences(SAID, LABELS)],
        (RowForm::Ranked, _) => vec![Input::Ranking(SAID, LABELS)],
        (RowForm::Towers, file) => {
            vec![Input::FileTexts(file, LABELS), Input::FileTexts(None, LABELS)]
        }
    };
    if facts.takes_ids {
        inputs.push(Input::Ids(&[1, 2, 3]));
    }
    inputs
}

fn one_of(folder: &str) -> Vec<u8> {
    files(folder).into_iter().min_by_key(Vec::len).expect("there is one")
}

/// Folders of the tests, each with the graph that fits, and in its layers.
const EXAMPLES: [(u8, &[&str]); 31] = [
    (0, &["sst2"]),
    (0, &["multi-label"]),
    (0, &["regression"]),
    (0, &["roberta"]),
    (0, &["exported"]),
    (0, &["rerank"]),
    (0, &["rerank", "rerank-legacy"]),
    (0, &["zero-shot"]),
    (1, &["ner"]),
    (1, &["ner-bpe"]),
    (1, &["fill-mask"]),
    (1, &["fill-mask-bpe"]),
    (1, &["fill-mask", "splade-max"]),
    (2, &["st-6"]),
    (2, &["st-6", "st-2"]),
    (2, &["st-6", "st-5"]),
    (2, &["st-6", "dense"]),
    (2, &["st-6", "dense-projected"]),
    (2, &["st-6", "prompted"]),
    (2, &["st-6", "pool-several"]),
    (3, &["question-answering"]),
    (4, &["sst2"]),
    (5, &["sst2"]),
    (6, &["vit"]),
    (6, &["dinov2"]),
    (7, &["detr"]),
    (8, &["clip"]),
    (9, &["speech"]),
    (10, &["audio-classification"]),
    (11, &["whisper"]),
    (12, &["spectrogram"]),
];

fn examples() -> Vec<Vec<u8>> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines");
    let mut all = Vec::new();
    for (graph, layers) in EXAMPLES {
        let mut example = vec![graph];
        for name in FILES {
            let places = layers.iter().rev().map(|it| folders.join(it).join("folder").join(name));
            let Some(content) = places.filter_map(|it| fs::read(it).ok()).next() else { continue };
            example.extend([MARK.as_bytes(), name.as_bytes(), b"\n", &content, b"\n"].concat());
        }
        all.push(example);
    }
    for said in [
        "stride 32\nnames {0: 'person', 1: 'a \\u00e9'}\ntask detect\nimgsz [64, 64]\nbatch 1",
        "stride 32\nnames ['a', \"b\"]\nend2end True\nargs {'nms': True}\nchannels 3",
    ] {
        all.push([&[13], MARK.as_bytes(), METADATA.as_bytes(), b"\n", said.as_bytes()].concat());
    }
    all
}

const WORDS: &[&str] = &json::with_signs::<{ json::count(KEYS) }>(KEYS);

const KEYS: &[&str] = &[
    "\n=== config.json\n{",
    "\n=== muster.json\n{\"task\":\"text-classification\"}\n",
    "\n=== metadata\nnames ",
    "-1",
    "1e30",
    "18446744073709551615",
    "4294967295",
    "\"num_labels\":",
    "\"id2label\":{\"",
    "\"label2id\":{\"a\":",
    "\"max_position_embeddings\":",
    "\"model_max_length\":",
    "\"pad_token_id\":",
    "\"model_type\":\"roberta\"",
    "\"hidden_size\":",
    "\"num_attention_heads\":",
    "\"head_dim\":",
    "\"conv_kernel\":[",
    "\"conv_stride\":[",
    "\"word_embedding_dimension\":",
    "\"pooling_mode\":[\"cls\",\"max\"]",
    "\"include_prompt\":false",
    "\"in_features\":",
    "\"size\":{\"height\":",
    "\"shortest_edge\":",
    "\"longest_edge\":",
    "\"crop_size\":",
    "\"rescale_factor\":",
    "\"image_mean\":[",
    "\"sampling_rate\":",
    "\"feature_size\":",
    "\"n_fft\":",
    "\"hop_length\":",
    "\"chunk_length\":",
    "\"num_mel_bins\":",
    "\"max_length\":",
    "\"type\":\"Split\",\"pattern\":{\"Regex\":\"",
    "\"type\":\"WordLevel\"",
    "\"type\":\"Unigram\"",
    "\"type\":\"BPE\"",
    "\"type\":\"WordPiece\"",
    "\"type\":\"Metaspace\"",
    "\"type\":\"ByteLevel\"",
    "\"type\":\"Replace\"",
    "\"type\":\"TemplateProcessing\"",
    "\"special\":true",
    "\"id\":",
    "\"vocab\":{",
    "\"merges\":[",
    "\"unk_id\":",
    "\"unk_token\":",
    "\"max_input_chars_per_word\":",
    "\"dropout\":",
    "'",
    "\\u",
    "\\x",
    "(",
    ")",
];
