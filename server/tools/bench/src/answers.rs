//! Are two answers to one request the same? A setting that is faster and answers something else is not the better one.

use serde_json::Value;

/// Numbers with a point or an exponent may differ by this share of the larger one, unless a job says another: as much
/// as the order of a sum in 32-bit floats does. Whole numbers are ids and counts, and must be equal.
pub const TOLERANCE: f64 = 1e-3;

/// Members of an answer that say whose it is. The id differs from one request to the next, and another form of a model
/// has the name of its file.
const MAY_DIFFER: [&str; 3] = ["id", "model_name", "model_version"];

/// How an answer differs from the one that was expected: where it does first, and what is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub(crate) String);

/// Compares bodies: JSON and lines of JSON value by value, lines of numbers number by number, anything else byte by
/// byte. The `id` of an answer, which differs from one request to the next, counts as the same, and so does what the
/// answer says of its model.
///
/// # Errors
/// Says where the first difference is.
pub fn same(expected: &[u8], given: &[u8], tolerance: f64) -> Result<(), Mismatch> {
    if expected == given {
        return Ok(());
    }
    let (tolerance, mut found) = (Tolerance::each(tolerance), Compared::default());
    match (json(expected), json(given), words(expected), words(given)) {
        (Some(a), Some(b), ..) if a.len() == b.len() => {
            a.iter()
                .zip(&b)
                .for_each(|(a, b)| compare(a, b, &mut String::new(), tolerance, &mut found));
        }
        (.., Some(a), Some(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(&b).enumerate() {
                found.count(same_number(a, b, tolerance), || format!("number {at} is another"));
            }
        }
        _ => found.other(|| other_bytes(expected, given)),
    }
    found.first.map_or(Ok(()), |first| Err(Mismatch(first)))
}

/// What is said of bodies that cannot be compared by their values.
pub(crate) fn other_bytes(expected: &[u8], given: &[u8]) -> String {
    format!("other bytes, {} instead of {}", given.len(), expected.len())
}

/// By how much numbers may differ that are not whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    /// A share of the larger one.
    share: f64,
    /// Or this, where it is more.
    floor: f64,
    /// Are those, too, that are written without a point? They are of a tensor of floats.
    are_floats: bool,
}

const FLOOR: f64 = 1e-6;

impl Tolerance {
    /// Of numbers that are nothing to one another.
    pub(crate) fn each(share: f64) -> Tolerance {
        Tolerance { share, floor: FLOOR, are_floats: false }
    }

    /// Of the numbers of one output: they may differ, too, by that share of the largest. A sum of large terms that is
    /// small is right to no more digits than they are.
    pub(crate) fn of_output(share: f64, output: &Value, are_floats: bool) -> Tolerance {
        Tolerance { are_floats, ..Tolerance::beside(share, largest(output, are_floats)) }
    }

    /// The same where the largest is known.
    pub(crate) fn beside(share: f64, largest: f64) -> Tolerance {
        Tolerance { share, floor: FLOOR.max(share * largest), are_floats: false }
    }

    /// Are these numbers the same, if they need not be equal? An infinite one is near to nothing else.
    pub(crate) fn allows(self, x: f64, y: f64) -> bool {
        let most = self.floor.max(self.share * x.abs().max(y.abs()));
        let are_near = x.is_finite() && y.is_finite() && (x - y).abs() <= most;
        are_near || (x.is_nan() && y.is_nan()) || x == y
    }
}

/// The largest magnitude of the numbers in a value that are not whole.
fn largest(value: &Value, are_floats: bool) -> f64 {
    let of = |it: &Value| largest(it, are_floats);
    match value {
        Value::Array(values) => values.iter().map(of).fold(0.0, f64::max),
        Value::Object(members) => members.values().map(of).fold(0.0, f64::max),
        Value::Number(number) if are_floats || number.is_f64() => {
            number.as_f64().map_or(0.0, f64::abs)
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => 0.0,
    }
}

/// How two answers, or two outputs, differ.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Values that were compared.
    pub(crate) values: usize,
    /// Those of them that differ.
    pub(crate) differing: usize,
    /// Where the first one is, and what it is.
    pub(crate) first: Option<String>,
    /// Is one of those that differ a number that need not be equal?
    pub(crate) has_fraction: bool,
}

impl Compared {
    /// Counts a value; where it differs, `first` says how.
    pub(crate) fn count(&mut self, is_same: bool, first: impl FnOnce() -> String) {
        self.values += 1;
        if !is_same {
            self.differing += 1;
            self.first.get_or_insert_with(first);
        }
    }

    /// What is there is not to be compared.
    fn other(&mut self, first: impl FnOnce() -> String) {
        self.count(false, first);
    }
}

/// The first of some tolerances with which such bodies are the same; `None` where the widest is too narrow.
pub fn needed(expected: &[u8], given: &[u8]) -> Option<f64> {
    needed_by(|it| same(expected, given, it).is_ok())
}

/// The first of some tolerances that is enough.
pub(crate) fn needed_by(is_enough: impl Fn(f64) -> bool) -> Option<f64> {
    let steps = [TOLERANCE, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
    steps.into_iter().find(|it| is_enough(*it))
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

/// Compares two values of JSON; `path` is where they stand, and is left as it was.
pub(crate) fn compare(
    expected: &Value,
    given: &Value,
    path: &mut String,
    tolerance: Tolerance,
    found: &mut Compared,
) {
    let end = path.len();
    match (expected, given) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            let is_whole_answer = path.is_empty();
            let may_differ = |name: &str| is_whole_answer && MAY_DIFFER.contains(&name);
            for (name, value) in a.iter().filter(|it| !may_differ(it.0)) {
                path.push('/');
                path.push_str(name);
                match b.get(name) {
                    Some(given) => compare(value, given, path, tolerance, found),
                    None => found.other(|| format!("{path} is not there")),
                }
                path.truncate(end);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                path.push_str(&format!("/{index}"));
                compare(a, b, path, tolerance, found);
                path.truncate(end);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let has_fraction = tolerance.are_floats || a.is_f64() || b.is_f64();
            let near = a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| tolerance.allows(a, b));
            let is_same = a == b || has_fraction && near;
            found.has_fraction |= has_fraction && !is_same;
            found.count(is_same, || format!("{path} is {b} instead of {a}"));
        }
        (a, b) => found.count(a == b, || format!("{path} is another")),
    }
}

/// Are these texts of numbers the same number?
fn same_number(a: &str, b: &str, tolerance: Tolerance) -> bool {
    let whole = |it: &str| it.trim_start_matches(['-', '+']).bytes().all(|it| it.is_ascii_digit());
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else { return a == b };
    match whole(a) && whole(b) {
        true => a == b,
        false => tolerance.allows(x, y),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_may_differ_as_sums_do_and_nothing_else_may() {
        let same = |a: &str, b: &str| super::same(a.as_bytes(), b.as_bytes(), super::TOLERANCE);
        assert_eq!(same(r#"{"y":[0.5,1],"id":"a"}"#, r#"{"y":[0.50001,1],"id":"b"}"#), Ok(()));
        assert_eq!(
            same(r#"{"y":[0.5]}"#, r#"{"y":[0.6]}"#).unwrap_err().to_string(),
            "/y/0 is 0.6 instead of 0.5"
        );
        assert_eq!(same(r#"["cat"]"#, r#"["dog"]"#).unwrap_err().to_string(), "/0 is another");
        assert!(same("[1]", "[1,2]").is_err());
        let named = |model: &str, y: f64| format!(r#"{{"model_name":"{model}","outputs":[{y}]}}"#);
        assert_eq!(same(&named("m", 0.5), &named("m_int8", 0.5)), Ok(()));
        assert!(same(&named("m", 0.5), &named("m_int8", 0.6)).is_err());
        assert!(same(r#"[{"model_name":"a"}]"#, r#"[{"model_name":"b"}]"#).is_err());
        assert!(same(r#"[{"id":3,"score":0.9}]"#, r#"[{"id":7,"score":0.9}]"#).is_err());
        assert!(same(r#"{"id":"a","x":1}"#, r#"{"id":"a","y":1}"#).is_err());
        // Ids and counts.
        assert!(same("[30521]", "[30522]").is_err() && same("1000\n", "1001\n").is_err());
        // Lines of JSON.
        assert_eq!(same("{\"s\":0.5}\n{\"s\":1}\n", "{\"s\":0.500001}\n{\"s\":1}\n"), Ok(()));
        assert!(same("{\"s\":0.5}\n{\"s\":1}\n", "{\"s\":0.5}\n{\"s\":2}\n").is_err());
        assert_eq!(same("0.25,1\n0.5,2\n", "0.250001,1\n0.5,2\n"), Ok(()));
        assert!(same("0.25,1\n", "0.35,1\n").is_err());
        assert!(same("0.25\n", "inf\n").is_err() && same("-inf\n", "inf\n").is_err());
        assert_eq!(same("inf 0.5", "inf 0.50001"), Ok(()));
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
