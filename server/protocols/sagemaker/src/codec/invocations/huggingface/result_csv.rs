//! What pipelines say, as CSV: a line for each class, entity, object or transcript, under a record with the names of
//! their keys.

use std::borrow::Cow;

use formats::{
    EncodedReply,
    json::{JsonReader, Token},
    negotiate::Media,
    reply::field,
};
use inference::{
    error::Error,
    grant::Grant,
    task::{Csv, Medium, Task},
};

/// The column with the number of the input, where there are several.
const ROW: &str = "row";

/// What the rows say. Numbers without keys are the fields of one line for each input, and have no names.
///
/// Of several inputs each line has the number of its own in front; of several texts only where one may have several
/// lines.
///
/// # Errors
/// When a row is no JSON.
pub(super) fn encode<'a>(
    task: Task,
    rows: impl Iterator<Item = &'a [u8]>,
) -> Result<EncodedReply, Error> {
    let rows: Vec<&[u8]> = rows.collect();
    let is_line_each = task.medium() == Medium::Text && rows.iter().all(|it| it.starts_with(b"{"));
    let numbered = rows.len() > 1 && !is_line_each;
    let (grant, mut table) = (Grant::uncounted(), Table { numbered, ..Table::default() });
    for (at, row) in rows.into_iter().enumerate() {
        match row.iter().find(|it| !matches!(it, b'[' | b' ')) {
            Some(b'{') => JsonReader::document(row, &grant, |reader| table.records(at, reader))?,
            // A list of nothing.
            Some(b']') | None => {}
            Some(_) => {
                let numbers = JsonReader::document(row, &grant, |reader| reader.raw_value())?;
                table.numbers(at, numbers);
            }
        }
    }
    if let Csv::Objects(names @ [_, ..]) = task.facts().csv
        && !table.is_named
        && table.out.is_empty()
    {
        let names: Vec<Cow<'_, str>> = names.iter().copied().map(Cow::Borrowed).collect();
        table.head(&names);
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

    /// The lines of the object at the reader, or of all objects in a list.
    fn records<'a>(&mut self, row: usize, reader: &mut JsonReader<'a>) -> Result<(), Error> {
        match reader.peek()? {
            Token::Array => reader.array(|reader, _| self.records(row, reader)),
            _ => self.record(row, reader),
        }
    }

    /// The line of the object at the reader. A list in it is a field of JSON.
    fn record<'a>(&mut self, row: usize, reader: &mut JsonReader<'a>) -> Result<(), Error> {
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
fn value<'a>(reader: &mut JsonReader<'a>) -> Result<Cow<'a, str>, Error> {
    match reader.peek()? {
        Token::String => reader.string(),
        _ => reader.raw_value().map(Cow::Borrowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::body;

    #[track_caller]
    fn check(task: Task, rows: &[&str], expected: &str) {
        let reply = encode(task, rows.iter().map(|it| it.as_bytes())).unwrap();
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

    #[test]
    fn a_text_has_the_number_of_its_row_where_it_may_have_several_lines() {
        let task = Task::TextClassification;
        let (one, other) = (r#"{"label":"a","score":0.5}"#, r#"{"label":"b","score":0.75}"#);
        check(task, &[one, other], "label,score\na,0.5\nb,0.75\n");
        let all = format!("[{one},{other}]");
        check(task, &[&all], "label,score\na,0.5\nb,0.75\n");
        check(task, &["[]", &all], "row,label,score\n1,a,0.5\n1,b,0.75\n");
        check(Task::TokenClassification, &["[]"], "");
    }

    #[test]
    fn lists_in_lists_are_lines_and_lists_in_objects_are_fields() {
        let masks = r#"[[{"token_str":"a","score":0.5}],[{"token_str":"b","score":0.25}]]"#;
        check(Task::FillMask, &[masks], "token_str,score\na,0.5\nb,0.25\n");
        let labels = r#"{"sequence":"t","labels":["a","b"],"scores":[0.75,0.25]}"#;
        let expected = "sequence,labels,scores\nt,\"[\"\"a\"\",\"\"b\"\"]\",\"[0.75,0.25]\"\n";
        check(Task::ZeroShotClassification, &[labels], expected);
    }
}
