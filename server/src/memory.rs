//! Memory that clients share with the server, by name: Triton's system shared memory extension.

use bytes::Bytes;

use crate::error::Error;

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

/// A part of a region, kept until it is dropped, though the region be unregistered.
#[derive(Debug, Clone)]
pub struct Window {}

/// The registered regions.
#[derive(Debug, Default)]
pub struct SharedMemory {}

impl SharedMemory {
    /// No regions. With `allowed` clients may register some: `--allow-client-shm`.
    pub fn new(allowed: bool) -> SharedMemory {
        let _ = allowed;
        SharedMemory {}
    }

    /// Registers a region. Blocking, shortly.
    ///
    /// # Errors
    /// [`Error::Unimplemented`] where clients may not; [`Error::AlreadyExists`]; [`Error::InvalidRequest`] for an
    /// object that cannot be opened or is too small.
    pub fn register(&self, region: Region) -> Result<(), Error> {
        let _ = region;
        Err(Error::Unimplemented("shared memory is off".to_owned()))
    }

    /// Takes a region off the list, or all of them. An unknown one is no error.
    pub fn unregister(&self, name: Option<&str>) {
        let _ = name;
    }

    /// One region, or all of them by name.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn status(&self, name: Option<&str>) -> Result<Vec<Region>, Error> {
        let _ = name;
        Ok(Vec::new())
    }

    /// A part of a region.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown region, [`Error::InvalidRequest`] for a part beyond it.
    pub fn window(&self, region: &str, offset: u64, byte_size: u64) -> Result<Window, Error> {
        let _ = (offset, byte_size);
        Err(Error::NotFound(format!("there is no shared memory region '{region}'")))
    }
}

impl Window {
    /// Its bytes, copied.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the client has made the object smaller.
    pub fn read(&self) -> Result<Bytes, Error> {
        Ok(Bytes::new())
    }

    /// Writes these pieces one behind the other, from its start.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where there is not room enough; nothing is written then.
    pub fn write(&self, pieces: &[Bytes]) -> Result<(), Error> {
        let _ = pieces;
        Ok(())
    }
}
