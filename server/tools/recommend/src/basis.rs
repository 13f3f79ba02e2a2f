//! What findings depend on: the arguments of a job, and the state of the world that they were measured in.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use ::machine::processor_name;
use serde_json::{Map, Value, json};

use crate::{job::Job, means::Means, model_files::files, setting::FORM};

/// What findings depend on. Jobs of one name are the same job; findings on another basis are not used again.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis {
    request: Value,
    values: Map<String, Value>,
}

impl Basis {
    /// Of a job that is done with these means.
    pub fn of(job: &Job, means: &Means) -> Basis {
        let Means { program, prices, bodies, time_scale, places, .. } = means;
        let path = |it: &str| fs::canonicalize(it).unwrap_or_else(|_| it.into());
        let model = path(job.model.as_deref().unwrap_or_default());
        let is_path = |it: &&(String, String)| it.0 == FORM;
        let variants: Vec<PathBuf> =
            job.variants.iter().filter(is_path).map(|it| path(&it.1)).collect();
        // What names a file of the model's folder stays with it.
        let inside: Vec<_> = job.variants.iter().filter(|it| !is_path(it)).collect();
        let configuration = |it: &crate::Configuration| json!([it.instance_type, it.ranges]);
        let request = json!({
            "model": model,
            "variants": variants,
            "forms": inside,
            "kind": format!("{:?}", job.kind),
            "configurations": job.configurations.iter().map(configuration).collect::<Vec<Value>>(),
            "traffic": format!("{:?}", job.traffic),
            "stop": format!("{:?}", job.stop),
            "most_tests": job.most_tests,
            "most_parallel": job.most_parallel,
            "repeats": job.repeats,
            "time_scale": time_scale,
            "tolerance": job.tolerance,
        });
        let mut values = Map::new();
        let mut say = |name: &str, value: Value| values.insert(name.to_owned(), value);
        say("the version of muster", json!(env!("CARGO_PKG_VERSION")));
        say("the program", stamp(program));
        say("the machine", json!(machine()));
        let lists = json!([places.servers, places.generators]);
        say("which processors servers and load generators have", lists);
        say("the list of prices", json!(format!("{:?}", prices)));
        let mut hasher = DefaultHasher::new();
        for body in bodies {
            (&body.name, &body.content_type, &body.bytes).hash(&mut hasher);
        }
        say("the payload", json!(format!("{:016x}", hasher.finish())));
        for path in std::iter::once(&model).chain(&variants) {
            for file in files(path) {
                say(&format!("the file {}", file.display()), stamp(&file));
            }
        }
        Basis { request, values }
    }

    #[cfg(test)]
    pub(crate) fn new(request: Value, values: &[(&str, &str)]) -> Basis {
        let values = values.iter().map(|(name, it)| ((*name).to_owned(), json!(it)));
        Basis { request, values: values.collect() }
    }

    /// The job in a word that is a file's name.
    pub fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.request.to_string().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// What is asked for.
    pub fn request(&self) -> &Value {
        &self.request
    }

    /// The state of the world.
    pub fn values(&self) -> Value {
        Value::Object(self.values.clone())
    }

    /// What is another than it was, as a sentence; `None` where all is the same.
    pub fn differs(&self, earlier: &Value) -> Option<String> {
        let nothing = Map::new();
        let earlier = earlier.as_object().unwrap_or(&nothing);
        let changed = self
            .values
            .iter()
            .find(|(name, value)| earlier.get(*name).is_some_and(|it| it != *value));
        let new = self.values.keys().find(|it| !earlier.contains_key(*it));
        let gone = earlier.keys().find(|it| !self.values.contains_key(*it));
        let sentence = |name: &String, what: &str| format!("{name} {what}");
        changed
            .map(|it| sentence(it.0, "is not what it was"))
            .or(new.map(|it| sentence(it, "is new")))
            .or(gone.map(|it| sentence(it, "is gone")))
    }
}

/// Size and time of change of a file.
fn stamp(path: &Path) -> Value {
    let Ok(metadata) = fs::metadata(path) else { return Value::Null };
    let changed = metadata.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    json!(format!("{} bytes, {}", metadata.len(), changed.map_or(0, |it| it.as_nanos())))
}

/// The processors of this process and their kind.
fn machine() -> String {
    format!("{:?} {}", launch::cpus(), processor_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_is_named() {
        let basis = |values: &[(&str, &str)]| Basis::new(json!({}), values);
        let before = basis(&[("the machine", "2 processors"), ("the file a", "1")]);
        assert_eq!(before.differs(&before.values()), None);
        for (now, expected) in [
            (
                &[("the machine", "4 processors"), ("the file a", "1")][..],
                "the machine is not what it was",
            ),
            (
                &[("the machine", "2 processors"), ("the file a", "2")],
                "the file a is not what it was",
            ),
            (&[("the machine", "2 processors")], "the file a is gone"),
            (
                &[("the machine", "2 processors"), ("the file a", "1"), ("the file b", "1")],
                "the file b is new",
            ),
        ] {
            assert_eq!(basis(now).differs(&before.values()).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_file_that_was_written_again_has_another_stamp() {
        let folder = std::env::temp_dir().join(format!("muster-basis-{}", std::process::id()));
        fs::create_dir_all(folder.join("1")).unwrap();
        fs::write(folder.join("1/model.onnx"), "a").unwrap();
        let seen = files(&folder);
        assert_eq!(seen, [folder.join("1/model.onnx")]);
        let before = stamp(&seen[0]);
        fs::write(folder.join("1/model.onnx"), "ab").unwrap();
        assert_ne!(stamp(&seen[0]), before);
        assert_eq!(stamp(&folder.join("none")), Value::Null);
        fs::remove_dir_all(folder).unwrap();
    }
}
