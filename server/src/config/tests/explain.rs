//! Facts about the command line of `muster explain`.

use super::*;

fn asked(args: &[&str]) -> Result<ExplainCommand, String> {
    let args = ["muster", "explain"].iter().chain(args).map(OsString::from);
    match read(args, &Fake::default(), &machine()) {
        Ok(Command::Explain(command)) => Ok(*command),
        Ok(other) => panic!("expected something to explain, found {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_folder_is_explained_with_the_settings_of_pipelines() {
    let command = asked(&["a", "--output", "b", "--task=rerank"]).unwrap();
    assert_eq!(command.path, Path::new("a"));
    assert_eq!(command.output.as_deref(), Some(Path::new("b")));
    assert_eq!(command.pipelines.task.as_deref(), Some("rerank"));
    assert_eq!(asked(&["a"]).unwrap().output, None);
}

#[test]
fn what_cannot_be_explained_is_said() {
    let error = asked(&[]).unwrap_err();
    assert!(error.contains("nothing can be explained"), "{error}");
    assert!(error.contains("no folder is named"), "{error}");
}
