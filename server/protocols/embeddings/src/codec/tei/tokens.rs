//! `/tokenize` and `/decode`: what the tokenizer makes of texts, and of tokens.

use super::inputs;
use crate::codec::texts;
use formats::{
    EncodedReply,
    json::{JsonReader, Token as JsonToken, write},
};
use inference::{error::Error, grant::Grant, granted::Granted};

/// What `/tokenize` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizeRequest {
    /// The texts.
    pub texts: Vec<String>,
    /// Are special tokens added?
    pub add_special_tokens: bool,
    /// The name of the prompt in front of each text.
    pub prompt_name: Option<String>,
}

/// What `/decode` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeRequest {
    /// The token ids of each text.
    pub lists: Vec<Vec<u32>>,
    /// Are special tokens left out?
    pub skip_special_tokens: bool,
}

/// A token of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownToken<'a> {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: &'a str,
    /// Its first byte in the text, and the one behind its last; `None` for a token that was added.
    pub place: Option<(usize, usize)>,
}

/// Most tokens of a request, and of a reply.
pub const MOST: usize = 1 << 20;

/// Bytes of memory that a token takes at most while it is found and written.
pub const TOKEN: usize = 256;

/// `{"inputs", "add_special_tokens"?, "prompt_name"?}` of at most so many texts.
///
/// # Errors
/// What is wrong with it.
pub fn read_tokenize(body: &[u8], most: usize, grant: &Grant) -> Result<TokenizeRequest, Error> {
    let (mut texts, mut prompt_name, mut add_special_tokens) = (None, None, true);
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "inputs" => {
                let mut all = Granted::new(grant);
                let mut push = |reader: &mut JsonReader<'_>| {
                    let text = texts::text(reader)?;
                    all.push(reader.owned(text)?)
                };
                match reader.peek()? {
                    JsonToken::Array => texts::list(reader, most, push)?,
                    _ => push(reader)?,
                }
                texts = Some(all.into_vec());
                Ok(())
            }
            "add_special_tokens" | "prompt_name" if reader.peek()? == JsonToken::Null => {
                reader.null()
            }
            "add_special_tokens" => {
                add_special_tokens = reader.bool()?;
                Ok(())
            }
            "prompt_name" => {
                let name = reader.string()?;
                prompt_name = Some(reader.owned(name)?);
                Ok(())
            }
            _ => reader.skip_value(),
        })
    })?;
    let texts = texts.ok_or_else(inputs::missing)?;
    Ok(TokenizeRequest { texts, add_special_tokens, prompt_name })
}

/// `{"ids", "skip_special_tokens"?}` with the ids of one text, or with a list of at most so many. At most [`MOST`] ids
/// are kept.
///
/// # Errors
/// What is wrong with it.
pub fn read_decode(body: &[u8], most: usize, grant: &Grant) -> Result<DecodeRequest, Error> {
    let (mut lists, mut skip_special_tokens) = (None, true);
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "ids" => {
                lists = Some(read_lists(reader, most)?);
                Ok(())
            }
            "skip_special_tokens" if reader.peek()? == JsonToken::Null => reader.null(),
            "skip_special_tokens" => {
                skip_special_tokens = reader.bool()?;
                Ok(())
            }
            _ => reader.skip_value(),
        })
    })?;
    let missing = || Error::InvalidRequest("expected the key 'ids', found none".to_owned());
    Ok(DecodeRequest { lists: lists.ok_or_else(missing)?, skip_special_tokens })
}

fn read_lists(reader: &mut JsonReader<'_>, most: usize) -> Result<Vec<Vec<u32>>, Error> {
    let start = reader.mark();
    let grant = reader.grant();
    let (mut lists, mut ids) = (Granted::new(grant), Granted::new(grant));
    let (mut given, mut count) = (0, 0);
    // Those beyond the bound are counted for the error, and not kept.
    let mut keep = |reader: &mut JsonReader<'_>, list: &mut Granted<'_, u32>| {
        let id = reader.number()?;
        count += 1;
        if count <= MOST { list.push(id) } else { Ok(()) }
    };
    reader.array(|reader, _| match reader.peek()? {
        JsonToken::Array => {
            given += 1;
            if most < given {
                return reader.skip_value();
            }
            let (start, mut list) = (reader.mark(), Granted::new(grant));
            let mut is_empty = true;
            reader.array(|reader, _| {
                is_empty = false;
                keep(reader, &mut list)
            })?;
            if is_empty {
                return Err(texts::empty_list(reader, &start));
            }
            lists.push(list.into_vec())
        }
        _ => keep(reader, &mut ids),
    })?;
    match (given, ids.is_empty()) {
        (0, true) => Err(texts::empty_list(reader, &start)),
        (1.., false) => Err(reader.error_about(&start, "expected ids or lists of ids, found both")),
        (given, _) if most < given => Err(Error::TooManyInputs { given, most }),
        _ if MOST < count => {
            let problem = format!("expected at most {MOST} ids together, found {count}");
            Err(reader.error_about(&start, problem))
        }
        (0, false) => Ok(vec![ids.into_vec()]),
        (_, true) => Ok(lists.into_vec()),
    }
}

/// `[[{"id","text","special","start","stop"}]]`: places are bytes, and `null` for special tokens.
pub fn write_tokens<'a, T>(texts: impl IntoIterator<Item = T>) -> EncodedReply
where
    T: IntoIterator<Item = ShownToken<'a>>,
{
    let mut out = b"[".to_vec();
    for tokens in texts {
        write::item(&mut out);
        out.push(b'[');
        for token in tokens {
            write::item(&mut out);
            out.extend_from_slice(b"{\"id\":");
            write::number(&mut out, token.id);
            write::key(&mut out, "text");
            write::string(&mut out, token.text);
            write::key(&mut out, "special");
            write::bool(&mut out, token.place.is_none());
            let (start, stop) = token.place.unzip();
            for (key, offset) in [("start", start), ("stop", stop)] {
                write::key(&mut out, key);
                match offset {
                    Some(offset) => write::number(&mut out, offset as u64),
                    None => out.extend_from_slice(b"null"),
                }
            }
            out.push(b'}');
        }
        out.push(b']');
    }
    out.push(b']');
    EncodedReply::json(out)
}

/// `[".."]`: each text.
pub fn write_texts(texts: &[String]) -> EncodedReply {
    let mut out = b"[".to_vec();
    for text in texts {
        write::item(&mut out);
        write::string(&mut out, text);
    }
    out.push(b']');
    EncodedReply::json(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::body;
    use formats::samples::grant;

    #[test]
    fn one_text_is_a_list_of_one() {
        let read = |text: &str| read_tokenize(text.as_bytes(), 2, grant());
        let one = read(r#"{"inputs":"a","add_special_tokens":false,"prompt_name":"q"}"#).unwrap();
        assert_eq!((one.texts, one.add_special_tokens), (vec!["a".to_owned()], false));
        assert_eq!(one.prompt_name.as_deref(), Some("q"));
        let two = read(r#"{"inputs":["a","b"],"prompt_name":null}"#).unwrap();
        assert_eq!((two.texts.len(), two.add_special_tokens, two.prompt_name), (2, true, None));
        assert!(matches!(read(r#"{"inputs":["a","b","c"]}"#), Err(Error::TooManyInputs { .. })));
        assert!(matches!(read(r#"{"inputs":[]}"#), Err(Error::Empty(_))));
        assert!(read("{}").is_err());
    }

    #[test]
    fn ids_are_of_one_text_or_of_several() {
        let read = |text: &str| read_decode(text.as_bytes(), 2, grant()).map(|it| it.lists);
        assert_eq!(read(r#"{"ids":[1,2]}"#).unwrap(), [[1, 2]]);
        assert_eq!(read(r#"{"ids":[[1],[2]]}"#).unwrap(), [[1], [2]]);
        assert!(matches!(read(r#"{"ids":[[1],[2],[3]]}"#), Err(Error::TooManyInputs { .. })));
        for empty in [r#"{"ids":[]}"#, r#"{"ids":[[]]}"#, r#"{"ids":[[1],[]]}"#] {
            assert!(matches!(read(empty), Err(Error::Empty(_))), "{empty}");
        }
        for wrong in [r#"{"ids":[1,[2]]}"#, r#"{"ids":[-1]}"#, r#"{"ids":"a"}"#, "{}"] {
            assert!(matches!(read(wrong), Err(Error::InvalidRequest(_))), "{wrong}");
        }
        let flag = read_decode(br#"{"ids":[1],"skip_special_tokens":false}"#, 2, grant()).unwrap();
        assert!(!flag.skip_special_tokens);
    }

    #[test]
    fn ids_beyond_the_bound_are_counted_and_not_kept() {
        let body = |count: usize| format!(r#"{{"ids":[{}]}}"#, vec!["1"; count].join(","));
        let (most, many) = (body(MOST), body(2 * MOST));
        assert_eq!(read_decode(most.as_bytes(), 2, grant()).unwrap().lists.concat().len(), MOST);
        let mut error = String::new();
        let used = allocation_counter::measure(|| {
            error = read_decode(many.as_bytes(), 2, grant()).unwrap_err().to_string();
        });
        let expected = format!("expected at most {MOST} ids together, found {}", 2 * MOST);
        assert!(error.contains(&expected), "{error}");
        // The list of those that are kept, while it grows.
        assert!(used.bytes_max < 8 * MOST as u64, "{} bytes", used.bytes_max);
    }

    #[test]
    fn a_token_that_was_added_has_no_place() {
        let word = ShownToken { id: 7, text: "a\"", place: Some((0, 2)) };
        let added = ShownToken { id: 2, text: "[CLS]", place: None };
        let expected = concat!(
            r#"[[{"id":2,"text":"[CLS]","special":true,"start":null,"stop":null},"#,
            r#"{"id":7,"text":"a\"","special":false,"start":0,"stop":2}],[]]"#
        );
        assert_eq!(body(&write_tokens([vec![added, word], vec![]])), expected);
        assert_eq!(body(&write_texts(&["a".to_owned(), "\n".to_owned()])), r#"["a","\n"]"#);
    }
}
