//! The execution providers of a session on a GPU, and their settings: Triton's names, and ONNX Runtime's own,
//! read into what ONNX Runtime takes. Pure.

use std::collections::BTreeMap;

use backend::{Accelerator, BackendError};

/// What runs parts of a graph on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Subgraphs, compiled for the GPU.
    TensorRt,
    /// Nodes, one after the other.
    Cuda,
}

/// One provider of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) kind: Kind,
    /// Keys and values as ONNX Runtime has them.
    pub(crate) options: BTreeMap<String, String>,
}

impl Provider {
    /// The same on that GPU.
    pub(crate) fn on(&self, gpu: u32) -> Provider {
        let mut provider = self.clone();
        provider.options.insert("device_id".to_owned(), gpu.to_string());
        provider
    }
}

/// What a value must be.
#[derive(Debug, Clone, Copy)]
enum Expect {
    /// `0` or `1`, or `true` or `false`.
    Flag,
    /// A flag that must not be on, and why.
    Off(&'static str),
    /// A whole number from that on.
    From(i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Not empty.
    Text,
}

/// CUDA graphs are run again at the addresses at which they were recorded.
const GRAPHS: Expect = Expect::Off("inputs would have to lie at the same place in every run");

const ALGORITHMS: [&str; 3] = ["EXHAUSTIVE", "HEURISTIC", "DEFAULT"];
const STRATEGIES: [&str; 2] = ["kNextPowerOfTwo", "kSameAsRequested"];

/// Keys of the CUDA provider. Those that hold a place in memory are left out, and the device is the
/// instance's.
const CUDA: [(&str, Expect); 16] = [
    ("arena_extend_strategy", Expect::Word(&STRATEGIES)),
    ("cudnn_conv1d_pad_to_nc1d", Expect::Flag),
    ("cudnn_conv_algo_search", Expect::Word(&ALGORITHMS)),
    ("cudnn_conv_use_max_workspace", Expect::Flag),
    ("do_copy_in_default_stream", Expect::Flag),
    ("enable_cuda_graph", GRAPHS),
    ("enable_skip_layer_norm_strict_mode", Expect::Flag),
    ("fuse_conv_bias", Expect::Flag),
    ("gpu_mem_limit", Expect::From(1)),
    ("prefer_nhwc", Expect::Flag),
    ("sdpa_kernel", Expect::From(0)),
    ("tunable_op_enable", Expect::Flag),
    ("tunable_op_max_tuning_duration_ms", Expect::From(0)),
    ("tunable_op_tuning_enable", Expect::Flag),
    ("use_ep_level_unified_stream", Expect::Flag),
    ("use_tf32", Expect::Flag),
];

/// Shares one stream among all runs of a session.
pub(crate) const ONE_STREAM: &str = "use_ep_level_unified_stream";

/// Keys of the TensorRT provider that begin with `trt_`, without that beginning, as Triton has them. Those that
/// hold a place in memory are left out, and `load_user_initializer` with them.
const TENSORRT: [(&str, Expect); 41] = [
    ("auxiliary_streams", Expect::From(-1)),
    ("bf16_enable", Expect::Flag),
    ("build_heuristics_enable", Expect::Flag),
    ("builder_optimization_level", Expect::From(0)),
    ("context_memory_sharing_enable", Expect::Flag),
    ("cuda_graph_enable", GRAPHS),
    ("detailed_build_log", Expect::Flag),
    ("dla_core", Expect::From(0)),
    ("dla_enable", Expect::Flag),
    ("dump_ep_context_model", Expect::Flag),
    ("dump_subgraphs", Expect::Flag),
    ("engine_cache_enable", Expect::Flag),
    ("engine_cache_path", Expect::Text),
    ("engine_cache_prefix", Expect::Text),
    ("engine_decryption_enable", Expect::Flag),
    ("engine_decryption_lib_path", Expect::Text),
    ("engine_hw_compatible", Expect::Flag),
    ("ep_context_embed_mode", Expect::Flag),
    ("ep_context_file_path", Expect::Text),
    ("extra_plugin_lib_paths", Expect::Text),
    ("force_sequential_engine_build", Expect::Flag),
    ("force_timing_cache", Expect::Flag),
    ("fp16_enable", Expect::Flag),
    ("int8_calibration_table_name", Expect::Text),
    ("int8_enable", Expect::Flag),
    ("int8_use_native_calibration_table", Expect::Flag),
    ("layer_norm_fp32_fallback", Expect::Flag),
    ("max_partition_iterations", Expect::From(1)),
    (WORKSPACE, Expect::From(0)),
    ("min_subgraph_size", Expect::From(1)),
    ("onnx_model_folder_path", Expect::Text),
    ("op_types_to_exclude", Expect::Text),
    ("preview_features", Expect::Text),
    ("profile_max_shapes", Expect::Text),
    ("profile_min_shapes", Expect::Text),
    ("profile_opt_shapes", Expect::Text),
    ("sparsity_enable", Expect::Flag),
    ("tactic_sources", Expect::Text),
    ("timing_cache_enable", Expect::Flag),
    ("timing_cache_path", Expect::Text),
    ("weight_stripped_engine_enable", Expect::Flag),
];

const WORKSPACE: &str = "max_workspace_size";

/// Keys that only Triton has.
const TRITONS: [(&str, Expect); 2] = [
    ("max_workspace_size_bytes", Expect::From(0)),
    ("precision_mode", Expect::Word(&["FP32", "FP16", "BF16", "INT8"])),
];

/// The settings among a model's parameters that Triton calls deprecated: key, and the words for 0, 1, ..
/// where the numbers stand for words.
const PARAMETERS: [(&str, &[&str]); 4] = [
    ("arena_extend_strategy", &STRATEGIES),
    ("cudnn_conv_algo_search", &ALGORITHMS),
    ("do_copy_in_default_stream", &[]),
    ("gpu_mem_limit", &[]),
];

/// The providers of this model's sessions on GPUs, the preferred one first. CUDA is always the last: it runs
/// what TensorRT leaves over.
///
/// # Errors
/// [`BackendError::Load`] with key, value and what was expected. Also for a model that runs on the CPU, so
/// that a slip does not wait for the machine that has a GPU.
pub(crate) fn providers(
    options: &BTreeMap<String, String>,
    accelerators: &[Accelerator],
) -> Result<Vec<Provider>, BackendError> {
    let mut tensorrt = None;
    let mut cuda = parameters(options)?;
    for (index, accelerator) in accelerators.iter().enumerate() {
        let place = format!("gpu_execution_accelerator '{}'", accelerator.name);
        if accelerators.iter().take(index).any(|it| it.name == accelerator.name) {
            return Err(load(format!(
                "{place} is there twice; expected one entry with all parameters"
            )));
        }
        match accelerator.name.as_str() {
            "cuda" => {
                let known: Vec<&str> = CUDA.iter().map(|it| it.0).collect();
                cuda.extend(read(&place, &accelerator.parameters, &known, cuda_option)?);
            }
            "tensorrt" => {
                let known: Vec<&str> = TRITONS.iter().chain(&TENSORRT).map(|it| it.0).collect();
                tensorrt = Some(read(&place, &accelerator.parameters, &known, tensorrt_option)?);
            }
            _ => return Err(load(format!("{place} is not known; expected cuda or tensorrt"))),
        }
    }
    let tensorrt = tensorrt.map(|options| Provider { kind: Kind::TensorRt, options });
    Ok(tensorrt.into_iter().chain([Provider { kind: Kind::Cuda, options: cuda }]).collect())
}

/// The CUDA provider's settings among the model's parameters.
fn parameters(
    options: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, BackendError> {
    let mut read = BTreeMap::new();
    for (key, words) in PARAMETERS {
        let Some(value) = options.get(key).map(|it| it.trim()) else { continue };
        let value = match words {
            [] => cuda_option(key, value).map(|(_, value)| value),
            words => {
                let word = value.parse::<usize>().ok().and_then(|it| words.get(it));
                word.map(|it| (*it).to_owned()).ok_or_else(|| Refusal::Value(numbered(words)))
            }
        };
        let value = value.map_err(|it| it.describe("parameter", key, options, &[]))?;
        read.insert(key.to_owned(), value);
    }
    Ok(read)
}

/// `0 (kNextPowerOfTwo) or 1 (kSameAsRequested)`.
fn numbered(words: &[&str]) -> String {
    let numbered = words.iter().enumerate().map(|(number, word)| format!("{number} ({word})"));
    one_of(&numbered.collect::<Vec<_>>())
}

/// Why a key and its value are no setting.
enum Refusal {
    /// There is no such key.
    Key,
    /// What the value should have been.
    Value(String),
}

impl Refusal {
    fn describe(
        self,
        place: &str,
        key: &str,
        given: &BTreeMap<String, String>,
        known: &[&str],
    ) -> BackendError {
        let value = given.get(key).map_or("", |it| it.trim());
        load(match self {
            Refusal::Value(expected) => format!("{place} {key} is '{value}', expected {expected}"),
            Refusal::Key => match nearest(key, known) {
                Some(near) => format!("{place} {key} is not known; did you mean {near}?"),
                None => format!("{place} {key} is not known; expected one of {}", known.join(", ")),
            },
        })
    }
}

/// Key and value of ONNX Runtime, for a key and value of a configuration. The value may come out empty: it
/// is what ONNX Runtime does anyway.
type Translate = fn(&str, &str) -> Result<(String, String), Refusal>;

fn read(
    place: &str,
    given: &BTreeMap<String, String>,
    known: &[&str],
    translate: Translate,
) -> Result<BTreeMap<String, String>, BackendError> {
    let mut read = BTreeMap::new();
    for (key, value) in given {
        let (name, value) = translate(key, value.trim())
            .map_err(|it| it.describe(&format!("{place}: parameter"), key, given, known))?;
        if read.contains_key(&name) {
            let problem =
                format!("{place}: parameter {key} sets {name}, which another one sets too");
            return Err(load(problem));
        }
        if !value.is_empty() {
            read.insert(name, value);
        }
    }
    Ok(read)
}

fn cuda_option(key: &str, value: &str) -> Result<(String, String), Refusal> {
    let (_, expect) = CUDA.iter().find(|it| it.0 == key).ok_or(Refusal::Key)?;
    Ok((key.to_owned(), checked(*expect, value)?))
}

/// ONNX Runtime's own names are taken, too.
fn tensorrt_option(key: &str, value: &str) -> Result<(String, String), Refusal> {
    let Some((_, expect)) = TRITONS.iter().find(|it| it.0 == key) else {
        let name = key.strip_prefix("trt_").unwrap_or(key);
        let (_, expect) = TENSORRT.iter().find(|it| it.0 == name).ok_or(Refusal::Key)?;
        return Ok((format!("trt_{name}"), checked(*expect, value)?));
    };
    Ok(match checked(*expect, value)? {
        bytes if key == "max_workspace_size_bytes" => (format!("trt_{WORKSPACE}"), bytes),
        mode if mode == "FP32" => (String::new(), String::new()),
        mode => (format!("trt_{}_enable", mode.to_lowercase()), "1".to_owned()),
    })
}

/// The value as ONNX Runtime takes it.
fn checked(expect: Expect, value: &str) -> Result<String, Refusal> {
    let flag = match value {
        "0" | "false" | "False" => Some("0"),
        "1" | "true" | "True" => Some("1"),
        _ => None,
    };
    let checked = match expect {
        Expect::Flag => flag,
        Expect::Off(_) => flag.filter(|it| *it == "0"),
        Expect::From(least) => value.parse::<i64>().ok().filter(|it| least <= *it).map(|_| value),
        Expect::Word(words) => words.iter().find(|it| **it == value).copied(),
        Expect::Text => Some(value).filter(|it| !it.is_empty()),
    };
    checked.map(str::to_owned).ok_or_else(|| {
        Refusal::Value(match expect {
            Expect::Flag => "0 or 1".to_owned(),
            Expect::Off(why) => format!("0, as this server does not offer it: {why}"),
            Expect::From(least) => format!("a whole number of at least {least}"),
            Expect::Word(words) => one_of(words),
            Expect::Text => "a text".to_owned(),
        })
    })
}

/// `a, b or c`.
fn one_of<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The key that is most like `given`, if one is alike enough to be meant.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let most = given.len().div_ceil(3);
    let near = |it: &&'a str| (strsim::damerau_levenshtein(given, it), *it);
    let alike = known.iter().filter(|it| it.len().abs_diff(given.len()) <= most).map(near);
    alike.filter(|(distance, _)| *distance <= most).min().map(|(_, it)| it)
}

fn load(text: String) -> BackendError {
    BackendError::Load(text)
}

#[cfg(test)]
mod tests;
