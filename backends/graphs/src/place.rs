//! Where the bytes of a tensor lie.

use std::{
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use crate::error::GraphError;

/// A weight of 32-bit floats, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// Its name in the graph.
    pub name: String,
    /// Its shape.
    pub dims: Vec<i64>,
    /// The name of the file in the folder.
    pub file: String,
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Where the bytes of a tensor lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorLocation {
    /// The name of the file in the folder.
    pub(crate) file: String,
    /// Bytes from the beginning of the file.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u64,
}

impl TensorLocation {
    /// The bytes. Blocking.
    pub(crate) fn bytes(&self, folder: &Path) -> Result<Vec<u8>, GraphError> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = backend::open_file(&folder.join(&self.file))?;
            file.seek(SeekFrom::Start(self.offset))?;
            let mut bytes = vec![0; self.length as usize];
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|it| GraphError::file(&self.file, it.to_string()))
    }
}
