//! Replies in the forms of XGBoost's container.

use backend::{Shape, Tensor};

use super::{options::OutputKey, *};
use formats::samples::{body, model};

fn encode(
    reply: &Reply,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    super::encode(reply, signature, response, &Grant::all(0))
}

/// A response with these outputs: names, columns (0 for none) and numbers; an integer type where the name is `label`.
fn respond(outputs: &[(&str, usize, &[f32])]) -> (Signature, InferenceResponse) {
    let signature = model(8, &["x FP32 [2]"], &[]);
    let output = |&(name, columns, values): &(&str, usize, &[f32])| {
        let dims = match columns {
            0 => vec![values.len()],
            columns => vec![values.len() / columns, columns],
        };
        let tensor = match name {
            "label" => {
                let labels = values.iter().map(|&it| it as i64).collect::<Vec<_>>();
                Tensor::from_vec(Shape::new(&dims), labels)
            }
            _ => Tensor::from_vec(Shape::new(&dims), values.to_vec()),
        };
        NamedTensor { name: name.into(), tensor: tensor.unwrap() }
    };
    let outputs = outputs.iter().map(output).collect();
    (
        signature,
        InferenceResponse {
            model: "m".into(),
            version: 3,
            id: None,
            rows: None,
            outputs,
            timings: None,
            parameters: Vec::new(),
        },
    )
}

fn reply(media: Media, objective: Option<&str>, keys: &[OutputKey], csv: XgboostCsv) -> Reply {
    let settings = XgboostOptions { output: keys.into(), csv, ..XgboostOptions::default() };
    let objective = objective.map(|it| Objective::from_name(it).unwrap());
    let told = Told { objective, ..Told::default() };
    Reply { media, told, endpoint: Endpoint::Single, is_batch: false, settings }
}

/// The same of a model that says its classes and targets.
fn told(reply: Reply, classes: Option<usize>, targets: Option<usize>) -> Reply {
    Reply { told: Told { classes, targets, ..reply.told }, ..reply }
}

#[track_caller]
fn check(outputs: &[(&str, usize, &[f32])], objective: Option<&str>, (json, csv): (&str, &str)) {
    let (signature, response) = respond(outputs);
    let text = |media| {
        let reply = reply(media, objective, &[], XgboostCsv::Lines);
        body(&encode(&reply, &signature, &response).unwrap())
    };
    assert_eq!(text(Media::Json), format!("{{\"predictions\":[{json}]}}"));
    assert_eq!(text(Media::Csv), csv);
}

const BINARY: [(&str, usize, &[f32]); 2] =
    [("label", 0, &[0.0, 1.0]), ("probabilities", 2, &[0.75, 0.25, 0.125, 0.875])];
const MULTI: [(&str, usize, &[f32]); 2] =
    [("label", 0, &[2.0, 0.0]), ("probabilities", 3, &[0.25, 0.25, 0.5, 0.5, 0.375, 0.125])];

#[test]
fn a_number_for_each_row_is_the_score() {
    let expected = (r#"{"score":1.5},{"score":-2.0}"#, "1.5\n-2.0\n");
    check(&[("variable", 1, &[1.5, -2.0])], None, expected);
    check(&[("variable", 0, &[1.5, -2.0])], None, expected);
}

#[test]
fn of_two_classes_the_score_is_the_probability_of_the_second() {
    check(&BINARY, None, (r#"{"score":0.25},{"score":0.875}"#, "0.25\n0.875\n"));
}

#[test]
fn of_several_classes_it_is_a_list_as_the_container_writes_it() {
    let json = r#"{"score":[0.25,0.25,0.5]},{"score":[0.5,0.375,0.125]}"#;
    check(&MULTI, None, (json, "0.25,0.25,0.5\n0.5,0.375,0.125\n"));
    let json = r#"{"score":[0.75,0.25]},{"score":[0.125,0.875]}"#;
    check(&BINARY, Some("multi:softprob"), (json, "0.75,0.25\n0.125,0.875\n"));
}

#[test]
fn softmax_and_hinge_predict_the_class_as_a_number() {
    check(&MULTI, Some("multi:softmax"), (r#"{"score":2.0},{"score":0.0}"#, "2.0\n0.0\n"));
    check(&[("label", 0, &[1.0])], None, (r#"{"score":1.0}"#, "1.0\n"));
    check(&[MULTI[1]], Some("multi:softmax"), (r#"{"score":2.0},{"score":0.0}"#, "2.0\n0.0\n"));
}

#[test]
fn the_rows_of_a_model_that_does_not_batch_are_those_of_its_shapes() {
    let (signature, response) = respond(&BINARY);
    let signature = Signature { max_batch_size: 0, ..signature };
    let reply = reply(Media::Csv, None, &[], XgboostCsv::Lines);
    assert_eq!(body(&encode(&reply, &signature, &response).unwrap()), "0.25\n0.875\n");
}

#[test]
fn older_images_join_predictions_on_one_line() {
    let (signature, response) = respond(&BINARY);
    let reply = reply(Media::Csv, None, &[], XgboostCsv::Joined);
    assert_eq!(body(&encode(&reply, &signature, &response).unwrap()), "0.25,0.875");
}

#[test]
fn each_format_has_its_type_and_its_form() {
    let (signature, response) = respond(&BINARY);
    for media in OFFERED {
        let reply = reply(media, None, &[], XgboostCsv::Lines);
        let reply = encode(&reply, &signature, &response).unwrap();
        assert_eq!(reply.content_type, media.name());
        match media {
            Media::JsonLines(_) => {
                assert_eq!(body(&reply), "{\"score\":0.25}\n{\"score\":0.875}\n")
            }
            Media::RecordIo => assert!(reply.body.concat().starts_with(&recordio::MAGIC)),
            _ => {}
        }
    }
}

/// What is said with all keys: a line of CSV for each row.
#[track_caller]
fn check_keys(outputs: &[(&str, usize, &[f32])], objective: Option<&str>, expected: &str) {
    let (signature, response) = respond(outputs);
    let reply = reply(Media::Csv, objective, &OutputKey::ALL, XgboostCsv::Joined);
    let reply = encode(&reply, &signature, &response).unwrap();
    assert_eq!(body(&reply).lines().next(), Some(expected));
}

#[test]
fn keys_say_what_the_objective_knows_and_nan_otherwise() {
    let binary = r#"0,"[0, 1]",0.25,"[0.75, 0.25]",0.25,"[0.75, 0.25]",nan"#;
    check_keys(&BINARY, None, binary);
    let probability = [("probability", 1, [0.25f32].as_slice())];
    check_keys(&probability, None, binary);
    check_keys(&probability, Some("reg:logistic"), "nan,nan,nan,nan,nan,nan,0.25");
    let multi = r#"2,"[0, 1, 2]",0.5,"[0.25, 0.25, 0.5]",0.5,"[0.25, 0.25, 0.5]",nan"#;
    check_keys(&MULTI, None, multi);
    check_keys(&MULTI, Some("multi:softmax"), r#"2.0,"[0, 1, 2]",nan,nan,2.0,"[-1.0, 2.0]",nan"#);
    check_keys(&[MULTI[0]], None, r#"2.0,nan,nan,nan,2.0,"[-1.0, 2.0]",nan"#);
    let raw = [("variable", 1, [1.5f32].as_slice())];
    let logit = r#"1,"[0, 1]",nan,nan,1.5,"[-0.5, 1.5]",nan"#;
    check_keys(&raw, Some("binary:logitraw"), logit);
    check_keys(&[BINARY[0]], Some("binary:hinge"), r#"0.0,"[0, 1]",nan,nan,0.0,"[1.0, 0.0]",nan"#);
    check_keys(&raw, None, "nan,nan,nan,nan,nan,nan,1.5");
}

#[test]
fn labels_are_the_classes_that_the_model_tells_apart_where_its_outputs_do_not_say_that() {
    let (signature, response) = respond(&[MULTI[0]]);
    let keys = [OutputKey::PredictedLabel, OutputKey::Labels];
    let reply = reply(Media::Csv, Some("multi:softmax"), &keys, XgboostCsv::Joined);
    let reply = encode(&told(reply, Some(3), None), &signature, &response).unwrap();
    assert_eq!(body(&reply).lines().next(), Some("2.0,\"[0, 1, 2]\""));
}

#[test]
fn no_reply_with_keys_takes_more_than_its_estimate() {
    let (labels, of_all) = ([OutputKey::Labels], OutputKey::ALL);
    let rows = [1.0; 20];
    let softmax = (respond(&[("label", 0, rows.as_slice())]), Some("multi:softmax"), Some(1 << 16));
    let long = [-1.175_494_4e-38; 24];
    let cases = [
        softmax,
        (respond(&BINARY), None, None),
        (respond(&MULTI), None, None),
        (respond(&[("scores", 6, long.as_slice())]), Some("multi:softprob"), None),
        (respond(&[("scores", 0, long.as_slice())]), Some("binary:logitraw"), None),
        (respond(&[("scores", 0, long.as_slice())]), Some("reg:gamma"), None),
    ];
    let cases = cases.map(|(outputs, objective, classes)| (outputs, objective, classes, None));
    let labels_of = (respond(&[("scores", 6, long.as_slice())]), Some("binary:logistic"));
    let targets_of = (respond(&[("scores", 6, long.as_slice())]), Some("reg:squarederror"));
    let of_targets = [labels_of, targets_of].map(|(it, objective)| (it, objective, None, Some(6)));
    for ((signature, response), objective, classes, targets) in cases.into_iter().chain(of_targets)
    {
        for (keys, media) in [labels.as_slice(), &of_all]
            .into_iter()
            .flat_map(|keys| [Media::Csv, Media::Json, Media::RecordIo].map(|media| (keys, media)))
        {
            let reply = told(reply(media, objective, keys, XgboostCsv::Lines), classes, targets);
            let raw = Raw::of(&reply.told, &signature, &response).unwrap();
            let numbers = raw.select(keys).unwrap().bytes();
            let text = encode(&reply, &signature, &response).unwrap().body.concat().len();
            let estimate = reply.bound(&response, 0);
            assert!(numbers + 2 * text <= estimate, "{numbers} {text} {estimate} {reply:?}");
        }
    }
}

/// Two rows of two labels, of which a file of XGBoost says that they are two.
const LABELS: [(&str, usize, &[f32]); 1] = [("output__0", 2, &[0.75, 0.25, 0.125, 0.875])];

#[test]
fn of_several_targets_a_prediction_is_the_list_that_the_model_gives() {
    let (signature, response) = respond(&LABELS);
    for objective in ["binary:logistic", "binary:logitraw", "binary:hinge", "reg:squarederror"] {
        let text = |media| {
            let reply = told(reply(media, Some(objective), &[], XgboostCsv::Lines), None, Some(2));
            body(&encode(&reply, &signature, &response).unwrap())
        };
        assert_eq!(text(Media::Csv), "0.75,0.25\n0.125,0.875\n", "{objective}");
        let json = r#"{"predictions":[{"score":[0.75,0.25]},{"score":[0.125,0.875]}]}"#;
        assert_eq!(text(Media::Json), json);
    }
    // A graph that does not say it has both classes there.
    check(&LABELS, Some("binary:logistic"), (r#"{"score":0.25},{"score":0.875}"#, "0.25\n0.875\n"));
    // Three are no classes of two.
    let json = r#"{"score":[0.25,0.25,0.5]},{"score":[0.5,0.375,0.125]}"#;
    let three = [MULTI[1]];
    for objective in ["binary:logistic", "reg:quantileerror"] {
        check(&three, Some(objective), (json, "0.25,0.25,0.5\n0.5,0.375,0.125\n"));
    }
}

#[test]
fn of_several_targets_keys_say_a_list_of_what_others_have() {
    let (signature, response) = respond(&LABELS);
    let all = |objective| {
        let reply = reply(Media::Csv, Some(objective), &OutputKey::ALL, XgboostCsv::Lines);
        let reply = encode(&told(reply, None, Some(2)), &signature, &response).unwrap();
        body(&reply).lines().next().unwrap().to_owned()
    };
    let labels = r#""[1, 0]","[0, 1]","[0.75, 0.25]","[[0.25, 0.75], [0.75, 0.25]]","[0.75, 0.25]","[[0.25, 0.75], [0.75, 0.25]]",nan"#;
    assert_eq!(all("binary:logistic"), labels);
    assert_eq!(all("reg:squarederror"), r#"nan,nan,nan,nan,nan,nan,"[0.75, 0.25]""#);
}

#[test]
fn the_handler_of_a_multi_model_endpoint_has_forms_of_its_own() {
    let (signature, response) = respond(&MULTI);
    let text = |media, is_batch| {
        let keys = [OutputKey::Probabilities];
        let reply = reply(media, None, &keys, XgboostCsv::Lines);
        let reply = Reply { endpoint: Endpoint::MultiModel, is_batch, ..reply };
        body(&encode(&reply, &signature, &response).unwrap())
    };
    assert_eq!(text(Media::Json, false), "[[0.25,0.25,0.5],[0.5,0.375,0.125]]");
    assert_eq!(text(Media::Json, true), text(Media::Json, false));
    assert_eq!(text(Media::Csv, false), "[0.25, 0.25, 0.5],[0.5, 0.375, 0.125]");
    assert_eq!(text(Media::Csv, true), "[0.25, 0.25, 0.5]\n[0.5, 0.375, 0.125]\n");
}

#[test]
fn in_a_batch_job_a_line_for_each_record_has_the_type_that_was_asked_for() {
    let (signature, response) = respond(&MULTI);
    for media in OFFERED {
        let reply = Reply { is_batch: true, ..reply(media, None, &[], XgboostCsv::Lines) };
        let reply = encode(&reply, &signature, &response).unwrap();
        assert_eq!(reply.content_type, media.name());
        assert_eq!(body(&reply), "[0.25, 0.25, 0.5]\n[0.5, 0.375, 0.125]\n");
    }
    let keys = [OutputKey::PredictedLabel];
    for (is_batch, expected) in [(false, "2\n0"), (true, "2\n0\n")] {
        let reply = Reply { is_batch, ..reply(Media::Csv, None, &keys, XgboostCsv::Lines) };
        assert_eq!(body(&encode(&reply, &signature, &response).unwrap()), expected);
    }
}

#[test]
fn keys_are_objects_in_json_in_the_order_in_which_they_were_asked_for() {
    let (signature, response) = respond(&BINARY);
    let keys = [OutputKey::Probabilities, OutputKey::PredictedLabel, OutputKey::PredictedScore];
    let reply = reply(Media::Json, None, &keys, XgboostCsv::Lines);
    let expected = r#"{"predictions":[{"probabilities":[0.75,0.25],"predicted_label":0,"predicted_score":NaN},{"probabilities":[0.125,0.875],"predicted_label":1,"predicted_score":NaN}]}"#;
    assert_eq!(body(&encode(&reply, &signature, &response).unwrap()), expected);
}

#[test]
fn outputs_that_cannot_be_the_objectives_are_refused_by_name() {
    let (signature, mut response) = respond(&MULTI);
    response.outputs = respond(&[("probabilities", 0, &[])]).1.outputs;
    let reply = reply(Media::Json, Some("reg:gamma"), &[], XgboostCsv::Lines);
    let error = encode(&reply, &signature, &response).unwrap_err().to_string();
    assert!(error.contains("output 'probabilities' has 0 numbers in a row"), "{error}");
    assert!(error.contains("xgboost_objective"), "{error}");
}

#[test]
fn a_body_that_cannot_be_read_is_of_an_unsupported_type() {
    let signature = model(8, &["x FP32 [2]"], &[]);
    let decode = |media, body: &[u8]| {
        decode(&signature, &XgboostOptions::default(), false, media, body, &Grant::all(0)).unwrap()
    };
    for media in [Media::Csv, Media::Libsvm, Media::RecordIo] {
        assert!(matches!(decode(media, b"x"), Err(Error::UnsupportedMediaType(_))), "{media}");
    }
    assert!(matches!(decode(Media::Csv, b"1,2,3"), Err(Error::InvalidInput { .. })));
    assert!(matches!(decode(Media::Libsvm, b"0:1 9:1"), Err(Error::InvalidInput { .. })));
    let texts = model(8, &["x BYTES [2]"], &[]);
    let (options, grant) = (XgboostOptions::default(), Grant::all(0));
    assert!(super::decode(&texts, &options, false, Media::Csv, b"a,b", &grant).is_none());
}
