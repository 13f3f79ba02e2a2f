//! Where the server runs, as far as that says who can reach its ports: alone in a container or on a hosting platform,
//! where the platform decides, or on a machine of somebody's own.

use std::{ffi::OsStr, path::Path};

use configuration::{Environment, compat::variables};

/// Files that engines of containers put there.
const FILES: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Variables that platforms set in containers: Kubernetes, ECS (and Fargate), SageMaker.
const OF_PLATFORMS: [&str; 4] = [
    "KUBERNETES_SERVICE_HOST",
    "ECS_CONTAINER_METADATA_URI_V4",
    "ECS_CONTAINER_METADATA_URI",
    variables::BIND_TO_PORT,
];

/// Says by which engine a process runs in a container, and is set for process 1 and what it starts.
const CONTAINER: &str = "container";

/// Words in the name of a control group that engines of containers make.
const GROUPS: [&str; 6] = ["docker", "kubepods", "containerd", "libpod", "lxc", "/ecs/"];

/// Why the server is taken to run in a container, as the end of a sentence; `None` where it is not.
pub(super) fn container(environment: &dyn Environment) -> Option<&'static str> {
    let is_set = |name: &&str| environment.variable(name).is_some_and(|it| !it.is_empty());
    let text = |path: &str| environment.text_of(Path::new(path)).unwrap_or_default();
    if FILES.iter().any(|it| environment.kind_of(Path::new(it)).is_some()) {
        return Some("as the server runs in a container");
    }
    if OF_PLATFORMS.first().is_some_and(is_set) {
        return Some("as the server runs in Kubernetes");
    }
    let of_process_one = || text("/proc/1/environ").split('\0').any(says_container);
    let of_group = || GROUPS.iter().any(|it| text("/proc/self/cgroup").contains(it));
    let is_one = OF_PLATFORMS.iter().any(is_set)
        || is_set(&CONTAINER)
        || is_process_one(environment)
        || of_process_one()
        || of_group();
    is_one.then_some("as the server runs in a container")
}

/// `container=podman`, in the environment of process 1.
fn says_container(variable: &str) -> bool {
    variable.split_once('=').is_some_and(|(name, value)| name == CONTAINER && !value.is_empty())
}

/// Is process 1 muster? No other machine starts with it.
fn is_process_one(environment: &dyn Environment) -> bool {
    let first = environment.first_process().and_then(|it| it.into_iter().next());
    first.is_some_and(|it| Path::new(&it).file_name() == Some(OsStr::new("muster")))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, ffi::OsString, io};

    use super::*;
    use configuration::PathKind;

    /// Variables, and files with their texts.
    #[derive(Default)]
    struct Fake {
        variables: HashMap<&'static str, &'static str>,
        files: HashMap<&'static str, &'static str>,
        first: &'static str,
    }

    impl Environment for Fake {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.variables.get(name).map(OsString::from)
        }

        fn names(&self) -> Vec<String> {
            Vec::new()
        }

        fn kind_of(&self, path: &Path) -> Option<PathKind> {
            self.files.get(path.to_str()?).map(|_| PathKind::File)
        }

        fn is_empty_directory(&self, _: &Path) -> bool {
            false
        }

        fn text_of(&self, path: &Path) -> io::Result<String> {
            let text = path.to_str().and_then(|it| self.files.get(it));
            text.map(|it| (*it).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn first_process(&self) -> Option<Vec<OsString>> {
            Some(vec![self.first.into(), "serve".into()])
        }
    }

    #[test]
    fn a_container_is_known_by_any_of_its_marks() {
        let variable = |name, value| Fake { variables: [(name, value)].into(), ..Fake::default() };
        let file = |path, text| Fake { files: [(path, text)].into(), ..Fake::default() };
        for (fake, is_one) in [
            (Fake { first: "/sbin/init", ..Fake::default() }, false),
            (file("/.dockerenv", ""), true),
            (file("/run/.containerenv", ""), true),
            (variable("KUBERNETES_SERVICE_HOST", "10.0.0.1"), true),
            (variable("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/x"), true),
            (variable("SAGEMAKER_BIND_TO_PORT", "8080"), true),
            (variable("container", "podman"), true),
            (variable("container", ""), false),
            (file("/proc/1/environ", "PATH=/bin\0container=lxc\0"), true),
            (file("/proc/1/environ", "PATH=/bin\0mycontainer=x\0"), false),
            (file("/proc/self/cgroup", "0::/user.slice/session-2.scope\n"), false),
            (file("/proc/self/cgroup", "0::/kubepods.slice/pod7/cri-containerd-1.scope\n"), true),
            (Fake { first: "/muster", ..Fake::default() }, true),
            (Fake { first: "/usr/bin/bash", ..Fake::default() }, false),
        ] {
            let found = container(&fake);
            assert_eq!(
                found.is_some(),
                is_one,
                "{:?} {:?} {}",
                fake.variables,
                fake.files,
                fake.first
            );
        }
    }
}
