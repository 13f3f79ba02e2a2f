//! ONNX Runtime's failures as ours.

use std::path::Path;

use backend::BackendError;

use crate::provider::Kind;
use ort::ErrorCode;

/// A text longer than this is cut: some list every node of the graph.
const LONGEST: usize = 1000;

/// Why a file did not become a session: one sentence with the path and ONNX Runtime's text.
pub(crate) fn of_load(path: &Path, error: &ort::Error) -> BackendError {
    of_load_text(path, error.message())
}

fn of_load_text(path: &Path, message: &str) -> BackendError {
    let text = one_line(message);
    let shown = path.display().to_string();
    let text = match (missing_locale(&text), text.contains(&shown)) {
        (Some(locale), _) => format!("{shown}: {}", lacks_locale(locale)),
        (None, true) => text,
        (None, false) => format!("{shown}: {text}"),
    };
    let text = match if_newer(&text) {
        Some(advice) => format!("{}; {advice}", text.trim_end_matches('.')),
        None => text,
    };
    match out_of_memory(&text) {
        true => BackendError::OutOfMemory(text),
        false => BackendError::Load(text),
    }
}

/// What to do about a model that is written in a newer version of the format than the library knows.
fn if_newer(text: &str) -> Option<String> {
    let number = |behind: &str| -> Option<u64> {
        let (_, rest) = text.split_once(behind)?;
        rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
    };
    let older = match (number("max supported IR version: "), number("is till opset ")) {
        (Some(most), _) => {
            format!(
                "set model.ir_version to {most} with the Python package onnx, and save it again"
            )
        }
        (None, Some(most)) => format!("export the model with opset {most} or an older one"),
        (None, None) => return None,
    };
    Some(format!("{older}, or serve it with a newer ONNX Runtime (--onnxruntime-library)"))
}

/// The locale that an operator of texts asks for in vain.
fn missing_locale(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("Failed to construct locale with name:")?;
    rest.split([':', ' ']).next()
}

fn lacks_locale(locale: &str) -> String {
    let name = locale.split('.').next().unwrap_or(locale);
    format!(
        "the model works with texts in the locale {locale}, which this system does not have; on Debian and Ubuntu it is \
         made by 'apt-get install locales && localedef -i {name} -f UTF-8 {locale}'"
    )
}

/// Why a file did not become a session on a GPU. Where the GPU itself or its driver is the reason, the model
/// may do elsewhere.
pub(crate) fn of_load_on_gpu(path: &Path, error: &ort::Error) -> BackendError {
    match of_load(path, error) {
        BackendError::Load(text) if of_gpu(&text) => BackendError::Device(text),
        error => error,
    }
}

/// Why a provider for GPUs cannot be had from the library at `path`, and what to do.
///
/// A TensorRT that is asked for and missing where CUDA is there is no question of the device: the CPU is no
/// place for such a model.
pub(crate) fn of_provider(kind: Kind, path: &Path, message: &str) -> BackendError {
    let (name, needs) = match kind {
        Kind::Cuda => ("CUDA", NEEDS_CUDA),
        Kind::TensorRt => ("TensorRT", NEEDS_TENSORRT),
    };
    let (text, path) = (one_line(message), path.display());
    let text = without_code(&text);
    // An older library may not know all settings.
    let of_setting = text.contains("provider option") && !text.contains("\"device_id\"");
    let sentence = match (text.contains("not enabled in this build"), kind) {
        (true, Kind::Cuda) => format!(
            "{path} was built without CUDA: install the libraries of onnxruntime-gpu, and set \
             ORT_DYLIB_PATH to its libonnxruntime"
        ),
        // CUDA is asked first, so the library has that.
        (true, Kind::TensorRt) => format!("{path} was built without TensorRT. {needs}"),
        (false, _) if of_setting => {
            format!("the {name} provider of {path} does not take a setting: {text}")
        }
        (false, _) => format!("the {name} provider of {path} cannot be used: {text}. {needs}"),
    };
    match (kind, of_setting) {
        (Kind::Cuda, false) => BackendError::Device(sentence),
        _ => BackendError::Load(sentence),
    }
}

const NEEDS_CUDA: &str = "It needs libonnxruntime_providers_cuda.so beside it, CUDA and cuDNN where the \
                          dynamic linker finds them, and the NVIDIA driver";
const NEEDS_TENSORRT: &str = "It needs libonnxruntime_providers_tensorrt.so beside it, and TensorRT where the \
                              dynamic linker finds it; without the accelerator 'tensorrt' the model runs with \
                              CUDA";

/// Is this about the GPU or its driver rather than about a model?
fn of_gpu(text: &str) -> bool {
    let failures = ["CUDA failure", "CUDA error", "CUDNN failure", "CUBLAS failure"];
    failures.iter().any(|it| text.contains(it)) || no_run_will_do(text)
}

/// Why something besides the operators of a run failed.
pub(crate) fn of_run(error: &ort::Error) -> BackendError {
    run_failure(error.code(), one_line(error.message()), Sizes::Fixed)
}

/// Why the operators of a run failed.
pub(crate) fn of_operators(error: &ort::Error, sizes: Sizes) -> BackendError {
    run_failure(error.code(), one_line(error.message()), sizes)
}

/// May requests choose the sizes of a model's inputs? Then a failure over sizes is the request's fault; else the server
/// has seen to it that they are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    Fixed,
    Open,
}

/// Texts of operators that do not get the sizes that they need, which come without a code of their own.
fn is_about_sizes(text: &str) -> bool {
    [
        "Attempting to broadcast an axis by a dimension other than 1",
        "cannot broadcast on dim",
        "dimension mismatch",
        "Dimension mismatch",
        "dimensions must match",
        "cannot be reshaped to the requested shape",
        "Cannot split using values in 'split'",
        "Invalid input shape",
    ]
    .iter()
    .any(|it| text.contains(it))
}

fn run_failure(code: ErrorCode, text: String, sizes: Sizes) -> BackendError {
    match code {
        _ if out_of_memory(&text) => BackendError::OutOfMemory(text),
        _ if lacks_handles(&text) => BackendError::OutOfMemory(text),
        _ if no_run_will_do(&text) => BackendError::Device(text),
        ErrorCode::InvalidArgument => BackendError::InvalidInput(text),
        _ if sizes == Sizes::Open && is_about_sizes(&text) => BackendError::InvalidInput(text),
        _ => BackendError::Execute(text),
    }
}

/// Is this about a GPU on which no run will succeed: one that the library has no code for, or without the
/// library of kernels that is opened when the first run needs it?
fn no_run_will_do(text: &str) -> bool {
    ["no kernel image is available", "libcudnn", "Unable to find symbol cudnn"]
        .iter()
        .any(|it| text.contains(it))
}

/// Did memory of the host, a GPU or a disk run out? The library has no code for this.
fn out_of_memory(text: &str) -> bool {
    let says_so = [
        "ailed to allocate memory",
        "bad_alloc",
        "bad allocation",
        "ut of memory",
        "Out Of Memory",
        "OutOfMemory",
        "No space left on device",
        // Of a GPU: the limit of its arena, and CUDA's libraries.
        "is smaller than requested bytes",
        "STATUS_ALLOC_FAILED",
        "OUT_OF_MEMORY",
    ];
    let words = || text.split(|it: char| !it.is_ascii_alphanumeric());
    // The abbreviation is a part of other words.
    says_so.iter().any(|it| text.contains(it)) || words().any(|it| it == "OOM")
}

/// CUDA's libraries make their handles on a GPU that has served before: they fail where its memory is used up.
fn lacks_handles(text: &str) -> bool {
    ["CUDNN_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_NOT_INITIALIZED"]
        .iter()
        .any(|it| text.contains(it))
}

/// The text on one line, without the places in ONNX Runtime's source and the host's name.
fn one_line(text: &str) -> String {
    let text = without_places(without_host(text));
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for word in text.split_whitespace() {
        if line.len() + word.len() > LONGEST {
            line.push_str(" ...");
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Takes out `[ONNXRuntimeError] : 1 : FAIL : ` and `<file>.h:187 <function> ` at the beginning.
fn without_code(text: &str) -> &str {
    let text = text.strip_prefix("[ONNXRuntimeError] : 1 : FAIL : ").unwrap_or(text);
    let mut words = text.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(place), Some(_), Some(rest)) if place.contains(".h:") || place.contains(".cc:") => {
            rest
        }
        _ => text,
    }
}

/// Cuts what follows a failure of CUDA: ` ; GPU=0 ; hostname=<name> ; file=<place> ; line=7 ; expr=<code>`.
fn without_host(text: &str) -> &str {
    text.split(" ; GPU=").next().unwrap_or(text)
}

/// Takes out `/onnxruntime_src/<file>:<line> <signature of a function>`, wherever it stands.
fn without_places(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find("/onnxruntime_src/") {
        let (before, place) = rest.split_at(begin);
        let Some(end) = end_of_signature(place) else { break };
        kept.push_str(before);
        let after = place.get(end..).unwrap_or_default();
        rest = after.strip_prefix(" const ").unwrap_or(after).trim_start();
        // As in "failed:/onnxruntime_src/...".
        if before.ends_with(':') {
            kept.push(' ');
        }
    }
    kept.push_str(rest);
    kept
}

/// Where the arguments that begin with the first bracket end.
fn end_of_signature(place: &str) -> Option<usize> {
    let mut depth = 0;
    for (index, character) in place.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(index + 1),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_source_are_taken_out() {
        let text = "Load model from m.onnx failed:/onnxruntime_src/core/graph/utils.h:46 void \
                    Validate(const std::map<int, std::function<int(int)>>&, int) const Opset 99 is \
                    under development (see /onnxruntime_src/docs)";
        let expected = "Load model from m.onnx failed: Opset 99 is under development (see \
                        /onnxruntime_src/docs)";
        assert_eq!(one_line(text), expected);
    }

    #[test]
    fn a_model_that_is_newer_than_the_library_is_told_what_to_do() {
        let of = |text: &str| {
            let BackendError::Load(text) = of_load_text(Path::new("m.onnx"), text) else {
                panic!()
            };
            text
        };
        let version = "Load model from m.onnx failed:/onnxruntime_src/a.cc:9 void f(int) Unsupported model \
                       IR version: 14, max supported IR version: 13\n";
        assert!(
            of(version).ends_with(
                "max supported IR version: 13; set model.ir_version to 13 with the Python package \
                 onnx, and save it again, or serve it with a newer ONNX Runtime \
                 (--onnxruntime-library)"
            ),
            "{}",
            of(version)
        );
        let opset = "Load model from m.onnx failed: Opset 99 is under development. Current official \
                     support for domain ai.onnx is till opset 26.";
        let advice = "is till opset 26; export the model with opset 26 or an older one, or serve";
        assert!(of(opset).contains(advice), "{}", of(opset));
        assert_eq!(of("Load model from m.onnx failed: no"), "Load model from m.onnx failed: no");
    }

    #[test]
    fn the_name_of_the_host_is_not_in_the_text() {
        let text = "CUDA failure 35: CUDA driver version is insufficient ; GPU=-1 ; hostname=vm ; \
                    file=/onnxruntime_src/a.cc ; line=7 ; expr=cudaGetDeviceCount(&count);";
        assert_eq!(one_line(text), "CUDA failure 35: CUDA driver version is insufficient");
    }

    fn provider(kind: Kind, text: &str) -> BackendError {
        of_provider(kind, Path::new("/lib/ort.so"), text)
    }

    #[test]
    fn the_error_names_what_a_provider_lacks_or_a_library_without_the_provider() {
        let missing = "[ONNXRuntimeError] : 1 : FAIL : Failed to load library /lib/p.so with error: \
                       libcublasLt.so.13: cannot open shared object file: No such file or directory";
        let BackendError::Device(text) = provider(Kind::Cuda, missing) else { panic!() };
        let begin = "the CUDA provider of /lib/ort.so cannot be used: Failed to load library /lib/p.so \
                     with error: libcublasLt.so.13: cannot open";
        assert!(text.starts_with(begin), "{text}");
        let absent = "CUDA execution provider is not enabled in this build.";
        let BackendError::Device(text) = provider(Kind::Cuda, absent) else { panic!() };
        assert!(text.starts_with("/lib/ort.so was built without CUDA: install"), "{text}");
    }

    #[test]
    fn another_device_helps_where_cuda_is_missing_and_not_where_tensorrt_or_a_setting_is() {
        let device = "provider_options_utils.h:187 Parse Failed to parse provider option \"device_id\": \
                      CUDA failure 35: no driver";
        let BackendError::Device(text) = provider(Kind::Cuda, device) else { panic!() };
        assert!(text.contains("cannot be used: Failed to parse"), "{text}");
        let setting = "Unknown provider option: \"sdpa_kernel\".";
        assert!(matches!(provider(Kind::Cuda, setting), BackendError::Load(_)));
        let missing = "Failed to load library p.so with error: libnvinfer.so.10: cannot open";
        assert!(matches!(provider(Kind::TensorRt, missing), BackendError::Load(_)));
        let absent = "TensorRT execution provider is not enabled in this build.";
        let BackendError::Load(text) = provider(Kind::TensorRt, absent) else { panic!() };
        assert!(text.starts_with("/lib/ort.so was built without TensorRT. It needs"), "{text}");
        assert!(text.ends_with("without the accelerator 'tensorrt' the model runs with CUDA"));
    }

    #[test]
    fn a_session_that_the_gpu_refuses_may_do_elsewhere_and_a_bad_model_may_not() {
        assert!(of_gpu("m.onnx: CUDA failure 100: no CUDA-capable device is detected"));
        assert!(!of_gpu("m.onnx: Protobuf parsing failed"));
        assert!(of_gpu("m.onnx: Unable to find symbol cudnnGetVersion"));
    }

    #[test]
    fn memory_that_ran_out_is_recognised_by_its_text_and_parts_of_other_words_are_not() {
        for text in [
            "CUDA failure 2: out of memory",
            "Available memory of 1 is smaller than requested bytes of 2",
            "killed (OOM)",
            "[Errno 28] No space left on device",
        ] {
            assert!(out_of_memory(text), "{text}");
        }
        for text in ["no ROOM for it", "shape mismatch"] {
            assert!(!out_of_memory(text), "{text}");
        }
        let text = "CUBLAS failure 1: CUBLAS_STATUS_NOT_INITIALIZED";
        let run = run_failure(ErrorCode::GenericFailure, text.to_owned(), Sizes::Open);
        assert!(matches!(run, BackendError::OutOfMemory(_)), "{run:?}");
    }

    #[test]
    fn sizes_that_do_not_go_together_are_the_requests_fault_where_they_are_open() {
        let text = "Non-zero status code returned while running Add node. axis == 1 || axis == largest was false. \
                    Attempting to broadcast an axis by a dimension other than 1. 2 by 3";
        let failure = |sizes| run_failure(ErrorCode::RuntimeException, text.to_owned(), sizes);
        assert!(matches!(failure(Sizes::Open), BackendError::InvalidInput(_)));
        assert!(matches!(failure(Sizes::Fixed), BackendError::Execute(_)));
    }

    #[test]
    fn a_text_of_many_lines_becomes_one_and_a_long_one_is_cut() {
        assert_eq!(
            one_line("Got invalid dimensions\n index: 1 \n"),
            "Got invalid dimensions index: 1"
        );
        let cut = one_line(&"word ".repeat(1000));
        assert!(cut.len() < LONGEST + 10 && cut.ends_with("word ..."));
    }
}
