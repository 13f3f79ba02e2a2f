//! Models in a registry of images, through the real binary and a real registry: what is fetched and unpacked, who may,
//! and what goes wrong on the way.

use std::{fs, io::Write, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::{Compression, write::GzEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::support::{
    Finished, Process, Repository, ended,
    faulty::Proxy,
    images::{Entry, IMAGE, Images, LIST, TAR, sha256, tar},
    root,
};

const PORTS: [&str; 5] = [
    "--http-port=0",
    "--grpc-port=0",
    "--sagemaker-port=0",
    "--metrics-port=0",
    "--http-address=127.0.0.1",
];

/// The model of the images: it doubles a number.
fn model() -> Vec<u8> {
    fs::read(root("tests/fixtures/models/scalar_one/1/model.onnx")).unwrap()
}

/// A file of an archive.
fn file<'a>(path: &'a str, content: &'a [u8]) -> Entry<'a> {
    Entry { path, kind: b'0', content }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A registry, a server in front of it, and a place for what is fetched.
struct Setting {
    images: Images,
    proxy: Proxy,
    place: Repository,
}

impl Setting {
    fn start(needs: &[&str]) -> Option<Setting> {
        let place = Repository::new();
        let images = Images::start(&place)?;
        let proxy = Proxy::start(images.address, needs)?;
        Some(Setting { images, proxy, place })
    }

    /// The name of an image behind the server in front.
    fn name(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.proxy.address())
    }

    fn muster(&self, args: &[&str]) -> Process {
        muster(&self.place, args)
    }

    #[track_caller]
    fn pull(&self, args: &[&str]) -> String {
        directory(&ended(self.muster(&[&["pull"], args].concat()), 0, &[]))
    }

    #[track_caller]
    fn refused(&self, args: &[&str], parts: &[&str]) {
        ended(self.muster(&[&["pull"], args].concat()), 1, parts);
    }
}

/// `muster` with these arguments, a home and a cache of its own.
fn muster(place: &Repository, args: &[&str]) -> Process {
    let copies = format!("--model-repository-cache-dir={}", place.at("copies"));
    Process::command(&[args, &[&*copies]].concat(), &[("HOME", &place.at("home"))])
}

fn directory(pulled: &Finished) -> String {
    pulled.log.iter().find(|it| it.starts_with('/')).unwrap().clone()
}

/// The files of a directory that was fetched.
fn files(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The twice of a number, as the served model says it.
#[track_caller]
fn doubled(server: &mut Process, name: &str) -> Value {
    server.wait_ready();
    let body =
        json!({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1], "data": [21]}]});
    let path = format!("/v2/models/{name}/infer");
    let answer = server.client().post(&path, &[], body.to_string()).expect(200).json();
    answer["outputs"][0]["data"].clone()
}

#[test]
fn an_image_is_served_by_its_folder_of_models_and_fetched_once() {
    let Some(it) = Setting::start(&[]) else { return };
    let below = tar(&[file("etc/os-release", b"x"), file("models/old.onnx", b"no model")]);
    let link = Entry { path: "models/link", kind: b'2', content: b"" };
    let model = model();
    let above = [
        file("models/.wh.old.onnx", b""),
        file("models/net.onnx", &model),
        file("../outside", b"x"),
        link,
    ];
    let gzipped = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    let layers = [
        it.images.content("org/fraud", TAR, &below),
        it.images.content("org/fraud", gzipped, &gzip(&tar(&above))),
    ];
    let digest = it.images.image("org/fraud", "v1", &layers);
    let name = it.name("org/fraud:v1");
    let mut server = it.muster(&[&["serve", &*name][..], &PORTS].concat());
    assert_eq!(doubled(&mut server, "fraud"), json!([42.0]));
    drop(server);
    it.proxy.fail(json!([]));
    let pulled = it.pull(&[&name]);
    assert_eq!(files(&pulled), ["net.onnx"]);
    assert!(pulled.ends_with(&digest[7..]), "{pulled}");
    assert!(
        it.proxy.asked().iter().all(|it| it.0.contains("/manifests/v1")),
        "{:?}",
        it.proxy.asked()
    );
    // By its digest nobody is asked at all, and where nobody can be asked a tag is what it was.
    it.proxy.fail(json!([]));
    assert_eq!(it.pull(&[&it.name(&format!("org/fraud@{digest}"))]), pulled);
    assert_eq!(it.proxy.asked(), []);
    let Setting { place, mut proxy, .. } = it;
    proxy.stop();
    let kept = muster(&place, &["pull", &name]);
    let kept =
        ended(kept, 0, &["the copy that is here is served, as the registry cannot be asked"]);
    assert_eq!(directory(&kept), pulled);
    // The archives are not kept beside what was in them.
    let folder = Path::new(&pulled).ancestors().nth(2).unwrap();
    assert_eq!(files(folder.to_str().unwrap()), ["blobs", "refs", "snapshots"]);
    assert_eq!(files(folder.join("blobs").to_str().unwrap()), [sha256(&model)[7..].to_owned()]);
}

#[test]
fn an_artifact_is_its_files_and_a_list_the_only_image_in_it() {
    let Some(it) = Setting::start(&[]) else { return };
    let model = model();
    let layers = [
        it.images.file("net", "fraud/1/model.onnx", &model),
        it.images.file("net", "fraud/labels.txt", b"a"),
    ];
    let digest = it.images.image("net", "files", &layers);
    let entry = |digest: &str| json!({"mediaType": IMAGE, "digest": digest, "size": 9});
    let list = json!({"schemaVersion": 2, "mediaType": LIST, "manifests": [entry(&digest)]});
    it.images.manifest("net", "list", LIST, &list);
    let mut server = it.muster(&[&["serve", &*it.name("net:list")][..], &PORTS].concat());
    assert_eq!(doubled(&mut server, "net"), json!([42.0]));

    let several = |os: &str| {
        let mut entry = entry(&digest);
        entry["platform"] = json!({"os": os, "architecture": "amd64"});
        entry
    };
    let list = json!({"schemaVersion": 2, "mediaType": LIST, "manifests": [several("linux"), several("windows")]});
    it.images.manifest("net", "several", LIST, &list);
    let parts = ["list of several images", "windows/amd64 @sha256:"];
    it.refused(&[&it.name("net:several")], &parts);
    let zstd =
        compress_to_vec(&tar(&[file("models/net.onnx", &model)])[..], CompressionLevel::Fastest);
    let zstd = it.images.content("net", &format!("{TAR}+zstd"), &zstd);
    it.images.image("net", "zstd", &[zstd]);
    assert_eq!(files(&it.pull(&[&it.name("net:zstd")])), ["net.onnx"]);
    let xz = it.images.content("net", &format!("{TAR}+xz"), b"x");
    it.images.image("net", "xz", &[xz]);
    it.refused(&[&it.name("net:xz")], &["expected a tar archive, perhaps with gzip or zstd"]);
    let outside = it.images.file("net", "../../x", b"x");
    it.images.image("net", "outside", &[outside]);
    it.refused(&[&it.name("net:outside")], &["would lie outside of its folder"]);
    let empty = it.images.content("net", TAR, &tar(&[]));
    it.images.image("net", "empty", &[empty]);
    it.refused(&[&it.name("net:empty")], &["expected the files of a model in its layers"]);
    let none = it.images.content("net", TAR, b"no archive");
    it.images.image("net", "none", &[none]);
    it.refused(&[&it.name("net:none")], &["cannot fetch", "archive '"]);
    it.refused(&[&it.name("net:v9")], &["answered 404", "no such image, tag or digest"]);
    it.refused(&[&it.name("Net")], &["oci://<host>/<name>:<tag>"]);
    // A disk that is too small for what is announced is not written to.
    let mut huge = it.images.content("net", TAR, b"x");
    huge["size"] = json!(900_000_000_000_000_000_u64);
    let config = it.images.content("net", "application/json", b"{}");
    let manifest =
        json!({"schemaVersion": 2, "mediaType": IMAGE, "config": config, "layers": [huge]});
    it.images.manifest("net", "huge", IMAGE, &manifest);
    it.refused(&[&it.name("net:huge")], &["has room for", "900000000000000000 are to be fetched"]);
}

#[test]
fn a_layer_that_breaks_off_is_gone_on_with_and_one_with_another_digest_is_refused() {
    let Some(it) = Setting::start(&[]) else { return };
    let content: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
    let layer = it.images.file("net", "weights.bin", &content);
    it.images.image("net", "v1", std::slice::from_ref(&layer));
    let name = it.name("net:v1");
    it.proxy.fail(json!([{"path": "/blobs/", "times": 9, "fault": "cut", "bytes": 0}]));
    it.refused(&[&name], &["5 times"]);
    it.proxy.fail(json!([
        {"path": "/blobs/", "times": 2, "fault": "cut", "bytes": 1000},
        {"path": "/blobs/", "times": 1, "fault": "corrupt"},
        {"path": "/blobs/", "times": 1, "fault": "corrupt"},
    ]));
    it.refused(&[&name], &["its content has sha256:", "it was removed"]);
    it.proxy.fail(json!([{"path": "/blobs/", "times": 2, "fault": "cut", "bytes": 1000}]));
    let pulled = it.pull(&[&name]);
    assert_eq!(fs::read(Path::new(&pulled).join("weights.bin")).unwrap(), content);
    let asked = it.proxy.asked().into_iter().filter(|it| it.0.contains("/blobs/"));
    let ranges: Vec<_> = asked.map(|it| it.2).collect();
    assert_eq!(ranges, [None, Some("bytes=1000-".to_owned()), Some("bytes=2000-".to_owned())]);
    // A manifest that is another one than was asked for.
    let digest = it.images.image("net", "v2", &[layer]);
    it.proxy.fail(json!([{"path": "/manifests/", "times": 1, "fault": "corrupt"}]));
    fs::remove_dir_all(it.place.at("copies")).unwrap();
    it.refused(&[&it.name(&format!("net@{digest}"))], &["its content has sha256:", &digest]);
}

#[test]
fn a_registry_gets_the_login_of_docker_as_it_asks_for_it() {
    let Some(it) = Setting::start(&["--token"]) else { return };
    let layer = it.images.file("org/net", "model.onnx", &model());
    it.images.image("org/net", "v1", &[layer]);
    let name = it.name("org/net:v1");
    it.refused(&[&name], &["/token answered 401: wrong user", "'docker login'"]);
    let log_in = |host: &str, user: &str| {
        let auths = json!({"auths": {host: {"auth": BASE64_STANDARD.encode(user)}}});
        fs::create_dir_all(it.place.at("home/.docker")).unwrap();
        fs::write(it.place.at("home/.docker/config.json"), auths.to_string()).unwrap();
    };
    let host = it.proxy.address().to_string();
    log_in(&host, "anna:guess");
    it.refused(&[&name], &["does not take the login"]);
    log_in(&host, "anna:swordfish");
    it.proxy.fail(json!([]));
    let pulled = ended(it.muster(&["pull", &name, "--log-verbose=1"]), 0, &[]);
    let log = pulled.log.join("\n");
    assert!(!log.contains("swordfish") && !log.contains("registry-secret"), "{log}");
    let asked: Vec<_> = it.proxy.asked().into_iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(asked[0], ("GET proxy /v2/org/net/manifests/v1".to_owned(), false));
    assert_eq!(asked[1], ("GET proxy /token".to_owned(), true));
    assert!(3 < asked.len() && asked[2..].iter().all(|it| it.1), "{asked:?}");

    // The registry's own users, with each request.
    let Some(own) = Images::with_users(&it.place) else { return };
    let name = format!("oci://{}/org/net:v1", own.address);
    it.refused(&[&name], &["answered 401: authentication required", "'docker login'"]);
    log_in(&own.address.to_string(), "anna:swordfish");
    assert_eq!(files(&it.pull(&[&name])), ["model.onnx"]);
}

#[test]
fn a_credential_helper_is_asked_for_the_login_of_its_registry() {
    let place = Repository::new();
    let Some(own) = Images::with_users(&place) else { return };
    let name = format!("oci://{}/org/none:v1", own.address);
    let programs = place.at("programs");
    fs::create_dir_all(&programs).unwrap();
    let helper = format!("{programs}/docker-credential-tests");
    let text = "#!/bin/sh\nread -r host || :\ntest \"$1\" = get || exit 1\n\
                echo \"{\\\"ServerURL\\\": \\\"$host\\\", \\\"Username\\\": \\\"anna\\\", \
                \\\"Secret\\\": \\\"$SECRET\\\"}\"\n";
    fs::write(&helper, text).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(place.at("home/.docker")).unwrap();
    let config = json!({"credHelpers": {own.address.to_string(): "tests"}});
    fs::write(place.at("home/.docker/config.json"), config.to_string()).unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let copies = format!("--model-repository-cache-dir={}", place.at("copies"));
    let pull = |secret: &str| {
        let variables = [("HOME", &*place.at("home")), ("PATH", &path), ("SECRET", secret)];
        Process::command(&["pull", &name, &copies], &variables)
    };
    // Who has logged in is told that there is no such image, and nobody else is told anything.
    ended(pull("swordfish"), 1, &["answered 404", "no such image, tag or digest"]);
    ended(pull("guess"), 1, &["answered 401", "does not take the login"]);
    fs::remove_file(&helper).unwrap();
    ended(pull("swordfish"), 1, &["no login of the credential helper", "answered 401"]);
}

#[test]
fn a_lock_file_holds_an_image_though_its_tag_moves() {
    let Some(it) = Setting::start(&[]) else { return };
    let push = |label: &[u8]| {
        let files =
            [it.images.file("net", "model.onnx", &model()), it.images.file("net", "label", label)];
        it.images.image("net", "v1", &files)
    };
    let first = push(b"one");
    let (name, lock) = (it.name("net:v1"), format!("--lock-file={}", it.place.at("muster.lock")));
    let serve =
        |place: &Repository| muster(place, &[&["serve", &*name, &*lock][..], &PORTS].concat());
    ended(serve(&it.place), 1, &["has no such model", "muster pull oci://"]);
    let pulled = it.pull(&[&name, &lock]);
    let text = fs::read_to_string(it.place.at("muster.lock")).unwrap();
    let model = &serde_json::from_str::<Value>(&text).unwrap()["models"][&name];
    assert_eq!(model["revision"], first[7..]);
    assert_eq!(
        model["files"],
        json!({"label": sha256(b"one"), "model.onnx": sha256(&self::model())})
    );

    let second = push(b"two");
    it.proxy.fail(json!([]));
    assert_eq!(doubled(&mut serve(&it.place), "net"), json!([42.0]));
    assert_eq!((it.pull(&[&name, &lock]), it.proxy.asked()), (pulled.clone(), Vec::new()));
    // Another machine fetches what is in the file.
    let other = Repository::new();
    assert_eq!(doubled(&mut serve(&other), "net"), json!([42.0]));
    let asked = it.proxy.asked();
    assert!(asked[0].0.ends_with(&format!("/manifests/{first}")), "{asked:?}");
    let moved = it.pull(&[&name, &lock, "--update"]);
    assert!(moved.ends_with(&second[7..]), "{moved}");
    // A file that somebody has changed.
    fs::remove_file(Path::new(&moved).join("label")).unwrap();
    fs::write(Path::new(&moved).join("label"), "three").unwrap();
    ended(serve(&it.place), 1, &["its file 'label' has", "in the lock file"]);
}
