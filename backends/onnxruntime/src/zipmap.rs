//! Classifiers whose probabilities are maps: converters of scikit-learn and LightGBM end a graph in a `ZipMap`, which
//! makes of a tensor `[rows, classes]` a list of maps from a class to its probability.
//!
//! The node is taken out of the file's bytes before ONNX Runtime sees them, so that the tensor is the output, and the
//! classes become names of its columns. A label that the converter declares as one number, and that comes out as one
//! for each row, is given any number of rows. The rest of the file stays as it is, byte for byte.

use std::{collections::BTreeMap, sync::Arc};

use crate::protobuf::{
    self, Field, fields, number_of, numbers_of, put_bytes, put_number, text_of, texts_of,
};

/// A model without `ZipMap`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unzipped {
    /// The content of its file.
    pub(crate) model: Vec<u8>,
    /// In the order of the tensor's columns.
    pub(crate) classes: Classes,
}

/// Classes by output.
type Classes = BTreeMap<Arc<str>, Arc<[String]>>;

/// The operator's name, which other operators' domains may have, too.
pub(crate) const OPERATOR: [u8; 6] = *b"ZipMap";
const DOMAIN: &[u8] = b"ai.onnx.ml";

/// Numbers of fields of `onnx.proto`.
mod number {
    pub(super) const MODEL_GRAPH: u64 = 7;
    pub(super) const MODEL_OPSET: u64 = 8;
    pub(super) const OPSET_DOMAIN: u64 = 1;
    pub(super) const OPSET_VERSION: u64 = 2;
    pub(super) const GRAPH_NODE: u64 = 1;
    pub(super) const GRAPH_OUTPUT: u64 = 12;
    pub(super) const NODE_INPUT: u64 = 1;
    pub(super) const NODE_OUTPUT: u64 = 2;
    pub(super) const NODE_OPERATOR: u64 = 4;
    pub(super) const NODE_ATTRIBUTE: u64 = 5;
    pub(super) const NODE_DOMAIN: u64 = 7;
    pub(super) const ATTRIBUTE_NAME: u64 = 1;
    pub(super) const ATTRIBUTE_INTEGERS: u64 = 8;
    pub(super) const ATTRIBUTE_STRINGS: u64 = 9;
    pub(super) const VALUE_NAME: u64 = 1;
    pub(super) const VALUE_TYPE: u64 = 2;
    pub(super) const TYPE_TENSOR: u64 = 1;
    pub(super) const TENSOR_ELEMENT: u64 = 1;
    pub(super) const TENSOR_SHAPE: u64 = 2;
    pub(super) const SHAPE_DIMENSION: u64 = 1;
    pub(super) const DIMENSION_SIZE: u64 = 1;
}

/// Element type of 32-bit floats.
const FLOAT: u64 = 1;
/// A version of ONNX's own operators that has `Identity`, for a file that uses none of them.
const OPSET: u64 = 9;

/// The model with a tensor for each output that is a list of maps. `None` where no output is made by a `ZipMap` with
/// classes, where something else in the graph reads the maps, and for what is no ONNX model.
pub(crate) fn unzip(model: &[u8]) -> Option<Unzipped> {
    let fields = fields(model)?;
    let graph = fields.iter().find(|it| it.number == number::MODEL_GRAPH)?;
    let (changed, classes) = unzip_graph(graph.bytes()?)?;
    let mut out = Vec::with_capacity(model.len() + 256);
    for field in &fields {
        match field.number {
            number::MODEL_GRAPH => put_bytes(&mut out, number::MODEL_GRAPH, &changed),
            _ => out.extend_from_slice(field.whole),
        }
    }
    if !fields.iter().any(is_own_opset) {
        let mut opset = Vec::new();
        put_number(&mut opset, number::OPSET_VERSION, OPSET);
        put_bytes(&mut out, number::MODEL_OPSET, &opset);
    }
    Some(Unzipped { model: out, classes })
}

/// Does the field say which version of ONNX's own operators there is? Their domain has no name.
fn is_own_opset(field: &Field<'_>) -> bool {
    let domain = |it: &[u8]| Some(text_of(&fields(it)?, number::OPSET_DOMAIN).is_empty());
    field.number == number::MODEL_OPSET && field.bytes().and_then(domain).unwrap_or(false)
}

/// The graph, and the classes by output.
fn unzip_graph(graph: &[u8]) -> Option<(Vec<u8>, Classes)> {
    let fields = fields(graph)?;
    let (mut maps, mut read) = (Vec::new(), Vec::new());
    let mut outputs = Vec::new();
    for field in &fields {
        match field.number {
            number::GRAPH_NODE => {
                let node = protobuf::fields(field.bytes()?)?;
                read.extend(texts_of(&node, number::NODE_INPUT));
                maps.extend(ZipMap::of(&node));
            }
            number::GRAPH_OUTPUT => {
                outputs.push(text_of(&protobuf::fields(field.bytes()?)?, number::VALUE_NAME));
            }
            _ => {}
        }
    }
    maps.retain(|it| outputs.contains(&it.output) && !read.contains(&it.output));
    if maps.is_empty() {
        return None;
    }
    let made_by = |name: &[u8]| maps.iter().find(|it| it.output == name);
    let mut out = Vec::with_capacity(graph.len() + 256);
    for field in &fields {
        let changed = match field.number {
            number::GRAPH_NODE => {
                let node = protobuf::fields(field.bytes()?)?;
                made_by(text_of(&node, number::NODE_OUTPUT)).map(ZipMap::as_identity)
            }
            number::GRAPH_OUTPUT => {
                let value = protobuf::fields(field.bytes()?)?;
                let output = text_of(&value, number::VALUE_NAME);
                let maps = made_by(output).map(ZipMap::as_tensor);
                maps.or_else(|| as_label(output, text_of(&value, number::VALUE_TYPE)))
            }
            _ => None,
        };
        match changed {
            Some(changed) => put_bytes(&mut out, field.number, &changed),
            None => out.extend_from_slice(field.whole),
        }
    }
    let classes = maps.iter().map(|it| Some((name(it.output)?, it.classes.clone())));
    Some((out, classes.collect::<Option<_>>()?))
}

fn name(text: &[u8]) -> Option<Arc<str>> {
    std::str::from_utf8(text).ok().map(Arc::from)
}

/// One such node.
struct ZipMap<'a> {
    input: &'a [u8],
    output: &'a [u8],
    classes: Arc<[String]>,
}

impl<'a> ZipMap<'a> {
    /// `None` for another operator, and where the classes are not given.
    fn of(node: &[Field<'a>]) -> Option<ZipMap<'a>> {
        if text_of(node, number::NODE_OPERATOR) != OPERATOR
            || text_of(node, number::NODE_DOMAIN) != DOMAIN
        {
            return None;
        }
        let attributes = node.iter().filter(|it| it.number == number::NODE_ATTRIBUTE);
        let mut classes = attributes.filter_map(|it| classes(&fields(it.bytes()?)?));
        let classes = classes.next_back().filter(|it| !it.is_empty())?;
        let input = text_of(node, number::NODE_INPUT);
        Some(ZipMap { input, output: text_of(node, number::NODE_OUTPUT), classes })
    }

    /// A node that gives the tensor as it is; ONNX Runtime takes it out of the graph.
    fn as_identity(&self) -> Vec<u8> {
        let mut node = Vec::new();
        put_bytes(&mut node, number::NODE_INPUT, self.input);
        put_bytes(&mut node, number::NODE_OUTPUT, self.output);
        put_bytes(&mut node, number::NODE_OPERATOR, b"Identity");
        node
    }

    /// The output as a tensor of floats: any number of rows, and a column for each class.
    fn as_tensor(&self) -> Vec<u8> {
        tensor_of(self.output, FLOAT, &[None, Some(self.classes.len() as u64)])
    }
}

/// An output of one number as one of any number of them. `None` for an output of another shape.
fn as_label(output: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
    let tensor = fields(text_of(&fields(kind)?, number::TYPE_TENSOR))?;
    let shape = fields(text_of(&tensor, number::TENSOR_SHAPE))?;
    let [only] = shape.as_slice() else { return None };
    let sizes = fields(only.bytes()?)?;
    let one = matches!(number_of(&sizes, number::DIMENSION_SIZE), Some(1));
    let element = number_of(&tensor, number::TENSOR_ELEMENT)?;
    one.then(|| tensor_of(output, element, &[None]))
}

/// The declaration of a tensor; `None` is a dimension of any size.
fn tensor_of(name: &[u8], element: u64, dims: &[Option<u64>]) -> Vec<u8> {
    let mut shape = Vec::new();
    for size in dims {
        let mut dim = Vec::new();
        size.iter().for_each(|&it| put_number(&mut dim, number::DIMENSION_SIZE, it));
        put_bytes(&mut shape, number::SHAPE_DIMENSION, &dim);
    }
    let mut tensor = Vec::new();
    put_number(&mut tensor, number::TENSOR_ELEMENT, element);
    put_bytes(&mut tensor, number::TENSOR_SHAPE, &shape);
    let mut kind = Vec::new();
    put_bytes(&mut kind, number::TYPE_TENSOR, &tensor);
    let mut value = Vec::new();
    put_bytes(&mut value, number::VALUE_NAME, name);
    put_bytes(&mut value, number::VALUE_TYPE, &kind);
    value
}

/// The classes in an attribute, numbers as text. `None` for an attribute of another name.
fn classes(attribute: &[Field<'_>]) -> Option<Arc<[String]>> {
    match text_of(attribute, number::ATTRIBUTE_NAME) {
        b"classlabels_strings" => {
            let texts = texts_of(attribute, number::ATTRIBUTE_STRINGS);
            Some(texts.map(|it| String::from_utf8_lossy(it).into_owned()).collect())
        }
        b"classlabels_int64s" => {
            let numbers = numbers_of(attribute, number::ATTRIBUTE_INTEGERS)?;
            Some(numbers.into_iter().map(|it| it.to_string()).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    fn message(parts: &[(u64, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        parts.iter().for_each(|(number, bytes)| put_bytes(&mut out, *number, bytes));
        out
    }

    /// A model of one `ZipMap` from `scores` to `maps`, with this attribute and these other nodes.
    fn model(attribute: &[u8], others: &[u8]) -> Vec<u8> {
        let node =
            message(&[(1, b"scores"), (2, b"maps"), (4, &OPERATOR), (5, attribute), (7, DOMAIN)]);
        let output = message(&[(1, b"maps"), (2, b"a sequence")]);
        let mut graph = message(&[(1, &node)]);
        graph.extend_from_slice(others);
        graph.extend(message(&[(12, &output)]));
        message(&[(7, &graph)])
    }

    #[track_caller]
    fn check(model: &[u8], expected: Option<&[&str]>) {
        let classes = unzip(model).map(|it| it.classes["maps"].to_vec());
        assert_eq!(classes, expected.map(|it| it.iter().map(|&it| it.to_owned()).collect()));
    }

    fn texts(classes: &[&str]) -> Vec<u8> {
        let mut attribute = message(&[(1, b"classlabels_strings")]);
        classes.iter().for_each(|it| put_bytes(&mut attribute, 9, it.as_bytes()));
        attribute
    }

    #[test]
    fn classes_are_texts_or_numbers_in_either_form_of_a_list() {
        check(&model(&texts(&["a", "ü"]), b""), Some(&["a", "ü"]));
        let mut single = message(&[(1, b"classlabels_int64s")]);
        [300, (-1i64).cast_unsigned()].iter().for_each(|&it| put_number(&mut single, 8, it));
        check(&model(&single, b""), Some(&["300", "-1"]));
        let packed = message(&[(1, b"classlabels_int64s"), (8, &[5, 0xAC, 0x02])]);
        check(&model(&packed, b""), Some(&["5", "300"]));
        check(&model(&texts(&[]), b""), None);
    }

    #[test]
    fn maps_that_another_node_reads_stay() {
        let reader = message(&[(1, &message(&[(1, b"maps"), (2, b"y")]))]);
        check(&model(&texts(&["a"]), &reader), None);
    }

    #[test]
    fn a_label_of_one_number_has_any_number_of_rows() {
        let open = |dims: &[Option<u64>]| {
            let whole = tensor_of(b"label", 7, dims);
            let kind = text_of(&fields(&whole).unwrap(), number::VALUE_TYPE).to_vec();
            as_label(b"label", &kind)
        };
        let any = tensor_of(b"label", 7, &[None]);
        assert_eq!(open(&[Some(1)]), Some(any));
        assert_eq!((open(&[Some(2)]), open(&[None]), open(&[])), (None, None, None));
        assert_eq!(open(&[Some(1), Some(1)]), None);
    }

    #[test]
    fn an_operator_of_that_name_from_elsewhere_stays() {
        let mut foreign = model(&texts(&["a"]), b"");
        let at = foreign.windows(DOMAIN.len()).position(|it| it == DOMAIN).unwrap();
        foreign[at] = b'b';
        check(&foreign, None);
    }

    #[test]
    fn no_file_makes_it_panic() {
        let whole = model(&texts(&["a", "b"]), b"");
        for at in 0..whole.len() {
            unzip(&whole[..at]);
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                unzip(&changed);
            }
        }
    }
}
