//! Models as they lie in the cache of Hugging Face's hub: a snapshot's files are links to blobs beside it.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::json;

use crate::support::{
    Form, Process, Repository, Server, Start, Tensor, root,
    savedmodels::{FIXTURES, flag, post},
};

/// Puts all files of a folder, or one file, into the cache: each is a blob, and a link in the snapshot.
fn cached(cache: &Repository, model: &str, from: &str) -> String {
    let place = cache.path().join(format!("models--x--{model}"));
    let (blobs, snapshot) = (place.join("blobs"), place.join("snapshots/0a1b"));
    fs::create_dir_all(&blobs).unwrap();
    let from = root(from);
    let mut open = vec![from.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
            continue;
        }
        let name = match from.is_dir() {
            true => path.strip_prefix(&from).unwrap(),
            false => Path::new(path.file_name().unwrap()),
        };
        let blob = format!(
            "{:x}",
            name.to_str().unwrap().len() * 7919 + blobs.read_dir().unwrap().count()
        );
        fs::copy(&path, blobs.join(&blob)).unwrap();
        let link = snapshot.join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let up = "../".repeat(name.components().count() + 1);
        symlink(format!("{up}blobs/{blob}"), link).unwrap();
    }
    snapshot.display().to_string()
}

fn serve(path: &str) -> Server {
    let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    Start::command(&["serve", path]).flags(&ports).run()
}

#[test]
fn files_of_trees_and_graphs_are_served_from_a_snapshot_and_by_their_links() {
    let cache = Repository::new();
    let trees = cached(&cache, "trees", "tests/fixtures/forests/xgboost-3.2.0/logistic.ubj");
    let graph = cached(&cache, "graph", "tests/fixtures/models/scalar_one/1/model.onnx");
    for (path, input, size) in [
        (trees.clone(), "input__0", 8),
        (format!("{trees}/logistic.ubj"), "input__0", 8),
        (graph.clone(), "input", 1),
        (format!("{graph}/model.onnx"), "input", 1),
    ] {
        let server = serve(&path);
        let index = server.post("/v2/repository/index", "").expect(200).json();
        let model = index[0]["name"].as_str().unwrap().to_owned();
        let shape: &[usize] = if size == 8 { &[1, 8] } else { &[1] };
        let tensor = Tensor::fp32(input, shape, &vec![0.5; size]);
        server.client().infer(&model, &[tensor], Form::Binary, "").expect(200);
    }
}

#[test]
fn a_folder_of_texts_is_served_from_a_snapshot_as_it_lies_there() {
    let cache = Repository::new();
    let folder = cached(&cache, "sst2", "tests/fixtures/pipelines/sst2/folder");
    // Its chain, its pooling and its graph lie in folders of their own.
    let vectors = cached(&cache, "st-6", "tests/fixtures/pipelines/st-6/folder");
    let body = json!({"inputs": "I am super happy right now."}).to_string();
    for (path, from) in [(folder, "sst2"), (vectors, "st-6")] {
        let answer = |server: &Server| server.post("/pipeline", &body).expect(200).text();
        let copy = crate::support::pipelines::repository(&[from]);
        assert_eq!(answer(&serve(&path)), answer(&serve(&copy.at(from))), "{from}");
        // A repository whose model is a link to the snapshot.
        let links = Repository::new();
        symlink(&path, links.path().join(from)).unwrap();
        assert_eq!(answer(&Server::start(&links, &[])), answer(&serve(&path)), "{from}");
    }
    // A tokenizer that is the blob of another model.
    let place = cache.path().join("models--x--sst2/snapshots/0a1b/tokenizer.json");
    let other = cache.path().join("models--x--st-6/snapshots/0a1b/tokenizer.json");
    fs::remove_file(&place).unwrap();
    symlink(fs::canonicalize(other).unwrap(), &place).unwrap();
    let folder = place.parent().unwrap().display().to_string();
    let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    let said = Process::command(&[&["serve", &*folder][..], &ports].concat(), &[]).wait();
    let log = said.log.join("\n");
    assert!(!said.status.success() && log.contains("tokenizer.json"), "{log}");
}

#[test]
fn a_saved_model_is_served_from_a_snapshot_and_its_links_lead_to_its_own_blobs_alone() {
    let flag = flag();
    if !Path::new(flag.split_once('=').unwrap().1).is_file() {
        return crate::support::skip("python3 backends/tensorflow/prepare.py has not been run");
    }
    let cache = Repository::new();
    let half = cached(&cache, "half", &format!("{FIXTURES}/half_plus_two/1"));
    let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    let args = [&["serve", &*half, &*flag][..], &ports].concat();
    let mut process = Process::command(&args, &[]);
    process.wait_ready();
    let rows = json!({"instances": [1.0, 2.0, 5.0]});
    let mut client = process.client();
    let index = client.post("/v2/repository/index", &[], "").expect(200).json();
    let model = index[0]["name"].as_str().unwrap();
    let answer = post(&mut client, &format!("/v1/models/{model}:predict"), &rows);
    assert_eq!(answer, json!({"predictions": [2.5, 3.0, 4.5]}));

    // The blob of another model.
    let other = cached(&cache, "other", &format!("{FIXTURES}/half_plus_two/1"));
    let file = Path::new(&other).join("saved_model.pb");
    let blob = fs::canonicalize(Path::new(&half).join("saved_model.pb")).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(blob, file).unwrap();
    let args = [&["serve", &*other, &*flag][..], &ports].concat();
    let said = Process::command(&args, &[]).wait().log.join("\n");
    assert!(said.contains("out of the model's directory"), "{said}");
}
