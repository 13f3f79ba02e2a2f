//! The shapes of requests, and what is wrong with one that does not fit: in the words of the service, all at once.
//! Members that no shape names are taken out, so that what is kept of a request is bounded. Pure.

use serde_json::Value;

use super::fault::Fault;
use crate::words::shortened;

/// What a value has to be.
#[derive(Debug)]
pub enum Shape {
    /// A text of so many characters.
    Text(usize, usize),
    /// A name of a job: letters, digits and single hyphens inside, at most this many.
    Name(usize),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A whole number within these bounds.
    Whole(i64, i64),
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// So many values of a shape.
    List(usize, usize, &'static Shape),
    /// At most so many texts by names, each at most so long.
    Map(usize, usize),
    /// These members.
    Structure(&'static [Member]),
}

/// A member of a structure.
#[derive(Debug)]
pub struct Member(pub &'static str, pub Need, pub Shape);

/// Has a member to be there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It has to.
    Required,
    /// It need not.
    Optional,
}

/// Characters of a value that a refusal repeats.
const SHOWN: usize = 100;
/// Problems that a refusal names.
const MOST_PROBLEMS: usize = 10;

impl Shape {
    /// Checks a request, and takes out what no shape names.
    ///
    /// # Errors
    /// Says what every value that does not fit has to be.
    pub fn check(&self, value: &mut Value) -> Result<(), Fault> {
        let mut problems = Vec::new();
        self.fit(value, "", &mut problems)?;
        match problems.len() {
            0 => Ok(()),
            number => {
                problems.truncate(MOST_PROBLEMS);
                let errors = if number == 1 { "error" } else { "errors" };
                let text = problems.join("; ");
                Err(Fault::invalid(format!("{number} validation {errors} detected: {text}")))
            }
        }
    }

    fn fit(&self, value: &mut Value, path: &str, problems: &mut Vec<String>) -> Result<(), Fault> {
        let mut must = |shown: &str, constraint: String| {
            let shown = shortened(shown, SHOWN);
            let text = "failed to satisfy constraint: Member must";
            problems.push(format!("Value '{shown}' at '{path}' {text} {constraint}"));
        };
        let range = |least: usize, most: usize, length: usize| match length {
            _ if length < least => Some(format!("have length greater than or equal to {least}")),
            _ if length > most => Some(format!("have length less than or equal to {most}")),
            _ => None,
        };
        match (self, value) {
            (Shape::Text(least, most), Value::String(text)) => {
                if let Some(wrong) = range(*least, *most, text.chars().count()) {
                    must(text, wrong);
                }
            }
            (Shape::Name(most), Value::String(text)) => {
                if let Some(wrong) = range(1, *most, text.chars().count()) {
                    must(text, wrong);
                } else if !is_name(text) {
                    let pattern = format!("[a-zA-Z0-9](-*[a-zA-Z0-9]){{0,{}}}", most - 1);
                    must(text, format!("satisfy regular expression pattern: {pattern}"));
                }
            }
            (Shape::Choice(choices), Value::String(text)) => {
                if !choices.contains(&text.as_str()) {
                    must(text, format!("satisfy enum value set: [{}]", choices.join(", ")));
                }
            }
            (Shape::Whole(least, most), Value::Number(number)) => match number.as_i64() {
                Some(it) if it < *least => {
                    must(&it.to_string(), format!("have value greater than or equal to {least}"));
                }
                Some(it) if it > *most => {
                    must(&it.to_string(), format!("have value less than or equal to {most}"));
                }
                Some(_) => {}
                None => return Err(another_type(path, "a whole number")),
            },
            (Shape::Number, Value::Number(_)) | (Shape::Flag, Value::Bool(_)) => {}
            (Shape::List(least, most, shape), Value::Array(values)) => {
                if let Some(wrong) = range(*least, *most, values.len()) {
                    must("[...]", wrong);
                } else {
                    for (index, value) in values.iter_mut().enumerate() {
                        let path = format!("{path}.{}.member", index + 1);
                        shape.fit(value, &path, problems)?;
                    }
                }
            }
            (Shape::Map(most, longest), Value::Object(values)) => {
                if let Some(wrong) = range(0, *most, values.len()) {
                    must("{...}", wrong);
                }
                for (name, value) in values.iter() {
                    let Value::String(text) = value else {
                        return Err(another_type(&format!("{path}.{name}"), "a text"));
                    };
                    if let Some(wrong) = range(0, *longest, text.len().max(name.len())) {
                        problems.push(format!("Value at '{path}.{}' failed to satisfy constraint: Member must {wrong}", shortened(name, SHOWN)));
                    }
                }
            }
            (Shape::Structure(members), Value::Object(values)) => {
                values.retain(|name, value| {
                    !value.is_null() && members.iter().any(|it| it.0 == name)
                });
                for Member(name, need, shape) in *members {
                    let path = match path.is_empty() {
                        true => camel(name),
                        false => format!("{path}.{}", camel(name)),
                    };
                    match values.get_mut(*name) {
                        Some(value) => shape.fit(value, &path, problems)?,
                        None if *need == Need::Required => problems.push(format!(
                            "Value at '{path}' failed to satisfy constraint: Member must not be null"
                        )),
                        None => {}
                    }
                }
            }
            (shape, _) => return Err(another_type(path, shape.kind())),
        }
        Ok(())
    }

    fn kind(&self) -> &'static str {
        match self {
            Shape::Text(..) | Shape::Name(_) | Shape::Choice(_) => "a text",
            Shape::Whole(..) => "a whole number",
            Shape::Number => "a number",
            Shape::Flag => "true or false",
            Shape::List(..) => "a list",
            Shape::Map(..) | Shape::Structure(_) => "an object",
        }
    }
}

fn another_type(path: &str, expected: &str) -> Fault {
    let path = if path.is_empty() { "the body" } else { path };
    Fault::unreadable(format!("{path}: expected {expected}"))
}

/// The member's name as refusals of the service have it.
fn camel(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |it| it.to_lowercase().chain(letters).collect())
}

/// Letters and digits, with hyphens only between them.
fn is_name(text: &str) -> bool {
    let inside = text.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
    inside && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::{
        Need::{Optional, Required},
        *,
    };
    use serde_json::json;

    const SHAPE: Shape = Shape::Structure(&[
        Member("JobName", Required, Shape::Name(8)),
        Member("Kind", Optional, Shape::Choice(&["A", "B"])),
        Member("Users", Optional, Shape::List(1, 2, &Shape::Whole(1, 3))),
        Member("Tags", Optional, Shape::Map(1, 4)),
        Member("Deep", Optional, Shape::Structure(&[Member("Text", Required, Shape::Text(2, 3))])),
    ]);

    fn refusal(mut value: Value) -> String {
        let reply = SHAPE.check(&mut value).unwrap_err().reply();
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        format!("{}: {}", body["__type"].as_str().unwrap(), body["Message"].as_str().unwrap())
    }

    #[test]
    fn what_fits_is_kept_and_what_no_shape_names_is_taken_out() {
        let mut value = json!({"JobName": "a-1", "Kind": null, "Users": [1, 3], "Other": [[0]],
                               "Deep": {"Text": "abc", "More": 1}, "Tags": {"k": "v"}});
        SHAPE.check(&mut value).unwrap();
        let expected =
            json!({"JobName": "a-1", "Users": [1, 3], "Deep": {"Text": "abc"}, "Tags": {"k": "v"}});
        assert_eq!(value, expected);
    }

    #[test]
    fn every_problem_is_named_in_the_words_of_the_service() {
        let text = "failed to satisfy constraint: Member must";
        assert_eq!(
            refusal(json!({"JobName": "-x", "Kind": "C", "Users": [0], "Deep": {}})),
            format!(
                "ValidationException: 4 validation errors detected: Value '-x' at 'jobName' {text} satisfy regular \
                 expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){{0,7}}; Value 'C' at 'kind' {text} satisfy enum value \
                 set: [A, B]; Value '0' at 'users.1.member' {text} have value greater than or equal to 1; Value at \
                 'deep.text' {text} not be null"
            )
        );
        for (value, expected) in [
            (json!({"JobName": "123456789"}), "'jobName' T have length less than or equal to 8"),
            (
                json!({"JobName": "a", "Users": []}),
                "'users' T have length greater than or equal to 1",
            ),
            (
                json!({"JobName": "a", "Users": [1, 2, 3]}),
                "'users' T have length less than or equal to 2",
            ),
            (json!({"JobName": "a", "Users": [4]}), "have value less than or equal to 3"),
            (
                json!({"JobName": "a", "Tags": {"k": "12345"}}),
                "'tags.k' T have length less than or equal to 4",
            ),
            (json!({}), "1 validation error detected: Value at 'jobName' T not be null"),
        ] {
            let said = refusal(value);
            assert!(said.contains(&expected.replace('T', text)), "{said}");
        }
    }

    #[test]
    fn a_value_of_another_type_cannot_be_read() {
        for (value, expected) in [
            (json!({"JobName": 1}), "SerializationException: jobName: expected a text"),
            (json!({"JobName": "a", "Users": [1.5]}), "users.1.member: expected a whole number"),
            (json!({"JobName": "a", "Tags": {"k": 1}}), "tags.k: expected a text"),
            (json!([1]), "the body: expected an object"),
        ] {
            let said = refusal(value);
            assert!(said.contains(expected), "{said}");
        }
    }
}
