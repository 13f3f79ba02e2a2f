//! Are two answers to one request the same? A setting that is faster and answers something else is not the better one.

use serde_json::Value;

/// Numbers with a point or an exponent may differ by this share of the larger one, unless a job says another: as much
/// as the order of a sum in 32-bit floats does. Whole numbers are ids and counts, and must be equal.
pub const TOLERANCE: f64 = 1e-3;

/// Members of an answer that name its model. Another form of a model has the name of its file.
const OF_MODEL: [&str; 2] = ["model_name", "model_version"];

/// Compares bodies: JSON and lines of JSON value by value, lines of numbers number by number, anything else byte by
/// byte. The `id` of an answer, which differs from one request to the next, counts as the same, and so does what the
/// answer says of its model.
///
/// # Errors
/// Says where the first difference is.
pub fn same(expected: &[u8], given: &[u8], tolerance: f64) -> Result<(), String> {
    if expected == given {
        return Ok(());
    }
    if let (Some(expected), Some(given)) = (json(expected), json(given))
        && expected.len() == given.len()
    {
        let mut pairs = expected.iter().zip(&given);
        return pairs.try_for_each(|(expected, given)| values(expected, given, "", tolerance));
    }
    match (words(expected), words(given)) {
        (Some(expected), Some(given)) if expected.len() == given.len() => {
            let wrong =
                expected.iter().zip(&given).position(|(a, b)| !same_number(a, b, tolerance));
            wrong.map_or(Ok(()), |at| Err(format!("number {at} is another")))
        }
        _ => Err(format!("other bytes, {} instead of {}", given.len(), expected.len())),
    }
}

/// The first of some tolerances with which such bodies are the same; `None` where the widest is too narrow.
pub fn needed(expected: &[u8], given: &[u8]) -> Option<f64> {
    let steps = [TOLERANCE, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
    steps.into_iter().find(|it| same(expected, given, *it).is_ok())
}

/// Is the body JSON or numbers, whose values are compared?
pub(crate) fn is_read(body: &[u8]) -> bool {
    json(body).is_some() || words(body).is_some()
}

/// The numbers of a body, as they are written; `None` of one that holds anything else.
fn words(body: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(body).ok()?;
    let words = text.split([',', '\n', '\r', ' ', '\t']).filter(|it| !it.is_empty());
    words.map(|it| it.parse::<f64>().ok().map(|_| it.to_owned())).collect()
}

/// One value of JSON, or one for each line.
fn json(body: &[u8]) -> Option<Vec<Value>> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Some(vec![value]);
    }
    let lines = body.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    lines.map(|it| serde_json::from_slice(it).ok()).collect()
}

fn values(expected: &Value, given: &Value, path: &str, tolerance: f64) -> Result<(), String> {
    match (expected, given) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            let names_model = |name: &str| path.is_empty() && OF_MODEL.contains(&name);
            let mut compared = a.iter().filter(|it| it.0 != "id" && !names_model(it.0));
            compared.try_for_each(|(name, value)| {
                let path = format!("{path}/{name}");
                b.get(name).map_or(Err(format!("{path} is not there")), |it| {
                    values(value, it, &path, tolerance)
                })
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs
                .try_for_each(|(index, (a, b))| values(a, b, &format!("{path}/{index}"), tolerance))
        }
        (Value::Number(a), Value::Number(b)) => {
            if same_number(&a.to_string(), &b.to_string(), tolerance) {
                Ok(())
            } else {
                Err(format!("{path} is {b} instead of {a}"))
            }
        }
        (a, b) if a == b => Ok(()),
        _ => Err(format!("{path} is another")),
    }
}

/// Are these texts of numbers the same number?
fn same_number(a: &str, b: &str, tolerance: f64) -> bool {
    let whole = |it: &str| it.trim_start_matches(['-', '+']).bytes().all(|it| it.is_ascii_digit());
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else { return a == b };
    let tolerance = match whole(a) && whole(b) {
        true => return a == b,
        false => tolerance * x.abs().max(y.abs()) + 1e-6,
    };
    (x - y).abs() <= tolerance || (x.is_nan() && y.is_nan()) || x == y
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_may_differ_as_sums_do_and_nothing_else_may() {
        let same = |a: &str, b: &str| super::same(a.as_bytes(), b.as_bytes(), super::TOLERANCE);
        assert_eq!(same(r#"{"y":[0.5,1],"id":"a"}"#, r#"{"y":[0.50001,1],"id":"b"}"#), Ok(()));
        assert_eq!(
            same(r#"{"y":[0.5]}"#, r#"{"y":[0.6]}"#).unwrap_err(),
            "/y/0 is 0.6 instead of 0.5"
        );
        assert_eq!(same(r#"["cat"]"#, r#"["dog"]"#).unwrap_err(), "/0 is another");
        assert!(same("[1]", "[1,2]").is_err());
        let named = |model: &str, y: f64| format!(r#"{{"model_name":"{model}","outputs":[{y}]}}"#);
        assert_eq!(same(&named("m", 0.5), &named("m_int8", 0.5)), Ok(()));
        assert!(same(&named("m", 0.5), &named("m_int8", 0.6)).is_err());
        assert!(same(r#"[{"model_name":"a"}]"#, r#"[{"model_name":"b"}]"#).is_err());
        // Ids and counts.
        assert!(same("[30521]", "[30522]").is_err() && same("1000\n", "1001\n").is_err());
        // Lines of JSON.
        assert_eq!(same("{\"s\":0.5}\n{\"s\":1}\n", "{\"s\":0.500001}\n{\"s\":1}\n"), Ok(()));
        assert!(same("{\"s\":0.5}\n{\"s\":1}\n", "{\"s\":0.5}\n{\"s\":2}\n").is_err());
        assert_eq!(same("0.25,1\n0.5,2\n", "0.250001,1\n0.5,2\n"), Ok(()));
        assert!(same("0.25,1\n", "0.35,1\n").is_err());
        assert!(same("a", "b").is_err());
        assert_eq!(same("\u{1}\u{2}", "\u{1}\u{2}"), Ok(()));
        // A form with fewer digits.
        let near = |tolerance| super::same(b"[0.5]", b"[0.51]", tolerance);
        assert!(near(0.05).is_ok() && near(0.01).is_err());
        let needed = |given: &[u8]| super::needed(b"[0.5, 1.5]", given);
        assert_eq!(needed(b"[0.51, 1.5]"), Some(0.02));
        assert_eq!((needed(b"[0.5, 9.5]"), needed(b"[\"a\"]")), (None, None));
    }
}
