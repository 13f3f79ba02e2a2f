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
    #[prost(message, optional, tag = "3")]
    pub(crate) saver: Option<Saver>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) assets: Vec<Asset>,
    /// Each a [`SignatureDef`], as it is written.
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub(crate) signatures: BTreeMap<String, Vec<u8>>,
    /// Lists of names, some of them of nodes.
    #[prost(btree_map = "string, message", tag = "4")]
    pub(crate) collections: BTreeMap<String, Collection>,
}

/// `CollectionDef` of `meta_graph.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Collection {
    #[prost(message, optional, tag = "1")]
    pub(crate) nodes: Option<Names>,
}

/// `CollectionDef.NodeList`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Names {
    #[prost(string, repeated, tag = "1")]
    pub(crate) names: Vec<String>,
}

/// `saver.proto`: where a checkpoint is written and read.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Saver {
    /// The tensor that is the place of the checkpoint.
    #[prost(string, tag = "1")]
    pub(crate) file: String,
    #[prost(string, tag = "2")]
    pub(crate) save: String,
    #[prost(string, tag = "3")]
    pub(crate) restore: String,
}

/// `AssetFileDef` of `meta_graph.proto`: a file in the folder of assets.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Asset {
    /// The tensor that is its place.
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor: Option<TensorInfo>,
    #[prost(string, tag = "2")]
    pub(crate) file: String,
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

/// `AttrValue` of `attr_value.proto`: a text, a switch, the number of a type, and the functions that a node calls.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) text: Vec<u8>,
    #[prost(message, optional, tag = "1")]
    pub(crate) list: Option<Functions>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) switch: Option<bool>,
    #[prost(int32, tag = "6")]
    pub(crate) element: i32,
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
    #[prost(message, repeated, tag = "2")]
    pub(crate) gradients: Vec<Gradient>,
}

/// `GradientDef` of `function.proto`: a function that is run for the gradient of another.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Gradient {
    #[prost(string, tag = "2")]
    pub(crate) function: String,
}

/// `FunctionDef`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Function {
    #[prost(message, optional, tag = "1")]
    pub(crate) signature: Option<FunctionSignature>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(crate) attributes: BTreeMap<String, Attribute>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) nodes: Vec<Node>,
}

/// `OpDef` of `op_def.proto`: a function's name and arguments.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FunctionSignature {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) arguments: Vec<Argument>,
}

/// `OpDef.ArgDef`: an argument, which may stand for a list of tensors.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Argument {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// The attribute with the number of tensors in it.
    #[prost(string, tag = "5")]
    pub(crate) count: String,
    /// The attribute with their types.
    #[prost(string, tag = "6")]
    pub(crate) types: String,
}

/// `SignatureDef` of `meta_graph.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SignatureDef {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) inputs: BTreeMap<String, TensorInfo>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) outputs: BTreeMap<String, TensorInfo>,
    #[prost(string, tag = "3")]
    pub(crate) method: String,
    #[prost(btree_map = "string, message", tag = "4")]
    pub(crate) defaults: BTreeMap<String, TensorValue>,
}

/// `SignatureDefMap` of TensorFlow Serving's `get_model_metadata.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SignatureDefs {
    #[prost(btree_map = "string, bytes", tag = "1")]
    pub(crate) signatures: BTreeMap<String, Vec<u8>>,
}

/// `TensorProto` of `tensor.proto`: a type, a shape, and elements as bytes or by their kind.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorValue {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShape>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    pub(crate) floats: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub(crate) doubles: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    pub(crate) integers: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) texts: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "10")]
    pub(crate) long_integers: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub(crate) truths: Vec<bool>,
    /// The bits of numbers of 16.
    #[prost(int32, repeated, tag = "13")]
    pub(crate) halves: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    pub(crate) unsigned: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    pub(crate) long_unsigned: Vec<u64>,
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
