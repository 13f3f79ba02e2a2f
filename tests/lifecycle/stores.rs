//! Models from a store that speaks S3 and checks signatures (moto), through the real binary. Google's reading is that
//! of S3; how it and Azure are addressed and what signs their requests has tests where that is read.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::support::{
    Process, Repository, Server, pipelines, root,
    s3::{S3, start},
};

/// Starts what must not start, and returns the lines that say why, and how long it took.
#[track_caller]
fn refused(process: Process) -> (String, Duration) {
    let started = Instant::now();
    let finished = process.wait();
    assert!(!finished.status.success(), "{:#?}", finished.log);
    (finished.why().join("\n"), started.elapsed())
}

#[test]
fn models_are_served_from_a_store_and_a_warm_start_fetches_nothing() {
    let Some(mut s3) = S3::start() else { return };
    for name in ["type_fp32", "type_int8"] {
        s3.put_fixture(name);
    }
    let config = Repository::new().file("c", "name: \"type_fp32\"\nmax_batch_size: 4\n");
    s3.put("all/type_fp32/config.pbtxt", config.at("c"));
    let cache = Repository::new();
    let secret = s3.secret.clone();

    let mut server = s3.serve(&cache, &secret, &[]);
    server.wait_ready();
    let found = server.client().get("/v2/models/type_fp32/config").json();
    assert_eq!(found["max_batch_size"], 4);
    assert_eq!(server.client().get("/v2/models/type_int8/ready").status, 200);
    let all = ["type_fp32/1/model.onnx", "type_fp32/config.pbtxt", "type_int8/1/model.onnx"];
    assert_eq!(s3.read(), all);
    let log = server.log().join("\n");
    assert!(log.contains("AWS_ACCESS_KEY_ID (environment)"), "{log}");
    assert!(!log.contains(&secret) && !log.contains(&s3.key_id), "{log}");
    drop(server);

    let mut server = s3.serve(&cache, &secret, &[]);
    server.wait_ready();
    assert_eq!(s3.read(), [""; 0], "everything was there");
    drop(server);

    let config = config.file("c", "name: \"type_fp32\"\nmax_batch_size: 7\n");
    s3.put("all/type_fp32/config.pbtxt", config.at("c"));
    let mut server = s3.serve(&cache, &secret, &[]);
    server.wait_ready();
    let found = server.client().get("/v2/models/type_fp32/config").json();
    assert_eq!(found["max_batch_size"], 7);
    assert_eq!(s3.read(), ["type_fp32/config.pbtxt"], "only what has changed");
}

#[test]
fn folders_of_texts_are_served_from_a_store() {
    let Some(mut s3) = S3::start() else { return };
    // The second one has its chain, its pooling and its graph in folders of their own.
    let folders = pipelines::repository(&["sst2", "st-6"]);
    let mut open = vec![folders.path().to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
            continue;
        }
        let key = path.strip_prefix(folders.path()).unwrap().display().to_string();
        s3.put(&format!("all/{key}"), &path);
    }
    let cache = Repository::new();
    let mut process = s3.serve(&cache, &s3.secret.clone(), &[]);
    process.wait_ready();
    let body = r#"{"inputs": "I am super happy right now."}"#;
    let here = Server::start(&folders, &[]);
    for model in ["sst2", "st-6"] {
        let path = format!("/v2/models/{model}/pipeline");
        let answer = process.client().post(&path, &[], body).expect(200).text();
        assert_eq!(answer, here.post(&path, body).expect(200).text(), "{model}");
    }
}

#[test]
fn the_file_of_credentials_and_the_mount_directory_are_those_of_triton() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_fixture("type_fp32");
    let (key_id, secret) = (&s3.key_id, &s3.secret);
    let wrong = "{\"key_id\": \"AKIAWRONG\", \"secret_key\": \"no\"}";
    let right = format!("{{\"key_id\": \"{key_id}\", \"secret_key\": \"{secret}\"}}");
    let files = Repository::new().file(
        "credentials.json",
        format!("{{\"s3\": {{\"\": {wrong}, \"{}\": {right}}}}}", s3.address()),
    );
    let repository = format!("--model-repository={}", s3.address());
    let (file, mount) = (files.at("credentials.json"), files.at("mount"));
    let environment =
        [("TRITON_CLOUD_CREDENTIAL_PATH", &*file), ("TRITON_AWS_MOUNT_DIRECTORY", &*mount)];
    let mut server = start(&[&repository], &environment);
    server.wait_ready();
    assert!(Path::new(&mount).is_dir());
    assert_eq!(server.client().get("/v2/models/type_fp32/ready").status, 200);
}

#[test]
fn a_public_bucket_is_read_without_credentials_and_google_in_the_same_way() {
    let Some(mut s3) = S3::start_open() else { return };
    s3.put_fixture("type_fp32");
    let host = format!("127.0.0.1:{}", s3.port);
    let cache = Repository::new();
    let copies = format!("--model-repository-cache-dir={}", cache.at("copies"));
    let s3_address = format!("--model-repository={}", s3.address());
    let serves = |s3: &mut S3, flags: &[&str], environment: &[(&str, &str)], source: &str| {
        let mut server = start(&[flags, &[&copies]].concat(), environment);
        server.wait_ready();
        assert_eq!(server.client().get("/v2/models/type_fp32/ready").status, 200);
        assert_eq!(s3.read(), ["type_fp32/1/model.onnx"], "{source}");
        assert!(server.log().iter().any(|it| it.contains(source)), "{source}");
    };
    serves(&mut s3, &[&s3_address, "--store-anonymous=true"], &[], "--store-anonymous");
    // Google's XML is that of S3.
    let google = [("STORAGE_EMULATOR_HOST", &*host)];
    serves(&mut s3, &["--model-repository=gs://models/all"], &google, "STORAGE_EMULATOR_HOST");
}

#[test]
fn what_cannot_be_had_says_whom_it_asked_with_what_and_what_to_do() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_fixture("type_fp32");
    let cache = Repository::new();

    let (told, _) = refused(s3.serve(&cache, "not-the-secret", &[]));
    let parts = ["models/all", "endpoint: http://127.0.0.1", "AWS_ACCESS_KEY_ID (environment)"];
    for part in
        parts.into_iter().chain(["SignatureDoesNotMatch", "does not know these credentials"])
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("not-the-secret"), "{told}");

    let environment = [("AWS_ACCESS_KEY_ID", &*s3.key_id), ("AWS_SECRET_ACCESS_KEY", &*s3.secret)];
    let copies = format!("--model-repository-cache-dir={}", cache.at("copies"));
    let other = format!("--model-repository=s3://127.0.0.1:{}/no-such-bucket/all", s3.port);
    let (told, _) = refused(start(&[&other, &copies], &environment));
    assert!(told.contains("NoSuchBucket") && told.contains("name of the bucket"), "{told}");

    let empty = format!("--model-repository=s3://127.0.0.1:{}/models/nothing", s3.port);
    let (told, _) = refused(start(&[&empty, &copies], &environment));
    assert!(told.contains("no models found in s3://") && told.contains("models/nothing"), "{told}");

    let (told, _) = refused(s3.serve(&cache, "x", &["--model-repository-cache-dir=/proc/none"]));
    assert!(told.contains("--model-repository-cache-dir"), "{told}");
}

#[test]
fn an_endpoint_where_nobody_answers_ends_the_start_soon() {
    // A port that was free a moment ago, and that nobody listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cache = Repository::new();
    let repository = format!("--model-repository=s3://127.0.0.1:{port}/models");
    let copies = format!("--model-repository-cache-dir={}", cache.at("copies"));
    let environment = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let (told, took) = refused(start(&[&repository, &copies], &environment));
    assert!(told.contains("can be reached") && told.contains(&port.to_string()), "{told}");
    assert!(took < Duration::from_secs(25), "{took:?}");
}

#[test]
fn a_model_that_cannot_be_brought_here_keeps_no_other_from_being_served() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_fixture("type_fp32");
    s3.put("all/broken/1", root("Cargo.toml"));
    s3.put("all/broken/1/model.onnx", root("Cargo.toml"));
    let cache = Repository::new();
    let secret = s3.secret.clone();
    let mut server = s3.serve(&cache, &secret, &[]);
    server.wait_ready();
    assert_eq!(server.client().get("/v2/models/type_fp32/ready").status, 200);
    let index = server.client().post("/v2/repository/index", &[], b"{}").text();
    assert!(index.contains("is an object and a directory of others"), "{index}");
}
