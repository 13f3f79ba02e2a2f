//! A message of protobuf in a file that may be large: its fields are read one behind the other, or passed over.

use std::io::{self, Read};

use crate::graph::Content;

/// What a field holds, behind its tag.
pub(crate) enum Held {
    Number(u64),
    /// Bytes up to there.
    Bytes(u64),
    /// Four or eight bytes, which are of no interest.
    Fixed,
}

pub(crate) struct Reader<'a> {
    content: Box<dyn Content + 'a>,
    /// Bytes read or skipped so far.
    pub(crate) at: u64,
}

impl<'a> Reader<'a> {
    /// At the beginning of that content.
    pub(crate) fn new(content: Box<dyn Content + 'a>) -> Reader<'a> {
        Reader { content, at: 0 }
    }

    /// The number of the field that begins here, within a message that ends at `end`, and what it holds.
    ///
    /// # Errors
    /// What cannot be read, or is no message of protobuf.
    pub(crate) fn field(&mut self, end: u64) -> io::Result<(u64, Held)> {
        let tag = self.varint()?;
        let number = tag >> 3;
        // No message has such a field, and a file of nothing but zeros would be many.
        if number == 0 {
            return Err(malformed());
        }
        let length = match tag & 7 {
            0 => return Ok((number, Held::Number(self.varint()?))),
            1 => 8,
            2 => self.varint()?,
            5 => 4,
            _ => return Err(malformed()),
        };
        let inner = self.at.checked_add(length).filter(|it| *it <= end).ok_or_else(malformed)?;
        if tag & 7 == 2 {
            return Ok((number, Held::Bytes(inner)));
        }
        self.skip(inner)?;
        Ok((number, Held::Fixed))
    }

    /// The bytes up to there, which are at most so many.
    ///
    /// # Errors
    /// What cannot be read, and more than these.
    pub(crate) fn bytes(&mut self, end: u64, most: u64) -> io::Result<Vec<u8>> {
        let length = end.checked_sub(self.at).filter(|it| *it <= most).ok_or_else(malformed)?;
        let mut bytes = Vec::new();
        (&mut self.content).take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at = end;
        Ok(bytes)
    }

    /// Passes over the bytes up to there.
    ///
    /// # Errors
    /// What cannot be read.
    pub(crate) fn skip(&mut self, end: u64) -> io::Result<()> {
        let length = end.checked_sub(self.at).and_then(|it| i64::try_from(it).ok());
        self.content.seek_relative(length.ok_or_else(malformed)?)?;
        self.at = end;
        Ok(())
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.content.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7F) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed())
    }
}

/// What is said of a file that is none.
pub(crate) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no ONNX model")
}
