//! Templates of a tokenizer: what adds special tokens to a text and to a pair. The crate reads any, and panics with
//! each text where a template names what is not there.

use serde_json::Value;

/// What is wrong with the templates of a post-processor as `tokenizer.json` has it: the key, and a sentence. `None`
/// where nothing is.
pub(super) fn problem(post: &Value) -> Option<(String, String)> {
    match post.get("type").and_then(Value::as_str)? {
        "Sequence" => {
            let mut parts = post.get("processors")?.as_array()?.iter().enumerate();
            parts.find_map(|(at, part)| {
                problem(part).map(|(key, problem)| (format!("processors.{at}.{key}"), problem))
            })
        }
        "TemplateProcessing" => {
            let problem = |key: &'static str| of_template(post, key).map(|it| (key.to_owned(), it));
            problem("single").or_else(|| problem("pair"))
        }
        _ => None,
    }
}

fn of_template(post: &Value, template: &str) -> Option<String> {
    let id = |piece: &Value, kind: &str| piece.get(kind)?.get("id")?.as_str().map(str::to_owned);
    let is_known =
        |token: &str| post.get("special_tokens").is_some_and(|it| it.get(token).is_some());
    post.get(template)?.as_array()?.iter().find_map(|piece| {
        if template == "single" && id(piece, "Sequence").is_some_and(|it| it == "B") {
            return Some("it names a second text, and there is one".to_owned());
        }
        let token = id(piece, "SpecialToken").filter(|it| !is_known(it))?;
        Some(format!("it names the token '{token}', which special_tokens has not"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(single: Value, pair: Value) -> Value {
        let special_tokens = json!({"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}});
        json!({
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": special_tokens,
        })
    }

    #[test]
    fn a_template_names_tokens_and_texts_that_are_there() {
        let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        let sound = json!([token("[CLS]"), text("A")]);
        let pair = json!([token("[CLS]"), text("A"), text("B")]);
        assert_eq!(problem(&template(sound.clone(), pair.clone())), None);
        let lacks = template(sound, json!([text("A"), token("[SEP]")]));
        let (key, sentence) = problem(&lacks).unwrap();
        assert_eq!(key, "pair");
        assert_eq!(sentence, "it names the token '[SEP]', which special_tokens has not");
        let second = json!({"type": "Sequence", "processors": [template(pair, json!([]))]});
        let (key, sentence) = problem(&second).unwrap();
        assert_eq!(key, "processors.0.single");
        assert_eq!(sentence, "it names a second text, and there is one");
        assert_eq!(problem(&json!({"type": "ByteLevel"})), None);
    }
}
