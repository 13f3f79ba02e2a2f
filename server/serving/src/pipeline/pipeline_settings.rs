//! What operators say of pipelines: models that take texts, images or sounds where their graph takes tensors.

use std::num::NonZeroUsize;

use configuration::{
    Environment, Flag, Sources,
    compat::variables::HF_TASK,
    value::{self, Parse},
    variable_text,
};
use steps::{JpegLibrary, Precision};

/// Most inputs of one request where nothing is said.
const MOST_INPUTS: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("pipelines", "auto", "Serve folders of Hugging Face's libraries, of a graph and its tokenizer, as pipelines that take texts: auto, or off").named("MODE"),
    Flag::value("task", "", "What pipelines are for, as text-classification or sentence-embedding. Default: what the files in each folder say").named("TASK"),
    Flag::value("pipeline-graph", "", "The graph of every folder, by its path in it or its variant, as fp16 or quantized. Default: what muster.json in the folder says, else model.onnx, onnx/model.onnx or model.pt").named("FILE"),
    Flag::value("pipeline-precision", "", "Precision of products where muster makes the graph of a folder with weights alone: fp32, or int8 for more texts a second and less memory. Graphs that lie in folders keep theirs. Default: what muster.json in the folder says, else fp32").named("PRECISION"),
    Flag::value("pooling", "", "How an embedding is made of the vectors of tokens: cls, mean, max, lasttoken. Default: what the folder says").named("METHOD"),
    Flag::value("max-client-batch-size", "2048", "Most texts of one request to a pipeline").named("COUNT"),
    Flag::value("max-batch-tokens", "0", "Most tokens of one run of a pipeline, padding included; a longer text runs alone. 0: what muster.json in the folder says, else what fits a quarter of the memory, at most 4096 on a CPU and 65536 on a GPU").named("COUNT"),
    Flag::value("max-batch-requests", "0", "Most texts of one run of a pipeline. 0: the max_batch_size that its configuration says, else 32 on a CPU and 128 on a GPU").named("COUNT"),
    Flag::value("max-text-bytes", "", "Most bytes of one text. Default: what muster.json in the folder says, else 1 MiB").named("BYTES"),
    Flag::value("tokenization-workers", "", "Threads that prepare long texts for pipelines, for all models together. Default: one per processor").named("COUNT"),
    Flag::value("max-image-pixels", "", "Most pixels of one image, by what its header says; a larger one is refused before it is decoded. Default: what muster.json beside the graph says, else 50 million").named("PIXELS"),
    Flag::value("max-audio-seconds", "", "Seconds of the longest sound; a longer one is refused, by its header and while it is decoded. Default: what muster.json beside the graph says, else 300").named("SECONDS"),
    Flag::value("jpeg-library", "", "The library that decodes JPEG, of libjpeg-turbo's interface: a name or a path; none for the decoder inside. Default: libturbojpeg.so.0 where the system has it, else the decoder inside").named("FILE"),
    Flag::value("default-prompt", "", "What stands in front of every text of an embedding where the request names no prompt").with_blanks().named("TEXT"),
    Flag::value("default-prompt-name", "", "The same by the name of one of the folder's prompts; not both").named("NAME"),
];

/// The settings of all pipelines of a server. What a folder's `muster.json` says goes behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineSettings {
    /// Are folders of Hugging Face's libraries served as pipelines?
    pub are_served: bool,
    /// The task of every folder; `None` where each says it.
    pub task: Option<String>,
    /// The task that the variable of Hugging Face's container asks of every folder.
    pub container_task: Option<String>,
    /// The graph of every folder, by path or variant; `None` where each says it, or the usual one.
    pub graph: Option<String>,
    /// The precision of graphs that are made; `None` where each folder says it, or it is that of the weights.
    pub precision: Option<Precision>,
    /// How token vectors become one; `None` where each folder says it.
    pub pooling: Option<String>,
    /// Most inputs of one request.
    pub max_client_batch_size: NonZeroUsize,
    /// Most tokens of a run, padding included; `None` where each folder says it, or nothing does.
    pub max_batch_tokens: Option<NonZeroUsize>,
    /// Most rows of a run; `None` where each configuration says it.
    pub max_batch_requests: Option<NonZeroUsize>,
    /// Most bytes of one text; `None` where each folder says it, or 1 MiB.
    pub max_text_bytes: Option<usize>,
    /// Threads that prepare inputs; `None`: one per processor.
    pub prepare_threads: Option<NonZeroUsize>,
    /// Most pixels of one image; `None` where each folder says it, or 50 million.
    pub max_image_pixels: Option<u64>,
    /// Seconds of the longest sound; `None` where each folder says it, or 300.
    pub max_audio_seconds: Option<u32>,
    /// What decodes JPEG.
    pub jpeg_library: JpegLibrary,
    /// What stands in front of texts where a request names no prompt.
    pub prompt: Option<String>,
    /// The name of the folder's prompt that does.
    pub prompt_name: Option<String>,
}

impl Default for PipelineSettings {
    fn default() -> PipelineSettings {
        PipelineSettings {
            are_served: true,
            task: None,
            container_task: None,
            graph: None,
            precision: None,
            pooling: None,
            max_client_batch_size: MOST_INPUTS,
            max_batch_tokens: None,
            max_batch_requests: None,
            max_text_bytes: None,
            prepare_threads: None,
            max_image_pixels: None,
            max_audio_seconds: None,
            jpeg_library: JpegLibrary::Auto,
            prompt: None,
            prompt_name: None,
        }
    }
}

/// Reads them.
pub fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> PipelineSettings {
    let inputs = sources.read("max-client-batch-size", value::count, problems);
    let mut most = |name| NonZeroUsize::new(sources.read(name, value::number, problems)?);
    let max_batch_tokens = most("max-batch-tokens");
    let max_batch_requests = most("max-batch-requests");
    let bytes = sources.read("max-text-bytes", value::bytes_from_one, problems);
    let prepare_threads = sources.read("tokenization-workers", value::threads, problems);
    let pixels = sources.read("max-image-pixels", value::count, problems);
    let seconds = sources.read("max-audio-seconds", seconds_of_sound, problems);
    let jpeg_library = sources.read("jpeg-library", jpeg_library, problems);
    // A prompt may end in a blank, and is taken as it is.
    let prompt = sources.read("default-prompt", value::text, problems);
    let prompt_name = sources.read("default-prompt-name", value::text, problems);
    if prompt.is_some() && prompt_name.is_some() {
        problems.push(
            "--default-prompt and --default-prompt-name: expected one of them, given both"
                .to_owned(),
        );
    }
    PipelineSettings {
        are_served: sources.read("pipelines", auto_or_off, problems).unwrap_or(true),
        task: sources.read("task", value::text, problems),
        container_task: variable_text(environment, HF_TASK, problems),
        graph: sources.read("pipeline-graph", value::text, problems),
        precision: sources.read("pipeline-precision", precision, problems),
        pooling: sources.read("pooling", value::text, problems),
        max_client_batch_size: inputs.unwrap_or(MOST_INPUTS),
        max_batch_tokens,
        max_batch_requests,
        max_text_bytes: bytes.map(|it| usize::try_from(it).unwrap_or(usize::MAX)),
        prepare_threads,
        max_image_pixels: pixels.map(|it| it.get() as u64),
        max_audio_seconds: seconds,
        jpeg_library: jpeg_library.unwrap_or(JpegLibrary::Auto),
        prompt,
        prompt_name,
    }
}

fn auto_or_off(text: &str) -> Parse<bool> {
    match text {
        "auto" => Ok(true),
        "off" => Ok(false),
        _ => Err("auto or off".to_owned()),
    }
}

fn precision(text: &str) -> Parse<Precision> {
    let named = Precision::from_name(text);
    named.ok_or_else(|| Precision::ALL.map(Precision::name).join(" or "))
}

fn seconds_of_sound(text: &str) -> Parse<u32> {
    let seconds = text.parse().ok().filter(|it| 0 < *it);
    seconds.ok_or_else(|| "a whole number of seconds above 0".to_owned())
}

fn jpeg_library(text: &str) -> Parse<JpegLibrary> {
    match text {
        "none" => Ok(JpegLibrary::None),
        path => Ok(JpegLibrary::File(value::path(path)?)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_library_for_jpeg_is_the_usual_one_the_named_one_or_none() {
        assert_eq!(PipelineSettings::default().jpeg_library, JpegLibrary::Auto);
        assert_eq!(jpeg_library("none"), Ok(JpegLibrary::None));
        assert_eq!(precision("int8"), Ok(Precision::Int8));
        assert_eq!(precision("int4"), Err("fp32 or int8".to_owned()));
        let named = JpegLibrary::File(PathBuf::from("/opt/libturbojpeg.so"));
        assert_eq!(jpeg_library("/opt/libturbojpeg.so"), Ok(named));
        assert_eq!(seconds_of_sound("60"), Ok(60));
        for wrong in ["0", "-1", "1.5", "5000000000"] {
            assert!(seconds_of_sound(wrong).is_err(), "{wrong}");
        }
    }
}
