//! Which files and devices a worker needs.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
};

use backend::{Backend, Device, ModelSource, Places};

use super::{
    calls::Sockets,
    links,
    openable::Surroundings,
    order::{Order, Sandbox},
    refusal::SandboxError,
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
    /// What settings of the model name, to read and to write. Real paths: what has become a link since is left out.
    pub(super) opened: Vec<PathBuf>,
    pub(super) devices: Vec<PathBuf>,
    /// Does it compute on a GPU?
    pub(super) has_gpu: bool,
    /// Is CUDA's service for several processes there, MPS?
    pub(super) has_mps: bool,
}

impl Reach {
    pub(super) fn sockets(&self) -> Sockets {
        match (self.has_gpu, self.has_mps) {
            (false, _) => Sockets::None,
            (true, false) => Sockets::Unconnected,
            (true, true) => Sockets::Unix,
        }
    }

    /// # Errors
    /// Where a setting names what no setting opens.
    pub(super) fn new(
        order: &Order,
        engine: &dyn Backend,
        source: &ModelSource,
    ) -> Result<Reach, SandboxError> {
        let mut reach = Reach { devices: vec!["/dev/null".into()], ..Reach::default() };
        reach.reads.extend(SYSTEM.iter().chain([&PROGRAM]).map(PathBuf::from));
        reach.reads.extend(order.libraries.iter().cloned());
        reach.writes.extend(order.private.clone());
        reach.add_gpus(source);
        reach.add_places(order.sandbox, engine.places());
        let directory = directory(source);
        reach.reads.push(directory.clone());
        let around = |it: &Reach| {
            let (repository, private) = (source.repository.as_deref(), order.private.as_deref());
            Surroundings::new(&directory, repository, private, &it.writes, &it.reads)
                .keeping(&order.kept)
                .beside(&source.others)
        };
        match order.sandbox {
            Sandbox::Off | Sandbox::Strict => reach.reads.extend(files_apart(source).cloned()),
            Sandbox::On => {
                let surroundings = around(&reach);
                reach.add_named(&surroundings, engine, source);
                let surroundings = around(&reach);
                reach.add_settings(&surroundings, engine, source)?;
            }
        }
        Ok(reach)
    }

    fn add_gpus(&mut self, source: &ModelSource) {
        self.has_gpu = source.placements.iter().any(|it| it.device != Device::Cpu);
        if !self.has_gpu {
            return;
        }
        self.reads.extend(DRIVERS.map(PathBuf::from));
        self.has_mps = mps_directory().join("control").exists();
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

    /// The model's files, what links in its directory lead to, and what its configuration names to be read.
    fn add_named(
        &mut self,
        surroundings: &Surroundings,
        engine: &dyn Backend,
        source: &ModelSource,
    ) {
        for target in elsewhere(source) {
            if surroundings.may_be_linked(&target) {
                self.reads.push(target);
            } else {
                eprintln!(
                    "WARN '{}' is not opened, to which a link of the model leads: put what it needs into its directory",
                    target.display()
                );
            }
        }
        let mut names_others = engine.description().settings_of_repository.iter();
        if names_others.any(|it| source.options.contains_key(*it)) {
            self.reads.extend(source.repository.clone());
        }
    }

    /// What settings name to be read or written. What is not there yet is made in its directory.
    fn add_settings(
        &mut self,
        surroundings: &Surroundings,
        engine: &dyn Backend,
        source: &ModelSource,
    ) -> Result<(), SandboxError> {
        for (setting, path) in named_files(source, engine.description().settings_of_files) {
            if !path.as_os_str().as_encoded_bytes().contains(&b'/') {
                continue;
            }
            self.opened.extend(surroundings.place(setting, path)?);
        }
        Ok(())
    }
}

/// Where MPS has its pipes.
fn mps_directory() -> PathBuf {
    let said = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").filter(|it| !it.is_empty());
    said.map_or_else(|| "/tmp/nvidia-mps".into(), PathBuf::from)
}

/// Where the model's files are, what links in its directory lead to, and libraries of operators, as far as that is not
/// in its directory.
fn elsewhere(source: &ModelSource) -> BTreeSet<PathBuf> {
    let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    let own = real(directory(source));
    let files = [&source.path].into_iter().chain(&source.folds).cloned();
    let libraries = source.op_libraries.iter().flat_map(|it| Places::of_library(it).reads);
    let links = links::targets(&directory(source));
    let all = files.chain(libraries).chain(links).map(real);
    all.filter(|it| !it.starts_with(&own)).collect()
}

/// The model's files that are elsewhere than in its directory. No links: a strict sandbox follows none.
fn files_apart(source: &ModelSource) -> impl Iterator<Item = &PathBuf> {
    let files = [&source.path].into_iter().chain(&source.folds);
    files.filter(|it| !it.starts_with(&source.directory) && !it.is_symlink())
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

    /// What it keeps for all models: a directory that is there.
    fn kept() -> PathBuf {
        env!("CARGO_MANIFEST_DIR").into()
    }

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
            let keeps = vec![kept()];
            Places { reads: vec!["/opt/engine/lib.so".into()], keeps }
        }

        fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
            Err(BackendError::Load("no models here".to_owned()))
        }
    }

    fn reach(sandbox: Sandbox, options: &[(&str, &str)]) -> Reach {
        reach_with(sandbox, options, Vec::new()).unwrap()
    }

    fn reach_with(
        sandbox: Sandbox,
        options: &[(&str, &str)],
        op_libraries: Vec<PathBuf>,
    ) -> Result<Reach, SandboxError> {
        let mut source = ModelSource::new("m", "/models/m/1/model");
        source.directory = "/models/m".into();
        source.repository = Some("/models".into());
        source.op_libraries = op_libraries;
        source.options =
            options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let order = Order {
            sandbox,
            private: Some("/private".into()),
            libraries: vec!["/cuda".into()],
            kept: Vec::new(),
        };
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
    fn what_is_looked_for_beside_a_models_directory_is_there_once_and_nothing_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("m/1")).unwrap();
        for file in ["blob", "m/1/weights"] {
            fs::write(root.join(file), "").unwrap();
        }
        // A file that the model is, and a link to it.
        let graph = root.join("m/1/model");
        std::os::unix::fs::symlink(root.join("blob"), &graph).unwrap();
        let mut source = ModelSource::new("m", &graph);
        source.directory = root.join("m");
        assert_eq!(elsewhere(&source), [root.join("blob")].into());
        source.path = root.join("m/1/weights");
        source.folds = vec![root.join("m/1/weights")];
        fs::remove_file(graph).unwrap();
        assert!(elsewhere(&source).is_empty());
    }

    #[test]
    fn what_a_configuration_names_is_no_part_of_a_strict_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(dir.path()).unwrap();
        let (library, cache) = (folder.join("operators.so"), folder.join("cache/not-there"));
        fs::create_dir(folder.join("cache")).unwrap();
        fs::write(&library, "").unwrap();
        let options = [("cache", cache.to_str().unwrap()), ("labels", "x"), ("other", "/srv")];
        let on = reach_with(Sandbox::On, &options, vec![library.clone()]).unwrap();
        assert!(on.reads.contains(&library));
        check(&on.reads, "/models", true);
        assert_eq!(on.opened, [folder.join("cache")]);
        check(&on.writes, "/srv", false);
        let strict = reach_with(Sandbox::Strict, &options, vec![library.clone()]).unwrap();
        assert!(!strict.reads.contains(&library));
        check(&strict.reads, "/models", false);
        check(&strict.reads, "/models/m/1/model", false);
        assert_eq!(strict.writes, [PathBuf::from("/private")]);
        assert!(strict.opened.is_empty());
    }

    #[test]
    fn what_is_called_a_library_and_leads_to_the_system_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(dir.path()).unwrap();
        let (library, link) = (folder.join("operators.so"), folder.join("link.so"));
        fs::write(&library, "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        let reads = reach_with(Sandbox::On, &[], vec![library.clone()]).unwrap().reads;
        assert!(reads.contains(&library) && !reads.contains(&link));
        check(&reads, "/etc/passwd", false);
    }

    #[test]
    fn a_setting_that_names_what_is_the_systems_is_refused_by_name_and_opens_nothing_of_it() {
        for path in ["/etc/not-there", "/etc/passwd", "/etc", "/proc/../etc/x"] {
            let error =
                reach_with(Sandbox::On, &[("cache", path)], Vec::new()).unwrap_err().to_string();
            for part in ["parameter cache", path, "/etc is the system's", "--worker-sandbox=off"] {
                assert!(error.contains(part), "{part}: {error}");
            }
            assert!(reach(Sandbox::Strict, &[("cache", path)]).opened.is_empty());
        }
    }

    #[test]
    fn what_an_engine_keeps_for_all_models_is_not_written_by_one_in_a_strict_sandbox() {
        let kept = kept();
        assert!(reach(Sandbox::On, &[]).writes.contains(&kept));
        let strict = reach(Sandbox::Strict, &[]);
        assert!(strict.reads.contains(&kept) && !strict.writes.contains(&kept));
    }
}
