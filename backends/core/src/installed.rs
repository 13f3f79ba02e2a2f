//! Where an installation keeps what engines open, seen from the program.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the libraries of a program that lies in a `bin/`: `lib/muster/` beside that.
pub fn library_folder(program: &Path) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.join("lib/muster"))
}

/// The folders of the Python packages that are installed with a program: those of the environment whose `bin/` it
/// lies in. None for a program that lies elsewhere. Blocking.
pub fn python_packages(program: &Path) -> Vec<PathBuf> {
    let Some(bin) = program.parent().filter(|it| it.ends_with("bin")) else { return Vec::new() };
    let Some(prefix) = bin.parent() else { return Vec::new() };
    let mut found: Vec<PathBuf> = ["lib", "lib64"]
        .into_iter()
        .filter_map(|it| fs::read_dir(prefix.join(it)).ok())
        .flat_map(|it| it.flatten())
        .filter(|it| it.file_name().to_string_lossy().starts_with("python3"))
        .flat_map(|it| ["site-packages", "dist-packages"].map(|name| it.path().join(name)))
        .filter(|it| it.is_dir())
        // In an environment `lib64` leads to `lib`.
        .filter_map(|it| fs::canonicalize(it).ok())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_of_the_environment_that_the_program_is_in() {
        let prefix = fs::canonicalize(std::env::temp_dir()).unwrap();
        let prefix = prefix.join(format!("muster-installed-{}", std::process::id()));
        let packages = prefix.join("lib/python3.13/site-packages");
        fs::create_dir_all(&packages).unwrap();
        fs::create_dir_all(prefix.join("lib/muster")).unwrap();
        std::os::unix::fs::symlink("lib", prefix.join("lib64")).unwrap();
        let program = prefix.join("bin/muster");
        assert_eq!(python_packages(&program), [packages]);
        assert_eq!(library_folder(&program), Some(prefix.join("lib/muster")));
        assert!(python_packages(&prefix.join("release/muster")).is_empty());
        fs::remove_dir_all(prefix).unwrap();
    }
}
