//! `/vertex`: several bodies in one.

use bytes::Bytes;

use formats::json::JsonReader;
use inference::{error::Error, grant::Grant, granted::Granted};

/// The bodies in `{"instances": [..]}`, each a part of the same memory. As there, they may be any number.
///
/// # Errors
/// When the key is missing, or has no list.
pub fn instances(body: &Bytes, grant: &Grant) -> Result<Vec<Bytes>, Error> {
    let mut bodies = None;
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "instances" => {
                let mut all = Granted::new(grant);
                reader
                    .array(|reader, _| all.push(body.slice_ref(reader.raw_value()?.as_bytes())))?;
                bodies = Some(all.into_vec());
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
        let read = |text: &'static str| {
            instances(&Bytes::from_static(text.as_bytes()), formats::samples::grant())
        };
        let bodies = read(r#"{"instances": [ {"inputs": "a"}, 7 ], "parameters": {}}"#).unwrap();
        assert_eq!(bodies, [&br#"{"inputs": "a"}"#[..], b"7"]);
        assert_eq!(read(r#"{"instances":[]}"#).unwrap(), [""; 0]);
        assert!(matches!(read(r#"{"instances":1}"#), Err(Error::InvalidRequest(_))));
        assert!(matches!(read("{}"), Err(Error::InvalidRequest(_))));
    }
}
