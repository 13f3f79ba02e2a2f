//! The cache of optimised models: the same answers with it and without, and what happens to bad entries.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/onnx_file.rs"]
mod onnx_file;
mod support;

use std::{
    env, fs,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use backend::{Backend, Device};
use backend_onnxruntime::OnnxRuntime;
use onnx_file::{BESIDE, Graph, blocks, convolutions, dense, dense_in};
use support::{Folder, engine, engine_with_cache, floats, run, source};

/// The bits of what a new instance answers to the same three rows of `dims`.
fn answer(engine: &OnnxRuntime, model: &Path, dims: &[usize]) -> Vec<u8> {
    let shape = [&[3], dims].concat();
    let count: usize = shape.iter().product();
    let x: Vec<f32> = (0..count).map(|it| (it * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let model = engine.load(&source(model.to_owned(), &[])).unwrap();
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let outputs = run(&mut *instance, &[("x", floats(&shape, &x))], &["y"]).unwrap();
    outputs[0].to_bytes().to_vec()
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

/// The only entry of that cache.
#[track_caller]
fn entry(cache: &Path) -> PathBuf {
    let names = names(cache);
    assert_eq!(names.len(), 1, "{names:?}");
    cache.join(&names[0])
}

/// A dense model of 20 MiB with a cache that has its entry, and what it answers.
fn kept(name: &str) -> (Folder, PathBuf, PathBuf, Vec<u8>) {
    let folder = Folder::new(name);
    let (model, cache) = (folder.0.join("model.onnx"), folder.0.join("cache"));
    dense(&model, 5, 1024, 1).unwrap();
    let expected = answer(&engine(), &model, &[1024]);
    assert_eq!(answer(&engine_with_cache(&cache), &model, &[1024]), expected);
    (folder, model, cache, expected)
}

#[test]
fn answers_are_the_same_bit_by_bit_without_a_cache_at_the_first_load_and_at_later_ones() {
    let folder = Folder::new("muster-same-bits");
    let path = |name: &str| folder.0.join(name).join("model.onnx");
    for name in ["dense", "convolutions", "blocks"] {
        fs::create_dir_all(folder.0.join(name)).unwrap();
    }
    dense(&path("dense"), 5, 1024, 1).unwrap();
    convolutions(&path("convolutions"), 8, 256, 4, 1).unwrap();
    blocks(&path("blocks"), 3, 512, 1).unwrap();
    let shapes = [("dense", [1024].as_slice()), ("convolutions", &[256, 4, 4]), ("blocks", &[512])];
    for (name, dims) in shapes {
        let cache = folder.0.join(name).join("cache");
        let expected = answer(&engine(), &path(name), dims);
        assert!(expected.iter().any(|it| *it != expected[0]), "{name} answers nothing much");
        for load in 0..3 {
            let found = answer(&engine_with_cache(&cache), &path(name), dims);
            assert!(found == expected, "{name}, load {load}");
        }
        assert!(entry(&cache).join("weights.bin").is_file());
    }
}

#[test]
fn small_weights_behind_one_of_an_odd_size_are_where_kernels_can_read_them() {
    let folder = Folder::new("muster-odd-sizes");
    let (model, cache) = (folder.0.join("model.onnx"), folder.0.join("cache"));
    let mut graph = Graph::new(1);
    let sides = [1024, 1024, 1024, 1024, 1024, 277, 10, 7];
    let mut before = "x".to_owned();
    for (layer, side) in sides.windows(2).enumerate() {
        let name = |it: &str| format!("{it}{layer}");
        graph.weight(&name("w"), side);
        graph.weight(&name("b"), &side[1..]);
        graph.node("MatMul", &[&before, &name("w")], &name("m"), &[]);
        before = if side == [10, 7] { "y".to_owned() } else { name("a") };
        graph.node("Add", &[&name("m"), &name("b")], &before, &[]);
    }
    graph.write(&model, &[1024], &[7]).unwrap();
    let expected = answer(&engine(), &model, &[1024]);
    for _ in 0..2 {
        assert_eq!(answer(&engine_with_cache(&cache), &model, &[1024]), expected);
    }
    assert!(entry(&cache).join("weights.bin").is_file());
}

#[test]
fn what_a_file_says_about_itself_is_known_at_the_first_load_and_at_later_ones() {
    let folder = Folder::new("muster-metadata");
    let (model, cache) = (folder.0.join("model.onnx"), folder.0.join("cache"));
    dense(&model, 5, 1024, 1).unwrap();
    // An entry of `metadata_props`, field 14 of the file: key and value.
    let entry = b"\x72\x0e\x0a\x04task\x12\x06detect";
    fs::OpenOptions::new().append(true).open(&model).unwrap().write_all(entry).unwrap();
    for engine in [engine(), engine_with_cache(&cache), engine_with_cache(&cache)] {
        let model = engine.load(&source(model.clone(), &[])).unwrap();
        let metadata = &model.spec().unwrap().metadata;
        assert_eq!(metadata.get("task").map(String::as_str), Some("detect"));
    }
    assert_eq!(names(&cache).len(), 1);
}

#[test]
fn a_later_load_uses_the_entry_as_it_is() {
    let (_folder, model, cache, expected) = kept("muster-used-again");
    let weights = || fs::metadata(entry(&cache).join("weights.bin")).unwrap();
    let made = weights().modified().unwrap();
    assert_eq!(answer(&engine_with_cache(&cache), &model, &[1024]), expected);
    assert_eq!(weights().modified().unwrap(), made);
    // The name does not matter; what is in the file does.
    let copy = model.with_file_name("copy.onnx");
    fs::copy(&model, &copy).unwrap();
    assert_eq!(answer(&engine_with_cache(&cache), &copy, &[1024]), expected);
    assert_eq!(weights().modified().unwrap(), made);
}

#[test]
fn a_damaged_entry_is_made_anew_and_never_used() {
    let (_folder, model, cache, expected) = kept("muster-damaged");
    let flip = |name: &str, at: u64| {
        let file =
            fs::File::options().read(true).write(true).open(entry(&cache).join(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
    };
    let cut = |name: &str| {
        let file = fs::File::options().write(true).open(entry(&cache).join(name)).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    };
    let damages: [(&str, &dyn Fn()); 11] = [
        ("a weight", &|| flip("weights.bin", 9_000_003)),
        ("the graph", &|| flip("model.onnx", 200)),
        ("the list", &|| flip("entry", 60)),
        ("the end of the weights", &|| cut("weights.bin")),
        ("the end of the graph", &|| cut("model.onnx")),
        ("the end of the list", &|| cut("entry")),
        ("no weights", &|| fs::remove_file(entry(&cache).join("weights.bin")).unwrap()),
        ("no graph", &|| fs::remove_file(entry(&cache).join("model.onnx")).unwrap()),
        ("no list", &|| fs::remove_file(entry(&cache).join("entry")).unwrap()),
        ("a list without a file", &|| {
            let list = entry(&cache).join("entry");
            let text = fs::read_to_string(&list).unwrap();
            let lines = text.lines().filter(|it| !it.starts_with("weights.bin"));
            fs::write(&list, lines.collect::<Vec<_>>().join("\n")).unwrap();
            flip("weights.bin", 9_000_003);
        }),
        ("a file instead of an entry", &|| {
            let place = entry(&cache);
            fs::remove_dir_all(&place).unwrap();
            fs::write(place, "").unwrap();
        }),
    ];
    let whole = fs::read(entry(&cache).join("weights.bin")).unwrap();
    for (what, damage) in damages {
        damage();
        let found = answer(&engine_with_cache(&cache), &model, &[1024]);
        assert!(found == expected, "{what}");
        assert!(fs::read(entry(&cache).join("weights.bin")).unwrap() == whole, "{what}");
    }
}

#[test]
fn an_entry_of_another_model_is_not_taken() {
    let (folder, model, cache, expected) = kept("muster-foreign");
    let (other, other_cache) = (folder.0.join("other.onnx"), folder.0.join("other"));
    dense(&other, 5, 1024, 2).unwrap();
    assert_ne!(answer(&engine_with_cache(&other_cache), &other, &[1024]), expected);
    let place = entry(&cache);
    fs::remove_dir_all(&place).unwrap();
    fs::rename(entry(&other_cache), &place).unwrap();
    assert_eq!(answer(&engine_with_cache(&cache), &model, &[1024]), expected);
}

#[test]
fn other_weights_of_the_same_size_and_time_have_another_entry() {
    let folder = Folder::new("muster-other-weights");
    let (model, cache) = (folder.0.join("model.onnx"), folder.0.join("cache"));
    for beside in [false, true] {
        let mut answers = Vec::new();
        for seed in [1, 2] {
            let graph = if beside { Graph::with_weights_beside } else { Graph::new };
            dense_in(graph(seed), &model, 5, 1024).unwrap();
            for file in [&model, &folder.0.join(BESIDE)] {
                if let Ok(file) = fs::File::open(file) {
                    file.set_modified(std::time::UNIX_EPOCH).unwrap();
                }
            }
            let found = answer(&engine_with_cache(&cache), &model, &[1024]);
            assert!(found == answer(&engine(), &model, &[1024]));
            answers.push(found);
        }
        assert_ne!(answers[0], answers[1]);
        assert_eq!(names(&cache).len(), if beside { 4 } else { 2 });
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_no_hindrance() {
    let (folder, model, _, expected) = kept("muster-no-folder");
    let file = folder.file("file", b"");
    // Below a file nothing can be, and in this one not even root makes anything.
    for place in [file.join("cache"), PathBuf::from("/proc/muster")] {
        assert_eq!(answer(&engine_with_cache(&place), &model, &[1024]), expected);
    }
}

#[test]
fn small_models_are_not_kept() {
    let folder = Folder::new("muster-small");
    let (model, cache) = (folder.0.join("model.onnx"), folder.0.join("cache"));
    dense(&model, 2, 64, 1).unwrap();
    answer(&engine_with_cache(&cache), &model, &[64]);
    assert!(!cache.exists());
}

#[test]
fn loads_at_the_same_time_do_each_other_no_harm() {
    let folder = Folder::new("muster-at-once");
    let (model, cache) = (folder.0.join("model.onnx"), folder.0.join("cache"));
    dense(&model, 5, 1024, 1).unwrap();
    let expected = answer(&engine(), &model, &[1024]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(answer(&engine_with_cache(&cache), &model, &[1024]), expected);
            });
        }
    });
    entry(&cache);
}

#[test]
fn processes_that_fill_an_empty_cache_at_the_same_time_do_each_other_no_harm() {
    const FOLDER: &str = "MUSTER_TEST_FOLDER";
    let load = |folder: &Path| {
        let engine = engine_with_cache(&folder.join("cache"));
        answer(&engine, &folder.join("model.onnx"), &[1024])
    };
    if let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) {
        // This is one of the processes that are started below.
        assert!(load(&folder) == fs::read(folder.join("expected")).unwrap());
        return;
    }
    let folder = Folder::new("muster-processes");
    let model = folder.0.join("model.onnx");
    dense(&model, 5, 1024, 1).unwrap();
    folder.file("expected", &answer(&engine(), &model, &[1024]));
    let start = |_| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg("processes_that_fill").env(FOLDER, &folder.0).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let processes: Vec<_> = (0..3).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    entry(&folder.0.join("cache"));
    load(&folder.0);
}
