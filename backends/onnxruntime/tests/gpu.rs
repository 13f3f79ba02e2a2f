//! Instances on GPUs where there is none: what is refused, and how it is told. In a process of its own, since
//! one process opens one library: that of the build, or the one that `MUSTER_TEST_GPU_LIBRARY` names.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf};

use backend::{Accelerator, Backend, BackendError, Device, ModelSource, Placement};
use support::{engine, engine_with, floats, path, run, source, values};

/// The library of the package `onnxruntime-gpu`, for who has it.
const LIBRARY: &str = "MUSTER_TEST_GPU_LIBRARY";

fn on_gpu(name: &str, accelerators: &[&str]) -> ModelSource {
    let accelerator =
        |name: &&str| Accelerator { name: (*name).to_owned(), parameters: BTreeMap::new() };
    ModelSource {
        placements: vec![Placement { device: Device::Gpu(0), instances: NonZeroUsize::MIN }],
        accelerators: accelerators.iter().map(accelerator).collect(),
        ..source(path(name), &[])
    }
}

#[test]
fn a_library_without_cuda_is_a_device_that_cannot_be_used() {
    if std::env::var_os(LIBRARY).is_some() {
        return;
    }
    for accelerators in [&[][..], &["cuda"], &["tensorrt"]] {
        match engine().load(&on_gpu("mlp.onnx", accelerators)) {
            Err(BackendError::Device(text)) => {
                for part in
                    ["libonnxruntime", "built without CUDA", "onnxruntime-gpu", "ORT_DYLIB_PATH"]
                {
                    assert!(text.contains(part), "{text}");
                }
            }
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("it loaded"),
        }
    }
}

#[test]
fn a_model_that_was_loaded_for_the_cpu_has_no_instance_on_a_gpu() {
    if std::env::var_os(LIBRARY).is_some() {
        return;
    }
    let model = engine().load(&source(path("mlp.onnx"), &[])).unwrap();
    match model.instantiate(Device::Gpu(1)) {
        Err(BackendError::Load(text)) => assert!(text.contains("not loaded for Gpu(1)"), "{text}"),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("an instance"),
    }
}

#[test]
fn bad_settings_for_gpus_are_told_before_the_library_is_asked() {
    if std::env::var_os(LIBRARY).is_some() {
        return;
    }
    let mut source = on_gpu("mlp.onnx", &["cuda"]);
    source.accelerators[0].parameters.insert("gpu_mem_limits".to_owned(), "1".to_owned());
    let text = engine().load(&source).err().unwrap().to_string();
    assert!(text.contains("gpu_mem_limits is not known; did you mean gpu_mem_limit?"), "{text}");
}

/// With the GPU library: a GPU runs the model, or the text names what is missing.
#[test]
fn with_the_library_for_gpus_a_model_runs_or_what_is_missing_is_named() {
    let Some(library) = std::env::var_os(LIBRARY).map(PathBuf::from) else { return };
    let engine = engine_with(Some(library));
    for accelerators in [&[][..], &["tensorrt"]] {
        match engine.load(&on_gpu("mlp.onnx", accelerators)) {
            Ok(model) => {
                let mut instance = model.instantiate(Device::Gpu(0)).unwrap();
                let input = floats(&[2, 30], &[0.5; 60]);
                let on_gpu = run(&mut *instance, &[("x", input.clone())], &["y"]).unwrap();
                let on_cpu = engine.load(&source(path("mlp.onnx"), &[])).unwrap();
                let mut instance = on_cpu.instantiate(Device::Cpu).unwrap();
                let on_cpu = run(&mut *instance, &[("x", input)], &["y"]).unwrap();
                for (gpu, cpu) in values(&on_gpu[0]).iter().zip(values(&on_cpu[0])) {
                    assert!((gpu - cpu).abs() < 1e-2, "{gpu} on the GPU, {cpu} on the CPU");
                }
            }
            Err(BackendError::Device(text) | BackendError::Load(text)) => {
                println!("{accelerators:?}: {text}");
                assert!(text.contains(".so") || text.contains("CUDA failure"), "{text}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}
