//! The picture of a request, in every form that clients of it send: each is answered alike.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{
    Client, Repository, Server,
    pipelines::{agrees, fixtures, repository},
    root, skip,
};

const HUB: &str = "/v2/models/vit/pipeline";

#[test]
fn an_image_may_come_in_four_ways() {
    let repository = repository(&["vit"]);
    let server = Server::start(&repository, &[]);
    let mut client = Client::connect(server.sagemaker());
    let picture = std::fs::read(fixtures().join("pictures/64x64.png")).unwrap();
    let encoded = STANDARD.encode(&picture);
    let ask = |client: &mut Client, path: &str, content_type: &str, body: Vec<u8>| -> Value {
        let headers = [("content-type", content_type)];
        client.post(path, &headers, body).expect(200).json()
    };
    let expected = ask(&mut client, "/invocations", "image/png", picture.clone());
    assert_eq!(expected.as_array().unwrap().len(), 5);
    for content_type in ["image/jpeg", "application/x-image", "application/octet-stream"] {
        let reply = ask(&mut client, "/invocations", content_type, picture.clone());
        assert!(agrees(&reply, &expected), "{content_type}: {reply}");
        let reply = ask(&mut client, HUB, content_type, picture.clone());
        assert!(agrees(&reply, &expected), "{content_type}: {reply}");
    }
    for inputs in
        [json!(encoded), json!(format!("data:image/png;base64,{encoded}")), json!({"b64": encoded})]
    {
        let body = json!({"inputs": inputs}).to_string();
        for path in ["/invocations", HUB] {
            let reply = ask(&mut client, path, "application/json", body.clone().into());
            assert!(agrees(&reply, &expected), "{reply}");
        }
    }
    let two = json!({"inputs": [encoded, encoded], "parameters": {"top_k": 1}}).to_string();
    let reply = ask(&mut client, "/invocations", "application/json", two.into());
    assert!(agrees(&reply, &json!([[expected[0]], [expected[0]]])), "{reply}");

    // KServe v2, as binary data behind the JSON.
    let element = [&(picture.len() as u32).to_le_bytes()[..], &picture].concat();
    let head = json!({
        "inputs": [{
            "name": "image", "datatype": "BYTES", "shape": [1, 1],
            "parameters": {"binary_data_size": element.len()},
        }],
        "outputs": [{"name": "label"}, {"name": "score"}],
    });
    let head = head.to_string();
    let length = head.len().to_string();
    let headers = [("inference-header-content-length", length.as_str())];
    let body = [head.as_bytes(), &element].concat();
    let reply = client.post("/v2/models/vit/infer", &headers, body).expect(200).json();
    let is_alike = |labels: &Value, scores: &Value| {
        let of_classes =
            |key: &str| expected.as_array().unwrap().iter().map(|it| it[key].clone()).collect();
        *labels == of_classes("label") && agrees(scores, &of_classes("score"))
    };
    let [label, score] = [0, 1].map(|at| &reply["outputs"][at]["data"]);
    assert!(is_alike(label, score), "{reply}");

    // TensorFlow Serving's, and generate.
    let body = json!({"instances": [{"b64": encoded}]}).to_string();
    let reply = client.post("/v1/models/vit:predict", &[], body).expect(200).json();
    let row = &reply["predictions"][0];
    assert!(is_alike(&row["label"], &row["score"]), "{reply}");
    let body = json!({"image": encoded}).to_string();
    let reply = client.post("/v2/models/vit/generate", &[], body).expect(200).json();
    assert!(is_alike(&reply["label"], &reply["score"]), "{reply}");
}

#[test]
fn a_picture_has_one_answer_in_every_format() {
    let server = Server::start(&repository(&["vit"]), &[]);
    // By libjpeg-turbo the pixels are Pillow's. The decoder inside differs by a few levels.
    let of_jpeg = if jpeg(&server, "vit") == INSIDE { 7e-3 } else { 0.0 };
    let mut client = Client::connect(server.sagemaker());
    let mut ask = |name: &str, content_type: &str| -> Value {
        let file = std::fs::read(root("backends/image/tests/golden/files").join(name)).unwrap();
        let headers = [("content-type", content_type)];
        client.post("/invocations", &headers, file).expect(200).json()
    };
    let score = |it: &Value| it["score"].as_f64().unwrap();
    // Files of each list have the same pixels.
    for (files, tolerance) in [
        (&[("RGB.bmp", "bmp"), ("RGB-tiff_lzw.tiff", "tiff"), ("lossless.webp", "webp")][..], 0.0),
        (&[("P.bmp", "bmp"), ("P.gif", "gif"), ("P-plain.tiff", "tiff")], 0.0),
        (&[("444-q75.jpg.expected.png", "png"), ("444-q75.jpg", "jpeg")], of_jpeg),
    ] {
        let expected = ask(files[0].0, "application/x-image");
        assert_eq!(expected.as_array().unwrap().len(), 5);
        for (name, format) in files {
            let reply = ask(name, &format!("image/{format}"));
            let classes = reply.as_array().unwrap().iter().zip(expected.as_array().unwrap());
            for (given, expected) in classes {
                let is_near = (score(given) - score(expected)).abs() <= tolerance;
                assert!(is_near && given["label"] == expected["label"], "{name}: {reply}");
            }
        }
    }
}

/// The decoder that needs no library.
const INSIDE: &str = "zune-jpeg";

/// What decodes JPEG for a model.
fn jpeg(server: &Server, model: &str) -> String {
    let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
    metadata["parameters"]["jpeg"].as_str().unwrap().to_owned()
}

#[test]
fn a_jpeg_has_the_same_label_by_either_decoder_and_scores_that_are_near() {
    let picture = std::fs::read(root("model_repository/shapes/star.jpg")).unwrap();
    let scores = |flags: &[&str]| -> (String, Vec<(String, f64)>) {
        let repository = Repository::new().copy("shapes", "model_repository/shapes");
        let server = Server::start(&repository, flags);
        let mut client = Client::connect(server.sagemaker());
        let reply = client.post("/invocations", &[("content-type", "image/jpeg")], &*picture);
        let reply = reply.expect(200).json();
        let score =
            |it: &Value| (it["label"].as_str().unwrap().to_owned(), it["score"].as_f64().unwrap());
        (jpeg(&server, "shapes"), reply.as_array().unwrap().iter().map(score).collect())
    };
    let (decoder, default) = scores(&[]);
    assert_eq!(default[0].0, "star");
    if decoder == INSIDE {
        return skip("a JPEG by either decoder: there is no libturbojpeg.so.0");
    }
    let (decoder, inside) = scores(&["--jpeg-library=none"]);
    assert_eq!(decoder, INSIDE);
    assert_eq!(default.len(), inside.len());
    for ((label, one), (other_label, other)) in default.iter().zip(&inside) {
        assert!(label == other_label && (one - other).abs() <= 1e-3, "{default:?}, {inside:?}");
    }
}

/// A picture of 40 x 30 pixels, as a file and as an array.
fn picture() -> (Vec<u8>, Vec<u8>) {
    let (width, height) = (40u32, 30u32);
    let pixels: Vec<[u8; 3]> = (0..width * height)
        .map(|it| [(it % width * 6) as u8, (it / width * 8) as u8, (it * 7 % 251) as u8])
        .collect();
    let mut bmp = b"BM".to_vec();
    for value in [54 + width * height * 3, 0, 54, 40, width, height, 1 | 24 << 16] {
        bmp.extend(value.to_le_bytes());
    }
    bmp.resize(54, 0);
    for row in pixels.chunks(width as usize).rev() {
        row.iter().for_each(|[red, green, blue]| bmp.extend([*blue, *green, *red]));
    }
    (bmp, array("|u1", "(30, 40, 3)", &pixels.concat()))
}

/// A file of NumPy's.
pub fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], text.as_bytes(), data].concat()
}

#[test]
fn an_array_of_pixels_is_an_image_that_is_decoded_already() {
    let server = Server::start(&repository(&["vit"]), &["--max-image-pixels", "1200"]);
    let mut client = Client::connect(server.sagemaker());
    let (file, array_of_one) = picture();
    let mut ask = |content_type: &str, body: &[u8]| {
        client.post("/invocations", &[("content-type", content_type)], body)
    };
    let expected = ask("image/bmp", &file).expect(200).json();
    assert_eq!(expected.as_array().unwrap().len(), 5);
    for content_type in ["application/x-npy", "application/octet-stream"] {
        assert_eq!(ask(content_type, &array_of_one).expect(200).json(), expected);
    }
    let pixels = &array_of_one[array_of_one.len() - 3600..];
    let two = array("|u1", "(2, 30, 40, 3)", &[pixels, pixels].concat());
    let reply = ask("application/x-npy", &two).expect(200).json();
    assert_eq!(reply, json!([expected, expected]));
    // As of a file.
    let large = array("|u1", "(61, 20, 3)", &[0; 3660]);
    let problem = ask("application/x-npy", &large).error(400);
    assert!(problem.contains("20 x 61 pixels, expected at most 1200"), "{problem}");
    let floats = array("<f4", "(1, 1, 3)", &[0; 12]);
    let problem = ask("application/x-npy", &floats).error(400);
    assert!(problem.contains("expected UINT8 [height, width, 3]"), "{problem}");
}

#[test]
fn a_string_of_json_in_the_place_of_a_file_says_how_to_send_one() {
    let server = Server::start(&repository(&["vit"]), &[]);
    let mut client = server.client();
    let base64 = STANDARD.encode(picture().0);
    let input = json!({"name": "image", "datatype": "BYTES", "shape": [1, 1], "data": [base64]});
    let body = json!({"inputs": [input]}).to_string();
    let problem = client.post("/v2/models/vit/infer", &[], body).error(400);
    for part in ["input 'image': element 0", "binary_data_size", "/v2/models/vit/pipeline"] {
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn labels_stand_beside_the_image() {
    let server = Server::start(&repository(&["clip"]), &[]);
    let mut client = Client::connect(server.sagemaker());
    let cases = std::fs::read_to_string(fixtures().join("clip/expected.jsonl")).unwrap();
    let case: Value = serde_json::from_str(cases.lines().nth(1).unwrap()).unwrap();
    let picture = fixtures().join("pictures").join(case["picture"].as_str().unwrap());
    let inputs = STANDARD.encode(std::fs::read(picture).unwrap());
    let body = json!({"inputs": inputs, "parameters": case["parameters"]}).to_string();
    for path in ["/invocations", "/v2/models/clip", "/pipeline/zero-shot-image-classification/clip"]
    {
        let headers = [("content-type", "application/json")];
        let reply = client.post(path, &headers, body.clone()).expect(200).json();
        assert!(agrees(&reply, &case["reply"]), "{path}: {reply}");
    }
}

#[test]
fn what_is_no_image_is_refused_by_what_it_is() {
    let repository = repository(&["vit"]);
    let server = Server::start(&repository, &[]);
    let mut client = Client::connect(server.sagemaker());
    let mut refused = |content_type: &str, body: &str, status: u16, part: &str| {
        let headers = [("content-type", content_type)];
        let problem = client.post("/invocations", &headers, body).error(status);
        assert!(problem.contains(part), "{problem}");
    };
    refused("text/plain", "a tiger", 415, "takes an image");
    refused("audio/wav", "RIFF....WAVE", 415, "takes an image");
    refused("application/json", r#"{"inputs":"https://x/y.jpg"}"#, 400, "nothing is fetched");
    refused("application/json", r#"{"inputs":"tiger.jpg"}"#, 400, "as base64");
    // The file of another medium as base64 is a file that cannot be decoded.
    let sound = json!({"inputs": STANDARD.encode(b"RIFF....WAVEfmt ")}).to_string();
    refused("application/json", &sound, 400, "the bytes are no image: it is a sound, WAV");
}

#[test]
fn the_image_algorithms_forms_of_classes() {
    let picture = std::fs::read(fixtures().join("pictures/96x64.png")).unwrap();
    let repository = repository(&["vit"]);
    let config = std::fs::read(repository.path().join("vit/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let labels: Vec<&Value> = config["id2label"].as_object().unwrap().values().collect();
    let all = {
        let server = Server::start(&repository, &[]);
        let ask = |accept: &str| {
            let headers = [("content-type", "image/png"), ("accept", accept)];
            Client::connect(server.sagemaker())
                .post("/invocations", &headers, &picture)
                .expect(200)
                .json()
        };
        let verbose = ask("application/json;verbose");
        assert_eq!(verbose["labels"], json!(labels));
        let best = &ask("application/json")[0];
        assert_eq!(verbose["predicted_label"], best["label"]);
        let all = verbose["probabilities"].clone();
        let at = labels.iter().position(|it| **it == best["label"]).unwrap();
        assert!(agrees(&all[at], &best["score"]), "{all}, {best}");
        let sum: f64 = all.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{all}");
        all
    };
    let server = Server::start(&repository, &["--sagemaker-dialect=builtin"]);
    let ask = |accept: &str| {
        let headers = [("content-type", "application/x-image"), ("accept", accept)];
        Client::connect(server.sagemaker()).post("/invocations", &headers, &picture).expect(200)
    };
    assert_eq!(ask("application/json").json(), all);
    let lines = ask("application/jsonlines").text();
    let line: Value = serde_json::from_str(lines.strip_suffix('\n').unwrap()).unwrap();
    assert_eq!(line, json!({"prediction": all}));
}

#[test]
fn the_image_algorithms_forms() {
    let picture = std::fs::read(fixtures().join("pictures/96x64.png")).unwrap();
    let headers = [("content-type", "image/png"), ("x-amzn-sagemaker-target-model", "detr")];
    let repository = repository(&["detr"]);
    let ask = |flags: &[&str], accept: &str| -> Value {
        let server = Server::start(&repository, flags);
        let headers = [&headers[..], &[("accept", accept)]].concat();
        server.client().post("/invocations", &headers, &picture).expect(200).json()
    };
    let plain = ask(&[], "application/json");
    let first = &plain[0];
    let whole = [96.0, 64.0, 96.0, 64.0];
    let is_near = |corners: &[Value]| {
        let sides = ["xmin", "ymin", "xmax", "ymax"].map(|it| first["box"][it].as_f64().unwrap());
        corners.iter().zip(sides).zip(whole).all(|((part, side), whole)| {
            (part.as_f64().unwrap() * whole - side.clamp(0.0, whole)).abs() < 1.0
        })
    };
    let built_in = ask(&["--sagemaker-dialect", "builtin"], "application/json");
    let found = built_in["prediction"][0].as_array().unwrap();
    assert_eq!(found.len(), 6, "{built_in}");
    assert!(agrees(&found[1], &first["score"]) && is_near(&found[2..]), "{found:?}, {first}");
    let verbose = ask(&[], "application/json;verbose");
    let corners = verbose["normalized_boxes"][0].as_array().unwrap();
    assert!(is_near(corners), "{verbose}, {first}");
    assert_eq!(verbose["scores"].as_array().unwrap().len(), plain.as_array().unwrap().len());
    let labels = verbose["labels"].as_array().unwrap();
    assert!(labels.contains(&first["label"]), "{verbose}");
}

#[test]
fn who_sends_what_a_model_does_not_take_is_told_what_it_takes() {
    let repository = repository(&["vit"]).with_identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    for (content_type, sent) in [
        ("image/png", "images"),
        ("audio/wav", "sounds"),
        ("application/json", "texts, images or sounds"),
    ] {
        let headers = [("content-type", content_type)];
        let told = client.post("/v2/models/copy/pipeline", &headers, "{}").error(400);
        let takes = format!("model 'copy' takes tensors, and no {sent}");
        assert_eq!(told, format!("{takes}; ask for it at /v2/models/copy/infer"));
    }
    let takes = "model 'vit' is no model of texts: it takes the file of an image";
    let does = "it does image-classification at /v2/models/vit/pipeline";
    let info = client.get("/v2/models/vit/info").expect(424).json();
    let tokens = client.post("/v2/models/vit/tokenize", &[], r#"{"inputs":"a"}"#);
    for reply in [info, tokens.expect(424).json()] {
        assert_eq!(reply["error"], format!("{takes}; {does}"));
    }
}
