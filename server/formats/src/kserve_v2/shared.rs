//! Inputs and outputs in shared memory: where they are, and what an input must be once its bytes have been read.
//! The front reads and writes the bytes themselves.

use std::sync::Arc;

use backend::{DataType, NamedTensor, Shape, SizeMismatch, Tensor};
use bytes::Bytes;

use crate::{booleans::check_booleans, json::JsonReader};
use inference::{error::Error, messages, signature::Port};

/// What of a request and its reply lies in shared memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedParts {
    /// Inputs that are to be read.
    pub inputs: Vec<SharedInput>,
    /// Where outputs are to be written, by name.
    pub outputs: Vec<(Arc<str>, RegionPart)>,
}

impl SharedParts {
    /// Bytes of the inputs together.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|it| it.part.byte_size).fold(0, u64::saturating_add)
    }
}

/// A part of a registered region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionPart {
    /// The region's name.
    pub region: String,
    /// Where the part begins in the region, in bytes.
    pub offset: u64,
    /// Its size.
    pub byte_size: u64,
}

/// An input of which everything is known but its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedInput {
    /// Where they are.
    pub part: RegionPart,
    name: Arc<str>,
    dtype: DataType,
    shape: Shape,
}

impl SharedInput {
    /// An input of this port of that model.
    ///
    /// # Errors
    /// When type and shape call for another number of bytes than the part has.
    pub fn new(
        port: &Port,
        shape: Shape,
        part: RegionPart,
        model: &str,
    ) -> Result<SharedInput, Error> {
        let dtype = port.dtype;
        let overflow = || {
            let overflow = SizeMismatch::Overflow(shape.clone());
            Error::InvalidRequest(messages::size_mismatch(&port.name, model, &overflow))
        };
        let elements = shape.elements().ok_or_else(overflow)?;
        if let Some(size) = dtype.size() {
            let expected = elements.checked_mul(size).ok_or_else(overflow)?;
            if part.byte_size != expected as u64 {
                let expected = expected as u64;
                return Err(Error::InvalidRequest(format!(
                    "{} as shared_memory_byte_size; it is {dtype} of shape {shape}",
                    messages::wrong_byte_size(&port.name, model, expected, part.byte_size)
                )));
            }
        }
        Ok(SharedInput { part, name: port.name.clone(), dtype, shape })
    }

    /// The input's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The input, whose bytes these are.
    ///
    /// # Errors
    /// When they are no tensor of its type and shape.
    pub fn tensor(self, data: Bytes) -> Result<NamedTensor, Error> {
        let SharedInput { name, dtype, shape, .. } = self;
        check_booleans(&name, dtype, &data)?;
        let tensor = Tensor::new(dtype, shape, data);
        let tensor = tensor.map_err(|error| Error::input(&*name, error.to_string()))?;
        Ok(NamedTensor { name, tensor })
    }
}

/// The keys that name a part of a region, as far as they have been read.
#[derive(Default)]
pub(super) struct RegionKeys {
    region: Option<String>,
    offset: Option<u64>,
    byte_size: Option<u64>,
}

impl RegionKeys {
    /// Reads the value of one parameter of an input or output; one that means nothing here is read past.
    pub(super) fn read(&mut self, reader: &mut JsonReader<'_>, key: &str) -> Result<(), Error> {
        match key {
            "shared_memory_region" => self.region = Some(reader.string()?.into_owned()),
            "shared_memory_offset" => self.offset = Some(reader.number()?),
            "shared_memory_byte_size" => self.byte_size = Some(reader.number()?),
            _ => reader.skip_value()?,
        }
        Ok(())
    }

    /// Is there a region's name among them?
    pub(super) fn is_named(&self) -> bool {
        self.region.is_some()
    }

    /// The part of a region that they name for that input or output; `None` where there is no region among them.
    pub(super) fn part(&self, tensor: &str) -> Result<Option<RegionPart>, Error> {
        let Some(region) = &self.region else { return Ok(None) };
        let Some(byte_size) = self.byte_size else {
            return Err(Error::InvalidRequest(format!(
                "'{tensor}': expected the parameter shared_memory_byte_size beside shared_memory_region \
                 '{region}', found none"
            )));
        };
        let offset = self.offset.unwrap_or(0);
        Ok(Some(RegionPart { region: region.clone(), offset, byte_size }))
    }
}
