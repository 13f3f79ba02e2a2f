//! The fields of TensorFlow's messages that are looked at, under their numbers in its `.proto` files; others are
//! skipped.

use std::collections::BTreeMap;

/// `saved_model.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SavedModel {
    #[prost(message, repeated, tag = "2")]
    pub(crate) meta_graphs: Vec<MetaGraph>,
}

/// `meta_graph.proto`: a graph with its tags and signatures.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetaGraph {
    #[prost(message, optional, tag = "1")]
    pub(crate) information: Option<Information>,
    #[prost(message, optional, tag = "2")]
    pub(crate) graph: Option<Graph>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(crate) signatures: BTreeMap<String, SignatureDef>,
}

/// `MetaInfoDef` of `meta_graph.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Information {
    #[prost(string, repeated, tag = "4")]
    pub(crate) tags: Vec<String>,
    #[prost(string, tag = "5")]
    pub(crate) version: String,
}

/// `graph.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<Node>,
    #[prost(message, optional, tag = "2")]
    pub(crate) library: Option<Library>,
}

/// `node_def.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) op: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) inputs: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(crate) attributes: BTreeMap<String, Attribute>,
}

/// `AttrValue` of `attr_value.proto`: the functions that a node calls.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(message, optional, tag = "1")]
    pub(crate) list: Option<Functions>,
    #[prost(message, optional, tag = "10")]
    pub(crate) function: Option<FunctionName>,
}

/// `AttrValue.ListValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Functions {
    #[prost(message, repeated, tag = "9")]
    pub(crate) functions: Vec<FunctionName>,
}

/// `NameAttrList`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FunctionName {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `FunctionDefLibrary` of `function.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Library {
    #[prost(message, repeated, tag = "1")]
    pub(crate) functions: Vec<Function>,
}

/// `FunctionDef`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Function {
    #[prost(message, optional, tag = "1")]
    pub(crate) signature: Option<FunctionName>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) nodes: Vec<Node>,
}

/// `SignatureDef` of `meta_graph.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SignatureDef {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) inputs: BTreeMap<String, TensorInfo>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) outputs: BTreeMap<String, TensorInfo>,
}

/// `TensorInfo`: where a tensor enters or leaves the graph, its type and its shape. The name is empty for sparse and
/// composite tensors.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) shape: Option<TensorShape>,
}

/// `tensor_shape.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dims: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

/// A dimension; -1 where it is open.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}
