//! What pipelines of images and sounds say, as CSV: a line for each class, object or transcript, under a record with
//! the names of their keys.

use std::borrow::Cow;

use super::result;
use crate::{
    EncodedReply,
    json::{Reader, Token},
    negotiate::Media,
    reply::field,
};
use inference::{error::Error, request::InferenceResponse, task::Task};

/// The column with the number of the input, where there are several.
const ROW: &str = "row";

/// The keys of an object in an image, whose box has a column for each of its sides.
const OF_OBJECTS: [&str; 6] = ["score", "label", "xmin", "ymin", "xmax", "ymax"];

/// What the rows say. Numbers without keys are the fields of one line for each input, and have no names.
///
/// # Errors
/// When the rows have said nothing.
pub(super) fn encode(task: Task, response: &InferenceResponse) -> Result<EncodedReply, Error> {
    let rows = result::rows(response);
    let rows = rows.ok_or_else(|| Error::Internal("a pipeline has said nothing".to_owned()))?;
    let rows: Vec<&[u8]> = rows.collect();
    let mut table = Table { numbered: rows.len() > 1, ..Table::default() };
    for (at, row) in rows.into_iter().enumerate() {
        Reader::document(row, |reader| match reader.peek()? {
            Token::Object => table.record(at, reader),
            _ => {
                let start = reader.mark();
                let mut numbers = Vec::new();
                reader.array(|reader, _| match reader.peek()? {
                    Token::Object => table.record(at, reader),
                    _ => {
                        numbers.push(reader.raw_value()?);
                        Ok(())
                    }
                })?;
                if !numbers.is_empty() {
                    let numbers = reader.revisit(start, |reader| reader.raw_value())?;
                    table.numbers(at, numbers);
                }
                Ok(())
            }
        })?;
    }
    if !table.is_named && table.out.is_empty() && task == Task::ObjectDetection {
        table.head(&OF_OBJECTS.map(Cow::Borrowed));
    }
    let media = Media::Csv.name().into();
    Ok(EncodedReply { content_type: media, ..EncodedReply::json(table.out) })
}

/// Lines of CSV.
#[derive(Default)]
struct Table {
    out: Vec<u8>,
    /// Has each line the number of its input in front?
    numbered: bool,
    /// Are the names of the columns written?
    is_named: bool,
}

impl Table {
    fn head(&mut self, names: &[Cow<'_, str>]) {
        let row = self.numbered.then_some(Cow::Borrowed(ROW));
        let names: Vec<&str> = row.iter().chain(names).map(AsRef::as_ref).collect();
        self.line(&names);
        self.is_named = true;
    }

    /// The line of the object at the reader.
    fn record<'a>(&mut self, row: usize, reader: &mut Reader<'a>) -> Result<(), Error> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        reader.object(|reader, key| match reader.peek()? {
            Token::Object => reader.object(|reader, key| {
                names.push(key);
                values.push(value(reader)?);
                Ok(())
            }),
            _ => {
                names.push(key);
                values.push(value(reader)?);
                Ok(())
            }
        })?;
        if !self.is_named {
            self.head(&names);
        }
        let row = self.numbered.then(|| Cow::Owned(row.to_string()));
        let fields: Vec<&str> = row.iter().chain(&values).map(AsRef::as_ref).collect();
        self.line(&fields);
        Ok(())
    }

    /// A line of all numbers in a nested list.
    fn numbers(&mut self, row: usize, list: &str) {
        let row = self.numbered.then(|| row.to_string());
        let numbers = list.split(['[', ']', ',', ' ']).filter(|it| !it.is_empty());
        let fields: Vec<&str> = row.as_deref().into_iter().chain(numbers).collect();
        self.line(&fields);
    }

    fn line(&mut self, fields: &[&str]) {
        for (at, it) in fields.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            field(&mut self.out, it.as_bytes());
        }
        self.out.push(b'\n');
    }
}

/// A text without its quotes, or a number.
fn value<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, str>, Error> {
    match reader.peek()? {
        Token::String => reader.string(),
        _ => reader.raw_value().map(Cow::Borrowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{body, only};
    use backend::{Shape, Tensor};
    use inference::task::RESULT;

    #[track_caller]
    fn check(task: Task, rows: &[&str], expected: &str) {
        let result = Tensor::from_strings(Shape::new(&[rows.len(), 1]), rows).unwrap();
        let reply = encode(task, &only(RESULT, result)).unwrap();
        assert_eq!((&*reply.content_type, body(&reply).as_str()), ("text/csv", expected));
    }

    #[test]
    fn classes_are_lines() {
        let cats = r#"[{"label":"cat, tabby","score":0.75},{"label":"dog","score":1e-05}]"#;
        let dog = r#"[{"label":"dog","score":1.0}]"#;
        let task = Task::ImageClassification;
        check(task, &[cats], "label,score\n\"cat, tabby\",0.75\ndog,1e-05\n");
        let both = "row,label,score\n0,\"cat, tabby\",0.75\n0,dog,1e-05\n1,dog,1.0\n";
        check(task, &[cats, dog], both);
    }

    #[test]
    fn the_sides_of_a_box_are_columns() {
        let found =
            r#"[{"score":0.9,"label":"cat","box":{"xmin":1,"ymin":2,"xmax":30,"ymax":40}}]"#;
        let head = "score,label,xmin,ymin,xmax,ymax\n";
        check(Task::ObjectDetection, &[found], &format!("{head}0.9,cat,1,2,30,40\n"));
        check(Task::ObjectDetection, &["[]"], head);
    }

    #[test]
    fn a_transcript_and_a_vector_are_a_line() {
        check(
            Task::AutomaticSpeechRecognition,
            &[r#"{"text":"HI \"YOU\""}"#],
            "text\n\"HI \"\"YOU\"\"\"\n",
        );
        check(Task::ImageFeatureExtraction, &["[[[0.5,1.0],[2.0,-3.0]]]"], "0.5,1.0,2.0,-3.0\n");
    }
}
