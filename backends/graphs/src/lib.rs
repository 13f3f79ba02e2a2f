//! The graph of a folder that has weights and no graph: what `config.json` describes, as an ONNX model. The weights
//! stay in the safetensors files of the folder.
//!
//! A family of models is a table of names over shared blocks. What is not known is an error, never an approximation.
#![forbid(unsafe_code)]

mod attention;
mod blocks;
mod builder;
mod config;
mod decoder;
mod encoder;
mod error;
mod families;
mod family;
mod frequencies;
mod gated;
mod heads;
mod int8;
mod late;
mod onnx;
mod place;
mod precision;
mod relative;
mod rotary;
mod towers;
mod vision;
mod weights;

use std::path::Path;

use prost::Message;
use serde_json::Value;

pub use error::GraphError;
pub use place::Plain;
pub use precision::Precision;

use builder::Builder;
use config::Config;
use families::{DECODERS, IMAGES, OTHERS, TEXTS};
use heads::ROWS_NAME;
use late::Late;
use weights::Weights;

/// What the metadata of a graph call its precision, where that is not the one of its weights.
pub const PRECISION: &str = "muster.precision";

/// A graph that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The ONNX model. Its weights are external data in files of the folder.
    pub model: Vec<u8>,
    /// The names of these files.
    pub weights: Vec<String>,
    /// The class whose graph it is, for example `BertForSequenceClassification`.
    pub class: String,
    /// The floats that runs read as they lie in the files. A runtime makes a form of its own of all other weights.
    pub plain: Vec<Plain>,
    /// Has each row of an output to do with that row of the inputs alone? No block of a graph here looks at two rows;
    /// only towers of two kinds of rows compare them at last.
    pub keeps_rows_apart: bool,
    /// Weights that the model has only as places so far; none where it reads all from its files.
    late: Vec<Late>,
}

impl Graph {
    /// Is the model to be completed before it is opened?
    pub fn is_incomplete(&self) -> bool {
        !self.late.is_empty()
    }

    /// The model with all weights inside but those in [`Graph::plain`]. Blocking; reads the files in that folder.
    ///
    /// # Errors
    /// A file that cannot be read, and weights that are more than a file of ONNX may hold.
    pub fn completed(&self, folder: &Path) -> Result<Vec<u8>, GraphError> {
        let bytes = self.late.iter().map(Late::bytes).sum();
        if MOST_INSIDE < bytes {
            return Err(GraphError::TooLarge { bytes, most: MOST_INSIDE });
        }
        let mut model = onnx::Model::decode(&*self.model)
            .map_err(|it| GraphError::file(CONFIG, it.to_string()))?;
        if let Some(graph) = model.graph_mut() {
            graph.initializer.retain(|it| !self.late.iter().any(|late| late.makes(it.name())));
        }
        let mut whole = Vec::with_capacity(bytes as usize + 2 * self.model.len());
        let no_room = |it: prost::EncodeError| GraphError::file(CONFIG, it.to_string());
        model.encode(&mut whole).map_err(no_room)?;
        for late in &self.late {
            for tensor in late.tensors(folder)? {
                onnx::Model::with_tensor(tensor).encode(&mut whole).map_err(no_room)?;
            }
        }
        Ok(whole)
    }
}

/// The files of weights that a graph may be made for, the first that is there wins: one file, or the index of several.
pub const WEIGHTS: [&str; 2] = [weights::FILE, weights::INDEX];

/// What says what the weights are, in the same folder.
pub const CONFIG: &str = "config.json";

/// The name of the weights in a folder, if they are of a model that graphs are made for. Blocking; reads
/// [`CONFIG`] alone.
pub fn weights_in(folder: &Path) -> Option<&'static str> {
    let name = WEIGHTS.into_iter().find(|it| folder.join(it).is_file())?;
    is_of_known_family(folder).then_some(name)
}

/// Does [`CONFIG`] in the folder name a family that graphs are made for? A model that writes texts is one only where
/// the folder says that it makes embeddings. Blocking.
pub fn is_of_known_family(folder: &Path) -> bool {
    let config = read_config(folder).unwrap_or_default();
    let kind = config.get("model_type").and_then(Value::as_str);
    let class = config.get("architectures").and_then(|it| it.get(0)).and_then(Value::as_str);
    let writes = class.is_some_and(|it| it.ends_with(decoder::WRITES));
    let is_known = kind.is_some_and(|kind| model_types().any(|it| it == kind));
    is_known && (!writes || folder.join(MODULES).is_file())
}

/// What [`is_of_known_family`] looks at.
pub const DESCRIBED_BY: [&str; 2] = [CONFIG, MODULES];

/// What says that vectors are made of the tokens', in a folder of sentence-transformers.
const MODULES: &str = "modules.json";

fn read_config(folder: &Path) -> Result<Value, GraphError> {
    let wrong = |problem: String| GraphError::file(CONFIG, problem);
    let content = backend::read_file(&folder.join(CONFIG)).map_err(|it| wrong(it.to_string()))?;
    serde_json::from_slice(&content).map_err(|it| wrong(it.to_string()))
}

/// The values of `model_type` that graphs are made for.
pub fn model_types() -> impl Iterator<Item = &'static str> {
    let texts = TEXTS.iter().flat_map(|it| it.model_types);
    let images = IMAGES.iter().flat_map(|it| it.model_types);
    let others = OTHERS.iter().flat_map(|it| it.model_types);
    let decoders = DECODERS.iter().flat_map(|it| it.model_types);
    texts.chain(decoders).chain(images).chain(others).copied()
}

/// The graph of the folder's weights, as [`CONFIG`] describes it. Blocking; reads the headers of the weights alone.
///
/// # Errors
/// A file that is damaged, a configuration that no graph is made for, a tensor that is missing, has another shape, or
/// has no place in the graph.
pub fn graph_of(folder: &Path, precision: Precision) -> Result<Graph, GraphError> {
    made(folder, Builder::new(Weights::read(folder)?).of(precision))
}

/// The same with the weights inside: a file that needs no other. Blocking; reads all of the weights.
///
/// # Errors
/// As of [`graph_of`], and where the weights are more than a file of ONNX may hold.
pub fn whole_graph_of(folder: &Path, precision: Precision) -> Result<Graph, GraphError> {
    let weights = Weights::read(folder)?;
    let bytes = weights.bytes();
    if MOST_INSIDE < bytes {
        return Err(GraphError::TooLarge { bytes, most: MOST_INSIDE });
    }
    let graph = made(folder, Builder::with_bytes(weights, folder.to_owned()).of(precision))?;
    if !graph.is_incomplete() {
        return Ok(graph);
    }
    let model = graph.completed(folder)?;
    Ok(Graph { model, late: Vec::new(), ..graph })
}

/// Bytes of weights that a file of ONNX holds: protobuf has no longer messages than 2 GiB.
const MOST_INSIDE: u64 = (2 << 30) - (16 << 20);

fn made(folder: &Path, mut graph: Builder) -> Result<Graph, GraphError> {
    let config = read_config(folder)?;
    let config = Config(&config);
    let class = config.architecture()?.to_owned();
    let kind = config.word("model_type", "")?;
    let unused = if let Some(family) = TEXTS.iter().find(|it| it.model_types.contains(&kind)) {
        encoder::add(family, &mut graph, config)?;
        family.unused
    } else if let Some(family) = DECODERS.iter().find(|it| it.model_types.contains(&kind)) {
        decoder::add(family, &mut graph, config)?;
        decoder::UNUSED
    } else if let Some(family) = IMAGES.iter().find(|it| it.model_types.contains(&kind)) {
        vision::add(family, &mut graph, config)?;
        family.unused
    } else if let Some(family) = OTHERS.iter().find(|it| it.model_types.contains(&kind)) {
        (family.add)(&mut graph, config)?;
        family.unused
    } else {
        return Err(GraphError::Config {
            key: "model_type".to_owned(),
            expected: format!("one of {}", model_types().collect::<Vec<_>>().join(", ")),
            given: kind.to_owned(),
        });
    };
    let plain = graph.plain();
    if graph.has_codes() {
        graph.read_at_load(&plain);
    }
    let (graph, weights, late) = graph.finish(&class);
    let keeps_rows_apart =
        graph.input.iter().chain(&graph.output).all(|it| it.begins_with(ROWS_NAME));
    if let Some(name) = weights.unused(unused) {
        return Err(GraphError::Unexpected(name.to_owned()));
    }
    let precision = (!late.is_empty()).then_some((PRECISION, Precision::Int8.name()));
    let model = onnx::Model::new(graph, precision).encode_to_vec();
    Ok(Graph { model, weights: weights.files().to_vec(), class, plain, keeps_rows_apart, late })
}
