//! Requests and replies of KServe v2, with golden files, and properties of both.

mod golden;

use std::time::Duration;

use backend::{DataType, NamedTensor, Shape, Tensor};
use proptest::prelude::*;

use super::*;
use crate::EncodedReply;
use inference::{
    error::Error,
    request::{InferenceResponse, Parameter, Sequence, SequenceId},
    signature::{Named, Port, Signature},
};

fn encode(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    super::encode(format, signature, response, &Grant::all(0))
}

fn decode(
    signature: &Signature,
    header_length: Option<usize>,
    body: Bytes,
) -> Result<(InferenceRequest, ReplyFormat), DecodeError> {
    super::decode(signature, header_length, body, &Grant::all(0))
}

/// A model with an input and an output of each type, `[-1]`, named by it in lower case.
fn sample(max_batch_size: usize) -> Signature {
    let port = |dtype: DataType| Port {
        name: dtype.name().to_lowercase().into(),
        dtype,
        dims: vec![None],
        any_rank: false,
        scalar: false,
        optional: true,
        labels: ["cat".to_owned(), "dog".to_owned()].into(),
        text_codes: Default::default(),
    };
    let ports: Vec<Port> = DataType::ALL.into_iter().map(port).collect();
    let (inputs, outputs) = (ports.clone(), ports);
    let most_rows = Some(max_batch_size);
    Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: "sample".into(),
        version: 3,
        max_batch_size,
        most_rows,
        inputs,
        outputs,
        on_request: Vec::new(),
        pipeline: None,
    }
}

/// A model with one input.
fn single(dtype: DataType, dims: &[Option<usize>], max_batch_size: usize) -> Signature {
    let mut signature = sample(max_batch_size);
    signature.inputs.retain(|it| it.dtype == dtype);
    signature.inputs[0].dims = dims.to_vec();
    signature
}

fn json(body: &str) -> Result<(InferenceRequest, ReplyFormat), Error> {
    decode(&sample(8), None, Bytes::copy_from_slice(body.as_bytes())).map_err(|it| it.error)
}

/// JSON and what lies behind it.
fn mixed(body: &str, tail: &[u8]) -> Result<(InferenceRequest, ReplyFormat), Error> {
    let whole = [body.as_bytes(), tail].concat();
    decode(&sample(8), Some(body.len()), whole.into()).map_err(|it| it.error)
}

#[track_caller]
fn refused(body: &str, text: &str) {
    assert_eq!(json(body).unwrap_err().to_string(), text, "{body}");
}

#[track_caller]
fn input_refused(input: &str, text: &str) {
    refused(&format!("{{\"inputs\":[{input}]}}"), text);
}

/// The model's answer when it gives back what it was given.
fn echo(request: &InferenceRequest) -> InferenceResponse {
    let wanted =
        |it: &&NamedTensor| request.outputs.is_empty() || request.outputs.contains(&it.name);
    InferenceResponse {
        model: "sample".into(),
        version: 3,
        id: request.id.clone(),
        rows: None,
        outputs: request.inputs.iter().filter(wanted).cloned().collect(),
        timings: None,
        parameters: Vec::new(),
    }
}

/// What a client reads back from a reply: the request that would send the same tensors.
fn resend(reply: &EncodedReply) -> (Option<usize>, Bytes) {
    let length = reply.json_length;
    let body = reply.body.concat();
    let (json, tail) = body.split_at(length.unwrap_or(body.len()));
    // By text: serde_json does not keep all digits of a number.
    let (_, outputs) = std::str::from_utf8(json).unwrap().split_once("\"outputs\":").unwrap();
    let request = format!("{{\"inputs\":{outputs}");
    (length.map(|_| request.len()), [request.as_bytes(), tail].concat().into())
}

#[test]
fn keys_may_come_in_any_order() {
    let first =
        r#"{"id":"a","inputs":[{"name":"fp32","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;
    let last =
        r#"{"inputs":[{"data":[[1,2]],"datatype":"FP32","shape":[1,2],"name":"fp32"}],"id":"a"}"#;
    let values =
        |body| json(body).unwrap().0.inputs[0].tensor.as_slice_of::<f32>().unwrap().to_vec();
    assert_eq!(values(first), [1.0, 2.0]);
    assert_eq!(values(last), [1.0, 2.0]);
    let outputs =
        r#"{"outputs":[{"name":"fp32"}],"inputs":[],"parameters":{"binary_data_output":true}}"#;
    assert!(json(outputs).unwrap().1.of("fp32").binary);
}

#[test]
fn request_parameters_reach_the_request() {
    let body = r#"{"parameters":{"priority":2,"timeout":1500,"sequence_id":"s","sequence_start":true,
        "mine":1.5,"yours":"x","whole":-3,"on":true},"inputs":[],"id":"","model_name":"kserve"}"#;
    let (request, format) = json(body).unwrap();
    assert_eq!((request.priority, request.id), (2, None));
    assert_eq!(request.queue_timeout, Some(Duration::from_micros(1500)));
    let id = SequenceId::Text("s".into());
    assert_eq!(request.sequence, Some(Sequence { id, start: true, end: false }));
    let custom = [
        ("mine".into(), Parameter::Double(1.5)),
        ("yours".into(), Parameter::Text("x".into())),
        ("whole".into(), Parameter::Int(-3)),
        ("on".into(), Parameter::Bool(true)),
    ];
    assert_eq!(request.parameters, custom);
    assert_eq!(format, ReplyFormat::default());
}

#[test]
fn zero_and_the_empty_text_are_no_sequence() {
    let sequence = |id: &str| {
        let body =
            format!(r#"{{"inputs":[],"parameters":{{"sequence_end":true,"sequence_id":{id}}}}}"#);
        json(&body).unwrap().0.sequence
    };
    let number = |id| Some(Sequence { id: SequenceId::Number(id), start: false, end: true });
    assert_eq!(sequence("18446744073709551615"), number(u64::MAX));
    assert_eq!((sequence("0"), sequence("\"\"")), (None, None));
}

#[test]
fn what_a_client_leaves_out_may_be_null() {
    assert!(json(r#"{"id":null,"parameters":null,"outputs":null,"inputs":[]}"#).is_ok());
}

#[test]
fn a_request_has_so_many_parameters_and_no_more() {
    let body = |count: usize| {
        let parameters: Vec<String> = (0..count).map(|it| format!("\"{it}\":0")).collect();
        format!("{{\"inputs\":[],\"parameters\":{{{}}}}}", parameters.join(","))
    };
    assert!(json(&body(1 << 14)).is_ok());
    let error = json(&body((1 << 14) + 1)).unwrap_err();
    assert!(error.to_string().contains("expected at most 16384 parameters"), "{error}");
    let long = format!(r#"{{"parameters":{{"{}":1}},"inputs":[]}}"#, "n".repeat(1025));
    let error = json(&long).unwrap_err();
    assert!(error.to_string().contains("of at most 1024 bytes, found 1025"), "{error}");
}

#[test]
fn the_name_of_a_signature_is_a_text_and_any_parameter_where_signatures_have_no_names() {
    let own = sample(8);
    let index = 0;
    let (name, others, unusable) = ("serving_default".into(), [].into(), [].into());
    let definitions = Bytes::new();
    let named = Named { name, index, method: None, others, unusable, definitions };
    let named = Signature { named: Some(named), ..sample(8) };
    let decoded = |signature: &Signature, value: &str| {
        let body = format!(r#"{{"inputs":[],"parameters":{{"signature_name":{value}}}}}"#);
        let decoded = decode(signature, None, Bytes::from(body));
        decoded.map(|it| it.0.parameters).map_err(|it| it.error.to_string())
    };
    assert_eq!(decoded(&named, r#""serving_default""#), Ok(Vec::new()));
    let error = decoded(&named, "5").unwrap_err();
    assert!(error.starts_with("parameters.signature_name: expected a string"), "{error}");
    assert_eq!(decoded(&own, "5"), Ok(vec![("signature_name".into(), Parameter::Int(5))]));
}

#[test]
fn parameters_of_the_wrong_kind_are_refused() {
    let check = |parameters: &str, text: &str| {
        refused(&format!("{{\"inputs\":[],\"parameters\":{{{parameters}}}}}"), text);
    };
    check(
        r#""triton_x":1"#,
        "parameters.triton_x: parameters that begin with 'triton_' are reserved, at byte 38",
    );
    check(
        r#""x":[]"#,
        "parameters.x: parameter 'x' has invalid type: expected a string, a number or a boolean (a list as the text of its JSON), found an array, \
         at byte 31",
    );
    check(
        r#""sequence_id":true"#,
        "parameters.sequence_id: expected an integer >= 0 or a string, found a boolean, at byte 41",
    );
    check(r#""sequence_id":-1"#, "parameters.sequence_id: -1 does not fit UINT64, at byte 41");
    check(
        r#""sequence_start":1"#,
        "parameters.sequence_start: expected true or false, found '1', at byte 44",
    );
    check(r#""priority":-1"#, "parameters.priority: -1 does not fit UINT64, at byte 38");
}

#[test]
fn unknown_and_repeated_names_are_refused_with_what_was_meant() {
    let model = single(DataType::Fp32, &[None], 8);
    let body = r#"{"inputs":[{"name":"FP23","shape":[1],"datatype":"FP32","data":[1]}]}"#;
    let error = decode(&model, None, Bytes::from_static(body.as_bytes())).unwrap_err().error;
    let expected = "unexpected inference input 'FP23' for model 'sample'; did you mean 'fp32'? \
                    expected one of: 'fp32'";
    assert_eq!(error.to_string(), expected);
    let twice = r#"{"name":"bool","shape":[0],"datatype":"BOOL"}"#;
    input_refused(&format!("{twice},{twice}"), "input 'bool' already exists in request");
    refused(
        r#"{"inputs":[],"outputs":[{"name":"fp32"},{"name":"fp32"}]}"#,
        "output 'fp32' already exists in request: Duplicate output name 'fp32' is not allowed in a request",
    );
    let error = json(r#"{"inputs":[],"outputs":[{"name":"fp23"}]}"#).unwrap_err().to_string();
    let expected = "unexpected inference output 'fp23' for model 'sample'; did you mean 'fp32'?";
    assert!(error.starts_with(expected), "{error}");
    refused(
        r#"{"inputs":[],"output":[]}"#,
        "output: unknown key; did you mean 'outputs'? \
         expected one of: 'id', 'parameters', 'inputs', 'outputs', at byte 22",
    );
}

#[test]
fn an_input_says_what_it_lacks() {
    input_refused(r#"{"shape":[1]}"#, "inputs[0]: expected the key 'name', found none, at byte 11");
    input_refused(
        r#"{"name":"fp32","datatype":"FP32","data":[1]}"#,
        "inputs[0]: expected the key 'shape' of input 'fp32', which is [-1,-1], at byte 11",
    );
    input_refused(
        r#"{"name":"fp32","shape":[1],"data":[1]}"#,
        "inputs[0]: expected the key 'datatype' of input 'fp32': \"FP32\", at byte 11",
    );
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"FP32"}"#,
        "input 'fp32': expected one of data, binary_data_size, shared_memory_region; given none",
    );
    refused("{}", "expected the key 'inputs', found none");
    let no_json = "failed to parse the request JSON buffer: expected an object, found";
    refused("", &format!("{no_json} the end, at byte 0"));
    refused("whatever", &format!("{no_json} 'whatever', at byte 0"));
}

#[test]
fn an_input_gives_its_data_once() {
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":4}}"#,
        "input 'fp32': expected one of data, binary_data_size, shared_memory_region; \
         given data, binary_data_size",
    );
    let shared = r#"{"inputs":[{"name":"fp32","shape":[1],"datatype":"FP32","parameters":
        {"shared_memory_region":"r","shared_memory_byte_size":4}}]}"#;
    let (request, format) = json(shared).unwrap();
    assert!(request.inputs.is_empty() && format.shared.is_some());
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"FP32","data":[1],"parameters":
        {"shared_memory_region":"r","shared_memory_byte_size":4}}"#,
        "input 'fp32': expected one of data, binary_data_size, shared_memory_region; \
         given data, shared_memory_region",
    );
}

#[test]
fn an_input_in_shared_memory_is_a_place_until_its_bytes_are_there() {
    let input = |dtype: &str, size: usize| {
        let name = dtype.to_lowercase();
        let parameters = format!(
            r#"{{"shared_memory_region":"r","shared_memory_offset":8,"shared_memory_byte_size":{size}}}"#
        );
        let input = format!(
            r#"{{"name":"{name}","shape":[2,1],"datatype":"{dtype}","parameters":{parameters}}}"#
        );
        let decoded = json(&format!("{{\"inputs\":[{input}]}}")).map_err(|it| it.to_string())?;
        let parts = decoded.1.shared.unwrap();
        Ok::<_, String>(parts.inputs.into_iter().next().unwrap())
    };
    let read = input("FP32", 8).unwrap();
    assert_eq!(read.part, RegionPart { region: "r".to_owned(), offset: 8, byte_size: 8 });
    let tensor = read.tensor(Bytes::from_static(&[0; 8])).unwrap().tensor;
    assert_eq!(tensor.shape(), &Shape::new(&[2, 1]));
    let error = input("FP32", 12).unwrap_err();
    let expected = "input byte size mismatch for input 'fp32' for model 'sample'. Expected 8, got 12 as \
         shared_memory_byte_size; it is FP32 of shape [2,1]";
    assert_eq!(error, expected);
    // Only the bytes themselves say whether they are strings, or truth values.
    let strings = input("BYTES", 10).unwrap();
    let good = Bytes::from_static(b"\x01\0\0\0a\x01\0\0\0b");
    assert_eq!(strings.clone().tensor(good).unwrap().tensor.strings().count(), 2);
    let error = strings.tensor(Bytes::from_static(b"\x09\0\0\0a\x01\0\0\0b")).unwrap_err();
    assert!(error.to_string().contains("element 0 of the BYTES data"), "{error}");
    let error = input("BOOL", 2).unwrap().tensor(Bytes::from_static(&[1, 2])).unwrap_err();
    assert!(error.to_string().contains("element 1 of BOOL data is the byte 2"), "{error}");
}

#[test]
fn a_region_comes_with_its_size() {
    let shared = r#""parameters":{"shared_memory_region":"r"}"#;
    let text = "expected the parameter shared_memory_byte_size beside shared_memory_region 'r', found none";
    input_refused(
        &format!(r#"{{"name":"fp32","shape":[1],"datatype":"FP32",{shared}}}"#),
        &format!("'fp32': {text}"),
    );
    refused(
        &format!(r#"{{"inputs":[],"outputs":[{{"name":"fp32",{shared}}}]}}"#),
        &format!("'fp32': {text}"),
    );
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"FP32","parameters":{"shared_memory_offset":-1}}"#,
        "inputs[0].parameters.shared_memory_offset: -1 does not fit UINT64, at byte 93",
    );
}

#[test]
fn an_output_in_shared_memory_has_no_data_in_the_reply_and_no_other_form() {
    let ask = |more: &str, parameters: &str| {
        json(&format!(
            r#"{{"inputs":[],"parameters":{{{parameters}}},"outputs":[{{"name":"fp32","parameters":
            {{"shared_memory_region":"r","shared_memory_byte_size":4{more}}}}}]}}"#
        ))
    };
    for parameters in ["", r#""binary_data_output":true"#] {
        let (_, format) = ask("", parameters).unwrap();
        let place = RegionPart { region: "r".to_owned(), offset: 0, byte_size: 4 };
        assert_eq!(format.shared.as_ref().unwrap().outputs, [("fp32".into(), place)]);
        let tensor = Tensor::zeros(DataType::Fp32, Shape::new(&[1, 1])).unwrap();
        let outputs = vec![NamedTensor { name: "fp32".into(), tensor }];
        let response = InferenceResponse {
            model: "m".into(),
            version: 1,
            id: None,
            rows: None,
            outputs,
            timings: None,
            parameters: Vec::new(),
        };
        let reply = encode(&format, &sample(8), &response).unwrap();
        let expected = r#"{"model_name":"m","model_version":"1","outputs":[{"name":"fp32","datatype":"FP32","shape":[1,1]}]}"#;
        assert_eq!(String::from_utf8(reply.body.concat()).unwrap(), expected);
    }
    assert!(ask(r#","binary_data":false,"classification":0"#, "").is_ok());
    for (more, other) in
        [(r#","binary_data":true"#, "binary_data"), (r#","classification":2"#, "classification")]
    {
        let error = ask(more, "").unwrap_err().to_string();
        let expected =
            format!("output 'fp32': expected one of {other}, shared_memory_region; given both");
        assert_eq!(error, expected);
    }
}

#[test]
fn type_shape_and_data_must_agree() {
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"INT64","data":["x"]}"#,
        "inference input 'fp32' data-type is 'INT64', but model 'sample' expects 'FP32'",
    );
    input_refused(
        r#"{"name":"fp32","shape":[2,3],"datatype":"FP32","data":[1,2,3,4,5]}"#,
        "Unable to parse 'data': Shape does not match true shape of 'data' field: input 'fp32', shape [2,3] has 6 \
         elements, data has 5",
    );
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"FP32","data":[1,2,3]}"#,
        "Unable to parse 'data': Shape does not match true shape of 'data' field: input 'fp32', shape [1] has 1 \
         elements, data has 3",
    );
    input_refused(
        r#"{"name":"fp32","shape":[1,-1],"datatype":"FP32","data":[1]}"#,
        "inputs[0].shape[1]: expected an integer >= 0, found '-1', at byte 37",
    );
    input_refused(
        r#"{"name":"fp32","shape":[4294967296,4294967296],"datatype":"FP32","data":[1]}"#,
        "input 'fp32': the shape [4294967296,4294967296] causes total element count to exceed maximum size of \
         18446744073709551615",
    );
    input_refused(
        r#"{"name":"fp32","shape":[4,1152921504606846978],"datatype":"FP32","data":[1]}"#,
        "byte size overflow for input 'fp32': the shape [4,1152921504606846978]",
    );
    input_refused(
        r#"{"name":"fp32","shape":[1],"datatype":"FP23","data":[1]}"#,
        "inputs[0].datatype: unknown datatype 'FP23'; did you mean 'FP32'? expected one of: 'BOOL', \
         'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64', 'FP16', 'BF16', \
         'FP32', 'FP64', 'BYTES', at byte 49",
    );
    input_refused(
        r#"{"data":[1,[2,true]],"name":"fp32","shape":[3],"datatype":"FP32"}"#,
        "inputs[0].data[1][1]: expected a number for FP32, found 'true', at byte 25",
    );
}

#[test]
fn a_shape_without_elements_needs_no_data() {
    for data in
        ["", r#","data":[]"#, r#","data":[[],[]]"#, r#","parameters":{"binary_data_size":0}"#]
    {
        let input = format!(r#"{{"name":"bytes","shape":[2,0],"datatype":"BYTES"{data}}}"#);
        let (request, _) = json(&format!("{{\"inputs\":[{input}]}}")).unwrap();
        assert_eq!(request.inputs[0].tensor.elements(), 0);
    }
}

const TWO: &str = r#"{"inputs":[
    {"name":"int16","shape":[2],"datatype":"INT16","parameters":{"binary_data_size":4}},
    {"name":"fp32","shape":[1],"datatype":"FP32","data":[0.5]},
    {"name":"bytes","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}]}"#;

#[test]
fn binary_tensors_are_slices_of_the_body_in_input_order() {
    let body: Bytes = [TWO.as_bytes(), &[1, 0, 2, 0, 1, 0, 0, 0, b'x']].concat().into();
    let (request, _) = decode(&sample(8), Some(TWO.len()), body.clone()).unwrap();
    let names: Vec<&str> = request.inputs.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["int16", "fp32", "bytes"]);
    let data = request.inputs[0].tensor.contiguous().unwrap();
    assert_eq!(data.as_ptr(), body[TWO.len()..].as_ptr());
    assert_eq!(request.inputs[2].tensor.strings().collect::<Vec<_>>(), [b"x"]);
}

#[test]
fn binary_data_must_be_there_and_nothing_else() {
    let text = |tail: &[u8]| mixed(TWO, tail).unwrap_err().to_string();
    assert_eq!(text(&[0; 3]), "input 'int16': binary_data_size is 4, the body has 3 bytes for it");
    assert_eq!(
        text(&[1, 0, 2, 0, 1, 0, 0, 0, b'x', 7]),
        "1 bytes are left in the body behind the JSON and the binary inputs"
    );
    assert_eq!(
        text(&[1, 0, 2, 0, 2, 0, 0, 0, b'x']),
        "input 'bytes': element 0 of the BYTES data, at offset 0, reaches past the end (5 bytes)"
    );
    refused(
        TWO,
        "input 'int16': binary_data_size is 4, the body has 0 bytes for it \
         (no inference-header-content-length)",
    );
    let short = TWO.replace("\"shape\":[2]", "\"shape\":[3]");
    let error = mixed(&short, &[0; 9]).unwrap_err().to_string();
    assert_eq!(
        error,
        "input byte size mismatch for input 'int16' for model 'sample'. Expected 6, got 4; it is INT16 of shape [3]"
    );
    let bool = r#"{"inputs":[{"name":"bool","shape":[2],"datatype":"BOOL","parameters":{"binary_data_size":2}}]}"#;
    let error = mixed(bool, &[1, 2]).unwrap_err().to_string();
    assert_eq!(error, "input 'bool': element 1 of BOOL data is the byte 2, expected 0 or 1");
}

#[test]
fn the_header_length_is_a_number_within_the_body() {
    assert_eq!(parse_header_length(" 12 ", 12), Ok(12));
    for bad in ["", "x", "-1", "+1", "1.0", "99999999999999999999999"] {
        assert!(parse_header_length(bad, 100).is_err(), "{bad}");
    }
    let error = parse_header_length("13", 12).unwrap_err().to_string();
    let expected = "inference-header-content-length: 13 bytes of JSON announced, the body has 12";
    assert_eq!(error, expected);
    assert!(decode(&sample(8), Some(3), Bytes::from_static(b"{}")).is_err());
}

#[test]
fn a_raw_request_is_one_row_of_the_single_input() {
    let shape = |dims: &[Option<usize>], batch, body: &'static [u8]| {
        let signature = single(DataType::Int16, dims, batch);
        let decoded = decode(&signature, Some(0), Bytes::from_static(body));
        let (request, format) = decoded.map_err(|it| it.error.to_string())?;
        assert!(format.of("anything").binary);
        Ok::<_, String>(request.inputs[0].tensor.shape().dims().to_vec())
    };
    assert_eq!(shape(&[None, Some(2)], 8, &[0; 12]), Ok(vec![1, 3, 2]));
    assert_eq!(shape(&[Some(6)], 0, &[0; 12]), Ok(vec![6]));
    assert_eq!(shape(&[], 0, &[0; 2]), Ok(vec![]));
    let refused = |dims: &[Option<usize>], body, text: &str| {
        let error = shape(dims, 8, body).unwrap_err();
        assert_eq!(error, format!("input 'int16': in a raw request, {text}"));
    };
    refused(&[Some(2)], &[0; 5], "expected 4 bytes for INT16 [2], given 5");
    refused(&[None, Some(2)], &[0; 6], "expected a multiple of 4 bytes for INT16 [-1,2], given 6");
    refused(
        &[None, None],
        &[0; 4],
        "The shape of the raw input 'int16' can not be deduced because there are more than one variable-sized \
         dimension: INT16 [-1,-1]",
    );
    refused(&[None, Some(0)], &[0; 4], "expected a multiple of 0 bytes for INT16 [-1,0], given 4");
}

#[test]
fn a_raw_string_has_no_prefix() {
    let signature = single(DataType::Bytes, &[Some(1)], 8);
    let (request, _) = decode(&signature, Some(0), Bytes::from_static(b"hello")).unwrap();
    let tensor = &request.inputs[0].tensor;
    assert_eq!(
        (tensor.shape().dims(), tensor.strings().next()),
        (&[1, 1][..], Some(&b"hello"[..]))
    );
    let signature = single(DataType::Bytes, &[Some(2)], 8);
    let error = decode(&signature, Some(0), Bytes::from_static(b"hello")).unwrap_err().error;
    let opening = "For BYTE datatype raw input 'bytes', the model must have input shape [1]";
    assert!(error.to_string().contains(opening), "{error}");
}

#[test]
fn a_raw_request_to_a_model_of_many_inputs_is_refused_with_their_names() {
    let error =
        decode(&sample(8), Some(0), Bytes::from_static(b"x")).unwrap_err().error.to_string();
    assert!(
        error.contains("but got 14 inputs in 'sample' model configuration: 'bool' BOOL [-1,-1], 'uint8' UINT8 [-1,-1]"),
        "{error}"
    );
}

#[test]
fn an_error_knows_the_id_that_came_before_it() {
    let body = Bytes::from_static(br#"{"id":"7","inputs":[{}]}"#);
    assert_eq!(decode(&sample(8), None, body).unwrap_err().id.as_deref(), Some("7"));
}

#[test]
fn bytes_that_are_no_text_have_no_json_form() {
    let tensor = Tensor::from_strings(Shape::new(&[1]), [b"\xff"]).unwrap();
    let outputs = vec![NamedTensor { name: "bytes".into(), tensor }];
    let response = InferenceResponse {
        model: "m".into(),
        version: 1,
        id: None,
        rows: None,
        outputs,
        timings: None,
        parameters: Vec::new(),
    };
    let error = encode(&ReplyFormat::default(), &sample(8), &response).unwrap_err().to_string();
    let expected = "output 'bytes': element 0 of BYTES is not UTF-8 and has no JSON form; \
                    ask for it with \"binary_data\": true";
    assert_eq!(error, expected);
    let format = ReplyFormat { binary_by_default: true, ..ReplyFormat::default() };
    assert!(encode(&format, &sample(8), &response).is_ok());
}

#[test]
fn binary_outputs_without_bytes_make_a_json_reply() {
    let tensor = Tensor::zeros(DataType::Fp32, Shape::new(&[0, 2])).unwrap();
    let outputs = vec![NamedTensor { name: "fp32".into(), tensor }];
    let response = InferenceResponse {
        model: "m".into(),
        version: 1,
        id: None,
        rows: None,
        outputs,
        timings: None,
        parameters: Vec::new(),
    };
    let format = ReplyFormat { binary_by_default: true, ..ReplyFormat::default() };
    let reply = encode(&format, &sample(8), &response).unwrap();
    assert_eq!(
        (&*reply.content_type, reply.json_length, reply.body.len()),
        ("application/json", None, 1)
    );
}

/// Tensors of each type with finite values, and text for strings.
fn any_tensors() -> impl Strategy<Value = Vec<NamedTensor>> {
    let tensor = |dtype: DataType, values: Vec<u64>, texts: Vec<String>| {
        let data: Vec<u8> = match dtype.size() {
            None => backend::encode_strings(&texts).to_vec(),
            Some(size) => values
                .iter()
                .flat_map(|value| {
                    // Without the bits that make a float infinite or NaN.
                    let value = match dtype {
                        DataType::Bool => value & 1,
                        DataType::Fp16 => value & 0xbfff,
                        DataType::Bf16 => value & 0xbfff,
                        DataType::Fp32 => value & 0xbfff_ffff,
                        DataType::Fp64 => value & 0xbfff_ffff_ffff_ffff,
                        _ => *value,
                    };
                    value.to_le_bytes().into_iter().take(size)
                })
                .collect(),
        };
        let rows = if dtype == DataType::Bytes { texts.len() } else { values.len() };
        let tensor = Tensor::new(dtype, Shape::new(&[rows, 1]), data.into()).unwrap();
        NamedTensor { name: dtype.name().to_lowercase().into(), tensor }
    };
    let values = prop::collection::vec(any::<u64>(), 0..6);
    let texts = prop::collection::vec(any::<String>(), 0..6);
    prop::collection::vec((values, texts), 14).prop_map(move |parts| {
        let parts = DataType::ALL.into_iter().zip(parts);
        parts.map(|(dtype, (values, texts))| tensor(dtype, values, texts)).collect()
    })
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same_tensors(
        outputs in any_tensors(), default in any::<bool>(), chosen in any::<[Option<bool>; 14]>(),
    ) {
        let response = InferenceResponse { model: "m".into(), version: 1, id: None, rows: None, outputs, timings: None, parameters: Vec::new() };
        let chosen = chosen.iter().zip(&response.outputs).filter_map(|(binary, output)| {
            Some((output.name.clone(), OutputFormat { binary: (*binary)?, ..Default::default() }))
        });
        let outputs = chosen.collect();
        let format = ReplyFormat { binary_by_default: default, outputs, shared: None };
        let (length, body) = resend(&encode(&format, &sample(8), &response).unwrap());
        let (request, _) = decode(&sample(8), length, body).unwrap();
        prop_assert_eq!(request.inputs.len(), response.outputs.len());
        for (back, sent) in request.inputs.iter().zip(&response.outputs) {
            prop_assert_eq!(&back.name, &sent.name);
            prop_assert_eq!(back.tensor.shape(), sent.tensor.shape());
            prop_assert_eq!(back.tensor.to_bytes(), sent.tensor.to_bytes(), "{}", sent.name);
        }
    }

    #[test]
    fn no_body_makes_the_decoder_panic(
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in prop::option::of(0usize..400), cut in any::<prop::sample::Index>(),
    ) {
        let mut body = [TWO.as_bytes(), &[1, 0, 2, 0, 1, 0, 0, 0, b'x']].concat();
        for (at, byte) in noise {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = decode(&sample(8), Some(TWO.len()), body.clone().into());
        let mut flat = br#"{"id":"7","text":["a","b"],"ids":[1,2],"parameters":{"x":{"b64":"AA=="}}}"#.to_vec();
        let at = cut.index(flat.len());
        flat[at] = body[at.min(body.len() - 1)];
        let _ = generate::decode(&sample(8), &flat, &Grant::all(0));
        let _ = memory::register_request(&flat);
        let _ = settings::trace_request(&flat);
        body.truncate(cut.index(body.len()));
        let _ = decode(&sample(8), length, body.clone().into());
        let _ = decode(&single(DataType::Fp32, &[None], 8), Some(0), body.into());
    }
}

#[test]
fn classes_with_long_numbers_and_labels_are_asked_for() {
    let labels = [(); 100].map(|()| "l".repeat(500)).into();
    let mut signature = single(DataType::Fp64, &[None], 1);
    signature.outputs = vec![Port { name: "y".into(), labels, ..signature.inputs[0].clone() }];
    let tensor = Tensor::from_vec(Shape::new(&[1, 100]), vec![-1.7e308; 100]).unwrap();
    let response = crate::samples::only("y", tensor);
    let form = OutputFormat { classes: Some(100), ..OutputFormat::default() };
    let format = ReplyFormat { outputs: vec![("y".into(), form)], ..ReplyFormat::default() };
    let grant = Grant::all(0);
    let reply = super::encode(&format, &signature, &response, &grant).unwrap();
    let written: usize = reply.body.iter().map(|it| it.len()).sum();
    // The texts of the classes are there beside those of the JSON.
    assert!(2 * written <= grant.granted());
}
