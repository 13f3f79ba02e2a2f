//! Which signature is served, and what it takes and gives. Pure.

use std::collections::BTreeSet;

use backend::{ModelSpec, TensorSpec};

use super::{
    proto::{MetaGraph, SignatureDef, TensorInfo},
    reach,
};
use crate::native::from_element;

/// What exporters call the signature that is meant where none is named.
const DEFAULT: &str = "serving_default";

/// What TensorFlow's exporter writes for the initialiser of tables.
const INITIALISER: &str = "__saved_model_init_op";

/// A signature as it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) name: String,
    pub(crate) spec: ModelSpec,
    /// Names in the graph, in the order of the inputs and outputs.
    pub(crate) feeds: Vec<String>,
    pub(crate) fetches: Vec<String>,
    /// The operations that a run executes.
    pub(crate) operations: BTreeSet<String>,
}

/// The signature of that name; where none is asked for, `serving_default`, else the only one.
///
/// # Errors
/// No such signature, or one with a tensor that cannot be served; the text names those that there are.
pub(crate) fn signature_of(graph: &MetaGraph, wanted: Option<&str>) -> Result<Signature, String> {
    let names = || graph.signatures.keys().filter(|it| *it != INITIALISER).map(String::as_str);
    let mut others = names();
    let name = match (wanted, others.next(), others.next()) {
        (Some(name), ..) => name,
        (None, Some(only), None) => only,
        _ => DEFAULT,
    };
    let signature = graph.signatures.get(name).filter(|_| name != INITIALISER).ok_or_else(|| {
        let names: Vec<&str> = names().collect();
        match names.is_empty() {
            true => "it has no signatures: export it with `signatures=`, or from Keras with export()".to_owned(),
            false => format!(
                "it has no signature '{name}'; its signatures are {}: name one in TF_SIGNATURE_DEF",
                names.join(", ")
            ),
        }
    })?;
    read(graph, name, signature).map_err(|problem| format!("signature '{name}': {problem}"))
}

fn read(graph: &MetaGraph, name: &str, signature: &SignatureDef) -> Result<Signature, String> {
    if signature.outputs.is_empty() {
        return Err("has no outputs".to_owned());
    }
    let tensor = |what: &str, (name, info): (&String, &TensorInfo)| {
        spec(name, info).map_err(|problem| format!("{what} '{name}' {problem}"))
    };
    let inputs = signature.inputs.iter().map(|it| tensor("input", it));
    let outputs = signature.outputs.iter().map(|it| tensor("output", it));
    let spec = ModelSpec {
        inputs: inputs.collect::<Result<_, _>>()?,
        outputs: outputs.collect::<Result<_, _>>()?,
        ..ModelSpec::default()
    };
    let fetches: Vec<String> = signature.outputs.values().map(|it| it.name.clone()).collect();
    let nodes = graph.graph.as_ref();
    let operations = nodes.map(|it| reach::operations(it, fetches.iter().map(String::as_str)));
    let operations = operations.unwrap_or_default();
    let feeds = signature.inputs.values().map(|it| it.name.clone()).collect();
    Ok(Signature { name: name.to_owned(), spec, feeds, fetches, operations })
}

fn spec(name: &str, info: &TensorInfo) -> Result<TensorSpec, String> {
    if info.name.is_empty() {
        return Err("is a sparse or composite tensor, which cannot be served".to_owned());
    }
    let dtype = from_element(info.dtype).ok_or_else(|| {
        format!("has elements of TensorFlow's type {}, which cannot be served", info.dtype)
    })?;
    let shape = info.shape.as_ref().filter(|it| !it.unknown_rank);
    let any_rank = shape.is_none();
    let dims = shape.map(|it| &it.dims).into_iter().flatten();
    let dims = dims.map(|it| usize::try_from(it.size).ok()).collect();
    Ok(TensorSpec { name: name.into(), dtype, dims, any_rank, optional: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::{Dim, TensorShape};
    use backend::DataType;

    fn info(dtype: i32, dims: Option<&[i64]>) -> TensorInfo {
        let shape = dims.map(|dims| TensorShape {
            dims: dims.iter().map(|&size| Dim { size }).collect(),
            unknown_rank: false,
        });
        TensorInfo { name: "x:0".into(), dtype, shape }
    }

    fn graph(signatures: &[(&str, TensorInfo)]) -> MetaGraph {
        let signature = |info: &TensorInfo| SignatureDef {
            inputs: [("x".to_owned(), info.clone())].into(),
            outputs: [("y".to_owned(), info.clone())].into(),
        };
        let signatures = signatures.iter().map(|(name, it)| ((*name).to_owned(), signature(it)));
        MetaGraph { signatures: signatures.collect(), ..MetaGraph::default() }
    }

    #[test]
    fn the_default_signature_is_served_else_the_only_one() {
        let float = || info(1, Some(&[-1, 4]));
        let several = graph(&[("other", float()), (DEFAULT, float())]);
        assert_eq!(signature_of(&several, None).unwrap().name, DEFAULT);
        assert_eq!(signature_of(&several, Some("other")).unwrap().name, "other");
        let one = graph(&[("only", float()), (INITIALISER, float())]);
        assert_eq!(signature_of(&one, None).unwrap().name, "only");
    }

    #[test]
    fn what_there_is_is_named_where_the_wanted_signature_is_not() {
        let float = || info(1, None);
        let problem = signature_of(&graph(&[("a", float()), ("b", float())]), None).unwrap_err();
        assert!(problem.contains("a, b") && problem.contains("TF_SIGNATURE_DEF"), "{problem}");
        let problem = signature_of(&graph(&[]), None).unwrap_err();
        assert!(problem.contains("no signatures"), "{problem}");
    }

    #[test]
    fn types_and_shapes_are_those_of_the_file() {
        let signature = signature_of(&graph(&[("s", info(7, Some(&[-1, 3])))]), None).unwrap();
        let input = &signature.spec.inputs[0];
        assert_eq!((input.dtype, &*input.dims), (DataType::Bytes, &[None, Some(3)][..]));
        let signature = signature_of(&graph(&[("s", info(101, None))]), None).unwrap();
        let input = &signature.spec.inputs[0];
        assert_eq!((input.dtype, input.any_rank), (DataType::Fp32, true));
    }

    #[test]
    fn a_type_that_cannot_be_served_is_named_with_its_input() {
        let problem = signature_of(&graph(&[("s", info(20, None))]), None).unwrap_err();
        assert!(problem.contains("input 'x'") && problem.contains("type 20"), "{problem}");
    }
}
