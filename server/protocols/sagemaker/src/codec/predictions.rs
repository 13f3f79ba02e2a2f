//! Replies in which every row is an object of fields: AWS's algorithms and XGBoost's container write them as JSON,
//! JSON lines, CSV and RecordIO.

use std::borrow::Cow;

use backend::{DataType, NamedTensor, Shape, Tensor};

use formats::{
    EncodedReply,
    json::write::{self, BytesAs},
    negotiate::{LinesName, Media},
    recordio, reply,
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};

/// The name of a field that has none of its own.
pub(super) const SCORE: &str = "score";

/// Rows of fields.
pub(super) struct Predictions<'a> {
    rows: usize,
    /// `[rows, ..]` each; one element in a row is a scalar, several are a list.
    fields: Vec<(Cow<'a, str>, Tensor)>,
}

/// Where a CSV text puts its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// In quotes: one of several fields.
    Quoted,
    /// As Python prints them: all of the line.
    Bare,
    /// Each element in a field of its own.
    Columns,
}

/// How a CSV text is written. What is no number stands in it as Python prints it: `nan`, `inf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CsvForm<'a> {
    /// Where its lists are.
    pub(super) lists: Lists,
    /// What is behind each row but the last.
    pub(super) between: &'a str,
    /// What is behind the last.
    pub(super) after: &'a str,
}

impl<'a> Predictions<'a> {
    /// These fields.
    ///
    /// # Errors
    /// When one of them has not so many rows.
    pub(super) fn new(
        rows: usize,
        fields: Vec<(Cow<'a, str>, Tensor)>,
    ) -> Result<Predictions<'a>, Error> {
        match fields.iter().find(|(_, tensor)| tensor.shape().rows() != Some(rows)) {
            Some((name, _)) => Err(Error::Internal(format!("'{name}' has not {rows} rows"))),
            None => Ok(Predictions { rows, fields }),
        }
    }

    /// A response's outputs: the only one as the score, several by their names.
    ///
    /// # Errors
    /// When they are no rows.
    pub(super) fn of_outputs(
        signature: &Signature,
        response: &'a InferenceResponse,
    ) -> Result<Predictions<'a>, Error> {
        let rows = reply::rows_of(signature, response);
        let alone = response.outputs.len() == 1;
        let field = |NamedTensor { name, tensor }: &'a NamedTensor| {
            let name = Cow::Borrowed(if alone { SCORE } else { &**name });
            // Without a dimension that counts rows there is one.
            let one = || std::iter::once(1).chain(tensor.shape().dims().iter().copied()).collect();
            let tensor = if rows.is_some() { Some(tensor.clone()) } else { tensor.reshape(one()) };
            Ok((name, tensor.ok_or_else(no_rows)?))
        };
        let fields = response.outputs.iter().map(field).collect::<Result<_, Error>>()?;
        Predictions::new(rows.unwrap_or(1), fields)
    }

    /// Bytes of the fields.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.fields.iter().map(|(_, tensor)| tensor.byte_len()).sum()
    }

    /// `{"predictions": [{..}, ..]}`.
    pub(super) fn json(&self) -> Result<EncodedReply, Error> {
        let mut out = b"{\"predictions\":[".to_vec();
        self.each(|row| {
            write::item(&mut out);
            object(&mut out, row)
        })?;
        out.extend_from_slice(b"]}");
        Ok(EncodedReply::json(out))
    }

    /// `[.., ..]`: the only field of each row, without its name.
    pub(super) fn json_list(&self) -> Result<EncodedReply, Error> {
        let mut out = b"[".to_vec();
        self.each(|row| {
            for (_, tensor) in row.iter().take(1) {
                write::item(&mut out);
                write::nested(&mut out, tensor, BytesAs::TextOrBase64).map_err(reply::not_text)?;
            }
            Ok(())
        })?;
        out.push(b']');
        Ok(EncodedReply::json(out))
    }

    /// An object on each line.
    pub(super) fn json_lines(&self, name: LinesName) -> Result<EncodedReply, Error> {
        let mut out = Vec::new();
        self.each(|row| {
            object(&mut out, row)?;
            out.push(b'\n');
            Ok(())
        })?;
        Ok(reply::typed(Media::JsonLines(name), vec![out.into()]))
    }

    /// The fields of each row.
    pub(super) fn csv(&self, form: CsvForm<'_>) -> Result<EncodedReply, Error> {
        let CsvForm { between, after, .. } = form;
        let mut out = Vec::new();
        let mut first = true;
        self.each(|row| {
            if !std::mem::take(&mut first) {
                out.extend_from_slice(between.as_bytes());
            }
            for (at, (_, tensor)) in row.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                cell(&mut out, tensor, form)?;
            }
            Ok(())
        })?;
        out.extend_from_slice(after.as_bytes());
        Ok(reply::typed(Media::Csv, vec![out.into()]))
    }

    /// A record for each row, its fields as labels.
    ///
    /// # Errors
    /// When a field is of strings.
    pub(super) fn recordio(&self) -> Result<EncodedReply, Error> {
        if let Some((name, _)) = self.fields.iter().find(|it| it.1.dtype() == DataType::Bytes) {
            let media = Media::RecordIo;
            return Err(Error::NotAcceptable(format!(
                "{media} carries numbers, '{name}' is of strings"
            )));
        }
        let mut out = Vec::new();
        self.each(|row| {
            recordio::write(&mut out, row).map_err(|it| Error::Internal(it.to_string()))
        })?;
        Ok(reply::typed(Media::RecordIo, vec![out.into()]))
    }

    /// Calls `write` for each row with the fields of that row.
    fn each(
        &self,
        mut write: impl FnMut(&[(&str, Tensor)]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (name, tensor) in &self.fields {
            let rows = reply::Rows::of(tensor, Some(self.rows)).ok_or_else(no_rows)?;
            columns.push((&**name, rows));
        }
        for _ in 0..self.rows {
            let fields =
                columns.iter_mut().filter_map(|(name, rows)| Some((*name, flat(rows.next()?))));
            write(&fields.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// The elements of a row as a scalar where there is one, else as they are nested.
fn flat(row: Tensor) -> Tensor {
    match row.elements() {
        1 => row.reshape(Shape::new(&[])).unwrap_or(row),
        _ => row,
    }
}

fn object(out: &mut Vec<u8>, row: &[(&str, Tensor)]) -> Result<(), Error> {
    out.push(b'{');
    for (name, tensor) in row {
        write::key(out, name);
        write::nested(out, tensor, BytesAs::TextOrBase64).map_err(reply::not_text)?;
    }
    out.push(b'}');
    Ok(())
}

/// One field of a CSV row. Lists are written as Python prints them.
fn cell(out: &mut Vec<u8>, tensor: &Tensor, form: CsvForm<'_>) -> Result<(), Error> {
    let is_scalar = tensor.shape().dims().is_empty();
    if is_scalar && tensor.dtype() == DataType::Bytes {
        reply::fields(out, tensor);
        return Ok(());
    }
    let start = out.len();
    write::nested(out, tensor, BytesAs::TextOrBase64).map_err(reply::not_text)?;
    let mut text = String::from_utf8_lossy(out.get(start..).unwrap_or_default()).into_owned();
    out.truncate(start);
    if tensor.dtype() != DataType::Bytes {
        text = text.replace("NaN", "nan").replace("Infinity", "inf");
        if form.lists != Lists::Columns {
            text = text.replace(',', ", ");
        }
    }
    match form.lists {
        _ if is_scalar => out.extend_from_slice(text.as_bytes()),
        Lists::Bare => out.extend_from_slice(text.as_bytes()),
        Lists::Columns => {
            out.extend_from_slice(text.trim_start_matches('[').trim_end_matches(']').as_bytes());
        }
        Lists::Quoted => {
            out.push(b'"');
            out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        }
    }
    Ok(())
}

fn no_rows() -> Error {
    Error::Internal("the outputs do not split into rows".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::{
        recordio::{Frames, record::Record},
        samples::{body, model, only, respond},
    };
    use prost::Message;

    fn two() -> Signature {
        model(8, &[], &["label INT64 [1]", "distance FP32 [2]"])
    }

    #[test]
    fn the_only_output_is_the_score_and_several_keep_their_names() {
        let one = model(8, &[], &["y FP32 [1]"]);
        let response = respond(&one, 2);
        let predictions = Predictions::of_outputs(&one, &response).unwrap();
        let expected = r#"{"predictions":[{"score":0.0},{"score":0.5}]}"#;
        assert_eq!(body(&predictions.json().unwrap()), expected);
        let response = respond(&two(), 2);
        let predictions = Predictions::of_outputs(&two(), &response).unwrap();
        let lines = predictions.json_lines(LinesName::JsonLines).unwrap();
        assert_eq!(lines.content_type, "application/jsonlines");
        let expected =
            "{\"label\":0,\"distance\":[0.0,0.5]}\n{\"label\":1,\"distance\":[1.0,1.5]}\n";
        assert_eq!(body(&lines), expected);
    }

    #[test]
    fn a_reply_without_rows_is_one() {
        let signature = model(0, &[], &["label INT64 []", "distance FP32 [2]"]);
        let response = respond(&signature, 1);
        let predictions = Predictions::of_outputs(&signature, &response).unwrap();
        let expected = r#"{"predictions":[{"label":0,"distance":[0.0,0.5]}]}"#;
        assert_eq!(body(&predictions.json().unwrap()), expected);
    }

    #[test]
    fn a_list_in_csv_is_quoted_among_other_fields() {
        let response = respond(&two(), 2);
        let predictions = Predictions::of_outputs(&two(), &response).unwrap();
        let csv = |lists, between| {
            let form = CsvForm { lists, between, after: "" };
            body(&predictions.csv(form).unwrap())
        };
        assert_eq!(csv(Lists::Quoted, "\n"), "0,\"[0.0, 0.5]\"\n1,\"[1.0, 1.5]\"");
        assert_eq!(csv(Lists::Bare, ";"), "0,[0.0, 0.5];1,[1.0, 1.5]");
    }

    #[test]
    fn a_list_may_be_columns_and_what_is_no_number_as_python_prints_it() {
        let values = vec![f32::NAN, f32::NEG_INFINITY, 1.0, f32::INFINITY];
        let tensor = Tensor::from_vec(Shape::new(&[2, 2]), values).unwrap();
        let response = only("y", tensor);
        let signature = model(8, &[], &["y FP32 [2]"]);
        let predictions = Predictions::of_outputs(&signature, &response).unwrap();
        let csv =
            |lists| body(&predictions.csv(CsvForm { lists, between: "\n", after: "\n" }).unwrap());
        assert_eq!(csv(Lists::Columns), "nan,-inf\n1.0,inf\n");
        assert_eq!(csv(Lists::Bare), "[nan, -inf]\n[1.0, inf]\n");
        assert_eq!(body(&predictions.json_list().unwrap()), "[[NaN,-Infinity],[1.0,Infinity]]");
    }

    #[test]
    fn records_have_their_fields_as_labels_of_floats() {
        let response = respond(&two(), 2);
        let predictions = Predictions::of_outputs(&two(), &response).unwrap();
        let bytes = predictions.recordio().unwrap().body.concat();
        let records: Vec<Record> =
            Frames::new(&bytes).map(|it| Record::decode(it.unwrap()).unwrap()).collect();
        let labels = |at: usize| format!("{:?}", records[at].label);
        assert_eq!(records.len(), 2);
        assert!(labels(0).contains(
            "\"distance\": Value { value: Some(Float32Tensor(Float32Tensor { values: [0.0, 0.5]"
        ));
        assert!(labels(1).contains(
            "\"label\": Value { value: Some(Float32Tensor(Float32Tensor { values: [1.0]"
        ));
    }

    #[test]
    fn strings_have_no_record() {
        let tensor = Tensor::from_strings(Shape::new(&[1]), [b"a"]).unwrap();
        let response = only("y", tensor);
        let signature = model(8, &[], &["y BYTES []"]);
        let predictions = Predictions::of_outputs(&signature, &response).unwrap();
        assert!(matches!(predictions.recordio(), Err(Error::NotAcceptable(_))));
        let (between, after) = ("\n", "\n");
        let form = CsvForm { lists: Lists::Bare, between, after };
        assert_eq!(body(&predictions.csv(form).unwrap()), "a\n");
    }
}
