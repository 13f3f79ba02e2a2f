//! Bodies of `/invocations` in every format, and their replies.

use backend::{DataType, NamedTensor, Shape, Tensor};
use proptest::prelude::*;

use super::*;
use formats::{
    npy,
    samples::{body as text_of, golden, model, only, respond, show},
};
use inference::error::Kind;

fn encode(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    super::encode(format, signature, response, &Grant::all(0))
}

fn decode(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    body: Bytes,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    super::decode(signature, invocation, options, body, &Grant::all(0))
}

const NDJSON: &str = "application/x-ndjson";

fn ask(
    signature: &Signature,
    content_type: &str,
    accept: &str,
    body: &[u8],
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    let body = Bytes::copy_from_slice(body);
    let invocation = Invocation::read(Some(content_type), Some(accept), None).unwrap();
    decode(signature, &invocation, &Options::default(), body)
}

/// A request, what was read of it, and the reply to it.
#[track_caller]
fn check(name: &str, signature: &Signature, content_type: &str, accept: &str, body: &str) {
    let (request, format) = ask(signature, content_type, accept, body.as_bytes()).unwrap();
    let rows = request.inputs[0].tensor.shape().rows().unwrap_or(1);
    let reply = encode(&format, signature, &respond(signature, rows)).unwrap();
    let text = format!(
        "content-type: {content_type}\naccept: {accept}\n\n{body}\n\n{}\n{}\n{}\n",
        show(&request),
        reply.content_type,
        text_of(&reply)
    );
    golden(&format!("sagemaker/{name}.txt"), &text);
}

#[track_caller]
fn refused(signature: &Signature, content_type: &str, body: &[u8], kind: Kind, part: &str) {
    let error = ask(signature, content_type, "", body).unwrap_err();
    assert_eq!(error.kind(), kind);
    let text = error.to_string();
    assert!(text.contains(part), "{text}");
}

fn one() -> Signature {
    model(8, &["x FP32 [2]"], &["y FP32 [2]"])
}

fn two() -> Signature {
    model(8, &["a FP32 [2]", "b INT64 [1]"], &["p FP32 []", "q BYTES [1]"])
}

const V2: &str =
    r#"{"id":"7","inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]}"#;

#[test]
fn kserve_v2_is_known_by_its_content_under_any_type() {
    for content_type in
        ["application/json", "application/octet-stream", "", "text/csv", "image/png"]
    {
        let (request, format) = ask(&one(), content_type, "*/*", V2.as_bytes()).unwrap();
        assert_eq!(request.id.as_deref(), Some("7"));
        assert!(matches!(format, ReplyFormat::KserveV2(_)), "{content_type}");
    }
    check("kserve_v2", &one(), "application/octet-stream", "application/json", V2);
}

#[test]
fn kserve_v2_has_no_other_reply() {
    let error = ask(&one(), "application/json", "text/csv", V2.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), Kind::NotAcceptable);
}

#[test]
fn a_binary_reply_carries_its_header_size_in_the_type() {
    let json = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}}"#;
    let prefix = "application/vnd.sagemaker-triton.binary+json;json-header-size=";
    let body = [json.as_bytes(), &[0; 8]].concat();
    let (request, format) = ask(&one(), &format!("{prefix}{}", json.len()), "", &body).unwrap();
    assert_eq!(show(&request), "x FP32 [1,2] [0.0,0.0]\n");
    let reply = encode(&format, &one(), &respond(&one(), 1)).unwrap();
    let length = reply.body.concat().len() - 8;
    assert_eq!(reply.content_type, format!("{prefix}{length}"));
    assert_eq!((reply.json_length, reply.headers.len()), (None, 0));

    let beyond = format!("{prefix}{}", body.len() + 1);
    refused(&one(), &beyond, &body, Kind::InvalidArgument, "json-header-size: ");
    let (request, _) = ask(&one(), &format!("{prefix}0"), "", &[0; 8]).unwrap();
    assert_eq!(show(&request), "x FP32 [1,2] [0.0,0.0]\n");
}

#[test]
fn tf_serving_rows_and_columns() {
    let json = "application/json; charset=utf-8";
    check("tfs_rows", &one(), json, "", r#"{"instances": [[1, 2], [3, 4]]}"#);
    check("tfs_columns", &two(), json, "*/*", r#"{"inputs": {"a": [[1, 2]], "b": [[3]]}}"#);
    check("tfs_rows_as_csv", &two(), json, "text/csv", r#"{"instances": [{"a": [1, 2], "b": 3}]}"#);
}

#[test]
fn a_bare_list_gets_a_bare_list() {
    check("bare_rows", &one(), "application/json", "", "[[1, 2], [3, 4]]");
    check("bare_one_row", &one(), "application/json", "", " [1, 2]");
    check("bare_objects", &two(), "", "", r#"[{"a": [1, 2], "b": 3}, {"a": [4, 5], "b": 6}]"#);
}

#[test]
fn an_object_of_inputs_is_one_row_or_a_batch() {
    check("named_one_row", &two(), "application/json", "", r#"{"a": [1, 2], "b": 3}"#);
    check("named_batch", &two(), "application/json", "", r#"{"a": [[1, 2], [3, 4]], "b": [5, 6]}"#);
    let problem = "the model's inputs ('a', 'b') as keys, found 'c'";
    refused(&two(), "application/json", br#"{"c": 1}"#, Kind::InvalidArgument, problem);
}

#[test]
fn several_documents_are_rows() {
    check("documents", &one(), "application/json", "", "[1, 2]\n[3, 4]");
    check("documents_objects", &two(), "", "", r#"{"a":[1,2],"b":3}{"a":[4,5],"b":6}"#);
    let garbage = br#"{"instances": [[1, 2]]} x"#;
    refused(&one(), "application/json", garbage, Kind::InvalidArgument, "expected the end");
}

#[test]
fn json_lines_get_json_lines() {
    check("lines", &one(), "application/jsonlines", "", "[1, 2]\n[3, 4]\n");
    check("lines_single", &one(), NDJSON, "", "[[1, 2], [3, 4]]");
    check("lines_as_json", &one(), "application/jsons", "application/json", "[1, 2]");
    check("lines_several_outputs", &two(), NDJSON, "", r#"{"a": [1, 2], "b": 3}"#);
    let scalars = model(8, &["x INT64 [1]"], &["y INT64 [1]"]);
    check("lines_scalars", &scalars, NDJSON, "", "1\n2\n");
}

#[test]
fn csv_gets_csv() {
    check("csv", &one(), "text/csv", "", "1,2\n3,4\n");
    check("csv_several_outputs", &two(), "text/csv;header=absent", "", "1,2,3");
    check("csv_as_json", &one(), "", "application/json", "1,2");
}

#[test]
fn text_in_a_csv_reply_is_quoted_where_it_must_be() {
    let strings = [b"a".as_slice(), b"b,\"c\"", b"d\n", b"\xff"];
    let tensor = Tensor::from_strings(Shape::new(&[2, 2]), strings).unwrap();
    let reply = encode(&ReplyFormat::Csv, &one(), &only("y", tensor)).unwrap();
    assert_eq!(text_of(&reply), "a,\"b,\"\"c\"\"\"\n\"d\n\",/w==\n");
}

#[test]
fn without_batching_a_reply_is_one_row_or_a_matrix() {
    let signature = model(0, &["x FP32 [2]"], &["y FP32 [2]"]);
    check("unbatched_vector", &signature, "text/csv", "", "1,2");
    check("unbatched_vector_bare", &signature, "application/json", "", "[1, 2]");
    let matrix = model(0, &["x FP32 [-1,2]"], &["y FP32 [2,2]"]);
    check("unbatched_matrix", &matrix, "text/csv", "application/jsonlines", "1,2\n3,4");
}

#[test]
fn a_model_of_numbers_answers_numbers() {
    let signature = model(8, &["x! FP32 [1]"], &["y! FP32 [1]"]);
    for (content_type, body, expected) in [
        ("application/json", r#"{"instances": [1, 2]}"#, r#"{"predictions":[0.0,0.5]}"#),
        ("application/json", "[1, 2]", "[0.0,0.5]"),
        ("application/jsonlines", "1\n2\n", "0.0\n0.5\n"),
    ] {
        let (_, format) = ask(&signature, content_type, "", body.as_bytes()).unwrap();
        let reply = encode(&format, &signature, &respond(&signature, 2)).unwrap();
        assert_eq!(text_of(&reply), expected, "{body}");
    }
}

#[test]
fn what_comes_out_says_what_a_row_is() {
    let signature = model(0, &["x FP32 [-1,2]"], &["label INT64 [1]", "scores FP32 [-1,2]"]);
    let label = Tensor::zeros(DataType::Int64, Shape::new(&[3])).unwrap();
    let scores = Tensor::zeros(DataType::Fp32, Shape::new(&[3, 2])).unwrap();
    let mut response = only("label", label);
    response.outputs.push(NamedTensor { name: "scores".into(), tensor: scores });
    response.rows = Some(3);
    let csv = |response: &InferenceResponse| {
        text_of(&encode(&ReplyFormat::Csv, &signature, response).unwrap())
    };
    assert_eq!(csv(&response), "0,0.0,0.0\n".repeat(3));
    // As many numbers as there are boxes in one picture are no rows.
    response.rows = Some(1);
    assert_eq!(csv(&response).lines().count(), 1);
}

#[test]
fn npy_gets_npy() {
    let tensor = Tensor::from_vec(Shape::new(&[1, 2]), vec![1.0f64, 2.0]).unwrap();
    let file = npy::encode(&tensor).unwrap().concat();
    for content_type in ["application/x-npy", "application/octet-stream"] {
        let (request, format) = ask(&one(), content_type, "", &file).unwrap();
        assert_eq!(show(&request), "x FP32 [1,2] [1.0,2.0]\n");
        let reply = encode(&format, &one(), &respond(&one(), 1)).unwrap();
        assert_eq!(reply.content_type, "application/x-npy");
        let reply =
            npy::decode(&one().inputs[0], &reply.body.concat().into(), &Grant::all(0)).unwrap();
        assert_eq!(reply.as_slice_of(), Some([0.0f32, 0.5].as_slice()));
    }
    refused(&two(), "application/x-npy", &file, Kind::InvalidArgument, "the model has 'a', 'b'");
    let to_two = model(8, &["x FP32 [2]"], &["p FP32 []", "q FP32 []"]);
    assert_eq!(ask(&to_two, "application/x-npy", "", &file).unwrap().1, ReplyFormat::Bare);
    assert!(ask(&to_two, "application/x-npy", "application/x-npy", &file).is_err());
}

#[test]
fn a_classifier_answers_its_label_as_csv_and_npy_and_what_the_client_names() {
    let classifier = model(8, &["x FP32 [2]"], &["label INT64 []", "probabilities FP32 [3]"]);
    let wanted = |accept: &str| {
        let (request, format) = ask(&classifier, "text/csv", accept, b"1,2").unwrap();
        (request.outputs.iter().map(|it| it.to_string()).collect::<Vec<_>>(), format)
    };
    let named = |names: &[&str], format| (names.iter().map(|&it| it.to_owned()).collect(), format);
    assert_eq!(wanted(""), named(&["label"], ReplyFormat::Csv));
    assert_eq!(wanted("application/x-npy"), named(&["label"], ReplyFormat::Npy));
    assert_eq!(wanted("application/json"), named(&[], ReplyFormat::Rows));
    let one = "application/x-npy; output=probabilities";
    assert_eq!(wanted(one), named(&["probabilities"], ReplyFormat::Npy));
    let both = "text/csv; output=probabilities; output=label";
    assert_eq!(wanted(both), named(&["probabilities", "label"], ReplyFormat::Csv));
    let json = "application/json; output=label";
    assert_eq!(wanted(json), named(&["label"], ReplyFormat::Rows));
    // Two outputs are no array, nor are labels that are texts.
    let both = "application/x-npy; output=label; output=probabilities";
    ask(&classifier, "text/csv", both, b"1,2").unwrap_err();
    let texts = model(8, &["x FP32 [2]"], &["label BYTES []", "probabilities FP32 [3]"]);
    ask(&texts, "text/csv", "application/x-npy", b"1,2").unwrap_err();
    ask(&texts, "text/csv", one, b"1,2").unwrap();
}

#[test]
fn bytes_without_a_type_are_a_tensor_when_their_number_fits() {
    let (request, format) = ask(&one(), "", "", &[0, 0, 128, 63, 0, 0, 0, 64]).unwrap();
    assert_eq!(show(&request), "x FP32 [1,2] [1.0,2.0]\n");
    assert_eq!(format, ReplyFormat::Bare);
    refused(&one(), "", &[0; 7], Kind::UnsupportedMediaType, "takes 8 bytes, given 7");
    refused(&two(), "", &[0; 8], Kind::UnsupportedMediaType, "the only input");
    let flags = model(8, &["x BOOL [2]"], &[]);
    refused(&flags, "", &[0, 2], Kind::InvalidArgument, "expected bytes of 0 or 1");
}

#[test]
fn other_types_are_named_beside_the_supported_ones() {
    let part = "'text/html' is not supported; supported: application/json";
    refused(&one(), "text/html", b"[1, 2]", Kind::UnsupportedMediaType, part);
    refused(&one(), "text/csv", b"", Kind::InvalidArgument, "the body is empty");
}

#[test]
fn the_default_accept_holds_for_clients_that_take_any() {
    let options = Options { default_accept: Some("text/csv".to_owned()), ..Options::default() };
    let format = |accept, body: &'static str| {
        let invocation = Invocation::read(None, accept, None).unwrap();
        decode(&one(), &invocation, &options, Bytes::from_static(body.as_bytes())).unwrap().1
    };
    assert_eq!(format(None, "[1, 2]"), ReplyFormat::Csv);
    assert_eq!(format(Some("application/json"), "[1, 2]"), ReplyFormat::Bare);
    assert!(matches!(format(Some("*/*"), V2), ReplyFormat::KserveV2(_)));
}

/// The form of the reply to a body in a dialect that the operator names.
#[track_caller]
fn form(
    dialect: Option<Dialect>,
    signature: &Signature,
    content_type: &str,
    body: &str,
) -> ReplyFormat {
    let options = Options { dialect, ..Options::default() };
    let invocation = Invocation::read(Some(content_type), None, None).unwrap();
    let decoded = decode(signature, &invocation, &options, Bytes::copy_from_slice(body.as_bytes()));
    decoded.unwrap_or_else(|error| panic!("{dialect:?}, {body}: {error}")).1
}

#[test]
fn a_dialect_decides_what_a_body_leaves_open() {
    let texts = model(8, &["x BYTES [1]"], &["y BYTES [1]"]);
    let pipeline = ReplyFormat::HuggingFace(PipelineReply::default());
    for (dialect, list, csv, inputs) in [
        (None, ReplyFormat::Bare, ReplyFormat::Csv, pipeline.clone()),
        (Some(Dialect::Tfs), ReplyFormat::Rows, ReplyFormat::Rows, ReplyFormat::Columns),
        (Some(Dialect::Toolkit), ReplyFormat::Bare, ReplyFormat::Bare, pipeline.clone()),
        (Some(Dialect::HuggingFace), pipeline.clone(), pipeline.clone(), pipeline.clone()),
        (Some(Dialect::Mlflow), ReplyFormat::Rows, ReplyFormat::Rows, ReplyFormat::Rows),
    ] {
        assert_eq!(form(dialect, &texts, "application/json", r#"["a"]"#), list, "{dialect:?}");
        assert_eq!(form(dialect, &texts, "text/csv", "x\na\n"), csv, "{dialect:?}");
        let body = r#"{"inputs": ["a"]}"#;
        assert_eq!(form(dialect, &texts, "application/json", body), inputs, "{dialect:?}");
        // What a body says itself holds in all of them.
        let body = r#"{"instances": [["a"]]}"#;
        assert_eq!(form(dialect, &texts, "application/json", body), ReplyFormat::Rows);
        let body =
            r#"{"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]}]}"#;
        let format = form(dialect, &texts, "application/json", body);
        assert!(matches!(format, ReplyFormat::KserveV2(_)), "{dialect:?}");
    }
}

#[test]
fn an_image_gets_its_best_five_classes() {
    let mut signature = model(8, &["x BYTES [1]"], &["y FP32 [6]"]);
    signature.outputs[0].labels = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
    let (_, format) = ask(&signature, "image/png", "", b"\x89PNG\r\n\x1a\n").unwrap();
    let scores =
        Tensor::from_vec(Shape::new(&[1, 6]), vec![0f32, 5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
    let reply = encode(&format, &signature, &only("y", scores)).unwrap();
    let class = |(label, score)| format!(r#"{{"label":"{label}","score":{score}.0}}"#);
    let best = [("b", 5), ("c", 4), ("d", 3), ("e", 2), ("f", 1)].map(class);
    assert_eq!(text_of(&reply), format!("[{}]", best.join(",")));
}

#[test]
fn the_task_of_a_pipeline_says_how_many_classes_there_are_by_default() {
    let mut signature = model(8, &["x BYTES [1]"], &["y FP32 [6]"]);
    signature.outputs[0].labels = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
    let scores =
        Tensor::from_vec(Shape::new(&[1, 6]), vec![0f32, 5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
    let count = |task, content_type, body: &'static str| {
        let dialect = Some(Dialect::HuggingFace);
        let options = Options { dialect, usual_top: Top::of_task(task), ..Options::default() };
        let invocation = Invocation::read(Some(content_type), None, None).unwrap();
        let (_, format) = decode(&signature, &invocation, &options, Bytes::from(body)).unwrap();
        let reply = encode(&format, &signature, &only("y", scores.clone())).unwrap();
        text_of(&reply).matches("label").count()
    };
    const JSON: &str = "application/json";
    assert_eq!(count("image-classification", "image/png", "pixels"), 5);
    assert_eq!(count("text-classification", "image/png", "pixels"), 5);
    assert_eq!(count("image-classification", JSON, r#"{"inputs": "a"}"#), 5);
    assert_eq!(count("text-classification", JSON, r#"{"inputs": "a"}"#), 1);
    let one = r#"{"inputs": "a", "parameters": {"top_k": 1}}"#;
    assert_eq!(count("image-classification", JSON, one), 1);
}

#[test]
fn a_first_record_without_names_is_a_row_in_hugging_faces_dialect() {
    let rows = |signature: &Signature, body: &'static str| {
        let options = Options { dialect: Some(Dialect::HuggingFace), ..Options::default() };
        let invocation = Invocation::read(Some("text/csv"), None, None).unwrap();
        let (request, _) = decode(signature, &invocation, &options, Bytes::from(body)).unwrap();
        request.inputs[0].tensor.shape().rows()
    };
    assert_eq!(rows(&one(), "1,2\n3,4\n"), Some(2));
    assert_eq!(rows(&one(), "p,q\n3,4\n"), Some(1));
    let texts = model(8, &["x BYTES [1]"], &["y BYTES [1]"]);
    assert_eq!(rows(&texts, "good\nbad\n"), Some(2));
    assert_eq!(rows(&texts, "inputs\ngood\nbad\n"), Some(2));
    assert_eq!(rows(&texts, "\u{feff}\n\"inputs\"\r\ngood\nbad\n"), Some(2));
}

#[test]
fn a_text_is_an_element_where_the_model_takes_texts_and_any_format_elsewhere() {
    let texts = model(8, &["x BYTES [1]"], &["y BYTES [1]"]);
    let inputs = |signature: &Signature, content_type, body: &[u8]| {
        show(&ask(signature, content_type, "", body).unwrap().0)
    };
    for plain in ["text/plain", "application/x-text; charset=utf-8"] {
        assert_eq!(inputs(&texts, plain, b"a,b\nc"), "x BYTES [1,1] [\"a,b\\nc\"]\n");
        assert_eq!(inputs(&texts, plain, "\u{feff}a".as_bytes()), "x BYTES [1,1] [\"a\"]\n");
        assert_eq!(inputs(&one(), plain, b"1,2\n3,4\n"), "x FP32 [2,2] [1.0,2.0,3.0,4.0]\n");
    }
}

#[test]
fn the_type_of_a_csv_text_says_whether_it_has_a_header() {
    let rows = |content_type, body: &[u8]| {
        let (request, _) = ask(&one(), content_type, "", body)?;
        Ok::<_, Error>(request.inputs[0].tensor.shape().rows())
    };
    assert_eq!(rows("text/csv; header=present", b"p,q\n1,2\n3,4\n"), Ok(Some(2)));
    assert_eq!(rows("csv", b"1,2\n3,4\n"), Ok(Some(2)));
    assert!(rows("text/csv; header=absent", b"p,q\n1,2\n").is_err());
    assert!(rows("text/csv", b"p,q\n1,2\n").is_err());
}

#[test]
fn bodies_that_may_grow_are_known_by_their_type() {
    for sparse in ["text/libsvm", "application/x-recordio-protobuf", "application/x-npz", ""] {
        assert!(negotiate::declared(Some(sparse)).may_be_sparse(), "{sparse}");
    }
    assert!(negotiate::declared(None).may_be_sparse());
    for dense in ["application/json", "text/csv", "application/x-npy", "image/png"] {
        assert!(!negotiate::declared(Some(dense)).may_be_sparse(), "{dense}");
    }
}

#[test]
fn libsvm_to_a_model_of_another_library_has_zeros_and_the_reply_is_no_containers() {
    let signature = model(8, &["x FP64 [3]"], &["y FP64 [2]"]);
    let ask = |parameters: &[(&str, &str)]| {
        let invocation = Invocation::read(Some("text/libsvm"), None, None).unwrap();
        let parameter = |name: &str| parameters.iter().find(|it| it.0 == name).map(|it| it.1);
        let invocation = Invocation { model: ModelSays::of(parameter), ..invocation };
        let body = Bytes::from_static(b"1 0:1 2:3\n");
        let (request, format) = decode(&signature, &invocation, &Options::default(), body).unwrap();
        let reply = encode(&format, &signature, &respond(&signature, 1)).unwrap();
        (formats::samples::show_inputs(&request.inputs), text_of(&reply))
    };
    let missing = ("x FP64 [1,3] [1.0,NaN,3.0]\n".to_owned(), "0.0,0.5\n".to_owned());
    assert_eq!(ask(&[]), missing);
    assert_eq!(ask(&[(xgboost::PARAMETER, "multi:softprob")]), missing);
    let zero = ("x FP64 [1,3] [1.0,0.0,3.0]\n".to_owned(), "0.0,0.5\n".to_owned());
    assert_eq!(ask(&[(LIBRARY, "LightGBM")]), zero);
}

#[test]
fn a_model_says_what_its_parameters_do() {
    let parameters = [
        (xgboost::PARAMETER, "binary:logistic"),
        (xgboost::CLASSES, "2"),
        (xgboost::TARGETS, "3"),
        (xgboost::PICKLED, "true"),
    ];
    let says = ModelSays::of(|name| parameters.iter().find(|it| it.0 == name).map(|it| it.1));
    assert_eq!((says.classes, says.targets, says.is_pickled), (Some(2), Some(3), true));
    assert_eq!((says.objective.as_deref(), says.library), (Some("binary:logistic"), None));
    assert_eq!(ModelSays::of(|_| None), ModelSays::default());
}

#[test]
fn a_number_of_labels_that_the_container_does_not_take_is_no_type_of_it() {
    let xgboost = Options { dialect: Some(Dialect::Xgboost), ..Options::default() };
    let ask = |content_type: &str| {
        let invocation = Invocation::read(Some(content_type), None, None).unwrap();
        decode(&one(), &invocation, &xgboost, Bytes::from_static(b"1,2")).map(|_| ())
    };
    for taken in ["text/csv", "text/csv;label_size=1", "text/csv; Label_Size=\"1\""] {
        assert_eq!(ask(taken), Ok(()), "{taken}");
    }
    for refused in ["text/csv;label_size=5", "TEXT/CSV; label_size=0"] {
        let error = ask(refused).unwrap_err();
        assert_eq!(error.kind(), Kind::UnsupportedMediaType, "{refused}");
        assert!(error.to_string().contains("expected 1 or no such parameter"), "{error}");
    }
}

#[test]
fn a_few_bytes_of_libsvm_are_no_wide_row() {
    let open = model(8, &["x FP32 [-1]"], &["y FP32 []"]);
    let part = "more than the 262224 that a body";
    refused(&open, "text/libsvm", b"67000000:1", Kind::UnsupportedMediaType, part);
}

#[test]
fn in_tritons_dialect_json_is_nothing_but_kserve_v2() {
    let options = Options { dialect: Some(Dialect::Triton), ..Options::default() };
    let invocation = Invocation::read(None, None, None).unwrap();
    let body = Bytes::from_static(b"[[1, 2]]");
    let error = decode(&one(), &invocation, &options, body).unwrap_err().to_string();
    assert!(error.contains("expected an object"), "{error}");
}

#[test]
fn columns_of_a_csv_text_may_have_names_in_any_order() {
    let narrow = model(8, &["a FP32 [1]", "b INT64 [1]"], &[]);
    let (request, _) = ask(&narrow, "text/csv", "", b"b,a\n7,1\n").unwrap();
    assert_eq!(show(&request), "b INT64 [1,1] [7]\na FP32 [1,1] [1.0]\n");
}

proptest! {
    #[test]
    fn no_bytes_make_any_dialect_panic(
        bytes in any::<Vec<u8>>(),
        text in r#"(\{"(inputs|instances|dataframe_split|dataframe_records|examples)":)?[\[\]{}:,"abx01\n.-]{0,40}"#,
        batch in any::<bool>(),
    ) {
        let dialects = [
            Dialect::Tfs, Dialect::Triton, Dialect::HuggingFace, Dialect::Toolkit, Dialect::Xgboost, Dialect::Mlflow, Dialect::BuiltIn, Dialect::JumpStart,
        ];
        for dialect in dialects.map(Some).into_iter().chain([None]) {
            let options = Options { dialect, batch, ..Options::default() };
            for content_type in ["", "text/csv", "application/json", NDJSON, "application/x-npz", "image/png"] {
                for signature in [one(), two(), model(8, &["b BYTES [1]"], &["y FP32 [2]"])] {
                    for body in [bytes.as_slice(), text.as_bytes()] {
                        let invocation =
                            Invocation::read(Some(content_type), None, None).unwrap();
                        let decoded = decode(&signature, &invocation, &options, Bytes::copy_from_slice(body));
                        if let Ok((request, format)) = decoded {
                            let rows = request.inputs.first().and_then(|it| it.tensor.shape().rows());
                            let response = respond(&signature, rows.unwrap_or(1).min(4));
                            prop_assert!(encode(&format, &signature, &response).is_ok());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in any::<Vec<u8>>(),
        text in r#"[\[\]{}:,"ab01\n.-]{0,40}"#,
        at in 0usize..8,
    ) {
        let types = ["", "application/json", "text/csv", NDJSON, "application/x-npy", "a/b"];
        let content_type = types.get(at).copied().unwrap_or(
            "application/vnd.sagemaker-triton.binary+json;json-header-size=3",
        );
        for signature in [one(), two(), model(0, &["b BYTES []"], &[])] {
            for body in [bytes.as_slice(), text.as_bytes()] {
                if let Ok((request, format)) = ask(&signature, content_type, "", body) {
                    let rows = request.inputs.first().and_then(|it| it.tensor.shape().rows());
                    let response = respond(&signature, rows.unwrap_or(1).min(4));
                    prop_assert!(encode(&format, &signature, &response).is_ok());
                }
            }
        }
    }
}
