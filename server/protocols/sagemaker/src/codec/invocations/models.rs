//! The bodies by which SageMaker loads and lists the models of a multi-model endpoint.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use formats::{
    EncodedReply,
    json::{JsonReader, write},
};
use inference::{error::Error, grant::Grant};

/// Models on one page where the client names no number, and the most that there are.
const USUAL_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

/// What a token begins with before it is encoded: no other text is taken for one.
const TOKEN: &str = "after:";

/// What is to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadRequest {
    /// The platform's name for the model.
    pub name: String,
    /// The path of its directory.
    pub url: String,
}

/// Which part of the list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// Models behind that one; `None` for the first page.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Reads `{"model_name": "..", "url": ".."}`; other keys are passed over.
///
/// # Errors
/// When it is not that, naming the place.
pub fn load_request(body: &[u8]) -> Result<LoadRequest, Error> {
    let (mut name, mut url) = (None, None);
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, key| {
            match key.as_ref() {
                "model_name" => name = Some(reader.string()?.into_owned()),
                "url" => url = Some(reader.string()?.into_owned()),
                _ => reader.skip_value()?,
            }
            Ok(())
        })
    })?;
    let missing = |key: &str| {
        Error::InvalidRequest(format!(
            "the body has no '{key}'; expected {{\"model_name\": \"..\", \"url\": \"..\"}}"
        ))
    };
    let name = name.ok_or_else(|| missing("model_name"))?;
    Ok(LoadRequest { name, url: url.ok_or_else(|| missing("url"))? })
}

/// Reads `limit` and `next_page_token` of a query, given as decoded names and values; others are passed over. A
/// limit above the largest page is that.
///
/// # Errors
/// When one of them is not what it should be, naming it.
pub fn list_request<'a>(
    query: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<ListRequest, Error> {
    let mut request = ListRequest { after: None, limit: USUAL_PAGE };
    for (name, value) in query {
        match name {
            "limit" => request.limit = limit(value)?,
            "next_page_token" if value.is_empty() => {}
            "next_page_token" => request.after = Some(read_token(value)?),
            _ => {}
        }
    }
    Ok(request)
}

fn limit(text: &str) -> Result<usize, Error> {
    let digits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    // One with too many digits is larger than any page.
    let number = digits.then(|| text.parse().unwrap_or(LARGEST_PAGE));
    number.filter(|it| 0 < *it).map(|it| it.min(LARGEST_PAGE)).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Error::InvalidRequest(format!(
            "limit: expected a whole number from 1 to {LARGEST_PAGE}, given '{}'",
            shown.escape_debug()
        ))
    })
}

fn token(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{TOKEN}{last}"))
}

fn read_token(token: &str) -> Result<String, Error> {
    let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|it| String::from_utf8(it).ok());
    let name = text.as_ref().and_then(|it| it.strip_prefix(TOKEN)).map(str::to_owned);
    name.ok_or_else(|| {
        let shown: String = token.chars().take(40).collect();
        Error::InvalidRequest(format!(
            "next_page_token: expected a nextPageToken of an earlier reply, given '{}'",
            shown.escape_debug()
        ))
    })
}

/// `{"modelName", "modelUrl"}`
pub fn model(name: &str, url: &str) -> EncodedReply {
    let mut json = Vec::new();
    write_model(&mut json, name, url);
    EncodedReply::json(json)
}

/// `{"models": [..], "nextPageToken"?}`; with a token where `has_more` is behind them.
pub fn list<'a>(models: impl Iterator<Item = (&'a str, &'a str)>, has_more: bool) -> EncodedReply {
    let mut json = b"{\"models\":[".to_vec();
    let mut last = None;
    for (name, url) in models {
        write::item(&mut json);
        write_model(&mut json, name, url);
        last = Some(name);
    }
    json.push(b']');
    if let Some(last) = last.filter(|_| has_more) {
        write::key(&mut json, "nextPageToken");
        write::string(&mut json, &token(last));
    }
    json.push(b'}');
    EncodedReply::json(json)
}

fn write_model(json: &mut Vec<u8>, name: &str, url: &str) {
    json.push(b'{');
    write_keys(json, name, url);
    json.push(b'}');
}

/// `modelName` and `modelUrl` of an object that has begun.
pub(super) fn write_keys(json: &mut Vec<u8>, name: &str, url: &str) {
    write::key(json, "modelName");
    write::string(json, name);
    write::key(json, "modelUrl");
    write::string(json, url);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, parts: &[&str]) {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "no '{part}' in: {error}");
        }
    }

    #[test]
    fn a_load_names_model_and_place_and_other_keys_are_passed_over() {
        let body = br#"{"gpu_id": [1], "url": "/opt/ml/models/x/model", "model_name": "x"}"#;
        let expected = LoadRequest { name: "x".into(), url: "/opt/ml/models/x/model".into() };
        assert_eq!(load_request(body), Ok(expected));
    }

    #[test]
    fn the_error_of_an_incomplete_load_names_what_is_missing() {
        check_refused(load_request(br#"{"url": "/m"}"#), &["no 'model_name'"]);
        check_refused(load_request(br#"{"model_name": "m"}"#), &["no 'url'"]);
        check_refused(load_request(br#"{"model_name": 1}"#), &["model_name", "a string"]);
        check_refused(load_request(b""), &[]);
        check_refused(load_request(b"[]"), &["an object"]);
    }

    fn query(given: &[(&str, &str)]) -> Result<ListRequest, Error> {
        list_request(given.iter().copied())
    }

    #[test]
    fn a_page_has_its_limits() {
        let limit = |given: &[(&str, &str)]| query(given).map(|it| it.limit);
        assert_eq!(limit(&[]), Ok(100));
        assert_eq!(limit(&[("limit", "7"), ("x", "y")]), Ok(7));
        assert_eq!(limit(&[("limit", "100000000000000000000000")]), Ok(1000));
        for text in ["0", "-1", "x", "", "1.5"] {
            check_refused(limit(&[("limit", text)]), &["limit", "1 to 1000", text]);
        }
    }

    #[test]
    fn the_token_of_a_page_leads_to_the_next_and_nothing_else_does() {
        let page = list([("a", "/a"), ("b/\u{e9}", "/b")].into_iter(), true);
        let text = String::from_utf8(page.body.concat()).unwrap();
        let token = text.split("\"nextPageToken\":\"").nth(1).unwrap().trim_end_matches("\"}");
        assert_eq!(query(&[("next_page_token", token)]).unwrap().after.unwrap(), "b/\u{e9}");
        assert_eq!(query(&[("next_page_token", "")]).unwrap().after, None);
        for text in ["1", "abcd", "YQ", "%%"] {
            check_refused(query(&[("next_page_token", text)]), &["next_page_token", text]);
        }
    }

    #[test]
    fn the_last_page_has_no_token() {
        let text = |it: EncodedReply| String::from_utf8(it.body.concat()).unwrap();
        assert_eq!(text(list([].into_iter(), false)), r#"{"models":[]}"#);
        let page = list([("m", "/m\"")].into_iter(), false);
        assert_eq!(text(page), r#"{"models":[{"modelName":"m","modelUrl":"/m\""}]}"#);
        assert_eq!(text(model("m", "/m")), r#"{"modelName":"m","modelUrl":"/m"}"#);
    }
}
