//! Folders of image models and single graphs of Ultralytics' exports, served as they are: every picture of the
//! fixtures, against what transformers and Ultralytics' rules say. `tests/fixtures/pipelines/make.py` makes both.

use std::{fs, io::Write, path::Path};

use serde_json::{Value, json};

use crate::support::{
    Client, Repository, Server, Start,
    pipelines::{agrees, fixtures, repository},
};

/// A picture of the fixtures as a file.
pub fn picture(name: &str) -> Vec<u8> {
    fs::read(fixtures().join("pictures").join(name)).unwrap()
}

/// A request of KServe v2 with that image behind its JSON, and what the model says of it.
pub fn ask(
    client: &mut Client,
    model: &str,
    image: &[u8],
    parameters: &Value,
) -> crate::support::Reply {
    ask_of_file(client, model, ("image", image), parameters)
}

/// The same with a file for the input of that name.
pub fn ask_of_file(
    client: &mut Client,
    model: &str,
    (input, file): (&str, &[u8]),
    parameters: &Value,
) -> crate::support::Reply {
    let size = file.len() + 4;
    let head = json!({
        "inputs": [{"name": input, "shape": [1, 1], "datatype": "BYTES",
                    "parameters": {"binary_data_size": size}}],
        "outputs": [{"name": "result", "parameters": {"binary_data": false}}],
        "parameters": parameters,
    })
    .to_string();
    let mut body = head.clone().into_bytes();
    body.extend(u32::try_from(file.len()).unwrap().to_le_bytes());
    body.extend(file);
    let length = head.len().to_string();
    let headers = [
        ("content-type", "application/octet-stream"),
        ("inference-header-content-length", length.as_str()),
    ];
    client.post(&format!("/v2/models/{model}/infer"), &headers, body)
}

/// The output `result` of a reply.
pub fn said(reply: &crate::support::Reply) -> Value {
    let text = reply.json()["outputs"][0]["data"][0].as_str().unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

/// Asks a model about every picture of its fixture; how many there were.
pub fn replay(client: &mut Client, model: &str) -> usize {
    let cases = fs::read_to_string(fixtures().join(model).join("expected.jsonl")).unwrap();
    let mut asked = 0;
    for case in cases.lines().map(|it| serde_json::from_str::<Value>(it).unwrap()) {
        let image = picture(case["picture"].as_str().unwrap());
        // Lists are written as JSON.
        let as_text = |it: &Value| if it.is_array() { json!(it.to_string()) } else { it.clone() };
        let given = case["parameters"].as_object().unwrap();
        let given = given.iter().map(|(name, it)| (name.clone(), as_text(it))).collect();
        let reply = ask(client, model, &image, &Value::Object(given)).expect(200);
        let given = said(&reply);
        assert!(agrees(&given, &case["reply"]), "{model}, {}: {given}", case["case"]);
        asked += 1;
    }
    asked
}

/// Models of these fixtures that are a graph and nothing else.
pub fn graphs(names: &[&str]) -> Repository {
    names.iter().fold(Repository::new(), |repository, name| {
        let mut files = fs::read_dir(fixtures().join(name)).unwrap().map(|it| it.unwrap().path());
        let graph = files.find(|it| it.extension().is_some_and(|it| it == "onnx")).unwrap();
        repository.file(&format!("{name}/1/model.onnx"), fs::read(graph).unwrap())
    })
}

#[test]
fn an_image_is_classified_and_becomes_vectors_as_by_the_pipeline() {
    let server = Server::start(&repository(&["vit", "dinov2"]), &[]);
    let mut client = server.client();
    assert!(16 <= replay(&mut client, "vit"));
    assert!(8 <= replay(&mut client, "dinov2"));
}

#[test]
fn a_graph_says_itself_how_its_pixels_lie_and_of_which_type_they_are() {
    let names = ["vit-nhwc", "vit-uint8", "vit-fp16"];
    let server = Server::start(&repository(&names), &[]);
    let mut client = server.client();
    for name in names {
        assert!(4 <= replay(&mut client, name), "{name}");
    }
}

/// The folder as transformers saves one of a timm model: with no file for the image processor, which is that of the
/// fixtures in timm's words.
pub fn as_of_timm(folder: &Path) {
    fs::remove_file(folder.join("preprocessor_config.json")).unwrap();
    let path = folder.join("config.json");
    let config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let names: Vec<&Value> = config["id2label"].as_object().unwrap().values().collect();
    let config = json!({
        "architectures": ["TimmWrapperForImageClassification"],
        "model_type": "timm_wrapper",
        "num_classes": names.len(),
        "label_names": names,
        "pretrained_cfg": {
            "input_size": [3, 32, 32], "crop_pct": 1.0, "crop_mode": "squash", "interpolation": "bilinear",
            "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5],
        },
    });
    fs::write(path, config.to_string()).unwrap();
}

#[test]
fn a_folder_of_timms_answers_as_its_processor_does_in_a_file_of_its_own() {
    let names = ["vit", "vit-uint8"];
    let repository = repository(&names);
    names.iter().for_each(|name| as_of_timm(&repository.path().join(name)));
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    for name in names {
        assert!(4 <= replay(&mut client, name), "{name}");
    }
}

#[test]
fn boxes_agree() {
    let folders = ["detr", "conditional-detr", "rt-detr", "yolos"];
    let server = Server::start(&repository(&folders), &[]);
    let mut client = server.client();
    for folder in folders {
        assert!(12 <= replay(&mut client, folder));
    }
}

#[test]
fn a_yolo_file_needs_nothing_else() {
    let names = ["yolo", "yolo-v5", "yolo-end2end"];
    let server = Server::start(&graphs(&names), &[]);
    let mut client = server.client();
    for name in names {
        assert!(24 <= replay(&mut client, name));
    }
}

#[test]
fn a_yolo_file_is_served_by_its_path() {
    let models = graphs(&["yolo"]);
    let file = models.path().join("yolo.onnx");
    fs::copy(models.path().join("yolo/1/model.onnx"), &file).unwrap();
    let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    let server = Start::command(&["serve", &file.display().to_string()]).flags(&ports).run();
    assert!(24 <= replay(&mut server.client(), "yolo"));
}

#[test]
fn what_operators_write_beside_a_graph_bounds_its_pictures_and_its_boxes() {
    let bounded = |name: &str, text: &str| graphs(&["yolo"]).file(name, text);
    let boxes = |server: &Server, parameters: Value| {
        let reply = ask(&mut server.client(), "yolo", &picture("96x64.png"), &parameters);
        said(&reply.expect(200)).as_array().unwrap().clone()
    };
    let usual = boxes(&Server::start(&graphs(&["yolo"]), &[]), json!({}));
    assert!(2 < usual.len(), "{usual:?}");
    // In the folder of the version, or in that of the model.
    for name in ["yolo/1/muster.json", "yolo/muster.json"] {
        let server = Server::start(&bounded(name, r#"{"max_detections": 2, "iou": 0.5}"#), &[]);
        assert_eq!(boxes(&server, json!({})), usual[..2], "{name}");
        let all = json!({"max_detections": 300, "iou": 0.7});
        assert_eq!(boxes(&server, all), usual, "a request says otherwise");
    }
    let small = bounded("yolo/1/muster.json", r#"{"max_image_pixels": 4096}"#);
    let server = Server::start(&small, &[]);
    let refused = ask(&mut server.client(), "yolo", &picture("96x64.png"), &json!({})).error(400);
    assert!(refused.contains("expected at most 4096 pixels"), "{refused}");
    // A flag counts more.
    let server = Server::start(&small, &["--max-image-pixels=10000"]);
    assert_eq!(boxes(&server, json!({})), usual);
    let wrong = bounded("yolo/1/muster.json", r#"{"iou": 1.5}"#);
    let error = Start::new(&wrong).try_run().err().unwrap().to_string();
    assert!(error.contains("muster.json: iou: it is 1.5, not a number from 0 to 1"), "{error}");
}

#[test]
fn what_is_no_image_or_too_large_a_one_is_refused_and_harms_nobody() {
    let server = Server::start(&repository(&["vit"]), &["--max-image-pixels", "4096"]);
    let mut client = server.client();
    let none = json!({});
    let good = picture("64x64.png");
    let cut = &good[..good.len() / 2];
    let mut bomb = good.clone();
    // Width and height of the header chunk, whose checksum is not wrong by that alone.
    bomb[16..24].copy_from_slice(&[0, 0, 255, 255, 0, 0, 255, 255]);
    for (image, problem) in [
        (&b"no image"[..], "the bytes are no image"),
        (cut, "the PNG image is broken"),
        (&bomb, "65535 x 65535 pixels, expected at most 4096"),
        (&picture("96x64.png"), "expected at most 4096 pixels"),
    ] {
        let error = ask(&mut client, "vit", image, &none).error(400);
        assert!(error.contains(problem), "{error}");
    }
    let unknown = json!({"top_k": 1, "threshold": 0.5});
    let error = ask(&mut client, "vit", &good, &unknown).error(400);
    assert!(error.contains("'threshold'"), "{error}");
    said(&ask(&mut client, "vit", &good, &none).expect(200));
}

/// The checksum of a chunk of PNG: CRC-32.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { 0xEDB8_8320 ^ (sum >> 1) } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, it| (0..8).fold(sum ^ u32::from(*it), step))
}

/// A PNG of one row of so many black pixels.
fn line(pixels: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        png.extend((data.len() as u32).to_be_bytes());
        png.extend(name);
        png.extend(data);
        png.extend(checksum(&[&name[..], data].concat()).to_be_bytes());
    };
    let size = [pixels.to_be_bytes(), 1u32.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[1, 0, 0, 0, 0]].concat());
    let row = vec![0u8; 1 + pixels.div_ceil(8) as usize];
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&row).unwrap();
    chunk(b"IDAT", &packed.finish().unwrap());
    chunk(b"IEND", &[]);
    png
}

#[test]
fn a_line_of_pixels_is_refused_before_it_becomes_a_very_large_image() {
    let server = Server::start(&repository(&["dinov2"]), &[]);
    let mut client = server.client();
    // The shorter side becomes 40 pixels.
    for (pixels, problem) in [(100_000, "at most 100000000 in all"), (200_000, "sides of at most")]
    {
        let error = ask(&mut client, "dinov2", &line(pixels), &json!({})).error(400);
        assert!(error.contains(problem), "{error}");
    }
    ask(&mut client, "dinov2", &line(1_000), &json!({"pool": true})).expect(200);
}

#[test]
fn labels_of_the_request_are_compared_with_the_image_as_by_the_pipeline() {
    let server = Server::start(&repository(&["clip", "siglip"]), &[]);
    let mut client = server.client();
    for model in ["clip", "siglip"] {
        assert!(12 <= replay(&mut client, model));
    }
    // Of 70 labels the last six are of a second run.
    let labels: Vec<String> = (0..70).map(|it| format!("cat {it}")).collect();
    let ask = |client: &mut Client, labels: &[String]| {
        let parameters = json!({"candidate_labels": json!(labels).to_string()});
        said(&ask(client, "siglip", &picture("64x64.png"), &parameters).expect(200))
    };
    let (all, last) = (ask(&mut client, &labels), ask(&mut client, &labels[69..]));
    assert_eq!(all.as_array().unwrap().len(), 70);
    let found = all.as_array().unwrap().iter().find(|it| it["label"] == "cat 69").unwrap();
    assert!(agrees(&json!([found]), &last), "{found}, {last}");
}

#[test]
fn what_is_wrong_with_labels_is_said() {
    let server = Server::start(&repository(&["clip"]), &[]);
    let mut client = server.client();
    let long = json!(["cat ".repeat(60)]).to_string();
    for (parameters, problem) in [
        (json!({}), "parameters.candidate_labels: expected the classes"),
        (
            json!({"candidate_labels": "cat", "hypothesis_template": "a cat"}),
            "'hypothesis_template': it has no {}",
        ),
        (json!({"candidate_labels": long}), "has 133 tokens, the model takes 40"),
        (json!({"candidate_labels": "cat", "top_k": 1}), "'top_k'"),
    ] {
        let error = ask(&mut client, "clip", &picture("64x64.png"), &parameters).error(400);
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn rt_detr_of_ultralytics_gives_boxes_of_the_image_as_it_was_sent() {
    let folder = "tests/fixtures/converted";
    let names = ["rtdetr_best", "rtdetr_scores", "unknown_head"];
    let repository = names.into_iter().fold(Repository::new(), |it, name| {
        it.copy(&format!("{name}/1/model.onnx"), &format!("{folder}/{name}/1/model.onnx"))
    });
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    let found = |label: &str, [xmin, ymin, xmax, ymax]: [i32; 4]| json!([label, {"xmin": xmin, "ymin": ymin, "xmax": xmax, "ymax": ymax}]);
    let expected = [found("b", [28, 16, 67, 48]), found("a", [9, 12, 28, 51])];
    for name in ["rtdetr_best", "rtdetr_scores"] {
        let reply = ask(&mut client, name, &picture("96x64.png"), &json!({})).expect(200);
        let boxes: Vec<Value> = said(&reply)
            .as_array()
            .unwrap()
            .iter()
            .map(|it| json!([it["label"], it["box"]]))
            .collect();
        assert_eq!(boxes, expected, "{name}");
    }
    // What its head gives is not known: it is served as it is.
    let metadata = server.get("/v2/models/unknown_head").expect(200).json();
    assert_eq!(metadata["inputs"][0]["name"], "images");
}
