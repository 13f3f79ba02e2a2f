//! JSON on `/invocations`: which of its dialects a body is in, and the decoder of each but KServe v2.

use std::borrow::Cow;

use crate::{
    error::Error,
    protocol::{
        json::{Reader, Token},
        negotiate::Media,
        number::Excerpt,
        rows::{self, List, RowBuilder},
        tfs,
    },
    signature::Signature,
};

use super::{Decoded, ReplyFormat};

/// The dialect of one JSON document that is not KServe v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An object with `instances` or `inputs`.
    Tfs,
    /// An object keyed by the names of the model's inputs.
    Named,
    /// An array.
    Bare,
}

/// Does the body begin as a JSON object or array?
pub(super) fn may_be(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Is the body an object whose `inputs` are a list of objects with a name and a shape or type? Reads no
/// further than it must. What is broken is not: another decoder has the better error.
pub(super) fn is_kserve_v2(body: &[u8]) -> bool {
    let mut found = false;
    let Ok(mut reader) = Reader::new(body) else {
        return false;
    };
    let _ = reader.object(|reader, key| match &*key {
        "inputs" => {
            found = holds_tensors(reader);
            Err(rows::enough())
        }
        "instances" => Err(rows::enough()),
        _ => reader.skip_value(),
    });
    found
}

/// The dialect of the document at the reader. Reads no further than it must.
///
/// # Errors
/// When it is none of them, or broken before that is known.
fn kind<'a>(signature: &Signature, reader: &mut Reader<'a>) -> Result<Kind, Error> {
    match reader.peek()? {
        Token::Object => {}
        Token::Array => return Ok(Kind::Bare),
        other => {
            let problem = format_args!("expected an object or an array, found {other}");
            return Err(reader.error(problem));
        }
    }
    let (mut tfs, mut named, mut other) = (false, false, None::<Cow<'a, str>>);
    let result = reader.object(|reader, key| {
        tfs = matches!(&*key, "instances" | "inputs");
        if tfs {
            return Err(rows::enough());
        }
        named |= signature.input(&key).is_some();
        other.get_or_insert(key);
        reader.skip_value()
    });
    if tfs {
        return Ok(Kind::Tfs);
    }
    result?;
    if named {
        return Ok(Kind::Named);
    }
    let found = other.map_or("no key".to_owned(), |it| format!("'{}'", Excerpt(&it)));
    Err(Error::InvalidRequest(format!(
        "expected the key 'instances' or 'inputs', or the model's inputs ({}) as keys, found {found}",
        rows::names_of(signature)
    )))
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

/// One document, or several that are rows.
pub(super) fn decode(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
    let mut reader = Reader::new(body)?;
    let start = reader.mark();
    let (inputs, envelope) = match reader.revisit(start, |reader| kind(signature, reader))? {
        Kind::Tfs => {
            let (inputs, form) = tfs::read_predict(signature, &mut reader)?;
            let envelope = match form {
                tfs::Form::Row => ReplyFormat::Rows,
                tfs::Form::Column => ReplyFormat::Columns,
            };
            reader.finish()?;
            (inputs, envelope)
        }
        Kind::Named => (rows::read_row_or_columns(signature, &mut reader)?, ReplyFormat::Rows),
        Kind::Bare => {
            (rows::read_list(signature, &mut reader, List::RowsOrOne)?, ReplyFormat::Bare)
        }
    };
    match reader.finish() {
        Ok(()) => Ok(Decoded { inputs, envelope, family: Media::Json }),
        Err(_) => decode_documents(signature, body),
    }
}

/// One document per row; a single array or object is what it would be as JSON.
pub(super) fn decode_lines(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
    let mut reader = Reader::new(body)?;
    reader.skip_value()?;
    if reader.finish().is_err() || !may_be(body) {
        return decode_documents(signature, body);
    }
    let decoded = decode(signature, body)?;
    // A line without a key around it came from a file of rows.
    let columns = decoded.envelope == ReplyFormat::Columns;
    Ok(Decoded {
        envelope: if columns { ReplyFormat::Columns } else { ReplyFormat::Rows },
        ..decoded
    })
}

/// Each document is a row.
fn decode_documents(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
    let mut reader = Reader::new(body)?;
    let mut rows = RowBuilder::new(signature);
    for record in 1.. {
        rows.push(&mut reader).map_err(|error| in_record(record, error))?;
        if reader.finish().is_ok() {
            break;
        }
    }
    Ok(Decoded { inputs: rows.finish()?, envelope: ReplyFormat::Rows, family: Media::Json })
}

/// The same error with the record's number: a line is easier to find than a byte.
fn in_record(record: usize, error: Error) -> Error {
    match error {
        Error::InvalidRequest(problem) => {
            Error::InvalidRequest(format!("record {record}: {problem}"))
        }
        other => other,
    }
}
