//! Routes as operations of OpenAPI: their words, bodies and failures. Pure.

use std::collections::BTreeMap;

use frontend::http::routes::{Content, Listed, Route};
use inference::{access::Category, error::Kind};
use serde_json::{Map, Value, json};

use crate::names::plain;

/// An operation for every model, whose name is a word of the address.
///
/// `name` is its own; `needs_token`: is it refused without a token?
pub fn operation(listed: &Listed, name: &str, needs_token: bool) -> Value {
    let Listed { route, .. } = listed;
    let mut parameters: Vec<Value> = route
        .variables()
        .map(|it| json!({"name": it, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let header = |&(name, what): &(&str, &str)| {
        let schema = json!({"type": "string"});
        json!({"name": name, "in": "header", "description": what, "schema": schema})
    };
    parameters.extend(route.headers.iter().map(header));
    let mut operation = common(listed, name, route.family.name, needs_token);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    if !route.takes.is_empty() {
        let is_needed = listed.need.category() == Category::Inference;
        let body = json!({"required": is_needed, "content": contents(route.takes)});
        operation.insert("requestBody".to_owned(), body);
    }
    let reply = match route.gives {
        [] => json!({"description": "Yes; the body says nothing more"}),
        gives => json!({"description": "The answer", "content": contents(gives)}),
    };
    operation.insert("responses".to_owned(), responses(listed, reply));
    operation.into()
}

/// What operations have in common: all but bodies.
pub fn common(listed: &Listed, name: &str, tag: &str, needs_token: bool) -> Map<String, Value> {
    let need = listed.need;
    let access = json!({"category": need.category().name(), "changes": need.changes()});
    let mut operation = Map::from_iter([
        ("operationId".to_owned(), name.into()),
        ("summary".to_owned(), listed.route.summary.into()),
        ("tags".to_owned(), json!([tag])),
        ("x-access".to_owned(), access),
    ]);
    if needs_token {
        operation.insert("security".to_owned(), json!([{ TOKEN: [] }]));
    }
    operation
}

/// The name of the scheme by which clients show a token.
pub const TOKEN: &str = "token";

/// The reply of status 200, and the failures.
pub fn responses(listed: &Listed, reply: Value) -> Value {
    let mut all = Map::from_iter([("200".to_owned(), reply)]);
    for status in statuses(listed).into_keys() {
        let name = failure_name(&listed.route, status);
        all.insert(status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}));
    }
    all.into()
}

/// The failures of a route as components, by their names.
pub fn failures(listed: &Listed) -> impl Iterator<Item = (String, Value)> {
    let failure = &listed.route.family.failure;
    statuses(listed).into_iter().map(|(status, reasons)| {
        let content = json!({"application/json": {"schema": reference(failure.name)}});
        let reply = json!({"description": reasons.join("; or "), "content": content});
        (failure_name(&listed.route, status), reply)
    })
}

fn failure_name(route: &Route, status: u16) -> String {
    format!("{}_{status}", plain(route.family.name))
}

/// The statuses of its failures, and the reasons for each.
fn statuses(listed: &Listed) -> BTreeMap<u16, Vec<&'static str>> {
    let Listed { route, need } = listed;
    let is_inference = need.category() == Category::Inference;
    let takes = !route.takes.is_empty();
    let names = route.variables().next().is_some();
    let kinds = [
        (true, Kind::Unauthenticated, "the token is missing or unknown"),
        (true, Kind::Forbidden, "the client may not ask for this"),
        (takes, Kind::InvalidArgument, "the request is wrong, as the text says"),
        (takes || names, Kind::NotFound, "there is no such model, version or other thing"),
        (takes, Kind::TooLarge, "the body is too large"),
        (is_inference, Kind::UnsupportedMediaType, "the body is of a type that is not taken"),
        (is_inference, Kind::Overloaded, "too many requests wait; try again later"),
        (true, Kind::Unavailable, "the server or the model does not serve now"),
        (is_inference, Kind::DeadlineExceeded, "the time for the answer is over"),
        (is_inference, Kind::Internal, "the model or the server has failed"),
    ];
    let mut found: BTreeMap<u16, Vec<&'static str>> = BTreeMap::new();
    for (_, kind, reason) in kinds.into_iter().filter(|it| it.0) {
        found.entry((route.family.status)(kind).as_u16()).or_default().push(reason);
    }
    found
}

/// A reference to a schema of that name.
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The schema of each type of body.
pub fn contents(contents: &[Content]) -> Value {
    let schema = |it: &Content| match it.schema {
        Some(schema) => reference(schema.name),
        None if it.media_type.starts_with("text/") => json!({"type": "string"}),
        None => json!({"type": "string", "format": "binary"}),
    };
    let all = contents.iter().map(|it| (it.media_type.to_owned(), json!({"schema": schema(it)})));
    all.collect::<Map<_, _>>().into()
}
