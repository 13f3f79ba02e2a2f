//! The routes that protocols list, compared with those that they take: what is listed is what a request gets.

use std::sync::Arc;

use hyper::HeaderMap;

use super::{
    address::RequestHead,
    protocol::Protocol,
    routes::{Listed, Route},
};
use inference::access::Need;

/// The routes of these protocols, and the access that each needs, as the protocols themselves see a request there.
pub fn listed<P: Protocol>(protocols: &P) -> Arc<[Listed]> {
    let routes = protocols.routes().into_iter();
    routes.filter_map(|route| Some(Listed { need: need(protocols, &route)?, route })).collect()
}

/// The routes that these protocols list and do not take, for tests: there are none.
pub fn misled<P: Protocol>(protocols: &P) -> Vec<String> {
    let mut routes = protocols.routes();
    routes.retain(|it| need(protocols, it).is_none());
    routes.iter().map(|it| format!("{} {}", it.method, it.path)).collect()
}

/// The access that a request there needs; `None` where no protocol takes it.
fn need<P: Protocol>(protocols: &P, route: &Route) -> Option<Need> {
    let (path, headers) = (sample(route), HeaderMap::new());
    let operation = protocols.route(&RequestHead::new(&route.method, &path, &headers))?.ok()?;
    Some(protocols.need(&operation, &route.method))
}

/// The address with a word in the place of each variable one.
pub fn sample(route: &Route) -> String {
    route.variables().fold(route.path.to_string(), |path, word| {
        let value = match word {
            "version" => "1",
            "task" => "text-classification",
            other => other,
        };
        path.replace(&format!("{{{word}}}"), value)
    })
}
