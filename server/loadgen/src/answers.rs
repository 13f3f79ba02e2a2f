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
    compare(expected, given, |_| Tolerance { share: tolerance, floor: FLOOR })
}

/// The same of answers of models alone: numbers may differ, too, by that share of the largest of the answer. A sum of
/// large terms that is small is right to no more digits than they are.
pub(crate) fn same_outputs(expected: &[u8], given: &[u8], tolerance: f64) -> Result<(), String> {
    compare(expected, given, |values| {
        let largest = values.iter().map(largest).fold(0.0, f64::max);
        Tolerance { share: tolerance, floor: FLOOR.max(tolerance * largest) }
    })
}

/// By how much numbers may differ that are not whole.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    /// A share of the larger one.
    share: f64,
    /// And this.
    floor: f64,
}

const FLOOR: f64 = 1e-6;

/// The largest magnitude of the numbers in a value that are not whole.
fn largest(value: &Value) -> f64 {
    match value {
        Value::Array(values) => values.iter().map(largest).fold(0.0, f64::max),
        Value::Object(members) => members.values().map(largest).fold(0.0, f64::max),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or(0.0, f64::abs),
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => 0.0,
    }
}

fn compare(
    expected: &[u8],
    given: &[u8],
    tolerance: impl Fn(&[Value]) -> Tolerance,
) -> Result<(), String> {
    if expected == given {
        return Ok(());
    }
    if let (Some(expected), Some(given)) = (json(expected), json(given))
        && expected.len() == given.len()
    {
        let tolerance = tolerance(&expected);
        let mut pairs = expected.iter().zip(&given);
        return pairs.try_for_each(|(expected, given)| values(expected, given, "", tolerance));
    }
    match (words(expected), words(given)) {
        (Some(expected), Some(given)) if expected.len() == given.len() => {
            let tolerance = tolerance(&[]);
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

fn values(expected: &Value, given: &Value, path: &str, tolerance: Tolerance) -> Result<(), String> {
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
fn same_number(a: &str, b: &str, tolerance: Tolerance) -> bool {
    let whole = |it: &str| it.trim_start_matches(['-', '+']).bytes().all(|it| it.is_ascii_digit());
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else { return a == b };
    let tolerance = match whole(a) && whole(b) {
        true => return a == b,
        false => tolerance.share * x.abs().max(y.abs()) + tolerance.floor,
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
        // What is small beside the largest is right to fewer digits, where a model alone has answered.
        let outputs = |b: &str| super::same_outputs(b"[100.5,0.5]", b.as_bytes(), 1e-3).is_ok();
        assert!(outputs("[100.5,0.55]") && !outputs("[100.5,0.75]"));
        assert!(same("[100.5,0.5]", "[100.5,0.55]").is_err());
        // A form with fewer digits.
        let near = |tolerance| super::same(b"[0.5]", b"[0.51]", tolerance);
        assert!(near(0.05).is_ok() && near(0.01).is_err());
        let needed = |given: &[u8]| super::needed(b"[0.5, 1.5]", given);
        assert_eq!(needed(b"[0.51, 1.5]"), Some(0.02));
        assert_eq!((needed(b"[0.5, 9.5]"), needed(b"[\"a\"]")), (None, None));
    }
}
