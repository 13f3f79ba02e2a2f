//! JSON on `/invocations`: what a document is, and the decoders of what TensorFlow Serving and bare lists look like.

use std::borrow::Cow;

use crate::{
    builtin::{self, Rows},
    expansion::Separators,
    inputs,
    json::{Reader, Token},
    negotiate::Media,
    number::Excerpt,
    records,
    rows::{self, List, RowBuilder},
    shapes, tfs,
};
use inference::{error::Error, signature::Signature};

use super::{Decoded, Options, ReplyFormat, huggingface, mlflow, objects, sniff::Kind};

/// Keys that may stand in front of the one that says what an object is. Where inputs have such names, the whole object
/// is looked at.
const IN_FRONT: [&str; 6] = ["id", "parameters", "params", "outputs", "signature_name", "context"];

/// What the first document of a body is. Reads no further than it must.
///
/// # Errors
/// When it is nothing that is known, or broken before that is.
pub(super) fn look(signature: &Signature, options: &Options, body: &[u8]) -> Result<Kind, Error> {
    let (habits, mut reader) = (options.habits(), Reader::preview(body)?);
    // TensorFlow Serving's container puts brackets around what it does not know, and the graph sees them.
    let is_wrapped = habits.scalars && !signature.batches();
    match reader.peek()? {
        Token::Object => {}
        Token::Array if is_wrapped && holds_values(&mut reader) => return Ok(Kind::Scalar),
        Token::Array => return Ok(Kind::Bare),
        _ if habits.scalars => return Ok(Kind::Scalar),
        other => {
            let problem = format_args!("expected an object or an array, found {other}");
            return Err(reader.error(problem));
        }
    }
    let (mut kind, mut named, mut other) = (None, false, None::<Cow<'_, str>>);
    // Asked of one key alone: a model may have as many columns as an object keys.
    let mut may_be_column = true;
    let mut are_texts = true;
    let result = reader.object(|reader, key| {
        let input = signature.input(&key).is_some();
        are_texts &= !input || reader.peek() == Ok(Token::String);
        kind = match &*key {
            "inputs" if holds_tensors(reader) => Some(Kind::KserveV2),
            "inputs" if signature.graph_checks_shapes => Some(Kind::Tfs),
            "inputs" => habits.inputs.or_else(|| Some(inputs(signature, reader))),
            "instances" if habits.instances.is_some() => habits.instances,
            "instances" if builtin::is_list(signature, reader) => Some(Kind::Instances),
            "instances" => Some(Kind::Tfs),
            "examples" => Some(Kind::Examples),
            "dataframe_split" | "dataframe_records" => Some(Kind::Mlflow),
            key if builtin::is_features(signature, reader, key) => Some(Kind::Features),
            key if IN_FRONT.contains(&key) => None,
            _ if input => Some(Kind::Named),
            key if std::mem::take(&mut may_be_column) && inputs::is_column(signature, key) => {
                Some(Kind::Named)
            }
            _ => None,
        };
        if kind.is_some() {
            return Err(rows::enough());
        }
        named |= input;
        other.get_or_insert(key);
        reader.skip_value()
    });
    // In Hugging Face's container an object without `inputs` is what a pipeline takes.
    let is_of_pipeline =
        are_texts && signature.pipeline.is_some() && habits.inputs == Some(Kind::HuggingFace);
    let of_names = match is_of_pipeline {
        true => Kind::HuggingFace,
        false if is_wrapped => Kind::Scalar,
        false => Kind::Named,
    };
    match kind {
        Some(Kind::Named) => return Ok(of_names),
        Some(kind) => return Ok(kind),
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
fn holds_values(reader: &mut Reader<'_>) -> bool {
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
fn inputs(signature: &Signature, reader: &mut Reader<'_>) -> Kind {
    let is_for_texts = match &signature.pipeline {
        Some(_) => !huggingface::holds_tensors_of_graph(signature, reader),
        None => huggingface::is_pipeline(signature) && huggingface::holds_texts(reader),
    };
    match is_for_texts {
        true => Kind::HuggingFace,
        false => Kind::Tfs,
    }
}

/// Is the value at the reader a list whose first element describes a tensor?
fn holds_tensors(reader: &mut Reader<'_>) -> bool {
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

/// Bytes that [`decode`] takes at most beside a body of that kind, and [`decode_lines`].
pub(super) fn expanded(
    signature: &Signature,
    kind: Option<Kind>,
    body: &[u8],
    loose: usize,
) -> usize {
    let documents = || records::expanded(signature, Separators::Documents, body, loose);
    match kind {
        Some(Kind::HuggingFace) => huggingface::expanded(signature, body, loose),
        // In lines of JSON, several tables are no tables.
        Some(Kind::Mlflow) => mlflow::expanded(signature, body, loose).max(documents()),
        Some(Kind::Instances) => builtin::expanded(signature, Rows::Instances, body, loose),
        Some(Kind::Features) => builtin::expanded(signature, Rows::Documents, body, loose),
        Some(
            Kind::Tfs | Kind::KserveV2 | Kind::Examples | Kind::Scalar | Kind::Named | Kind::Bare,
        )
        | None => documents(),
    }
}

/// One document of that kind, or several that are rows.
pub(super) fn decode(signature: &Signature, kind: Kind, body: &[u8]) -> Result<Decoded, Error> {
    let mut reader = Reader::new(body)?;
    reader.takes_missing(signature.takes_missing);
    let decoded = match kind {
        // Those with tensors or examples are decoded elsewhere; here they are what they would be without them.
        Kind::Tfs | Kind::KserveV2 | Kind::Examples => {
            let (inputs, form) = tfs::read_predict(signature, &mut reader)?;
            reader.finish()?;
            let envelope = match form {
                tfs::Form::Row => ReplyFormat::Rows,
                tfs::Form::Column => ReplyFormat::Columns,
            };
            Decoded::stated(inputs, envelope)
        }
        Kind::HuggingFace => {
            return match huggingface::decode(signature, body)? {
                Some(decoded) => Ok(decoded),
                None => decode_documents(signature, body),
            };
        }
        Kind::Mlflow => return mlflow::decode(signature, body),
        Kind::Scalar => {
            let mut rows = RowBuilder::new(signature);
            rows.push(&mut reader)?;
            let mut inputs = rows.finish()?;
            inputs.iter_mut().for_each(|it| shapes::without_brackets(signature, it));
            Decoded { lines: false, ..Decoded::rows(inputs, Media::Json) }
        }
        Kind::Instances => objects::instances(signature, &mut reader)?,
        Kind::Features => return objects::lines(signature, &mut reader, rows::in_record),
        Kind::Named => Decoded {
            envelope: ReplyFormat::Rows,
            ..Decoded::whole(rows::read_row_or_columns(signature, &mut reader)?, Media::Json)
        },
        Kind::Bare => {
            Decoded::whole(rows::read_list(signature, &mut reader, List::RowsOrOne)?, Media::Json)
        }
    };
    match reader.finish() {
        Ok(()) => Ok(decoded),
        Err(_) => {
            // All of them are read again, this one among them.
            drop(decoded);
            decode_documents(signature, body)
        }
    }
}

/// One document per row; a single array or object is what it would be as JSON. `kind` is that of the first one.
pub(super) fn decode_lines(
    signature: &Signature,
    kind: Option<Kind>,
    body: &[u8],
) -> Result<Decoded, Error> {
    let mut reader = Reader::new(body)?;
    reader.skip_value()?;
    let kind = match kind {
        Some(kind @ (Kind::Features | Kind::HuggingFace)) => kind,
        Some(kind) if reader.finish().is_ok() => kind,
        _ => return decode_documents(signature, body),
    };
    let decoded = decode(signature, kind, body)?;
    // A line without a key around it came from a file of rows.
    let envelope = match decoded.envelope {
        ReplyFormat::Bare => ReplyFormat::Rows,
        other => other,
    };
    Ok(Decoded { envelope, lines: true, ..decoded })
}

/// Each document is a row.
fn decode_documents(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
    let mut reader = Reader::new(body)?;
    reader.takes_missing(signature.takes_missing);
    let mut rows = RowBuilder::new(signature);
    for record in 1.. {
        rows.push(&mut reader).map_err(|error| rows::in_record(record, error))?;
        if reader.is_at_end() {
            break;
        }
    }
    Ok(Decoded::rows(rows.finish()?, Media::Json))
}
