//! The signatures of a SavedModel as its file has them: TensorFlow's messages, and the JSON that protobuf makes of them
//! where fields that are not set are written, too.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;

use super::types;
use crate::json::write;

/// `SignatureDefMap` of `get_model_metadata.proto`.
#[derive(Clone, PartialEq, Message)]
struct Definitions {
    #[prost(btree_map = "string, message", tag = "1")]
    signatures: BTreeMap<String, Definition>,
}

/// `SignatureDef` of `meta_graph.proto`.
#[derive(Clone, PartialEq, Message)]
struct Definition {
    #[prost(btree_map = "string, message", tag = "1")]
    inputs: BTreeMap<String, Info>,
    #[prost(btree_map = "string, message", tag = "2")]
    outputs: BTreeMap<String, Info>,
    #[prost(string, tag = "3")]
    method_name: String,
    #[prost(btree_map = "string, message", tag = "4")]
    defaults: BTreeMap<String, Value>,
}

/// `TensorInfo`. Composite tensors have neither a name nor parts that are shown.
#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, tag = "2")]
    dtype: i32,
    #[prost(message, optional, tag = "3")]
    shape: Option<Shape>,
    #[prost(message, optional, tag = "4")]
    sparse: Option<Sparse>,
}

/// `TensorInfo.CooSparse`.
#[derive(Clone, PartialEq, Message)]
struct Sparse {
    #[prost(string, tag = "1")]
    values: String,
    #[prost(string, tag = "2")]
    indices: String,
    #[prost(string, tag = "3")]
    dense_shape: String,
}

/// `tensor_shape.proto`.
#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "2")]
    dims: Vec<Dim>,
    #[prost(bool, tag = "3")]
    unknown_rank: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Dim {
    #[prost(int64, tag = "1")]
    size: i64,
    #[prost(string, tag = "2")]
    name: String,
}

/// `tensor.proto`, but for complex numbers, resources and variants, which are no defaults of inputs.
#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
    #[prost(int32, tag = "3")]
    version: i32,
    #[prost(bytes = "vec", tag = "4")]
    content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    floats: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    doubles: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    integers: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    texts: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "10")]
    long_integers: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    truths: Vec<bool>,
    #[prost(int32, repeated, tag = "13")]
    halves: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    unsigned: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    long_unsigned: Vec<u64>,
    #[prost(bytes = "vec", tag = "18")]
    float8: Vec<u8>,
}

/// Appends the signatures of a serialized `SignatureDefMap` as an object. Nothing where it is none.
pub(super) fn write(out: &mut Vec<u8>, definitions: &[u8]) {
    let definitions = Definitions::decode(definitions).unwrap_or_default();
    object(out, &definitions.signatures, |out, it| {
        write::key(out, "inputs");
        object(out, &it.inputs, info);
        write::key(out, "outputs");
        object(out, &it.outputs, info);
        text(out, "method_name", &it.method_name);
        write::key(out, "defaults");
        object(out, &it.defaults, value);
    });
}

/// An object of objects, whose fields `fields` writes.
fn object<T>(out: &mut Vec<u8>, of: &BTreeMap<String, T>, fields: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'{');
    for (name, it) in of {
        write::key(out, name);
        out.push(b'{');
        fields(out, it);
        out.push(b'}');
    }
    out.push(b'}');
}

fn info(out: &mut Vec<u8>, info: &Info) {
    text(out, "dtype", &type_name(info.dtype));
    shape(out, info.shape.as_ref());
    if let Some(name) = &info.name {
        text(out, "name", name);
    }
    if let Some(Sparse { values, indices, dense_shape }) = &info.sparse {
        write::key(out, "coo_sparse");
        out.push(b'{');
        text(out, "values_tensor_name", values);
        text(out, "indices_tensor_name", indices);
        text(out, "dense_shape_tensor_name", dense_shape);
        out.push(b'}');
    }
}

fn shape(out: &mut Vec<u8>, shape: Option<&Shape>) {
    let Some(shape) = shape else { return };
    write::key(out, "tensor_shape");
    out.extend_from_slice(b"{\"dim\":[");
    for Dim { size, name } in &shape.dims {
        write::item(out);
        out.push(b'{');
        text(out, "size", &size.to_string());
        text(out, "name", name);
        out.push(b'}');
    }
    out.push(b']');
    write::key(out, "unknown_rank");
    write::bool(out, shape.unknown_rank);
    out.push(b'}');
}

fn value(out: &mut Vec<u8>, value: &Value) {
    text(out, "dtype", &type_name(value.dtype));
    shape(out, value.shape.as_ref());
    write::key(out, "version_number");
    write::number(out, value.version);
    text(out, "tensor_content", &STANDARD.encode(&value.content));
    list(out, "half_val", &value.halves, |out, it| write::number(out, *it));
    list(out, "float_val", &value.floats, |out, it| write::number(out, *it));
    list(out, "double_val", &value.doubles, |out, it| write::number(out, *it));
    list(out, "int_val", &value.integers, |out, it| write::number(out, *it));
    list(out, "string_val", &value.texts, |out, it| write::string(out, &STANDARD.encode(it)));
    // 64 bits are texts in protobuf's JSON.
    list(out, "int64_val", &value.long_integers, |out, it| write::string(out, &it.to_string()));
    list(out, "bool_val", &value.truths, |out, it| write::bool(out, *it));
    for key in ["scomplex_val", "dcomplex_val", "resource_handle_val", "variant_val"] {
        list(out, key, &[(); 0], |_, _| ());
    }
    list(out, "uint32_val", &value.unsigned, |out, it| write::number(out, *it));
    list(out, "uint64_val", &value.long_unsigned, |out, it| write::string(out, &it.to_string()));
    text(out, "float8_val", &STANDARD.encode(&value.float8));
}

fn list<T>(out: &mut Vec<u8>, key: &str, values: &[T], one: impl Fn(&mut Vec<u8>, &T)) {
    write::key(out, key);
    out.push(b'[');
    for value in values {
        write::item(out);
        one(out, value);
    }
    out.push(b']');
}

fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    write::key(out, key);
    write::string(out, value);
}

/// References to variables have numbers above their types'.
const REFERENCE: i32 = 100;

fn type_name(number: i32) -> String {
    let (base, ending) = match number {
        ..=REFERENCE => (number, ""),
        _ => (number - REFERENCE, "_REF"),
    };
    let name = match (types::of_number(base), base) {
        (Some(dtype), _) => types::name(dtype),
        (None, 0) => "DT_INVALID",
        (None, 8) => "DT_COMPLEX64",
        (None, 11) => "DT_QINT8",
        (None, 12) => "DT_QUINT8",
        (None, 13) => "DT_QINT32",
        (None, 15) => "DT_QINT16",
        (None, 16) => "DT_QUINT16",
        (None, 18) => "DT_COMPLEX128",
        (None, 20) => "DT_RESOURCE",
        (None, 21) => "DT_VARIANT",
        (None, _) => return number.to_string(),
    };
    format!("{name}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_set_are_written_and_parts_that_are_not_there_are_not() {
        let dims = vec![Dim { size: -1, name: String::new() }];
        let info = |dtype| Info {
            name: Some("x:0".to_owned()),
            dtype,
            shape: Some(Shape { dims: dims.clone(), unknown_rank: false }),
            sparse: None,
        };
        let value = Value { dtype: 9, long_integers: vec![1 << 60], ..Value::default() };
        let definition = Definition {
            inputs: [("x".to_owned(), info(101))].into(),
            outputs: [("y".to_owned(), Info::default())].into(),
            method_name: String::new(),
            defaults: [("x".to_owned(), value)].into(),
        };
        let definitions = Definitions { signatures: [("s".to_owned(), definition)].into() };
        let mut out = Vec::new();
        write(&mut out, &definitions.encode_to_vec());
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let input = &json["s"]["inputs"]["x"];
        assert_eq!((&input["dtype"], &input["name"]), (&"DT_FLOAT_REF".into(), &"x:0".into()));
        assert_eq!(input["tensor_shape"]["dim"][0]["size"], "-1");
        assert_eq!(json["s"]["outputs"]["y"], serde_json::json!({"dtype": "DT_INVALID"}));
        assert_eq!(json["s"]["defaults"]["x"]["int64_val"][0], "1152921504606846976");
        assert_eq!(json["s"]["defaults"]["x"]["float_val"], serde_json::json!([]));
    }
}
