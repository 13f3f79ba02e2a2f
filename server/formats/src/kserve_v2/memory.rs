//! The bodies of the shared memory extension.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::format::suggestion;
use crate::{
    EncodedReply,
    json::{JsonReader, write},
};
use inference::{error::Error, grant::Grant};

/// A shared memory object, or the part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRegion {
    /// The object's name.
    pub key: String,
    /// Where the region begins in it, in bytes.
    pub offset: u64,
    /// The region's size.
    pub byte_size: u64,
}

/// Reads `{"key": "/name", "offset": 0, "byte_size": n}`.
///
/// # Errors
/// When it is something else.
pub fn register_request(body: &[u8]) -> Result<SystemRegion, Error> {
    let (mut key, mut offset, mut byte_size) = (None, 0, None);
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, name| {
            match name.as_ref() {
                "key" => key = Some(reader.string()?.into_owned()),
                "offset" => offset = reader.number()?,
                "byte_size" => byte_size = Some(reader.number()?),
                other => return Err(unknown(reader, other, &["key", "offset", "byte_size"])),
            }
            Ok(())
        })
    })?;
    let key = key.ok_or_else(|| missing("key"))?;
    let byte_size = byte_size.ok_or_else(|| missing("byte_size"))?;
    Ok(SystemRegion { key, offset, byte_size })
}

/// Reads `{"raw_handle": {"b64": ".."}, "device_id": d, "byte_size": n}`: the handle, which is what is looked at.
///
/// # Errors
/// When it is something else.
pub fn cuda_register_request(body: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut handle, mut device, mut byte_size) = (None, None, None);
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, name| {
            match name.as_ref() {
                "raw_handle" => reader.object(|reader, name| match name.as_ref() {
                    "b64" => {
                        let place = reader.place();
                        let text = reader.string()?;
                        let decoded = STANDARD.decode(text.as_bytes());
                        handle = Some(decoded.map_err(|problem| {
                            reader.error_from(place, format_args!("not base64: {problem}"))
                        })?);
                        Ok(())
                    }
                    other => Err(unknown(reader, other, &["b64"])),
                })?,
                "device_id" => device = Some(reader.number::<u64>()?),
                "byte_size" => byte_size = Some(reader.number::<u64>()?),
                other => {
                    return Err(unknown(reader, other, &["raw_handle", "device_id", "byte_size"]));
                }
            }
            Ok(())
        })
    })?;
    device.ok_or_else(|| missing("device_id"))?;
    byte_size.ok_or_else(|| missing("byte_size"))?;
    handle.ok_or_else(|| missing("raw_handle"))
}

/// The status of regions: name and place of each.
pub fn status<'a>(regions: impl IntoIterator<Item = (&'a str, &'a SystemRegion)>) -> EncodedReply {
    let mut out = b"[".to_vec();
    for (name, region) in regions {
        write::item(&mut out);
        out.push(b'{');
        write::key(&mut out, "name");
        write::string(&mut out, name);
        write::key(&mut out, "key");
        write::string(&mut out, &region.key);
        write::key(&mut out, "offset");
        write::number(&mut out, region.offset);
        write::key(&mut out, "byte_size");
        write::number(&mut out, region.byte_size);
        out.push(b'}');
    }
    out.push(b']');
    EncodedReply::json(out)
}

fn unknown(reader: &JsonReader<'_>, given: &str, known: &[&str]) -> Error {
    reader.error(format_args!("unknown key{}", suggestion(given, known.iter().copied())))
}

fn missing(key: &str) -> Error {
    Error::InvalidRequest(format!("expected the key '{key}', found none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_an_object_and_a_size_and_perhaps_an_offset() {
        let read = |body: &str| register_request(body.as_bytes()).map_err(|it| it.to_string());
        let region = SystemRegion { key: "/x".to_owned(), offset: 0, byte_size: 8 };
        assert_eq!(read(r#"{"key":"/x","byte_size":8}"#), Ok(region.clone()));
        let region = SystemRegion { offset: 4, ..region };
        assert_eq!(read(r#"{"key":"/x","offset":4,"byte_size":8}"#), Ok(region));
        let refused = |body: &str, text: &str| assert_eq!(read(body).unwrap_err(), text);
        refused(r#"{"byte_size":8}"#, "expected the key 'key', found none");
        refused(r#"{"key":"/x"}"#, "expected the key 'byte_size', found none");
        refused(
            r#"{"key":"/x","bytesize":8}"#,
            "bytesize: unknown key; did you mean 'byte_size'? expected one of: 'key', 'offset', \
             'byte_size', at byte 23",
        );
        refused(r#"{"key":"/x","byte_size":-8}"#, "byte_size: -8 does not fit UINT64, at byte 24");
    }

    #[test]
    fn a_handle_of_a_gpu_is_base64() {
        let body = br#"{"raw_handle":{"b64":"AAEC"},"device_id":0,"byte_size":8}"#;
        assert_eq!(cuda_register_request(body), Ok(vec![0, 1, 2]));
        let error = cuda_register_request(br#"{"raw_handle":{"b64":"?"}}"#).unwrap_err();
        assert!(error.to_string().starts_with("raw_handle.b64: not base64"), "{error}");
        let error = cuda_register_request(br#"{"device_id":0,"byte_size":8}"#).unwrap_err();
        assert_eq!(error.to_string(), "expected the key 'raw_handle', found none");
    }

    #[test]
    fn the_status_is_a_list() {
        let region = SystemRegion { key: "/x".to_owned(), offset: 4, byte_size: 8 };
        let text = |reply: EncodedReply| String::from_utf8(reply.body.concat()).unwrap();
        assert_eq!(text(status([])), "[]");
        assert_eq!(
            text(status([("a", &region)])),
            r#"[{"name":"a","key":"/x","offset":4,"byte_size":8}]"#
        );
    }
}
