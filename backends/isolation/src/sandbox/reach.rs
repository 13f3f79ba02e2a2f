//! Which files and devices a worker needs.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use backend::{Backend, Device, ModelSource, Places};

use super::{
    links,
    order::{Order, Sandbox},
};
use crate::named::named_files;

/// What every worker reads: libraries of the system and what these look at, its own process, and the machine's
/// processors, memory and devices.
const SYSTEM: [&str; 26] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices",
    "/sys/bus/pci",
    "/sys/class/drm",
    "/sys/kernel/mm/transparent_hugepage",
];

/// This program, which is read for the names of functions where the process panics.
const PROGRAM: &str = "/proc/self/exe";

/// What drivers of GPUs read besides.
const DRIVERS: [&str; 9] = [
    "/usr/local/cuda",
    "/usr/local/nvidia",
    "/usr/share/nvidia",
    "/etc/nvidia",
    "/proc/devices",
    "/proc/modules",
    "/proc/driver/nvidia",
    "/sys/class",
    "/sys/module",
];

/// The devices of GPUs begin so.
const GPU_DEVICES: &str = "nvidia";

/// What a worker reads and writes. Paths that are not there are as if they were not named.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pub(super) reads: Vec<PathBuf>,
    /// Directories below which it writes, and files to which it does.
    pub(super) writes: Vec<PathBuf>,
    pub(super) devices: Vec<PathBuf>,
    /// Does it compute on a GPU?
    pub(super) has_gpu: bool,
}

impl Reach {
    pub(super) fn new(order: &Order, engine: &dyn Backend, source: &ModelSource) -> Reach {
        let mut reach = Reach { devices: vec!["/dev/null".into()], ..Reach::default() };
        reach.reads.extend(SYSTEM.iter().chain([&PROGRAM]).map(PathBuf::from));
        reach.reads.extend(order.libraries.iter().cloned());
        reach.writes.extend(order.private.clone());
        reach.add_gpus(source);
        reach.add_places(order.sandbox, engine.places());
        reach.reads.push(directory(source));
        reach.reads.extend(files(order.sandbox, source).cloned());
        if order.sandbox == Sandbox::On {
            reach.add_named(engine, source);
        }
        reach
    }

    fn add_gpus(&mut self, source: &ModelSource) {
        self.has_gpu = source.placements.iter().any(|it| it.device != Device::Cpu);
        if !self.has_gpu {
            return;
        }
        self.reads.extend(DRIVERS.map(PathBuf::from));
        let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
        let gpus = entries.filter(|it| it.file_name().to_string_lossy().starts_with(GPU_DEVICES));
        self.devices.extend(gpus.map(|it| it.path()));
    }

    fn add_places(&mut self, sandbox: Sandbox, places: Places) {
        self.reads.extend(places.reads);
        match sandbox {
            // What one model writes there others run.
            Sandbox::Strict => self.reads.extend(places.keeps),
            Sandbox::Off | Sandbox::On => {
                for kept in places.keeps {
                    // Where that fails, so does the engine, which says so.
                    let _ = DirBuilder::new().recursive(true).mode(0o700).create(&kept);
                    self.writes.push(kept);
                }
            }
        }
    }

    /// What the model's configuration names, and what links in its directory lead to.
    fn add_named(&mut self, engine: &dyn Backend, source: &ModelSource) {
        let libraries = source.op_libraries.iter().map(|it| Places::of_library(it).reads);
        self.reads.extend(libraries.flatten());
        self.reads.extend(links::targets(&directory(source)));
        let description = engine.description();
        let names_others = description.settings_of_repository.iter();
        if names_others.clone().any(|it| source.options.contains_key(*it)) {
            self.reads.extend(source.repository.clone());
        }
        for path in named_files(source, description.settings_of_files) {
            if path.as_os_str().as_encoded_bytes().contains(&b'/') {
                self.add_setting(path);
            }
        }
    }

    /// What a setting names is read or written. What is not there yet is made in its directory.
    fn add_setting(&mut self, path: &Path) {
        let existing = if path.exists() { Some(path) } else { path.parent() };
        self.writes.extend(existing.map(Path::to_owned));
    }
}

/// The model's files, as far as they may be elsewhere than in its directory: a strict sandbox follows no links.
fn files(sandbox: Sandbox, source: &ModelSource) -> impl Iterator<Item = &PathBuf> {
    let is_apart = |it: &&PathBuf| !it.starts_with(&source.directory) && !it.is_symlink();
    let files = [&source.path].into_iter().chain(&source.folds);
    files.filter(move |it| sandbox != Sandbox::Strict || is_apart(it))
}

/// The model's directory; an empty path is the working directory.
fn directory(source: &ModelSource) -> PathBuf {
    let path = &source.directory;
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{BackendError, EngineDescription, Model};
    use std::sync::Arc;

    struct Engine;

    const DESCRIPTION: EngineDescription = EngineDescription {
        settings_of_files: &["cache"],
        settings_of_repository: &["labels"],
        ..EngineDescription::PLAIN
    };

    impl Backend for Engine {
        fn name(&self) -> &'static str {
            "engine"
        }

        fn description(&self) -> &'static EngineDescription {
            &DESCRIPTION
        }

        fn places(&self) -> Places {
            let keeps = vec![std::env::temp_dir()];
            Places { reads: vec!["/opt/engine/lib.so".into()], keeps }
        }

        fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
            Err(BackendError::Load("no models here".to_owned()))
        }
    }

    fn reach(sandbox: Sandbox, options: &[(&str, &str)]) -> Reach {
        reach_with(sandbox, options, Vec::new())
    }

    fn reach_with(sandbox: Sandbox, options: &[(&str, &str)], op_libraries: Vec<PathBuf>) -> Reach {
        let mut source = ModelSource::new("m", "/models/m/1/model");
        source.directory = "/models/m".into();
        source.repository = Some("/models".into());
        source.op_libraries = op_libraries;
        source.options =
            options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let order =
            Order { sandbox, private: Some("/private".into()), libraries: vec!["/cuda".into()] };
        Reach::new(&order, &Engine, &source)
    }

    #[track_caller]
    fn check(paths: &[PathBuf], path: &str, expected: bool) {
        assert_eq!(paths.contains(&PathBuf::from(path)), expected, "{path} in {paths:?}");
    }

    #[test]
    fn a_worker_reads_its_model_and_its_engine_and_writes_in_its_own_directory() {
        for sandbox in [Sandbox::On, Sandbox::Strict] {
            let reach = reach(sandbox, &[]);
            for path in ["/models/m", "/opt/engine/lib.so", "/cuda", "/usr/lib"] {
                check(&reach.reads, path, true);
            }
            check(&reach.reads, "/models", false);
            check(&reach.writes, "/private", true);
            assert_eq!(reach.devices, [PathBuf::from("/dev/null")]);
        }
    }

    #[test]
    fn what_a_configuration_names_is_no_part_of_a_strict_sandbox() {
        let options = [("cache", "/etc/not-there"), ("labels", "x"), ("other", "/srv")];
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("operators.so");
        fs::write(&library, "").unwrap();
        let on = reach_with(Sandbox::On, &options, vec![library.clone()]);
        assert!(on.reads.contains(&library));
        check(&on.reads, "/models", true);
        check(&on.reads, "/models/m/1/model", true);
        check(&on.writes, "/etc", true);
        check(&on.writes, "/srv", false);
        let strict = reach_with(Sandbox::Strict, &options, vec![library.clone()]);
        assert!(!strict.reads.contains(&library));
        check(&strict.reads, "/models", false);
        check(&strict.reads, "/models/m/1/model", false);
        assert_eq!(strict.writes, [PathBuf::from("/private")]);
    }

    #[test]
    fn what_an_engine_keeps_for_all_models_is_not_written_by_one_in_a_strict_sandbox() {
        let kept = std::env::temp_dir();
        assert!(reach(Sandbox::On, &[]).writes.contains(&kept));
        let strict = reach(Sandbox::Strict, &[]);
        assert!(strict.reads.contains(&kept) && !strict.writes.contains(&kept));
    }
}
