//! A part of a shared memory object that has a name.

use std::fs::File;

use inference::error::Error;

/// A part of a shared memory object that a client has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The client's name for it.
    pub name: String,
    /// Name of the shared memory object.
    pub key: String,
    /// Where the region begins in the object, in bytes.
    pub offset: u64,
    /// Its size.
    pub byte_size: u64,
}

/// A region and its object, which stays open while anything uses it.
#[derive(Debug)]
pub struct Registered {
    /// The region.
    pub region: Region,
    /// The open object.
    pub object: File,
}

/// The error of a region that cannot be used as wanted.
pub fn refused(region: &str, problem: String) -> Error {
    Error::InvalidRequest(format!("shared memory region '{region}': {problem}"))
}
