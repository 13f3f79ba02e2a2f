//! `/vertex`: several bodies in one.

use bytes::Bytes;

use crate::codec::texts;
use formats::{
    expansion::{DOUBLING, KEY, Separators, Text},
    json::Reader,
};
use inference::error::Error;

/// Bytes that reading at most so many bodies takes at most beside the body that they are in.
pub fn bound(body: &[u8], most: usize, loose: usize) -> usize {
    Text::bound(Separators::Document, body, loose, |text| {
        let list = text.values.min(most).saturating_mul(size_of::<Bytes>() * DOUBLING);
        list.saturating_add(text.read(KEY))
    })
}

/// The bodies in `{"instances": [..]}`, at most so many, each a part of the same memory.
///
/// # Errors
/// When there are none, or too many.
pub fn instances(body: &Bytes, most: usize) -> Result<Vec<Bytes>, Error> {
    let mut bodies = None;
    Reader::document(body, |reader| {
        reader.object(|reader, key| match &*key {
            "instances" => {
                let mut all = Vec::new();
                texts::list(reader, most, |reader| {
                    all.push(body.slice_ref(reader.raw_value()?.as_bytes()));
                    Ok(())
                })?;
                bodies = Some(all);
                Ok(())
            }
            _ => reader.skip_value(),
        })
    })?;
    let missing = || Error::InvalidRequest("expected the key 'instances', found none".to_owned());
    bodies.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_body_is_a_part_of_the_whole() {
        let read = |text: &'static str| instances(&Bytes::from_static(text.as_bytes()), 2);
        let bodies = read(r#"{"instances": [ {"inputs": "a"}, 7 ], "parameters": {}}"#).unwrap();
        assert_eq!(bodies, [&br#"{"inputs": "a"}"#[..], b"7"]);
        assert!(matches!(read(r#"{"instances":[]}"#), Err(Error::Empty(_))));
        assert!(matches!(read(r#"{"instances":[1,2,3]}"#), Err(Error::TooManyInputs { .. })));
        assert!(matches!(read("{}"), Err(Error::InvalidRequest(_))));
    }
}
