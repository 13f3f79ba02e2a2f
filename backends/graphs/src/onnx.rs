//! The messages of an ONNX model that graphs here are made of: the fields of `onnx.proto3`, ONNX 1.17, that are used.

use prost::Message;

/// The opset of graphs that are written: the first that has `Gelu`.
pub(crate) const OPSET: i64 = 20;

/// The version of the file format that goes with it.
const IR_VERSION: i64 = 9;

/// The domain of ONNX Runtime's own operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// `TensorProto.DataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Int32 = 6,
    Int64 = 7,
    Float16 = 10,
    Bfloat16 = 16,
}

impl ElementType {
    /// Bytes of a number.
    pub(crate) fn size(self) -> usize {
        match self {
            ElementType::Uint8 | ElementType::Int8 => 1,
            ElementType::Float16 | ElementType::Bfloat16 => 2,
            ElementType::Float | ElementType::Int32 => 4,
            ElementType::Int64 => 8,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(string, tag = "2")]
    producer_name: String,
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<Opset>,
    #[prost(message, repeated, tag = "14")]
    metadata_props: Vec<Entry>,
}

impl Model {
    pub(crate) fn new(graph: Graph, metadata: Option<(&str, &str)>) -> Model {
        let opset = |domain: &str, version| Opset { domain: domain.to_owned(), version };
        Model {
            ir_version: IR_VERSION,
            producer_name: "muster".to_owned(),
            graph: Some(graph),
            opset_import: vec![opset("", OPSET), opset(MICROSOFT, 1)],
            metadata_props: metadata
                .into_iter()
                .map(|(key, value)| Entry::new(key, value))
                .collect(),
        }
    }
}

impl Model {
    /// Nothing but that tensor: behind another model's bytes it is one more of its graph, since that is what a field
    /// means that comes twice.
    pub(crate) fn with_tensor(tensor: Tensor) -> Model {
        let graph = Graph { initializer: vec![tensor], ..Graph::default() };
        Model { graph: Some(graph), ..Model::default() }
    }

    /// Its graph.
    pub(crate) fn graph_mut(&mut self) -> Option<&mut Graph> {
        self.graph.as_mut()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Opset {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(float, optional, tag = "2")]
    f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    s: Option<Vec<u8>>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    r#type: i32,
}

impl Attribute {
    pub(crate) fn float(name: &str, value: f32) -> Attribute {
        Attribute { name: name.to_owned(), f: Some(value), r#type: 1, ..Attribute::default() }
    }

    pub(crate) fn int(name: &str, value: i64) -> Attribute {
        Attribute { name: name.to_owned(), i: Some(value), r#type: 2, ..Attribute::default() }
    }

    pub(crate) fn text(name: &str, value: &str) -> Attribute {
        let s = Some(value.as_bytes().to_vec());
        Attribute { name: name.to_owned(), s, r#type: 3, ..Attribute::default() }
    }

    pub(crate) fn ints(name: &str, values: &[i64]) -> Attribute {
        let ints = values.to_vec();
        Attribute { name: name.to_owned(), ints, r#type: 7, ..Attribute::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    external_data: Vec<Entry>,
    #[prost(int32, tag = "14")]
    data_location: i32,
}

impl Tensor {
    /// One whose bytes lie in the graph, in little endian.
    pub(crate) fn inside(name: &str, element: ElementType, dims: &[i64], data: Vec<u8>) -> Tensor {
        Tensor {
            dims: dims.to_vec(),
            data_type: element as i32,
            name: name.to_owned(),
            raw_data: data,
            ..Tensor::default()
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One whose bytes lie in a file beside the graph.
    pub(crate) fn outside(
        name: &str,
        element: ElementType,
        dims: &[i64],
        place: &crate::place::TensorLocation,
    ) -> Tensor {
        Tensor {
            dims: dims.to_vec(),
            data_type: element as i32,
            name: name.to_owned(),
            external_data: vec![
                Entry::new("location", &place.file),
                Entry::new("offset", &place.offset.to_string()),
                Entry::new("length", &place.length.to_string()),
            ],
            data_location: 1,
            ..Tensor::default()
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl Entry {
    fn new(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    r#type: Option<Type>,
}

impl ValueInfo {
    /// A tensor; a dimension is a number, or a name where it may have any length.
    pub(crate) fn new(name: &str, element: ElementType, dims: &[Dim<'_>]) -> ValueInfo {
        let dim = dims.iter().map(|it| match it {
            Dim::Fixed(value) => Dimension { value: Some(*value as i64), parameter: None },
            Dim::Any(name) => Dimension { value: None, parameter: Some((*name).to_owned()) },
        });
        let shape = Some(Shape { dim: dim.collect() });
        let tensor_type = Some(TensorType { elem_type: element as i32, shape });
        ValueInfo { name: name.to_owned(), r#type: Some(Type { tensor_type }) }
    }
}

impl ValueInfo {
    /// Is its first dimension of any length, under that name?
    pub(crate) fn begins_with(&self, name: &str) -> bool {
        let tensor = self.r#type.as_ref().and_then(|it| it.tensor_type.as_ref());
        let first = tensor.and_then(|it| it.shape.as_ref()?.dim.first());
        first.is_some_and(|it| it.parameter.as_deref() == Some(name))
    }
}

/// A dimension of an input or an output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dim<'a> {
    Fixed(usize),
    Any(&'a str),
}

#[derive(Clone, PartialEq, Message)]
struct Type {
    #[prost(message, optional, tag = "1")]
    tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorType {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
struct Dimension {
    #[prost(int64, optional, tag = "1")]
    value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    parameter: Option<String>,
}
