//! Facts about models that are named and not here.

use super::*;

fn wanted(paths: &[&'static str], args: &str, variables: &[&str]) -> Option<sources::Name> {
    config_at(paths, args, variables).wanted
}

#[test]
fn what_is_not_here_and_has_the_name_of_a_model_is_fetched() {
    let bge = Some(name("hf://BAAI/bge-small-en-v1.5"));
    for text in ["BAAI/bge-small-en-v1.5", "hf://BAAI/bge-small-en-v1.5"] {
        assert_eq!(wanted(&[], &format!("serve {text}"), &[]), bge);
    }
    let config = config_at(&["BAAI/bge-small-en-v1.5/"], "serve BAAI/bge-small-en-v1.5", &[]);
    assert_eq!(config.wanted, None);
    assert_eq!(config.repository.from, ModelsFrom::Path("BAAI/bge-small-en-v1.5".into()));
    check_refused("serve hf://a/b/c", &[], &["expected hf://<owner>/<name>"]);
}

#[test]
fn the_variable_of_hugging_faces_container_names_a_model_where_no_other_is() {
    let hub = "HF_MODEL_ID=org/name";
    let local = "model_repository/";
    let org = Some(name("hf://org/name"));
    assert_eq!(wanted(&[local], "serve", &[hub]), org);
    assert_eq!(wanted(&[], "", &["HF_MODEL_ID=gpt2"]), Some(name("hf://gpt2")));
    assert_eq!(wanted(&["/opt/ml/model/"], "serve", &[hub]), org);
    let full = ["/opt/ml/model/", "/opt/ml/model/net/"];
    assert_eq!(wanted(&full, "serve", &[hub]), None);
    assert_eq!(wanted(&["a/"], "--model-repository a", &[hub]), None);
    assert_eq!(wanted(&["x.onnx"], "serve x.onnx", &[hub]), None);
    // Other containers have it name a directory.
    let path = config_at(&["/data/x/"], "serve", &["HF_MODEL_ID=/data/x"]);
    assert_eq!((path.wanted, path.repository.from), (None, ModelsFrom::Path("/data/x".into())));
    assert!(config_at(&["/opt/ml/model/"], "serve", &[hub]).hosted);
}

#[test]
fn the_variables_of_hugging_faces_client_say_where_from_and_where_to() {
    let variables = [
        "HF_ENDPOINT=https://mirror/hf/",
        "HF_TOKEN=hf_secret",
        "HF_HUB_OFFLINE=1",
        "HF_MODEL_REVISION=v1",
        "HF_HOME=/data",
    ];
    let config = config("", &variables);
    let hub = &config.sources.hub;
    assert_eq!((&*hub.endpoint, &*hub.revision), ("https://mirror/hf", "v1"));
    assert!(hub.is_offline);
    assert_eq!(hub.cache.as_deref(), Some(Path::new("/data/hub")));
    assert_eq!(hub.token.as_ref().map(|it| it.reveal()), Some("hf_secret"));
    let shown = format!("{config:?}{}", notices(&config));
    assert!(!shown.contains("hf_secret"), "{shown}");
}

#[test]
fn the_cache_lies_in_the_first_home_that_a_variable_names() {
    let cache = |variables: &[&str]| config("", variables).sources.hub.cache;
    let path = |it: &str| Some(it.into());
    assert_eq!(cache(&[]), None);
    assert_eq!(cache(&["HOME=/root"]), path("/root/.cache/huggingface/hub"));
    assert_eq!(cache(&["HOME=/root", "XDG_CACHE_HOME=/c"]), path("/c/huggingface/hub"));
    assert_eq!(cache(&["HOME=/root", "HF_HUB_CACHE=/hub"]), path("/hub"));
    let problem = problems("--hub-endpoint=mirror --hub-revision=../x", &[]);
    assert_eq!(problem.len(), 2, "{problem:#?}");
}

#[test]
fn models_are_pulled_by_name_and_what_is_a_path_is_refused() {
    let asked = |args: &[&str], variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|it| (it.0.to_owned(), it.1.into()));
        let fake = Fake { variables: variables.collect(), ..Fake::default() };
        let args = ["muster", "pull"].iter().chain(args).map(OsString::from);
        match read(args, &fake, &machine()) {
            Ok(Command::Pull(command)) => Ok(*command),
            Ok(other) => panic!("expected something to fetch, found {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    let both = asked(&["a/b", "hf://c@v1", "--pipeline-graph=quantized"], &[]).unwrap();
    assert_eq!(both.names, [name("a/b"), name("hf://c@v1")]);
    let graphs = ["onnx/model_quantized.onnx".to_owned(), "model_quantized.onnx".to_owned()];
    assert_eq!(both.sources.graphs, graphs);
    assert_eq!(asked(&[], &[("HF_MODEL_ID", "gpt2")]).unwrap().names, [name("hf://gpt2")]);
    for (args, part) in [(&["./a"][..], "'./a' is no name"), (&[], "write muster pull NAME")] {
        let error = asked(args, &[]).unwrap_err();
        assert!(error.contains("nothing can be fetched") && error.contains(part), "{error}");
    }
}

#[test]
fn mlflows_registry_is_what_the_variables_of_its_clients_say() {
    let of = |variables: &[&str]| config("", variables).sources.mlflow;
    let tracking = "MLFLOW_TRACKING_URI=http://tracking:5000";
    let one = of(&[tracking, "MLFLOW_TRACKING_TOKEN=secret"]);
    assert_eq!(one.registry.as_deref(), Some("http://tracking:5000"));
    assert_eq!(one.token.as_ref().map(|it| it.reveal()), Some("secret"));
    assert_eq!(one.user, None);
    let user = ["MLFLOW_TRACKING_USERNAME=anna", "MLFLOW_TRACKING_PASSWORD=secret"];
    let two = of(&[&[tracking, "MLFLOW_REGISTRY_URI=http://registry"], &user[..]].concat());
    assert_eq!(two.registry.as_deref(), Some("http://registry"));
    assert_eq!(two.tracking.as_deref(), Some("http://tracking:5000"));
    let (name, password) = two.user.clone().unwrap();
    assert_eq!((&*name, password.reveal()), ("anna", "secret"));
    assert!(!format!("{one:?}{two:?}").contains("secret"));
}
