//! What can be told without libtorch: plugins that cannot be used, and files that are no models.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use backend::{Backend, BackendError, ModelSource};
use pytorch::{Options, PyTorch};

/// A file among the models of the plugin's tests.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin/tests/models").join(name)
}

#[track_caller]
fn unusable(plugin: Option<PathBuf>, parts: &[&str]) {
    let engine = PyTorch::new(Options { plugin });
    let Err(BackendError::Load(text)) = engine.load(&ModelSource::new("m", path("mlp.pt"))) else {
        panic!("it can be used");
    };
    for part in parts.iter().chain(&["python3 backends/pytorch/prepare.py"]) {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\n'), "{text}");
}

/// A shared library made of that C code. Where Rust links, there is a `cc`.
fn compile(folder: &Path, name: &str, code: &str, flags: &[&str]) -> PathBuf {
    let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).args(flags);
    assert!(compiler.status().unwrap().success());
    library
}

/// A plugin with that version of the interface, which says that it was built with libtorch 2.13.0 and found
/// 2.12.1.
fn table(version: u32) -> String {
    format!(
        "typedef unsigned long long u64; typedef u64 (*number)(void);
         static u64 built(void) {{ return 0x020D00ull << 40; }}
         static u64 running(void) {{ return 0x020C01ull << 40; }}
         struct {{ unsigned version; number numbers[13]; }} table = {{ {version}, {{ built, running }} }};
         void *muster_pytorch_plugin(void) {{ return &table; }}"
    )
}

#[test]
fn a_plugin_that_cannot_be_used_is_an_error_that_says_why_and_what_to_do() {
    let folder = std::env::temp_dir().join(format!("muster-plugins-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    unusable(None, &["looked for", "/pytorch/libmuster_pytorch.so"]);
    unusable(Some(folder.join("absent.so")), &["looked for", "absent.so"]);
    fs::write(folder.join("junk.so"), "not a library").unwrap();
    unusable(Some(folder.join("junk.so")), &["junk.so", "file too short"]);
    let foreign = compile(&folder, "foreign", "int x;", &[]);
    unusable(Some(foreign), &["it is no plugin of muster"]);
    let older = compile(&folder, "older", &table(0), &[]);
    unusable(Some(older), &["version 0 of the interface", "different builds"]);
    let other = compile(&folder, "other", &table(pytorch_abi::ABI_VERSION), &[]);
    unusable(Some(other), &["built with libtorch 2.13.0, and found 2.12.1"]);
    // Linked against a library that is gone when it is opened, as the plugin is against libtorch.
    compile(&folder, "libgone", "int gone(void) { return 1; }", &["-Wl,-soname,libgone.so"]);
    let code = "int gone(void); int x(void) { return gone(); }";
    let flags = [&format!("-L{}", folder.display()), "-lgone"];
    let alone = compile(&folder, "alone", code, &flags);
    fs::remove_file(folder.join("libgone.so")).unwrap();
    unusable(
        Some(alone),
        &["libgone.so: cannot open shared object file", "libtorch's libraries are looked for in"],
    );
    let code = "int gone(void); int x(void) { return gone(); }";
    let unresolved = compile(&folder, "unresolved", code, &[]);
    unusable(Some(unresolved), &["undefined symbol: gone", "not of the version"]);
    fs::remove_dir_all(&folder).unwrap();
}

#[track_caller]
fn refused(name: &str, parts: &[&str]) {
    let Err(BackendError::Load(text)) = PyTorch::default().load(&ModelSource::new("m", path(name)))
    else {
        panic!("{name} loads");
    };
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains(name) && !text.contains('\n'), "{text}");
}

#[test]
fn files_that_are_no_torchscript_are_called_what_they_are() {
    refused("absent.pt", &["there is no such file"]);
    refused("cut.pt", &["cut short"]);
    let ways =
        ["a state dict or a pickled module", "torch.onnx.export", "torch.jit.script", ".save("];
    refused("state_dict.pt", &ways);
    refused("pickled.pt", &["a state dict or a pickled module", "torch.jit.trace"]);
    refused("legacy.pt", &["old format of torch.save"]);
    refused("exported.pt2", &["torch.export archive", "torch.jit.script"]);
    refused("make.py", &["no TorchScript file"]);
    let empty = std::env::temp_dir().join(format!("muster-empty-{}.pt", std::process::id()));
    fs::write(&empty, "").unwrap();
    refused(&empty.display().to_string(), &["the file is empty"]);
    fs::remove_file(&empty).unwrap();
}
