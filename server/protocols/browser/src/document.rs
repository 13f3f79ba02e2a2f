//! The document: an OpenAPI 3.1 description of every address, with an operation and schemas for each model. Its bytes
//! are granted before they are made.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use frontend::http::{
    Service,
    examples::{Example, MOST_BYTES, is_shown, needs_token},
    routes::Listed,
};
use inference::{error::Error, grant::Grant};
use serde_json::{Value, json};
use serving::ServedModel;

use crate::{
    model::{bound, describe, summary},
    names::Names,
    operation::{TOKEN, failures, operation},
};

/// Models that have operations and schemas. Those beyond, by name, are listed with name and version alone.
pub const MOST_MODELS: usize = 100;

/// Bytes that a route takes at most, while it is written and afterwards.
const OF_ROUTE: usize = 8 << 10;

/// Bytes that the operations on one model take while they are written, and not afterwards: mostly the values of the
/// body that works, each of which takes 32 bytes.
const WHILE_WRITTEN: usize = 64 * MOST_BYTES;

/// Bytes of a model that is listed with name and version alone, beside its name.
const OF_NAME: usize = 128;

/// The names of models, in order, and the first of them. What is not in memory is not loaded for this.
pub struct Models {
    /// Those that have operations.
    pub described: Vec<std::sync::Arc<ServedModel>>,
    /// Names and versions of the others.
    pub named: Vec<(std::sync::Arc<str>, u64)>,
}

/// The document, in pieces.
///
/// # Errors
/// [`Error::OutOfBudget`] and [`Error::NeverFits`] where its memory is not granted.
pub fn document(service: &Service, models: &Models, grant: &Grant) -> Result<Vec<Bytes>, Error> {
    let routes = &service.routes;
    grant.take(|_| routes.len() * OF_ROUTE + WHILE_WRITTEN)?;
    let of_models = routes.iter().filter(|it| it.route.of_model.is_some());
    let count = of_models.clone().count();
    let mut parts = Parts::of(service);
    for model in &models.described {
        grant.take(|_| bound(&model.signature, count))?;
        for listed in of_models.clone() {
            parts.add_call(service, listed, model);
        }
        let example = Example::of(service, model);
        parts.add_model(
            &model.signature.model,
            &summary(&model.signature, model.platform(), example),
        );
    }
    grant.take(|_| models.named.iter().map(|(name, _)| OF_NAME + 12 * name.len()).sum())?;
    for (name, version) in &models.named {
        item(&mut parts.models, &json!({"name": name, "version": version.to_string()}).to_string());
    }
    Ok(parts.join())
}

/// The texts that the document consists of.
#[derive(Default)]
struct Parts {
    paths: String,
    schemas: String,
    models: String,
    tags: String,
    responses: String,
    has_tokens: bool,
    names: Names,
    tagged: BTreeSet<String>,
}

impl Parts {
    /// What does not depend on models: the routes, what they share.
    fn of(service: &Service) -> Parts {
        let mut parts = Parts::default();
        let mut by_path: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
        let (mut schemas, mut responses) = (BTreeMap::new(), BTreeMap::new());
        for listed in &*service.routes {
            let route = &listed.route;
            by_path.entry(&route.path).or_default().push(listed);
            parts.tag(route.family.name);
            responses.extend(failures(listed));
            let of_bodies = route.takes.iter().chain(route.gives).filter_map(|it| it.schema);
            schemas.extend(of_bodies.chain([route.family.failure]).map(|it| (it.name, it.json)));
        }
        for (path, listed) in by_path {
            let mut operations = String::new();
            for it in listed {
                let needs = needs_token(service, it.need);
                parts.has_tokens |= needs;
                let name = parts.names.new_like(&it.route.name);
                let method = it.route.method.as_str().to_ascii_lowercase();
                entry(&mut operations, &method, &operation(it, &name, needs).to_string());
            }
            entry(&mut parts.paths, path, &format!("{{{operations}}}"));
        }
        for (name, schema) in schemas {
            entry(&mut parts.schemas, name, schema);
        }
        for (name, response) in responses {
            entry(&mut parts.responses, &name, &response.to_string());
        }
        parts
    }

    /// The operation on a model at that route, if there is one.
    fn add_call(&mut self, service: &Service, listed: &Listed, model: &ServedModel) {
        let needs = needs_token(service, listed.need);
        let signature = &model.signature;
        let found = describe(listed, signature, is_shown(model), needs, &mut self.names);
        let Some(found) = found else { return };
        let operation = format!("{{{}:{}}}", quoted(&found.method), found.operation);
        entry(&mut self.paths, &found.path, &operation);
        for (name, schema) in &found.schemas {
            entry(&mut self.schemas, name, &schema.to_string());
        }
    }

    fn add_model(&mut self, name: &str, summary: &Value) {
        self.tag(name);
        item(&mut self.models, &summary.to_string());
    }

    fn tag(&mut self, name: &str) {
        if self.tagged.insert(name.to_owned()) {
            item(&mut self.tags, &json!({ "name": name }).to_string());
        }
    }

    fn join(self) -> Vec<Bytes> {
        let version = env!("CARGO_PKG_VERSION");
        let info = json!({"title": "muster", "version": version, "description": DESCRIPTION});
        let schemes = match self.has_tokens {
            true => json!({ TOKEN: {"type": "http", "scheme": "bearer"} }),
            false => json!({}),
        };
        let head = format!(
            r#"{{"openapi":"3.1.0","info":{info},"servers":[{{"url":"/"}}],"tags":[{}],"paths":{{"#,
            self.tags
        );
        let components = format!(
            r#"}},"components":{{"securitySchemes":{schemes},"responses":{{{}}},"schemas":{{"#,
            self.responses
        );
        let muster = format!(r#"}}}},"x-muster":{{"version":{},"models":["#, quoted(version));
        let pieces =
            [head, self.paths, components, self.schemas, muster, self.models, "]}}".into()];
        pieces.map(Bytes::from).into()
    }
}

/// For the people who read it.
const DESCRIPTION: &str = "Every address of this server, and an operation for each model. At most 100 models have \
                           operations, by name; x-muster names all. ?model=<name> chooses, and may be repeated.";

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Adds `"key":value` to an object's text.
fn entry(text: &mut String, key: &str, value: &str) {
    item(text, &quoted(key));
    text.push(':');
    text.push_str(value);
}

/// Adds an item to a list's text.
fn item(text: &mut String, value: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(value);
}
