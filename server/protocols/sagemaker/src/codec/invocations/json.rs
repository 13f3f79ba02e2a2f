//! JSON on `/invocations`: what a document is, and the decoders of what TensorFlow Serving and bare lists look like.

use std::borrow::Cow;

use crate::codec::builtin;
use formats::{
    expansion, inputs,
    json::{JsonReader, Token},
    negotiate::Media,
    number::Excerpt,
    rows::{self, List, RowBuilder},
    shapes, tfs,
};
use inference::{error::Error, grant::Grant, signature::Signature};

use super::{Decoded, Options, ReplyFormat, huggingface, mlflow, objects, sniff::Document};

/// Keys that may stand in front of the one that says what an object is. Where inputs have such names, the whole object
/// is looked at.
const IN_FRONT: [&str; 6] = ["id", "parameters", "params", "outputs", "signature_name", "context"];

/// What the first document of a body is. Reads no further than it must.
///
/// # Errors
/// When it is nothing that is known, or broken before that is.
pub(super) fn look(
    signature: &Signature,
    options: &Options,
    body: &[u8],
) -> Result<Document, Error> {
    let (rules, grant) = (options.rules(), Grant::uncounted());
    let mut reader = JsonReader::preview(body, &grant)?;
    // TensorFlow Serving's container puts brackets around what it does not know, and the graph sees them.
    let is_wrapped = rules.scalars && !signature.batches();
    match reader.peek()? {
        Token::Object => {}
        Token::Array if is_wrapped && holds_values(&mut reader) => return Ok(Document::Scalar),
        Token::Array => return Ok(Document::Bare),
        _ if rules.scalars => return Ok(Document::Scalar),
        other => {
            let problem = format_args!("expected an object or an array, found {other}");
            return Err(reader.error(problem));
        }
    }
    let (mut document, mut named, mut other) = (None, false, None::<Cow<'_, str>>);
    // Asked of one key alone: a model may have as many columns as an object keys.
    let mut may_be_column = true;
    let mut are_texts = true;
    let result = reader.object(|reader, key| {
        let input = signature.input(&key).is_some();
        are_texts &= !input || reader.peek() == Ok(Token::String);
        document = match &*key {
            "inputs" if holds_tensors(reader) => Some(Document::KserveV2),
            "inputs" if signature.graph_checks_shapes => Some(Document::Tfs),
            "inputs" => rules.inputs.or_else(|| Some(inputs(signature, reader))),
            "instances" if rules.instances.is_some() => rules.instances,
            "instances" if builtin::is_list(signature, reader) => Some(Document::Instances),
            "instances" => Some(Document::Tfs),
            "examples" => Some(Document::Examples),
            "dataframe_split" | "dataframe_records" => Some(Document::Mlflow),
            key if builtin::is_features(signature, reader, key) => Some(Document::Features),
            key if IN_FRONT.contains(&key) => None,
            _ if input => Some(Document::Named),
            key if std::mem::take(&mut may_be_column) && inputs::is_column(signature, key) => {
                Some(Document::Named)
            }
            _ => None,
        };
        if document.is_some() {
            return Err(rows::enough());
        }
        named |= input;
        other.get_or_insert(key);
        reader.skip_value()
    });
    // In Hugging Face's container an object without `inputs` is what a pipeline takes.
    let is_of_pipeline =
        are_texts && signature.pipeline.is_some() && rules.inputs == Some(Document::HuggingFace);
    let of_names = match is_of_pipeline {
        true => Document::HuggingFace,
        false if is_wrapped => Document::Scalar,
        false => Document::Named,
    };
    match document {
        Some(Document::Named) => return Ok(of_names),
        Some(document) => return Ok(document),
        None => result?,
    }
    if named {
        return Ok(of_names);
    }
    let found = other.map_or("no key".to_owned(), |it| format!("'{}'", Excerpt(&it)));
    Err(Error::InvalidRequest(format!(
        "expected the key 'instances' or 'inputs', or the model's inputs ({}) as keys, found {found}",
        inputs::names_of(signature)
    )))
}

/// Is the first element of the array at the reader neither a list nor an object? Then the array is no list of rows in
/// the dialect of TensorFlow Serving's container, but one.
fn holds_values(reader: &mut JsonReader<'_>) -> bool {
    let start = reader.mark();
    let Ok(Some(first)) = rows::first_item(reader, &start) else { return false };
    let mut is_value = false;
    let _ = reader.revisit(first, |reader| {
        is_value = !matches!(reader.peek()?, Token::Array | Token::Object);
        Ok(())
    });
    is_value
}

/// What an object is whose `inputs`, at the reader, describe no tensors.
fn inputs(signature: &Signature, reader: &mut JsonReader<'_>) -> Document {
    let is_for_texts = match &signature.pipeline {
        Some(_) => !huggingface::holds_tensors_of_graph(signature, reader),
        None => huggingface::is_pipeline(signature) && huggingface::holds_texts(reader),
    };
    match is_for_texts {
        true => Document::HuggingFace,
        false => Document::Tfs,
    }
}

/// Is the value at the reader a list whose first element describes a tensor?
fn holds_tensors(reader: &mut JsonReader<'_>) -> bool {
    let start = reader.mark();
    let Ok(Some(first)) = rows::first_item(reader, &start) else {
        return false;
    };
    let (mut named, mut typed) = (false, false);
    let _ = reader.revisit(first, |reader| {
        reader.object(|reader, key| {
            match &*key {
                "name" => named = true,
                "shape" | "datatype" => typed = true,
                _ => {}
            }
            if named && typed { Err(rows::enough()) } else { reader.skip_value() }
        })
    });
    named && typed
}

/// One such document, or several that are rows.
pub(super) fn decode(
    signature: &Signature,
    document: Document,
    body: &[u8],
    grant: &Grant,
) -> Result<Decoded, Error> {
    expansion::hold_ports(signature, grant)?;
    let before = grant.held();
    let mut reader = JsonReader::new(body, grant)?;
    reader.takes_missing(signature.takes_missing);
    let decoded = match document {
        // Those with tensors or examples are decoded elsewhere; here they are what they would be without them.
        Document::Tfs | Document::KserveV2 | Document::Examples => {
            let (inputs, form) = tfs::read_predict(signature, &mut reader)?;
            reader.finish()?;
            let json_reply = match form {
                tfs::Form::Row => ReplyFormat::Rows,
                tfs::Form::Column => ReplyFormat::Columns,
            };
            Decoded::stated(inputs, json_reply)
        }
        Document::HuggingFace => {
            return match huggingface::decode(signature, body, grant)? {
                Some(decoded) => Ok(decoded),
                None => {
                    grant.give_back_to(before);
                    decode_documents(signature, body, grant)
                }
            };
        }
        Document::Mlflow => return mlflow::decode(signature, body, grant),
        Document::Scalar => {
            let mut rows = RowBuilder::new(signature, grant);
            rows.push(&mut reader)?;
            let mut inputs = rows.finish()?;
            inputs.iter_mut().for_each(|it| shapes::without_brackets(signature, it));
            Decoded { lines: false, ..Decoded::rows(inputs, Media::Json) }
        }
        Document::Instances => objects::instances(signature, &mut reader)?,
        Document::Features => return objects::lines(signature, &mut reader, rows::in_record),
        Document::Named => Decoded {
            json_reply: ReplyFormat::Rows,
            ..Decoded::whole(rows::read_row_or_columns(signature, &mut reader)?, Media::Json)
        },
        Document::Bare => {
            Decoded::whole(rows::read_list(signature, &mut reader, List::RowsOrOne)?, Media::Json)
        }
    };
    match reader.finish() {
        Ok(()) => Ok(decoded),
        Err(_) => {
            // All of them are read again, this one among them.
            drop(decoded);
            grant.give_back_to(before);
            decode_documents(signature, body, grant)
        }
    }
}

/// One document per row; a single array or object is what it would be as JSON. `document` is that of the first one.
pub(super) fn decode_lines(
    signature: &Signature,
    document: Option<Document>,
    body: &[u8],
    grant: &Grant,
) -> Result<Decoded, Error> {
    let mut reader = JsonReader::new(body, grant)?;
    reader.skip_value()?;
    let document = match document {
        Some(document @ (Document::Features | Document::HuggingFace)) => document,
        Some(document) if reader.finish().is_ok() => document,
        _ => {
            expansion::hold_ports(signature, grant)?;
            return decode_documents(signature, body, grant);
        }
    };
    let decoded = decode(signature, document, body, grant)?;
    // A line without a key around it came from a file of rows.
    let json_reply = match decoded.json_reply {
        ReplyFormat::Bare => ReplyFormat::Rows,
        other => other,
    };
    Ok(Decoded { json_reply, lines: true, ..decoded })
}

/// Each document is a row.
fn decode_documents(signature: &Signature, body: &[u8], grant: &Grant) -> Result<Decoded, Error> {
    let mut reader = JsonReader::new(body, grant)?;
    reader.takes_missing(signature.takes_missing);
    let mut rows = RowBuilder::new(signature, grant);
    for record in 1.. {
        rows.push(&mut reader).map_err(|error| rows::in_record(record, error))?;
        if reader.is_at_end() {
            break;
        }
    }
    Ok(Decoded::rows(rows.finish()?, Media::Json))
}
