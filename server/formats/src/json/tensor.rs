//! Nested arrays straight into the memory of a tensor: one pass, no allocation per element.

use smallvec::SmallVec;

use backend::Shape;

use super::{base64, file, path::Step, reader::JsonReader};
use crate::{
    elements::{Booleans, Column, ElementError, RowCodes, Strings, TensorBuilder},
    expansion::{self, SPELLED, UNCOUNTED},
    number::{self, Excerpt, Number},
};
use inference::{error::Error, granted::Granted};

/// How the elements of a BYTES tensor stand in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BytesForm {
    /// Strings.
    Text,
    /// Strings, or `{"b64": "..."}` with base64 for any bytes, as TensorFlow Serving reads it.
    TextOrBase64,
    /// Files: base64 as a string, which may begin as a `data:` address, or as `{"b64": "..."}`.
    File,
}

impl<'a> JsonReader<'a> {
    /// Reads a scalar or an array, flat or nested in any way, and adds its elements in their order.
    ///
    /// # Errors
    /// The first element that is not of the type, by its index; broken JSON.
    pub fn elements(&mut self, into: &mut TensorBuilder<'_>, form: BytesForm) -> Result<(), Error> {
        self.tensor(into, form, Nesting::Any).map(|_| ())
    }

    /// Reads a scalar or an array whose nesting is its shape, and adds its elements.
    ///
    /// # Errors
    /// As [`JsonReader::elements`]; and the first array that is not as long or as deep as those before it.
    pub fn shaped_elements(
        &mut self,
        into: &mut TensorBuilder<'_>,
        form: BytesForm,
    ) -> Result<Shape, Error> {
        self.tensor(into, form, Nesting::Regular)
    }

    fn tensor(
        &mut self,
        into: &mut TensorBuilder<'_>,
        form: BytesForm,
        nesting: Nesting,
    ) -> Result<Shape, Error> {
        let dtype = into.dtype();
        let mut walk = Walk {
            kind: number::kind(dtype),
            nesting,
            most: into.most,
            count: &mut into.count,
            codes: into.codes.as_ref(),
        };
        match &mut into.column {
            Column::Bool(values) => walk.run(self, values),
            Column::Uint8(values) => walk.run(self, values),
            Column::Uint16(values) => walk.run(self, values),
            Column::Uint32(values) => walk.run(self, values),
            Column::Uint64(values) => walk.run(self, values),
            Column::Int8(values) => walk.run(self, values),
            Column::Int16(values) => walk.run(self, values),
            Column::Int32(values) => walk.run(self, values),
            Column::Int64(values) => walk.run(self, values),
            Column::Fp16(values) => walk.run(self, values),
            Column::Bf16(values) => walk.run(self, values),
            Column::Fp32(values) => walk.run(self, values),
            Column::Fp64(values) => walk.run(self, values),
            Column::Bytes(strings) => walk.run(self, &mut StringSink { strings, form }),
        }
    }
}

/// Takes one element after the other.
trait Sink {
    /// Makes room for `elements` more.
    ///
    /// # Errors
    /// It is not granted.
    fn reserve(&mut self, elements: usize) -> Result<(), Error>;

    /// Reads the element that stands at the reader, and may read on as far as `most` elements of the same
    /// array; ends behind an element. Keeps those for which there is `room`. Returns how many it has read.
    fn take(
        &mut self,
        reader: &mut JsonReader<'_>,
        room: usize,
        most: usize,
    ) -> Result<usize, Error>;

    /// Adds a number that a text stands for. False where elements are none.
    ///
    /// # Errors
    /// The memory is not granted.
    fn push_number(&mut self, _: f64) -> Result<bool, Error> {
        Ok(false)
    }
}

impl<T: Number> Sink for Granted<'_, T> {
    fn reserve(&mut self, elements: usize) -> Result<(), Error> {
        Granted::reserve(self, elements)
    }

    /// The hot loop of every JSON request: all numbers up to the next bracket.
    #[inline]
    fn take(
        &mut self,
        reader: &mut JsonReader<'_>,
        room: usize,
        most: usize,
    ) -> Result<usize, Error> {
        let text = reader.rest();
        // What follows the last number that was read, and what follows the comma behind it.
        let (mut rest, mut next) = (text, text);
        let mut count = 0;
        let fault = loop {
            match T::read(next) {
                Ok((value, length)) => {
                    if count < room {
                        self.push(value)?;
                    }
                    count += 1;
                    rest = next.get(length..).unwrap_or_default();
                }
                Err(fault) => {
                    let is_null = reader.takes_missing && next.starts_with(b"null");
                    let Some(value) = T::MISSING.filter(|_| is_null) else { break Some(fault) };
                    if count < room {
                        self.push(value)?;
                    }
                    count += 1;
                    rest = next.get(4..).unwrap_or_default();
                }
            }
            next = match rest {
                [b',', tail @ ..] if count < most => tail,
                _ => break None,
            };
            while let [b' ' | b'\n' | b'\r' | b'\t', tail @ ..] = next {
                next = tail;
            }
        };
        reader.position += text.len() - rest.len();
        match fault.filter(|_| count == 0) {
            None => Ok(count),
            Some(fault) => Err(reader.bad_number::<T>(fault)),
        }
    }

    fn push_number(&mut self, number: f64) -> Result<bool, Error> {
        let text = if number.is_nan() { "NaN".to_owned() } else { number.to_string() };
        match T::read(text.as_bytes()) {
            Ok((number, _)) => self.push(number).map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

impl Sink for Booleans<'_> {
    fn reserve(&mut self, elements: usize) -> Result<(), Error> {
        self.0.reserve(elements)
    }

    fn take(&mut self, reader: &mut JsonReader<'_>, room: usize, _: usize) -> Result<usize, Error> {
        let value = reader.bool()?;
        if room > 0 {
            self.0.push(u8::from(value))?;
        }
        Ok(1)
    }
}

struct StringSink<'s, 'g> {
    strings: &'s mut Strings<'g>,
    form: BytesForm,
}

impl Sink for StringSink<'_, '_> {
    /// How long they will be is not known.
    fn reserve(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn take(&mut self, reader: &mut JsonReader<'_>, room: usize, _: usize) -> Result<usize, Error> {
        let is_object = reader.next_byte() == Some(b'{');
        let start = self.strings.begin()?;
        let out = &mut self.strings.0;
        match self.form {
            BytesForm::TextOrBase64 | BytesForm::File if is_object => {
                reader.base64_into(out, self.form)?;
            }
            BytesForm::File => reader.decoded_into(out, self.form)?,
            BytesForm::Text | BytesForm::TextOrBase64 => reader.string_into(out)?,
        }
        if room > 0 {
            self.strings.end(start).map_err(|problem| reader.error(problem))?;
        } else {
            self.strings.0.truncate(start.saturating_sub(4));
        }
        Ok(1)
    }
}

impl<'a> JsonReader<'a> {
    /// The bytes of `{"b64": "..."}`, which may be any.
    ///
    /// # Errors
    /// When it is no such object, or no base64.
    pub fn base64(&mut self) -> Result<Granted<'a, u8>, Error> {
        let mut bytes = Granted::new(self.grant);
        self.base64_into(&mut bytes, BytesForm::TextOrBase64)?;
        Ok(bytes)
    }

    /// Appends the bytes of `{"b64": "..."}`.
    fn base64_into(&mut self, out: &mut Granted<'_, u8>, form: BytesForm) -> Result<(), Error> {
        let mut given = false;
        self.object(|reader, key| {
            if key != "b64" {
                let key = Excerpt(&key);
                return Err(reader.error(format_args!("expected the one key 'b64', found '{key}'")));
            }
            given = true;
            reader.decoded_into(out, form)
        })?;
        if given { Ok(()) } else { Err(self.error("expected the key 'b64', found none")) }
    }

    /// Appends the bytes of the string that stands here: of a file, or base64.
    fn decoded_into(&mut self, out: &mut Granted<'_, u8>, form: BytesForm) -> Result<(), Error> {
        let at = self.place();
        let text = self.string()?;
        out.reserve(base64::most_bytes(&text))?;
        let out = out.within_room();
        match form {
            BytesForm::File => file::bytes_into(&text, out, |it| self.error_from(at, it)),
            BytesForm::Text | BytesForm::TextOrBase64 => base64::decode_into(&text, out)
                .map_err(|it| self.error_from(at, format_args!("not base64: {it}"))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    /// Only the elements count.
    Any,
    /// All arrays of one level are equally long, all elements equally deep.
    Regular,
}

/// A walk over one nested array.
struct Walk<'w> {
    /// What an element is, for errors.
    kind: &'static str,
    nesting: Nesting,
    /// Elements beyond this number are not kept.
    most: usize,
    /// Elements so far.
    count: &'w mut usize,
    /// The texts that elements may be given as.
    codes: Option<&'w RowCodes>,
}

/// For each open array, the values that it has so far.
type Levels = SmallVec<[usize; 8]>;

impl Walk<'_> {
    fn run<S: Sink>(&mut self, reader: &mut JsonReader<'_>, sink: &mut S) -> Result<Shape, Error> {
        // Where nothing is promised, a row of many would count all that is behind it.
        if self.most < usize::MAX {
            let room = self.most.saturating_sub(*self.count);
            sink.reserve(at_most(reader.rest(), room))?;
        }
        let mut levels = Levels::new();
        // Sizes of the arrays of each level, as far as one of them has ended.
        let mut dims: SmallVec<[Option<usize>; 8]> = SmallVec::new();
        // The level that the elements are on.
        let mut leaf = None;
        loop {
            if reader.next_byte() == Some(b'[') {
                if self.nesting == Nesting::Regular && leaf == Some(levels.len()) {
                    let kind = self.kind;
                    return Err(irregular(reader, &levels, kind, &reader.found()));
                }
                reader.position += 1;
                reader.deeper()?;
                levels.push(0);
                if dims.len() < levels.len() {
                    dims.push(None);
                }
                if reader.next_byte() != Some(b']') {
                    continue;
                }
                leaf.get_or_insert(levels.len());
            } else {
                if *leaf.get_or_insert(levels.len()) != levels.len()
                    && self.nesting == Nesting::Regular
                {
                    return Err(irregular(reader, &levels, "an array", &reader.found()));
                }
                let start = reader.position;
                let room = self.most.saturating_sub(*self.count);
                let most = if levels.is_empty() { 1 } else { usize::MAX };
                let taken = match self.coded(reader, room, sink) {
                    Ok(true) => 1,
                    Ok(false) => match sink.take(reader, room, most) {
                        Ok(taken) => taken,
                        Err(error) if reader.grant.refusal().is_some() => return Err(error),
                        Err(_) => return Err(located(reader, start, &levels, sink)),
                    },
                    Err(problem) => {
                        enter(reader, &levels);
                        reader.position = start;
                        return Err(reader.error(problem));
                    }
                };
                *self.count += taken;
                match levels.last_mut() {
                    Some(count) => *count += taken,
                    None => return Ok(Shape::new(&[])),
                }
            }
            while reader.ends(b']', "',' or ']'")? {
                let given = levels.pop().unwrap_or_default();
                if let Some(dim) = dims.get_mut(levels.len()) {
                    let expected = *dim.get_or_insert(given);
                    if expected != given && self.nesting == Nesting::Regular {
                        let expected = format!("{expected} elements as in the array before");
                        return Err(irregular(reader, &levels, &expected, &given.to_string()));
                    }
                }
                reader.close();
                match levels.last_mut() {
                    Some(count) => *count += 1,
                    None => return Ok(dims.into_iter().flatten().collect()),
                }
            }
        }
    }
}

impl Walk<'_> {
    /// Takes the text that stands at the reader where the element may be given as one. False where it is no text, or
    /// may not.
    ///
    /// # Errors
    /// It is none of the texts that there are, or no string of JSON.
    fn coded<S: Sink>(
        &self,
        reader: &mut JsonReader<'_>,
        room: usize,
        sink: &mut S,
    ) -> Result<bool, ElementError> {
        let Some(codes) = self.codes else { return Ok(false) };
        if reader.next_byte() != Some(b'"') {
            return Ok(false);
        }
        let start = reader.position;
        let text = reader.string()?;
        match codes.number(&text, *self.count) {
            None => {
                reader.position = start;
                Ok(false)
            }
            Some(number) => {
                let number = number?;
                Ok(room == 0 || sink.push_number(number)?)
            }
        }
    }
}

/// Elements of the text that a shape says has `promised`, for which memory is made at once. A shape that promises more
/// than the text can have takes no memory for it.
fn at_most(text: &[u8], promised: usize) -> usize {
    // An element takes two bytes at least, its comma included.
    let most = promised.min(text.len() / 2 + 1);
    match most <= UNCOUNTED.max(text.len() / SPELLED) {
        true => most,
        false => most.min(1 + expansion::count(text, |it| matches!(it, b',' | b'[' | b':'))),
    }
}

/// Adds the place inside the array to the reader's path, for an error.
fn enter(reader: &mut JsonReader<'_>, levels: &Levels) {
    reader.path.extend(levels.iter().map(|&index| Step::Index(index)));
}

#[cold]
fn irregular(reader: &mut JsonReader<'_>, levels: &Levels, expected: &str, found: &str) -> Error {
    enter(reader, levels);
    reader.error(format_args!("expected {expected}, found {found}"))
}

/// The error of the element at `start` once more, with its place.
#[cold]
fn located<S: Sink>(
    reader: &mut JsonReader<'_>,
    start: usize,
    levels: &Levels,
    sink: &mut S,
) -> Error {
    enter(reader, levels);
    reader.position = start;
    match sink.take(reader, 0, 1) {
        Err(error) => error,
        Ok(_) => reader.error("an element that cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inference::grant::Grant;

    /// Floats, how often the walk asked for some, and how often it asked for memory.
    struct Counted<'g> {
        values: Granted<'g, f32>,
        calls: usize,
        reserved: usize,
    }

    impl<'g> Counted<'g> {
        fn of(grant: &'g Grant) -> Counted<'g> {
            Counted { values: Granted::new(grant), calls: 0, reserved: 0 }
        }
    }

    impl Sink for Counted<'_> {
        fn reserve(&mut self, elements: usize) -> Result<(), Error> {
            self.reserved += 1;
            Sink::reserve(&mut self.values, elements)
        }

        fn take(
            &mut self,
            reader: &mut JsonReader<'_>,
            room: usize,
            most: usize,
        ) -> Result<usize, Error> {
            self.calls += 1;
            self.values.take(reader, room, most)
        }
    }

    /// Calls for a body of `rows` rows; `None` when it is refused.
    fn calls(body: &str, rows: usize) -> (usize, Option<usize>) {
        let grant = Grant::all(0);
        let mut sink = Counted::of(&grant);
        let mut count = 0;
        let mut walk = Walk {
            kind: "a number",
            nesting: Nesting::Any,
            most: 10 * rows,
            count: &mut count,
            codes: None,
        };
        let read =
            JsonReader::document(body.as_bytes(), &grant, |reader| walk.run(reader, &mut sink));
        (sink.calls, read.ok().map(|_| sink.values.len()))
    }

    #[test]
    fn twice_the_text_takes_twice_the_steps() {
        let row = "1, 2.5,-3e2,\n\t 4";
        let body = |rows: usize, open: &str, between: &str, close: &str| {
            format!("{open}{}{close}", vec![row; rows].join(between))
        };
        for rows in [1_000, 2_000] {
            let kept = Some(4 * rows);
            // Any whitespace between numbers is part of one step; an array is one more.
            assert_eq!(calls(&body(rows, "[", ",", "]"), rows), (1, kept));
            assert_eq!(calls(&body(rows, "[", ",\r\n", "]"), rows), (1, kept));
            assert_eq!(calls(&body(rows, "[[", "],[", "]]"), rows), (rows, kept));
            assert_eq!(calls(&body(rows, "[[[", "]],[[", "]]]"), rows), (rows, kept));
            // A mistake at the end is looked at twice more, for the message; not what is before it.
            assert_eq!(calls(&body(rows, "[", ",", ",x]"), rows), (3, None));
            assert_eq!(calls(&body(rows, "[[", "],[", "],[x]]"), rows), (rows + 2, None));
            assert_eq!(calls(&body(rows, "[", ",", ""), rows), (1, None));
        }
    }

    #[test]
    fn rows_of_unknown_number_do_not_count_what_is_behind_each() {
        let grant = Grant::all(0);
        let mut sink = Counted::of(&grant);
        let mut count = 0;
        let mut reader = JsonReader::new(b"[1][2][3]", &grant).unwrap();
        for _ in 0..3 {
            let (nesting, most) = (Nesting::Regular, usize::MAX);
            let mut walk = Walk { kind: "a number", nesting, most, count: &mut count, codes: None };
            walk.run(&mut reader, &mut sink).unwrap();
        }
        assert_eq!((sink.values.into_vec(), sink.reserved), (vec![1.0, 2.0, 3.0], 0));
    }

    #[test]
    fn a_shape_that_promises_more_than_the_text_has_takes_no_memory() {
        let grant = Grant::all(0);
        let mut values: Granted<'_, f32> = Granted::new(&grant);
        let mut count = 0;
        let most = usize::MAX / 2;
        let (kind, nesting) = ("a number", Nesting::Any);
        let mut walk = Walk { kind, nesting, most, count: &mut count, codes: None };
        let read = JsonReader::document(b"[1,2,3]", &grant, |reader| walk.run(reader, &mut values));
        assert!(read.is_ok());
        assert!(grant.granted() < 16 * size_of::<f32>(), "{}", grant.granted());
    }
}
