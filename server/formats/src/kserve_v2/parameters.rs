//! The parameters of a request: those that mean something to the server, and any others, which are passed on.

use std::{sync::Arc, time::Duration};

use crate::{
    json::{JsonReader, Token},
    parameter,
    signature_name::SIGNATURE_NAME,
};
use inference::{
    error::Error,
    grant::Grant,
    granted::Granted,
    request::{InferenceRequest, Parameter, Sequence, SequenceId},
    signature::Signature,
};

/// What has been read so far. Its parts depend on each other, and may come in any order.
pub(super) struct Parameters<'g> {
    binary_by_default: bool,
    priority: u64,
    queue_timeout: Option<Duration>,
    /// `None` also for 0 and for the empty text, which stand for no sequence.
    sequence_id: Option<SequenceId>,
    sequence_start: bool,
    sequence_end: bool,
    custom: Granted<'g, (Arc<str>, Parameter)>,
    /// Does one of them name a signature of the model?
    names_signature: bool,
}

impl<'g> Parameters<'g> {
    /// Of a request to a model that has this signature.
    pub(super) fn of(signature: &Signature, grant: &'g Grant) -> Parameters<'g> {
        Parameters {
            binary_by_default: false,
            priority: 0,
            queue_timeout: None,
            sequence_id: None,
            sequence_start: false,
            sequence_end: false,
            custom: Granted::new(grant),
            names_signature: signature.named.is_some(),
        }
    }

    /// Reads the value of one parameter.
    ///
    /// # Errors
    /// When it is of the wrong type, or the name is reserved.
    pub(super) fn read(&mut self, reader: &mut JsonReader<'_>, name: &str) -> Result<(), Error> {
        match name {
            "binary_data_output" => self.binary_by_default = reader.bool()?,
            "priority" => self.priority = reader.number()?,
            "timeout" => {
                // 0 stands for the model's default, as in Triton.
                let timeout = Duration::from_micros(reader.number()?);
                self.queue_timeout = Some(timeout).filter(|it| !it.is_zero());
            }
            "sequence_id" => self.sequence_id = sequence_id(reader)?,
            "sequence_start" => self.sequence_start = reader.bool()?,
            "sequence_end" => self.sequence_end = reader.bool()?,
            name if name.starts_with("triton_") => {
                return Err(reader.error("parameters that begin with 'triton_' are reserved"));
            }
            // The signature has been found by it.
            SIGNATURE_NAME if self.names_signature => drop(reader.string()?),
            name => {
                parameter::check(reader, self.custom.len(), name)?;
                let value = parameter::scalar(reader, name)?;
                self.custom.push((reader.shared(name)?, value))?;
            }
        }
        Ok(())
    }

    /// Gives the request what concerns it. Are outputs binary whose entry does not say?
    pub(super) fn give_to(self, request: &mut InferenceRequest) -> bool {
        request.priority = self.priority;
        request.queue_timeout = self.queue_timeout;
        let (start, end) = (self.sequence_start, self.sequence_end);
        request.sequence = self.sequence_id.map(|id| Sequence { id, start, end });
        request.parameters = self.custom.into_vec();
        self.binary_by_default
    }
}

fn sequence_id(reader: &mut JsonReader<'_>) -> Result<Option<SequenceId>, Error> {
    match reader.peek()? {
        Token::String => {
            let id = reader.string()?;
            Ok(match id.is_empty() {
                true => None,
                false => Some(SequenceId::Text(reader.shared(&id)?)),
            })
        }
        Token::Number => {
            let id: u64 = reader.number()?;
            Ok((id != 0).then_some(SequenceId::Number(id)))
        }
        found @ (Token::Bool | Token::Object | Token::Array | Token::Null) => {
            let expected = "expected an integer >= 0 or a string";
            Err(reader.error(format_args!("{expected}, found {found}")))
        }
    }
}
