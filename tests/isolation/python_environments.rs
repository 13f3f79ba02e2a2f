//! Environments that models in Python bring along: directories, and archives that are unpacked once.

use std::{fs, path::Path, process::Command};

use crate::support::{
    Process, Repository, check_end, infer,
    python::{python, run},
};

/// A model that says which environment runs it, and what that was made of.
const TELLS: &str = r#"
import os, sys
import numpy as np

class Model:
    def predict(self, x: np.ndarray) -> str:
        made = os.path.join(sys.prefix, "made-whole")
        return sys.prefix + " " + (open(made).read() if os.path.exists(made) else "as it was")
"#;

const CONFIG: &str = r#"
backend: "python" max_batch_size: 0
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "output" data_type: TYPE_STRING dims: [ 1 ] }
parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/../ENVIRONMENT" } }
"#;

/// Makes a virtual environment that has numpy, of the interpreter of another one, with a script as conda-pack adds it.
fn make_environment(of: &Path, at: &Path) {
    run(Command::new(of).args(["-m", "venv", "--without-pip"]).arg(at)).unwrap();
    let find = "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))";
    let packages = run(Command::new(of).args(["-c", find])).unwrap();
    let find = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    let own = run(Command::new(at.join("bin/python3")).args(["-c", find])).unwrap();
    fs::write(Path::new(own.trim()).join("more.pth"), packages).unwrap();
    let unpack = "open('made-whole', 'a').write('made whole')";
    fs::write(at.join("bin/conda-unpack"), unpack).unwrap();
}

/// What the model says, of its environment.
fn told(server: &mut Process, model: &str) -> String {
    let asked = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}"#;
    let reply = server.client().post(&infer(model), &[], asked).expect(200).json();
    reply["outputs"][0]["data"][0].as_str().unwrap().to_owned()
}

#[test]
fn python_environments_are_directories_or_archives_that_are_unpacked_once() {
    let Some(interpreter) = python("requirements.txt") else { return };
    let repository = Repository::new()
        .file("folder/1/model.py", TELLS)
        .file("folder/config.pbtxt", CONFIG.replace("ENVIRONMENT", "envs/one"))
        .file("packed/1/model.py", TELLS)
        .file("packed/config.pbtxt", CONFIG.replace("ENVIRONMENT", "envs/one.tar.gz"))
        .file("again/1/model.py", TELLS)
        .file("again/config.pbtxt", CONFIG.replace("ENVIRONMENT", "envs/one.tar.gz"));
    let envs = repository.path().join("envs");
    make_environment(&interpreter, &envs.join("one"));
    let archive = envs.join("one.tar.gz");
    run(Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(envs.join("one")).arg("."))
        .unwrap();

    let kept = Repository::new();
    let kept = kept.path().canonicalize().unwrap();
    let flags = [
        format!("--python-env-dir={}", kept.display()),
        "--load-model=folder".to_owned(),
        "--load-model=packed".to_owned(),
        "--load-model=again".to_owned(),
        "--model-control-mode=explicit".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for _start in 0..2 {
        let mut server = Process::start(&repository, &flags, &[]);
        server.wait_ready();
        let own = format!("{} as it was", envs.join("one").display());
        assert_eq!(told(&mut server, "folder"), own);
        let unpacked = told(&mut server, "packed");
        assert!(unpacked.starts_with(kept.to_str().unwrap()), "{unpacked}");
        // The script ran once, for two models and two starts.
        assert!(unpacked.ends_with(" made whole"), "{unpacked}");
        assert_eq!(told(&mut server, "again"), unpacked);
    }
    let folders = fs::read_dir(&kept).unwrap().filter(|it| it.as_ref().unwrap().path().is_dir());
    assert_eq!(folders.count(), 1);
}

#[test]
fn python_environments_that_would_write_outside_are_refused() {
    let repository = Repository::new()
        .file("m/1/model.py", TELLS)
        .file("m/config.pbtxt", CONFIG.replace("../ENVIRONMENT", "env.tar"));
    let outside = repository.path().join("m/outside");
    fs::write(&outside, "").unwrap();
    let mut pack = Command::new("tar");
    pack.args(["cPf", "../m/env.tar", "../m/outside"]).current_dir(repository.path().join("m"));
    run(&mut pack).unwrap();
    let kept = Repository::new();
    let flag = format!("--python-env-dir={}", kept.path().display());
    let server = Process::start(&repository, &[&flag], &[]);
    check_end(server, 1, "'../m/outside' leads outside of it");
    let folders = fs::read_dir(kept.path()).unwrap();
    assert_eq!(folders.filter(|it| it.as_ref().unwrap().path().is_dir()).count(), 0);
}
