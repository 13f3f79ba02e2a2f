//! Models of MLflow's registry, through the real binary and MLflow's own server: which version is meant, where its
//! artifacts lie, who may read them, and what goes wrong on the way.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Finished, Process, Repository, ended, faulty::Proxy, mlflow::Mlflow, s3::S3};

const PORTS: [&str; 5] = [
    "--http-port=0",
    "--grpc-port=0",
    "--sagemaker-port=0",
    "--metrics-port=0",
    "--http-address=127.0.0.1",
];

/// Models that are registered: folders, to which MLflow writes what it has beside a model.
fn folders() -> Repository {
    Repository::new()
        .copy("forest/model.ubj", "tests/fixtures/forests/xgboost-3.4.1/logistic.ubj")
        .copy("net/model.onnx", "tests/fixtures/models/scalar_one/1/model.onnx")
        .file("net/deep/er/labels.txt", "a")
}

/// `muster` with these arguments, a home and a cache of its own.
fn muster(place: &Repository, args: &[&str], variables: &[(&str, &str)]) -> Process {
    let copies = format!("--model-repository-cache-dir={}", place.at("copies"));
    let home = place.at("home");
    Process::command(&[args, &[&*copies]].concat(), &[&[("HOME", &*home)], variables].concat())
}

fn directory(pulled: &Finished) -> String {
    pulled.log.iter().find(|it| it.starts_with('/')).unwrap().clone()
}

/// What a served model says of itself.
#[track_caller]
fn described(mut server: Process, name: &str) -> Value {
    server.wait_ready();
    let mut document = server.client().get(&format!("/v2/models/{name}")).expect(200).json();
    document["name"] = Value::Null;
    document
}

#[test]
fn a_version_is_served_as_its_folder_is_on_this_machine() {
    let Some(mut mlflow) = Mlflow::start() else { return };
    let (place, folders) = (Repository::new(), folders());
    let Some(mut proxy) = Proxy::start(mlflow.address, &[]) else { return };
    assert_eq!(
        mlflow.tell(&["register", "churn", &folders.at("forest"), "xgboost", "model.ubj"]),
        1
    );
    assert_eq!(
        mlflow.tell(&["register_run", "churn", &folders.at("net"), "onnx", "model.onnx"]),
        2
    );
    mlflow.tell(&["alias", "churn", "champion", "1"]);
    let uri = format!("http://{}", proxy.address());
    let variables = [("MLFLOW_TRACKING_URI", &*uri)];
    let serve = |name: &str| muster(&place, &[&["serve", name][..], &PORTS].concat(), &variables);
    let local = |name: &str, file: &str| {
        let path = folders.path().join(name).join(file);
        described(
            muster(&place, &[&["serve", path.to_str().unwrap()][..], &PORTS].concat(), &[]),
            "model",
        )
    };
    let (forest, net) = (local("forest", "model.ubj"), local("net", "model.onnx"));
    assert_ne!(forest, net);
    assert_eq!(described(serve("models:/churn@champion"), "churn"), forest);
    assert_eq!(described(serve("models:/churn/1"), "churn"), forest);
    assert_eq!(described(serve("models:/churn/latest"), "churn"), net);

    // What is here is not fetched again, and an alias is asked for each time.
    let pull = |name: &str, parts: &[&str]| {
        directory(&ended(muster(&place, &["pull", name], &variables), 0, parts))
    };
    let artifacts = |asked: Vec<(String, bool, Option<String>)>| {
        asked.into_iter().filter(|it| it.0.contains("/artifacts/")).count()
    };
    proxy.fail(json!([]));
    let first = pull("models:/churn@champion", &[]);
    assert_eq!(artifacts(proxy.asked()), 0);
    let labels = Path::new(&pull("models:/churn/2", &[])).join("deep/er/labels.txt");
    assert_eq!(fs::read(labels).unwrap(), b"a");
    mlflow.tell(&["alias", "churn", "champion", "2"]);
    assert_ne!(pull("models:/churn@champion", &[]), first);

    // A lock file holds the version.
    let lock = format!("--lock-file={}", place.at("muster.lock"));
    let locked = ["models:/churn@champion", &*lock];
    let obeyed =
        |place: &Repository| muster(place, &[&["serve"], &locked[..], &PORTS].concat(), &variables);
    ended(obeyed(&place), 1, &["has no such model", "muster pull models:/churn@champion"]);
    ended(muster(&place, &[&["pull"], &locked[..]].concat(), &variables), 0, &[]);
    mlflow.tell(&["alias", "churn", "champion", "1"]);
    proxy.fail(json!([]));
    assert_eq!(described(obeyed(&place), "churn"), net);
    assert_eq!(proxy.asked(), []);
    assert_eq!(described(obeyed(&Repository::new()), "churn"), net);
    // Another content under the same number is not taken.
    mlflow.tell(&["delete", "churn"]);
    mlflow.tell(&["register", "churn", &folders.at("forest"), "xgboost", "model.ubj"]);
    mlflow.tell(&["register", "churn", &folders.at("net"), "onnx", "model.onnx"]);
    ended(obeyed(&Repository::new()), 1, &["in the lock file"]);

    // While nobody can be asked the version is served that it was.
    mlflow.tell(&["alias", "churn", "champion", "1"]);
    let again = pull("models:/churn@champion", &[]);
    assert_ne!(again, first);
    proxy.stop();
    let warning = "the copy that is here is served, as the registry cannot be asked";
    assert_eq!(pull("models:/churn@champion", &[warning]), again);
    ended(
        muster(&place, &["pull", "models:/churn/7"], &variables),
        1,
        &["cannot fetch models:/churn/7"],
    );
}

#[test]
fn who_asks_is_what_the_variables_of_mlflows_clients_say_and_refusals_say_what_to_do() {
    let Some(mut mlflow) = Mlflow::start() else { return };
    let (place, folders) = (Repository::new(), folders());
    mlflow.tell(&["register", "churn", &folders.at("net"), "onnx", "model.onnx"]);
    let refused = |name: &str, variables: &[(&str, &str)], parts: &[&str]| {
        ended(muster(&place, &["pull", name], variables), 1, parts)
    };
    let one = "models:/churn/1";
    refused(one, &[], &["set MLFLOW_TRACKING_URI to the http[s]://"]);
    refused(
        one,
        &[("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")],
        &["it is 'sqlite:///mlflow.db'"],
    );
    refused("models:/churn/Production", &[], &["models:/<name>/<number of a version>"]);

    let start = |needs: &str| Proxy::start(mlflow.address, &[needs]);
    let Some(bearer) = start("--bearer") else { return };
    let uri = format!("http://{}", bearer.address());
    let tracking = ("MLFLOW_TRACKING_URI", &*uri);
    refused(
        one,
        &[tracking],
        &["answered 401: authentication required", "set MLFLOW_TRACKING_TOKEN"],
    );
    let guess = refused(
        one,
        &[tracking, ("MLFLOW_TRACKING_TOKEN", "guess")],
        &["does not take the credentials"],
    );
    assert!(!guess.log.join("\n").contains("guess"));
    let token = [tracking, ("MLFLOW_TRACKING_TOKEN", "registry-secret")];
    bearer.fail(json!([]));
    ended(muster(&place, &["pull", one], &token), 0, &[]);
    assert!(bearer.asked().iter().all(|it| it.1), "{:?}", bearer.asked());
    refused(
        "models:/none/1",
        &token,
        &["answered 404: Model Version (name=none, version=1) not found"],
    );
    refused("models:/none/latest", &token, &["answered 404", "no such model, version or alias"]);
    refused("models:/churn@none", &token, &["Registered model alias none not found"]);
    bearer.fail(
        json!([{"path": "/mlflow-artifacts/", "times": 1, "fault": "status", "status": 403}]),
    );
    refused(one, &token, &["answered 403", "may not read the model"]);

    let Some(basic) = start("--basic") else { return };
    let uri = format!("http://{}", basic.address());
    let tracking = ("MLFLOW_TRACKING_URI", &*uri);
    let user =
        [tracking, ("MLFLOW_TRACKING_USERNAME", "anna"), ("MLFLOW_TRACKING_PASSWORD", "swordfish")];
    ended(muster(&place, &["pull", one], &user), 0, &[]);
    // The file that MLflow's clients read.
    let credentials =
        "[mlflow]\nmlflow_tracking_username = anna\nmlflow_tracking_password = swordfish\n";
    let place = Repository::new().file("home/.mlflow/credentials", credentials);
    ended(muster(&place, &["pull", one], &[tracking]), 0, &[]);
}

#[test]
fn artifacts_in_a_store_are_fetched_from_the_store_as_mlflows_own_clients_do() {
    let Some(mut mlflow) = Mlflow::start() else { return };
    let Some(mut s3) = S3::start() else { return };
    let (place, folders) = (Repository::new(), folders());
    let folders =
        folders.file("forest/MLmodel", "flavors:\n  xgboost:\n    data: model.ubj\n    code:\n");
    for file in ["MLmodel", "model.ubj"] {
        s3.put(&format!("1/models/m-1/artifacts/{file}"), folders.path().join("forest").join(file));
    }
    mlflow.tell(&["register_at", "churn", "s3://models/1/models/m-1/artifacts"]);
    let (uri, store) =
        (format!("http://{}", mlflow.address), format!("http://127.0.0.1:{}", s3.port));
    let secret = s3.secret.clone();
    let tracking = ("MLFLOW_TRACKING_URI", &*uri);
    let key = ("AWS_ACCESS_KEY_ID", &*s3.key_id.clone());
    let variables =
        [tracking, key, ("AWS_SECRET_ACCESS_KEY", &*secret), ("MLFLOW_S3_ENDPOINT_URL", &*store)];
    // MLflow's own variable goes before that of all programs.
    let [.., ours] = variables;
    let other = [tracking, key, ("AWS_SECRET_ACCESS_KEY", "guess"), ours];
    let nowhere = ("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    let one = "models:/churn/1";
    let guess = ended(
        muster(&place, &["pull", one], &[&other[..], &[nowhere]].concat()),
        1,
        &[
            "cannot fetch models:/churn/1: cannot list s3://models/1/models/m-1/artifacts",
            "AWS_ACCESS_KEY_ID",
        ],
    );
    assert!(!guess.log.join("\n").contains("guess"));
    let lock = format!("--lock-file={}", place.at("muster.lock"));
    let pulled = directory(&ended(muster(&place, &["pull", one, &lock], &variables), 0, &[]));
    let whole = fs::read(folders.at("forest/model.ubj")).unwrap();
    assert_eq!(fs::read(Path::new(&pulled).join("model.ubj")).unwrap(), whole);
    let by_all = [tracking, key, variables[2], ("AWS_ENDPOINT_URL", &*store)];
    let again = ended(muster(&place, &["pull", one], &by_all), 0, &["it is here already"]);
    assert_eq!(directory(&again), pulled);
    mlflow.tell(&["register_at", "churn", "s3://models/1/models/m-2/artifacts"]);
    ended(muster(&place, &["pull", "models:/churn/2"], &variables), 1, &["there is no model"]);

    // What is in the lock file is served, though neither can be asked.
    s3.stop();
    mlflow.stop();
    let args = [&["serve", one, &*lock][..], &PORTS].concat();
    let file = folders.at("forest/model.ubj");
    let local = muster(&place, &[&["serve", &*file][..], &PORTS].concat(), &[]);
    assert_eq!(described(muster(&place, &args, &variables), "churn"), described(local, "model"));
}

#[test]
fn artifacts_come_whole_or_from_this_machine_or_it_is_said_where_they_lie() {
    let Some(mut mlflow) = Mlflow::start() else { return };
    let (place, folders) = (Repository::new(), folders());
    let Some(proxy) = Proxy::start(mlflow.address, &[]) else { return };
    mlflow.tell(&["register", "churn", &folders.at("forest"), "xgboost", "model.ubj"]);
    let uri = format!("http://{}", proxy.address());
    let variables = [("MLFLOW_TRACKING_URI", &*uri)];
    let pull = |args: &[&str]| muster(&place, &[&["pull"], args].concat(), &variables);
    let cut = |times: u32, bytes: u32| json!([{"path": "/artifacts/model.ubj", "times": times, "fault": "cut", "bytes": bytes}]);
    proxy.fail(cut(9, 0));
    ended(pull(&["models:/churn/1"]), 1, &["model.ubj", "5 times"]);
    proxy.fail(cut(2, 1000));
    let pulled = directory(&ended(pull(&["models:/churn/1"]), 0, &[]));
    let whole = fs::read(folders.at("forest/model.ubj")).unwrap();
    assert_eq!(fs::read(Path::new(&pulled).join("model.ubj")).unwrap(), whole);

    // What lies on this machine is served where it is, and a lock file holds it, too.
    mlflow.tell(&["register_at", "here", &format!("file://{}", folders.at("net"))]);
    let lock = format!("--lock-file={}", place.at("muster.lock"));
    let here = directory(&ended(pull(&["models:/here/1", &lock]), 0, &[]));
    assert_eq!(here, folders.at("net"));
    fs::write(folders.at("net/deep/er/labels.txt"), "b").unwrap();
    let args = [&["serve", "models:/here/1", &*lock][..], &PORTS].concat();
    ended(muster(&place, &args, &variables), 1, &["its file 'deep/er/labels.txt' has"]);
    for (uri, part) in [
        (
            "wasbs://box@account.blob.core.windows.net/model",
            "net/model', which muster does not fetch from",
        ),
        ("file:///nowhere/model", "and there is no such directory on this machine"),
    ] {
        let version = mlflow.tell(&["register_at", "away", uri]);
        let download = "mlflow artifacts download --artifact-uri models:/away/";
        ended(pull(&[&format!("models:/away/{version}")]), 1, &[part, download]);
    }
}
