//! A sound model as the ensemble of steps that does the same by hand.

use backend::DataType;
use inference::task::{AUDIO, TEXT};

use super::{extractor::Extractor, graph::MASK, head::SoundHead};
use crate::{
    error::NoEnsemble,
    explain::{AroundGraph, ExplainedEnsemble, ExplainedPort, classes, file, labels_of, text},
    folder::Folder,
    outputs::GraphOutput,
    step::GraphInput,
};

/// The ensemble.
///
/// # Errors
/// Why there is none: a sentence.
pub(super) fn explain(
    folder: &Folder,
    extractor: &Extractor,
    head: &SoundHead,
    inputs: &[GraphInput],
    outputs: &[GraphOutput],
) -> Result<ExplainedEnsemble, NoEnsemble> {
    let Extractor::Samples(extractor) = extractor else {
        let name = extractor.name();
        return Err(NoEnsemble::new(format!("no step makes what {name} makes of a sound")));
    };
    let mut parameters = vec![
        ("sampling_rate", text(extractor.sampling_rate.to_string())),
        ("do_normalize", text(extractor.do_normalize.to_string())),
        // A pipeline runs each sound at its own length.
        ("padding", text("none")),
    ];
    if let Some(most) = folder.overrides.max_audio_seconds {
        parameters.push(("max_seconds", text(most.to_string())));
    }
    let own = |name: &str| if name == MASK { MASK } else { "input_values" };
    let fed = inputs.iter().map(|it| (it.name.as_ref().to_owned(), own(&it.name)));
    let masks = inputs.iter().filter(|it| &*it.name == MASK && it.dtype != DataType::Int64);
    let types = masks.map(|it| (MASK.to_owned(), it.dtype)).collect();
    let mut lacks = vec!["sounds of unequal length in one request"];
    let (head, ports, files) = match head {
        SoundHead::Classifier(of) => {
            let labels = ("labels", file(labels_of(folder)));
            let function = ("function", text(of.function.name()));
            let top_k = ("top_k", text(super::head::MANY_CLASSES.to_string()));
            (("classify", vec![labels, function, top_k]), classes(), vec!["config.json"])
        }
        SoundHead::Spelling(_) => {
            lacks.push("the output result");
            let said = ExplainedPort {
                name: TEXT,
                dtype: DataType::Bytes,
                dims: vec![Some(1)],
                is_optional: false,
            };
            let files = [
                "vocab.json",
                "config.json",
                "tokenizer_config.json",
                "special_tokens_map.json",
                "added_tokens.json",
            ];
            (("ctc", vec![("file", file("vocab.json"))]), vec![said], files.to_vec())
        }
    };
    let around = AroundGraph {
        input: AUDIO,
        decoder: ("audio", parameters),
        types,
        fed: fed.collect(),
        beside: Vec::new(),
        read: outputs.iter().take(1).map(|it| (it.name.as_ref().to_owned(), "logits")).collect(),
        head,
        outputs: ports,
        files: files.into_iter().map(str::to_owned).collect(),
        lacks,
    };
    Ok(around.ensemble(folder))
}
