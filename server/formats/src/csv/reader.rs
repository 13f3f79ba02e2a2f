//! RFC 4180 fields, one after another, without a copy but for quoted fields that hold a quote.

use inference::{error::Error, grant::Grant};

/// A body as text.
///
/// # Errors
/// When it is not UTF-8.
pub(super) fn text(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Error::InvalidRequest(format!("the CSV text is not UTF-8, at byte {offset}"))
    })
}

/// Walks the fields of a CSV text. Line ends are LF or CRLF; lines with nothing on them are no records.
pub(super) struct CsvReader<'a> {
    rest: &'a str,
    /// Of the record that the next field belongs to, counted from 1.
    record: usize,
    /// Is the next field the first of its record?
    fresh: bool,
    /// Ended the last field with a comma, so that another one must follow?
    comma: bool,
    /// Ended it with a line end?
    ended: bool,
    /// A quoted field without its doubled quotes.
    unquoted: String,
    /// Who is asked for that text; `None` for a look at the text.
    grant: Option<&'a Grant>,
    /// Longer fields keep their doubled quotes: they are not copied.
    longest_copy: usize,
}

/// One field.
pub(super) struct Field<'a> {
    /// Its text, without quotes around it.
    pub(super) text: &'a str,
    /// Its record, counted from 1.
    pub(super) record: usize,
    /// Is it the last of its record?
    pub(super) last: bool,
}

impl<'a> CsvReader<'a> {
    pub(super) fn new(text: &'a str, grant: &'a Grant) -> CsvReader<'a> {
        CsvReader { grant: Some(grant), ..CsvReader::preview(text, usize::MAX) }
    }

    /// A reader for a look at the text. Fields of more bytes than that keep their doubled quotes, so that it takes no
    /// memory for them.
    pub(super) fn preview(text: &'a str, longest_copy: usize) -> CsvReader<'a> {
        CsvReader {
            rest: text.get(start(text.as_bytes())..).unwrap_or_default(),
            record: 0,
            fresh: true,
            comma: false,
            ended: false,
            unquoted: String::new(),
            grant: None,
            longest_copy,
        }
    }

    /// Has the last field a line end behind it, rather than the end of the text?
    pub(super) fn is_behind_line_end(&self) -> bool {
        self.ended
    }

    /// The next field; `None` at the end.
    ///
    /// # Errors
    /// When a quoted field does not end, or something other than a comma or a line end follows it.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Field<'_>>, Error> {
        if self.fresh {
            while let Some(rest) = after_line_end(self.rest) {
                self.rest = rest;
            }
            self.record += 1;
        }
        if self.rest.is_empty() && !self.comma {
            return Ok(None);
        }
        if self.rest.starts_with('"') {
            return self.quoted().map(Some);
        }
        let end = self.rest.bytes().position(|it| it == b',' || it == b'\n');
        let end = end.unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.comma = rest.starts_with(',');
        self.ended = rest.starts_with('\n');
        self.rest = rest.get(1..).unwrap_or_default();
        self.fresh = !self.comma;
        let text = if self.comma { text } else { text.strip_suffix('\r').unwrap_or(text) };
        Ok(Some(Field { text, record: self.record, last: self.fresh }))
    }

    /// The next field, which begins with a quote.
    fn quoted(&mut self) -> Result<Field<'_>, Error> {
        let record = self.record;
        let inner = self.rest.get(1..).unwrap_or_default();
        let invalid = |it: &str| Error::InvalidRequest(format!("CSV record {record}: {it}"));
        let open = || invalid("a quoted field does not end");
        let (mut at, mut doubled) = (0, false);
        let (text, rest) = loop {
            let from_here = inner.get(at..).unwrap_or_default();
            at += from_here.find('"').ok_or_else(open)?;
            let rest = inner.get(at + 1..).unwrap_or_default();
            if !rest.starts_with('"') {
                break (inner.get(..at).unwrap_or_default(), rest);
            }
            doubled = true;
            at += 2;
        };
        let after_comma = rest.strip_prefix(',');
        self.comma = after_comma.is_some();
        self.fresh = !self.comma;
        let after_end = after_line_end(rest);
        self.ended = after_end.is_some();
        let after = after_comma.or(after_end);
        self.rest = after
            .or(rest.is_empty().then_some(rest))
            .ok_or_else(|| invalid("expected a comma or a line end after a quoted field"))?;
        if !doubled || self.longest_copy < text.len() {
            return Ok(Field { text, record, last: self.fresh });
        }
        self.make_room(text.len())?;
        // Inside, quotes come in pairs. Each pair is one quote.
        for (i, part) in text.split("\"\"").enumerate() {
            if i > 0 {
                self.unquoted.push('"');
            }
            self.unquoted.push_str(part);
        }
        let text = self.unquoted.as_str();
        Ok(Field { text, record, last: self.fresh })
    }
}

impl CsvReader<'_> {
    /// Makes room for a quoted field of so many bytes, in place of the last one.
    fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        self.unquoted.clear();
        let (Some(grant), true) = (self.grant, self.unquoted.capacity() < bytes) else {
            return Ok(());
        };
        grant.give_back(std::mem::take(&mut self.unquoted).capacity());
        grant.hold(bytes)?;
        self.unquoted.reserve_exact(bytes);
        Ok(())
    }
}

/// Bytes in front of the first record: the byte order mark of spreadsheets, and lines with nothing on them.
pub(super) fn start(text: &[u8]) -> usize {
    let mut rest = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    while let [b'\n', tail @ ..] | [b'\r', b'\n', tail @ ..] = rest {
        rest = tail;
    }
    text.len() - rest.len()
}

/// What follows the line end at the beginning of `text`.
fn after_line_end(text: &str) -> Option<&str> {
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<Vec<String>>, Error> {
        let grant = Grant::all(0);
        let mut reader = CsvReader::new(text, &grant);
        let (mut records, mut record) = (Vec::new(), Vec::new());
        while let Some(field) = reader.next()? {
            assert_eq!(field.record, records.len() + 1);
            record.push(field.text.to_owned());
            if field.last {
                records.push(std::mem::take(&mut record));
            }
        }
        assert!(record.is_empty(), "the last field of a record says so");
        Ok(records)
    }

    #[track_caller]
    fn check(text: &str, expected: &[&[&str]]) {
        let own = |it: &&[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(read(text), Ok(expected.iter().map(own).collect()), "{text:?}");
    }

    #[test]
    fn line_ends_of_either_kind_and_at_the_end_make_no_difference() {
        for text in ["1,2\n3,4", "1,2\r\n3,4\r\n", "\u{feff}1,2\n\n3,4\n\r\n"] {
            check(text, &[&["1", "2"], &["3", "4"]]);
        }
        check("", &[]);
        check("\n\r\n", &[]);
    }

    #[test]
    fn empty_fields_are_fields() {
        check(",\n1,", &[&["", ""], &["1", ""]]);
        check("\"\"", &[&[""]]);
        check("1,\r\n", &[&["1", ""]]);
    }

    #[test]
    fn quotes_protect_commas_line_ends_and_quotes() {
        check("\"a,b\",\"c\r\nd\"\r\n\"e\"\"\",f", &[&["a,b", "c\r\nd"], &["e\"", "f"]]);
        check("\"\"\"\"\"\",a\"b", &[&["\"\"", "a\"b"]]);
    }

    #[test]
    fn a_quote_that_does_not_end_is_an_error_of_its_record() {
        let refused = |text| read(text).unwrap_err().to_string();
        assert!(refused("1\n\"2").starts_with("CSV record 2: a quoted"));
        assert!(refused("\"1\"2").starts_with("CSV record 1: expected a comma"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a,\"\r\n\u{e9}]*") {
            let _ = read(&text);
        }

        #[test]
        fn what_is_quoted_reads_back(
            records in prop::collection::vec(prop::collection::vec(".*", 1..4), 0..4),
        ) {
            let quoted = |it: &String| format!("\"{}\"", it.replace('"', "\"\""));
            let line = |it: &Vec<String>| it.iter().map(quoted).collect::<Vec<_>>().join(",");
            let text = records.iter().map(line).collect::<Vec<_>>().join("\r\n");
            prop_assert_eq!(read(&text), Ok(records));
        }
    }
}
