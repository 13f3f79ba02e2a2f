//! Models in object stores come and go as those in directories do: by request, when somebody asks, when the store
//! changes; and a store that does not answer takes away nothing that is here.

use serde_json::Value;

use crate::support::{
    Client, Process, Repository, Traffic, control::EXPLICIT, first_of, infer, row, s3::S3, wait_for,
};

const POLL: [&str; 2] = ["--model-control-mode=poll", "--repository-poll-secs=0.1"];

/// The index as `name:version state`.
#[track_caller]
fn index(client: &mut Client) -> Vec<String> {
    let index = client.post("/v2/repository/index", &[], "").expect(200).json();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let line =
        |it: &Value| format!("{}:{} {}", text(it, "name"), text(it, "version"), text(it, "state"));
    index.as_array().unwrap().iter().map(line).collect()
}

#[track_caller]
fn wait_for_index(client: &mut Client, lines: &[&str]) {
    wait_for(&format!("the index {lines:?}; it is {:?}", index(client)), || {
        (index(client) == lines).then_some(())
    });
}

fn load(client: &mut Client, name: &str) -> crate::support::Reply {
    client.post(&format!("/v2/repository/models/{name}/load"), &[], "")
}

fn largest_batch(client: &mut Client, name: &str) -> u64 {
    let config = client.get(&format!("/v2/models/{name}/config")).expect(200).json();
    config["max_batch_size"].as_u64().unwrap()
}

fn warnings(server: &Process) -> usize {
    server.log().iter().filter(|it| it.contains("the object store cannot be asked")).count()
}

#[test]
fn a_load_by_request_fetches_that_model_alone_and_the_index_names_all() {
    let Some(mut s3) = S3::start() else { return };
    ["a", "b", "c"].iter().for_each(|it| s3.put_whole(it));
    let cache = Repository::new();
    let mut server = s3.serve_here(&cache, &[EXPLICIT, "--load-model=b"]);
    let mut client = server.client();
    assert_eq!(index(&mut client), ["a: ", "b:1 READY", "c: "]);
    assert_eq!(s3.read(), ["b/1/weights", "b/config.pbtxt"]);
    load(&mut client, "a").expect(200);
    assert_eq!(s3.read(), ["a/1/weights", "a/config.pbtxt"]);
    assert_eq!(first_of(&client.post(&infer("a"), &[], row(3))), 3.0);
    assert_eq!(index(&mut client), ["a:1 READY", "b:1 READY", "c: "]);
    let missing = load(&mut client, "none").error(500);
    assert!(missing.contains("'none'") && missing.contains("s3://"), "{missing}");
}

#[test]
fn what_has_changed_is_served_after_a_load_by_request_and_no_request_fails() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_whole("m");
    let cache = Repository::new();
    let mut server = s3.serve_here(&cache, &[EXPLICIT, "--load-model=*"]);
    let mut client = server.client();
    let traffic = Traffic::start(server.address("http"), "m", 4);
    s3.read();
    for rows in [16, 24, 32] {
        s3.put_identity("m", rows);
        load(&mut client, "m").expect(200);
        assert_eq!(largest_batch(&mut client, "m"), rows as u64);
        assert_eq!(s3.read(), ["m/config.pbtxt"], "only what has changed");
        traffic.wait_for_more(20);
    }
    s3.put_version("m", 2);
    load(&mut client, "m").expect(200);
    assert_eq!(index(&mut client), ["m:1 READY", "m:2 READY"]);
    traffic.stop();
}

#[test]
fn a_store_that_refuses_fails_a_load_by_request_naming_whom_it_asked_and_what_serves_stays() {
    let Some(mut s3) = S3::start() else { return };
    ["a", "b"].iter().for_each(|it| s3.put_whole(it));
    let (cache, local) = (Repository::new(), Repository::identity("here", &[]));
    let local = format!("--model-repository={}", local.at(""));
    let mut server = s3.serve_here(&cache, &[EXPLICIT, "--load-model=a", &local]);
    let mut client = server.client();
    s3.tell("refuse");
    for model in ["a", "b"] {
        let error = load(&mut client, model).error(500);
        let object = format!("models/all/{model}");
        for part in [&*object, "AccessDenied", "AWS_ACCESS_KEY_ID (environment)"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains(&s3.secret), "{error}");
    }
    assert_eq!(first_of(&client.post(&infer("a"), &[], row(1))), 1.0);
    // What lies elsewhere is loaded all the same.
    load(&mut client, "here").expect(200);
    assert_eq!(index(&mut client), ["a:1 READY", "b: ", "here:1 READY"]);
    server.wait_for_line("the object store cannot be asked");
    assert_eq!(warnings(&server), 1, "{:#?}", server.log());
    s3.tell("answer");
    load(&mut client, "b").expect(200);
    server.wait_for_line("the object store answers again");
}

#[test]
fn a_new_version_in_the_store_is_taken_up_and_one_that_goes_ends() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_whole("m");
    let (cache, local) = (Repository::new(), Repository::identity("here", &[]));
    let local_flag = format!("--model-repository={}", local.at(""));
    let mut server = s3.serve_here(&cache, &[&POLL[..], &[&local_flag]].concat());
    let mut client = server.client();
    let traffic = Traffic::start(server.address("http"), "m", 2);
    s3.put_version("m", 2);
    wait_for_index(&mut client, &["here:1 READY", "m:1 READY", "m:2 READY"]);
    s3.put_whole("n");
    wait_for_index(&mut client, &["here:1 READY", "m:1 READY", "m:2 READY", "n:1 READY"]);
    s3.tell("delete models all/m/2/weights");
    let without = ["here:1 READY", "m:1 READY", "m:2 UNAVAILABLE", "n:1 READY"];
    wait_for_index(&mut client, &without);

    // Looks go on at the directory while the store is away, and nothing of the store is unloaded.
    s3.tell("refuse");
    server.wait_for_line("the object store cannot be asked");
    let local = local.with_identity("late", &[]);
    let more = ["here:1 READY", "late:1 READY", "m:1 READY", "m:2 UNAVAILABLE", "n:1 READY"];
    wait_for_index(&mut client, &more);
    assert_eq!(warnings(&server), 1);
    s3.tell("answer");
    s3.put_identity("m", 16);
    wait_for("the change", || (largest_batch(&mut client, "m") == 16).then_some(()));
    traffic.stop();
    drop(local);
}

#[test]
fn a_start_while_the_store_is_down_serves_the_last_copies() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_whole("m");
    let cache = Repository::new();
    drop(s3.serve_here(&cache, &[]));
    s3.put_identity("m", 16);
    drop(s3.serve_here(&cache, &[]));
    s3.stop();
    for flags in [&[][..], &[EXPLICIT, "--load-model=m"], &["--model-load-on-demand=true"]] {
        let mut server = s3.serve_here(&cache, flags);
        let mut client = server.client();
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(5))), 5.0);
        assert_eq!(largest_batch(&mut client, "m"), 16, "the newest of two copies");
        assert_eq!(warnings(&server), 1, "{:#?}", server.log());
    }
}

#[test]
fn a_request_for_a_model_in_a_store_fetches_it() {
    let Some(mut s3) = S3::start() else { return };
    ["a", "b"].iter().for_each(|it| s3.put_whole(it));
    let cache = Repository::new();
    let mut server = s3.serve_here(&cache, &["--model-load-on-demand=true"]);
    assert_eq!(s3.read(), [""; 0]);
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("a"), &[], row(7))), 7.0);
    assert_eq!(s3.read(), ["a/1/weights", "a/config.pbtxt"]);
    s3.tell("refuse");
    let error = client.post(&infer("b"), &[], row(7)).error(503);
    assert!(error.contains("models/all/b") && error.contains("AccessDenied"), "{error}");
}

#[test]
fn with_namespaces_a_store_and_a_directory_may_have_one_name() {
    let Some(mut s3) = S3::start() else { return };
    s3.put_whole("m");
    let (cache, local) = (Repository::new(), Repository::identity("m", &[]));
    let local = format!("--model-repository={}", local.at(""));
    let mut server = s3.serve_here(&cache, &[&local, "--model-namespacing=true"]);
    let mut client = server.client();
    assert_eq!(index(&mut client), ["m:1 READY", "m:1 READY"]);
    let error = client.get("/v2/models/m").error(400);
    assert!(
        error.contains("s3://http://127.0.0.1") && error.contains(local.split('=').nth(1).unwrap()),
        "{error}"
    );
}
