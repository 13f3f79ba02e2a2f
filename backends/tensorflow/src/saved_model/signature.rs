//! Which signatures are served, and what they take and give. Pure.

use std::collections::BTreeSet;

use backend::{GraphRows, ModelSpec, Tensor, TensorSpec};
use prost::Message;

use super::{
    default::tensor_of,
    error::{Defect, SavedModelError},
    proto::{MetaGraph, SignatureDef, SignatureDefs, TensorInfo, TensorValue},
    reach,
    shared_rows::shared_by,
};
use crate::native::from_element;

/// What exporters call the signature that is meant where none is named.
const DEFAULT: &str = "serving_default";

/// What TensorFlow's exporter writes for the initialiser of tables.
pub(super) const INITIALISER: &str = "__saved_model_init_op";

/// A signature as it is served.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    pub(crate) name: String,
    /// The method that the file says it is for; may be empty.
    pub(crate) method: String,
    pub(crate) spec: ModelSpec,
    /// What an input is that is left out, in the order of the inputs.
    pub(crate) defaults: Vec<Option<Tensor>>,
    /// Names in the graph, in the order of the inputs and outputs.
    pub(crate) feeds: Vec<String>,
    pub(crate) fetches: Vec<String>,
    /// The operations that a run executes.
    pub(crate) operations: BTreeSet<String>,
}

/// The signatures of a graph.
#[derive(Debug)]
pub(crate) struct Signatures {
    /// The one that is meant where none is named, and the others that can be run.
    pub(crate) default: Signature,
    pub(crate) others: Vec<Signature>,
    /// Those that cannot, each with the reason.
    pub(crate) unusable: Vec<(String, String)>,
    /// All of them, as the message `SignatureDefMap` of TensorFlow Serving.
    pub(crate) definitions: Vec<u8>,
}

/// The signatures of a graph. The default is the one of that name; where none is asked for, `serving_default`, else
/// the first that can be run.
///
/// # Errors
/// No such signature, or one with a tensor that cannot be served; the text names those that there are.
pub(crate) fn signatures_of(
    graph: &MetaGraph,
    wanted: Option<&str>,
) -> Result<Signatures, SavedModelError> {
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    for (name, bytes) in graph.signatures.iter().filter(|(name, _)| *name != INITIALISER) {
        let read = SignatureDef::decode(bytes.as_slice())
            .map_err(|error| Defect::new(format_args!("cannot be read: {error}")))
            .and_then(|it| read(graph, name, &it));
        match read {
            Ok(signature) => usable.push(signature),
            Err(problem) => unusable.push((name.clone(), problem.to_string())),
        }
    }
    let is_there = |name: &str| graph.signatures.contains_key(name) && name != INITIALISER;
    let first = usable.first().map(|it| it.name.clone());
    let name = match wanted {
        Some(name) => name.to_owned(),
        None if is_there(DEFAULT) => DEFAULT.to_owned(),
        None => first.or_else(|| Some(unusable.first()?.0.clone())).ok_or_else(none)?,
    };
    if let Some((_, problem)) = unusable.iter().find(|it| it.0 == name) {
        return Err(SavedModelError::new(format_args!("signature '{name}': {problem}")));
    }
    let at = usable.iter().position(|it| it.name == name).ok_or_else(|| {
        let names: Vec<&str> = usable.iter().map(|it| it.name.as_str()).collect();
        match names.is_empty() {
            true => none(),
            false => SavedModelError::new(format_args!(
                "it has no signature '{name}'; its signatures are {}: name one in TF_SIGNATURE_DEF",
                names.join(", ")
            )),
        }
    })?;
    let default = usable.remove(at);
    let signatures = graph.signatures.clone();
    let definitions = SignatureDefs { signatures }.encode_to_vec();
    Ok(Signatures { default, others: usable, unusable, definitions })
}

fn none() -> SavedModelError {
    SavedModelError::new(
        "it has no signatures: export it with `signatures=`, or from Keras with export()",
    )
}

fn read(graph: &MetaGraph, name: &str, signature: &SignatureDef) -> Result<Signature, Defect> {
    if signature.outputs.is_empty() {
        return Err(Defect::new("has no outputs"));
    }
    let tensor = |what: &str, (name, info): (&String, &TensorInfo)| {
        let element = element_of(graph, info);
        spec(name, info, element).map_err(|it| it.within(format_args!("{what} '{name}'")))
    };
    let inputs = signature.inputs.iter().map(|it| tensor("input", it));
    let outputs = signature.outputs.iter().map(|it| tensor("output", it));
    let mut spec = ModelSpec {
        inputs: inputs.collect::<Result<_, _>>()?,
        outputs: outputs.collect::<Result<_, _>>()?,
        ..ModelSpec::default()
    };
    let defaults: Vec<Option<Tensor>> = spec
        .inputs
        .iter()
        .map(|it| default(it, signature.defaults.get(&*it.name)))
        .collect::<Result<_, _>>()?;
    for (input, default) in spec.inputs.iter_mut().zip(&defaults) {
        input.optional = default.is_some();
    }
    let fetches: Vec<String> = signature.outputs.values().map(|it| it.name.clone()).collect();
    let nodes = graph.graph.as_ref();
    let operations = nodes.map(|it| reach::operations(it, fetches.iter().map(String::as_str)));
    let operations = operations.unwrap_or_default();
    let shared = nodes.and_then(|it| shared_by(it, fetches.iter().map(String::as_str)));
    if let Some(operation) = shared {
        spec.rows = GraphRows::Shared(operation.to_owned());
    }
    let feeds = signature.inputs.values().map(|it| it.name.clone()).collect();
    let (name, method) = (name.to_owned(), signature.method.clone());
    Ok(Signature { name, method, spec, defaults, feeds, fetches, operations })
}

/// What stands for that input where a request leaves it out.
fn default(input: &TensorSpec, value: Option<&TensorValue>) -> Result<Option<Tensor>, Defect> {
    let Some(value) = value else { return Ok(None) };
    let of_input = |it: Defect| it.within(format_args!("input '{}'", input.name));
    let tensor = tensor_of(value).map_err(|it| of_input(it.within("has a default")))?;
    match tensor.dtype() == input.dtype {
        true => Ok(Some(tensor)),
        false => {
            let types = format_args!("is {}, its default {}", input.dtype, tensor.dtype());
            Err(of_input(Defect::new(types)))
        }
    }
}

/// The type of a tensor's elements: that of its node, which is what a run takes and gives. Where the node does not say,
/// that of the signature, in which some old exporters wrote another one.
fn element_of(graph: &MetaGraph, info: &TensorInfo) -> i32 {
    let nodes = graph.graph.iter().flat_map(|it| &it.nodes);
    let name = reach::node_of(&info.name);
    let said = nodes.filter(|it| it.name == name).find_map(|node| {
        let key = match node.op.as_str() {
            "Placeholder" | "PlaceholderV2" | "PlaceholderWithDefault" | "Const" => "dtype",
            "Identity" => "T",
            _ => return None,
        };
        node.attributes.get(key).map(|it| it.element)
    });
    said.filter(|it| *it != 0).unwrap_or(info.dtype)
}

fn spec(name: &str, info: &TensorInfo, element: i32) -> Result<TensorSpec, Defect> {
    if info.name.is_empty() {
        return Err(Defect::new("is a sparse or composite tensor, which cannot be served"));
    }
    let dtype = from_element(element).ok_or_else(|| {
        Defect::new(format_args!(
            "has elements of TensorFlow's type {element}, which cannot be served"
        ))
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
    use crate::saved_model::proto::{Attribute, Dim, Graph, Node, TensorShape};
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
            ..SignatureDef::default()
        };
        let signatures =
            signatures.iter().map(|(name, it)| ((*name).to_owned(), signature(it).encode_to_vec()));
        MetaGraph { signatures: signatures.collect(), ..MetaGraph::default() }
    }

    fn default_of(graph: &MetaGraph, wanted: Option<&str>) -> Result<Signature, SavedModelError> {
        signatures_of(graph, wanted).map(|it| it.default)
    }

    #[test]
    fn the_default_is_the_one_of_that_name_else_the_first_that_can_be_run() {
        let float = || info(1, Some(&[-1, 4]));
        let several = graph(&[("other", float()), (DEFAULT, float())]);
        assert_eq!(default_of(&several, None).unwrap().name, DEFAULT);
        assert_eq!(default_of(&several, Some("other")).unwrap().name, "other");
        let without = graph(&[("a", info(20, None)), ("b", float()), ("c", float())]);
        let found = signatures_of(&without, None).unwrap();
        assert_eq!((&*found.default.name, &*found.others[0].name), ("b", "c"));
        let one = graph(&[("only", float()), (INITIALISER, float())]);
        let found = signatures_of(&one, None).unwrap();
        assert_eq!((&*found.default.name, found.others.len()), ("only", 0));
    }

    #[test]
    fn what_there_is_is_named_where_the_wanted_signature_is_not() {
        let float = || info(1, None);
        let several = graph(&[("a", float()), ("b", float())]);
        for wanted in ["c", INITIALISER] {
            let problem = default_of(&several, Some(wanted)).unwrap_err().to_string();
            assert!(problem.contains("a, b") && problem.contains("TF_SIGNATURE_DEF"), "{problem}");
        }
        let problem = default_of(&graph(&[]), None).unwrap_err().to_string();
        assert!(problem.contains("no signatures"), "{problem}");
    }

    #[test]
    fn types_and_shapes_are_those_of_the_file() {
        let signature = default_of(&graph(&[("s", info(7, Some(&[-1, 3])))]), None).unwrap();
        let input = &signature.spec.inputs[0];
        assert_eq!((input.dtype, &*input.dims), (DataType::Bytes, &[None, Some(3)][..]));
        let signature = default_of(&graph(&[("s", info(101, None))]), None).unwrap();
        let input = &signature.spec.inputs[0];
        assert_eq!((input.dtype, input.any_rank), (DataType::Fp32, true));
    }

    #[test]
    fn the_type_of_a_node_goes_before_that_of_the_signature() {
        let typed = |op: &str, key: &str, element: i32| {
            let attribute = Attribute { element, ..Attribute::default() };
            let attributes = [(key.to_owned(), attribute)].into();
            Node { name: "x".into(), op: op.into(), attributes, ..Node::default() }
        };
        let dtype = |node: Node| {
            let with_nodes = Graph { nodes: vec![node], library: None };
            let graph = MetaGraph { graph: Some(with_nodes), ..graph(&[("s", info(1, None))]) };
            let signature = default_of(&graph, None).unwrap();
            (signature.spec.inputs[0].dtype, signature.spec.outputs[0].dtype)
        };
        let bytes = (DataType::Bytes, DataType::Bytes);
        assert_eq!(dtype(typed("Placeholder", "dtype", 7)), bytes);
        assert_eq!(dtype(typed("Identity", "T", 7)), bytes);
        let float = (DataType::Fp32, DataType::Fp32);
        assert_eq!(dtype(typed("Placeholder", "dtype", 0)), float);
        assert_eq!(dtype(typed("ParseExample", "T", 7)), float);
    }

    #[test]
    fn a_type_that_cannot_be_served_is_named_with_its_input_and_the_others_are_served() {
        let problem = default_of(&graph(&[("s", info(20, None))]), None).unwrap_err().to_string();
        assert!(problem.contains("input 'x'") && problem.contains("type 20"), "{problem}");
        let both = graph(&[("s", info(20, None)), (DEFAULT, info(1, None))]);
        let found = signatures_of(&both, None).unwrap();
        assert_eq!((&*found.default.name, &*found.unusable[0].0), (DEFAULT, "s"));
        let all = SignatureDefs::decode(found.definitions.as_slice()).unwrap();
        assert_eq!(all.signatures.len(), 2);
    }

    #[test]
    fn an_input_with_a_default_may_be_left_out() {
        let shape = Some(TensorShape { dims: Vec::new(), unknown_rank: false });
        let value = |dtype| TensorValue {
            dtype,
            shape: shape.clone(),
            floats: vec![2.5],
            ..TensorValue::default()
        };
        let with = |dtype| {
            let input = || info(1, Some(&[]));
            let signature = SignatureDef {
                inputs: [("x".to_owned(), input()), ("y".to_owned(), input())].into(),
                outputs: [("z".to_owned(), input())].into(),
                defaults: [("y".to_owned(), value(dtype))].into(),
                ..SignatureDef::default()
            };
            let signatures = [(DEFAULT.to_owned(), signature.encode_to_vec())].into();
            MetaGraph { signatures, ..MetaGraph::default() }
        };
        let signature = default_of(&with(1), None).unwrap();
        assert_eq!(
            signature.spec.inputs.iter().map(|it| it.optional).collect::<Vec<_>>(),
            [false, true]
        );
        assert!(signature.defaults[0].is_none() && signature.defaults[1].is_some());
        assert!(default_of(&with(3), None).is_err());
    }
}
