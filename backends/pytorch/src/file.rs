//! Is a file one of TorchScript? Looked into before libtorch is asked, whose answers to other files are about
//! the insides of archives.

use std::{
    fs,
    io::{self, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use backend::BackendError;

use crate::archive;

/// What there is instead, in the end of a sentence.
const SAVE: &str = "export the model with torch.onnx.export(model, example, \"model.onnx\", dynamo=True), or with \
                    torch.jit.script(model) or torch.jit.trace(model, example), and .save(\"model.pt\") of the result";

/// The file itself, or `model.pt` in the folder; it is a TorchScript archive as far as its list of contents
/// can tell.
///
/// # Errors
/// What the file is instead, and what to do.
pub(crate) fn find(path: &Path) -> Result<PathBuf, BackendError> {
    let path = match path.is_dir() {
        true => path.join("model.pt"),
        false => path.to_owned(),
    };
    let problem = match fs::metadata(&path) {
        Ok(data) if data.len() == 0 => "the file is empty".to_owned(),
        Ok(_) => match backend::open_file(&path).map(BufReader::new).map(look) {
            Ok(None) => return Ok(path),
            Ok(Some(problem)) => problem,
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(BackendError::Load(format!("{}: {problem}", path.display())))
}

/// What is wrong with the file, if anything is.
fn look(mut file: impl Read + Seek) -> Option<String> {
    let mut begin = Vec::new();
    if let Err(error) = (&mut file).take(64).read_to_end(&mut begin) {
        return Some(error.to_string());
    }
    if !begin.starts_with(b"PK") {
        return Some(no_archive(&begin));
    }
    match archive::names(file) {
        Ok(names) => contents(&names),
        Err(error) => Some(format!("the file is cut short or damaged: {error}")),
    }
}

fn no_archive(begin: &[u8]) -> String {
    if begin.starts_with(&[0x80]) {
        return format!(
            "this is a state dict or a pickled module in the old format of torch.save, without the \
             model's code; {SAVE}"
        );
    }
    if begin.starts_with(b"version https://git-lfs") {
        return "this is a pointer of Git LFS in the place of the model; fetch the file with git lfs pull"
            .to_owned();
    }
    format!("this is no TorchScript file, which is a zip archive; {SAVE}")
}

/// What is wrong with an archive of files of those names. All are in one folder, whose name its writer chose.
fn contents(names: &[impl AsRef<str>]) -> Option<String> {
    let names = || names.iter().map(AsRef::as_ref);
    let inner: Vec<&str> =
        names().map(|it| it.split_once('/').map_or(it, |(_, rest)| rest)).collect();
    let has = |name: &str| inner.contains(&name);
    let has_folder = |name: &str| inner.iter().any(|it| it.starts_with(name));
    if has("constants.pkl") && has_folder("code/") {
        return None;
    }
    if has("archive_format") || has_folder("models/") || has("serialized_exported_program.json") {
        return Some(format!(
            "this is a torch.export archive (.pt2), and only TorchScript is served; {SAVE}"
        ));
    }
    if has("data.pkl") {
        return Some(format!(
            "this is a state dict or a pickled module, without the model's code; {SAVE}"
        ));
    }
    if names().any(|it| it.starts_with("MAR-INF/")) {
        return Some(
            "this is an archive of TorchServe; give it a name that ends in .mar, or unpack the TorchScript file in it"
                .to_owned(),
        );
    }
    Some(format!("this is a zip archive, but none of TorchScript; {SAVE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[track_caller]
    fn is_called(problem: Option<String>, part: &str) {
        let problem = problem.expect("something wrong");
        assert!(problem.contains(part), "{problem}");
    }

    #[test]
    fn archives_are_told_apart_by_what_is_in_them() {
        assert_eq!(contents(&["m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"]), None);
        is_called(contents(&["m/data.pkl", "m/data/0", "m/version"]), "state dict");
        is_called(contents(&["m/archive_format", "m/models/model.json"]), "torch.export");
        is_called(contents(&["MAR-INF/MANIFEST.json", "model.pt"]), "TorchServe");
        is_called(contents(&["word/document.xml"]), "none of TorchScript");
    }

    #[test]
    fn files_that_are_no_archives_are_called_what_they_are() {
        let look = |bytes: &[u8]| look(Cursor::new(bytes.to_vec()));
        is_called(look(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."), "old format of torch.save");
        is_called(look(b"version https://git-lfs.github.com/spec/v1"), "git lfs pull");
        is_called(look(b"PK\x03\x04cut"), "cut short");
        is_called(look(b"hello"), "no TorchScript file");
    }
}
