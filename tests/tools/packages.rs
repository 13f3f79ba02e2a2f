//! The wheel and the tarball that users install, made of the programs that are tested and tried as users do. Needs
//! Python 3.11 with `venv`, and binutils. `deploy/try_package.py` does the same with what is shipped.

use std::{path::Path, process::Command};

use crate::support::{python::run, root, scratch, skip, with_tools};

#[test]
fn the_wheel_and_the_tarball_serve_where_nothing_else_is_installed() {
    if run(Command::new("python3").args(["-c", "import tomllib, venv, ensurepip"])).is_err() {
        return skip("packages: there is no Python 3.11 with venv");
    }
    let muster = with_tools();
    let dist = Path::new(&scratch()).join(format!("packages-{}", std::process::id()));
    let made = run(Command::new("python3")
        .arg(root("deploy/package.py"))
        .arg("--programs")
        .args(Path::new(&muster).parent())
        .args(["--compress", "1", "--out"])
        .arg(&dist));
    made.unwrap_or_else(|problem| panic!("{problem}"));
    // Programs for debugging are ten times as large, and other tests run beside this one.
    let tried = run(Command::new("python3")
        .arg(root("deploy/try_package.py"))
        .args(["--within", "120", "--dist"])
        .arg(&dist));
    let _ = std::fs::remove_dir_all(dist);
    println!("{}", tried.unwrap_or_else(|problem| panic!("{problem}")));
}
