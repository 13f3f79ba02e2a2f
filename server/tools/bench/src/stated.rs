//! What numbers are of, stated beside them: the machine, the versions, what was sent, and how times were divided.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::{Plan, Request, Target, fetch, page::number};

/// What numbers were measured with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stated {
    /// This machine, where the load comes from, in words.
    pub machine: String,
    /// Its processors that this process may use.
    pub cores: usize,
    /// The version of this program.
    pub muster: &'static str,
    /// What the server says that it is, where it says it.
    pub server: Option<Server>,
    /// What was sent, in words.
    pub payload: String,
    /// By what the times of the load were divided.
    pub time_scale: f64,
}

/// A server by its name and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Such as `muster` or `triton`.
    pub name: String,
    /// Such as `2.62.0`.
    pub version: String,
}

impl Stated {
    /// The names of columns that state it in each line of a table, in the order of [`Stated::values`].
    pub const COLUMNS: [&str; 6] = ["on", "cores", "muster", "server", "payload", "time_scale"];

    /// Of numbers from this machine.
    pub fn new(server: Option<Server>, payload: String, time_scale: f64) -> Stated {
        Stated {
            machine: machine::in_words(),
            cores: machine::Machine::read().cpus,
            muster: env!("CARGO_PKG_VERSION"),
            server,
            payload,
            time_scale,
        }
    }

    /// Of a plan.
    pub(crate) fn of(plan: &Plan, server: Option<Server>, time_scale: f64) -> Stated {
        let bodies = plan.requests.iter().map(|it| (it.body_len(), it.content_type()));
        Stated::new(server, bodies_in_words(bodies), time_scale)
    }

    /// The values of its columns.
    pub fn values(&self) -> Vec<String> {
        let Stated { machine, cores, muster, server, payload, time_scale } = self;
        let server = server.as_ref().map_or_else(String::new, Server::to_string);
        let (cores, scale) = (cores.to_string(), time_scale.to_string());
        vec![machine.clone(), cores, (*muster).to_owned(), server, payload.clone(), scale]
    }
}

impl fmt::Display for Stated {
    /// Some sentences.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stated { machine, muster, server, payload, time_scale, .. } = self;
        write!(f, "muster {muster}, {machine}.")?;
        if let Some(server) = server {
            write!(f, " Server: {server}.")?;
        }
        write!(f, " Payload: {payload}.")?;
        match *time_scale {
            1.0 => Ok(()),
            scale => write!(f, " Times of loads were divided by {scale}."),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// How many bodies there are, of how many bytes and which types, in words.
pub fn bodies_in_words<'a>(bodies: impl Iterator<Item = (usize, &'a str)>) -> String {
    let (sizes, mut types): (Vec<usize>, Vec<&str>) = bodies.unzip();
    let (least, most) =
        (sizes.iter().min().copied().unwrap_or(0), sizes.iter().max().copied().unwrap_or(0));
    types.sort_unstable();
    types.dedup();
    types.retain(|it| !it.is_empty());
    let count = match sizes.len() {
        1 => "1 body".to_owned(),
        count => format!("{count} bodies"),
    };
    let [least, most] = [least, most].map(|it| number(it as f64));
    let size = if least == most { most } else { format!("{least} to {most}") };
    let types = if types.is_empty() { String::new() } else { format!(" ({})", types.join(", ")) };
    format!("{count} of {size} bytes{types}")
}

/// What a server says of itself at `/v2`, as servers of the KServe protocol do. `None` where it says nothing. Blocks
/// for ten seconds at most where it does not answer.
pub fn server_of(target: &Target, headers: &[(String, String)]) -> Option<Server> {
    let metadata: Value = serde_json::from_slice(&fetch::get(target, "/v2", headers).ok()?).ok()?;
    let text = |name: &str| metadata.get(name)?.as_str().map(str::to_owned);
    Some(Server { name: text("name")?, version: text("version")? })
}

impl Request {
    /// Its content type; empty where it says none.
    fn content_type(&self) -> &str {
        if self.is_grpc() {
            return "application/grpc";
        }
        let mut headers = self.headers();
        headers.find(|it| it.0.eq_ignore_ascii_case("content-type")).map_or("", |it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_told_by_their_number_their_sizes_and_their_types() {
        let words = |of: &[(usize, &'static str)]| bodies_in_words(of.iter().copied());
        assert_eq!(words(&[(16, "text/csv")]), "1 body of 16 bytes (text/csv)");
        let several = [(16, "text/csv"), (3000, "application/json"), (20, "text/csv")];
        let expected = "3 bodies of 16 to 3,000 bytes (application/json, text/csv)";
        assert_eq!(words(&several), expected);
        assert_eq!(words(&[(0, "")]), "1 body of 0 bytes");
    }

    #[test]
    fn it_is_told_in_sentences_and_in_columns() {
        let server = Server { name: "triton".to_owned(), version: "2.62.0".to_owned() };
        let stated = Stated::new(Some(server), "1 body".to_owned(), 4.0);
        let text = stated.to_string();
        let version = env!("CARGO_PKG_VERSION");
        assert!(text.starts_with(&format!("muster {version}, {}", stated.cores)), "{text}");
        let end = " Server: triton 2.62.0. Payload: 1 body. Times of loads were divided by 4.";
        assert!(text.ends_with(end), "{text}");
        let values = stated.values();
        assert_eq!(values.len(), Stated::COLUMNS.len());
        assert_eq!(values[2..], [version, "triton 2.62.0", "1 body", "4"]);
    }
}
