//! Examples for a signature that parses them itself: each becomes a serialized `tf.Example`, the element of its one
//! input of texts.

use backend::{DataType, NamedTensor, Shape, Tensor};

use super::{example_error::ExampleError, sharing::Sharing};
use crate::json::{JsonReader, Token};
use inference::{error::Error, grant::Grant, granted::Granted, signature::Signature};

/// What TensorFlow calls the input of serialized examples.
pub(super) const INPUTS: &str = "inputs";

/// Does that signature take serialized examples? Only one of a file that has names for its signatures.
pub fn takes_serialized(signature: &Signature) -> bool {
    let [only] = signature.inputs.as_slice() else { return false };
    signature.named.is_some() && &*only.name == INPUTS && only.dtype == DataType::Bytes
}

/// Serialized examples as elements of texts, each with its length in front: of small ones there may be millions.
#[derive(Debug)]
pub struct Examples<'g> {
    elements: Granted<'g, u8>,
    count: usize,
}

impl<'g> Examples<'g> {
    /// None yet.
    pub fn new(grant: &'g Grant) -> Examples<'g> {
        Examples { elements: Granted::new(grant), count: 0 }
    }

    /// Adds an example of these parts.
    ///
    /// # Errors
    /// When it is too long for an element, or the memory is not granted.
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), ExampleError> {
        let length: usize = parts.iter().map(|it| it.len()).sum();
        let prefix = u32::try_from(length).map_err(|_| ExampleError::TooLong(length))?;
        self.elements.reserve(length.saturating_add(prefix.to_le_bytes().len()))?;
        self.elements.extend_from_slice(&prefix.to_le_bytes())?;
        parts.iter().try_for_each(|it| self.elements.extend_from_slice(it))?;
        self.count += 1;
        Ok(())
    }
}

/// The input of a signature that takes serialized examples.
///
/// # Errors
/// Where there are none.
pub fn input_of(signature: &Signature, examples: Examples<'_>) -> Result<Vec<NamedTensor>, Error> {
    let name = signature.inputs.first().map(|it| it.name.clone()).unwrap_or_default();
    let Examples { elements, count } = examples;
    if count == 0 {
        return Err(Error::InvalidRequest(
            "Input is empty: expected at least one example".to_owned(),
        ));
    }
    let tensor = Tensor::new(DataType::Bytes, Shape::new(&[count]), elements.into_vec().into());
    let tensor = tensor.map_err(|it| Error::input(&*name, it))?;
    Ok(vec![NamedTensor { name, tensor }])
}

/// Reads the list of examples that stands at the reader. The context stands in front of each, as its features hold
/// where an example does not have them.
pub(super) fn read_examples<'g>(
    reader: &mut JsonReader<'g>,
    context: &[u8],
    sharing: &mut Sharing,
) -> Result<Examples<'g>, Error> {
    if reader.peek()? != Token::Array {
        let given = reader.peek()?;
        return Err(reader.error(format_args!("expected an array of examples, found {given}")));
    }
    let mut examples = Examples::new(reader.grant());
    reader.array(|reader, _| {
        let start = reader.mark();
        sharing.take(context.len()).map_err(|it| reader.error_about(&start, it))?;
        let features = read_features(reader)?;
        let parts = [context, &head(1, features.len()), &features];
        examples.push(&parts).map_err(|it| reader.error_about(&start, it))
    })?;
    Ok(examples)
}

/// Reads an object of features as a `tf.Example`.
pub(super) fn read_example<'g>(reader: &mut JsonReader<'g>) -> Result<Granted<'g, u8>, Error> {
    let features = read_features(reader)?;
    let mut example = Granted::new(reader.grant());
    example.extend_from_slice(&head(1, features.len()))?;
    example.extend_from_slice(&features)?;
    Ok(example)
}

/// Reads the message `Features`.
fn read_features<'g>(reader: &mut JsonReader<'g>) -> Result<Granted<'g, u8>, Error> {
    let mut features = Granted::new(reader.grant());
    reader.object(|reader, name| {
        let mut feature = Feature { kind: None, list: Granted::new(reader.grant()) };
        match reader.peek()? {
            Token::Array => reader.array(|reader, _| feature.read(reader))?,
            _ => feature.read(reader)?,
        }
        feature.finish(&name, &mut features)
    })?;
    Ok(features)
}

/// The lists that a feature may be, by their numbers in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Texts = 1,
    Floats = 2,
    Integers = 3,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Texts => "texts",
            Kind::Floats => "numbers with a point or an exponent",
            Kind::Integers => "integers",
        }
    }
}

/// A feature that is being read. Its first value says of which kind all are.
struct Feature<'g> {
    kind: Option<Kind>,
    list: Granted<'g, u8>,
}

impl Feature<'_> {
    /// Reads one value.
    fn read(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        match reader.peek()? {
            Token::String => {
                self.begin(reader, Kind::Texts)?;
                let text = reader.string()?;
                delimited(&mut self.list, 1, text.as_bytes())?;
            }
            Token::Object => {
                self.begin(reader, Kind::Texts)?;
                let bytes = reader.base64()?;
                delimited(&mut self.list, 1, &bytes)?;
            }
            Token::Bool => {
                self.begin(reader, Kind::Integers)?;
                push_varint(reader.bool()?.into(), &mut self.list)?;
            }
            Token::Number => {
                let start = reader.mark();
                let text = reader.revisit(start, |reader| reader.raw_value())?;
                let is_integer = text.bytes().all(|it| it.is_ascii_digit() || it == b'-');
                if is_integer {
                    self.begin(reader, Kind::Integers)?;
                    push_varint(reader.number::<i64>()?.cast_unsigned(), &mut self.list)?;
                } else {
                    self.begin(reader, Kind::Floats)?;
                    self.list.extend_from_slice(&reader.number::<f32>()?.to_le_bytes())?;
                }
            }
            given @ (Token::Null | Token::Array) => {
                let expected = "expected a text, a number or true or false, or one list of them";
                return Err(reader.error(format_args!("{expected}, found {given}")));
            }
        }
        Ok(())
    }

    fn begin(&mut self, reader: &JsonReader<'_>, kind: Kind) -> Result<(), Error> {
        match *self.kind.get_or_insert(kind) {
            first if first == kind => Ok(()),
            first => {
                let (first, kind) = (first.name(), kind.name());
                let problem = format_args!("expected values of one kind, found {first} and {kind}");
                Err(reader.error(problem))
            }
        }
    }

    /// Appends the entry of the map of features with this name. The list is copied once: it may be long.
    fn finish(self, name: &str, out: &mut Granted<'_, u8>) -> Result<(), Error> {
        let Feature { kind, list } = self;
        // What stands in front of the list.
        let heads = match kind {
            None => Vec::new(),
            Some(kind @ Kind::Texts) => head(kind as u8, list.len()),
            Some(kind @ (Kind::Floats | Kind::Integers)) => {
                let packed = head(1, list.len());
                [head(kind as u8, packed.len() + list.len()), packed].concat()
            }
        };
        let feature = head(2, heads.len() + list.len());
        let key = head(1, name.len());
        let length = key.len() + name.len() + feature.len() + heads.len() + list.len();
        let parts = [&*head(1, length), &key, name.as_bytes(), &feature, &heads, &list];
        parts.iter().try_for_each(|it| out.extend_from_slice(it))
    }
}

/// Appends a number in groups of seven bits, the lowest first.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while 0x7f < value {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The same, to a list of a request.
fn push_varint(value: u64, out: &mut Granted<'_, u8>) -> Result<(), Error> {
    /// A byte holds seven bits.
    const LONGEST: usize = 10;
    out.reserve(LONGEST)?;
    varint(value, out.within_room());
    Ok(())
}

/// What stands in front of a field of so many bytes; its number is below 16.
fn head(number: u8, length: usize) -> Vec<u8> {
    const DELIMITED: u8 = 2;
    let mut head = vec![number << 3 | DELIMITED];
    varint(length as u64, &mut head);
    head
}

/// Appends a field of bytes; its number is below 16.
fn delimited(out: &mut Granted<'_, u8>, number: u8, bytes: &[u8]) -> Result<(), Error> {
    out.extend_from_slice(&head(number, bytes.len()))?;
    out.extend_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{PEAK, grant, within_grant};

    fn example(json: &str) -> Result<Vec<u8>, Error> {
        JsonReader::document(json.as_bytes(), grant(), read_example).map(Granted::into_vec)
    }

    /// What is in the feature `x`.
    fn feature(json: &str) -> Vec<u8> {
        let bytes = example(&format!(r#"{{"x": {json}}}"#)).unwrap();
        // Example, Features, entry: each a key and a length, then the name, and the key and length of the feature.
        bytes[2 + 2 + 3 + 2..].to_vec()
    }

    #[test]
    fn the_kind_of_a_value_is_that_of_its_json() {
        assert_eq!(feature("1.5"), [0x12, 6, 0x0a, 4, 0, 0, 0xc0, 0x3f]);
        assert_eq!(feature("[1, -1]")[..5], [0x1a, 13, 0x0a, 11, 1]);
        assert_eq!(feature("true"), [0x1a, 3, 0x0a, 1, 1]);
        assert_eq!(feature("\"ab\""), [0x0a, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(feature(r#"{"b64": "/w=="}"#), [0x0a, 3, 0x0a, 1, 0xff]);
        assert_eq!(feature("1e0")[0], 0x12);
        assert!(feature("[]").is_empty());
    }

    /// Reads the examples in this JSON within what is asked for.
    #[track_caller]
    fn check_memory(json: &str) {
        within_grant(PEAK, 0, &json[..10], |grant| {
            let mut sharing = Sharing::of(json.len());
            let read =
                |reader: &mut JsonReader<'_>| read_examples(reader, &[], &mut sharing).map(drop);
            JsonReader::document(json.as_bytes(), grant, read).unwrap();
        });
    }

    #[test]
    fn millions_of_small_examples_and_of_short_numbers_take_no_more_than_is_asked_for() {
        for one in ["{}", r#"{"":-1}"#] {
            check_memory(&format!("[{}]", vec![one; 20_000].join(",")));
        }
        check_memory(&format!(r#"[{{"x":[{}]}}]"#, vec!["-1"; 100_000].join(",")));
    }

    #[test]
    fn an_example_is_one_element_with_its_context_in_front() {
        let mut sharing = Sharing::of(100);
        let json = br#"[{"x": "a"}, {}]"#;
        let examples =
            JsonReader::document(json, grant(), |it| read_examples(it, &[7, 8], &mut sharing));
        let Examples { elements, count } = examples.unwrap();
        let one = example(r#"{"x": "a"}"#).unwrap();
        let all = [&[2 + one.len() as u8, 0, 0, 0, 7, 8], &*one, &[4, 0, 0, 0, 7, 8, 0x0a, 0]];
        assert_eq!((elements.into_vec(), count), (all.concat(), 2));
    }

    #[test]
    fn what_is_no_feature_is_named() {
        for wrong in ["null", "[null]", "[[1]]", "[1, 1.5]", "[\"a\", 1]", r#"{"b65": ""}"#] {
            let error = example(&format!(r#"{{"feature": {wrong}}}"#)).unwrap_err().to_string();
            assert!(error.starts_with("feature"), "{wrong}: {error}");
        }
    }
}
