//! What a variable's text says: one text → the texts of settings.

use super::variables::VERTEX_PREDICTION;
use crate::{
    flags::FlagTable,
    value::{self, Parse},
};

/// What the variables of one family of containers mean.
pub(super) struct Family {
    /// For one setting the first row that says something counts.
    pub(super) means: &'static [(&'static str, Means)],
    /// Known, and they do nothing; set, they get one line together.
    pub(super) without_effect: &'static [&'static str],
}

/// What a variable's text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// The setting's own text.
    Same(&'static str),
    /// The largest payload in MiB, for these two settings: the limit in bytes, and the number itself.
    Payload(&'static str, &'static str),
    /// The largest body in bytes, for these two settings: the limit, and as many whole MiB, at least one.
    Length(&'static str, &'static str),
    /// A time in seconds, for a setting in milliseconds; 0 or less is no limit.
    Seconds(&'static str),
    /// The same, and the longer of it and that of another variable counts.
    LongerSeconds(&'static str, &'static str),
    /// A time in seconds, for a setting in seconds; 0 or less is no limit.
    WholeSeconds(&'static str),
    /// A time in milliseconds, for a setting in microseconds.
    Milliseconds(&'static str),
    /// A size, of which 1 is the default of its container and says nothing.
    AboveOne(&'static str),
    /// A number of batches, for a setting that counts requests: as many times the batch that this variable tells.
    Batches(&'static str, &'static str),
    /// A number of servers: as many sessions, and as many times the instances that another variable tells.
    Servers { sessions: &'static str, instances: &'static str, each: &'static str },
    /// Instances of one server: as many times the servers that another variable tells.
    OfServers(&'static str, &'static str),
    /// A switch, and what its container does where it is on and nobody says more: a batch of so many rows, which waits
    /// for so many microseconds.
    Batching { switch: &'static str, batch: &'static str, delay: &'static str },
    /// One number for each level of OpenMP's nesting; the outermost counts.
    FirstOfList(&'static str),
    /// A level of Python's logging, for `--log-*`.
    PythonLevel,
    /// What Vertex AI has started the process for; a switch that is on if that is to predict.
    VertexMode(&'static str),
    /// Nothing that changes anything; it is written into the log.
    Noted,
}

/// The default batch size of the container of TensorFlow Serving, and how long a batch waits for more requests.
const TENSORFLOW_BATCH: u32 = 8;
const TENSORFLOW_DELAY_US: u32 = 1000;

impl Means {
    /// The settings and their texts; none where the variable says nothing, and what is allowed where it
    /// cannot be read. `other` reads another variable.
    pub(super) fn settings(
        self,
        text: &str,
        other: &dyn Fn(&str) -> Option<String>,
    ) -> Parse<Vec<(&'static str, String)>> {
        match self {
            Means::Same(name) => Ok(vec![(name, text.to_owned())]),
            Means::Payload(limit, told) => match text.parse::<u32>() {
                // "No limit" to the platform; our own default stays as the guard.
                Ok(0) => Ok(vec![]),
                Ok(size) => Ok(vec![(limit, format!("{size}MiB")), (told, size.to_string())]),
                Err(_) => Err("a whole number of megabytes, 0 for no limit".to_owned()),
            },
            Means::Length(limit, told) => {
                // What is no number the limit refuses.
                let whole = text.parse::<u64>().ok().map(|it| (it >> 20).max(1).to_string());
                let told = whole.map(|it| (told, it));
                Ok(std::iter::once((limit, text.to_owned())).chain(told).collect())
            }
            Means::Seconds(name) => {
                let time = seconds(text)?;
                Ok(time.map(|it| (name, milliseconds(it))).into_iter().collect())
            }
            Means::LongerSeconds(name, variable) => {
                let own = seconds(text)?;
                let others = other(variable).and_then(|it| seconds(&it).ok().flatten());
                let longer = own.into_iter().chain(others).max();
                Ok(longer.map(|it| (name, milliseconds(it))).into_iter().collect())
            }
            Means::WholeSeconds(name) => {
                Ok(seconds(text)?.map(|it| (name, it.to_string())).into_iter().collect())
            }
            Means::Milliseconds(name) => match text.parse::<u32>() {
                Ok(time) => Ok(vec![(name, (u64::from(time) * 1000).to_string())]),
                Err(_) => Err("a whole number of milliseconds".to_owned()),
            },
            Means::AboveOne(name) => match text.parse::<u32>() {
                Ok(0 | 1) => Ok(vec![]),
                Ok(size) => Ok(vec![(name, size.to_string())]),
                Err(_) => Err("a whole number from 1".to_owned()),
            },
            Means::Batches(name, variable) => {
                let batches: u32 = text.parse().map_err(|_| "a whole number from 0".to_owned())?;
                let batch = other(variable).and_then(|it| it.parse().ok());
                let batch = batch.unwrap_or(TENSORFLOW_BATCH).max(1);
                Ok(vec![(name, batches.saturating_mul(batch).to_string())])
            }
            Means::Servers { sessions, instances, each } => {
                let servers = count(text)?;
                // The other one has a row of its own, which says how many instances there are in all.
                let alone = other(each).and_then(|it| count(&it).ok()).is_none();
                let of_instances = alone.then(|| (instances, servers.to_string()));
                let of_sessions = (1 < servers).then(|| (sessions, servers.to_string()));
                Ok(of_instances.into_iter().chain(of_sessions).collect())
            }
            Means::OfServers(instances, variable) => {
                let servers = other(variable).and_then(|it| count(&it).ok()).unwrap_or(1);
                Ok(vec![(instances, count(text)?.saturating_mul(servers).to_string())])
            }
            Means::Batching { switch, batch, delay } => {
                let is_on = value::boolean(text)?;
                let defaults = [
                    (batch, TENSORFLOW_BATCH.to_string()),
                    (delay, TENSORFLOW_DELAY_US.to_string()),
                ];
                let defaults = defaults.into_iter().filter(|_| is_on);
                Ok([(switch, text.to_owned())].into_iter().chain(defaults).collect())
            }
            Means::FirstOfList(name) => {
                let first = text.split(',').next().map(|it| (name, it.trim().to_owned()));
                Ok(first.into_iter().collect())
            }
            Means::VertexMode(name) => {
                let predicts = text == VERTEX_PREDICTION;
                Ok(predicts.then(|| (name, "true".to_owned())).into_iter().collect())
            }
            Means::PythonLevel => {
                let level = python_level(text)
                    .ok_or_else(|| "10, 20, 30, 40 or 50, or a name as info".to_owned())?;
                let switches = [
                    (level <= 10, "log-verbose", "1"),
                    (level > 20, "log-info", "false"),
                    (level > 30, "log-warning", "false"),
                    (level > 40, "log-error", "false"),
                ];
                let set = switches.into_iter().filter(|it| it.0);
                Ok(set.map(|(_, name, value)| (name, value.to_owned())).collect())
            }
            Means::Noted => Ok(vec![]),
        }
    }

    /// Is there a setting behind it that does something, or is it written into the log?
    pub(super) fn has_effect(self, flags: &FlagTable) -> bool {
        self == Means::Noted || self.names().iter().any(|it| flags.flag(it).is_some())
    }

    /// The settings that it may be about.
    pub(super) fn names(self) -> Vec<&'static str> {
        match self {
            Means::Same(name)
            | Means::Seconds(name)
            | Means::LongerSeconds(name, _)
            | Means::WholeSeconds(name)
            | Means::Milliseconds(name)
            | Means::AboveOne(name)
            | Means::Batches(name, _)
            | Means::OfServers(name, _)
            | Means::FirstOfList(name)
            | Means::VertexMode(name) => vec![name],
            Means::Servers { sessions, instances, .. } => vec![sessions, instances],
            Means::Payload(limit, told) | Means::Length(limit, told) => vec![limit, told],
            Means::Batching { switch, batch, delay } => vec![switch, batch, delay],
            Means::PythonLevel => vec!["log-verbose", "log-info", "log-warning", "log-error"],
            Means::Noted => vec![],
        }
    }
}

fn count(text: &str) -> Parse<u32> {
    let count = text.parse().ok().filter(|it| 0 < *it);
    count.ok_or_else(|| "a whole number from 1".to_owned())
}

/// "No limit" in most of these containers is 0 or less: `None`.
fn seconds(text: &str) -> Parse<Option<i64>> {
    let seconds: i64 = text.parse().map_err(|_| "a whole number of seconds".to_owned())?;
    Ok(Some(seconds).filter(|it| 0 < *it))
}

fn milliseconds(seconds: i64) -> String {
    seconds.saturating_mul(1000).to_string()
}

/// A level by number or name.
fn python_level(text: &str) -> Option<u32> {
    match &*text.to_ascii_lowercase() {
        "debug" => Some(10),
        "info" => Some(20),
        "warning" | "warn" => Some(30),
        "error" => Some(40),
        "critical" | "fatal" => Some(50),
        other => other.parse().ok(),
    }
}
