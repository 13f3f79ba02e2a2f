//! Scripts that ask for packages: pip brings them where a platform starts the server, from an index of files that the
//! test makes.

use std::{path::PathBuf, process::Command};

use crate::support::{
    Client, Process, Repository, check_end,
    python::{python, run},
    skip,
};

/// A script that needs a package.
const USES: &str = r#"
import muster_wheel

def model_fn(model_dir):
    return muster_wheel.WORD

def transform_fn(model, data, content_type, accept):
    return model, "text/plain"
"#;

/// Writes a wheel into a directory, and tells where the wheel of pip is that comes with Python.
const WHEEL: &str = r#"
import ensurepip, itertools, pathlib, sys, zipfile

info = "muster_wheel-1.2.dist-info"
with zipfile.ZipFile(sys.argv[1] + "/muster_wheel-1.2-py3-none-any.whl", "w") as wheel:
    wheel.writestr("muster_wheel.py", "WORD = 'from the wheel'\n")
    wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\nName: muster_wheel\nVersion: 1.2\n")
    wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "/RECORD", "")
folders = [pathlib.Path(ensurepip.__file__).parent / "_bundled", pathlib.Path("/usr/share/python-wheels")]
print(next(itertools.chain(*(it.glob("pip-*.whl") for it in folders))))
"#;

/// An interpreter, and the variables by which pip finds the wheel. `None` without Python or pip.
fn with_pip(index: &Repository) -> Option<(String, Vec<(&'static str, String)>)> {
    let interpreter: PathBuf = python("requirements.txt")?;
    let pip = run(Command::new(&interpreter).args(["-c", WHEEL]).arg(index.path()));
    let Ok(pip) = pip else {
        skip("packages of scripts: Python has no wheel of pip");
        return None;
    };
    let found = index.path().display().to_string();
    let variables = vec![
        ("PYTHONPATH", pip.trim().to_owned()),
        ("PIP_NO_INDEX", "1".to_owned()),
        ("PIP_FIND_LINKS", found),
    ];
    Some((format!("--python={}", interpreter.display()), variables))
}

/// The folder of a platform's model, whose script asks for that.
fn asks_for(what: &str) -> Repository {
    Repository::new()
        .file("model/code/inference.py", USES)
        .file("model/code/requirements.txt", format!("numpy\n{what}\n"))
}

/// `muster serve` with a directory for packages.
fn serve(
    model: &Repository,
    flags: &[&str],
    variables: &[(&str, String)],
    kept: &Repository,
) -> Process {
    let kept = format!("--python-env-dir={}", kept.at("kept"));
    let path = model.at("model");
    let flags = [&["serve", &kept][..], flags].concat();
    let platform = [("SAGEMAKER_MODEL_PATH", &*path), ("SAGEMAKER_BIND_TO_PORT", "0")];
    let others = variables.iter().map(|(name, value)| (*name, value.as_str()));
    Process::command(&flags, &platform.into_iter().chain(others).collect::<Vec<_>>())
}

#[test]
fn script_packages_are_installed_once_where_a_platform_starts_the_server() {
    let (index, kept) = (Repository::new(), Repository::new());
    let Some((interpreter, variables)) = with_pip(&index) else { return };
    let model = asks_for("muster_wheel>=1");
    for _start in 0..2 {
        let mut server = serve(&model, &[&interpreter], &variables, &kept);
        server.wait_ready();
        let mut client = Client::connect(server.address("sagemaker"));
        let reply = client.post("/invocations", &[("content-type", "text/plain")], "x");
        assert_eq!(reply.expect(200).text(), "from the wheel");
        // The second start asks nobody.
        let _ = std::fs::remove_file(index.path().join("muster_wheel-1.2-py3-none-any.whl"));
    }
}

#[test]
fn script_packages_that_cannot_be_had_are_told_in_the_words_of_pip_or_with_the_command() {
    let (index, kept) = (Repository::new(), Repository::new());
    let Some((interpreter, variables)) = with_pip(&index) else { return };
    let model = asks_for("muster_wheel==9");
    let mut server = serve(&model, &[&interpreter], &variables, &kept);
    server.wait_for_line("No matching distribution found for muster_wheel==9");
    drop(server);
    let never = [&*interpreter, "--install-requirements=never"];
    let mut server = serve(&model, &never, &variables, &kept);
    let line = server.wait_for_line("asks for: muster_wheel==9. Install it, by ");
    assert!(line.contains("-m pip install -r "), "{line}");
    drop(server);
    // Nobody but a platform has pip run.
    let path = model.at("model");
    let server = Process::command(&["serve", &path, "--http-port=0", &interpreter], &[]);
    check_end(server, 1, "start the server with --install-requirements=missing");
}
