//! Compiles the C++ part against the libtorch that `LIBTORCH` names, and says where the plugin finds that
//! library when it is opened.

use std::{env, path::PathBuf, process::exit};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=native");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let folder = match libtorch() {
        Ok(folder) => folder,
        Err(problem) => {
            eprintln!("error: {problem}");
            eprintln!(
                "`python3 backends/pytorch/prepare.py` fetches libtorch and builds the plugin; or set \
                 LIBTORCH to a folder that has libtorch's include/ and lib/."
            );
            exit(1);
        }
    };
    let include = folder.join("include");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").warnings(false).flag("-fvisibility=hidden");
    // Headers of others: their warnings are theirs.
    build.flag("-isystem").flag(include.display().to_string());
    build.flag("-isystem").flag(include.join("torch/csrc/api/include").display().to_string());
    build.flag("-Wall").flag("-Wextra").opt_level(2).debug(false);
    build.file("native/lacking.cpp");
    build.compile("muster_torch");

    let libraries = folder.join("lib");
    println!("cargo:rustc-link-search=native={}", libraries.display());
    for library in ["torch_cpu", "c10"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    // Where it lies in an installation; and for tests, which run it from the target folder, where it was. The bench
    // is linked with it.
    println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,$ORIGIN/libtorch/lib");
    // Where it lies among packages of Python, in one beside `torch`.
    println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,$ORIGIN/../torch/lib");
    println!("cargo:rustc-link-arg-benches=-Wl,-rpath,{}", libraries.display());
    if env::var("PROFILE").is_ok_and(|it| it == "debug") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", libraries.display());
    }
}

/// The folder with libtorch's headers and libraries.
fn libtorch() -> Result<PathBuf, String> {
    let folder = env::var_os("LIBTORCH").filter(|it| !it.is_empty());
    let folder = PathBuf::from(folder.ok_or("LIBTORCH is not set.")?);
    for file in ["include/torch/script.h", "lib/libtorch_cpu.so"] {
        if !folder.join(file).is_file() {
            return Err(format!("LIBTORCH is {}, where there is no {file}.", folder.display()));
        }
    }
    Ok(folder)
}
