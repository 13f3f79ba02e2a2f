//! What instances of all models share: `--rate-limit` and `--rate-limit-resource`.

use crate::ratelimit::Supply;
use configuration::{Flag, Sources, value::Parse};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("rate-limit", "off", "off, or execution_count: run instances only when the resources are free that their configuration names").named("MODE"),
    Flag::many("rate-limit-resource", "<name>:<count>[:<device>]: how many there are of a resource; else as many as one instance needs at most").named("NAME:COUNT"),
];

/// How many there are of resources, in the order given: a later one beats an earlier one. `None` where rate limiting
/// is off.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<Vec<Supply>> {
    let resources = sources.read_all("rate-limit-resource", resource, problems);
    let is_on = sources.read("rate-limit", mode, problems).unwrap_or(false);
    is_on.then_some(resources)
}

fn mode(text: &str) -> Parse<bool> {
    match text {
        "off" => Ok(false),
        "execution_count" => Ok(true),
        _ => Err("off or execution_count".to_owned()),
    }
}

/// `name:count`, `name:count:device`.
fn resource(text: &str) -> Parse<Supply> {
    let expected = || "name:count or name:count:device, as R1:10 or R1:10:0".to_owned();
    let mut parts = text.split(':');
    let (name, count, device) = (parts.next(), parts.next(), parts.next());
    let (Some(name), Some(count), None) = (name, count, parts.next()) else {
        return Err(expected());
    };
    let device = device.map(str::parse).transpose().map_err(|_| expected())?;
    match count.parse() {
        Ok(count) if !name.is_empty() => Ok(Supply { name: name.to_owned(), count, device }),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_a_name_a_count_and_perhaps_a_device() {
        let read = |text: &str| resource(text).map(|it| (it.name, it.count, it.device));
        assert_eq!(read("R1:10"), Ok(("R1".to_owned(), 10, None)));
        assert_eq!(read("R1:10:2"), Ok(("R1".to_owned(), 10, Some(2))));
        for text in ["R1", ":1", "R1:x", "R1:-1", "R1:1:x", "R1:1:2:3"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
