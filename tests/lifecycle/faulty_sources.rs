//! What goes wrong with every kind of source that is asked over HTTP, through the real binary: the other side is busy,
//! leads elsewhere or refuses, or the disk here is full. What is of one kind alone has tests beside it.

use std::{fs, net::SocketAddr, path::Path};

use serde_json::{Value, json};

use crate::{
    locked::{sha256, with_tls},
    support::{
        Process, Repository, ended, faulty::Proxy, hub::Hub, images::Images, mlflow::Mlflow,
        small_disk,
    },
};

/// The file of each model, which is larger than a small disk.
const FILE: &str = "large.onnx";

fn content() -> Vec<u8> {
    (0..50_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// A source with one model.
struct Source {
    /// What the model is called.
    name: String,
    /// The address of its file, behind the host.
    path: String,
    /// In front of what has the model. Nothing for an address, whose host has its own faults.
    proxy: Option<Proxy>,
    /// What has the model, and asks for no credentials.
    behind: SocketAddr,
    hub: Option<Hub>,
    /// Variables beside that of the home.
    variables: Vec<(&'static str, String)>,
    place: Repository,
    #[expect(dead_code, reason = "they end with this")]
    servers: (Option<Images>, Option<Mlflow>),
}

impl Source {
    /// A registry of images, which wants a token.
    fn images() -> Option<Source> {
        let place = Repository::new();
        let images = Images::start(&place)?;
        let layer = images.file("net", FILE, &content());
        images.image("net", "v1", std::slice::from_ref(&layer));
        let proxy = Proxy::start(images.address, &["--token"])?;
        let login =
            json!({"auths": {proxy.address().to_string(): {"auth": "YW5uYTpzd29yZGZpc2g="}}});
        let place = place.file("home/.docker/config.json", login.to_string());
        Some(Source {
            name: format!("oci://{}/net:v1", proxy.address()),
            path: format!("/v2/net/blobs/{}", layer["digest"].as_str().unwrap()),
            behind: images.address,
            proxy: Some(proxy),
            hub: None,
            variables: Vec::new(),
            place,
            servers: (Some(images), None),
        })
    }

    /// MLflow's registry, which wants a token.
    fn mlflow() -> Option<Source> {
        let mut mlflow = Mlflow::start()?;
        let place = Repository::new().file(&format!("net/{FILE}"), content());
        mlflow.tell(&["register", "net", &place.at("net"), "onnx", FILE]);
        let proxy = Proxy::start(mlflow.address, &["--bearer"])?;
        let uri = format!("http://{}", proxy.address());
        let token = ("MLFLOW_TRACKING_TOKEN", "registry-secret".to_owned());
        let mut source = Source {
            name: "models:/net/1".to_owned(),
            path: String::new(),
            behind: mlflow.address,
            proxy: Some(proxy),
            hub: None,
            variables: vec![("MLFLOW_TRACKING_URI", uri), token],
            place,
            servers: (None, Some(mlflow)),
        };
        // MLflow says where the file lies.
        source.fail(json!([]));
        ended(source.pull(&source.place.at("first")), 0, &[]);
        let asked = source.asked().into_iter();
        let path = asked.filter_map(|(it, ..)| Some(it.split_once(" /")?.1.to_owned()));
        source.path = format!("/{}", path.into_iter().find(|it| it.ends_with(FILE)).unwrap());
        Some(source)
    }

    /// An address with TLS.
    fn address() -> Option<Source> {
        let place = Repository::new();
        let hub = with_tls(&place)?;
        hub.write(&format!("org/net/{FILE}"), &content());
        let digest = sha256(&hub.models.at(&format!("org/net/{FILE}")));
        let path = format!("/org/net/{FILE}");
        Some(Source {
            name: format!("https://localhost:{}{path}#sha256={digest}", hub.tls_port),
            path,
            behind: SocketAddr::from(([127, 0, 0, 1], hub.tls_port)),
            proxy: None,
            variables: vec![("SSL_CERT_FILE", place.at("ca"))],
            hub: Some(hub),
            place,
            servers: (None, None),
        })
    }

    fn all() -> impl Iterator<Item = Source> {
        [Source::images, Source::mlflow, Source::address].into_iter().filter_map(|it| it())
    }

    fn fail(&self, faults: Value) {
        match (&self.proxy, &self.hub) {
            (Some(proxy), _) => proxy.fail(faults),
            (None, hub) => hub.as_ref().unwrap().fail(faults),
        }
    }

    fn asked(&self) -> Vec<(String, bool, Option<String>)> {
        match (&self.proxy, &self.hub) {
            (Some(proxy), _) => proxy.asked(),
            (None, hub) => hub.as_ref().unwrap().asked(),
        }
    }

    /// How often the file was asked for.
    fn times(&self) -> usize {
        self.asked().iter().filter(|it| it.0.ends_with(&self.path)).count()
    }

    fn with_variables<T>(&self, use_them: impl FnOnce(&[(&str, &str)]) -> T) -> T {
        let home = self.place.at("home");
        let own = self.variables.iter().map(|(name, value)| (*name, &**value));
        use_them(&own.chain([("HOME", &*home)]).collect::<Vec<_>>())
    }

    /// `muster pull` of the model, into this directory.
    fn pull(&self, copies: &str) -> Process {
        let copies = format!("--model-repository-cache-dir={copies}");
        self.with_variables(|it| Process::command(&["pull", &self.name, &copies], it))
    }

    /// The content that a pull brings.
    #[track_caller]
    fn pulled(&self) -> Vec<u8> {
        let copies = self.place.at("copies");
        let _ = fs::remove_dir_all(&copies);
        let pulled = ended(self.pull(&copies), 0, &[]);
        let path = Path::new(pulled.log.iter().find(|it| it.starts_with('/')).unwrap()).to_owned();
        fs::read(if path.is_dir() { path.join(FILE) } else { path }).unwrap()
    }

    /// One fault of the file.
    fn fault(&self, times: u32, status: u16, headers: &Value) {
        self.fail(json!([{
            "path": self.path, "times": times, "fault": "status", "status": status, "headers": headers
        }]));
    }
}

#[test]
fn a_source_that_is_busy_is_asked_again_when_it_says() {
    for source in Source::all() {
        source.fault(2, 429, &json!({"Retry-After": "0"}));
        assert!(source.pulled() == content(), "{}", source.name);
        assert_eq!(source.times(), 3, "{:?}", source.asked());
    }
}

#[test]
fn a_source_may_lead_elsewhere_where_no_credentials_go() {
    for source in Source::all() {
        let Some(other) = Proxy::start(source.behind, &[]) else { return };
        if source.proxy.is_none() {
            // It leads on within its host, and from TLS to nothing less.
            let moved = source.path.replace("large", "moved");
            source.hub.as_ref().unwrap().write(&moved[1..], &content());
            source.fault(1, 302, &json!({"Location": moved}));
            assert!(source.pulled() == content());
            source.fault(1, 302, &json!({"Location": format!("http://{}/x", other.address())}));
            let parts = ["expected to be led to https, was led to http://"];
            ended(source.pull(&source.place.at("second")), 1, &parts);
            assert_eq!(other.asked(), []);
            continue;
        }
        let location = format!("http://{}{}", other.address(), source.path);
        source.fault(1, 307, &json!({"Location": location}));
        assert!(source.pulled() == content(), "{}", source.name);
        let found: Vec<_> = other.asked().into_iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(found, [(format!("GET proxy {}", source.path), false)]);
        // In a circle.
        let own = source.proxy.as_ref().unwrap().address();
        source.fault(20, 307, &json!({"Location": format!("http://{own}{}", source.path)}));
        let parts = ["expected at most 8 redirects"];
        ended(source.pull(&source.place.at("second")), 1, &parts);
    }
}

#[test]
fn a_source_that_refuses_ends_the_fetch_with_its_status() {
    for source in Source::all() {
        for status in [401, 403, 404, 410] {
            source.fault(9, status, &json!({}));
            let said = format!("{} answered {status}", source.path);
            ended(source.pull(&source.place.at("second")), 1, &["cannot fetch", &said]);
            assert!(source.times() <= 2, "{:?}", source.asked());
        }
        source.fail(json!([]));
        assert!(source.pulled() == content(), "{}", source.name);
    }
}

#[test]
fn a_disk_that_is_full_fails_a_fetch_of_any_source() {
    for source in Source::all() {
        let copies = source.place.at("small");
        fs::create_dir(&copies).unwrap();
        if !small_disk::can_be_mounted(&copies) {
            return;
        }
        let flag = format!("--model-repository-cache-dir={copies}");
        for (options, part) in
            [("size=64k", "has room for"), ("size=9m,nr_inodes=9", "No space left on device")]
        {
            let args = ["pull", &source.name, &flag];
            let pull = source.with_variables(|it| small_disk::muster(&copies, options, &args, it));
            ended(pull, 1, &["cannot fetch", part]);
        }
        source.fail(json!([]));
        assert!(source.pulled() == content(), "{}", source.name);
    }
}
