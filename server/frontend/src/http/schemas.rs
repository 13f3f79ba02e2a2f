//! JSON schemas of elements, and of lists of them in the shape of a tensor.

use backend::DataType;
use serde_json::{Value, json};

use inference::signature::{Port, Signature};

/// An element of that input or output.
pub fn element(signature: &Signature, port: &Port) -> Value {
    let (kind, format) = match port.dtype {
        DataType::Bool => ("boolean", None),
        DataType::Bytes => ("string", None),
        DataType::Fp32 => ("number", Some("float")),
        DataType::Fp64 => ("number", Some("double")),
        DataType::Fp16 | DataType::Bf16 => ("number", None),
        DataType::Int32 => ("integer", Some("int32")),
        DataType::Int64 => ("integer", Some("int64")),
        DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16 => ("integer", None),
    };
    let is_input = signature.inputs.iter().any(|it| it.name == port.name);
    let mut schema = match is_input && signature.takes_missing && kind == "number" {
        // A value that is missing.
        true => json!({"type": [kind, "null"]}),
        false => json!({ "type": kind }),
    };
    if let Some(format) = format {
        schema["format"] = format.into();
    }
    schema
}

/// Lists of such elements in these dimensions, or the element itself where there are none.
pub fn nested(dims: &[Option<usize>], element: Value) -> Value {
    dims.iter().rev().fold(element, |items, dim| match dim {
        Some(size) => json!({"type": "array", "items": items, "minItems": size, "maxItems": size}),
        None => json!({"type": "array", "items": items}),
    })
}

/// That value in lists of these dimensions, of which those of any size are 1.
pub fn filled(dims: &[Option<usize>], value: Value) -> Value {
    dims.iter().rev().fold(value, |item, dim| Value::Array(vec![item; dim.unwrap_or(1)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_shape_of_the_tensor() {
        let schema = nested(&[None, Some(2)], json!({"type": "number"}));
        assert_eq!(schema["items"]["maxItems"], 2);
        assert!(schema.get("maxItems").is_none() && schema["items"]["items"]["type"] == "number");
        assert_eq!(filled(&[None, Some(2)], json!(0)), json!([[0, 0]]));
        assert_eq!((nested(&[], json!(1)), filled(&[], json!(1))), (json!(1), json!(1)));
    }
}
