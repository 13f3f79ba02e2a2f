//! Facts about what is found in directories.

use super::*;
use crate::config::engines::usual;

/// All models of several repositories.
///
/// # Errors
/// When a repository cannot be listed.
fn scan_repositories(repositories: &[PathBuf], names: Names) -> io::Result<FoundModels> {
    let mut found = FoundModels::default();
    for repository in repositories {
        found.look_into(repository, names)?;
    }
    Ok(found)
}

/// A folder of these files (or directories, where the name ends in a slash), deleted at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(test: &str, paths: &[&str]) -> Tree {
        let root = std::env::temp_dir().join(format!("muster-{}-{test}", std::process::id()));
        for path in paths {
            let full = root.join(path);
            let dir = if path.ends_with('/') { &*full } else { full.parent().unwrap() };
            fs::create_dir_all(dir).unwrap();
            if !path.ends_with('/') {
                fs::write(full, "").unwrap();
            }
        }
        Tree(root)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn id(name: &str) -> ModelId {
    ModelId::named(name)
}

fn summary(found: &FoundModels) -> Vec<(&str, Vec<u64>)> {
    let versions = |it: &FoundModel| it.versions.keys().copied().collect();
    found.models.values().map(|it| (&*it.name, versions(it))).collect()
}

#[test]
fn a_repository_holds_models_and_their_numbered_versions() {
    let tree = Tree::new(
        "repository",
        &[
            "b/config.pbtxt",
            "b/2/model.onnx",
            "b/10/",
            "a/1/",
            "a/warmup/",
            "README.md",
            "b.tar.gz",
            ".git/1/",
            "lost+found/",
            "__MACOSX/a/1/",
        ],
    );
    std::os::unix::fs::symlink("nowhere", tree.0.join("dangling")).unwrap();
    let found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
    assert_eq!(summary(&found), [("a", vec![1]), ("b", vec![2, 10])]);
    assert!(found.models[&id("b")].config.is_some() && found.models[&id("a")].config.is_none());
    assert_eq!(found.warnings, [] as [String; 0]);
}

#[test]
fn directories_that_are_no_versions_are_named() {
    let tree = Tree::new("versions", &["m/1/", "m/01/", "m/1abc/", "m/0/", "m/-1/"]);
    let found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
    assert_eq!(summary(&found), [("m", vec![1])]);
    assert_eq!(found.warnings.len(), 4);
}

#[test]
fn zeros_are_taken_off_versions_of_a_platforms_folder_but_not_off_those_of_triton() {
    let tree = Tree::new(
        "zeros",
        &[
            "tf/0000123/",
            "tf/5/",
            "tf/05/",
            "triton/config.pbtxt",
            "triton/01/",
            "x.tar.gz",
            "code/",
        ],
    );
    let found = scan_path(&tree.0, true, &usual()).unwrap();
    assert_eq!(summary(&found), [("tf", vec![5, 123]), ("triton", vec![])]);
    assert!(found.skipped[0].ends_with("as no models: code, x.tar.gz"), "{:?}", found.skipped);
    assert!(found.warnings.iter().any(|it| it.contains("triton/01")), "{:?}", found.warnings);
    let plain = scan_path(&tree.0, false, &usual()).unwrap();
    assert_eq!(summary(&plain), [("tf", vec![5]), ("triton", vec![])]);
}

#[test]
fn repositories_in_channels_are_found_and_a_name_in_two_of_them_is_refused() {
    let tree = Tree::new(
        "channels",
        &[
            "model/a/1/",
            "channels/one/b/1/",
            "channels/one/junk/",
            "channels/two/b/1/",
            "channels/two/c/1/",
        ],
    );
    let mut found = scan_path(&tree.0.join("model"), true, &usual()).unwrap();
    found.look_into_channels(&tree.0.join("channels"), &usual()).unwrap();
    assert_eq!(summary(&found), [("a", vec![1]), ("c", vec![1])]);
    assert!(found.refused[&id("b")].contains("appears in two or more repositories"));
}

#[test]
fn a_name_in_two_repositories_is_refused_naming_both() {
    let tree = Tree::new("twice", &["r/m/1/", "s/m/1/", "s/n/1/"]);
    let repositories = [tree.0.join("r"), tree.0.join("s")];
    let found = scan_repositories(&repositories, Names::Once).unwrap();
    assert_eq!(summary(&found), [("n", vec![1])]);
    assert!(found.refused[&id("m")].contains("r/m") && found.refused[&id("m")].contains("s/m"));
}

#[test]
fn with_a_namespace_for_each_repository_both_are_found() {
    let tree = Tree::new("namespaces", &["r/m/1/", "s/m/1/", "s/n/1/"]);
    let repositories = [tree.0.join("r"), tree.0.join("s")];
    let found = scan_repositories(&repositories, Names::PerRepository).unwrap();
    assert_eq!(summary(&found), [("m", vec![1]), ("m", vec![1]), ("n", vec![1])]);
    let mut one = FoundModels::default();
    repositories.iter().for_each(|it| one.look_for("m", it, Names::PerRepository));
    let namespaces: Vec<&str> = one.models.keys().map(|it| &*it.namespace).collect();
    assert_eq!(namespaces, repositories.each_ref().map(|it| it.to_str().unwrap()));
}

#[test]
fn what_is_still_being_written_is_no_model() {
    let tree = Tree::new("unfinished", &["m/1/", "n.part/1/", "o_tmp/1/", "p.tmp/1/"]);
    let repositories = std::slice::from_ref(&tree.0);
    let found = scan_repositories(repositories, Names::Once).unwrap();
    assert_eq!(summary(&found), [("m", vec![1])]);
    let mut none = FoundModels::default();
    none.look_for("n.part", &tree.0, Names::Once);
    assert!(none.models.is_empty());
}

#[test]
fn a_directory_that_cannot_be_read_is_refused_and_hides_no_other() {
    let tree = Tree::new("unreadable", &["m/1/"]);
    let mut found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
    let missing = model_in(&tree.0.join("n"), id("n"), Style::Triton, &mut Vec::new());
    found.add_or_refuse(id("n"), missing);
    assert_eq!(summary(&found), [("m", vec![1])]);
    assert!(found.refused[&id("n")].starts_with("cannot list "), "{}", found.refused[&id("n")]);
}

#[test]
fn a_file_a_flat_model_and_version_directories_are_one_model() {
    let tree = Tree::new("flat", &["f/net.onnx", "f/net.onnx.data", "v/3/model.onnx"]);
    let file = scan_path(&tree.0.join("f/net.onnx"), false, &usual()).unwrap();
    assert_eq!(summary(&file), [("net", vec![1])]);
    let flat = scan_path(&tree.0.join("f"), true, &usual()).unwrap();
    assert_eq!(summary(&flat), [("model", vec![1])]);
    assert!(flat.models[&id("model")].versions[&1].ends_with("f/net.onnx"));
    let versions = scan_path(&tree.0.join("v"), false, &usual()).unwrap();
    assert_eq!(summary(&versions), [("v", vec![3])]);
}

#[test]
fn of_two_flat_models_the_one_named_model_counts_and_then_the_engine_that_is_looked_for_first() {
    let file = |tree: &Tree| {
        scan_path(&tree.0, true, &usual()).unwrap().models[&id("model")].versions.clone()
    };
    let tree = Tree::new("two", &["a.onnx", "model.pt", "._model.onnx"]);
    assert!(file(&tree)[&1].ends_with("model.pt"));
    let left_out = |tree: &Tree| scan_path(&tree.0, true, &usual()).unwrap().warnings.join("\n");
    assert!(
        left_out(&tree).contains("model of its folder: a.onnx; give each"),
        "{}",
        left_out(&tree)
    );
    let tree = Tree::new("both", &["model.pt2", "model.pt", "model.onnx"]);
    assert!(file(&tree)[&1].ends_with("model.onnx"));
    assert_eq!(left_out(&tree), "", "the same model in other forms");
}

#[test]
fn several_model_files_are_a_model_each_but_for_weights_without_code() {
    let tree = Tree::new("several", &["a.onnx", "b.onnx", "b.pt", "c.pth", "notes.txt"]);
    fs::write(tree.0.join("c.pth"), b"\x80\x02}q\0.").unwrap();
    for hosted in [true, false] {
        let found = scan_path(&tree.0, hosted, &usual()).unwrap();
        assert_eq!(summary(&found), [("a", vec![1]), ("b", vec![1])]);
        assert!(found.models[&id("b")].versions[&1].ends_with("b.onnx"));
    }
}

#[test]
fn a_directory_of_the_hub_is_one_model_and_so_is_one_without_versions() {
    let tree = Tree::new("hub", &["bert/config.json", "bert/onnx/model.onnx", "net/net.onnx"]);
    let of_hub = scan_path(&tree.0.join("bert"), false, &usual()).unwrap();
    assert_eq!(summary(&of_hub), [("bert", vec![1])]);
    let archive = scan_path(&tree.0, false, &usual()).unwrap();
    assert_eq!(summary(&archive), [("bert", vec![1]), ("net", vec![1])]);
    let mut found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
    assert_eq!(summary(&found), [("bert", vec![]), ("net", vec![])]);
    found.take_unversioned(&usual());
    assert_eq!(found.models, archive.models);
    assert!(found.models[&id("bert")].versions[&1].ends_with("bert/onnx/model.onnx"));
}

#[test]
fn a_model_beside_an_mlmodel_is_taken_where_the_file_of_the_flavor_is_not_there() {
    let names = ["hub/onnx/model.onnx", "named/b.onnx", "named/a.onnx", "none/model.cb/"];
    let tree = Tree::new("mlflow", &names);
    fs::write(tree.0.join("named/muster.json"), r#"{"graph": "b.onnx"}"#).unwrap();
    let path = |model: &str, flavor: &str| {
        let text = format!("flavors:\n  {flavor}\n");
        fs::write(tree.0.join(model).join("MLmodel"), text).unwrap();
        let mut found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
        found.take_unversioned(&usual());
        let path = &found.models[&id(model)].versions[&1];
        path.strip_prefix(&tree.0).unwrap().display().to_string()
    };
    let absent = "transformers:\n    model_binary: model";
    assert_eq!(path("hub", absent), "hub/onnx/model.onnx");
    assert_eq!(path("named", absent), "named/b.onnx");
    // Loading says what is missing.
    assert_eq!(path("none", absent), "none");
    assert_eq!(path("hub", "onnx:\n    data: ./onnx/model.onnx"), "hub");
    assert_eq!(path("none", "catboost:\n    data: model.cb"), "none");
}

#[test]
fn the_only_model_can_be_named_and_one_of_several_cannot() {
    let named = |tree: &Tree| {
        let mut found = scan_path(&tree.0, false, &usual()).unwrap();
        found.name_the_only("given");
        found
    };
    let found = named(&Tree::new("named", &["net.onnx"]));
    assert_eq!(summary(&found), [("given", vec![1])]);
    assert!(found.models[&id("given")].renamed && found.warnings.is_empty());
    let found = named(&Tree::new("many", &["a/1/", "b/1/"]));
    assert_eq!(summary(&found), [("a", vec![1]), ("b", vec![1])]);
    assert!(found.warnings[0].contains("there are 2"), "{}", found.warnings[0]);
}

#[test]
fn a_hosted_archive_may_hold_more_than_models_but_no_bare_configuration() {
    let tree =
        Tree::new("hosted", &["a/m/1/model.onnx", "a/code/x.py", "a/t.tar.gz", "b/config.pbtxt"]);
    for hosted in [true, false] {
        let found = scan_path(&tree.0.join("a"), hosted, &usual()).unwrap();
        assert_eq!(summary(&found), [("m", vec![1])]);
    }
    let refused = scan_path(&tree.0.join("b"), true, &usual()).unwrap().refused;
    assert!(refused[&id("model")].contains("<name>/config.pbtxt"));
    assert_eq!(summary(&scan_path(&tree.0.join("b"), false, &usual()).unwrap()), [("b", vec![])]);
}

#[test]
fn an_exported_servo_directory_is_one_model_and_in_a_platforms_folder_it_has_that_name() {
    let tree = Tree::new("servo", &["export/Servo/7/model.onnx"]);
    assert_eq!(summary(&scan_path(&tree.0, true, &usual()).unwrap()), [("Servo", vec![7])]);
    let own = directory_name(&tree.0);
    assert_eq!(summary(&scan_path(&tree.0, false, &usual()).unwrap()), [(&*own, vec![7])]);
}

#[test]
fn models_beside_an_exported_servo_directory_are_passed_over_with_a_warning_that_names_them() {
    let paths = [
        "export/Servo/7/saved_model.pb",
        "export/other/1/saved_model.pb",
        "a/1/model.onnx",
        "b/c/2/saved_model.pb",
        "d/1/m/saved_model.pb",
        "e/1/m/saved_model.pb",
        "code/inference.py",
    ];
    let tree = Tree::new("beside-servo", &paths);
    for hosted in [true, false] {
        let found = scan_path(&tree.0, hosted, &usual()).unwrap();
        assert_eq!(found.models.len(), 1);
        let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
        assert!(warning.contains("passed over are: a, b/c, d, e, export/other;"), "{warning}");
    }
    let alone = Tree::new("servo-alone", &["export/Servo/7/saved_model.pb", "code/x.py", "x.csv"]);
    assert!(scan_path(&alone.0, true, &usual()).unwrap().warnings.is_empty());
}

#[test]
fn saved_models_of_a_platforms_folder_are_found_at_any_depth_and_have_the_name_of_their_folder() {
    let paths = [
        "a/b/1/saved_model.pb",
        "a/b/2/",
        "a/c/d/0007/saved_model.pb",
        "e/3/x",
        "a/f/1/model.onnx",
    ];
    let tree = Tree::new("deep", &paths);
    let found = scan_path(&tree.0, true, &usual()).unwrap();
    let expected = [("b", vec![1, 2]), ("d", vec![7]), ("e", vec![3])];
    assert_eq!(summary(&found), expected);
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    assert_eq!(summary(&scan_path(&tree.0, false, &usual()).unwrap()), [("e", vec![3])]);
    let twice = Tree::new("deep-twice", &["a/m/1/saved_model.pb", "b/m/1/saved_model.pb"]);
    let found = scan_path(&twice.0, true, &usual()).unwrap();
    assert!(found.refused[&id("m")].contains("a/m") && found.refused[&id("m")].contains("b/m"));
}
