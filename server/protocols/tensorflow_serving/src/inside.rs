//! The REST API for code in the server, which has no wire to it.

use bytes::Bytes;

use crate::{failure::status, rest::Apply};
use formats::{
    errors::{ErrorForm, error_body},
    tfs::Method,
};
use frontend::{
    exchange::{Codec, Decoded},
    http::inference::HttpCodec,
};
use inference::{error::Error, grant::Grant, signature::Signature};
use serving::{Rest, RestRequest};

/// The codec of the addresses of inference.
#[derive(Debug, Clone, Copy)]
pub struct Inside;

impl Rest for Inside {
    fn read(
        &self,
        method: &str,
        signature: &Signature,
        body: &Bytes,
        grant: &Grant,
    ) -> Result<RestRequest, Error> {
        let method = match method {
            "predict" => Method::Predict,
            "classify" => Method::Classify,
            "regress" => Method::Regress,
            other => {
                return Err(Error::InvalidRequest(format!(
                    "method '{}': expected predict, classify or regress",
                    other.escape_debug()
                )));
            }
        };
        let codec = Apply { method };
        let signature = Codec::signature(&codec, signature, &body)?;
        let decoded = HttpCodec::decode(codec, signature, body.clone(), grant);
        let Decoded { request, format, .. } = decoded.map_err(|it| it.error)?;
        let write = Box::new(move |signature: &_, response: &_, grant: &_| {
            Ok(<Apply as HttpCodec>::encode(&format, signature, response, grant)?.body)
        });
        Ok(RestRequest { request, write })
    }

    fn failure(&self, error: &Error) -> (u16, Vec<u8>) {
        let status = status(error.kind()).as_u16();
        (status, error_body(ErrorForm::Plain, status, error.kind(), &error.to_string(), None))
    }
}
