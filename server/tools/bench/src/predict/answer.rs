//! What a model has answered, as lines that people read. Pure.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// More numbers than this in a row are cut.
const MOST_NUMBERS: usize = 16;
/// So many of them are shown then.
const FIRST_NUMBERS: usize = 8;

/// An answer as text, without an end of line: labels with their scores, texts, numbers. What is not JSON is shown as it
/// is where it is text.
pub(super) fn readable(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => lines(&value).join("\n"),
        Err(_) => match std::str::from_utf8(body) {
            Ok(text) => harmless(text.trim_end()),
            Err(_) => format!("{} bytes that are no text", body.len()),
        },
    }
}

/// The sentence in which a server says why it refuses; else the beginning of what it sent.
pub(super) fn refusal(body: &[u8]) -> String {
    let told = serde_json::from_slice::<Value>(body).ok().and_then(|it| {
        let told = it.get("error").or(it.get("message"))?;
        let told = told.get("message").unwrap_or(told);
        told.as_str().map(harmless)
    });
    let beginning = || {
        let text = String::from_utf8_lossy(body);
        harmless(text.trim().chars().take(300).collect::<String>().as_str())
    };
    told.unwrap_or_else(beginning)
}

/// A text of a server without what a terminal would take for an order.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() && !matches!(letter, '\n' | '\t') {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    shown
}

fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => match unwrapped(fields) {
            Some(rows) => lines(rows),
            None => of_object(fields),
        },
        Value::Array(items) => of_list(items),
        other => vec![short(other)],
    }
}

/// The answers in an object of TensorFlow Serving's, MLflow's or KServe's protocol.
fn unwrapped(fields: &Map<String, Value>) -> Option<&Value> {
    let only = ["predictions", "results", "outputs"];
    let is_only = |name: &str| fields.len() == 1 || name == "outputs" && is_kserve(fields);
    only.iter().find(|it| is_only(it)).and_then(|it| fields.get(*it))
}

fn is_kserve(fields: &Map<String, Value>) -> bool {
    fields.contains_key("model_name")
}

fn of_object(fields: &Map<String, Value>) -> Vec<String> {
    // An output of KServe's protocol says beside its numbers which type they have.
    if let (Some(name), Some(data)) = (fields.get("name"), fields.get("data")) {
        let shape = fields.get("shape").map_or_else(String::new, |it| format!(" {}", short(it)));
        return vec![format!("{}{shape}: {}", short(name), short(data))];
    }
    if let [(_, Value::String(text))] = fields.iter().collect::<Vec<_>>()[..] {
        return vec![harmless(text)];
    }
    fields.iter().map(|(name, value)| format!("{}: {}", harmless(name), short(value))).collect()
}

fn of_list(items: &[Value]) -> Vec<String> {
    if items.iter().all(is_scored) && !items.is_empty() {
        return scored(items);
    }
    match items {
        [] => vec!["nothing".to_owned()],
        [one @ (Value::Array(_) | Value::Object(_))] => lines(one),
        rows if rows.iter().any(|it| it.is_array() || it.is_object()) => {
            let of_row = |(nth, row): (usize, &Value)| match &lines(row)[..] {
                [line] => vec![format!("{}: {line}", nth + 1)],
                several => {
                    let several = several.iter().map(|it| format!("  {it}"));
                    [format!("{}:", nth + 1)].into_iter().chain(several).collect()
                }
            };
            rows.iter().enumerate().flat_map(of_row).collect()
        }
        values => vec![numbers(values)],
    }
}

/// Has it a score, and a text that says of what?
fn is_scored(item: &Value) -> bool {
    item.get("score").is_some_and(Value::is_number) && subject(item).is_some()
}

/// The names of what has a score, as the tasks of Hugging Face's libraries have them.
fn subject(item: &Value) -> Option<&str> {
    ["label", "word", "sequence", "token_str", "answer", "text"]
        .iter()
        .find_map(|it| item.get(*it)?.as_str())
}

/// A line for each: its name, its score, and whatever else is known, as the corners of a box.
fn scored(items: &[Value]) -> Vec<String> {
    let names: Vec<String> =
        items.iter().map(|it| harmless(subject(it).unwrap_or_default())).collect();
    let width = names.iter().map(|it| it.chars().count()).max().unwrap_or_default();
    let line = |(item, name): (&Value, &String)| {
        let score = item.get("score").and_then(Value::as_f64).unwrap_or_default();
        let mut line = format!("{name:width$}  {score:.4}");
        let fields = item.as_object().into_iter().flatten();
        let is_said = |it: &&String| {
            it.as_str() == "score" || item.get(*it).and_then(Value::as_str) == subject(item)
        };
        for (key, value) in fields.filter(|it| !is_said(&it.0)) {
            let value = match value {
                Value::Object(corners) => {
                    let corner = |(name, at): (&String, &Value)| format!("{name} {}", short(at));
                    corners.iter().map(corner).collect::<Vec<_>>().join(", ")
                }
                other => short(other),
            };
            let _ = write!(line, "  {}: {value}", harmless(key));
        }
        line
    };
    items.iter().zip(&names).map(line).collect()
}

/// A value on one line.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => harmless(text),
        Value::Array(items) if items.iter().any(|it| it.is_array() || it.is_object()) => {
            let shown: Vec<String> = items.iter().take(FIRST_NUMBERS).map(short).collect();
            let more = items.len().saturating_sub(FIRST_NUMBERS);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            format!("[{}]{more}", shown.join("; "))
        }
        Value::Array(items) => numbers(items),
        other => other.to_string(),
    }
}

/// Numbers beside each other; of many the first ones, and how many there are.
fn numbers(values: &[Value]) -> String {
    let shown = if values.len() > MOST_NUMBERS { FIRST_NUMBERS } else { values.len() };
    let text: Vec<String> = values.iter().take(shown).map(short).collect();
    match values.len() > shown {
        true => format!("{} .. ({} of them)", text.join(" "), values.len()),
        false => text.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, expected: &str) {
        assert_eq!(readable(answer.as_bytes()), expected);
    }

    #[test]
    fn labels_stand_beside_their_scores() {
        check(
            r#"[{"label":"star","score":0.99982458},{"label":"triangle","score":0.000162}]"#,
            "star      0.9998\ntriangle  0.0002",
        );
        check(r#"[[{"label":"POSITIVE","score":0.9}]]"#, "POSITIVE  0.9000");
        check(
            r#"[{"score":0.91,"label":"person","box":{"xmin":12,"ymin":30,"xmax":140,"ymax":310}}]"#,
            "person  0.9100  box: xmin 12, ymin 30, xmax 140, ymax 310",
        );
        let several = r#"[[{"label":"a","score":1.0},{"label":"b","score":0.0}],[{"label":"b","score":1.0}]]"#;
        check(several, "1:\n  a  1.0000\n  b  0.0000\n2: b  1.0000");
    }

    #[test]
    fn texts_and_numbers_are_shown_without_their_wrapping() {
        check(r#"{"text":"HELLO"}"#, "HELLO");
        check(r#"{"predictions":[[0.25],[0.75]]}"#, "1: 0.25\n2: 0.75");
        check(
            r#"{"predictions":[{"price":[76.6],"band":["luxury"]}]}"#,
            "price: 76.6\nband: luxury",
        );
        check(
            r#"{"model_name":"m","outputs":[{"name":"p","datatype":"FP32","shape":[1,2],"data":[0.1,0.9]}]}"#,
            "p 1 2: 0.1 0.9",
        );
        check("[2]", "2");
        check("[]", "nothing");
        check("1,2\n", "1,2");
        let long = format!("[{}]", ["1"; 17].join(","));
        check(&long, "1 1 1 1 1 1 1 1 .. (17 of them)");
        assert_eq!(readable(&[0xff, 0xfe]), "2 bytes that are no text");
    }

    #[test]
    fn nothing_in_an_answer_is_an_order_to_the_terminal() {
        check("{\"text\":\"\\u001b[2Jgone\"}", "\\u{1b}[2Jgone");
        assert_eq!(refusal(b"{\"error\":\"\\u001b\"}"), "\\u{1b}");
    }

    #[test]
    fn a_refusal_is_the_servers_own_sentence() {
        let told = |body: &str| refusal(body.as_bytes());
        assert_eq!(told(r#"{"error":"no such model","request_id":"1"}"#), "no such model");
        assert_eq!(told(r#"{"error":{"message":"too long","type":"x"}}"#), "too long");
        assert_eq!(told(r#"{"message":"slow down"}"#), "slow down");
        assert_eq!(told("<html>Bad Gateway</html>\n"), "<html>Bad Gateway</html>");
    }
}
