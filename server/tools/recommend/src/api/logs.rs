//! `GetLogEvents` of CloudWatch Logs, for the lines that a job has said. Pure.

use serde_json::{Value, json};

use super::fault::Fault;
use crate::job_folder::Said;

/// Where the service has the lines of all jobs.
pub(super) const GROUP: &str = "/aws/sagemaker/InferenceRecommendationsJobs";
/// The end of the name of a job's stream.
const STREAM: &str = "/execution";
/// Most lines of a reply, and their bytes together.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 1 << 20;

/// The name of the job whose lines are asked for.
pub(super) fn job(request: &Value) -> Result<&str, Fault> {
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    let group = match (text("logGroupName"), text("logGroupIdentifier")) {
        (Some(name), None) => name,
        // An ARN ends with the name.
        (None, Some(given)) => given.rsplit(':').find(|it| *it != "*").unwrap_or(given),
        _ => {
            let message = "expected logGroupName or logGroupIdentifier, and not both";
            return Err(Fault::invalid(message));
        }
    };
    let stream = text("logStreamName").and_then(|it| it.strip_suffix(STREAM));
    stream.filter(|_| group == GROUP).ok_or_else(Fault::no_stream)
}

/// The reply, from all lines of the job. A token says between which two lines the next reply begins or ends, so that
/// one of the end is good for further lines.
pub(super) fn events(request: &Value, said: &[Said]) -> Result<Value, Fault> {
    let number = |name: &str| request.get(name).and_then(Value::as_u64);
    let limit = number("limit").map_or(MOST, |it| it as usize);
    let (start, end) = (number("startTime"), number("endTime"));
    let from_head = request.get("startFromHead").and_then(Value::as_bool).unwrap_or(false);
    let place = match request.get("nextToken").and_then(Value::as_str) {
        None if from_head => Boundary::From(0),
        None => Boundary::Upto(said.len()),
        Some(token) => Boundary::read(token, said.len())?,
    };
    let is_asked_for = |it: &Said| {
        start.is_none_or(|start| it.timestamp >= start) && end.is_none_or(|end| it.timestamp < end)
    };
    let mut room = MOST_BYTES;
    let mut taken = Vec::new();
    let mut take = |index: usize| -> bool {
        let Some(line) = said.get(index).filter(|it| is_asked_for(it)) else { return true };
        let fits = taken.len() < limit && line.message.len() <= room;
        if fits {
            room -= line.message.len();
            taken.push(index);
        }
        fits
    };
    // The lines that were looked at: from the first up to before the second.
    let (first, last) = match place {
        Boundary::From(first) => {
            let last = (first..said.len()).find(|it| !take(*it)).unwrap_or(said.len());
            (first, last)
        }
        Boundary::Upto(last) => {
            let before = (0..last).rev().find(|it| !take(*it));
            (before.map_or(0, |it| it + 1), last)
        }
    };
    taken.sort_unstable();
    let event = |line: &Said| json!({"timestamp": line.timestamp, "message": line.message, "ingestionTime": line.timestamp});
    let events: Vec<Value> = taken.iter().filter_map(|it| said.get(*it)).map(event).collect();
    Ok(json!({
        "events": events,
        "nextForwardToken": format!("f/{last}"),
        "nextBackwardToken": format!("b/{first}"),
    }))
}

/// Where a reply begins or ends.
enum Boundary {
    From(usize),
    Upto(usize),
}

impl Boundary {
    fn read(token: &str, lines: usize) -> Result<Boundary, Fault> {
        let number = |it: &str| it.parse::<usize>().ok().map(|it| it.min(lines));
        let place = match token.split_once('/') {
            Some(("f", at)) => number(at).map(Boundary::From),
            Some(("b", at)) => number(at).map(Boundary::Upto),
            _ => None,
        };
        place.ok_or_else(|| Fault::invalid("The specified nextToken is invalid."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: usize) -> Vec<Said> {
        let line = |at: usize| Said { timestamp: 1000 + at as u64, message: format!("line {at}") };
        (0..lines).map(line).collect()
    }

    /// The numbers of the lines, and both tokens.
    #[track_caller]
    fn check(request: Value, lines: usize, expected: &[usize], forward: &str, backward: &str) {
        let reply = events(&request, &said(lines)).unwrap();
        let given: Vec<String> = reply["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["message"].to_string())
            .collect();
        let wanted: Vec<String> = expected.iter().map(|it| format!("\"line {it}\"")).collect();
        assert_eq!(given, wanted, "{request}");
        assert_eq!(
            (&reply["nextForwardToken"], &reply["nextBackwardToken"]),
            (&json!(forward), &json!(backward)),
            "{request}"
        );
    }

    #[test]
    fn lines_are_read_forwards_backwards_and_as_they_come() {
        check(json!({}), 3, &[0, 1, 2], "f/3", "b/0");
        check(json!({"nextToken": "f/3"}), 3, &[], "f/3", "b/3");
        check(json!({"nextToken": "f/3"}), 5, &[3, 4], "f/5", "b/3");
        check(json!({"limit": 2}), 5, &[3, 4], "f/5", "b/3");
        check(json!({"limit": 2, "nextToken": "b/3"}), 5, &[1, 2], "f/3", "b/1");
        check(json!({"limit": 2, "startFromHead": true}), 5, &[0, 1], "f/2", "b/0");
        check(json!({"startTime": 1001, "endTime": 1003}), 5, &[1, 2], "f/5", "b/0");
        // A token of more lines than there are after a restart.
        check(json!({"nextToken": "f/9"}), 2, &[], "f/2", "b/2");
        check(json!({}), 0, &[], "f/0", "b/0");
        assert!(events(&json!({"nextToken": "x"}), &said(1)).is_err());
    }

    #[test]
    fn a_reply_is_bounded_in_bytes() {
        let line = Said { timestamp: 1, message: "x".repeat(400 << 10) };
        let reply = events(&json!({"startFromHead": true}), &vec![line; 4]).unwrap();
        assert_eq!(reply["events"].as_array().unwrap().len(), 2);
        assert_eq!(reply["nextForwardToken"], "f/2");
    }

    #[test]
    fn a_stream_is_that_of_a_job() {
        let of = |group: &str, stream: &str| {
            job(&json!({"logGroupName": group, "logStreamName": stream})).map(str::to_owned)
        };
        assert_eq!(of(GROUP, "j/execution").unwrap(), "j");
        assert_eq!(of(GROUP, "j").unwrap_err(), Fault::no_stream());
        assert_eq!(of("/other", "j/execution").unwrap_err(), Fault::no_stream());
        let arn = json!({"logGroupIdentifier": format!("arn:aws:logs:local:000000000000:log-group:{GROUP}:*"),
                         "logStreamName": "j/execution"});
        assert_eq!(job(&arn).unwrap(), "j");
        assert!(job(&json!({"logStreamName": "j/execution"})).is_err());
    }
}
