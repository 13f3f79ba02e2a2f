//! The binary with a disk that is too small, in a mount namespace of its own.

use std::process::Command;

use super::{Process, program, say_skipped};

/// Mounts the second argument's disk at the first, and becomes the rest.
const SCRIPT: &str = "mount -t tmpfs -o \"$2\" tmpfs \"$1\" && shift 2 && exec \"$@\"";

/// May this user mount one at this directory? Where not, that is said.
pub fn can_be_mounted(dir: &str) -> bool {
    let tried = Command::new("unshare").args(arguments(dir, "size=1m", "true", &[])).output();
    let can = tried.is_ok_and(|it| it.status.success());
    if !can {
        say_skipped("a full disk: this user may not mount a small one");
    }
    can
}

/// The binary, for which the disk with these options of `tmpfs` lies at a directory.
pub fn muster(dir: &str, options: &str, args: &[&str], variables: &[(&str, &str)]) -> Process {
    let program = program();
    let path = [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")];
    let args = arguments(dir, options, &program, args);
    Process::program("unshare", &args, &[&path, variables].concat())
}

fn arguments<'a>(
    dir: &'a str,
    options: &'a str,
    program: &'a str,
    args: &[&'a str],
) -> Vec<&'a str> {
    [&["-m", "sh", "-c", SCRIPT, "sh", dir, options, program], args].concat()
}
