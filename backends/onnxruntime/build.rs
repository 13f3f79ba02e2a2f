//! Sees to it that ONNX Runtime's library is there, and tells the crate where.
//!
//! In this order: the file that `ORT_DYLIB_PATH` names; the one that an earlier build left in the target
//! folder; the one inside the wheel of the Python package index, fetched by pip so that the user's
//! mirrors and certificates apply, and refused unless its digest is the pinned one. With
//! `MUSTER_SKIP_ORT_DOWNLOAD=1` nothing is looked for; the program then finds its library when it runs.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output, exit},
};

const VERSION: &str = "1.31.1";

/// One wheel of the package index: for which processor, its platform tag there, and its SHA-256.
struct Wheel {
    arch: &'static str,
    platform: &'static str,
    sha256: &'static str,
}

const WHEELS: [Wheel; 2] = [
    Wheel {
        arch: "x86_64",
        platform: "manylinux_2_28_x86_64",
        sha256: "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
    },
    Wheel {
        arch: "aarch64",
        platform: "manylinux_2_28_aarch64",
        sha256: "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
    },
];

/// Files of the wheel that go with the library wherever it is copied to.
const NOTICES: [&str; 2] = ["LICENSE", "ThirdPartyNotices.txt"];

/// Checks a wheel's digest and copies some of its files into one folder. Arguments: wheel, digest, folder,
/// members.
const UNPACK: &str = "
import hashlib, os, shutil, sys, zipfile
wheel, expected, folder, *members = sys.argv[1:]
with open(wheel, 'rb') as file:
    found = hashlib.sha256(file.read()).hexdigest()
if found != expected:
    sys.exit(f'{wheel} has SHA-256 {found}, expected {expected}: refused')
with zipfile.ZipFile(wheel) as archive:
    for member in members:
        target = os.path.join(folder, os.path.basename(member))
        with archive.open(member) as source, open(target, 'wb') as out:
            shutil.copyfileobj(source, out)
";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ORT_DYLIB_PATH");
    println!("cargo:rerun-if-env-changed=MUSTER_SKIP_ORT_DOWNLOAD");
    match library() {
        Ok(Some(path)) => {
            println!("cargo:rerun-if-changed={}", path.display());
            println!("cargo:rustc-env=MUSTER_ORT_LIBRARY={}", path.display());
        }
        Ok(None) => {}
        Err(problem) => {
            eprintln!("error: ONNX Runtime {VERSION} could not be made ready for this build.");
            eprintln!("{problem}");
            eprintln!(
                "Either set ORT_DYLIB_PATH to the absolute path of a libonnxruntime.so (1.24 or later),"
            );
            eprintln!(
                "or install python3 with pip, let it reach a package index, and build again."
            );
            eprintln!(
                "(MUSTER_SKIP_ORT_DOWNLOAD=1 builds without it: ORT_DYLIB_PATH is then needed to run.)"
            );
            exit(1);
        }
    }
}

/// The library's file; `None` where none is wanted.
fn library() -> Result<Option<PathBuf>, Box<dyn Error>> {
    if env::var_os("MUSTER_SKIP_ORT_DOWNLOAD").is_some_and(|it| it == "1") {
        return Ok(None);
    }
    if let Some(path) = env::var_os("ORT_DYLIB_PATH").filter(|it| !it.is_empty()) {
        let path = PathBuf::from(path);
        return match path.is_absolute() && path.is_file() {
            true => Ok(Some(path)),
            false => {
                let path = path.display();
                Err(format!("ORT_DYLIB_PATH is {path}: not the absolute path of a file.").into())
            }
        };
    }
    let name = format!("libonnxruntime.so.{VERSION}");
    let folder = target_folder()?.join(format!("onnxruntime-{VERSION}"));
    let path = folder.join(&name);
    if !path.is_file() {
        fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
        // Two builds may do this at once; each writes aside, and either's file is as good.
        let aside = folder.join(format!("fetch-{}", std::process::id()));
        // The library last: where it is, all is.
        let files = NOTICES.into_iter().chain([name.as_str()]);
        let place = |file: &str| {
            let target = folder.join(file);
            fs::rename(aside.join(file), &target).map_err(|error| at(&target, &error).into())
        };
        let fetched = fetch(&aside, &name).and_then(|()| files.clone().try_for_each(place));
        // What is left there is of no use to anybody, whether fetching succeeded or not.
        let _ = fs::remove_dir_all(&aside);
        fetched?;
    }
    Ok(Some(path))
}

/// The folder that all profiles of one target share. Cargo runs this script with
/// `<target>/<profile>/build/<package>/out` in `OUT_DIR`.
fn target_folder() -> Result<PathBuf, Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo did not set OUT_DIR.")?);
    let build = out.ancestors().find(|it| it.file_name() == Some(OsStr::new("build")));
    let target = build.and_then(|it| it.ancestors().nth(2));
    Ok(target.ok_or(format!("OUT_DIR has an unknown form: {}", out.display()))?.to_owned())
}

/// Downloads the wheel for this target into `folder` and unpacks library and notices beside it.
fn fetch(folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let (os, arch) =
        (cargo_variable("CARGO_CFG_TARGET_OS"), cargo_variable("CARGO_CFG_TARGET_ARCH"));
    let wheel = WHEELS.iter().find(|it| os == "linux" && it.arch == arch);
    let wheel = wheel.ok_or(format!("No library is known for {os} on {arch}."))?;
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    println!("fetching onnxruntime {VERSION} for {}", wheel.platform);
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]);
    download.args(["--disable-pip-version-check", "--progress-bar", "off"]);
    download.args(["--platform", wheel.platform, "--python-version", "3.11"]);
    download.args(["--implementation", "cp", "--abi", "cp311"]);
    download.arg(format!("onnxruntime=={VERSION}")).arg("-d").arg(folder);
    run(&mut download, "python3 -m pip download")?;

    let files = fs::read_dir(folder).map_err(|error| at(folder, &error))?;
    let file =
        files.flatten().map(|it| it.path()).find(|it| it.extension() == Some(OsStr::new("whl")));
    let file = file.ok_or(format!("pip left no wheel in {}.", folder.display()))?;
    let mut unpack = Command::new("python3");
    unpack.args(["-c", UNPACK]).arg(&file).arg(wheel.sha256).arg(folder);
    unpack.arg(format!("onnxruntime/capi/{name}"));
    unpack.args(NOTICES.map(|it| format!("onnxruntime/{it}")));
    run(&mut unpack, "checking and unpacking the wheel")
}

fn cargo_variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Runs to the end. The error of a failure has the last lines that the program wrote.
fn run(command: &mut Command, what: &str) -> Result<(), Box<dyn Error>> {
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err("There is no python3 on the PATH to fetch it with.".into());
        }
        Err(error) => return Err(format!("{what}: {error}").into()),
    };
    if status.success() {
        return Ok(());
    }
    let text = [stdout, stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(4)..];
    Err(format!("{what} failed ({status}):\n  {}", last.join("\n  ")).into())
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
