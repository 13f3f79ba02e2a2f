//! What the containers of SageMaker have taught clients to send to /invocations, and what they expect back: dialects,
//! attributes, tables, texts, images, lines of batch jobs, and errors.

use serde_json::{Value, json};

use crate::support::{Client, Reply, Repository, Server, Start};

const ATTRIBUTES: &str = "X-Amzn-SageMaker-Custom-Attributes";
const JSON: &str = "application/json";
const CSV: &str = "text/csv";
const LINES: &str = "application/jsonlines";

/// A model of the engine `identity` with these inputs and outputs, as `name TYPE dims`.
fn identity(inputs: &[&str], outputs: &[&str]) -> String {
    let port = |kind: &str, line: &&str| {
        let [name, dtype, dims] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let labels = if kind == "output" && name == "scores" {
            "label_filename: \"labels.txt\""
        } else {
            ""
        };
        format!("{kind} {{ name: \"{name}\" data_type: TYPE_{dtype} dims: {dims} {labels} }}\n")
    };
    let inputs: String = inputs.iter().map(|it| port("input", it)).collect();
    let outputs: String = outputs.iter().map(|it| port("output", it)).collect();
    format!("backend: \"identity\"\nmax_batch_size: 8\n{inputs}{outputs}")
}

/// `copy` gives rows of four floats back, `text` a string, `classes` the scores of two classes that it was given,
/// `pair` a number and a string.
fn models() -> Repository {
    let labels = "NEGATIVE\nPOSITIVE\n";
    Repository::identity("copy", &[])
        .model("text", &identity(&["INPUT0 STRING [1]"], &["OUTPUT0 STRING [1]"]))
        .model("classes", &identity(&["scores FP32 [2]"], &["scores FP32 [2]"]))
        .file("classes/labels.txt", labels)
        .model("pipeline", &identity(&["text STRING [1]", "scores FP32 [2]"], &["scores FP32 [2]"]))
        .file("pipeline/labels.txt", labels)
        .model("pair", &identity(&["a FP32 [1]", "b STRING [1]"], &["a FP32 [1]", "b STRING [1]"]))
}

fn serve(flags: &[&str]) -> (Repository, Server) {
    let repository = models();
    let flags = [&["--sagemaker-default-model=copy"][..], flags].concat();
    let server = Server::start(&repository, &flags);
    (repository, server)
}

/// The reply of a model to a body of this type.
fn ask(server: &Server, model: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    let attributes = format!("trace=1,tfs-model-name={model}");
    let headers = [&[(ATTRIBUTES, &*attributes)], headers].concat();
    Client::connect(server.sagemaker()).post("/invocations", &headers, body)
}

/// Compares type and text of the reply.
#[track_caller]
fn check(server: &Server, model: &str, content_type: &str, body: &str, expected: (&str, &str)) {
    let reply = ask(server, model, &[("content-type", content_type)], body).expect(200);
    let given = (reply.header("content-type").unwrap_or(""), &*reply.text());
    assert_eq!(given, expected, "{content_type}: {body}");
}

#[test]
fn attributes_choose_the_model_and_its_version() {
    let (_repository, server) = serve(&[]);
    let post = |attributes: &str, body: &str| {
        let headers = [(ATTRIBUTES, attributes), ("content-type", JSON)];
        Client::connect(server.sagemaker()).post("/invocations", &headers, body)
    };
    let floats = r#"{"instances":[[1,2,3,4]]}"#;
    let reply = post("tfs-model-name=classes,other=x", r#"{"instances":[[1,2]]}"#).expect(200);
    assert_eq!(reply.text(), r#"{"predictions":[[1.0,2.0]]}"#);
    // The client sees them only if the container repeats them.
    assert_eq!(
        reply.header("x-amzn-sagemaker-custom-attributes"),
        Some("tfs-model-name=classes,other=x")
    );
    post("tfs-model-version=001", floats).expect(200);
    post("tfs-model-name=copy,tfs-model-version=1", floats).expect(200);
    assert!(post("tfs-model-version=2", floats).error(404).contains("copy"));
    assert!(post("tfs-model-name=absent", floats).error(404).contains("absent"));
    for (wrong, named) in [
        ("tfs-model-name=a/b", "tfs-model-name, given 'a/b'"),
        ("tfs-model-version=x", "tfs-model-version, given 'x'"),
        ("tfs-method=train", "tfs-method, given 'train'"),
    ] {
        assert!(post(wrong, floats).error(400).contains(named), "{wrong}");
    }
}

#[test]
fn examples_become_classes_or_values_by_method_or_by_model() {
    let (_repository, server) = serve(&[]);
    let body = r#"{"examples":[{"scores":[0.25,0.75]}]}"#;
    let classes = r#"{"results":[[["NEGATIVE",0.25],["POSITIVE",0.75]]]}"#;
    check(&server, "classes", JSON, body, (JSON, classes));
    let attributes = "tfs-model-name=classes,tfs-method=classify";
    let headers = [(ATTRIBUTES, attributes), ("content-type", JSON)];
    let post = |headers: &[(&str, &str)], body: &str| {
        Client::connect(server.sagemaker()).post("/invocations", headers, body)
    };
    assert_eq!(post(&headers, body).expect(200).text(), classes);
    let headers =
        [(ATTRIBUTES, "tfs-model-name=classes,tfs-method=regress"), ("content-type", JSON)];
    assert!(post(&headers, body).error(400).contains("cannot regress"));
}

#[test]
fn the_tensorflow_serving_containers_bodies_get_its_predictions() {
    let (_repository, server) = serve(&["--sagemaker-dialect=tfs"]);
    let check = |model, content_type, body, expected: &str| {
        let expected = format!("{{\"predictions\":{expected}}}");
        check(&server, model, content_type, body, (JSON, &expected));
    };
    const ONE: &str = "[[1.0,2.0,3.0,4.0]]";
    const TWO: &str = "[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]";
    check("copy", JSON, r#"{"instances":[[1,2,3,4]]}"#, ONE);
    check("copy", "application/json; charset=utf-8", "[1,2,3,4]", ONE);
    check("copy", JSON, "[[1,2,3,4],[5,6,7,8]]", TWO);
    check("copy", JSON, "[1,2,3,4]\n[5,6,7,8]", TWO);
    check("copy", JSON, r#"{"INPUT0":[1,2,3,4]}"#, ONE);
    check("copy", LINES, "[1,2,3,4]\n[5,6,7,8]\n", TWO);
    check("copy", "application/jsons", "[1,2,3,4]", ONE);
    check("copy", CSV, "1,2,3,4\r\n5,6,7,8\r\n", TWO);
    check(
        "text",
        CSV,
        "one\n\"two, \"\"three\"\"\"\r\n4\n",
        r#"[["one"],["two, \"three\""],["4"]]"#,
    );
    check("text", JSON, r#""one""#, r#"[["one"]]"#);
    check("pair", CSV, "1,x\n2,y\n", r#"[{"a":[1.0],"b":["x"]},{"a":[2.0],"b":["y"]}]"#);
    // Bytes that are no text.
    check("text", JSON, r#"{"instances":[{"b64":"/w=="}]}"#, r#"[[{"b64":"/w=="}]]"#);
    let columns = r#"{"inputs":[[1,2,3,4]]}"#;
    self::check(&server, "copy", JSON, columns, (JSON, &format!("{{\"outputs\":{ONE}}}")));
    let error = ask(&server, "copy", &[("content-type", "text/html")], "x").error(415);
    assert!(error.contains("'text/html'") && error.contains("application/json"), "{error}");
    // One line, whichever of the two is accepted.
    let headers = [("content-type", CSV), ("accept", LINES)];
    let reply = ask(&server, "copy", &headers, "1,2,3,4").expect(200);
    assert_eq!(reply.text(), format!("{{\"predictions\":{ONE}}}"));
}

#[test]
fn the_variables_of_a_container_say_whose_place_is_taken() {
    let repository = Repository::identity("copy", &[]);
    let csv = |variable: (&str, &str)| {
        let server = Start::new(&repository).variable(variable.0, variable.1).run();
        let body = format!("{}1,2,3,4\n", if variable.0 == "HF_TASK" { "p,q,r,s\n" } else { "" });
        ask(&server, "copy", &[("content-type", CSV)], body).expect(200).text()
    };
    let predictions = r#"{"predictions":[[1.0,2.0,3.0,4.0]]}"#;
    assert_eq!(csv(("SAGEMAKER_TFS_NGINX_LOGLEVEL", "info")), predictions);
    assert_eq!(csv(("HF_TASK", "feature-extraction")), "[[1.0,2.0,3.0,4.0]]");
    let server = Start::new(&repository).variable("HF_TASK", "feature-extraction").run();
    let rows = ask(&server, "copy", &[("content-type", CSV)], "1,2,3,4\n5,6,7,8\n").expect(200);
    assert_eq!(rows.text(), "[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]");
    assert_eq!(csv(("SAGEMAKER_PROGRAM", "inference.py")), "1.0,2.0,3.0,4.0\n");
    let wrong = Start::new(&repository).flags(&["--sagemaker-dialect=keras"]).config();
    assert!(wrong.is_err_and(|it| it.contains("auto, tfs, triton, hf")), "refused by name");
}

#[test]
fn the_task_of_a_pipeline_says_how_many_classes_there_are() {
    let repository = models();
    let classes = |task| {
        let server = Start::new(&repository).variable("HF_TASK", task).run();
        let body = r#"{"inputs": {"text": "a", "scores": [0.25, 0.75]}}"#;
        let reply = ask(&server, "pipeline", &[("content-type", JSON)], body).expect(200);
        reply.text().matches("label").count()
    };
    assert_eq!(classes("image-classification"), 2);
    assert_eq!(classes("text-classification"), 1);
}

#[test]
fn a_text_is_one_element_and_a_csv_type_may_announce_its_header() {
    let (_repository, server) = serve(&[]);
    for plain in ["text/plain", "application/x-text"] {
        let reply = ask(&server, "text", &[("content-type", plain)], "so, happy").expect(200);
        assert_eq!(reply.text(), r#"[["so, happy"]]"#, "{plain}");
    }
    let rows = "1,2,3,4\n";
    for csv in ["csv", "text/plain"] {
        check(&server, "copy", csv, rows, (CSV, "1.0,2.0,3.0,4.0\n"));
    }
    let headed = format!("p,q,r,s\n{rows}");
    check(&server, "copy", "text/csv; header=present", &headed, (CSV, "1.0,2.0,3.0,4.0\n"));
    check(&server, "copy", "libsvm", "1 1:1 4:4\n", (CSV, "1.0,nan,nan,4.0\n"));
}

#[test]
fn the_inference_type_makes_bodies_flat_objects() {
    let object = r#"{"INPUT0":[1,2,3,4]}"#;
    for (kind, content_type) in
        [("generate", JSON), ("generate_stream", "text/event-stream; charset=utf-8")]
    {
        let (_repository, server) = serve(&[&format!("--sagemaker-inference-type={kind}")]);
        let reply = ask(&server, "copy", &[], object).expect(200);
        assert_eq!(reply.header("content-type"), Some(content_type));
        let text = reply.text();
        assert!(text.contains(r#""OUTPUT0":[1.0,2.0,3.0,4.0]"#), "{text}");
        assert_eq!(text.starts_with("data: "), kind == "generate_stream");
    }
    let repository = Repository::identity("copy", &[]);
    let wrong = Start::new(&repository).flags(&["--sagemaker-inference-type=stream"]).config();
    assert!(wrong.is_err_and(|it| it.contains("infer, generate or generate_stream")));
}

#[test]
fn the_binary_type_counts_its_json_exactly() {
    const BINARY: &str = "application/vnd.sagemaker-triton.binary+json;json-header-size=";
    let (_repository, server) = serve(&[]);
    let row: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let ask = |length: &str, body: &[u8]| {
        ask(&server, "copy", &[("content-type", &format!("{BINARY}{length}"))], body)
    };
    let reply = ask("0", &row).expect(200);
    let length: usize = reply
        .header("content-type")
        .and_then(|it| it.strip_prefix(BINARY))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(reply.body[length..], row);
    for wrong in ["17", "-1", "x", "", "+0", "0;a=b"] {
        ask(wrong, &row).error(400);
    }
    let spaced =
        format!("{} json-header-size=0", BINARY.strip_suffix("json-header-size=").unwrap());
    self::ask(&server, "copy", &[("content-type", &spaced)], &row).error(400);
}

#[test]
fn texts_under_inputs_are_a_pipelines() {
    let (_repository, server) = serve(&[]);
    let body = r#"{"inputs": "I am super happy right now."}"#;
    let said = r#"[{"OUTPUT0":["I am super happy right now."]}]"#;
    check(&server, "text", JSON, body, (JSON, said));
    let two = r#"[{"OUTPUT0":["a"]},{"OUTPUT0":["b"]}]"#;
    check(&server, "text", JSON, r#"{"inputs": ["a", "b"], "parameters": {}}"#, (JSON, two));
    check(&server, "text", JSON, r#"{"inputs": "a"}{"inputs": "b"}"#, (JSON, two));
    check(&server, "text", CSV, "inputs\na\n\"b\"\n", (CSV, "OUTPUT0\na\nb\n"));
    // Tensors under the same key are TensorFlow Serving's.
    check(&server, "text", JSON, r#"{"inputs": [["a"]]}"#, (JSON, r#"{"outputs":[["a"]]}"#));
}

#[test]
fn a_pipeline_answers_with_the_best_class() {
    let (_repository, server) = serve(&["--sagemaker-dialect=hf"]);
    let body = |parameters: &str| {
        format!(
            r#"{{"inputs":{{"text":"happy"}},"parameters":{{"scores":[0.25,0.75]{parameters}}}}}"#
        )
    };
    let best = r#"[{"label":"POSITIVE","score":0.75}]"#;
    check(&server, "pipeline", JSON, &body(""), (JSON, best));
    let both = r#"[{"label":"POSITIVE","score":0.75},{"label":"NEGATIVE","score":0.25}]"#;
    check(&server, "pipeline", JSON, &body(r#","top_k":2"#), (JSON, both));
    let headers = [("content-type", JSON), ("accept", CSV)];
    let reply = ask(&server, "pipeline", &headers, body("")).expect(200);
    assert_eq!(reply.text(), "label,score\nPOSITIVE,0.75\n");
    let vector = r#"{"inputs":[[1,2,3,4]]}"#;
    check(&server, "copy", JSON, vector, (JSON, "[[1.0,2.0,3.0,4.0]]"));
    let error = ask(&server, "copy", &[("content-type", JSON)], r#"{"inputs":[[NaN,2,3,4]]}"#);
    assert!(error.error(400).contains("element 0 is no finite number"));
}

#[test]
fn an_image_is_one_string_for_a_model_that_takes_one() {
    let (_repository, server) = serve(&[]);
    let png = b"\x89PNG\r\n\x1a\n\xff";
    for headers in [&[("content-type", "image/png")][..], &[], &[("content-type", "image/x-image")]]
    {
        let reply = ask(&server, "text", headers, png).expect(200);
        assert_eq!(reply.json(), json!([[{"b64": "iVBORw0KGgr/"}]]));
    }
    let error = ask(&server, "copy", &[("content-type", "image/png")], png).error(415);
    assert!(error.contains("'image/png'") && error.contains("'INPUT0' FP32 [-1,4]"), "{error}");
}

#[test]
fn a_toolkit_answers_a_list_with_a_list_whatever_it_came_as() {
    let (_repository, server) = serve(&["--sagemaker-dialect=toolkit"]);
    let list = (JSON, "[[1.0,2.0,3.0,4.0]]");
    check(&server, "copy", JSON, "[[1,2,3,4]]", list);
    check(&server, "copy", CSV, "1,2,3,4\n", list);
    check(&server, "copy", "", "1,2,3,4\n", list);
    let first = [("content-type", JSON), ("accept", "text/plain, text/csv , application/json")];
    let reply = ask(&server, "copy", &first, "[[1,2,3,4]]").expect(200);
    assert_eq!(reply.text(), "1.0,2.0,3.0,4.0\n");
}

#[test]
fn tables_become_inputs_by_column() {
    let (_repository, server) = serve(&["--sagemaker-dialect=mlflow"]);
    let pairs = r#"{"predictions":[{"a":[1.0],"b":["x"]},{"a":[2.0],"b":["y"]}]}"#;
    let check = |model, content_type, body, expected| {
        check(&server, model, content_type, body, (JSON, expected));
    };
    let split = r#"{"dataframe_split":{"columns":["b","a"],"index":[0,1],"data":[["x",1],["y",2]]},"params":{}}"#;
    check("pair", JSON, split, pairs);
    check("pair", JSON, r#"{"dataframe_records":[{"a":1,"b":"x"},{"b":"y","a":2}]}"#, pairs);
    check("pair", CSV, "b,a\nx,1\ny,2\n", pairs);
    check("pair", JSON, r#"{"inputs":{"a":[[1],[2]],"b":[["x"],["y"]]}}"#, pairs);
    let rows = r#"{"predictions":[[1.0,2.0,3.0,4.0]]}"#;
    check(
        "copy",
        JSON,
        r#"{"dataframe_split":{"columns":["p","q","r","s"],"data":[[1,2,3,4]]}}"#,
        rows,
    );
    check("copy", CSV, "p,q,r,s\n1,2,3,4\n", rows);
    check("copy", JSON, r#"{"instances":[[1,2,3,4]]}"#, rows);
    let wrong = r#"{"dataframe_split":{"columns":["a","b"],"data":[[1,"x"],["?","y"]]}}"#;
    let error = ask(&server, "pair", &[("content-type", JSON)], wrong).error(400);
    assert!(error.contains("record 2, column 'a'"), "{error}");
    let mut client = Client::connect(server.sagemaker());
    assert_eq!(client.get("/health").expect(200).body, b"");
    assert_eq!(client.get("/version").expect(200).text(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_batch_job_has_a_line_for_each_record() {
    let repository = models();
    let start = Start::new(&repository).flags(&["--sagemaker-default-model=copy"]);
    let server = start.variable("SAGEMAKER_BATCH", "True").run();
    let rows = "[1.0,2.0,3.0,4.0]\n[5.0,6.0,7.0,8.0]\n";
    check(&server, "copy", LINES, "[1,2,3,4]\n[5,6,7,8]", (LINES, rows));
    check(&server, "copy", JSON, "[1,2,3,4]\n[5,6,7,8]", (JSON, rows));
    check(&server, "copy", CSV, "1,2,3,4\n5,6,7,8", (CSV, &rows.replace(['[', ']'], "")));
    let headers = [("content-type", CSV), ("accept", JSON)];
    let reply = ask(&server, "copy", &headers, "1,2,3,4\n5,6,7,8").expect(200);
    assert_eq!(reply.text(), rows);
    // One document is one record.
    let one = "{\"predictions\":[[1.0,2.0,3.0,4.0]]}\n";
    check(&server, "copy", JSON, r#"{"instances":[[1,2,3,4]]}"#, (JSON, one));
    check(&server, "text", JSON, r#"{"inputs":"a"}"#, (JSON, "[{\"OUTPUT0\":[\"a\"]}]\n"));
    check(&server, "text", JSON, r#"{"inputs":"a"}{"inputs":"b"}"#, (JSON, "[\"a\"]\n[\"b\"]\n"));
    let v2 = r#"{"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}"#;
    assert!(ask(&server, "copy", &[], v2).expect(200).text().ends_with("}\n"));
    let error = ask(&server, "copy", &[("content-type", CSV)], "1,2,3,4\n5,x,7,8\n").error(400);
    assert!(error.contains("CSV record 2, column 2"), "{error}");
    let error = ask(&server, "copy", &[("content-type", LINES)], "[1,2,3,4]\n[5,6]\n").error(400);
    assert!(error.starts_with("record 2: "), "{error}");
}

#[test]
fn an_error_is_short_and_has_the_keys_that_its_reader_knows() {
    let id = ("X-Amzn-SageMaker-Inference-Id", "7");
    for (flags, more) in [("auto", false), ("hf", true), ("toolkit", true), ("tfs", false)] {
        let (_repository, server) = serve(&[&format!("--sagemaker-dialect={flags}")]);
        let long = format!("{{\"{}\":1}}", "€\\n".repeat(1000));
        for body in [&*long, "{", "[[1,2,3,x]]"] {
            let reply = ask(&server, "copy", &[("content-type", JSON), id], body).expect(400);
            assert_eq!(reply.header("content-type"), Some(JSON));
            assert!(reply.body.len() < 1024, "{}", reply.body.len());
            let error = reply.json();
            assert_eq!(error["request_id"], "7");
            assert_eq!(error.get("code").is_some(), more, "{flags}: {error}");
            if more {
                assert_eq!((&error["code"], &error["type"]), (&json!(400), &json!("InvalidInput")));
                assert_eq!(error["message"], error["error"]);
            }
        }
        let refused = [("content-type", JSON), ("accept", "image/png")];
        let error = ask(&server, "copy", &refused, "[[1,2,3,4]]").error(406);
        assert!(error.contains("offered: application/json, "), "{error}");
    }
}

/// The container takes what stands beside `parameters` for the inputs where there is no `inputs`.
#[cfg(feature = "pipelines")]
#[test]
fn an_object_of_inputs_alone_is_what_the_pipeline_of_hugging_faces_container_takes() {
    let repository = crate::support::pipelines::repository(&["question-answering", "sst2"]);
    let server = Server::start(&repository, &["--sagemaker-dialect=hf"]);
    let ask = |model: &str, body: &Value| {
        let headers =
            [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
        let mut client = Client::connect(server.sagemaker());
        client.post("/invocations", &headers, body.to_string()).expect(200).json()
    };
    let question = json!({"question": "Where does Ada live?", "context": "Ada lives in London."});
    let pair = json!({"text": "I love you", "text_pair": "I hate you"});
    for (model, alone) in [("question-answering", &question), ("sst2", &pair)] {
        let named = ask(model, &json!({"inputs": alone}));
        assert!(named.is_object(), "{named}");
        assert_eq!(ask(model, alone), named, "{model}");
        let top = json!({"top_k": 2});
        let mut both = alone.clone();
        both["parameters"] = top.clone();
        let two = ask(model, &json!({"inputs": alone, "parameters": top}));
        assert_eq!(two.as_array().map(Vec::len), Some(2), "{two}");
        assert_eq!(ask(model, &both), two, "{model}");
        both["parameters"] = Value::Null;
        assert_eq!(ask(model, &both), named, "{model}");
    }
}
