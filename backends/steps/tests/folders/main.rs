//! What folders are for, and what is said of those that are wrong.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod media;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use backend::{DataType, ModelSpec, TensorSpec};
use backend_steps::{
    Dir, ExplainedFile, ExplainedValue, Folder, FolderError, Input, Opened, Overrides, Parameters,
    Pipeline, RowError, RowOutput, Step, TopK, constants, is_pipeline, named_graph,
    unchosen_graphs,
};
use inference::task::Task;

/// A folder of its own that is removed with this.
struct TestFolder(PathBuf);

impl Drop for TestFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder was made by this test");
    }
}

const TOKENIZER: &str = r#"{"version": "1.0", "truncation": {"direction": "Right", "max_length": 3,
  "strategy": "LongestFirst", "stride": 0}, "padding": null, "added_tokens": [
  {"id": 0, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
   "special": true}], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
  "decoder": null, "model": {"type": "WordLevel", "unk_token": "[UNK]",
  "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3}}}"#;

/// A folder with a graph, a tokenizer and these files; without those whose text is `-`.
fn folder(files: &[(&str, &str)]) -> TestFolder {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("muster-folders-{}-{number}", std::process::id());
    let dir = TestFolder(std::env::temp_dir().join(name));
    let usual = [("model.onnx", ""), ("tokenizer.json", TOKENIZER)];
    for (file, text) in usual.iter().chain(files) {
        let path = dir.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match *text {
            "-" if path.exists() => fs::remove_file(path).unwrap(),
            "-" => {}
            text => fs::write(path, text).unwrap(),
        }
    }
    dir
}

fn tensor(name: &str, dtype: DataType, dims: &[Option<usize>]) -> TensorSpec {
    let (any_rank, optional) = (false, false);
    TensorSpec { name: name.into(), dtype, dims: dims.to_vec(), any_rank, optional }
}

/// A graph with ids and mask, and every output that a task may read.
fn spec() -> ModelSpec {
    let pair: &[Option<usize>] = &[None, None];
    ModelSpec {
        inputs: ["input_ids", "attention_mask"].map(|it| tensor(it, DataType::Int64, pair)).into(),
        outputs: vec![tensor("logits", DataType::Fp32, pair)],
        ..ModelSpec::default()
    }
}

fn open_with(
    dir: &Path,
    overrides: &Overrides,
    spec: &ModelSpec,
    metadata: &[(&str, &str)],
) -> Result<Opened, FolderError> {
    let folder = Folder::read(&Dir::alone(dir), overrides)?;
    let owned = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
    let metadata = metadata.iter().map(owned).collect();
    Pipeline::open(&folder, &ModelSpec { metadata, ..spec.clone() })
}

fn pipeline(dir: &TestFolder, spec: &ModelSpec) -> Pipeline {
    match open_with(&dir.0, &Overrides::default(), spec, &[]).unwrap() {
        Opened::Pipeline(pipeline) => *pipeline,
        Opened::Tensors(reason) => panic!("served as tensors: {reason}"),
    }
}

/// The task of a folder with this `config.json`, or why it is served as tensors.
#[track_caller]
fn check_task(config: &str, expect: &str) {
    let dir = folder(&[("config.json", config)]);
    let mut spec = spec();
    let rank = ["Token", "MaskedLM", "Model"].iter().any(|it| config.contains(it));
    if rank {
        let name = if config.contains("For") { "logits" } else { "last_hidden_state" };
        spec.outputs = vec![tensor(name, DataType::Fp32, &[None, None, None])];
    }
    if config.contains("QuestionAnswering") {
        let names = ["start_logits", "end_logits"];
        spec.outputs = names.map(|it| tensor(it, DataType::Fp32, &[None, None])).into();
    }
    let found = match open_with(&dir.0, &Overrides::default(), &spec, &[]).unwrap() {
        Opened::Pipeline(pipeline) => pipeline.task().name().to_owned(),
        Opened::Tensors(reason) => reason,
    };
    assert_eq!(found, expect);
}

#[test]
fn the_task_is_told_from_the_architecture() {
    let labels = |names: &str| {
        let config = r#"{"architectures": ["BertForSequenceClassification"], "id2label": {"#;
        format!("{config}{names}}}}}")
    };
    check_task(&labels(r#""0": "a", "1": "b""#), "text-classification");
    check_task(&labels(r#""0": "score""#), "rerank");
    check_task(&labels(r#""0": "Entailment", "1": "other""#), "zero-shot-classification");
    check_task(r#"{"architectures": ["BertForTokenClassification"]}"#, "token-classification");
    check_task(r#"{"architectures": ["BertForQuestionAnswering"]}"#, "question-answering");
    check_task(r#"{"architectures": ["BertForMaskedLM"]}"#, "fill-mask");
    check_task(r#"{"architectures": ["BertModel"]}"#, "sentence-embedding");
}

#[test]
fn an_architecture_without_a_pipeline_is_served_as_tensors_with_a_reason() {
    let check = |name: &str, reason: &str| {
        check_task(&format!(r#"{{"architectures": ["{name}"]}}"#), &format!("{name}{reason}"));
    };
    check("LlamaForCausalLM", ": it generates text");
    check("SegformerForSemanticSegmentation", ": masks of an image have no pipeline");
    check("FooForBar", " is no architecture with a pipeline");
}

#[test]
fn what_was_said_goes_before_metadata_and_metadata_before_the_folder() {
    let config = r#"{"architectures": ["BertForSequenceClassification"]}"#;
    let dir = folder(&[("config.json", config)]);
    let task = |said: Option<&str>, metadata: &[(&str, &str)]| {
        let overrides = Overrides { task: said.map(str::to_owned), ..Overrides::default() };
        match open_with(&dir.0, &overrides, &spec(), metadata) {
            Ok(Opened::Pipeline(pipeline)) => pipeline.task().name().to_owned(),
            Ok(Opened::Tensors(reason)) => reason,
            Err(error) => error.to_string(),
        }
    };
    let rerank = [("task", "rerank")];
    assert_eq!(task(None, &[]), "text-classification");
    assert_eq!(task(None, &rerank), "rerank");
    assert_eq!(task(Some("sentiment-analysis"), &rerank), "text-classification");
    assert_eq!(task(None, &[("task", "detect")]), "its graph says the task 'detect'");
    let text = "task: there is no task 'text-clasification'; the nearest is 'text-classification'";
    assert_eq!(task(Some("text-clasification"), &[]), text);
    assert_eq!(
        task(Some("fill-mask"), &[]),
        "model.onnx: logits: it has 2 dimensions, the task needs 3"
    );
}

/// Opening fails with this text.
#[track_caller]
fn check_error(files: &[(&str, &str)], expect: &str) {
    let dir = folder(files);
    let opened = open_with(&dir.0, &Overrides::default(), &spec(), &[]);
    assert_eq!(opened.unwrap_err().to_string(), expect);
}

const CLASSIFIER: (&str, &str) =
    ("config.json", r#"{"architectures": ["BertForSequenceClassification"]}"#);

#[test]
fn what_is_wrong_with_a_folder_is_said_with_file_and_key() {
    check_error(
        &[("model.onnx", "-")],
        "model.onnx: there is no graph; put model.onnx, \
        onnx/model.onnx or model.pt there, or name one as \"graph\" in muster.json",
    );
    check_error(&[("config.json", "[]")], "config.json: it is no JSON object");
    check_error(
        &[CLASSIFIER, ("tokenizer.json", "-")],
        "tokenizer.json: it is missing; \
        write it once: AutoTokenizer.from_pretrained(d).save_pretrained(d)",
    );
    check_error(
        &[CLASSIFIER, ("tokenizer.json", "-"), ("vocab.txt", "a")],
        "tokenizer.json: it is missing, and vocab.txt alone is not enough; \
         write it once: AutoTokenizer.from_pretrained(d).save_pretrained(d)",
    );
    check_error(
        &[CLASSIFIER, ("muster.json", r#"{"poling": "cls"}"#)],
        "muster.json: poling: no such key; the nearest is 'pooling'",
    );
    for (key, value, problem) in [
        ("threshold", "2", "it is 2, not a number from 0 to 1"),
        ("iou", "-0.5", "it is -0.5, not a number from 0 to 1"),
        ("iou", "true", "it is true, not a number"),
        ("max_detections", "3001", "it is 3001, not a whole number from 1 to 3000"),
        ("max_detections", "0", "it is 0, not a whole number from 1 to 3000"),
        ("max_image_pixels", "0", "it is 0, not a whole number from 1 to 18446744073709551615"),
        ("max_image_pixels", "1.5", "it is 1.5, not a whole number from 0 on"),
        (
            "max_audio_seconds",
            "5000000000",
            "it is 5000000000, not a whole number from 1 to 4294967295",
        ),
        ("max_audio_seconds", "\"60\"", "it is \"60\", not a whole number from 0 on"),
    ] {
        let file = format!(r#"{{"{key}": {value}}}"#);
        check_error(
            &[CLASSIFIER, ("muster.json", &file)],
            &format!("muster.json: {key}: {problem}"),
        );
    }
    check_error(
        &[("modules.json", r#"[{"type": "x.LSTM", "path": ""}]"#)],
        "modules.json: 0.type: 'LSTM' is none of Transformer, Pooling, SpladePooling, Dense, \
         Normalize, Dropout",
    );
    check_error(
        &[("modules.json", r#"[{"type": "x.Pooling", "path": "../1_Pooling"}]"#)],
        "modules.json: 0.path: '../1_Pooling' leads out of the folder",
    );
    check_error(
        &[("modules.json", r#"[{"type": "x.Pooling", "path": "1_Pooling"}]"#)],
        "1_Pooling/config.json: it is missing",
    );
}

const POOLED: [(&str, &str); 2] = [
    (
        "modules.json",
        r#"[{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"},
            {"type": "a.Dense", "path": "2_Dense"}]"#,
    ),
    ("1_Pooling/config.json", "{}"),
];

#[test]
fn weights_that_are_a_pickle_or_of_another_shape_are_refused() {
    let dense = r#"{"in_features": 1, "out_features": 2, "bias": false}"#;
    let files = |more: &[(&'static str, &'static str)]| {
        let config = ("2_Dense/config.json", dense);
        POOLED.iter().copied().chain([config]).chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let remedy =
        "convert it once: SentenceTransformer(d).save_pretrained(d, safe_serialization=True)";
    let text = format!("2_Dense/model.safetensors: it is missing; {remedy}");
    check_error(&files(&[]), &text);
    let text =
        format!("2_Dense/pytorch_model.bin: it is a pickle, which could run any code; {remedy}");
    check_error(&files(&[("2_Dense/pytorch_model.bin", "x")]), &text);
    let dir = folder(&files(&[("2_Dense/model.safetensors", "x")]));
    let error = Folder::read(&Dir::alone(&dir.0), &Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("2_Dense/model.safetensors: it is no safetensors:"), "{error}");
}

#[test]
fn labels_that_are_not_as_many_as_classes_are_refused() {
    let dir = folder(&[CLASSIFIER]);
    let mut spec = spec();
    spec.outputs[0].dims[1] = Some(3);
    let error = open_with(&dir.0, &Overrides::default(), &spec, &[]).unwrap_err();
    let text = "config.json: id2label: 2 labels, and the graph has 3; \
                name every class of the graph";
    assert_eq!(error.to_string(), text);
}

#[test]
fn the_variable_of_a_container_chooses_a_task_that_the_folder_allows() {
    let opened = |architecture: &str, overrides: Overrides| {
        let config = format!(r#"{{"architectures": ["{architecture}"]}}"#);
        let dir = folder(&[("config.json", &config)]);
        let mut spec = spec();
        spec.outputs.push(tensor("last_hidden_state", DataType::Fp32, &[None, None, Some(4)]));
        match open_with(&dir.0, &overrides, &spec, &[]) {
            Ok(Opened::Pipeline(pipeline)) => Ok(pipeline.task()),
            Ok(Opened::Tensors(reason)) => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    };
    let asked = |architecture: &str, task: &str| {
        let container_task = Some(task.to_owned());
        opened(architecture, Overrides { container_task, ..Overrides::default() })
    };
    let classifier = "XForSequenceClassification";
    assert_eq!(asked(classifier, "sentiment-analysis"), Ok(Task::TextClassification));
    assert_eq!(asked(classifier, "zero-shot-classification"), Ok(Task::ZeroShotClassification));
    assert_eq!(asked(classifier, "feature-extraction"), Ok(Task::FeatureExtraction));
    assert_eq!(asked("XModel", "feature-extraction"), Ok(Task::FeatureExtraction));
    assert_eq!(asked("XForCausalLM", "feature-extraction"), Ok(Task::FeatureExtraction));
    let text = "config.json: architectures: XForSequenceClassification is for text-classification, \
                and HF_TASK asks for fill-mask; leave HF_TASK out, or let it be text-classification";
    assert_eq!(asked(classifier, "fill-mask"), Err(text.to_owned()));
    assert!(
        asked("XForTokenClassification", "text-generation")
            .unwrap_err()
            .contains("text-generation")
    );
    let reason = asked("XForCausalLM", "text-generation").unwrap_err();
    assert_eq!(reason, "XForCausalLM: it generates text");
    assert!(asked("XForCausalLM", "fill-mask").unwrap_err().contains("HF_TASK asks for fill-mask"));
    // What operators say of the folder itself goes before the variable.
    let (task, container_task) =
        (Some("text-classification".to_owned()), Some("fill-mask".to_owned()));
    let both = Overrides { task, container_task, ..Overrides::default() };
    assert_eq!(opened(classifier, both), Ok(Task::TextClassification));
}

#[test]
fn a_ranking_needs_one_label() {
    let config = r#"{"architectures": ["X"], "id2label": {"0": "a", "1": "b"}}"#;
    let dir = folder(&[("config.json", config)]);
    let overrides = Overrides { task: Some("rerank".to_owned()), ..Overrides::default() };
    let error = open_with(&dir.0, &overrides, &spec(), &[]).unwrap_err().to_string();
    let text = "config.json: id2label: 2 labels, and a ranking needs one; \
                name another task, such as text-classification";
    assert_eq!(error, text);
}

#[test]
fn an_input_that_no_text_fills_is_named() {
    let dir = folder(&[CLASSIFIER]);
    let mut spec = spec();
    spec.inputs.push(tensor("bbox", DataType::Int64, &[None, None, Some(4)]));
    let open = |spec: &ModelSpec| open_with(&dir.0, &Overrides::default(), spec, &[]);
    let error = open(&spec).unwrap_err().to_string();
    let text = "model.onnx: bbox: the graph requires this input, and a text does not fill it";
    assert_eq!(error, text);
    spec.inputs[2].optional = true;
    assert!(open(&spec).is_ok());
}

#[test]
fn rows_have_the_types_of_the_graph_and_the_longest_is_the_least_limit() {
    let config = r#"{"architectures": ["XForSequenceClassification"], "max_position_embeddings": 9,
        "model_type": "roberta", "pad_token_id": 0, "num_key_value_heads": 2, "head_dim": 3}"#;
    let dir = folder(&[("config.json", config)]);
    let pair: &[Option<usize>] = &[None, None];
    let mut spec = spec();
    spec.inputs[0].dtype = DataType::Int32;
    spec.inputs.push(tensor("position_ids", DataType::Int64, pair));
    let past = "past_key_values.0.key";
    spec.inputs.push(tensor(past, DataType::Fp32, &[None, None, None, None]));
    spec.inputs.push(tensor("use_cache_branch", DataType::Bool, &[Some(1)]));
    let pipeline = pipeline(&dir, &spec);
    assert_eq!(pipeline.text().unwrap().max_tokens(), 8);
    let folder = Folder::read(&Dir::alone(&dir.0), &Overrides::default()).unwrap();
    let constants = constants(&folder, &spec).unwrap();
    assert_eq!((constants.len(), &*constants[0].name), (1, "use_cache_branch"));
    let run = |text: &str| {
        let (task, parameters) = (Task::TextClassification, Parameters::default());
        pipeline.prepare(task, &Input::Text(text), &parameters)
    };
    let row = run("a b [PAD]").unwrap().rows.remove(0);
    assert_eq!(row.inputs[0].tensor.as_slice_of::<i32>().unwrap(), [2, 3, 0]);
    assert_eq!(row.inputs[1].tensor.as_slice_of::<i64>().unwrap(), [1, 1, 1]);
    assert_eq!(row.inputs[2].tensor.as_slice_of::<i64>().unwrap(), [1, 2, 3]);
    assert_eq!(row.inputs[3].tensor.shape().dims(), [2, 0, 3]);
    let error = run("a a a a a a a a a").unwrap_err();
    assert_eq!(error, RowError::TooManyTokens { given: 9, allowed: 8 });
    assert_eq!(run("").unwrap_err().to_string(), "the text has no tokens");
    let text = "text-classification, 2 labels, softmax; tokenizer WordLevel 4, at most 8 tokens; \
                graph takes input_ids, attention_mask, position_ids, past_key_values.0.key";
    assert_eq!(pipeline.describe(), text);
}

#[test]
fn keys_and_values_of_earlier_tokens_have_the_form_that_is_known_or_are_named() {
    let config = r#"{"architectures": ["XForSequenceClassification"], "num_key_value_heads": 2}"#;
    let dir = folder(&[("config.json", config)]);
    let error = |dims: &[Option<usize>]| {
        let mut spec = spec();
        spec.inputs.push(tensor("past_key_values.0.key", DataType::Fp32, dims));
        open_with(&dir.0, &Overrides::default(), &spec, &[]).unwrap_err().to_string()
    };
    let text = "model.onnx: past_key_values.0.key: it has 3 dimensions, keys and values of earlier tokens four: \
                rows, heads, tokens, numbers";
    assert_eq!(error(&[None, None, Some(64)]), text);
    let text = "model.onnx: past_key_values.0.key: it takes 7 earlier tokens, and a text has none";
    assert_eq!(error(&[None, None, Some(7), Some(3)]), text);
    let text = "neither the graph nor config.json says num_key_value_heads and head_dim";
    assert!(error(&[None, None, None, None]).ends_with(text));
}

#[test]
fn a_graph_of_one_length_takes_no_more_and_one_without_mask_is_not_padded() {
    let dir = folder(&[CLASSIFIER]);
    let mut spec = spec();
    assert!(pipeline(&dir, &spec).may_pad());
    spec.inputs.truncate(1);
    let unmasked = pipeline(&dir, &spec);
    assert!(!unmasked.may_pad());
    assert_eq!(unmasked.text().unwrap().max_tokens(), 8192);
    assert_eq!(unmasked.warnings().len(), 2);
    spec.inputs[0].dims[1] = Some(5);
    let fixed = pipeline(&dir, &spec);
    assert_eq!(
        (fixed.fixed_tokens(), fixed.text().unwrap().max_tokens(), fixed.may_pad()),
        (Some(5), 5, true)
    );
}

#[test]
fn a_folder_is_known_by_its_graph_and_what_it_says_of_it() {
    assert!(is_pipeline(&folder(&[CLASSIFIER]).0, None));
    assert!(is_pipeline(&folder(&[("modules.json", "[]")]).0, None));
    assert!(!is_pipeline(&folder(&[]).0, None));
    assert!(!is_pipeline(&folder(&[("config.json", "{}")]).0, None));
    assert!(!is_pipeline(&folder(&[CLASSIFIER, ("model.onnx", "-")]).0, None));
}

#[test]
fn a_graph_is_chosen_by_its_name_or_variant() {
    let dir = folder(&[CLASSIFIER, ("onnx/model_fp16.onnx", ""), ("onnx/model.onnx", "")]);
    let graph = |name: Option<&str>| {
        let graph = name.map(str::to_owned);
        let folder =
            Folder::read(&Dir::alone(&dir.0), &Overrides { graph, ..Overrides::default() });
        folder.map(|it| it.graph).map_err(|error| error.to_string())
    };
    assert_eq!(graph(None).unwrap(), "model.onnx");
    assert_eq!(graph(Some("fp16")).unwrap(), "onnx/model_fp16.onnx");
    assert_eq!(graph(Some("onnx/model.onnx")).unwrap(), "onnx/model.onnx");
    let text = "onnx/model_int8.onnx: the graph 'int8' is not there; \
                there are model.onnx, onnx/model.onnx, onnx/model_fp16.onnx";
    assert_eq!(graph(Some("int8")).unwrap_err(), text);
    assert!(graph(Some("../model.onnx")).is_err());
}

#[test]
fn a_pipeline_is_explained_as_the_steps_around_its_graph() {
    let dir = folder(&[CLASSIFIER]);
    let read = Folder::read(&Dir::alone(&dir.0), &Overrides::default()).unwrap();
    let explained = pipeline(&dir, &spec()).explain(&read).unwrap();
    let file = |name: &str| ExplainedValue::Files(vec![ExplainedFile::File(name.to_owned())]);
    let text = |text: &str| ExplainedValue::Text(text.to_owned());
    let same = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|it| ((*it).to_owned(), (*it).to_owned())).collect()
    };
    let [tokens, graph, head] = &explained.members[..] else { panic!("{explained:?}") };
    let parameters = vec![
        ("file", file("tokenizer.json")),
        ("max_length", text("8192")),
        ("truncation", text("none")),
    ];
    assert_eq!(tokens.step, Some(("tokenize", parameters)));
    assert_eq!(tokens.outputs, same(&["input_ids", "attention_mask"]));
    assert_eq!((graph.step.as_ref(), &graph.outputs), (None, &same(&["logits"])));
    let parameters = vec![("labels", file("config.json")), ("function", text("softmax"))];
    assert_eq!(head.step, Some(("classify", parameters)));
    assert_eq!(head.inputs, same(&["logits"]));
    assert_eq!(explained.files, ["tokenizer.json", "config.json"]);
}

#[test]
fn what_became_of_each_file_is_noted() {
    let more = [CLASSIFIER, ("vocab.txt", ""), ("onnx/model_fp16.onnx", "")];
    let pipeline = pipeline(&folder(&more), &spec());
    let fate = |file: &str| {
        let note = pipeline.files().iter().find(|it| it.file == file);
        note.map(|it| format!("{:?}", it.fate))
    };
    assert_eq!(fate("config.json").as_deref(), Some("Read"));
    assert_eq!(fate("tokenizer_config.json").as_deref(), Some("Missing"));
    let ignored = fate("vocab.txt").unwrap();
    assert_eq!(ignored, "Ignored(\"the tokenizer is read from tokenizer.json\")");
    assert!(fate("onnx/model_fp16.onnx").unwrap().starts_with("Ignored(\"another graph is used"));
}

#[test]
fn an_ensemble_has_the_types_of_its_graph() {
    let config = r#"{"architectures": ["BertModel"], "max_position_embeddings": 16}"#;
    let dir = folder(&[("config.json", config)]);
    let mut spec = spec();
    spec.inputs.iter_mut().for_each(|it| it.dtype = DataType::Int32);
    spec.outputs = vec![tensor("last_hidden_state", DataType::Fp32, &[None, None, Some(4)])];
    let folder = Folder::read(&Dir::alone(&dir.0), &Overrides::default()).unwrap();
    let explained = pipeline(&dir, &spec).explain(&folder).unwrap();
    let int32 = |name: &str| (name.to_owned(), DataType::Int32);
    let types: Vec<_> = explained.members.iter().map(|it| it.types.clone()).collect();
    let mask = int32("attention_mask");
    assert_eq!(types, [vec![int32("input_ids"), mask.clone()], vec![], vec![mask]]);
    let steps: Vec<_> =
        explained.members.iter().map(|it| it.step.as_ref().map(|it| it.0)).collect();
    assert_eq!(steps, [Some("tokenize"), None, Some("pool")]);
}

#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let (dir, other) = (folder(&[CLASSIFIER]), folder(&[("secret", "{}")]));
    std::os::unix::fs::symlink(other.0.join("secret"), dir.0.join("tokenizer_config.json"))
        .unwrap();
    let error = Folder::read(&Dir::alone(&dir.0), &Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("tokenizer_config.json: its link leads to "), "{error}");
    // Both lie in a repository.
    let both = dir.0.parent().unwrap();
    Folder::read(&Dir::new(&dir.0, both), &Overrides::default()).unwrap();
}

#[test]
fn a_graph_that_is_taken_only_by_name_makes_a_pipeline_once_it_is_named() {
    let graph = "onnx/model_quantized.onnx";
    let files = [CLASSIFIER, ("model.onnx", "-"), (graph, "")];
    let dir = folder(&files);
    assert!(!is_pipeline(&dir.0, None));
    assert_eq!(unchosen_graphs(&dir.0), [graph]);
    assert!(is_pipeline(&dir.0, Some("quantized")));
    assert!(!is_pipeline(&dir.0, Some("fp16")));
    let named = folder(&[&files[..], &[("muster.json", r#"{"graph": "quantized"}"#)]].concat());
    assert!(is_pipeline(&named.0, None));
    assert_eq!(named_graph(&named.0, None).as_deref(), Some(graph));
    assert!(unchosen_graphs(&named.0).is_empty());
    // Without a task nothing would be gained by a name.
    assert!(unchosen_graphs(&folder(&files[1..]).0).is_empty());
}

/// Counts how often it is asked, and is wanted until the given time.
fn wanted_until(most: u32) -> impl Fn() -> bool + Sync {
    let asked = AtomicU32::new(0);
    move || asked.fetch_add(1, Ordering::Relaxed) < most
}

#[test]
fn texts_of_a_list_that_are_not_wanted_any_more_are_no_rows() {
    let ranker = r#"{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "x"},
        "max_position_embeddings": 8}"#;
    let entailment = ranker.replace(r#"{"0": "x"}"#, r#"{"0": "entailment", "1": "x"}"#);
    let embedder = r#"{"architectures": ["BertModel"], "max_position_embeddings": 8}"#;
    let others = ["a", "b", "a", "b"];
    let check = |config: &str, task, input: &Input<'_>| {
        let dir = folder(&[("config.json", config)]);
        let mut spec = spec();
        if config.contains("BertModel") {
            let hidden = tensor("last_hidden_state", DataType::Fp32, &[None, None, None]);
            spec.outputs = vec![hidden];
        }
        let pipeline = pipeline(&dir, &spec);
        let prepare = |wanted| {
            let prepared = pipeline.prepare_while(task, input, &Parameters::default(), wanted);
            prepared.map(|it| it.rows.len())
        };
        assert!(prepare(&|| true).unwrap() >= 4, "{task}");
        assert_eq!(prepare(&wanted_until(3)), Err(RowError::Stopped), "{task}");
    };
    check(ranker, Task::Rerank, &Input::Ranking("a", &others));
    check(embedder, Task::Rerank, &Input::Ranking("a", &others));
    check(embedder, Task::SentenceSimilarity, &Input::Sentences("a", &others));
    check(&entailment, Task::ZeroShotClassification, &Input::Candidates("a", &others));
}

#[test]
fn fills_that_are_too_many_or_not_wanted_any_more_are_not_made() {
    let tokenizer = TOKENIZER.replace(r#""b": 3"#, r#""b": 3, "[MASK]": 4"#).replace(
        r#""added_tokens": ["#,
        r#""added_tokens": [{"id": 4, "content": "[MASK]", "single_word": false, "lstrip": false,
           "rstrip": false, "normalized": false, "special": true},"#,
    );
    let config = r#"{"architectures": ["BertForMaskedLM"], "max_position_embeddings": 3000}"#;
    let special = r#"{"mask_token": "[MASK]"}"#;
    let files = [
        ("tokenizer.json", &*tokenizer),
        ("config.json", config),
        ("tokenizer_config.json", special),
    ];
    let spec = ModelSpec {
        outputs: vec![tensor("logits", DataType::Fp32, &[None, None, None])],
        ..spec()
    };
    let pipeline = pipeline(&folder(&files), &spec);
    let task = Task::FillMask;
    let parameters = |top_k| Parameters { top_k: TopK::Best(top_k), ..Parameters::default() };
    let prepare = |text: &str, top_k| {
        pipeline.prepare(task, &Input::Text(text), &parameters(top_k)).map(|it| it.rows.len())
    };
    let long = "a ".repeat(1998);
    assert_eq!(prepare(&format!("{long}[MASK] [MASK]"), 1000), Ok(1), "there are five tokens only");
    let error = prepare(&"[MASK] ".repeat(2050), 1).unwrap_err().to_string();
    assert!(error.contains("2050 tokens has at most 2046 fills"), "{error}");

    let prepared = pipeline.prepare(task, &Input::Text("a [MASK] b"), &parameters(4)).unwrap();
    let values = vec![0.0; 3 * 5].into();
    let output = RowOutput { name: "logits", dims: vec![3, 5], values };
    let reduced = pipeline.reduce(&prepared.rows[0].work, &[output]).unwrap();
    let finish = |wanted| {
        let prepared = pipeline.prepare(task, &Input::Text("a [MASK] b"), &parameters(4)).unwrap();
        pipeline.finish_while(prepared.context, vec![reduced.clone()], wanted)
    };
    assert!(finish(&|| true).is_ok());
    assert_eq!(finish(&wanted_until(3)), Err(RowError::Stopped));
}
