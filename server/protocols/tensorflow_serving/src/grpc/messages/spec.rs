//! `ModelSpec`: the model and version that a request names, and that a response names.

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use frontend::grpc::{
    pieces::{field, text},
    proto::tensorflow::serving::{ModelSpec, model_spec::VersionChoice},
    wire::{self, WireProblem},
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};

/// A `ModelSpec` from a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spec<'a> {
    /// The name of the model.
    pub name: &'a str,
    /// The version of the model.
    pub version: Version<'a>,
    /// The name of its signature; empty for the default.
    pub signature_name: &'a str,
}

/// Which version of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version<'a> {
    /// No particular one.
    #[default]
    Any,
    /// The one of that number, which need not exist.
    Number(i64),
    /// The one that has this label at present.
    Label(&'a str),
}

impl<'a> Spec<'a> {
    /// Parses the message.
    pub fn read(mut rest: &'a [u8]) -> Result<Spec<'a>, WireProblem> {
        let mut spec = Spec::default();
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                1 => spec.name = wire::text(kind, &mut rest)?,
                2 => spec.version = Version::Number(wrapped(wire::delimited(kind, &mut rest)?)?),
                3 => spec.signature_name = wire::text(kind, &mut rest)?,
                4 => spec.version = Version::Label(wire::text(kind, &mut rest)?),
                _ => wire::skip(number, kind, &mut rest)?,
            }
        }
        Ok(spec)
    }

    /// Parses and checks the message.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where it is malformed, and those of [`Spec::check`].
    pub fn checked(message: &'a [u8]) -> Result<Spec<'a>, Error> {
        let spec = Spec::read(message).map_err(|problem| problem.error("ModelSpec"))?;
        spec.check().map(|()| spec)
    }

    /// The same for a message that is decoded already.
    pub fn of(message: Option<&'a ModelSpec>) -> Spec<'a> {
        let Some(ModelSpec { name, version_choice, signature_name }) = message else {
            return Spec::default();
        };
        let version = match version_choice {
            None => Version::Any,
            Some(VersionChoice::Version(number)) => Version::Number(*number),
            Some(VersionChoice::VersionLabel(label)) => Version::Label(label),
        };
        Spec { name, version, signature_name }
    }

    /// Checks that it names a model.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with the name of the field.
    pub fn check(&self) -> Result<(), Error> {
        let problem = "model_spec.name: expected the name of a model, given none";
        match self.name.is_empty() {
            true => Err(Error::InvalidRequest(problem.to_owned())),
            false => Ok(()),
        }
    }
}

/// The number in an `Int64Value`.
fn wrapped(mut rest: &[u8]) -> Result<i64, WireProblem> {
    let mut value = 0;
    while let Some((number, kind)) = wire::field(&mut rest)? {
        match number {
            1 => value = wire::varint(kind, &mut rest)?.cast_signed(),
            _ => wire::skip(number, kind, &mut rest)?,
        }
    }
    Ok(value)
}

/// Appends the `ModelSpec` of a response by that signature as field `number`, which must be one of the first 15.
pub fn write(out: &mut Vec<u8>, number: u32, signature: &Signature, response: &InferenceResponse) {
    let name = signature.name();
    let version = 1 + encoded_len_varint(response.version);
    let length = field(response.model.len()) + field(version) + field(name.len());
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
    text(out, 1, &response.model);
    encode_key(2, WireType::LengthDelimited, out);
    encode_varint(version as u64, out);
    encode_key(1, WireType::Varint, out);
    encode_varint(response.version, out);
    text(out, 3, name);
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn message(version_choice: Option<VersionChoice>) -> ModelSpec {
        let signature_name = "serving_default".to_owned();
        ModelSpec { name: "m".to_owned(), version_choice, signature_name }
    }

    #[test]
    fn what_is_read_by_hand_is_what_is_decoded() {
        for choice in [
            None,
            Some(VersionChoice::Version(0)),
            Some(VersionChoice::Version(-7)),
            Some(VersionChoice::VersionLabel("stable".to_owned())),
        ] {
            let message = message(choice);
            let bytes = message.encode_to_vec();
            let read = Spec::read(&bytes).ok().unwrap();
            assert_eq!(read, Spec::of(Some(&message)));
            assert!(read.check().is_ok());
        }
    }

    #[test]
    fn no_name_is_refused_by_field() {
        let error = Spec::of(None).check().unwrap_err().to_string();
        assert!(error.starts_with("model_spec.name"), "{error}");
    }

    #[test]
    fn what_is_written_by_hand_reads_back() {
        let (model, outputs) = ("mod".into(), Vec::new());
        let response = InferenceResponse {
            model,
            version: 300,
            id: None,
            rows: None,
            outputs,
            timings: None,
            parameters: Vec::new(),
        };
        let signature = Signature {
            model: "mod".into(),
            version: 300,
            max_batch_size: 0,
            graph_checks_shapes: false,
            takes_missing: false,
            most_rows: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            on_request: Vec::new(),
            pipeline: None,
            named: None,
        };
        let mut out = Vec::new();
        write(&mut out, 2, &signature, &response);
        let (key, length, rest) = (out[0], usize::from(out[1]), &out[2..]);
        assert_eq!((key, length), (0x12, rest.len()));
        let expected = ModelSpec {
            name: "mod".to_owned(),
            version_choice: Some(VersionChoice::Version(300)),
            signature_name: "serving_default".to_owned(),
        };
        assert_eq!(ModelSpec::decode(rest), Ok(expected));
    }
}
