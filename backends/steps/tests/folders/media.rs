//! Folders of images and sounds: what they are for, and what is said of those that are wrong.

use std::{fs, path::Path};

use backend::{DataType, ModelSpec};
use backend_steps::{Dir, Input, Opened, Overrides, Parameters, Pipeline, RowError, Step};
use inference::task::Task;

use crate::{folder, open_with, tensor};

const IMAGES: &str =
    r#"{"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}"#;
const SOUNDS: &str =
    r#"{"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000}"#;
const SPELLING: &str = r#"{"<pad>": 0, "|": 1, "A": 2}"#;

/// Files of a folder without a tokenizer.
fn files<'a>(config: &'a str, preparation: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("config.json", config),
        ("preprocessor_config.json", preparation),
        ("vocab.json", SPELLING),
        ("tokenizer.json", "-"),
    ]
}

fn config(architecture: &str) -> String {
    format!(
        r#"{{"architectures": ["{architecture}"], "model_type": "detr", "id2label": {{"0": "a", "1": "b"}}}}"#
    )
}

/// A graph that takes these inputs, and whose logits have that many dimensions.
fn graph(inputs: &[(&str, usize)], rank: usize) -> ModelSpec {
    let input = |&(name, rank): &(&str, usize)| {
        let dtype =
            if rank == 2 && name != "input_values" { DataType::Int64 } else { DataType::Fp32 };
        tensor(name, dtype, &vec![None; rank])
    };
    let output = |(name, rank): (&str, usize)| tensor(name, DataType::Fp32, &vec![None; rank]);
    let outputs =
        [("logits", rank), ("pred_boxes", 3), ("last_hidden_state", 3), ("logits_per_image", 2)];
    ModelSpec {
        inputs: inputs.iter().map(input).collect(),
        outputs: outputs.map(output).into(),
        ..ModelSpec::default()
    }
}

/// What such a folder is for, or why it is not served.
fn opened(files: &[(&str, &str)], graph: &ModelSpec) -> String {
    match open_with(&folder(files).0, &Overrides::default(), graph, &[]) {
        Ok(Opened::Pipeline(pipeline)) => pipeline.task().name().to_owned(),
        Ok(Opened::Tensors(reason)) => reason,
        Err(error) => error.to_string(),
    }
}

const PIXELS: (&str, usize) = ("pixel_values", 4);
const SAMPLES: (&str, usize) = ("input_values", 2);

#[test]
fn the_task_of_images_is_told_from_the_architecture() {
    for (architecture, rank, task) in [
        ("ViTForImageClassification", 2, "image-classification"),
        ("DeiTForImageClassificationWithTeacher", 2, "image-classification"),
        ("DetrForObjectDetection", 3, "object-detection"),
        ("Dinov2Model", 3, "image-feature-extraction"),
        (
            "SegformerForSemanticSegmentation",
            3,
            "SegformerForSemanticSegmentation: masks of an image have no pipeline",
        ),
    ] {
        assert_eq!(opened(&files(&config(architecture), IMAGES), &graph(&[PIXELS], rank)), task);
    }
    // Two towers, which need a tokenizer.
    let towers = config("CLIPModel");
    let inputs = [PIXELS, ("input_ids", 2), ("attention_mask", 2)];
    let found = opened(&files(&towers, IMAGES)[..3], &graph(&inputs, 2));
    assert_eq!(found, "zero-shot-image-classification");
}

/// A `config.json` of transformers' for a model of timm's, which is the only file that it saves beside the weights.
fn timm(architecture: &str, keys: &str) -> String {
    format!(
        r#"{{"architectures": ["{architecture}"], "model_type": "timm_wrapper", "architecture": "resnet18",
            "num_classes": 2, "label_names": ["a", "b"], "pretrained_cfg": {{"input_size": [3, 8, 8]{keys}}}}}"#
    )
}

#[test]
fn timm_says_in_its_configuration_how_an_image_is_prepared() {
    let classifier = timm("TimmWrapperForImageClassification", "");
    let alone = |config: &str, graph: &ModelSpec| {
        opened(&[("config.json", config), ("tokenizer.json", "-")], graph)
    };
    assert_eq!(alone(&classifier, &graph(&[PIXELS], 2)), "image-classification");
    let vectors = timm("TimmWrapperModel", "");
    assert_eq!(alone(&vectors, &graph(&[PIXELS], 3)), "image-feature-extraction");
    let wrong = timm("TimmWrapperForImageClassification", r#", "crop_mode": "border""#);
    let problem = "config.json: pretrained_cfg.crop_mode: crop_mode 'border' is not known";
    let found = alone(&wrong, &graph(&[PIXELS], 2));
    assert!(found.starts_with(problem), "{found}");
    let mut other = graph(&[PIXELS], 2);
    other.inputs[0].dims = [None, Some(3), Some(9), Some(9)].into();
    let problem =
        "model.onnx: pixel_values: it takes 9 x 9 pixels, the image processor gives 8 x 8";
    assert!(alone(&classifier, &other).starts_with(problem));
    let mut wide = graph(&[PIXELS], 2);
    wide.outputs[0].dims[1] = Some(7);
    let problem = "model.onnx: logits: it has 7 classes, and 2 labels are named";
    assert!(alone(&classifier, &wide).starts_with(problem));
    // A file of its own says more.
    let both = [
        ("config.json", &*classifier),
        ("preprocessor_config.json", r#"{"image_processor_type": "Foo"}"#),
    ];
    let found = opened(&both, &graph(&[PIXELS], 2));
    assert!(found.starts_with("preprocessor_config.json: image_processor_type: "), "{found}");
}

#[test]
fn the_task_of_sounds_is_told_from_the_architecture() {
    for (architecture, rank, task) in [
        ("Wav2Vec2ForCTC", 3, "automatic-speech-recognition"),
        ("Wav2Vec2ForAudioClassification", 2, "audio-classification"),
        ("Wav2Vec2ForSequenceClassification", 2, "audio-classification"),
    ] {
        assert_eq!(opened(&files(&config(architecture), SOUNDS), &graph(&[SAMPLES], rank)), task);
    }
}

#[test]
fn what_is_wrong_with_a_folder_of_images_is_said_with_file_and_key() {
    let classifier = config("ViTForImageClassification");
    let of_pixels = graph(&[PIXELS], 2);
    let check = |config: &str, preparation: &str, graph: &ModelSpec, expect: &str| {
        let found = opened(&files(config, preparation), graph);
        assert!(found.starts_with(expect), "{found}");
    };
    for name in ["ViTForImageClassification", "DetrForObjectDetection"] {
        let missing = "preprocessor_config.json: it is missing, and says how an image becomes";
        check(&config(name), "-", &of_pixels, missing);
    }
    let unknown = r#"{"image_processor_type": "FooImageProcessor"}"#;
    let problem = "preprocessor_config.json: image_processor_type: ";
    check(&classifier, unknown, &of_pixels, problem);
    let size = IMAGES.replace(r#""height": 8"#, r#""height": 0"#);
    check(&classifier, &size, &of_pixels, "preprocessor_config.json: size.height: ");
    check(&classifier, "{", &of_pixels, "preprocessor_config.json: it is no JSON");
    let ids = graph(&[("input_ids", 2)], 2);
    let problem = "model.onnx: pixel_values: the graph has no such input, so it takes no image";
    check(&classifier, IMAGES, &ids, problem);
    let more = graph(&[PIXELS, ("bool_masked_pos", 2)], 2);
    let problem = "model.onnx: bool_masked_pos: the graph requires this input";
    check(&classifier, IMAGES, &more, problem);
    let mut other = of_pixels.clone();
    other.inputs[0].dims = [None, Some(3), Some(9), Some(9)].into();
    let problem =
        "model.onnx: pixel_values: it takes 9 x 9 pixels, the image processor gives 8 x 8";
    check(&classifier, IMAGES, &other, problem);
    let mut wide = of_pixels.clone();
    wide.outputs[0].dims[1] = Some(7);
    let problem = "model.onnx: logits: it has 7 classes, and 2 labels are named";
    check(&classifier, IMAGES, &wide, problem);
    let detector = config("DetrForObjectDetection").replace("detr", "foo");
    let problem = "config.json: model_type: 'foo' finds boxes in a way that is not known";
    check(&detector, IMAGES, &graph(&[PIXELS], 3), problem);
    let detector = config("DetrForObjectDetection");
    let files = [&files(&detector, IMAGES)[..], &[("muster.json", r#"{"iou": 0.5}"#)]].concat();
    let said = opened(&files, &graph(&[PIXELS], 3));
    assert!(said.starts_with("muster.json: iou: boxes of queries do not displace"), "{said}");
}

#[test]
fn beside_a_graph_without_a_folder_a_key_that_does_nothing_is_an_error() {
    let metadata = [("names", "{0: 'a'}"), ("stride", "32"), ("task", "segment")];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let spec = ModelSpec { metadata: metadata.into(), ..ModelSpec::default() };
    let said = |file: &str| {
        let dir = folder(&[("muster.json", file)]);
        let opened = Pipeline::of_graph(Some(&Dir::alone(&dir.0)), &Overrides::default(), &spec);
        opened.map(|it| it.is_some()).map_err(|it| it.to_string())
    };
    assert_eq!(said(r#"{"iou": 0.5, "max_image_pixels": 9}"#), Ok(true));
    for file in [r#"{"labels": ["b"]}"#, r#"{"task": "object-detection"}"#, r#"{"prompt": "a"}"#] {
        let error = said(file).unwrap_err();
        assert!(
            error.contains(": a graph without a folder has not this key; there are "),
            "{error}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_folder_of_sounds_is_said_with_file_and_key() {
    let (speech, classifier) = (config("Wav2Vec2ForCTC"), config("Wav2Vec2ForAudioClassification"));
    let (spelt, classes) = (graph(&[SAMPLES], 3), graph(&[SAMPLES], 2));
    let check = |config: &str, preparation: &str, graph: &ModelSpec, expect: &str| {
        let found = opened(&files(config, preparation), graph);
        assert!(found.starts_with(expect), "{found}");
    };
    let missing = "preprocessor_config.json: it is missing, and says how a sound becomes";
    check(&speech, "-", &spelt, missing);
    let unknown = r#"{"feature_extractor_type": "FooFeatureExtractor"}"#;
    let problem =
        "preprocessor_config.json: feature_extractor_type: 'FooFeatureExtractor' is not known";
    check(&speech, unknown, &spelt, problem);
    let rate = SOUNDS.replace("16000", "0");
    check(&speech, &rate, &spelt, "preprocessor_config.json: sampling_rate: it is 0");
    let flag = SOUNDS.replace('}', r#", "do_normalize": "yes"}"#);
    check(&speech, &flag, &spelt, "preprocessor_config.json: do_normalize: it is \"yes\"");
    let problem = "model.onnx: input_values: the graph has no such input, so it takes no sound";
    check(&classifier, SOUNDS, &graph(&[PIXELS], 2), problem);
    let more = graph(&[SAMPLES, ("speaker", 2)], 2);
    check(&classifier, SOUNDS, &more, "model.onnx: speaker: the graph requires this input");
    let mut wide = classes;
    wide.outputs[0].dims[1] = Some(7);
    let problem = "config.json: id2label: 2 labels, and the graph has 7";
    check(&classifier, SOUNDS, &wide, problem);
    let without = |vocabulary: &'static str| {
        let mut files = files(&speech, SOUNDS);
        files[2].1 = vocabulary;
        opened(&files, &spelt)
    };
    assert!(without("-").starts_with("vocab.json: it is missing"), "{}", without("-"));
    let found = without(r#"{"A": -1}"#);
    assert!(found.starts_with("vocab.json: A: it is no class from 0"), "{found}");
}

#[test]
fn a_sound_that_is_not_wanted_any_more_is_no_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/pipelines/audio-classification/folder");
    let spec = ModelSpec {
        inputs: vec![tensor("input_values", DataType::Fp32, &[None, None])],
        outputs: vec![tensor("logits", DataType::Fp32, &[None, None])],
        ..ModelSpec::default()
    };
    let Ok(Opened::Pipeline(pipeline)) = open_with(&folder, &Overrides::default(), &spec, &[])
    else {
        panic!("no pipeline");
    };
    let sound = fs::read(folder.join("../../sounds/mono.ogg")).unwrap();
    let (task, parameters) = (Task::AudioClassification, Parameters::default());
    let prepare = |wanted| {
        let input = Input::File(&sound);
        pipeline.prepare_while(task, &input, &parameters, wanted).map(|it| it.rows.len())
    };
    assert_eq!(prepare(&|| true), Ok(1));
    assert_eq!(prepare(&|| false), Err(RowError::Stopped));
}

/// What the log says of such a folder with a graph whose outputs have these names and numbers of dimensions.
fn described(
    files: &[(&str, &str)],
    inputs: &[(&str, usize)],
    outputs: &[(&str, usize)],
) -> String {
    let mut graph = graph(inputs, 2);
    let output = |&(name, rank): &(&str, usize)| tensor(name, DataType::Fp32, &vec![None; rank]);
    graph.outputs = outputs.iter().map(output).collect();
    match open_with(&folder(files).0, &Overrides::default(), &graph, &[]).unwrap() {
        Opened::Pipeline(pipeline) => pipeline.describe(),
        Opened::Tensors(reason) => panic!("{reason}"),
    }
}

#[test]
fn an_output_that_is_taken_for_its_shape_is_named_where_the_folder_is_described() {
    let said = "; its output 'second' is taken for its shape";
    let outputs = [("first", 3), ("second", 2)];
    let image = config("ViTForImageClassification");
    let found = described(&files(&image, IMAGES), &[PIXELS], &outputs);
    assert!(found.ends_with(&format!("graph takes pixel_values{said}")), "{found}");
    let text = [("config.json", r#"{"architectures": ["BertForSequenceClassification"]}"#)];
    let ids = [("input_ids", 2), ("attention_mask", 2)];
    let found = described(&text, &ids, &outputs);
    assert!(found.ends_with(&format!("graph takes input_ids, attention_mask{said}")), "{found}");
    let sound = config("Wav2Vec2ForAudioClassification");
    let found = described(&files(&sound, SOUNDS), &[SAMPLES], &[("second", 2), ("third", 3)]);
    assert!(found.ends_with(&format!("graph takes input_values{said}")), "{found}");
    // One that has the name is taken without a word.
    let found = described(&text, &ids, &[("first", 2), ("logits", 2)]);
    assert!(found.ends_with("graph takes input_ids, attention_mask"), "{found}");
}
