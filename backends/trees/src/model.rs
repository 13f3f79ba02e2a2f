//! A model: a forest, what clients send and get, and the instances that share it.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use backend::{
    BackendError, DataType, Device, Instance, Model, ModelSource, ModelSpec, TensorHint, TensorSpec,
};

use crate::{
    error::FormatError,
    forest::{
        document::{Document, Library, Rounding},
        layout::lay_out,
        packed::Forest,
    },
    instance::TreeInstance,
    limits,
    options::Options,
    output::{Form, is_double, probabilities},
    read::read,
    select::select_trees,
    shared::Shared,
};

/// The input of a model whose configuration does not name it.
const INPUT: &str = "input__0";
/// Its output.
const OUTPUT: &str = "output__0";
/// The output with sums before the transform.
const MARGIN: &str = "margin";
/// The output with classes by their numbers.
const LABEL: &str = "label";

/// A loaded model version.
pub(crate) struct TreeModel {
    shared: Arc<Shared>,
    spec: ModelSpec,
    /// The objective of a file of XGBoost, which says what a reply in its container's dialect means.
    notes: Vec<(&'static str, String)>,
}

impl TreeModel {
    pub(crate) fn load(source: &ModelSource) -> Result<TreeModel, BackendError> {
        let options = Options::read(source)?;
        let path = &source.path;
        let bytes = read_file(path)?;
        let in_file = |it: FormatError| it.in_file(path);
        let mut document = read(&bytes, options.objective.as_deref()).map_err(in_file)?;
        let length = bytes.len();
        drop(bytes);
        options.check_type(&document).map_err(BackendError::Load)?;
        select_trees(&mut document, &options).map_err(in_file)?;
        if options.fil.is_some() {
            document.transform = probabilities(document.transform);
        }
        let notes = match (document.origin.library, &options.fil) {
            (Library::Xgboost, None) => vec![("xgboost_objective", document.objective.clone())],
            _ => Vec::new(),
        };
        let about = About::of(&document);
        let missing = options.missing.or(document.missing);
        let remarks = std::mem::take(&mut document.remarks);
        let laid = lay_out(document).map_err(in_file)?;
        about.log(&source.name, &laid.forest, laid.dropped, length);
        for remark in remarks {
            tracing::info!("{}: {remark}", source.name);
        }
        if !options.ignored.is_empty() {
            let keys = options.ignored.join(", ");
            tracing::info!("{}: no effect here: {keys}", source.name);
        }
        let outputs = outputs(&laid.forest, source, &options);
        let spec = spec(&laid.forest, source, &outputs);
        Ok(TreeModel {
            shared: Arc::new(Shared { forest: laid.forest, missing, outputs }),
            spec,
            notes,
        })
    }
}

impl Model for TreeModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn notes(&self) -> &[(&'static str, String)] {
        &self.notes
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        match device {
            Device::Cpu => Ok(Box::new(TreeInstance::new(self.shared.clone()))),
            Device::Gpu(_) => Err(BackendError::Load(
                "trees run on the CPU here; write KIND_CPU or KIND_AUTO in instance_group"
                    .to_owned(),
            )),
        }
    }
}

/// The whole file, unless it is too large.
fn read_file(path: &Path) -> Result<Vec<u8>, BackendError> {
    let cannot =
        |it: std::io::Error| BackendError::Load(format!("cannot read {}: {it}", path.display()));
    let file = File::open(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    if limits::FILE_BYTES < length {
        let (path, most) = (path.display(), limits::FILE_BYTES);
        return Err(BackendError::Load(format!(
            "{path} has {length} bytes; at most {most} are served"
        )));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(limits::FILE_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// The outputs: the first that is configured, or the usual one, and those that are asked for by name.
fn outputs(forest: &Forest, source: &ModelSource, options: &Options) -> Vec<(Arc<str>, Form)> {
    let main = |hint: Option<&TensorHint>| {
        let Some(fil) = options.fil.filter(|it| it.is_classifier) else { return Form::Predictions };
        let columns = hint.and_then(|it| it.dims.as_ref()?.last().copied().flatten());
        match (fil.predict_proba, forest.width(), columns) {
            (false, _, _) => Form::Class { threshold: fil.threshold },
            (true, 1, Some(2)) => Form::BothClasses,
            (true, _, _) => Form::Predictions,
        }
    };
    let hints = &source.hints.outputs;
    if hints.is_empty() {
        return vec![(OUTPUT.into(), main(None))];
    }
    let threshold = options.fil.map_or(0.5, |it| it.threshold);
    let mut outputs: Vec<(Arc<str>, Form)> = Vec::new();
    let mut has_main = false;
    for hint in hints {
        let form = match &*hint.name {
            MARGIN => Form::Margins,
            LABEL => Form::Class { threshold },
            _ if !has_main => {
                has_main = true;
                main(Some(hint))
            }
            // One that the model does not have, which the configuration is then refused for.
            _ => continue,
        };
        outputs.push((hint.name.clone(), form));
    }
    if !has_main {
        outputs.push((OUTPUT.into(), main(None)));
    }
    outputs
}

fn spec(forest: &Forest, source: &ModelSource, outputs: &[(Arc<str>, Form)]) -> ModelSpec {
    let input = source.hints.inputs.first();
    let usual = match forest.rounding {
        Rounding::Single => DataType::Fp32,
        Rounding::Double => DataType::Fp64,
    };
    let is_float = |it: &DataType| matches!(it, DataType::Fp32 | DataType::Fp64);
    let tensor = |name: Arc<str>, dtype: DataType, columns: usize| TensorSpec {
        name,
        dtype,
        dims: vec![None, Some(columns)],
        any_rank: false,
        optional: false,
    };
    let name = input.map_or_else(|| INPUT.into(), |it| it.name.clone());
    let dtype = input.and_then(|it| it.dtype).filter(is_float).unwrap_or(usual);
    let of_outputs = match is_double(forest.transform) {
        true => DataType::Fp64,
        false => DataType::Fp32,
    };
    let output =
        |(name, form): &(Arc<str>, Form)| tensor(name.clone(), of_outputs, form.width(forest));
    ModelSpec {
        inputs: vec![tensor(name, dtype, forest.features)],
        outputs: outputs.iter().map(output).collect(),
        ..ModelSpec::default()
    }
}

/// What the log says of a file.
struct About {
    origin: String,
    objective: String,
}

impl About {
    fn of(document: &Document) -> About {
        let origin = &document.origin;
        let parts = [origin.library.name(), &origin.version, origin.format];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        About { origin: parts.join(" "), objective: document.objective.clone() }
    }

    fn log(&self, model: &str, forest: &Forest, dropped: usize, file_bytes: usize) {
        let About { origin, objective } = self;
        let objective = if objective.is_empty() { "no objective" } else { objective };
        let nodes = forest.nodes.len();
        tracing::info!(
            file_bytes,
            dropped,
            "{model}: {origin}, {objective}, {} trees, {nodes} nodes of {} bytes, depth ≤ {}, {} features",
            forest.trees.len(),
            forest.nodes.bytes_each(),
            forest.depth(),
            forest.features,
        );
    }
}
