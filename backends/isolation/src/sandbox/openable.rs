//! Which places of the machine a model's configuration opens to its worker: what is the model's own, or is there for
//! such files alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{private, refusal::SandboxError};

/// What the system and its users have for themselves: no setting opens a place in it.
const OF_SYSTEM: [&str; 16] = [
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root",
    "/run", "/sbin", "/sys", "/usr", "/var",
];

/// Directories in which everybody has some: none is opened as a whole, though it may be in a place of the system's.
const SHARED: [&str; 7] = ["/dev/shm", "/media", "/mnt", "/srv", "/tmp", "/var/cache", "/var/tmp"];

/// What no link out of a model's directory leads to.
const NEVER_LINKED: [&str; 7] =
    ["/boot", "/dev", "/etc", "/proc", "/run/secrets", "/sys", "/var/run/secrets"];

/// Of a model's directory, what the server reads to know what it may do.
const CONFIGURATIONS: [&str; 2] = ["config.pbtxt", "configs"];

/// What is known of the places around a model. All paths are real ones, without links.
pub(super) struct Surroundings {
    model: PathBuf,
    repository: Option<PathBuf>,
    /// The server's directory for temporary files.
    temporary: Option<PathBuf>,
    /// What the worker may write anyway.
    writes: Vec<PathBuf>,
    /// What it may read anyway, as others do.
    reads: Vec<PathBuf>,
    /// What is the server's own.
    kept: Vec<PathBuf>,
    /// Directories of other models that are in no repository.
    others: Vec<PathBuf>,
}

impl Surroundings {
    /// `private`: the worker's own directory.
    pub(super) fn new(
        model: &Path,
        repository: Option<&Path>,
        private: Option<&Path>,
        writes: &[PathBuf],
        reads: &[PathBuf],
    ) -> Surroundings {
        let all = |paths: &[PathBuf]| paths.iter().map(|it| real(it)).collect();
        Surroundings {
            model: real(model),
            repository: repository.map(real),
            temporary: private.and_then(Path::parent).map(real),
            writes: all(writes),
            reads: all(reads),
            kept: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The same where these are the server's own.
    pub(super) fn keeping(self, kept: &[PathBuf]) -> Surroundings {
        Surroundings { kept: kept.iter().map(|it| real(it)).collect(), ..self }
    }

    /// The same where other models are in these directories.
    pub(super) fn beside(self, others: &[PathBuf]) -> Surroundings {
        Surroundings { others: others.iter().map(|it| real(it)).collect(), ..self }
    }

    /// What is opened where that setting names `path`: that, or the directory in which it is to be made. `None` where
    /// nothing has to be.
    ///
    /// # Errors
    /// Why that is no place for a setting: [`SandboxError::NotOpened`].
    pub(super) fn place(
        &self,
        setting: &str,
        path: &Path,
    ) -> Result<Option<PathBuf>, SandboxError> {
        let refused = |reason| {
            let (setting, path) = (setting.to_owned(), path.to_owned());
            Err(SandboxError::NotOpened { setting, path, reason })
        };
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let named = if path.exists() { path } else { folder.unwrap_or(Path::new(".")) };
        // Where neither is there the engine says so.
        let Ok(place) = fs::canonicalize(named) else { return Ok(None) };
        let is_in = |all: &[PathBuf]| all.iter().any(|it| place.starts_with(it));
        if is_in(&self.writes) {
            return Ok(None);
        }
        if let Ok(within) = place.strip_prefix(&self.model) {
            let is_whole = within.as_os_str().is_empty();
            return match is_whole || CONFIGURATIONS.iter().any(|it| within.starts_with(it)) {
                true => refused("the model's configuration is there".to_owned()),
                false => Ok(Some(place)),
            };
        }
        if place.is_file() && is_in(&self.reads) {
            return Ok(None);
        }
        self.why_not(&place).map_or(Ok(Some(place)), refused)
    }

    /// Why a place outside of the model's directory is not opened.
    fn why_not(&self, place: &Path) -> Option<String> {
        let shared = SHARED.iter().map(Path::new).chain(self.temporary.as_deref());
        // A file there may be anybody's.
        let directory = if place.is_file() { place.parent().unwrap_or(place) } else { place };
        if shared.clone().any(|it| it.starts_with(directory)) {
            return Some("others have files there too".to_owned());
        }
        let is_shared_below = |of_system: &Path| {
            shared.clone().any(|it| it.starts_with(of_system) && place.starts_with(it))
        };
        let of_system = OF_SYSTEM.iter().find(|it| place.starts_with(it));
        if let Some(of_system) = of_system.filter(|it| !is_shared_below(Path::new(it))) {
            return Some(format!("{of_system} is the system's"));
        }
        if place.iter().any(private::is_private) {
            return Some("it is the directory of another process".to_owned());
        }
        let mut models = self.repository.iter().chain(&self.others);
        if models.any(|it| it.starts_with(place) || place.starts_with(it)) {
            return Some("other models are there".to_owned());
        }
        if let Some(kept) =
            self.kept.iter().find(|it| it.starts_with(place) || place.starts_with(it))
        {
            return Some(format!("'{}' is the server's own", kept.display()));
        }
        let read = self.reads.iter().find(|it| it.starts_with(place) || place.starts_with(it))?;
        Some(format!("'{}' is read by others", read.display()))
    }

    /// May a link in the model's directory, or the model file, be what lies there? A real path.
    pub(super) fn may_be_linked(&self, target: &Path) -> bool {
        let is_shared = target.starts_with("/dev/shm");
        let is_never = NEVER_LINKED.iter().any(|it| target.starts_with(it)) && !is_shared;
        let is_around = self.model.starts_with(target) && self.model != target;
        !is_never && !is_around
    }
}

/// Where a path leads. Itself where it is not there.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The model `m` of a repository, with a directory of a worker beside that, and what the closure names there.
    #[track_caller]
    fn check(place: impl Fn(&Path) -> PathBuf, expected: Result<Option<&str>, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let folders = ["models/m/1", "models/m/configs", "models/n/1", "read", "cache", "free"];
        for folder in folders.iter().chain(&["more/n/1", "keys", "named/1"]) {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for folder in [
            "temporary/muster-worker-0000000000000001",
            "temporary/muster-worker-0000000000000002",
            "temporary/free",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["read/library", "temporary/somebodys", "keys/tls.key"] {
            fs::write(root.join(file), "").unwrap();
        }
        symlink("/etc", root.join("free/link")).unwrap();
        let surroundings = Surroundings::new(
            &root.join("models/m"),
            Some(&root.join("models")),
            Some(&root.join("temporary/muster-worker-0000000000000001")),
            &[root.join("temporary/muster-worker-0000000000000001"), root.join("cache")],
            &[root.join("read"), root.join("models/m"), "/usr/lib".into()],
        );
        let surroundings = surroundings
            .keeping(&[root.join("more"), root.join("keys/tls.key")])
            .beside(&[root.join("named")]);
        let found = surroundings.place("cache", &place(&root));
        match expected {
            Ok(place) => assert_eq!(found, Ok(place.map(|it| root.join(it)))),
            Err(reason) => {
                let error = found.expect_err("it is refused").to_string();
                assert!(error.contains(reason), "{error}");
            }
        }
    }

    fn below(path: &str) -> impl Fn(&Path) -> PathBuf {
        move |root| root.join(path)
    }

    #[test]
    fn what_is_the_models_own_is_opened_but_for_its_configuration() {
        check(below("models/m/1/new"), Ok(Some("models/m/1")));
        check(below("models/m/1"), Ok(Some("models/m/1")));
        check(below("models/m/1/../../m/1/new"), Ok(Some("models/m/1")));
        for path in ["models/m", "models/m/new", "models/m/configs/new"] {
            check(below(path), Err("the model's configuration"));
        }
    }

    #[test]
    fn a_directory_that_is_there_for_it_alone_is_opened() {
        check(below("free/new"), Ok(Some("free")));
        check(below("free"), Ok(Some("free")));
        check(below("temporary/free/new"), Ok(Some("temporary/free")));
        check(below("nowhere/new"), Ok(None));
    }

    #[test]
    fn what_may_be_reached_anyway_is_not_opened_further() {
        check(below("cache/new"), Ok(None));
        check(below("temporary/muster-worker-0000000000000001/new"), Ok(None));
        check(below("read/library"), Ok(None));
    }

    #[test]
    fn what_is_the_systems_is_not_opened_whichever_way_it_is_named() {
        for path in ["/etc/not-there", "/etc/passwd", "/etc", "/proc/self/x", "/usr/new", "/root"] {
            check(|_| path.into(), Err("is the system's"));
        }
        check(below("free/link/not-there"), Err("/etc is the system's"));
        check(below("free/link"), Err("/etc is the system's"));
        check(|root| root.join("free/../../../../../../../../etc/x"), Err("/etc is the system's"));
        check(|_| "/not-there".into(), Err("others have files there too"));
        check(|_| "/".into(), Err("others have files there too"));
    }

    #[test]
    fn what_others_have_is_not_opened() {
        check(|_| "/tmp/not-there".into(), Err("others have files there too"));
        check(below("temporary/new"), Err("others have files there too"));
        check(below("temporary/somebodys"), Err("others have files there too"));
        check(below("temporary/muster-worker-0000000000000002/new"), Err("another process"));
        check(below("models/n/1/new"), Err("other models"));
        check(below("models/new"), Err("other models"));
        for path in ["named/new", "named/1/new"] {
            check(below(path), Err("other models"));
        }
        check(below("new"), Err("others"));
        check(below("read/new"), Err("is read by others"));
        for path in ["more/n/1/new", "more/new", "keys/tls.key", "keys/new"] {
            check(below(path), Err("is the server's own"));
        }
    }

    #[test]
    fn a_link_leads_to_no_part_of_the_system_and_to_nothing_around_the_model() {
        let around = Surroundings::new(Path::new("/srv/models/m"), None, None, &[], &[]);
        for target in ["/etc", "/etc/shadow", "/proc/1", "/", "/srv", "/srv/models"] {
            assert!(!around.may_be_linked(Path::new(target)), "{target}");
        }
        for target in
            ["/srv/models/m", "/srv/models/n", "/root/.cache/huggingface/blobs/1", "/dev/shm/model"]
        {
            assert!(around.may_be_linked(Path::new(target)), "{target}");
        }
    }
}
