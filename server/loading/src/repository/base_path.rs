//! The directory of one model as TensorFlow Serving has it: its versions are the directories in it that are called by a
//! number, with or without zeros in front.

use std::{collections::BTreeMap, fs, io, path::Path};

use crate::repository::local::{FoundModel, FoundModels, config_in};

impl FoundModels {
    /// Takes in the model of that name, whose versions are in `base_path`.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub(crate) fn look_at(&mut self, name: &str, base_path: &Path) -> io::Result<()> {
        let model = model_at(name, base_path, &mut self.warnings)?;
        self.models.insert(model.id(), model);
        Ok(())
    }
}

fn model_at(name: &str, base_path: &Path, warnings: &mut Vec<String>) -> io::Result<FoundModel> {
    let in_dir = |error: io::Error| {
        let text = format!("cannot list base_path {}: {error}", base_path.display());
        io::Error::new(error.kind(), text)
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(base_path).map_err(in_dir)? {
        paths.push(entry.map_err(in_dir)?.path());
    }
    // Of two that mean one number, the shorter name comes first.
    paths.sort_by_key(|it| (it.as_os_str().len(), it.clone()));
    let mut versions = BTreeMap::new();
    for path in paths {
        let Some(number) = path.file_name().and_then(|it| version(it.to_str()?)) else { continue };
        if !path.is_dir() {
            continue;
        }
        match versions.get(&number) {
            None => drop(versions.insert(number, path)),
            Some(other) => {
                let other: &Path = other;
                warnings.push(format!(
                    "model '{name}': {} and {} are both version {number}; the first is served",
                    other.display(),
                    path.display()
                ));
            }
        }
    }
    Ok(FoundModel {
        name: name.to_owned(),
        namespace: Default::default(),
        config: config_in(base_path),
        dir: base_path.to_owned(),
        versions,
        renamed: true,
        label: None,
        is_of_request: false,
        others: Default::default(),
        script: None,
        contents: Default::default(),
    })
}

/// The number of a version's directory, above zero.
fn version(name: &str) -> Option<u64> {
    let digits = name.bytes().all(|it| it.is_ascii_digit());
    name.parse().ok().filter(|it| digits && 0 < *it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_directories_called_by_a_number_with_or_without_zeros() {
        let root = std::env::temp_dir().join(format!("muster-base-path-{}", std::process::id()));
        for dir in ["1", "0002", "0001", "00000123", "0", "x", "1.part", "-4", "+5"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::write(root.join("7"), "").unwrap();
        let mut found = FoundModels::default();
        found.look_at("m", &root).unwrap();
        let model = found.models.values().next().unwrap();
        let versions: Vec<(u64, String)> = model
            .versions
            .iter()
            .map(|(number, path)| (*number, path.file_name().unwrap().to_str().unwrap().to_owned()))
            .collect();
        let named = |number, name: &str| (number, name.to_owned());
        assert_eq!(versions, [named(1, "1"), named(2, "0002"), named(123, "00000123")]);
        assert_eq!(found.warnings.len(), 1);
        assert!(found.warnings[0].contains("0001 are both version 1"), "{:?}", found.warnings);
        fs::remove_dir_all(&root).unwrap();
        let error = found.look_at("m", &root).unwrap_err().to_string();
        assert!(error.starts_with("cannot list base_path "), "{error}");
    }
}
