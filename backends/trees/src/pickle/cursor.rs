//! Where a machine stands in its file: bytes, numbers and lines from there on, never past the end. Pure.

use std::fmt;

use crate::{error::FormatError, pickle::value::Span};

/// A place in a file.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start. A file has at most 2^31 bytes.
    pub(super) fn new(file: &'a [u8]) -> Cursor<'a> {
        Cursor { file, at: 0 }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub(super) fn span(&mut self, length: u64) -> Result<Span, FormatError> {
        let left = self.file.len() - self.at;
        let length = usize::try_from(length).ok().filter(|it| *it <= left);
        let Some(length) = length else {
            return Err(FormatError::past_the_end("the pickle", self.at));
        };
        let start = self.at;
        self.at += length;
        Ok(Span { start: start as u32, end: self.at as u32 })
    }

    /// The bytes of a span.
    pub(super) fn bytes(&self, span: Span) -> &'a [u8] {
        &self.file[span.start as usize..span.end as usize]
    }

    /// The next bytes, as many as the result has.
    ///
    /// # Errors
    /// There are fewer.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let span = self.span(N as u64)?;
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(span));
        Ok(array)
    }

    /// The next byte.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn byte(&mut self) -> Result<u8, FormatError> {
        self.array::<1>().map(|[it]| it)
    }

    /// The next four bytes as a length.
    ///
    /// # Errors
    /// There are fewer.
    pub(super) fn length4(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from(u32::from_le_bytes(self.array()?)))
    }

    /// What comes before the next end of a line, which is passed. Ends may be those of Windows in the oldest protocol.
    ///
    /// # Errors
    /// No line ends.
    pub(super) fn line(&mut self) -> Result<Span, FormatError> {
        let rest = &self.file[self.at..];
        let Some(length) = rest.iter().position(|it| *it == b'\n') else {
            return Err(FormatError::past_the_end("a line of the pickle", self.at));
        };
        let line = self.span(length as u64)?;
        self.at += 1;
        match self.bytes(line).last() {
            Some(b'\r') => Ok(Span { start: line.start, end: line.end - 1 }),
            _ => Ok(line),
        }
    }

    /// Are there so many bytes?
    ///
    /// # Errors
    /// There are fewer.
    pub(super) fn expect(&self, length: u64) -> Result<(), FormatError> {
        match length <= (self.file.len() - self.at) as u64 {
            true => Ok(()),
            false => Err(FormatError::past_the_end("a frame of the pickle", self.at)),
        }
    }

    /// An error that says where this place is.
    ///
    /// # Errors
    /// Always.
    pub(super) fn refuse<T>(&self, problem: impl fmt::Display) -> Result<T, FormatError> {
        Err(FormatError::new(format!("pickle: {problem}, before offset {}", self.at)))
    }
}
