//! JSON as UBJSON, so that what is done to one is done to the other.

use serde_json::Value;

/// A document in UBJSON, without typed arrays.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, value);
    bytes
}

fn push(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.push(b'Z'),
        Value::Bool(it) => bytes.push(if *it { b'T' } else { b'F' }),
        Value::Number(it) => match it.as_i64() {
            Some(it) => {
                bytes.push(b'L');
                bytes.extend(it.to_be_bytes());
            }
            None => {
                bytes.push(b'D');
                bytes.extend(it.as_f64().expect("a float").to_be_bytes());
            }
        },
        Value::String(it) => {
            bytes.push(b'S');
            text(bytes, it);
        }
        Value::Array(members) => {
            bytes.push(b'[');
            members.iter().for_each(|it| push(bytes, it));
            bytes.push(b']');
        }
        Value::Object(fields) => {
            bytes.push(b'{');
            for (key, value) in fields {
                text(bytes, key);
                push(bytes, value);
            }
            bytes.push(b'}');
        }
    }
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b'L');
    bytes.extend((text.len() as i64).to_be_bytes());
    bytes.extend(text.as_bytes());
}
