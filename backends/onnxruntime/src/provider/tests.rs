//! Settings of a configuration, and what the providers get of them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn accelerator(name: &str, parameters: &[(&str, &str)]) -> Accelerator {
    Accelerator { name: name.to_owned(), parameters: map(parameters) }
}

fn read_all(
    options: &[(&str, &str)],
    accelerators: &[Accelerator],
) -> Result<Vec<Provider>, String> {
    providers(&map(options), accelerators).map_err(|it| it.to_string())
}

/// The options of the only provider, CUDA's.
fn cuda(options: &[(&str, &str)], accelerator: &[(&str, &str)]) -> BTreeMap<String, String> {
    let read = read_all(options, &[self::accelerator("cuda", accelerator)]).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].kind, Kind::Cuda);
    read[0].options.clone()
}

fn tensorrt(parameters: &[(&str, &str)]) -> Result<BTreeMap<String, String>, String> {
    let read = read_all(&[], &[accelerator("tensorrt", parameters)])?;
    assert_eq!(read.iter().map(|it| it.kind).collect::<Vec<_>>(), [Kind::TensorRt, Kind::Cuda]);
    Ok(read[0].options.clone())
}

#[track_caller]
fn refused(options: &[(&str, &str)], accelerators: &[Accelerator], text: &str) {
    assert_eq!(read_all(options, accelerators).unwrap_err(), text);
}

#[test]
fn without_a_word_there_is_cuda_with_its_own_settings() {
    let read = read_all(&[("team", "search")], &[]).unwrap();
    assert_eq!(read, [Provider { kind: Kind::Cuda, options: map(&[]) }]);
    assert_eq!(read[0].on(3).options, map(&[("device_id", "3")]));
}

#[test]
fn numbers_among_the_parameters_are_words_of_the_provider() {
    let given = [
        ("cudnn_conv_algo_search", "1"),
        ("arena_extend_strategy", " 1 "),
        ("do_copy_in_default_stream", "0"),
        ("gpu_mem_limit", "4294967296"),
    ];
    let expect = [
        ("cudnn_conv_algo_search", "HEURISTIC"),
        ("arena_extend_strategy", "kSameAsRequested"),
        ("do_copy_in_default_stream", "0"),
        ("gpu_mem_limit", "4294967296"),
    ];
    assert_eq!(cuda(&given, &[]), map(&expect));
}

#[test]
fn the_accelerators_own_settings_beat_the_parameters() {
    let own = [("gpu_mem_limit", "2"), ("prefer_nhwc", "true")];
    let expect = [("gpu_mem_limit", "2"), ("prefer_nhwc", "1")];
    assert_eq!(cuda(&[("gpu_mem_limit", "1")], &own), map(&expect));
}

#[test]
fn tensorrt_comes_before_cuda_whatever_the_order_of_the_configuration() {
    let given = [accelerator("cuda", &[]), accelerator("tensorrt", &[])];
    let kinds = read_all(&[], &given).unwrap().into_iter().map(|it| it.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [Kind::TensorRt, Kind::Cuda]);
}

#[test]
fn tritons_names_for_tensorrt_become_those_of_onnx_runtime() {
    let given = [
        ("precision_mode", "BF16"),
        ("max_workspace_size_bytes", "1073741824"),
        ("engine_cache_enable", "true"),
        ("engine_cache_path", "/cache"),
        ("timing_cache_path", "/timing"),
        ("trt_auxiliary_streams", "-1"),
        ("trt_int8_enable", "1"),
    ];
    let expect = [
        ("trt_bf16_enable", "1"),
        ("trt_max_workspace_size", "1073741824"),
        ("trt_engine_cache_enable", "1"),
        ("trt_engine_cache_path", "/cache"),
        ("trt_timing_cache_path", "/timing"),
        ("trt_auxiliary_streams", "-1"),
        ("trt_int8_enable", "1"),
    ];
    assert_eq!(tensorrt(&given).unwrap(), map(&expect));
    assert_eq!(tensorrt(&[("precision_mode", "FP32")]).unwrap(), map(&[]));
    for (mode, key) in [("FP16", "trt_fp16_enable"), ("INT8", "trt_int8_enable")] {
        assert_eq!(tensorrt(&[("precision_mode", mode)]).unwrap(), map(&[(key, "1")]));
    }
}

#[test]
fn values_are_refused_with_what_was_expected() {
    refused(
        &[("cudnn_conv_algo_search", "HEURISTIC")],
        &[],
        "parameter cudnn_conv_algo_search is 'HEURISTIC', expected 0 (EXHAUSTIVE), 1 (HEURISTIC) or \
         2 (DEFAULT)",
    );
    refused(
        &[("gpu_mem_limit", "4G")],
        &[],
        "parameter gpu_mem_limit is '4G', expected a whole number of at least 1",
    );
    refused(
        &[],
        &[accelerator("cuda", &[("arena_extend_strategy", "1")])],
        "gpu_execution_accelerator 'cuda': parameter arena_extend_strategy is '1', expected \
         kNextPowerOfTwo or kSameAsRequested",
    );
    refused(
        &[],
        &[accelerator("tensorrt", &[("precision_mode", "fp16")])],
        "gpu_execution_accelerator 'tensorrt': parameter precision_mode is 'fp16', expected FP32, \
         FP16, BF16 or INT8",
    );
    refused(
        &[],
        &[accelerator("cuda", &[("enable_cuda_graph", "1")])],
        "gpu_execution_accelerator 'cuda': parameter enable_cuda_graph is '1', expected 0, as this \
         server does not offer it: inputs would have to lie at the same place in every run",
    );
}

#[test]
fn keys_that_are_not_known_are_refused_with_the_nearest() {
    refused(
        &[],
        &[accelerator("tensorrt", &[("precison_mode", "FP16")])],
        "gpu_execution_accelerator 'tensorrt': parameter precison_mode is not known; did you mean \
         precision_mode?",
    );
    // The device is where the instance is, and addresses are nobody's to give.
    for key in ["device_id", "user_compute_stream", "gpu_external_alloc"] {
        let text = read_all(&[], &[accelerator("cuda", &[(key, "1")])]).unwrap_err();
        assert!(text.contains(&format!("parameter {key} is not known")), "{text}");
    }
    refused(
        &[],
        &[accelerator("rocm", &[])],
        "gpu_execution_accelerator 'rocm' is not known; expected cuda or tensorrt",
    );
}

#[test]
fn an_accelerator_that_is_there_twice_is_refused_rather_than_half_heard() {
    for name in ["cuda", "tensorrt"] {
        let twice = [accelerator(name, &[]), accelerator("cuda", &[]), accelerator(name, &[])];
        let text = read_all(&[], &twice).unwrap_err();
        let expected = format!(
            "gpu_execution_accelerator '{name}' is there twice; expected one entry with all parameters"
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn onnx_runtimes_own_names_are_taken_and_tritons_with_its_beginning_are_not() {
    for key in ["max_workspace_size_bytes", "max_workspace_size", "trt_max_workspace_size"] {
        assert_eq!(tensorrt(&[(key, "7")]).unwrap(), map(&[("trt_max_workspace_size", "7")]));
    }
    for (key, near) in [
        ("trt_max_workspace_size_bytes", "max_workspace_size_bytes"),
        ("trt_precision_mode", "precision_mode"),
    ] {
        let text = tensorrt(&[(key, "1")]).unwrap_err();
        assert!(text.ends_with(&format!("{key} is not known; did you mean {near}?")), "{text}");
    }
    for key in ["trt_engine_hw_compatible", "fp16_enable", "bf16_enable", "int8_enable"] {
        let name = format!("trt_{}", key.trim_start_matches("trt_"));
        assert_eq!(tensorrt(&[(key, "true")]).unwrap(), map(&[(&name, "1")]));
    }
}

#[test]
fn a_setting_under_two_names_is_refused() {
    let text = tensorrt(&[("max_workspace_size_bytes", "7"), ("trt_max_workspace_size", "8")]);
    let told = "gpu_execution_accelerator 'tensorrt': parameter trt_max_workspace_size sets \
                trt_max_workspace_size, which another one sets too";
    assert_eq!(text.unwrap_err(), told);
    assert!(tensorrt(&[("precision_mode", "FP16"), ("fp16_enable", "0")]).is_err());
}

#[test]
fn the_page_on_gpus_names_every_key() {
    let page = include_str!("../../../../docs/reference/gpu.md");
    let all = CUDA.iter().chain(&TENSORRT).chain(&TRITONS);
    for (key, _) in all {
        assert!(page.contains(&format!("`{key}`")), "{key} is not in docs/reference/gpu.md");
    }
}
