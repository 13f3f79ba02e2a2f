//! What lies where a platform says that a model lies: the model that answers, and those that it is made of.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component::ParentDir, Path, PathBuf},
    sync::Arc,
};

use crate::{
    load::{load_error::LoadError, loader::Loader},
    repository::{
        local::{FoundModel, FoundModels, Names, ScriptPart, scan_path},
        user_script::{self, Fate},
    },
};
use inference::error::Error;
use serving::{
    config::{ensemble, raw},
    model_id::ModelId,
};

/// A model and, where it is an ensemble, those beside it.
pub(super) struct Layout {
    /// The one that answers.
    pub(super) entry: FoundModel,
    /// The others in its directory.
    pub(super) others: Vec<FoundModel>,
    /// Those of them that no configuration names, as the one that answers is a script around them.
    pub(super) inner: Vec<FoundModel>,
}

/// A model and its configuration.
type Read = (FoundModel, Option<raw::ModelConfig>);

/// The path that is meant by `url`, without links.
///
/// # Errors
/// [`Error::NotFound`] when there is nothing below `root`; [`Error::InvalidRequest`] when it does not lie there.
pub(super) fn resolve(url: &str, root: &Path) -> Result<PathBuf, Error> {
    let wrong = |problem: &str| {
        format!(
            "url '{}': expected an absolute path below --sagemaker-models-root '{}'; {problem}",
            url.escape_debug(),
            root.display()
        )
    };
    let refused = |problem: &str| Error::InvalidRequest(wrong(problem));
    let path = Path::new(url);
    if !path.is_absolute() {
        return Err(refused("this is none"));
    }
    let real_root = fs::canonicalize(root)
        .map_err(|it| refused(&format!("that directory cannot be opened: {it}")))?;
    let real = fs::canonicalize(path).map_err(|error| {
        let text = wrong(&format!("it cannot be opened: {error}"));
        // What is there outside of the root is nobody's business.
        let is_inside = path.starts_with(root) && !path.components().any(|it| it == ParentDir);
        match error.kind() {
            io::ErrorKind::NotFound if is_inside => Error::NotFound(text),
            _ => Error::InvalidRequest(text),
        }
    })?;
    match is_below(&real, &real_root) {
        true => Ok(real),
        false => Err(refused(&format!("it leads to '{}'", real.display()))),
    }
}

fn is_below(path: &Path, root: &Path) -> bool {
    path != root && path.starts_with(root)
}

/// The model at `path`, under that key.
///
/// # Errors
/// [`Error::NotFound`] when there is none; [`Error::InvalidRequest`] when there are several and none of them is made
/// of the others, or anything in its directory leads out of `root`.
pub(super) fn look(
    path: &Path,
    root: &Path,
    key: &str,
    label: Option<&str>,
    loader: &Loader,
) -> Result<Layout, Error> {
    let shown = path.display();
    // Of everything, before any of it is read.
    hold(path, root)?;
    let found = match loader.scripts().fate_of_endpoint_model(path, root, &loader.descriptions) {
        Some(Fate::Runs(script)) => user_script::model(&script, path, false),
        Some(Fate::StandsAround(script)) => {
            let mut found = scan(path, loader)?;
            found.stand_around(Some(user_script::around(&script, path)), None);
            found
        }
        Some(Fate::IsLeft(script, reason)) => {
            return Err(Error::InvalidRequest(user_script::refusal(&script, reason)));
        }
        None => scan(path, loader)?,
    };
    if let Some((_, reason)) = found.refused.into_iter().next() {
        return Err(Error::InvalidRequest(reason));
    }
    found.warnings.iter().for_each(|it| tracing::warn!(model = key, "{it}"));
    let read = found.models.into_values().map(|it| Ok((it.clone(), loader.read_config(&it)?)));
    let read = read.collect::<Result<Vec<Read>, LoadError>>()?;
    if read.is_empty() {
        return Err(Error::NotFound(format!(
            "'{shown}': there is no model there; expected config.pbtxt with version directories, one directory with \
             such a model, or a model file"
        )));
    }
    let (entry, others) =
        choose(read).map_err(|it| Error::InvalidRequest(format!("'{shown}': {it}")))?;
    let entry = FoundModel {
        name: key.to_owned(),
        namespace: key.into(),
        renamed: true,
        label: Some(label.unwrap_or(key).into()),
        ..entry
    };
    let is_around = matches!(entry.script, Some(ScriptPart::Around(_)));
    let inner = others.iter().filter(|_| is_around);
    let inner = inner.map(|it| FoundModel { namespace: key.into(), ..it.clone() }).collect();
    Ok(Layout { entry, others, inner })
}

fn scan(path: &Path, loader: &Loader) -> Result<FoundModels, Error> {
    let found = scan_path(path, false, &loader.descriptions);
    found.map_err(|it| Error::InvalidRequest(it.to_string()))
}

/// Does everything in a model's directory, or beside a model that is a file, lie below `root`? Links are followed:
/// configurations, models, their weights and what they are made of are read wherever these lead.
fn hold(path: &Path, root: &Path) -> Result<(), Error> {
    let unreadable = |path: &Path, error: io::Error| {
        Error::InvalidRequest(format!("'{}' cannot be opened: {error}", path.display()))
    };
    let real_root = fs::canonicalize(root).map_err(|it| unreadable(root, it))?;
    let first = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let (mut open, mut seen) = (vec![first.to_owned()], BTreeSet::new());
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).map_err(|it| unreadable(&dir, it))? {
            let part = entry.map_err(|it| unreadable(&dir, it))?.path();
            // What leads nowhere is not read.
            let Ok(real) = fs::canonicalize(&part) else { continue };
            if !real.starts_with(&real_root) {
                return Err(Error::InvalidRequest(format!(
                    "'{}' leads to '{}', which is not below --sagemaker-models-root '{}'",
                    part.display(),
                    real.display(),
                    root.display()
                )));
            }
            // What is in folders of the root itself belongs to other models. A link may lead into a circle.
            if real.is_dir() && first != real_root && seen.insert(real) {
                open.push(part);
            }
        }
    }
    Ok(())
}

/// The only model, the script around the others, or the only ensemble that no other is made of; and the rest. There is
/// at least one.
fn choose(mut read: Vec<Read>) -> Result<(FoundModel, Vec<FoundModel>), LoadError> {
    let names = |it: &[Read]| -> String {
        let names: Vec<String> = it.iter().map(|(it, _)| format!("'{}'", it.name)).collect();
        names.join(", ")
    };
    let is_script = |(it, _): &Read| matches!(it.script, Some(ScriptPart::Around(_)));
    let at = match read.as_slice() {
        [_] => 0,
        several if several.iter().any(is_script) => several.iter().position(is_script).unwrap_or(0),
        several => {
            let inner: Vec<String> = several
                .iter()
                .filter_map(|(_, raw)| raw.as_ref())
                .flat_map(ensemble::members)
                .collect();
            let outermost = |(found, raw): &Read| {
                ensemble::is_ensemble(raw.as_ref()) && !inner.contains(&found.name)
            };
            let mut at = (0..several.len()).filter(|it| several.get(*it).is_some_and(outermost));
            match (at.next(), at.next()) {
                (Some(only), None) => only,
                (first, _) => {
                    let problem = if first.is_some() { "several are" } else { "none is" };
                    return Err(LoadError::Refused(format!(
                        "there are several models, {}; expected one of them to be an ensemble of the others, and \
                         {problem}",
                        names(several)
                    )));
                }
            }
        }
    };
    let entry = read.swap_remove(at).0;
    Ok((entry, read.into_iter().map(|(found, _)| found).collect()))
}

/// The model that a member's id names, in the directory where the model of that key lies. A path is no name.
pub(in crate::lifecycle) fn member(id: &ModelId, repository: &Path) -> FoundModels {
    let mut there = FoundModels::default();
    there.look_for(&id.name, repository, Names::PerRepository);
    let mut found = FoundModels::default();
    for model in there.models.into_values().filter(|it| *it.name == *id.name) {
        let namespace: Arc<str> = id.namespace.clone();
        found.models.insert(id.clone(), FoundModel { namespace, ..model });
    }
    found.refused.extend(there.refused.into_values().map(|it| (id.clone(), it)));
    found.warnings = there.warnings;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, config: &str) -> Read {
        let found = FoundModel {
            name: name.to_owned(),
            namespace: Arc::default(),
            config: None,
            dir: name.into(),
            versions: Default::default(),
            renamed: false,
            label: None,
            is_of_request: false,
            others: Default::default(),
            script: None,
            contents: Default::default(),
        };
        let reader = crate::config::pbtxt::ConfigReader::default();
        (found, Some(reader.parse_text("config.pbtxt", config).unwrap()))
    }

    fn ensemble(name: &str, member: &str) -> Read {
        let config = format!(
            "platform: 'ensemble' ensemble_scheduling {{ step {{ model_name: '{member}' }} }}"
        );
        model(name, &config)
    }

    fn entry(read: Vec<Read>) -> Result<String, LoadError> {
        choose(read).map(|(entry, _)| entry.name)
    }

    #[test]
    fn one_model_answers_and_of_several_the_one_that_is_made_of_the_others() {
        assert_eq!(entry(vec![model("a", "")]).unwrap(), "a");
        assert_eq!(entry(vec![model("a", ""), ensemble("b", "a")]).unwrap(), "b");
        let nested = vec![ensemble("a", "b"), ensemble("b", "c"), model("c", "")];
        assert_eq!(entry(nested).unwrap(), "a");
    }

    #[test]
    fn several_that_nothing_joins_are_named() {
        let error = entry(vec![model("a", ""), model("b", "")]).unwrap_err().to_string();
        assert!(error.contains("'a', 'b'") && error.contains("none is"), "{error}");
        let error = entry(vec![ensemble("a", "c"), ensemble("b", "c"), model("c", "")]);
        assert!(error.unwrap_err().to_string().contains("several are"));
    }

    #[test]
    fn what_leads_out_of_the_root_or_nowhere_is_refused_naming_both() {
        let dir = std::env::temp_dir().join(format!("muster-root-{}", std::process::id()));
        let (root, outside) = (dir.join("root"), dir.join("outside"));
        fs::create_dir_all(root.join("m")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let ask = |url: &Path| resolve(url.to_str().unwrap(), &root);
        assert_eq!(ask(&root.join("m")), Ok(fs::canonicalize(root.join("m")).unwrap()));
        for url in ["link", "../outside", "gone", "", "."] {
            let error = ask(&root.join(url)).unwrap_err().to_string();
            let names = [root.to_str().unwrap(), "url '"];
            assert!(names.iter().all(|it| error.contains(it)), "{url}: {error}");
        }
        // What is there outside of the root is not told.
        for (url, is_not_found) in [("gone", true), ("../gone", false), ("m/../../gone", false)] {
            let error = ask(&root.join(url)).unwrap_err();
            assert_eq!(matches!(error, Error::NotFound(_)), is_not_found, "{url}: {error}");
        }
        assert!(resolve("m", &root).unwrap_err().to_string().contains("absolute"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn members_are_named_and_a_path_leads_to_none() {
        let dir = std::env::temp_dir().join(format!("muster-member-{}", std::process::id()));
        for path in ["k/inside/1", "outside/1"] {
            fs::create_dir_all(dir.join(path)).unwrap();
        }
        let count = |name: &str| {
            let id = ModelId { name: name.into(), namespace: "k".into() };
            let found = member(&id, &dir.join("k"));
            assert!(found.refused.is_empty());
            found.models.len()
        };
        assert_eq!(count("inside"), 1);
        for name in ["inside/../../outside", "inside/../inside", "..", "/"] {
            assert_eq!(count(name), 0, "{name}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_link_in_a_circle_is_followed_once_and_one_that_leads_nowhere_is_nobodys() {
        use std::os::unix::fs::symlink;
        let root = std::env::temp_dir().join(format!("muster-held-{}", std::process::id()));
        fs::create_dir_all(root.join("m/1")).unwrap();
        fs::write(root.join("one.onnx"), "").unwrap();
        symlink("..", root.join("m/1/up")).unwrap();
        symlink("gone", root.join("m/1/lock")).unwrap();
        let root = fs::canonicalize(&root).unwrap();
        assert_eq!(hold(&root.join("m"), &root), Ok(()));
        symlink("/", root.join("m/out")).unwrap();
        assert!(hold(&root.join("m"), &root).is_err());
        // That is another model's.
        assert_eq!(hold(&root.join("one.onnx"), &root), Ok(()));
        symlink("/", root.join("weights")).unwrap();
        assert!(hold(&root.join("one.onnx"), &root).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
