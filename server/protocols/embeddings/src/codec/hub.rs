//! Bodies and replies of Hugging Face's hub, as its own client sends and reads them: those of the pipelines, but with
//! all classes of a text, with an object for each candidate label, and with parameters beside the inputs. Images and
//! sounds come as files, or as base64 where there are parameters.
//! Source: <https://huggingface.co/docs/inference-providers/tasks>.

use std::sync::Arc;

use backend::NamedTensor;

use crate::codec::{cost::TextCost, rerank, terms::Terms};
use formats::{
    EncodedReply,
    json::{self, JsonReader, Token, write},
    medium,
    negotiate::{self, Declared},
    parameter, pipeline_body,
    reply_size::{self, TextForm},
    vectors,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
    task::{HubReply, Medium, RESULT, TOKENS, Task, takes_tensors},
};

/// What a reply needs of its request.
#[derive(Debug, Clone)]
pub enum HubFormat {
    /// What each row says.
    Rows(RowsFormat),
    /// A ranking of texts.
    Ranking(rerank::RerankFormat),
}

/// How a reply is made of what the rows say.
#[derive(Debug, Clone)]
pub struct RowsFormat {
    /// Is what the only row says the reply, and no list?
    is_one: bool,
    /// Does a row have a list of labels and one of scores, which become a list of objects?
    has_candidates: bool,
    /// What its texts are; `None` where its inputs are files.
    cost: Option<TextCost>,
}

/// Parameters that may stand beside the inputs, as the client writes those of embedders.
const BESIDE: [&str; 5] =
    ["truncate", "truncation_direction", "normalize", "prompt_name", "dimensions"];

/// Is a body the file of an image or a sound, or perhaps one, and no JSON?
pub fn is_file(content_type: Option<&str>, body: &[u8]) -> bool {
    match negotiate::declared(content_type) {
        _ if json::begins_with_bracket(body) => false,
        Declared::File | Declared::Nothing => true,
        _ => medium::of_bytes(body).is_some(),
    }
}

/// The medium of a file, by its type or its first bytes.
pub fn medium_of(content_type: Option<&str>, body: &[u8]) -> Option<Medium> {
    content_type.and_then(medium::of_type).or_else(|| medium::of_bytes(body))
}

/// A body under that content type, of that task or of the model's own: a file, or JSON.
///
/// # Errors
/// Those of [`decode`]; [`Error::UnsupportedMediaType`] where the model does not take such files.
pub fn decode_body(
    signature: &Signature,
    asked: Option<Task>,
    content_type: Option<&str>,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, HubFormat), Error> {
    let takes_files = signature.medium().is_some_and(|it| it != Medium::Text);
    let may_be_file = takes_files || medium_of(content_type, body).is_some();
    match may_be_file && is_file(content_type, body) {
        true => decode_file(signature, asked, content_type, body, grant),
        false => decode(signature, asked, terms, body, grant),
    }
}

/// A file by itself.
fn decode_file(
    signature: &Signature,
    asked: Option<Task>,
    content_type: Option<&str>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, HubFormat), Error> {
    let given = medium_of(content_type, body);
    if let Some(given) = given {
        medium::check(signature, given, medium::described(given))?;
    }
    let port = signature.inputs.iter().find(|it| signature.takes_files(&it.name));
    let port = port.ok_or_else(|| match signature.medium() {
        Some(taken) => medium::refusal(signature, taken, "the body is a file"),
        None => Error::UnsupportedMediaType(takes_tensors(&signature.model, given)),
    })?;
    let request = InferenceRequest {
        inputs: vec![medium::input(signature, port, body, grant)?],
        outputs: vec![RESULT.into()],
        task: asked,
        ..InferenceRequest::default()
    };
    let format = RowsFormat { is_one: true, has_candidates: false, cost: None };
    Ok((request, HubFormat::Rows(format)))
}

/// `{"inputs", "parameters"?}` of that task, or of the model's own; `{"query", "texts"}` of a model that ranks.
///
/// # Errors
/// [`Error::NoSuchTask`] where the model has not the task, and what is wrong with the body.
pub fn decode(
    signature: &Signature,
    asked: Option<Task>,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, HubFormat), Error> {
    let Some(own) = signature.pipeline.as_ref().map(|it| it.task) else {
        let given = asked.map(Task::medium);
        return Err(Error::NoSuchTask(takes_tensors(&signature.model, given)));
    };
    let asked = match asked {
        // On the hub an embedder's features are the vectors of texts.
        Some(Task::FeatureExtraction) if own == Task::SentenceEmbedding => Some(own),
        asked => asked,
    };
    if asked.unwrap_or(own) == Task::Rerank && has_query(body, grant)? {
        let (request, format) = rerank::decode_texts(signature, terms, body, grant)?;
        return Ok((request, HubFormat::Ranking(format)));
    }
    let (mut read, mut parameters, mut beside) = (None, Vec::new(), Vec::new());
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "inputs" => {
                read = Some(pipeline_body::inputs(signature, asked.unwrap_or(own), reader)?);
                Ok(())
            }
            "parameters" => {
                parameters = pipeline_body::parameters(reader)?;
                Ok(())
            }
            name if BESIDE.contains(&name) && reader.peek()? != Token::Null => {
                // `Left` and `Right` are written so by clients of Text Embeddings Inference.
                let value = match name {
                    "truncation_direction" => parameter::in_lower_case(reader)?,
                    _ => parameter::scalar(reader, name)?,
                };
                beside.push((name.into(), value));
                Ok(())
            }
            // Of the service, as `model` and `options`.
            _ => reader.skip_value(),
        })
    })?;
    let missing = || Error::InvalidRequest("expected the key 'inputs', found none".to_owned());
    let (inputs, is_list) = read.ok_or_else(missing)?;
    let task = asked.or(signature.of_inputs(&inputs).0).unwrap_or(own);
    parameters.extend(beside);
    let reply = task.facts().hub;
    if reply == HubReply::AllClasses && !parameter::says_top(&parameters) {
        parameters.push(parameter::all_classes());
    }
    let is_one = match reply {
        HubReply::List | HubReply::AllClasses => false,
        HubReply::One | HubReply::Candidates => !is_list,
    };
    let (cost, outputs) = match task.medium() {
        Medium::Text => {
            let cost = TextCost { characters: characters(&inputs), terms };
            (Some(cost), vec![RESULT.into(), TOKENS.into()])
        }
        Medium::Image | Medium::Audio => (None, vec![RESULT.into()]),
    };
    let has_candidates = reply == HubReply::Candidates;
    let format = RowsFormat { is_one, has_candidates, cost };
    let request = InferenceRequest {
        inputs,
        outputs,
        task: asked,
        parameters,
        ..InferenceRequest::default()
    };
    Ok((request, HubFormat::Rows(format)))
}

/// Has the body a query, as rankings of Text Embeddings Inference have?
fn has_query(body: &[u8], grant: &Grant) -> Result<bool, Error> {
    let mut has_query = false;
    JsonReader::preview(body, grant)?.object(|reader, key| {
        has_query |= &*key == "query";
        reader.skip_value()
    })?;
    Ok(has_query)
}

fn characters(inputs: &[NamedTensor]) -> usize {
    let texts = inputs.iter().flat_map(|it| it.tensor.strings());
    texts.filter_map(|it| std::str::from_utf8(it).ok()).map(|it| it.chars().count()).sum()
}

/// What the rows say.
///
/// # Errors
/// When they have said nothing.
pub fn encode(
    format: &HubFormat,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    let format = match format {
        HubFormat::Ranking(format) => return rerank::encode(format, signature, response, grant),
        HubFormat::Rows(format) => format,
    };
    // Candidates are written twice.
    grant.take(|loose| {
        reply_size::of_response(response, TextForm::LABELLED, loose).saturating_mul(2)
    })?;
    let mut out = Vec::new();
    if !format.is_one {
        out.push(b'[');
    }
    for row in vectors::output(response, RESULT)?.strings() {
        write::item(&mut out);
        match format.has_candidates {
            true => candidates(&mut out, row)?,
            false => out.extend_from_slice(row),
        }
    }
    if !format.is_one {
        out.push(b']');
    }
    match &format.cost {
        Some(cost) => cost.reply(out, response),
        None => Ok(EncodedReply::json(out)),
    }
}

/// `{"labels": [..], "scores": [..]}` as `[{"label","score"}]`.
fn candidates(out: &mut Vec<u8>, row: &[u8]) -> Result<(), Error> {
    let (mut labels, mut scores) = (Vec::new(), Vec::new());
    let grant = Grant::uncounted();
    JsonReader::document(row, &grant, |reader| {
        reader.object(|reader, key| match &*key {
            "labels" => reader.array(|reader, _| {
                labels.push(reader.raw_value()?);
                Ok(())
            }),
            "scores" => reader.array(|reader, _| {
                scores.push(reader.raw_value()?);
                Ok(())
            }),
            _ => reader.skip_value(),
        })
    })?;
    out.push(b'[');
    for (label, score) in labels.iter().zip(&scores) {
        write::item(out);
        out.extend_from_slice(b"{\"label\":");
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(b",\"score\":");
        out.extend_from_slice(score.as_bytes());
        out.push(b'}');
    }
    out.push(b']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{Shape, Tensor};
    use formats::samples;
    use inference::{
        request::Parameter,
        signature::{Form, Pipeline},
        task::TOP_K,
    };

    fn encode(
        format: &HubFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    /// A model of that task, and of another with these inputs.
    fn model(task: Task, inputs: &[&str], other: Option<(Task, &[&str])>) -> Signature {
        let form = |(task, inputs)| Form {
            task: Some(task),
            signature: samples::model(8, inputs, &["result BYTES [1]"]),
        };
        let forms = other.into_iter().map(form).collect();
        let pipeline =
            Pipeline { task, forms, row_independent: true, sampling_rate: None, jpeg: None };
        let own = samples::model(8, inputs, &["result BYTES [1]"]);
        Signature { pipeline: Some(Arc::new(pipeline)), ..own }
    }

    fn read(
        signature: &Signature,
        asked: Option<Task>,
        body: &str,
    ) -> (InferenceRequest, HubFormat) {
        decode(
            signature,
            asked,
            Arc::new(crate::codec::terms::sample()),
            body.as_bytes(),
            samples::grant(),
        )
        .unwrap()
    }

    /// What is said where each row says this.
    fn says(signature: &Signature, format: &HubFormat, rows: &[&str]) -> String {
        let result = Tensor::from_strings(Shape::new(&[rows.len(), 1]), rows).unwrap();
        let mut response = samples::only(RESULT, result);
        let tokens = Tensor::from_vec(Shape::new(&[1, 1]), vec![9i64]).unwrap();
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor: tokens });
        samples::body(&encode(format, signature, &response).unwrap())
    }

    #[test]
    fn all_classes_of_a_text_are_in_a_list_of_lists() {
        let signature = model(Task::TextClassification, &["text BYTES [1]"], None);
        let (request, format) = read(&signature, None, r#"{"inputs":"a","parameters":{}}"#);
        assert_eq!(samples::show(&request), "text BYTES [1,1] [\"a\"]\n");
        assert_eq!(request.parameters, [(TOP_K.into(), Parameter::Text("null".into()))]);
        assert_eq!(says(&signature, &format, &["[1]"]), "[[1]]");
        let body = r#"{"inputs":"a","parameters":{"return_all_scores":false}}"#;
        let parameters = read(&signature, None, body).0.parameters;
        assert_eq!(parameters.last(), Some(&(TOP_K.into(), Parameter::Text("null".into()))));
        let body = r#"{"inputs":"a","parameters":{"top_k":1}}"#;
        assert_eq!(read(&signature, None, body).0.parameters[0].1, Parameter::Int(1));
    }

    #[test]
    fn candidates_are_objects() {
        let signature = model(Task::ZeroShotClassification, &["text BYTES [1]"], None);
        let body = r#"{"inputs":"a","parameters":{"candidate_labels":["x","y"]}}"#;
        let (_, format) = read(&signature, None, body);
        let row = r#"{"sequence":"a","labels":["x","\u00e9"],"scores":[0.75,1e-05]}"#;
        let expected = r#"[{"label":"x","score":0.75},{"label":"\u00e9","score":1e-05}]"#;
        assert_eq!(says(&signature, &format, &[row]), expected);
    }

    #[test]
    fn features_of_an_embedder_are_its_vectors_and_parameters_stand_beside_the_inputs() {
        let sentences: &[&str] = &["source_sentence BYTES [1]", "sentences BYTES [-1]"];
        let similar = Some((Task::SentenceSimilarity, sentences));
        let signature = model(Task::SentenceEmbedding, &["text BYTES [1]"], similar);
        let body = r#"{"inputs":"a","normalize":false,"truncation_direction":"Left","prompt_name":null,"model":"m"}"#;
        let (request, format) = read(&signature, Some(Task::FeatureExtraction), body);
        assert_eq!(request.task, Some(Task::SentenceEmbedding));
        let left = ("truncation_direction".into(), Parameter::Text("left".into()));
        assert_eq!(request.parameters, [("normalize".into(), Parameter::Bool(false)), left]);
        assert_eq!(says(&signature, &format, &["[0.5]"]), "[[0.5]]");
        let body = r#"{"inputs":{"source_sentence":"a","sentences":["b","c"]}}"#;
        let (request, format) = read(&signature, None, body);
        assert_eq!(request.inputs.len(), 2);
        assert_eq!(says(&signature, &format, &["[0.5,1.0]"]), "[0.5,1.0]");
    }

    #[test]
    fn a_file_is_a_body_and_is_answered_by_itself() {
        let jpeg = b"\xff\xd8\xff\xe0";
        let image = samples::image_model();
        let read = |content_type, body: &[u8]| {
            let terms = Arc::new(crate::codec::terms::sample());
            decode_body(&image, None, content_type, terms, body, samples::grant())
        };
        let said = r#"[{"label":"tiger","score":0.9}]"#;
        for content_type in [Some("image/png"), Some("application/octet-stream"), None] {
            let (request, format) = read(content_type, jpeg).unwrap();
            assert_eq!(request.inputs[0].tensor.strings().next(), Some(&jpeg[..]));
            assert_eq!(request.outputs, [RESULT.into()]);
            assert_eq!(says(&image, &format, &[said]), said);
        }
        let body = br#"{"inputs":"/9j/4A==","parameters":{"top_k":1}}"#;
        let (request, format) = read(Some("application/json"), body).unwrap();
        assert_eq!(request.inputs[0].tensor.strings().next(), Some(&jpeg[..]));
        assert_eq!(says(&image, &format, &[said]), said);
        let error = read(Some("audio/wav"), b"RIFF\x04\0\0\0WAVE").unwrap_err().to_string();
        assert!(error.contains("model 'm' takes an image"), "{error}");
        let texts = model(Task::TextClassification, &["text BYTES [1]"], None);
        let terms = || Arc::new(crate::codec::terms::sample());
        let error = decode_body(&texts, None, Some("image/png"), terms(), jpeg, samples::grant())
            .unwrap_err();
        assert!(error.to_string().contains("model 'm' takes a text"), "{error}");
        assert!(
            decode_body(&texts, None, None, terms(), br#"{"inputs":"a"}"#, samples::grant())
                .is_ok()
        );
    }

    #[test]
    fn a_model_without_a_task_says_what_it_takes_and_what_was_sent() {
        let signature = samples::model(8, &["x FP32 [1]"], &[]);
        let terms = || Arc::new(crate::codec::terms::sample());
        let said = |asked| decode(&signature, asked, terms(), b"{}", samples::grant()).unwrap_err();
        let error = said(None);
        assert!(matches!(error, Error::NoSuchTask(_)));
        let takes = format!("model '{}' takes tensors, and no ", signature.model);
        assert_eq!(error.to_string(), format!("{takes}texts, images or sounds"));
        let error = said(Some(Task::ImageClassification)).to_string();
        assert_eq!(error, format!("{takes}images"));
        let error = decode_body(&signature, None, None, terms(), b"fLaC\0\0", samples::grant())
            .unwrap_err();
        assert!(matches!(error, Error::UnsupportedMediaType(_)));
        assert_eq!(error.to_string(), format!("{takes}sounds"));
    }

    #[test]
    fn a_model_of_texts_says_so_to_who_sends_a_file() {
        let signature = model(Task::FillMask, &["text BYTES [1]"], None);
        let jpeg = b"\xff\xd8\xff\xe0";
        let error = decode_body(
            &signature,
            None,
            None,
            Arc::new(crate::codec::terms::sample()),
            jpeg,
            samples::grant(),
        )
        .unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("the body is the file of an image: model "), "{error}");
        assert!(error.contains(" takes a text; send text/plain"), "{error}");
    }
}
