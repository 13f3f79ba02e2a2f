//! Plugins that cannot be used. In a process of its own: once one is open, no other is looked at.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use backend::{Backend, BackendError};
use pytorch::{Options, PyTorch};
use support::{path, plugin, source};

#[track_caller]
fn unusable(plugin: Option<PathBuf>, parts: &[&str]) {
    let engine = PyTorch::new(Options { plugin });
    let Err(BackendError::Load(text)) = engine.load(&source("mlp")) else {
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
         struct {{ unsigned version; number numbers[12]; }} table = {{ {version}, {{ built, running }} }};
         void *muster_pytorch_plugin(void) {{ return &table; }}"
    )
}

#[test]
fn bad_plugins_are_refused_and_a_good_one_is_opened_after_them() {
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
    let other = compile(&folder, "other", &table(1), &[]);
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

    // A bad file is told without any plugin.
    let engine = PyTorch::new(Options { plugin: Some(folder.join("absent.so")) });
    let state_dict = backend::ModelSource::new("m", path("state_dict.pt"));
    let Err(BackendError::Load(text)) = engine.load(&state_dict) else { panic!("it loaded") };
    assert!(text.contains("state dict"), "{text}");

    let good = PyTorch::new(Options { plugin: Some(plugin()) });
    good.load(&source("mlp")).unwrap();
    let another = PyTorch::new(Options { plugin: Some(folder.join("absent.so")) });
    let Err(BackendError::Load(text)) = another.load(&source("mlp")) else { panic!("two plugins") };
    assert!(text.contains("cannot open"), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}
