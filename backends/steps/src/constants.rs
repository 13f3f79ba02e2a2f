//! Inputs of a text model's graph that have the same value in every run.

use backend::{DataType, ModelSpec, NamedTensor, Shape, Tensor, TensorSpec};

use crate::{
    decide::{Decision, decide},
    error::FolderError,
    folder::Folder,
};
use inference::task::Medium;

/// The constants of a graph whose folder answers texts; none where the graph is served as it is.
///
/// # Errors
/// When a task was named that there is not, or that the folder contradicts.
pub fn constants(folder: &Folder, spec: &ModelSpec) -> Result<Vec<NamedTensor>, FolderError> {
    let metadata = spec.metadata.get("task").map(String::as_str);
    Ok(match decide(folder, metadata)? {
        Decision::Pipeline(task) if task.medium() == Medium::Text => {
            spec.inputs.iter().filter_map(constant).collect()
        }
        Decision::Pipeline(_) | Decision::Tensors(_) => Vec::new(),
    })
}

/// Has the graph an input that may be a constant?
pub fn has_constants(spec: &ModelSpec) -> bool {
    spec.inputs.iter().any(|it| constant(it).is_some())
}

/// The value of an input that has the same one in every run.
pub(crate) fn constant(input: &TensorSpec) -> Option<NamedTensor> {
    // Which branch of a merged graph runs: the one that reads no keys and values of earlier tokens.
    let is_branch = &*input.name == "use_cache_branch" && input.dtype == DataType::Bool;
    if !is_branch || input.dims.iter().flatten().any(|it| *it != 1) {
        return None;
    }
    let dims = if input.any_rank { vec![1] } else { vec![1; input.dims.len()] };
    let tensor = Tensor::zeros(DataType::Bool, Shape::new(&dims)).ok()?;
    Some(NamedTensor { name: input.name.clone(), tensor })
}
