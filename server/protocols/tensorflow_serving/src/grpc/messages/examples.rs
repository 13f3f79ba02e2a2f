//! `ClassificationRequest`, `RegressionRequest` and `MultiInferenceRequest`: messages with examples, whose features
//! are decoded straight into the input tensors.

use backend::NamedTensor;
use bytes::Bytes;
use prost::encoding::{WireType, decode_varint};
use smallvec::SmallVec;

use super::{form::Form, spec::Spec};
use crate::grpc::method;
use formats::{
    expansion,
    tfs::{
        Column, Columns, ExampleError, Examples, Method, Results, Sharing, Unfinished, input_of,
        takes_serialized,
    },
};
use frontend::grpc::wire::{self, Parts, WireProblem};
use inference::{
    error::Error, grant::Grant, granted::Granted, request::InferenceRequest, signature::Signature,
};

/// The methods of tasks.
const METHODS: [Method; 2] = [Method::Classify, Method::Regress];

/// One of these messages.
pub struct Request<'a> {
    /// The model that the request is for.
    pub spec: Spec<'a>,
    tasks: Tasks<'a>,
    /// The `ExampleList`, with or without context.
    input: &'a [u8],
    bytes: usize,
}

enum Tasks<'a> {
    One(Method),
    /// Each with the name of its signature.
    Many(SmallVec<[(Method, &'a str); 2]>),
}

/// The mistakes that examples can have.
enum Wrong {
    Wire(WireProblem),
    Value(Error),
}

impl<P: Into<WireProblem>> From<P> for Wrong {
    fn from(problem: P) -> Wrong {
        Wrong::Wire(problem.into())
    }
}

/// The mistakes that one feature can have.
enum FeatureError {
    Wire(WireProblem),
    /// A sentence on what is wrong with its values.
    Value(String),
}

impl<P: Into<WireProblem>> From<P> for FeatureError {
    fn from(problem: P) -> FeatureError {
        FeatureError::Wire(problem.into())
    }
}

impl<'a> Request<'a> {
    /// Parses the message of this call.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the message is malformed, or has no valid task.
    pub fn of(call: method::Method, message: &'a Bytes) -> Result<Request<'a>, Error> {
        let (name, method) = match call {
            method::Method::Classify => ("ClassificationRequest", Some(Method::Classify)),
            method::Method::Regress => ("RegressionRequest", Some(Method::Regress)),
            _ => ("MultiInferenceRequest", None),
        };
        let (mut specs, mut methods, mut input) =
            (SmallVec::<[Spec<'a>; 2]>::new(), SmallVec::<[&str; 2]>::new(), &[][..]);
        let mut read = || {
            let mut parts = Parts::default();
            let mut rest: &'a [u8] = message;
            while let Some((number, kind)) = wire::field(&mut rest)? {
                match (number, method) {
                    (1, Some(_)) => specs.push(Spec::read(wire::delimited(kind, &mut rest)?)?),
                    (1, None) => {
                        let (spec, method) = task(wire::delimited(kind, &mut rest)?)?;
                        specs.push(spec);
                        methods.push(method);
                    }
                    (2, _) => input = examples_of(wire::delimited(kind, &mut rest)?)?,
                    _ => wire::skip(number, kind, &mut rest)?,
                }
                parts.count(1)?;
            }
            Ok(())
        };
        read().map_err(|problem: WireProblem| problem.error(name))?;
        let (spec, tasks) = match method {
            Some(method) => (specs.last().copied().unwrap_or_default(), Tasks::One(method)),
            None => {
                let names = specs.iter().map(|it| it.signature_name);
                let tasks = the_methods(&methods)?.into_iter().zip(names).collect();
                (the_spec(&specs)?, Tasks::Many(tasks))
            }
        };
        spec.check()?;
        Ok(Request { spec, tasks, input, bytes: message.len() })
    }

    /// The names of signatures of its tasks, in their order.
    pub fn signature_names(&self) -> SmallVec<[&'a str; 2]> {
        match &self.tasks {
            Tasks::One(_) => [self.spec.signature_name].into_iter().collect(),
            Tasks::Many(tasks) => tasks.iter().map(|it| it.1).collect(),
        }
    }

    /// The request with its tasks for that signature only.
    pub fn only(mut self, signature_name: &str) -> Request<'a> {
        if let Tasks::Many(tasks) = &mut self.tasks {
            tasks.retain(|it| it.1 == signature_name);
            self.spec.signature_name = tasks.first().map_or("", |it| it.1);
        }
        self
    }

    /// A measure of the time that decoding takes: bytes of the elements, as far as the message can have them.
    pub fn work(&self, signature: &Signature) -> usize {
        // An integer may take one byte in the message, a string two bytes there and four more in the tensor. A
        // growing list has room for twice its elements.
        let sizes = signature.inputs.iter().map(|it| it.dtype.size().unwrap_or(3));
        let most = sizes.max().unwrap_or(1);
        let shared = match lists(self.input) {
            Ok((_, 0)) | Err(_) => 0,
            Ok((examples, context)) => {
                examples.saturating_mul(context).min(Sharing::most(self.input.len()))
            }
        };
        self.bytes.saturating_add(shared).saturating_mul(2 * most)
    }

    /// The request, and the form of its response.
    ///
    /// # Errors
    /// Why the model cannot run the method, or what is wrong with the examples and where.
    pub fn decode(
        self,
        signature: &Signature,
        grant: &Grant,
    ) -> Result<(InferenceRequest, Form), Error> {
        expansion::hold_ports(signature, grant)?;
        let form = match &self.tasks {
            Tasks::One(method) => Form::One(Results::of(signature, *method)?),
            Tasks::Many(methods) => {
                let results = methods.iter().map(|it| Results::of(signature, it.0));
                Form::Many(results.collect::<Result<_, _>>()?)
            }
        };
        let mut outputs = Vec::new();
        let all = match &form {
            Form::Predict => &[][..],
            Form::One(results) => std::slice::from_ref(results),
            Form::Many(several) => several,
        };
        for output in all.iter().flat_map(Results::outputs) {
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        if takes_serialized(signature) {
            let examples =
                serialized(self.input, grant).map_err(|problem| problem.error("Input"))?;
            let inputs = input_of(signature, examples)?;
            return Ok((InferenceRequest { inputs, outputs, ..InferenceRequest::default() }, form));
        }
        let inputs = inputs(signature, self.input, grant).map_err(|wrong| match wrong {
            Wrong::Wire(problem) => problem.error("Input"),
            Wrong::Value(error) => error,
        })?;
        Ok((InferenceRequest { inputs, outputs, ..InferenceRequest::default() }, form))
    }
}

/// An `InferenceTask`.
fn task(mut rest: &[u8]) -> Result<(Spec<'_>, &str), WireProblem> {
    let (mut spec, mut method) = (Spec::default(), "");
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            1 => spec = Spec::read(wire::delimited(kind, &mut rest)?)?,
            2 => method = wire::text(kind, &mut rest)?,
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    Ok((spec, method))
}

/// The model that all tasks name.
fn the_spec<'a>(specs: &[Spec<'a>]) -> Result<Spec<'a>, Error> {
    let Some((first, others)) = specs.split_first() else {
        let problem = "tasks: expected at least one, given none";
        return Err(Error::InvalidRequest(problem.to_owned()));
    };
    for (at, other) in others.iter().enumerate() {
        other.check()?;
        if (other.name, other.version) != (first.name, first.version) {
            return Err(Error::InvalidRequest(format!(
                "tasks[{}].model_spec: expected the model and version of the first task",
                at + 1
            )));
        }
    }
    Ok(*first)
}

fn the_methods(names: &[&str]) -> Result<SmallVec<[Method; 2]>, Error> {
    let methods = names.iter().enumerate().map(|(at, name)| {
        let found = METHODS.into_iter().find(|it| it.name() == *name);
        found.ok_or_else(|| {
            let shown: String = name.chars().take(128).collect();
            let known = METHODS.map(Method::name).join(" or ");
            Error::InvalidRequest(format!(
                "tasks[{at}].method_name: expected {known}, given '{shown}'"
            ))
        })
    });
    methods.collect()
}

/// The list of examples in an `Input`. Its two forms have the list under one field number.
fn examples_of(mut rest: &[u8]) -> Result<&[u8], WireProblem> {
    let mut list = &[][..];
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            1 | 2 => list = wire::delimited(kind, &mut rest)?,
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    Ok(list)
}

/// The number of examples, and the bytes of their context.
fn lists(mut rest: &[u8]) -> Result<(usize, usize), WireProblem> {
    let (mut examples, mut context) = (0, 0);
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            1 => {
                wire::delimited(kind, &mut rest)?;
                examples += 1;
            }
            // A field that is given several times is read as one joined message.
            2 => context = usize::saturating_add(context, wire::delimited(kind, &mut rest)?.len()),
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    Ok((examples, context))
}

/// The examples as they are, each with the context in front of it: what an example has goes before that.
fn serialized<'g>(list: &[u8], grant: &'g Grant) -> Result<Examples<'g>, WireProblem> {
    let refused = |it: Error| WireProblem::Malformed(it.to_string());
    let mut context = Granted::new(grant);
    let mut rest = list;
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            2 => context.extend_from_slice(wire::delimited(kind, &mut rest)?).map_err(refused)?,
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    let malformed = |it: ExampleError| WireProblem::Malformed(it.to_string());
    let (mut examples, mut sharing) = (Examples::new(grant), Sharing::of(list.len()));
    let mut rest = list;
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            1 => {
                let example = wire::delimited(kind, &mut rest)?;
                sharing.take(context.len()).map_err(malformed)?;
                examples.push(&[&context, example]).map_err(malformed)?;
            }
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    Ok(examples)
}

/// The tensors of all examples.
fn inputs(signature: &Signature, list: &[u8], grant: &Grant) -> Result<Vec<NamedTensor>, Wrong> {
    let mut context: SmallVec<[(&str, &[u8]); 4]> = SmallVec::new();
    let mut rest = list;
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            2 => features(wire::delimited(kind, &mut rest)?, |name, feature| {
                if signature.input(name).is_some() {
                    context.retain(|it| it.0 != name);
                    context.push((name, feature));
                }
                Ok(())
            })?,
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    let mut columns = Columns::new(signature, grant);
    let mut sharing = Sharing::of(list.len());
    let mut rest = list;
    let mut index = 0;
    while let Some((number, kind)) = wire::field(&mut rest)? {
        if number != 1 {
            wire::skip(number, kind, &mut rest)?;
            continue;
        }
        let at = |name: &str, problem: String| {
            let dot = if name.is_empty() { "" } else { "." };
            let problem = format!("examples[{index}]{dot}{name}: {problem}");
            Wrong::Value(Error::InvalidRequest(problem))
        };
        let in_feature = |name: &str, error: FeatureError| match error {
            FeatureError::Wire(problem) => Wrong::Wire(problem),
            FeatureError::Value(problem) => at(name, problem),
        };
        let mut wrong = None;
        features(wire::delimited(kind, &mut rest)?, |name, feature| {
            match columns.column(name) {
                Some(column) if column.is_filled() => {
                    return Err(at(name, "the feature is repeated".to_owned()));
                }
                Some(column) => values(column, feature).map_err(|it| in_feature(name, it))?,
                None => drop(wrong.get_or_insert(name)),
            }
            Ok(())
        })?;
        for (name, feature) in &context {
            if let Some(column) = columns.column(name).filter(|it| !it.is_filled()) {
                sharing.take(feature.len()).map_err(|problem| at("", problem.to_string()))?;
                values(column, feature).map_err(|it| in_feature(name, it))?;
            }
        }
        columns.end_row(wrong).map_err(|problem| at("", problem.to_string()))?;
        index += 1;
    }
    columns.finish().map_err(|problem| {
        Wrong::Value(match problem {
            Unfinished::Empty => {
                let text = "input: expected at least one example, given none";
                Error::InvalidRequest(text.to_owned())
            }
            Unfinished::Other(error) => error,
        })
    })
}

/// Calls `each` with the name and message of every feature of an `Example`.
fn features<'a>(
    mut example: &'a [u8],
    mut each: impl FnMut(&'a str, &'a [u8]) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    while let Some((number, kind)) = wire::field(&mut example)? {
        if number != 1 {
            wire::skip(number, kind, &mut example)?;
            continue;
        }
        let mut features = wire::delimited(kind, &mut example)?;
        while let Some((number, kind)) = wire::field(&mut features)? {
            if number != 1 {
                wire::skip(number, kind, &mut features)?;
                continue;
            }
            let mut entry = wire::delimited(kind, &mut features)?;
            let (mut name, mut feature) = ("", &[][..]);
            while let Some((number, kind)) = wire::field(&mut entry)? {
                match number {
                    1 => name = wire::text(kind, &mut entry)?,
                    2 => feature = wire::delimited(kind, &mut entry)?,
                    _ => wire::skip(number, kind, &mut entry)?,
                }
            }
            each(name, feature)?;
        }
    }
    Ok(())
}

/// Reads a `Feature`: one list of strings, floats or integers.
fn values(column: &mut Column<'_>, mut feature: &[u8]) -> Result<(), FeatureError> {
    while let Some((number, kind)) = wire::field(&mut feature)? {
        if !matches!(number, 1..=3) {
            wire::skip(number, kind, &mut feature)?;
            continue;
        }
        let mut list = wire::delimited(kind, &mut feature)?;
        while let Some((inner, kind)) = wire::field(&mut list)? {
            match (inner, number) {
                (1, 1) => {
                    let text = wire::delimited(kind, &mut list)?;
                    column.builder().push_bytes(text).map_err(refused)?;
                }
                (1, 2) => floats(column, kind, &mut list)?,
                (1, 3) => integers(column, kind, &mut list)?,
                _ => wire::skip(inner, kind, &mut list)?,
            }
        }
    }
    column.end_list().map_err(refused)
}

fn refused(problem: impl ToString) -> FeatureError {
    FeatureError::Value(problem.to_string())
}

/// Reads floats, packed or single.
fn floats(column: &mut Column<'_>, kind: WireType, rest: &mut &[u8]) -> Result<(), FeatureError> {
    let floats = match kind {
        WireType::ThirtyTwoBit => {
            let (one, behind) = rest.split_at_checked(4).ok_or_else(cut)?;
            *rest = behind;
            one
        }
        _ => wire::delimited(kind, rest)?,
    };
    let (floats, left) = floats.as_chunks::<4>();
    if !left.is_empty() {
        return Err(cut().into());
    }
    let mut floats = floats.iter().map(|it| f32::from_le_bytes(*it));
    floats.try_for_each(|it| column.builder().push_float(it)).map_err(refused)
}

/// Reads integers, packed or single.
fn integers(column: &mut Column<'_>, kind: WireType, rest: &mut &[u8]) -> Result<(), FeatureError> {
    let mut push =
        |number: u64| column.builder().push_integer(number.cast_signed()).map_err(refused);
    if kind == WireType::Varint {
        return push(wire::varint(kind, rest)?);
    }
    let mut packed = wire::delimited(kind, rest)?;
    while !packed.is_empty() {
        push(decode_varint(&mut packed)?)?;
    }
    Ok(())
}

fn cut() -> WireProblem {
    WireProblem::Malformed("a list of floats ends within one".to_owned())
}
