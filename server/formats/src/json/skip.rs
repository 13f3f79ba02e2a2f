//! Values that are read past: checked as strictly as the others, and not kept.

use super::{JsonReader, MAX_DEPTH, Token};
use crate::number;
use inference::error::Error;

impl<'a> JsonReader<'a> {
    /// Checks one value and moves behind it.
    ///
    /// # Errors
    /// When it is not sound JSON, or nested too deep.
    pub fn skip_value(&mut self) -> Result<(), Error> {
        // One bit per open level, the innermost the lowest: is it an object?
        let mut objects = 0u128;
        const { assert!(MAX_DEPTH <= 128) };
        let outside = self.depth;
        loop {
            let opened = match self.peek()? {
                Token::Object => Some(b'}'),
                Token::Array => Some(b']'),
                Token::String => self.skip_string().map(|()| None)?,
                Token::Number => self.skip_number().map(|()| None)?,
                Token::Bool => self.bool().map(|_| None)?,
                Token::Null => self.null().map(|()| None)?,
            };
            let mut complete = opened.is_none();
            if let Some(bracket) = opened {
                self.position += 1;
                self.deeper()?;
                objects = objects << 1 | u128::from(bracket == b'}');
                if self.next_byte() == Some(bracket) {
                    self.close();
                    objects >>= 1;
                    complete = true;
                }
            }
            // Behind a value: close what ends here, or go on to the next one.
            while complete {
                if self.depth == outside {
                    return Ok(());
                }
                let (bracket, what) =
                    if objects & 1 == 1 { (b'}', "',' or '}'") } else { (b']', "',' or ']'") };
                if self.ends(bracket, what)? {
                    self.close();
                    objects >>= 1;
                } else {
                    complete = false;
                }
            }
            if objects & 1 == 1 && self.depth > outside {
                self.next_byte();
                if self.rest().first() != Some(&b'"') {
                    return Err(self.expected("a key"));
                }
                self.skip_string()?;
                self.take(b':', "':' after a key")?;
            }
        }
    }

    /// Reads past one value, and gives its text as it stands.
    ///
    /// # Errors
    /// When it is not sound JSON, nested too deep, or no UTF-8.
    pub fn raw_value(&mut self) -> Result<&'a str, Error> {
        let place = self.place();
        self.skip_value()?;
        let text = self.text.get(self.position - self.length_since(place)..self.position);
        std::str::from_utf8(text.unwrap_or_default())
            .map_err(|_| self.error_from(place, "it is not UTF-8"))
    }

    fn skip_number(&mut self) -> Result<(), Error> {
        let length = number::length(self.rest()).ok_or_else(|| self.expected("a number"))?;
        self.position += length;
        Ok(())
    }
}
