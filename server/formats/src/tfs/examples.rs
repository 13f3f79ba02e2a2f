//! Requests made of examples: for each row an object of features, each of them an input of the model. Features that
//! are no input are passed over, as TensorFlow's parser does.

use backend::{NamedTensor, Shape};

use super::{
    example_error::ExampleError,
    predict::{Method, check_signature, decode_predict},
    results::Results,
    serialized::{Examples, input_of, read_example, read_examples, takes_serialized},
    sharing::Sharing,
};
use crate::{
    elements::TensorBuilder,
    expansion,
    json::{BytesForm, JsonReader, Mark, Token},
    shapes,
};
use inference::{
    error::Error,
    grant::Grant,
    granted::Granted,
    request::InferenceRequest,
    signature::{Port, Signature},
};

/// The request in the body of `:classify` or `:regress`, `{"context"?, "examples": [{feature: value}]}`, or with
/// [`Method::Predict`] in that of `:predict`; and the form of its reply.
///
/// # Errors
/// When the model cannot do that, with what it would take; when the body is not JSON, has no examples, examples differ
/// in their features, or a value does not fit its input. Each names the place.
pub fn decode_examples(
    signature: &Signature,
    method: Method,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, Results), Error> {
    if method == Method::Predict {
        let (request, form) = decode_predict(signature, body, grant)?;
        return Ok((request, Results::Predictions(form)));
    }
    let results = Results::of(signature, method)?;
    expansion::hold_ports(signature, grant)?;
    let sharing = Sharing::of(body.len());
    let inputs = match takes_serialized(signature) {
        true => {
            let examples = JsonReader::document(body, grant, |reader| {
                read_serialized(signature, sharing, reader)
            })?;
            input_of(signature, examples)?
        }
        false => JsonReader::document(body, grant, |reader| {
            reader.takes_missing(signature.takes_missing);
            read(signature, sharing, reader)
        })?,
    };
    let outputs = results.outputs();
    Ok((InferenceRequest { inputs, outputs, ..InferenceRequest::default() }, results))
}

fn read(
    signature: &Signature,
    sharing: Sharing,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<NamedTensor>, Error> {
    let (context, examples) = read_places(signature, reader)?;
    let shared = match context {
        Some(mark) => reader.revisit(mark, |reader| read_context(signature, reader))?,
        None => Vec::new(),
    };
    reader.revisit(examples, |reader| read_rows(signature, &shared, sharing, reader))
}

fn read_serialized<'g>(
    signature: &Signature,
    mut sharing: Sharing,
    reader: &mut JsonReader<'g>,
) -> Result<Examples<'g>, Error> {
    let (context, examples) = read_places(signature, reader)?;
    let context = match context {
        Some(mark) => reader.revisit(mark, read_example)?,
        None => Granted::new(reader.grant()),
    };
    reader.revisit(examples, |reader| read_examples(reader, &context, &mut sharing))
}

/// Where the context is, if there is one, and where the examples are.
fn read_places<'a>(
    signature: &Signature,
    reader: &mut JsonReader<'a>,
) -> Result<(Option<Mark<'a>>, Mark<'a>), Error> {
    // The context may stand behind the examples that it is for.
    let (mut context, mut examples) = (None, None);
    reader.object(|reader, key| {
        match &*key {
            "context" => context = Some(reader.mark()),
            "examples" => examples = Some(reader.mark()),
            "signature_name" => return check_signature(signature, reader),
            _ => {}
        }
        reader.skip_value()
    })?;
    let examples = examples.ok_or_else(|| {
        Error::InvalidRequest("expected the key 'examples', found none".to_owned())
    })?;
    Ok((context, examples))
}

/// A feature of the context: its input, and where its value is.
type Shared<'s, 'a> = (&'s Port, Mark<'a>);

fn read_context<'s, 'a>(
    signature: &'s Signature,
    reader: &mut JsonReader<'a>,
) -> Result<Vec<Shared<'s, 'a>>, Error> {
    let mut shared = Vec::new();
    reader.object(|reader, key| {
        if let Some(port) = signature.input(&key) {
            shared.push((port, reader.mark()));
        }
        reader.skip_value()
    })?;
    Ok(shared)
}

fn read_rows<'a>(
    signature: &Signature,
    shared: &[Shared<'_, 'a>],
    mut sharing: Sharing,
    reader: &mut JsonReader<'a>,
) -> Result<Vec<NamedTensor>, Error> {
    if reader.peek()? != Token::Array {
        let given = reader.peek()?;
        return Err(reader.error(format_args!("expected an array of examples, found {given}")));
    }
    let mut columns = Columns::new(signature, reader.grant());
    reader.array(|reader, _| {
        let start = reader.mark();
        let mut wrong = None;
        reader.object(|reader, key| match columns.column(&key) {
            Some(column) => column.read(reader),
            None => {
                // The first of them may be what a missing one was meant to be.
                if wrong.is_none() {
                    wrong = Some(reader.owned(key)?);
                }
                reader.skip_value()
            }
        })?;
        for (port, mark) in shared {
            let Some(column) = columns.column(&port.name).filter(|it| !it.is_filled()) else {
                continue;
            };
            let length = reader.revisit(mark.clone(), |reader| {
                let start = reader.place();
                column.read(reader).map(|()| reader.length_since(start))
            })?;
            sharing.take(length).map_err(|problem| reader.error_about(&start, problem))?;
        }
        let ended = columns.end_row(wrong.as_deref());
        ended.map_err(|problem| reader.error_about(&start, problem))
    })?;
    columns.finish().map_err(|problem| match problem {
        Unfinished::Empty => reader.error("expected at least one example, found none"),
        Unfinished::Other(error) => error,
    })
}

/// Inputs that are gathered example by example.
pub struct Columns<'s> {
    signature: &'s Signature,
    columns: Vec<Column<'s>>,
    rows: usize,
}

/// One of them.
pub struct Column<'s> {
    port: &'s Port,
    /// Dimensions of one example's value.
    dims: &'s [Option<usize>],
    builder: TensorBuilder<'s>,
    /// Examples before the one that is being read, and the elements that they have.
    rows: usize,
    before: usize,
    /// The shape of the first example's value; `None` where it has none.
    first: Option<Shape>,
    /// Has the example that is being read a value?
    filled: bool,
}

/// Why examples are no request.
pub enum Unfinished {
    /// There were none.
    Empty,
    /// They do not become tensors.
    Other(Error),
}

impl<'s> Columns<'s> {
    /// No examples yet.
    pub fn new(signature: &'s Signature, grant: &'s Grant) -> Columns<'s> {
        let column = |port: &'s Port| Column {
            port,
            dims: match (signature.batches(), port.dims.as_slice()) {
                // Without a batch dimension, one of any size counts the examples.
                (false, [None, dims @ ..]) => dims,
                (_, dims) => dims,
            },
            builder: TensorBuilder::new(port.dtype, None, grant),
            rows: 0,
            before: 0,
            first: None,
            filled: false,
        };
        Columns { signature, columns: signature.inputs.iter().map(column).collect(), rows: 0 }
    }

    /// The input of that name.
    pub fn column(&mut self, name: &str) -> Option<&mut Column<'s>> {
        self.columns.iter_mut().find(|it| &*it.port.name == name)
    }

    /// Ends an example; `wrong` is a feature of it that is no input.
    ///
    /// # Errors
    /// When a feature is missing.
    pub fn end_row(&mut self, wrong: Option<&str>) -> Result<(), ExampleError> {
        for column in &mut self.columns {
            let may_miss = match self.rows {
                0 => column.port.optional,
                _ => column.first.is_none(),
            };
            if !column.filled && !may_miss {
                let (name, wrong) = (column.port.name.to_string(), wrong.map(str::to_owned));
                return Err(ExampleError::Lacks { name, wrong });
            }
            column.filled = false;
            column.rows += 1;
        }
        self.rows += 1;
        Ok(())
    }

    /// The inputs, each `[examples]` followed by the dimensions of one value.
    ///
    /// # Errors
    /// When there were no examples, or sizes overflow.
    pub fn finish(self) -> Result<Vec<NamedTensor>, Unfinished> {
        let Columns { signature, columns, rows } = self;
        if rows == 0 {
            return Err(Unfinished::Empty);
        }
        let given = columns
            .into_iter()
            .filter_map(|column| Some((column.first?, column.port, column.builder)));
        let tensors = given.map(|(first, port, builder)| {
            let dims = std::iter::once(rows).chain(first.dims().iter().copied());
            let NamedTensor { name, tensor } = builder.finish_input(port, dims.collect())?;
            Ok(NamedTensor { name, tensor: shapes::as_rows(signature, port, tensor) })
        });
        tensors.collect::<Result<_, _>>().map_err(Unfinished::Other)
    }
}

impl<'s> Column<'s> {
    /// Has the example that is being read a value for it already?
    pub fn is_filled(&self) -> bool {
        self.filled
    }

    /// Where its elements go.
    pub fn builder(&mut self) -> &mut TensorBuilder<'s> {
        &mut self.builder
    }

    /// Ends the value of one example, a list of the elements that have gone into the builder.
    ///
    /// # Errors
    /// When the first example had no value, or another number of elements.
    pub fn end_list(&mut self) -> Result<(), ExampleError> {
        let elements = self.builder.count() - self.before;
        self.end(&Shape::new(&[elements]))
    }

    /// Reads the value of one example.
    fn read(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        let start = reader.place();
        let shape = reader.shaped_elements(&mut self.builder, BytesForm::TextOrBase64)?;
        self.end(&shape).map_err(|problem| reader.error_from(start, problem))
    }

    /// Ends the value of one example, whose elements are in the builder: a list of them may stand for any shape that
    /// has as many.
    ///
    /// # Errors
    /// When the first example had none, or another shape.
    fn end(&mut self, given: &Shape) -> Result<(), ExampleError> {
        let elements = self.builder.count() - self.before;
        self.before = self.builder.count();
        self.filled = true;
        let meant = match given.dims() {
            [] | [_] => shapes::flat(self.dims, elements),
            _ => None,
        };
        // What does not fit keeps its shape: the check against the signature has the better words.
        let shape = meant.map_or_else(|| given.clone(), |it| Shape::new(&it));
        match &self.first {
            None if self.rows == 0 => self.first = Some(shape),
            Some(first) if *first == shape => {}
            Some(first) => return Err(ExampleError::OtherShape { first: first.clone(), shape }),
            None => return Err(ExampleError::NotInFirst(self.port.name.to_string())),
        }
        Ok(())
    }
}
