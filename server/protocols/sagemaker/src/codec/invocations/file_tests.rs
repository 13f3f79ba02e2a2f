//! Images and sounds as bodies of `/invocations`, and in JSON.

use backend::{Shape, Tensor};
use bytes::Bytes;

use super::*;
use formats::samples::{body as text_of, image_model, only, pipeline, show, sound_model};
use inference::{error::Kind, task::Task};

fn encode(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    super::encode(format, signature, response, &Grant::all(0))
}

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 and more";
/// The same in base64.
const BASE64: &str = "/9j/4CBhbmQgbW9yZQ==";
const WAV: &[u8] = b"RIFF\x04\0\0\0WAVE";

fn ask(
    signature: &Signature,
    content_type: &str,
    accept: &str,
    body: &[u8],
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    let invocation = Invocation::read(Some(content_type), Some(accept), None).unwrap();
    decode(
        signature,
        &invocation,
        &Options::default(),
        Bytes::copy_from_slice(body),
        &Grant::all(0),
    )
}

/// The images that are read of a body.
#[track_caller]
fn images(content_type: &str, body: &[u8]) -> Vec<Vec<u8>> {
    let (request, _) = ask(&image_model(), content_type, "", body).unwrap();
    let [input] = request.inputs.as_slice() else { panic!("{:?}", request.inputs) };
    assert_eq!(&*input.name, "image");
    let rows = input.tensor.elements();
    assert_eq!(input.tensor.shape(), &Shape::new(&[rows, 1]));
    input.tensor.strings().map(<[u8]>::to_vec).collect()
}

#[test]
fn a_file_is_an_input_under_any_of_its_types_and_under_none() {
    for content_type in [
        "image/jpeg",
        "image/png",
        "application/x-image",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "",
    ] {
        assert_eq!(images(content_type, JPEG), [JPEG], "{content_type}");
    }
    // What it is, its decoder says.
    assert_eq!(images("application/octet-stream", b"neither"), [b"neither"]);
    for content_type in ["audio/wav", "audio/x-flac", "audio/mpeg", "application/x-audio", ""] {
        let (request, _) = ask(&sound_model(), content_type, "", WAV).unwrap();
        assert_eq!(request.inputs[0].tensor.strings().next(), Some(WAV), "{content_type}");
        assert_eq!(&*request.inputs[0].name, "audio");
    }
}

#[test]
fn files_in_json_are_base64() {
    let json = "application/json";
    let read = |body: &str| images(json, body.replace('@', BASE64).as_bytes());
    for one in [
        r#"{"inputs": "@"}"#,
        r#"{"inputs": "data:image/jpeg;base64,@"}"#,
        r#"{"inputs": {"b64": "@"}}"#,
        r#"{"inputs": {"image": "@"}, "parameters": {"top_k": 3}}"#,
        r#"{"instances": [{"b64": "@"}]}"#,
        r#"{"instances": [{"image": {"b64": "@"}}]}"#,
        r#"{"instances": ["@"]}"#,
        r#"{"image": "@"}"#,
        r#"["@"]"#,
    ] {
        assert_eq!(read(one), [JPEG], "{one}");
    }
    for two in [
        r#"{"inputs": ["@", "data:;base64,@"]}"#,
        r#"{"inputs": [{"b64": "@"}, {"b64": "@"}]}"#,
        r#"{"instances": [{"image": {"b64": "@"}}, {"image": {"b64": "@"}}]}"#,
    ] {
        assert_eq!(read(two), [JPEG, JPEG], "{two}");
    }
    let lines = format!("{{\"inputs\":\"{BASE64}\"}}\n{{\"inputs\":\"{BASE64}\"}}\n");
    assert_eq!(images("application/jsonlines", lines.as_bytes()), [JPEG, JPEG]);
    let (request, _) = ask(
        &image_model(),
        json,
        "",
        format!(r#"{{"inputs":"{BASE64}","parameters":{{"top_k":3}}}}"#).as_bytes(),
    )
    .unwrap();
    assert_eq!(&*request.parameters[0].0, "top_k");
}

#[test]
fn a_model_of_texts_takes_strings_as_they_are() {
    let texts = pipeline(Task::TextClassification, &["text BYTES [1]"], &["result BYTES [1]"]);
    let (request, _) = ask(&texts, "application/json", "", br#"{"inputs": "/9j/"}"#).unwrap();
    assert_eq!(show(&request), "text BYTES [1,1] [\"/9j/\"]\n");
}

#[track_caller]
fn refused(signature: &Signature, content_type: &str, body: &[u8], kind: Kind, part: &str) {
    let error = ask(signature, content_type, "", body).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(part), "{text}");
}

/// A file of NumPy's with that type and shape.
fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], text.as_bytes(), data].concat()
}

#[test]
fn arrays_are_images_and_sounds_that_are_decoded_already() {
    let pixels: Vec<u8> = (0..24).collect();
    for content_type in ["application/x-npy", "application/octet-stream", ""] {
        let one = images(content_type, &array("|u1", "(4, 2, 3)", &pixels));
        let [tiff] = one.as_slice() else { panic!("{one:?}") };
        assert!(tiff.starts_with(b"II*\0") && tiff[128..] == pixels, "{tiff:?}");
    }
    let both = images("application/x-npy", &array("|u1", "(2, 2, 2, 3)", &pixels));
    assert_eq!(
        both.iter().map(|it| &it[128..]).collect::<Vec<_>>(),
        [&pixels[..12], &pixels[12..]]
    );
    let samples: Vec<u8> = [0.5f32, -1.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let doubles: Vec<u8> = [0.5f64, -1.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    for body in [array("<f4", "(2,)", &samples), array("<f8", "(2,)", &doubles)] {
        let (request, _) = ask(&sound_model(), "application/x-npy", "", &body).unwrap();
        let wav = request.inputs[0].tensor.strings().next().unwrap();
        assert!(wav.starts_with(b"RIFF") && wav[24..28] == 16_000u32.to_le_bytes());
        assert_eq!(wav[44..], samples);
    }
}

#[test]
fn other_arrays_are_refused_with_the_ones_that_are_taken() {
    let wrong = |signature: &Signature, body: &[u8], part| {
        refused(signature, "application/x-npy", body, Kind::InvalidArgument, part);
    };
    let (image, sound) = (image_model(), sound_model());
    let floats = array("<f4", "(1, 1, 3)", &[0; 12]);
    wrong(&image, &floats, "expected UINT8 [height, width, 3], or [n, height, width, 3]");
    wrong(&image, &floats, "found FP32 [1,1,3]");
    wrong(&image, &array("|u1", "(2, 2)", &[0; 4]), "found UINT8 [2,2]");
    wrong(&image, &array("|u1", "(1000000, 0, 4, 3)", &[]), "[1000000,0,4,3] has no elements");
    wrong(&image, &array("|u1", "(2, 2, 3)", &[0; 11]), "takes 12 bytes");
    wrong(&sound, &array("<i2", "(2,)", &[0; 4]), "expected FP32 [samples] at the rate");
    wrong(&sound, &array("<f4", "(1, 2)", &[0; 8]), "found FP32 [1,2]");
    wrong(&image, b"\x93NUMPY", "npy: the file ends");
}

#[test]
fn arrays_take_no_more_than_was_announced() {
    let many = array("|u1", "(4096, 1, 1, 3)", &[7; 3 * 4096]);
    let halves = array("<f2", "(4096,)", &[0; 2 * 4096]);
    for (signature, body) in [(image_model(), many), (sound_model(), halves)] {
        let invocation = Invocation::read(Some("application/x-npy"), None, None).unwrap();
        let (grant, options) = (Grant::all(0), Options::default());
        let decoded = decode(&signature, &invocation, &options, body.clone().into(), &grant);
        let ((request, _), room) = (decoded.unwrap(), grant.granted());
        let taken: usize = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
        assert!(taken <= room && room <= taken + body.len() + 32_768, "{taken} {room}");
    }
}

#[test]
fn what_is_no_base64_is_refused_with_its_place() {
    let wrong = |body: &[u8], part| {
        refused(&image_model(), "application/json", body, Kind::InvalidArgument, part);
    };
    wrong(br#"{"inputs": "tiger.jpg"}"#, "inputs: expected the bytes of a file as base64: Invalid");
    wrong(br#"{"inputs": ["/9j/", "?"]}"#, "inputs[1]: expected the bytes of a file as base64");
    wrong(br#"{"inputs": "https://x/y.jpg"}"#, "nothing is fetched for a request");
    wrong(br#"{"inputs": {"b64": "s3://x/y.jpg"}}"#, "nothing is fetched for a request");
    wrong(br#"{"inputs": ""}"#, "found an empty string");
    wrong(br#"{"inputs": 5}"#, "inputs: expected a string");
}

#[test]
fn a_body_of_another_medium_is_refused_with_what_the_model_takes() {
    let unsupported = |signature: &Signature, content_type, body: &[u8], part| {
        refused(signature, content_type, body, Kind::UnsupportedMediaType, part);
    };
    let (image, sound) = (image_model(), sound_model());
    let texts = pipeline(Task::TextClassification, &["text BYTES [1]"], &["result BYTES [1]"]);
    unsupported(&image, "text/plain", b"a tiger", "model 'm' takes an image; send image/*");
    unsupported(&image, "text/csv", b"inputs\na\n", "model 'm' takes an image");
    unsupported(&image, "audio/wav", WAV, "content type 'audio/wav': model 'm' takes an image");
    unsupported(&image, "", WAV, "the body is the file of a sound: model 'm' takes an image");
    unsupported(&sound, "image/png", JPEG, "model 'm' takes a sound; send audio/*");
    unsupported(&texts, "image/jpeg", JPEG, "model 'm' takes a text; send text/plain");
    unsupported(&texts, "", JPEG, "the body is the file of an image: model 'm' takes a text");
}

#[test]
fn the_reply_is_what_the_pipeline_says_of_the_file() {
    let says = |content_type: &str, accept: &str, body: &[u8], rows: &[&str]| {
        let (_, format) = ask(&image_model(), content_type, accept, body).unwrap();
        let result = Tensor::from_strings(Shape::new(&[rows.len(), 1]), rows).unwrap();
        text_of(&encode(&format, &image_model(), &only("result", result)).unwrap())
    };
    let one = r#"[{"label":"tiger","score":0.9}]"#;
    assert_eq!(says("image/jpeg", "", JPEG, &[one]), one);
    let body = format!(r#"{{"inputs":"{BASE64}"}}"#);
    assert_eq!(says("application/json", "", body.as_bytes(), &[one]), one);
    let two = format!(r#"{{"inputs":["{BASE64}","{BASE64}"]}}"#);
    let both = format!("[{one},{one}]");
    assert_eq!(says("application/json", "", two.as_bytes(), &[one, one]), both);
    assert_eq!(says("image/jpeg", "application/jsonlines", JPEG, &[one]), format!("{one}\n"));
}

#[test]
fn decoding_takes_no_more_than_was_announced() {
    let body = format!(r#"{{"inputs":"{}"}}"#, "A".repeat(1 << 16));
    let invocation = Invocation::read(Some("application/json"), None, None).unwrap();
    let options = Options::default();
    let (grant, length) = (Grant::all(0), body.len());
    let decoded = decode(&image_model(), &invocation, &options, body.into(), &grant);
    let ((request, _), room) = (decoded.unwrap(), grant.granted());
    let taken: usize = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    assert!(taken <= room && room <= 5 * length, "{taken} {room}");
}

fn ask_in(
    dialect: Option<Dialect>,
    content_type: &str,
    accept: &str,
    body: &[u8],
) -> (InferenceRequest, ReplyFormat) {
    let invocation = Invocation::read(Some(content_type), Some(accept), None).unwrap();
    let options = Options { dialect, ..Options::default() };
    decode(&image_model(), &invocation, &options, Bytes::copy_from_slice(body), &Grant::all(0))
        .unwrap()
}

#[test]
fn forms_of_aws_are_had_by_dialect_or_by_asking_for_all() {
    let verbose = "application/json;verbose";
    for (dialect, accept, is_algorithm) in [
        (None, "", false),
        (None, "application/json", false),
        (None, verbose, true),
        (Some(Dialect::HuggingFace), verbose, true),
        (Some(Dialect::BuiltIn), "", true),
        (Some(Dialect::BuiltIn), "application/jsonlines", true),
        (Some(Dialect::BuiltIn), "text/csv", false),
        (Some(Dialect::JumpStart), "application/json", true),
    ] {
        let (request, format) = ask_in(dialect, "image/jpeg", accept, JPEG);
        let found = matches!(format, ReplyFormat::Algorithm(_));
        assert_eq!(found, is_algorithm, "{dialect:?} {accept}");
        let outputs: Vec<&str> = request.outputs.iter().map(AsRef::as_ref).collect();
        match is_algorithm {
            true => assert_eq!(outputs, ["label", "score", "class"]),
            false => assert_eq!(outputs, ["result"], "{accept}"),
        }
    }
    let body = format!(r#"{{"inputs":"{BASE64}","parameters":{{"top_k":1}}}}"#);
    let (request, _) = ask_in(Some(Dialect::BuiltIn), "application/json", "", body.as_bytes());
    assert_eq!(request.parameters, [formats::parameter::all_classes()]);
    // Rows of TensorFlow Serving are answered as such.
    let body = format!(r#"{{"instances":[{{"b64":"{BASE64}"}}]}}"#);
    let (_, format) = ask_in(Some(Dialect::BuiltIn), "application/json", "", body.as_bytes());
    assert_eq!(format, ReplyFormat::Rows);
}
