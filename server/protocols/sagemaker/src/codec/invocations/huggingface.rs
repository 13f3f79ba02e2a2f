//! Hugging Face's pipelines: texts in, and out what the pipeline of such a model would say. Tokenizers, and the softmax
//! over logits, are models of their own; here are bodies and replies. Source:
//! <https://github.com/aws/sagemaker-huggingface-inference-toolkit>.

mod pipeline;
mod reply;
mod result;
mod result_csv;
mod task;

use backend::{NamedTensor, Tensor};
use bytes::Bytes;

use super::{Decoded, ReplyFormat};
use formats::{
    elements::TensorBuilder,
    expansion,
    json::{BytesForm, JsonReader, Token},
    rows::{self, RowBuilder},
    shapes,
};
use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature},
};

use formats::pipeline_body::{ANY_TEXT as TEXT, read_inputs, takes_text};
pub use pipeline::{PipelineReply, Top};
pub(super) use reply::{encode, encode_csv, encode_lines};
pub(super) use task::{holds_tensors_of_graph, of_body, of_list};

/// Do all inputs that a request must give take one text each?
pub(super) fn is_pipeline(signature: &Signature) -> bool {
    let mut required = signature.inputs.iter().filter(|it| !it.optional).peekable();
    required.peek().is_some() && required.all(takes_text)
}

/// Is the value at the reader what a pipeline takes: a text, an object of texts, or a list of one of these? Lists of
/// lists, and objects of lists, are tensors.
pub(super) fn holds_texts(reader: &mut JsonReader<'_>) -> bool {
    let start = reader.mark();
    match reader.peek() {
        Ok(Token::String) => true,
        Ok(Token::Array) => {
            let Ok(Some(first)) = rows::first_item(reader, &start) else { return false };
            let first = reader.revisit(first, |reader| reader.peek());
            matches!(first, Ok(Token::String | Token::Object))
        }
        Ok(Token::Object) => {
            let mut texts = false;
            let _ = reader.revisit(start, |reader| {
                reader.object(|reader, _| {
                    texts = reader.peek() == Ok(Token::String);
                    Err(rows::enough())
                })
            });
            texts
        }
        _ => false,
    }
}

/// The inputs in `{"inputs": .., "parameters"?: {..}}`, or in several such objects, each a row. `None` for several
/// objects of inputs alone, which are rows as of any other model.
///
/// # Errors
/// When a text is missing or none; when a parameter that is an input is not of its type.
pub(super) fn decode(
    signature: &Signature,
    body: &[u8],
    grant: &Grant,
) -> Result<Option<Decoded>, Error> {
    expansion::hold_ports(signature, grant)?;
    let before = grant.held();
    let mut reader = JsonReader::new(body, grant)?;
    let is_plain = signature.pipeline.is_some() && task::is_plain(&mut reader);
    let (inputs, pipeline, parameters) = match &signature.pipeline {
        Some(served) => task::read(signature, served.task, &mut reader)?,
        None => {
            let (inputs, pipeline) = read(signature, &mut reader)?;
            (inputs, pipeline, Vec::new())
        }
    };
    match reader.finish() {
        Ok(()) => {
            let json_reply = ReplyFormat::HuggingFace(pipeline);
            Ok(Some(Decoded { parameters, ..Decoded::stated(inputs, json_reply) }))
        }
        Err(_) if is_plain => Ok(None),
        Err(_) => {
            // All of them are read again, this one among them.
            drop((inputs, parameters));
            grant.give_back_to(before);
            decode_documents(signature, body, grant).map(Some)
        }
    }
}

/// Several such objects, each a row.
fn decode_documents(signature: &Signature, body: &[u8], grant: &Grant) -> Result<Decoded, Error> {
    let mut reader = JsonReader::new(body, grant)?;
    let mut rows = RowBuilder::named(signature, TEXT, grant);
    let mut parameters = None;
    for record in 1.. {
        let (mut given, mut own) = (false, Vec::new());
        let read = reader.object(|reader, key| match &*key {
            "inputs" => {
                given = true;
                rows.push(reader)
            }
            "parameters" if signature.pipeline.is_some() => {
                own = formats::pipeline_body::parameters(reader)?;
                Ok(())
            }
            _ => reader.skip_value(),
        });
        let read = read.and_then(|()| match given {
            true if *parameters.get_or_insert_with(|| own.clone()) == own => Ok(()),
            true => Err(reader.error(
                "expected the parameters of the first record; send what has others in a request of its own",
            )),
            false => Err(reader.error("expected the key 'inputs', found none")),
        });
        read.map_err(|error| rows::in_record(record, error))?;
        if reader.is_at_end() {
            break;
        }
    }
    let inputs = rows.finish()?;
    let json_reply = ReplyFormat::HuggingFace(PipelineReply::default());
    let parameters = parameters.unwrap_or_default();
    Ok(Decoded { lines: true, parameters, ..Decoded::stated(inputs, json_reply) })
}

fn read(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<(Vec<NamedTensor>, PipelineReply), Error> {
    let mut pipeline = PipelineReply::default();
    let (mut inputs, mut parameters) = (None, Vec::new());
    reader.object(|reader, key| match &*key {
        "inputs" => {
            pipeline.one = reader.peek()? != Token::Array;
            inputs = Some(read_inputs(signature, reader)?);
            Ok(())
        }
        "parameters" if reader.peek()? == Token::Null => reader.null(),
        "parameters" => reader.object(|reader, key| match (&*key, signature.input(&key)) {
            (_, Some(port)) => {
                parameters.push(read_value(port, reader)?);
                Ok(())
            }
            ("top_k", None) => {
                pipeline.top = top(reader)?;
                Ok(())
            }
            // Of the tokenizer and of the pipeline around it, which are not here.
            _ => reader.skip_value(),
        }),
        // Of the service around the pipeline.
        _ => reader.skip_value(),
    })?;
    let mut inputs = inputs.ok_or_else(|| reader.error("expected the key 'inputs', found none"))?;
    let rows = inputs.first().and_then(|it| it.tensor.shape().rows()).unwrap_or(1);
    for parameter in parameters {
        if inputs.iter().any(|it| it.name == parameter.name) {
            let problem = "it is given in 'inputs' and in 'parameters'";
            return Err(Error::input(&*parameter.name, problem));
        }
        // A parameter is repeated for each row by reference.
        reader.grant().hold(rows.saturating_mul(2 * size_of::<Bytes>()))?;
        inputs.push(for_rows(signature, parameter, rows)?);
    }
    Ok((inputs, pipeline))
}

/// The value of an input that stands among the parameters: that of one row.
fn read_value(port: &Port, reader: &mut JsonReader<'_>) -> Result<NamedTensor, Error> {
    let mut builder = TensorBuilder::new(port.dtype, None, reader.grant());
    let shape = reader.shaped_elements(&mut builder, BytesForm::Text)?;
    builder.finish_input(port, shape)
}

/// The same value for each row.
fn for_rows(
    signature: &Signature,
    parameter: NamedTensor,
    rows: usize,
) -> Result<NamedTensor, Error> {
    let NamedTensor { name, tensor } = parameter;
    let Some(port) = signature.input(&name).filter(|_| signature.batches()) else {
        return Ok(NamedTensor { name, tensor });
    };
    let row = shapes::as_one_row(signature, port, &tensor).ok_or_else(|| {
        let (expected, given) = (signature.shape_text(port), tensor.shape());
        Error::input(&*name, format!("expected one row of shape {expected}, found {given}"))
    })?;
    let all = Tensor::concat(std::iter::repeat_n(&row, rows));
    let tensor = all.ok_or_else(|| Error::Internal("rows of one shape did not fit".to_owned()))?;
    Ok(NamedTensor { name, tensor })
}

/// `top_k`: a number, or `null` for all.
fn top(reader: &mut JsonReader<'_>) -> Result<Top, Error> {
    match reader.peek()? {
        Token::Null => reader.null().map(|()| Top::Most(usize::MAX)),
        _ => reader.usize().map(Top::Most),
    }
}

#[cfg(test)]
mod tests {
    use backend::Shape;

    use super::*;
    use formats::{
        EncodedReply,
        samples::{body as text_of, model, only, show_inputs},
    };
    use inference::request::InferenceResponse;

    fn encode(
        pipeline: PipelineReply,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(pipeline, signature, response, &Grant::all(0))
    }

    fn decode(signature: &Signature, body: &[u8]) -> Result<Option<Decoded>, Error> {
        super::decode(signature, body, &Grant::all(0))
    }

    fn texts() -> Signature {
        model(8, &["IN BYTES [1]"], &["scores FP32 [2]"])
    }

    fn classifier() -> Signature {
        let mut signature = texts();
        signature.outputs[0].labels = ["NEGATIVE".to_owned(), "POSITIVE".to_owned()].into();
        signature
    }

    #[track_caller]
    fn reads(signature: &Signature, body: &str, expected: &str) {
        let decoded = decode(signature, body.as_bytes()).unwrap_or_else(|it| panic!("{it}"));
        assert_eq!(show_inputs(&decoded.unwrap().inputs), expected, "{body}");
    }

    #[track_caller]
    fn refused(signature: &Signature, body: &str, part: &str) {
        let error = decode(signature, body.as_bytes()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    /// What the classifier says of a body with these scores.
    #[track_caller]
    fn says(body: &str, scores: &[f32], expected: &str) {
        let json_reply = decode(&classifier(), body.as_bytes()).unwrap().unwrap().json_reply;
        let ReplyFormat::HuggingFace(pipeline) = json_reply else { panic!("{json_reply:?}") };
        let shape = Shape::new(&[scores.len() / 2, 2]);
        let response = only("scores", Tensor::from_vec(shape, scores.to_vec()).unwrap());
        let reply = encode(pipeline, &classifier(), &response).unwrap();
        assert_eq!(text_of(&reply), expected);
    }

    #[test]
    fn a_text_is_a_row_and_so_is_each_of_a_list() {
        let one = "IN BYTES [1,1] [\"I am super happy right now.\"]\n";
        for signature in [texts(), model(8, &["IN BYTES [-1]"], &["y FP32 []"])] {
            reads(&signature, r#"{"inputs": "I am super happy right now."}"#, one);
            let body = r#"{"parameters": {"truncation": true}, "inputs": {"text": "I am super happy right now."}, "options": {}}"#;
            reads(&signature, body, one);
            let two = "IN BYTES [2,1] [\"a\",\"b\"]\n";
            reads(&signature, r#"{"inputs": ["a", "b"], "parameters": null}"#, two);
            reads(&signature, r#"{"inputs": [{"text": "a"}, {"text": "b"}]}"#, two);
        }
        let whole = model(0, &["IN BYTES [-1]"], &["y FP32 [-1]"]);
        reads(&whole, r#"{"inputs": "a"}"#, "IN BYTES [1] [\"a\"]\n");
        refused(&texts(), r#"{"inputs": {"text": "a", "text_pair": "b"}}"#, "'text_pair' is not");
        refused(&texts(), r#"{"inputs": 5}"#, "inputs: expected a string");
        refused(&texts(), r#"{"inputs": []}"#, "expected at least one");
        refused(&texts(), r#"{"parameters": {}}"#, "expected the key 'inputs'");
    }

    #[test]
    fn questions_and_parameters_are_inputs_by_name() {
        let signature = model(
            8,
            &["question BYTES []", "context BYTES []", "top? INT32 [1]", "labels? BYTES [-1]"],
            &["answer BYTES []", "score FP32 []"],
        );
        let body = r#"{"inputs": {"question": "q", "context": "c"}, "parameters": {"top": 3, "labels": ["x", "y"]}}"#;
        let expected = "question BYTES [1] [\"q\"]\ncontext BYTES [1] [\"c\"]\ntop INT32 [1,1] [3]\nlabels BYTES [1,2] [\"x\",\"y\"]\n";
        reads(&signature, body, expected);
        let body = r#"{"inputs": [{"question": "q", "context": "c"}, {"question": "r", "context": "d"}], "parameters": {"top": 3}}"#;
        let expected = "question BYTES [2] [\"q\",\"r\"]\ncontext BYTES [2] [\"c\",\"d\"]\ntop INT32 [2,1] [3,3]\n";
        reads(&signature, body, expected);
        refused(&signature, r#"{"inputs": "q"}"#, "expected an object with the keys 'question'");
        let twice =
            r#"{"inputs": {"question": "q", "context": "c"}, "parameters": {"context": "d"}}"#;
        refused(&signature, twice, "input 'context': it is given in 'inputs' and in 'parameters'");
    }

    #[test]
    fn the_best_class_of_each_text_is_an_object() {
        says(r#"{"inputs": "a"}"#, &[0.25, 0.75], r#"[{"label":"POSITIVE","score":0.75}]"#);
        says(
            r#"{"inputs": ["a", "b"]}"#,
            &[0.25, 0.75, 1.0, 0.0],
            r#"[{"label":"POSITIVE","score":0.75},{"label":"NEGATIVE","score":1.0}]"#,
        );
    }

    #[test]
    fn several_classes_are_lists_best_first() {
        let both = r#"[{"label":"POSITIVE","score":0.75},{"label":"NEGATIVE","score":0.25}]"#;
        says(r#"{"inputs": "a", "parameters": {"top_k": null}}"#, &[0.25, 0.75], both);
        let listed = format!("[{both}]");
        says(r#"{"inputs": ["a"], "parameters": {"top_k": 5}}"#, &[0.25, 0.75], &listed);
    }

    #[test]
    fn numbers_are_nested_lists_and_texts_are_objects_by_output() {
        let tensor = Tensor::from_vec(Shape::new(&[1, 2]), vec![0.5f32, 2.0]).unwrap();
        let reply = encode(PipelineReply::default(), &texts(), &only("scores", tensor)).unwrap();
        assert_eq!(text_of(&reply), "[[0.5,2.0]]");
        let generator = model(8, &["IN BYTES [1]"], &["generated_text BYTES []"]);
        let tensor = Tensor::from_strings(Shape::new(&[2]), ["a", "b"]).unwrap();
        let response = only("generated_text", tensor);
        let reply = encode(PipelineReply::default(), &generator, &response).unwrap();
        assert_eq!(text_of(&reply), r#"[{"generated_text":"a"},{"generated_text":"b"}]"#);
    }

    #[test]
    fn a_list_is_of_texts_or_of_objects() {
        let pipeline = inference::signature::Pipeline {
            task: inference::task::Task::TextClassification,
            forms: Vec::new(),
            row_independent: true,
            sampling_rate: None,
            jpeg: None,
        };
        let ports = ["text BYTES [1]", "text_pair? BYTES [1]"];
        let served = Signature {
            named: None,
            pipeline: Some(std::sync::Arc::new(pipeline)),
            ..model(8, &ports, &["result BYTES [1]"])
        };
        reads(&served, r#"{"inputs": ["a"]}"#, "text BYTES [1,1] [\"a\"]\n");
        let problem = "inputs[2]: expected a text, as the first one is, found an object";
        refused(&served, r#"{"inputs": ["a", "b", {"text": "c"}]}"#, problem);
        refused(&served, r#"{"inputs": ["a", 5]}"#, "inputs[1]: expected a string");
    }

    #[test]
    fn there_is_no_nan_in_the_reply() {
        let tensor = Tensor::from_vec(Shape::new(&[1, 2]), vec![0.5f32, f32::NAN]).unwrap();
        let reply = encode(PipelineReply::default(), &texts(), &only("scores", tensor));
        let error = reply.unwrap_err().to_string();
        assert!(error.starts_with("output 'scores': element 1 is no finite number"), "{error}");
    }
}
