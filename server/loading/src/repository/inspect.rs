//! Looks into files that were found where a model should be, and says what they are. Blocking.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use backend::{CONTENT, Format, check_opens, open_file};

use crate::repository::{
    content::{BEGIN, Content, END, Sample, recognise},
    denied::cannot,
};

/// So many files are named in one sentence.
const MOST_NAMED: usize = 4;

/// So many files are looked into for one sentence.
const MOST_LOOKED_AT: usize = 200;

/// What is there in the place of a model and can be none, such as a pipe.
pub(crate) fn no_model(path: &Path) -> Option<String> {
    let problem = check_opens(path).err()?;
    Some(format!("{}: {problem}", path.display()))
}

/// What the file is by its bytes; `None` where they do not say, or it cannot be read.
pub(crate) fn content_of(path: &Path) -> Option<Content> {
    let read = || -> io::Result<Option<Content>> {
        let mut file = open_file(path)?;
        let length = file.metadata()?.len();
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        (&mut file).take(BEGIN).read_to_end(&mut begin)?;
        file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
        file.take(END).read_to_end(&mut end)?;
        Ok(recognise(Sample { begin: &begin, end: &end, length }))
    };
    read().ok().flatten()
}

/// Is the file of that format: by its name, and by its content where that decides?
pub(crate) fn is_of_format(path: &Path, format: &Format) -> bool {
    let name = path.file_name().and_then(|it| it.to_str());
    name.is_some_and(|it| format.has_name(it)) && has_content_of(path, format)
}

/// Is the file of that format by its content? One whose name decides always is.
pub(crate) fn has_content_of(path: &Path, format: &Format) -> bool {
    let Some(is_content) = format.content else { return true };
    let begin = || -> io::Result<Vec<u8>> {
        let mut begin = Vec::new();
        open_file(path)?.take(CONTENT as u64).read_to_end(&mut begin)?;
        Ok(begin)
    };
    path.is_file() && begin().is_ok_and(|it| is_content(&it))
}

/// Is the file of that format, whatever its name is? Its bytes have to say so: what only a name tells, or what any
/// program could have written, is of none.
pub(crate) fn is_by_bytes(path: &Path, format: &Format) -> bool {
    if !format.is_served {
        return false;
    }
    match (content_of(path), format.content) {
        (Some(content), None) => content.is_whole() && content.platform() == Some(format.platform),
        (Some(content), Some(_)) => content.is_of_trees() && has_content_of(path, format),
        // Checkpoints of treelite.
        (None, Some(_)) => has_content_of(path, format),
        (None, None) => false,
    }
}

/// The only file of a directory that is a model by its bytes, under a name that says nothing of it.
pub(crate) fn only_by_bytes<'a>(
    directory: &Path,
    formats: impl Iterator<Item = &'a Format> + Clone,
) -> Option<PathBuf> {
    let mut files = Vec::new();
    collect(directory, 0, &mut files);
    let is_model = |it: &PathBuf| formats.clone().any(|format| is_by_bytes(it, format));
    let mut models = files.into_iter().filter(is_model);
    models.next().filter(|_| models.next().is_none())
}

/// Why a file that has the name of a model is none: what it is by its content.
pub(crate) fn not_by_content(path: &Path) -> String {
    const NONE: &str = "it has the name of a model, but not the content of one; save the model again with the library \
                        that it is from, or as ONNX, and copy the file whole";
    let content = content_of(path).map_or_else(|| NONE.to_owned(), |it| it.sentence(path));
    format!("{}: {content}", path.display())
}

/// What the file is, where it is not what an engine of that platform opens, or that it must not be read.
pub(crate) fn not_of(path: &Path, platform: &str) -> Option<String> {
    if let Err(error) = open_file(path)
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        return Some(cannot("read", path, &error));
    }
    // Of weights under their own name the engine says what its graph lacks.
    let name = path.file_name().and_then(|it| it.to_str());
    let is_weights = |it: &Content| {
        *it == Content::Safetensors && name.is_some_and(|it| steps::WEIGHTS.contains(&it))
    };
    let content = content_of(path).filter(|it| it.platform() != Some(platform))?;
    if is_weights(&content) {
        return None;
    }
    Some(format!("{}: {}", path.display(), content.sentence(path)))
}

/// What lies in a directory, and in those that are in it, that is called something by its bytes: the sentences of
/// the first few, in the order of their paths. Empty files are none.
pub(crate) fn what_lies_in(directory: &Path, depth: usize) -> Option<String> {
    let mut files = Vec::new();
    collect(directory, depth, &mut files);
    let sentences: Vec<String> = files
        .iter()
        .filter_map(|path| Some((path, content_of(path)?)))
        .filter(|(_, content)| *content != Content::Empty)
        .map(|(path, content)| format!("{}: {}", path.display(), content.sentence(path)))
        .take(MOST_NAMED)
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn collect(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"."));
        if is_hidden || MOST_LOOKED_AT <= files.len() {
            continue;
        }
        match path.is_dir() {
            true if 0 < depth => collect(&path, depth - 1, files),
            true => {}
            false => files.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_is_not_waited_for_and_is_no_model() {
        let root = std::env::temp_dir().join(format!("muster-pipe-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let pipe = root.join("model.onnx");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(content_of(&pipe), None);
        assert_eq!(not_of(&pipe, "onnxruntime_onnx"), None);
        let problem = no_model(&pipe).unwrap();
        assert!(
            problem.contains("/model.onnx: this is a pipe, and a file is expected"),
            "{problem}"
        );
        assert_eq!(no_model(&root), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_file_of_any_name_is_known_by_its_bytes() {
        const ONNX: Format = Format {
            platform: "onnxruntime_onnx",
            aliases: &[],
            file: "model.onnx",
            other_extensions: &[],
            other_files: &[],
            folds: "",
            is_by_whole_name: false,
            content: None,
            rank: 1,
            is_served: true,
        };
        const TREES: Format = Format {
            platform: "",
            file: "model.ubj",
            content: Some(|it| {
                [b"{".as_slice(), b"\x80", b"\x1f"].iter().any(|begin| it.starts_with(begin))
            }),
            ..ONNX
        };
        let root = std::env::temp_dir().join(format!("muster-bytes-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let only = || only_by_bytes(&root, [&ONNX, &TREES].into_iter());
        let write = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).unwrap();
        write("README", b"# A model");
        write("model.tar.gz", b"\x1f\x8b\x08");
        write("encoder", b"\x80\x04\x95anything");
        assert_eq!(only(), None);
        write("mnist-xgb-model", b"{L\0\0\0\0\0\0\0\x07learner{");
        assert_eq!(only(), Some(root.join("mnist-xgb-model")));
        // One of two is the lone model of nobody.
        write("other", b"\x08\x08\x12\x00");
        assert_eq!(only(), None);
        fs::remove_file(root.join("mnist-xgb-model")).unwrap();
        assert_eq!(only(), Some(root.join("other")));
        write("other", b"\x80\x04\x95\x8c\x0cxgboost.core\x94");
        assert_eq!(only(), Some(root.join("other")));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn files_below_a_directory_are_named_by_what_they_hold() {
        let root = std::env::temp_dir().join(format!("muster-inspect-{}", std::process::id()));
        fs::create_dir_all(root.join("1")).unwrap();
        fs::write(root.join("1/model.onnx"), "version https://git-lfs.github.com/spec/v1\n")
            .unwrap();
        fs::write(root.join("1/pytorch_model.bin"), b"PK\x03\x04m/data.pklPK\x05\x06").unwrap();
        fs::write(root.join("README.md"), "hello").unwrap();
        let text = what_lies_in(&root, 1).unwrap();
        assert!(text.contains("1/model.onnx: this is a Git LFS pointer"), "{text}");
        assert!(text.contains("1/pytorch_model.bin: this is a state dict"), "{text}");
        assert_eq!(what_lies_in(&root, 0), None);
        assert_eq!(content_of(&root.join("nothing")), None);
        assert_eq!(content_of(&root), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_file_with_the_right_name_is_told_where_it_belongs_also_where_a_link_leads_to_another_name()
    {
        let root = std::env::temp_dir().join(format!("muster-link-{}", std::process::id()));
        fs::create_dir_all(root.join("snapshot")).unwrap();
        let onnx = b"\x08\x08\x12\x04test\x3a\x02\x0a\0";
        assert_eq!(content_of_bytes(&root, onnx), Some(Content::Onnx));
        std::os::unix::fs::symlink("../blob", root.join("snapshot/model.onnx")).unwrap();
        let text = what_lies_in(&root.join("snapshot"), 1).unwrap();
        let serve = format!("'muster serve {}'", root.join("snapshot").display());
        assert!(text.contains(&serve) && text.contains("/<name>/1/model.onnx"), "{text}");
        let text = what_lies_in(&root, 0).unwrap();
        assert!(text.contains("give it a name that ends in .onnx"), "{text}");
        fs::write(root.join("mine.ubj"), b"{L\0\0\0\0\0\0\0\x07learner{").unwrap();
        let text = what_lies_in(&root, 0).unwrap();
        assert!(
            text.contains("/<name>/1/model.ubj") && !text.contains("give it the name"),
            "{text}"
        );
        fs::remove_dir_all(&root).unwrap();
    }

    fn content_of_bytes(root: &Path, bytes: &[u8]) -> Option<Content> {
        fs::write(root.join("blob"), bytes).unwrap();
        content_of(&root.join("blob"))
    }
}
