//! The generate extension: a flat JSON object whose keys are inputs or parameters, and one back whose keys are
//! outputs; alone, or as the one event of a stream.

use std::sync::Arc;

use backend::{DataType, NamedTensor, Shape};

use super::{DecodeError, parameters::Parameters};
use crate::{
    EncodedReply,
    elements::TensorBuilder,
    expansion,
    json::{
        BytesForm, JsonReader, Token,
        write::{self, BytesAs, NotText},
    },
    number::Excerpt,
    reply_size::{self, TextForm},
    typed_outputs,
};
use inference::{
    error::Error,
    grant::Grant,
    messages,
    request::{InferenceRequest, InferenceResponse},
    signature::{Port, Signature},
};

/// How the reply is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One JSON object: `generate`.
    Object,
    /// Server-sent events: `generate_stream`.
    Events,
}

/// Decodes a request. Keys at the top and inside `parameters` that name an input are tensors, `id` is the request's
/// id, and the others are parameters.
///
/// # Errors
/// What is wrong with the request, with the place.
pub fn decode(
    signature: &Signature,
    body: &[u8],
    grant: &Grant,
) -> Result<InferenceRequest, DecodeError> {
    let unnamed = |error| DecodeError { id: None, error };
    expansion::hold_ports(signature, grant).map_err(unnamed)?;
    let mut decoding = Decoding {
        signature,
        request: InferenceRequest::default(),
        parameters: Parameters::of(signature, grant),
        grant,
    };
    match decoding.run(body) {
        Ok(()) => {
            let Decoding { mut request, parameters, .. } = decoding;
            parameters.give_to(&mut request);
            request.outputs = typed_outputs::of_request(signature, &request.inputs);
            Ok(request)
        }
        Err(error) => Err(DecodeError { id: decoding.request.id, error }),
    }
}

struct Decoding<'s> {
    signature: &'s Signature,
    request: InferenceRequest,
    parameters: Parameters<'s>,
    grant: &'s Grant,
}

impl Decoding<'_> {
    fn run(&mut self, body: &[u8]) -> Result<(), Error> {
        JsonReader::request(body, self.grant, |reader| {
            reader.on_repeated_keys(|key| messages::input_exists(&Excerpt(key).to_string()));
            reader.object(|reader, key| match (key.as_ref(), reader.peek()?) {
                ("id" | "parameters", Token::Null) => reader.null(),
                ("id", _) => {
                    let id = reader.string()?;
                    self.request.id = (!id.is_empty()).then(|| reader.shared(&id)).transpose()?;
                    Ok(())
                }
                ("parameters", _) => reader.object(|reader, key| self.value(reader, &key)),
                (key, _) => self.value(reader, key),
            })
        })
    }

    /// The value of a key that is an input or a parameter.
    fn value(&mut self, reader: &mut JsonReader<'_>, key: &str) -> Result<(), Error> {
        let Some(port) = self.signature.input(key) else {
            return self.parameters.read(reader, key);
        };
        if self.request.inputs.iter().any(|it| it.name == port.name) {
            return Err(reader.error(messages::input_exists(key)));
        }
        // A file has no form as text: it is base64, as a string or as `{"b64": ".."}`.
        let form = match self.signature.takes_files(key) {
            true => BytesForm::File,
            false => BytesForm::Text,
        };
        if form == BytesForm::Text {
            check_token(reader, port.dtype)?;
        }
        let place = reader.place();
        let mut builder = TensorBuilder::new(port.dtype, None, self.grant);
        let given = reader.shaped_elements(&mut builder, form)?;
        if given.dims().len() > 1 {
            let expected = "expected one value or a flat array, found nested arrays";
            return Err(reader.error_from(place, expected));
        }
        let input = self.shaped(port, builder)?;
        self.request.inputs.push(input);
        Ok(())
    }

    fn shaped(&self, port: &Port, builder: TensorBuilder<'_>) -> Result<NamedTensor, Error> {
        let batch = self.signature.batches().then_some(None);
        let dims: Vec<Option<usize>> = batch.into_iter().chain(port.dims.iter().copied()).collect();
        let shape = deduce(&dims, builder.count()).ok_or_else(|| {
            let (given, shape) = (builder.count(), self.signature.shape_text(port));
            Error::input(&*port.name, format!("{given} values do not fill the shape {shape}"))
        })?;
        builder.finish_input(port, shape)
    }
}

/// Refuses a value that is neither an array nor of the JSON type of these elements.
fn check_token(reader: &mut JsonReader<'_>, dtype: DataType) -> Result<(), Error> {
    let (wanted, name) = match dtype {
        DataType::Bytes => (Token::String, "string"),
        DataType::Bool => (Token::Bool, "boolean"),
        _ => return Ok(()),
    };
    match reader.peek()? {
        Token::Array => Ok(()),
        found if found == wanted => Ok(()),
        found => Err(reader.error(format_args!("{}, found {found}", messages::wrong_json(name)))),
    }
}

/// The shape of so many values: the innermost dimension of any size takes what the fixed ones leave, and the other
/// ones of any size are 1. `None` where that does not come out even.
fn deduce(dims: &[Option<usize>], values: usize) -> Option<Shape> {
    let fixed = dims.iter().flatten().try_fold(1usize, |product, it| product.checked_mul(*it))?;
    let open = dims.iter().rposition(Option::is_none);
    let rest = values.checked_div(fixed).unwrap_or(0);
    let even = match open {
        Some(_) => rest.checked_mul(fixed)? == values,
        None => fixed == values,
    };
    let size = |(at, dim): (usize, &Option<usize>)| match dim {
        Some(size) => *size,
        None if Some(at) == open => rest,
        None => 1,
    };
    even.then(|| dims.iter().enumerate().map(size).collect())
}

/// Encodes the only response to a request: an output of one element as its value, others as flat arrays.
///
/// # Errors
/// When an output is of bytes that are not UTF-8.
pub fn encode(
    framing: &Framing,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::PLAIN, loose))?;
    let mut json = b"{".to_vec();
    // An output of such a name is what the client asked for.
    let mut say = |key: &str, value: &str| {
        if response.outputs.iter().all(|it| &*it.name != key) {
            write::key(&mut json, key);
            write::string(&mut json, value);
        }
    };
    if let Some(id) = &response.id {
        say("id", id);
    }
    say("model_name", &response.model);
    say("model_version", &response.version.to_string());
    for NamedTensor { name, tensor } in &response.outputs {
        write::key(&mut json, name);
        let written = match tensor.reshape(Shape::default()) {
            Some(scalar) => write::nested(&mut json, &scalar, BytesAs::Text),
            None => write::flat(&mut json, tensor, BytesAs::Text),
        };
        written.map_err(|NotText(element)| not_text(name, element))?;
    }
    json.push(b'}');
    Ok(match framing {
        Framing::Object => EncodedReply::json(json),
        Framing::Events => EncodedReply {
            content_type: "text/event-stream; charset=utf-8".into(),
            json_length: None,
            headers: Vec::new(),
            body: vec!["data: ".into(), json.into(), "\n\n".into()],
        },
    })
}

fn not_text(output: &Arc<str>, element: usize) -> Error {
    Error::InvalidRequest(format!(
        "output '{output}': element {element} of BYTES is not UTF-8 and has no JSON form; ask for it as binary data \
         at the address that ends in /infer"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{model, show};
    use backend::Tensor;

    fn encode(
        framing: &Framing,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(framing, signature, response, &Grant::all(0))
    }

    fn decode(signature: &Signature, body: &[u8]) -> Result<InferenceRequest, DecodeError> {
        super::decode(signature, body, &Grant::all(0))
    }

    fn text_model() -> Signature {
        model(4, &["text BYTES [1]", "ids INT32 [-1,2]", "scale? FP32 [1]"], &["out BYTES [1]"])
    }

    #[track_caller]
    fn check(body: &str, inputs: &str) {
        let request = decode(&text_model(), body.as_bytes()).unwrap_or_else(|it| panic!("{it:?}"));
        assert_eq!(show(&request), inputs);
    }

    #[track_caller]
    fn refused(body: &str, text: &str) {
        let error = decode(&text_model(), body.as_bytes()).unwrap_err().error;
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn values_take_the_shape_of_their_inputs() {
        check(r#"{"text":"a"}"#, "text BYTES [1,1] [\"a\"]\n");
        check(r#"{"text":["a","b"]}"#, "text BYTES [2,1] [\"a\",\"b\"]\n");
        check(r#"{"ids":[1,2,3,4]}"#, "ids INT32 [1,2,2] [1,2,3,4]\n");
        check(r#"{"scale":2,"text":[]}"#, "scale FP32 [1,1] [2.0]\ntext BYTES [0,1] []\n");
    }

    #[test]
    fn shapes_without_open_dimensions_are_filled_exactly() {
        let dims = |dims: &[Option<usize>], values| deduce(dims, values).map(|it| it.to_string());
        assert_eq!(dims(&[Some(2), Some(3)], 6), Some("[2,3]".to_owned()));
        assert_eq!(dims(&[Some(2), Some(3)], 5), None);
        assert_eq!(dims(&[], 1), Some("[]".to_owned()));
        assert_eq!(dims(&[None, Some(2), None], 6), Some("[1,2,3]".to_owned()));
        assert_eq!(dims(&[None, Some(0)], 3), None);
        assert_eq!(dims(&[Some(usize::MAX), Some(2), None], 3), None);
    }

    #[test]
    fn other_keys_are_parameters_also_one_level_down() {
        let body = r#"{"id":"7","text":"a","stream":false,"parameters":{"temperature":0.5,"scale":3,
            "max_tokens":9223372036854775808,"sequence_id":5,"sequence_end":true},"top":[].0}"#;
        assert!(decode(&text_model(), body.as_bytes()).is_err());
        let body = body.replace(",\"top\":[].0", "");
        let request = decode(&text_model(), body.as_bytes()).unwrap();
        assert_eq!(request.id.as_deref(), Some("7"));
        assert_eq!(show(&request), "text BYTES [1,1] [\"a\"]\nscale FP32 [1,1] [3.0]\n");
        let shown: Vec<String> =
            request.parameters.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        let expected = [
            "stream=Bool(false)",
            "temperature=Double(0.5)",
            "max_tokens=Double(9.223372036854776e18)",
        ];
        assert_eq!(shown, expected);
        assert!(request.sequence.is_some_and(|it| it.end && !it.start));
    }

    #[test]
    fn a_file_is_base64() {
        let image = crate::samples::image_model();
        let read = |body: &str| decode(&image, body.as_bytes()).map(|it| it.inputs);
        for body in [r#"{"image":"/9j/"}"#, r#"{"image":{"b64":"/9j/"}}"#] {
            let inputs = read(body).unwrap_or_else(|it| panic!("{it:?}"));
            assert_eq!(inputs[0].tensor.strings().next(), Some(&b"\xff\xd8\xff"[..]));
        }
        let error = read(r#"{"image":"a.jpg"}"#).unwrap_err().error.to_string();
        assert!(error.starts_with("image: expected the bytes of a file as base64"), "{error}");
    }

    #[test]
    fn what_fits_no_input_is_refused_with_the_shape() {
        refused(r#"{"ids":[1,2,3]}"#, "input 'ids': 3 values do not fill the shape [-1,-1,2]");
        refused(
            r#"{"ids":[[1,2],[3,4]]}"#,
            "ids: expected one value or a flat array, found nested arrays, at byte 7",
        );
        refused(r#"{"ids":"x"}"#, "ids: expected an integer for INT32, found a string, at byte 7");
        refused(
            r#"{"text":7}"#,
            "text: attempt to access JSON non-string as string, found a number, at byte 8",
        );
        refused(r#"{"text":"a","text":"b"}"#, "input 'text' already exists in request, at byte 12");
        refused(
            r#"{"text":"a","parameters":{"text":"b"}}"#,
            "parameters.text: input 'text' already exists in request, at byte 33",
        );
        refused(
            r#"{"top":[1]}"#,
            "top: parameter 'top' has invalid type: expected a string, a number or a boolean (a list as the text of its JSON), found an array, \
             at byte 7",
        );
        refused("[]", "expected an object, found an array, at byte 0");
    }

    fn response(outputs: Vec<(&str, Tensor)>) -> InferenceResponse {
        let outputs = outputs.into_iter();
        InferenceResponse {
            model: "m".into(),
            version: 3,
            id: Some("7".into()),
            rows: None,
            outputs: outputs
                .map(|(name, tensor)| NamedTensor { name: name.into(), tensor })
                .collect(),
            timings: None,
            parameters: Vec::new(),
        }
    }

    #[test]
    fn the_reply_is_flat_and_one_element_stands_alone() {
        let response = response(vec![
            ("out", Tensor::from_strings(Shape::new(&[1, 1]), ["a\n"]).unwrap()),
            ("scores", Tensor::from_vec(Shape::new(&[1, 2]), vec![0.5f32, 2.0]).unwrap()),
            ("id", Tensor::from_vec(Shape::new(&[1]), vec![1i32]).unwrap()),
        ]);
        let encode = |framing| encode(&framing, &text_model(), &response).unwrap();
        let json =
            r#"{"model_name":"m","model_version":"3","out":"a\n","scores":[0.5,2.0],"id":1}"#;
        let reply = encode(Framing::Object);
        assert_eq!((&*reply.content_type, reply.body.concat()), ("application/json", json.into()));
        let reply = encode(Framing::Events);
        assert_eq!(reply.content_type, "text/event-stream; charset=utf-8");
        assert_eq!(reply.body.concat(), format!("data: {json}\n\n").into_bytes());
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_by_name() {
        let tensor = Tensor::from_strings(Shape::new(&[1]), [b"\xff"]).unwrap();
        let reply = encode(&Framing::Object, &text_model(), &response(vec![("out", tensor)]));
        let error = reply.unwrap_err().to_string();
        assert!(error.starts_with("output 'out': element 0 of BYTES is not UTF-8"), "{error}");
    }
}
