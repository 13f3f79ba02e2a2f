//! What instances of a large model hold in memory. In a process of its own, since it looks at the memory of
//! the whole process.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/onnx_file.rs"]
mod onnx_file;
mod support;

use backend::{Backend, Device};
use support::{Folder, engine, engine_with_cache, floats, run, source};

/// This process's share of what is in memory, in bytes.
fn proportional() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|it| it.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn eight_instances_take_hardly_more_than_one() {
    let folder = Folder::new("muster-memory");
    let path = folder.0.join("model.onnx");
    onnx_file::dense(&path, 16, 1024, 1).unwrap();
    let weights = std::fs::metadata(&path).unwrap().len();
    let x = [("x", floats(&[1, 1024], &[0.5; 1024]))];
    for engine in [engine(), engine_with_cache(&folder.0.join("cache"))] {
        let model = engine.load(&source(path.clone(), &[])).unwrap();
        let mut instances = vec![model.instantiate(Device::Cpu).unwrap()];
        run(&mut *instances[0], &x, &["y"]).unwrap();
        let one = proportional();
        for _ in 1..8 {
            instances.push(model.instantiate(Device::Cpu).unwrap());
        }
        std::thread::scope(|scope| {
            for instance in &mut instances {
                scope.spawn(|| run(&mut **instance, &x, &["y"]).unwrap());
            }
        });
        let further = proportional().saturating_sub(one);
        assert!(further * 10 <= weights, "{further} bytes more, and the weights are {weights}");
    }
}
