//! The tensors of safetensors files, one or several with an index, by their headers alone.
//!
//! A file begins with the length of its header, 8 bytes in little endian. Then come the header as JSON and the bytes of
//! the tensors. Source: the format's description in Hugging Face's repository `safetensors`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    path::Path,
};

use serde::Deserialize;

use crate::{error::GraphError, onnx::ElementType, place::TensorLocation};

/// The file of a folder whose weights are in one.
pub(crate) const FILE: &str = "model.safetensors";

/// What names the files of a folder whose weights are in several.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The longest header, as the format's own library has it.
const LONGEST_HEADER: u64 = 100_000_000;

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) element: ElementType,
    pub(crate) dims: Vec<usize>,
    pub(crate) place: TensorLocation,
}

/// All tensors of a folder by their names, and which of them were used.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    tensors: BTreeMap<String, Weight>,
    files: Vec<String>,
    used: BTreeSet<String>,
}

/// A tensor in a header.
#[derive(Deserialize)]
struct HeaderEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The index of several files.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Those of the folder. Blocking; reads headers alone.
    ///
    /// # Errors
    /// [`GraphError::File`]: the file, and what is wrong with it.
    pub(crate) fn read(folder: &Path) -> Result<Weights, GraphError> {
        let mut weights = Weights::default();
        if folder.join(FILE).exists() {
            weights.add(folder, FILE)?;
            return Ok(weights);
        }
        let wrong = |problem: String| GraphError::file(INDEX, problem);
        let index = backend::read_file(&folder.join(INDEX)).map_err(|it| wrong(it.to_string()))?;
        let index: Index = serde_json::from_slice(&index).map_err(|it| wrong(it.to_string()))?;
        let files: BTreeSet<&String> = index.weight_map.values().collect();
        for file in files {
            if file.contains('/') || !file.ends_with(".safetensors") {
                return Err(wrong(format!(
                    "expected names of safetensors files in this folder, given '{file}'"
                )));
            }
            weights.add(folder, file)?;
        }
        let is_missing = |it: &&String| !weights.tensors.contains_key(*it);
        match index.weight_map.keys().find(is_missing) {
            Some(name) => Err(wrong(format!("no file has the tensor '{name}'"))),
            None => Ok(weights),
        }
    }

    /// Bytes of all tensors.
    pub(crate) fn bytes(&self) -> u64 {
        self.tensors.values().map(|it| it.place.length).sum()
    }

    /// The names of the files.
    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    /// Adds the tensors of a file.
    fn add(&mut self, folder: &Path, name: &str) -> Result<(), GraphError> {
        let wrong = |problem: String| GraphError::file(name, problem);
        let mut file =
            backend::open_file(&folder.join(name)).map_err(|it| wrong(it.to_string()))?;
        let size = file.metadata().map_err(|it| wrong(it.to_string()))?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|it| wrong(format!("its header: {it}")))?;
        let length = u64::from_le_bytes(length);
        let begin = length.checked_add(8).filter(|it| *it <= size && length <= LONGEST_HEADER);
        let begin = begin.ok_or_else(|| {
            wrong(format!("its header has {length} bytes, and the file {size}; fetch it once more"))
        })?;
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(|it| wrong(format!("its header: {it}")))?;
        let tensors = tensors(&header, size - begin).map_err(wrong)?;
        self.files.push(name.to_owned());
        for (tensor, (element, dims, from, to)) in tensors {
            let place =
                TensorLocation { file: name.to_owned(), offset: begin + from, length: to - from };
            if self.tensors.insert(tensor.clone(), Weight { element, dims, place }).is_some() {
                return Err(GraphError::file(name, format!("'{tensor}' is in two files")));
            }
        }
        Ok(())
    }

    /// Is there a tensor of that name?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The tensor of that name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&Weight> {
        self.tensors.get(name)
    }

    /// The tensor of that name and shape. It is used from now on.
    ///
    /// # Errors
    /// [`GraphError::Missing`] and [`GraphError::Shape`].
    pub(crate) fn take(&mut self, name: &str, dims: &[usize]) -> Result<&Weight, GraphError> {
        let missing = || GraphError::Missing { name: name.to_owned(), dims: dims.to_vec() };
        let weight = self.tensors.get(name).ok_or_else(missing)?;
        if weight.dims != dims {
            return Err(GraphError::Shape {
                name: name.to_owned(),
                expected: dims.to_vec(),
                given: weight.dims.clone(),
            });
        }
        self.used.insert(name.to_owned());
        Ok(weight)
    }

    /// The first tensor that nothing has used, but those of which one of these is a part of the name.
    pub(crate) fn unused(&self, known: &[&str]) -> Option<&str> {
        let mut unused = self.tensors.keys().filter(|it| !self.used.contains(*it));
        unused.find(|name| !known.iter().any(|it| name.contains(it))).map(String::as_str)
    }
}

/// A tensor of a header: its type, its shape, and where it begins and ends behind the header.
type HeaderTensor = (ElementType, Vec<usize>, u64, u64);

/// The tensors of a header, of which `data` bytes lie behind it. They cover all of these, and none another.
fn tensors(header: &[u8], data: u64) -> Result<BTreeMap<String, HeaderTensor>, String> {
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|it| format!("its header is no JSON: {it}"))?;
    let mut found = BTreeMap::new();
    for (name, value) in header {
        if name == "__metadata__" {
            continue;
        }
        let entry: HeaderEntry =
            serde_json::from_value(value).map_err(|it| format!("'{name}': {it}"))?;
        let (from, to) = entry.data_offsets;
        let Some(element) = element(&entry.dtype) else {
            // Positions and the like are no weights: they have no place in a graph.
            found.insert(name, (None, Vec::new(), from, to));
            continue;
        };
        let count = entry.shape.iter().try_fold(1u64, |all, it| all.checked_mul(*it));
        let bytes = count.and_then(|it| it.checked_mul(element.size() as u64));
        if to.checked_sub(from) != bytes || data < to {
            return Err(format!(
                "'{name}' of shape {:?} and type {} lies from byte {from} to {to} of {data}",
                entry.shape, entry.dtype
            ));
        }
        let dims = entry.shape.iter().map(|it| *it as usize).collect();
        found.insert(name, (Some(element), dims, from, to));
    }
    let mut places: Vec<(u64, u64)> = found.values().map(|it| (it.2, it.3)).collect();
    places.sort_unstable();
    let end = places.iter().try_fold(0, |end, (from, to)| (*from == end).then_some(*to));
    if end != Some(data) {
        return Err("its tensors overlap, or leave holes; fetch the file once more".to_owned());
    }
    let with_element = |(name, (element, dims, from, to))| Some((name, (element?, dims, from, to)));
    Ok(found.into_iter().filter_map(with_element).collect())
}

/// The types that weights may have.
fn element(dtype: &str) -> Option<ElementType> {
    Some(match dtype {
        "F32" => ElementType::Float,
        "F16" => ElementType::Float16,
        "BF16" => ElementType::Bfloat16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(header: &str, data: u64) -> Result<Vec<String>, String> {
        Ok(tensors(header.as_bytes(), data)?.into_keys().collect())
    }

    #[test]
    fn tensors_are_told_by_a_header_that_covers_all_bytes_once() {
        let two = r#"{"__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
            "b": {"dtype": "F16", "shape": [3], "data_offsets": [8, 14]}}"#;
        assert_eq!(found(two, 14), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(found(two, 15).unwrap_err().contains("holes"));
        assert!(found(two, 13).unwrap_err().contains("'b' of shape [3] and type F16"));
    }

    #[test]
    fn headers_that_lie_are_refused() {
        for (header, problem) in [
            (
                r#"{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}"#,
                "'a' of shape [3]",
            ),
            (
                r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}"#,
                "'a' of shape [2]",
            ),
            (
                r#"{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}}"#,
                "'a' of shape",
            ),
            (
                r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                    "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}"#,
                "overlap",
            ),
            (r#"{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}"#, "'a': "),
            ("[", "no JSON"),
        ] {
            let given = found(header, 8).unwrap_err();
            assert!(given.contains(problem), "{given}");
        }
    }
}
