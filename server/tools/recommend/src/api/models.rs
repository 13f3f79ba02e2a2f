//! Models that clients have named: `CreateModel`, `DescribeModel`, and where the model of a job is.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use serde_json::{Value, json};

use super::{fault::Fault, line, variables::may_be_set};
use crate::{
    arn::{ROLE, model_arn},
    job_state::{ModelAt, seconds},
    setting::Variables,
};

/// Models that are kept. For another one the oldest is forgotten; jobs keep what they were made with.
const MOST: usize = 100;

/// All models, by their names: the requests that made them, with `CreationTime`.
#[derive(Debug)]
pub(super) struct Models {
    root: PathBuf,
    /// Guards the models and their files.
    table: Mutex<BTreeMap<String, Value>>,
}

impl Models {
    /// The models in the files of a directory.
    pub(super) fn open(root: &Path) -> io::Result<Models> {
        fs::create_dir_all(root)?;
        let mut table = BTreeMap::new();
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|it| it.to_str()?.strip_suffix(".json"))
            else {
                continue;
            };
            match serde_json::from_slice::<Value>(&fs::read(&path)?) {
                Ok(model) => drop(table.insert(name.to_owned(), model)),
                Err(problem) => {
                    line::print(format_args!("WARNING model '{name}' is left out: {problem}"))
                }
            }
        }
        Ok(Models { root: root.to_owned(), table: Mutex::new(table) })
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.json"))
    }

    /// `CreateModel`.
    pub(super) fn create(
        &self,
        name: &str,
        mut request: Value,
        now: SystemTime,
    ) -> Result<Value, Fault> {
        let mut table = self.table();
        if table.contains_key(name) {
            // The SDK goes on where it reads these words.
            let arn = model_arn(name);
            return Err(Fault::invalid(format!("Cannot create already existing model \"{arn}\".")));
        }
        request["CreationTime"] = json!(seconds(now));
        let failed =
            |it: io::Error| Fault::internal(format!("the model cannot be written down: {it}"));
        if table.len() >= MOST {
            let age = |it: &(&String, &Value)| {
                (it.1["CreationTime"].as_f64().unwrap_or(0.0) * 1e6) as u64
            };
            if let Some(oldest) = table.iter().min_by_key(age).map(|it| it.0.clone()) {
                // The file first: where it stays, the model does.
                match fs::remove_file(self.file(&oldest)) {
                    Err(problem) if problem.kind() != io::ErrorKind::NotFound => {
                        return Err(failed(problem));
                    }
                    Ok(()) | Err(_) => drop(table.remove(&oldest)),
                }
            }
        }
        self.write(name, &request).map_err(failed)?;
        table.insert(name.to_owned(), request);
        Ok(json!({ "ModelArn": model_arn(name) }))
    }

    fn write(&self, name: &str, model: &Value) -> io::Result<()> {
        let new = self.root.join("new");
        let mut file = File::create(&new)?;
        file.write_all(model.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(new, self.file(name))
    }

    /// `DescribeModel`.
    pub(super) fn describe(&self, name: &str) -> Result<Value, Fault> {
        let mut model = self.table().get(name).cloned().ok_or_else(|| no_model(name))?;
        model["ModelArn"] = json!(model_arn(name));
        if let Some(members) = model.as_object_mut() {
            members.remove("Tags");
            members.entry("ExecutionRoleArn").or_insert_with(|| json!(ROLE));
            members.entry("EnableNetworkIsolation").or_insert(json!(false));
        }
        Ok(model)
    }

    /// Where the model of that name is: one that was created, else a file, a directory or an address of a store. What
    /// its servers do not get of its variables comes second.
    pub(super) fn find(&self, name: &str) -> Result<(ModelAt, Vec<String>), Fault> {
        let model = self.table().get(name).cloned();
        let Some(model) = model else {
            let path = located(name).ok_or_else(|| Fault::invalid(could_not_find(name)))?;
            return Ok((ModelAt { path, environment: Variables::new() }, Vec::new()));
        };
        let several = model["Containers"].as_array();
        let container = match (model.get("PrimaryContainer"), several.map(Vec::as_slice)) {
            (Some(only), _) | (None, Some([only])) => only,
            _ => {
                let problem = format!("model '{name}': expected one container");
                return Err(Fault::invalid(problem));
            }
        };
        let data = container.get("ModelDataUrl");
        let data = data.or_else(|| container.pointer("/ModelDataSource/S3DataSource/S3Uri"));
        let Some(data) = data.and_then(Value::as_str) else {
            return Err(Fault::invalid(format!("model '{name}': expected ModelDataUrl")));
        };
        let path = located(data).ok_or_else(|| {
            let problem = format!("model '{name}': there is nothing at ModelDataUrl '{data}'");
            Fault::invalid(problem)
        })?;
        let empty = serde_json::Map::new();
        let given = container["Environment"].as_object().unwrap_or(&empty);
        let (passed, left): (Vec<_>, Vec<_>) = given.iter().partition(|it| may_be_set(it.0));
        let environment = passed
            .into_iter()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        let environment = environment.collect();
        Ok((ModelAt { path, environment }, left.into_iter().map(|it| it.0.clone()).collect()))
    }
}

/// A path, without `file://`, where there is something; addresses of stores as they are.
pub(super) fn located(address: &str) -> Option<String> {
    let path = address.strip_prefix("file://").unwrap_or(address);
    let is_store = ["s3://", "gs://", "as://"].iter().any(|it| path.starts_with(it));
    (is_store || (!path.is_empty() && Path::new(path).exists())).then(|| path.to_owned())
}

fn could_not_find(name: &str) -> String {
    format!("Could not find model \"{}\".", model_arn(name))
}

fn no_model(name: &str) -> Fault {
    Fault::not_found(could_not_find(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("muster-models-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_model_is_described_as_it_was_made_also_after_a_restart() {
        let root = folder("made");
        let models = Models::open(&root).unwrap();
        let request = json!({"ModelName": "m", "PrimaryContainer": {"Image": "i"}, "Tags": []});
        let arn = "arn:aws:sagemaker:local:000000000000:model/m";
        let made = models.create("m", request.clone(), UNIX_EPOCH).unwrap();
        assert_eq!(made, json!({"ModelArn": arn}));
        let error = models.create("m", request, UNIX_EPOCH).unwrap_err();
        assert_eq!(
            error,
            Fault::invalid(format!("Cannot create already existing model \"{arn}\"."))
        );
        let again = Models::open(&root).unwrap();
        let expected = json!({"ModelName": "m", "PrimaryContainer": {"Image": "i"}, "CreationTime": 0.0,
            "ModelArn": arn, "ExecutionRoleArn": ROLE, "EnableNetworkIsolation": false});
        assert_eq!(again.describe("m").unwrap(), expected);
        assert_eq!(again.describe("x").unwrap_err(), no_model("x"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_oldest_model_makes_room() {
        let root = folder("room");
        let models = Models::open(&root).unwrap();
        for number in 0..=MOST as u64 {
            let at = UNIX_EPOCH + Duration::from_secs(1000 - number.min(900));
            models.create(&format!("m{number}"), json!({}), at).unwrap();
        }
        assert!(models.describe("m99").is_err() && models.describe("m100").is_ok());
        assert_eq!(fs::read_dir(&root).unwrap().count(), MOST);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_model_whose_file_cannot_be_removed_stays() {
        let root = folder("stays");
        let models = Models::open(&root).unwrap();
        for number in 0..MOST as u64 {
            let at = UNIX_EPOCH + Duration::from_secs(number);
            models.create(&format!("m{number}"), json!({}), at).unwrap();
        }
        // A directory is in the place of the file.
        fs::remove_file(root.join("m0.json")).unwrap();
        fs::create_dir(root.join("m0.json")).unwrap();
        let late = UNIX_EPOCH + Duration::from_secs(1_000);
        assert!(models.create("new", json!({}), late).is_err());
        assert!(models.describe("m0").is_ok() && models.describe("new").is_err());
        // A file that is gone is no reason to stay.
        fs::remove_dir(root.join("m0.json")).unwrap();
        models.create("new", json!({}), late).unwrap();
        assert!(models.describe("m0").is_err() && models.describe("new").is_ok());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_model_of_a_job_is_where_its_container_says() {
        let root = folder("found");
        let models = Models::open(&root).unwrap();
        let here = format!("file://{}", root.display());
        let container = json!({"ModelDataUrl": here, "Environment":
            {"OMP_NUM_THREADS": "1", "LD_PRELOAD": "/x.so", "MUSTER_PYTORCH_PLUGIN": "/x.so"}});
        models.create("m", json!({"PrimaryContainer": container}), UNIX_EPOCH).unwrap();
        models.create("two", json!({"Containers": [{}, {}]}), UNIX_EPOCH).unwrap();
        models
            .create("gone", json!({"PrimaryContainer": {"ModelDataUrl": "/nowhere"}}), UNIX_EPOCH)
            .unwrap();
        let (found, left) = models.find("m").unwrap();
        assert_eq!(found.path, root.to_string_lossy());
        assert_eq!(found.environment, [("OMP_NUM_THREADS".to_owned(), "1".to_owned())]);
        assert_eq!(left, ["LD_PRELOAD", "MUSTER_PYTORCH_PLUGIN"]);
        assert_eq!(models.find(&root.to_string_lossy()).unwrap().0.path, root.to_string_lossy());
        for (name, expected) in [
            ("two", "expected one container"),
            ("gone", "/nowhere"),
            ("/nowhere", "Could not find"),
        ] {
            let error = format!("{:?}", models.find(name).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
