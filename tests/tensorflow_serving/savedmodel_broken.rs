//! SavedModels whose files are cut off, missing, in another form or of operators that nobody has: load errors that say
//! so, while others serve.

use serde_json::json;

use crate::support::{
    Repository, root,
    savedmodels::{FIXTURES, post, serve_those},
};

const DATA: &str = "variables/variables.data-00000-of-00001";
const TEXT: &str = "saved_model_schema_version: 1\nmeta_graphs {\n}\n";

/// A file of the model `half_plus_two`.
fn half(file: &str) -> Vec<u8> {
    std::fs::read(root(&format!("{FIXTURES}/half_plus_two/1/{file}"))).unwrap()
}

/// The graph with an operator that nobody has in the place of another.
fn unknown_operator() -> Vec<u8> {
    let (given, unknown) = (b"AddV2", b"AddX9");
    let mut file = half("saved_model.pb");
    let mut found = 0;
    for at in 0..file.len() - given.len() {
        if file[at..].starts_with(given) {
            file[at..at + given.len()].copy_from_slice(unknown);
            found += 1;
        }
    }
    assert!(0 < found);
    file
}

#[test]
fn what_is_wrong_with_files_of_a_saved_model_is_a_load_error_and_the_others_serve() {
    let model = format!("{FIXTURES}/half_plus_two");
    let data = half(DATA);
    let repository = Repository::new()
        .copy("half_plus_two", &model)
        .file("text/1/saved_model.pbtxt", TEXT)
        .file("text/1/variables/variables.index", half("variables/variables.index"))
        .file("folder/1/model.savedmodel/saved_model.pbtxt", TEXT)
        .file("named/config.pbtxt", "platform: \"tensorflow_savedmodel\"")
        .file("named/1/saved_model.pbtxt", TEXT)
        .copy("cut", &model)
        .file(&format!("cut/1/{DATA}"), &data[..data.len() / 2])
        .copy("empty", &model)
        .file(&format!("empty/1/{DATA}"), "")
        .copy("changed", &model)
        .file(&format!("changed/1/{DATA}"), data.iter().map(|it| it ^ 0x55).collect::<Vec<_>>())
        .copy("asset", &format!("{FIXTURES}/words"))
        .file("asset/1/assets/vocabulary.txt", "")
        .copy("missing", &model)
        .copy("operator", &model)
        .file("operator/1/saved_model.pb", unknown_operator());
    std::fs::remove_file(repository.path().join(format!("missing/1/{DATA}"))).unwrap();
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    let mut client = process.client();
    for (name, parts) in [
        ("text", ["saved_model.pbtxt", "text_format.Parse"]),
        ("folder", ["saved_model.pbtxt", "text_format.Parse"]),
        ("named", ["saved_model.pbtxt", "text_format.Parse"]),
        ("cut", ["cut/1", "in variables/, is cut off or damaged"]),
        ("empty", ["empty/1", "in variables/, is cut off or damaged"]),
        ("changed", ["changed/1", "in variables/, is cut off or damaged"]),
        ("asset", ["InitializeTableFromTextFile", "in assets/, is cut off or damaged"]),
        ("missing", ["missing/1", DATA]),
        ("operator", ["AddX9", "op_library_filename"]),
    ] {
        let error = client.get(&format!("/v2/models/{name}/ready")).error(503);
        assert!(parts.iter().all(|it| error.contains(it)), "{name}: {error}");
    }
    let body = json!({"instances": [[1.0]]});
    let reply = post(&mut client, "/v1/models/half_plus_two:predict", &body);
    assert_eq!(reply, json!({"predictions": [[2.5]]}));
}
