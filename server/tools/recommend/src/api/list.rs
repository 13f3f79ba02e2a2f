//! Pages of lists: which jobs and steps a request asks for, in which order, and where the next page begins. Pure.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::fault::Fault;
use crate::{
    arn::{ROLE, job_arn},
    job_state::{JobState, seconds},
};

/// Entries of a page where none are asked for.
const PAGE: usize = 100;

/// The reply to `ListInferenceRecommendationsJobs`.
pub(super) fn jobs<'a>(
    request: &Value,
    all: impl Iterator<Item = &'a JobState>,
) -> Result<Value, Fault> {
    let order = Order::of(request);
    let mut found: Vec<&JobState> = all.filter(|it| is_asked_for(it, request)).collect();
    found.sort_by(|a, b| order.compare(&order.key(a), &order.key(b)));
    if let Some(token) = text(request, "NextToken") {
        let last = order.read(token)?;
        found.retain(|it| order.compare(&order.key(it), &last) == Ordering::Greater);
    }
    let most = page(request);
    let next = found.get(most).and(most.checked_sub(1)).and_then(|it| found.get(it));
    let mut reply = json!({
        "InferenceRecommendationsJobs": found.iter().take(most).map(|it| summary(it)).collect::<Vec<_>>(),
    });
    if let Some(last) = next {
        reply["NextToken"] = json!(order.token(last));
    }
    Ok(reply)
}

/// The reply to `ListInferenceRecommendationsJobSteps`.
pub(super) fn steps(request: &Value, steps: &[Value]) -> Result<Value, Fault> {
    let first = match text(request, "NextToken") {
        None => 0,
        Some(token) => token
            .strip_prefix("steps/")
            .and_then(|it| it.parse::<usize>().ok())
            .ok_or_else(|| invalid_token(token))?,
    };
    let status = text(request, "Status");
    let is_asked_for = |it: &&Value| status.is_none_or(|status| it["Status"] == status);
    let found = steps.iter().enumerate().skip(first).filter(|(_, it)| is_asked_for(it));
    // One more than the page: it says whether there is a next one, and where that begins.
    let mut found: Vec<(usize, &Value)> = found.take(page(request) + 1).collect();
    let next = (found.len() > page(request)).then(|| found.pop()).flatten();
    let mut reply = json!({ "Steps": found.iter().map(|it| it.1).collect::<Vec<_>>() });
    if let Some((index, _)) = next {
        reply["NextToken"] = json!(format!("steps/{index}"));
    }
    Ok(reply)
}

/// How many entries a page has.
fn page(request: &Value) -> usize {
    let most = request.get("MaxResults").and_then(Value::as_u64);
    most.and_then(|it| usize::try_from(it).ok()).unwrap_or(PAGE)
}

fn text<'a>(request: &'a Value, name: &str) -> Option<&'a str> {
    request.get(name).and_then(Value::as_str)
}

fn invalid_token(token: &str) -> Fault {
    let shown: String = token.chars().take(100).collect();
    Fault::invalid(format!("NextToken: expected the token of another reply, given '{shown}'"))
}

fn is_asked_for(job: &JobState, request: &Value) -> bool {
    let number = |name: &str| request.get(name).and_then(Value::as_f64);
    let input = job.request.get("InputConfig").unwrap_or(&Value::Null);
    let equals = |wanted: &str, field: &str| {
        text(request, wanted).is_none_or(|wanted| text(input, field) == Some(wanted))
    };
    let (created, modified) = (seconds(job.created), seconds(job.modified));
    number("CreationTimeAfter").is_none_or(|it| created > it)
        && number("CreationTimeBefore").is_none_or(|it| created < it)
        && number("LastModifiedTimeAfter").is_none_or(|it| modified > it)
        && number("LastModifiedTimeBefore").is_none_or(|it| modified < it)
        && text(request, "NameContains").is_none_or(|it| name(job).contains(it))
        && text(request, "StatusEquals").is_none_or(|it| job.status.name() == it)
        && equals("ModelNameEquals", "ModelName")
        && equals("ModelPackageVersionArnEquals", "ModelPackageVersionArn")
}

fn name(job: &JobState) -> &str {
    text(&job.request, "JobName").unwrap_or_default()
}

/// An entry of the list of jobs.
fn summary(job: &JobState) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            entry.insert(name.to_owned(), value);
        }
    };
    let given = |path: &str| job.request.pointer(path).cloned().unwrap_or_default();
    let or = |value: Value, other: &str| if value.is_null() { json!(other) } else { value };
    put("JobName", json!(name(job)));
    put("JobDescription", or(given("/JobDescription"), ""));
    put("JobType", given("/JobType"));
    put("JobArn", json!(job_arn(name(job))));
    put("Status", json!(job.status.name()));
    put("CreationTime", json!(seconds(job.created)));
    put("CompletionTime", json!(job.ended.map(seconds)));
    put("RoleArn", or(given("/RoleArn"), ROLE));
    put("LastModifiedTime", json!(seconds(job.modified)));
    put("FailureReason", json!(job.failure));
    put("ModelName", given("/InputConfig/ModelName"));
    put("SamplePayloadUrl", given("/InputConfig/ContainerConfig/PayloadConfig/SamplePayloadUrl"));
    put("ModelPackageVersionArn", given("/InputConfig/ModelPackageVersionArn"));
    Value::Object(entry)
}

/// The order of a list of jobs.
#[derive(Debug, Clone, Copy)]
struct Order<'a> {
    by: &'a str,
    descends: bool,
}

/// The place of a job in the list: what is sorted by, and its name.
type Key = (String, String);

impl<'a> Order<'a> {
    fn of(request: &'a Value) -> Order<'a> {
        let by = text(request, "SortBy").unwrap_or("CreationTime");
        // The newest first, and names from A to Z, where nothing is said.
        let usual = if by == "CreationTime" { "Descending" } else { "Ascending" };
        Order { by, descends: text(request, "SortOrder").unwrap_or(usual) == "Descending" }
    }

    fn key(&self, job: &JobState) -> Key {
        let sorted = match self.by {
            "Name" => String::new(),
            "Status" => job.status.name().to_owned(),
            // Nanoseconds, as many digits for all.
            _ => format!("{:020}", (seconds(job.created) * 1e9) as u64),
        };
        (sorted, name(job).to_owned())
    }

    fn compare(&self, a: &Key, b: &Key) -> Ordering {
        if self.descends { b.cmp(a) } else { a.cmp(b) }
    }

    /// Where the next page begins: behind this job, even when that is gone by then.
    fn token(&self, last: &JobState) -> String {
        let (sorted, name) = self.key(last);
        format!("{}/{}/{sorted}/{name}", self.by, self.descends)
    }

    fn read(&self, token: &str) -> Result<Key, Fault> {
        let mut parts = token.splitn(4, '/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(by), Some(descends), Some(sorted), Some(name))
                if by == self.by && descends == self.descends.to_string() =>
            {
                Ok((sorted.to_owned(), name.to_owned()))
            }
            _ => Err(invalid_token(token)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_state::JobStatus;
    use std::time::{Duration, UNIX_EPOCH};

    fn job(name: &str, created: u64, status: JobStatus) -> JobState {
        let request = json!({"JobName": name, "JobType": "Default", "InputConfig": {"ModelName": format!("m-{name}")}});
        let mut job = JobState::new(request, UNIX_EPOCH + Duration::from_secs(created));
        job.status = status;
        job
    }

    fn three() -> Vec<JobState> {
        vec![
            job("b", 10, JobStatus::Completed),
            job("c", 30, JobStatus::Pending),
            job("ab", 20, JobStatus::Completed),
        ]
    }

    fn names(request: Value) -> Vec<String> {
        let reply = jobs(&request, three().iter()).unwrap();
        let entries = reply["InferenceRecommendationsJobs"].as_array().unwrap().clone();
        entries.iter().map(|it| it["JobName"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn jobs_are_filtered_and_sorted() {
        for (request, expected) in [
            (json!({}), vec!["c", "ab", "b"]),
            (json!({"SortOrder": "Ascending"}), vec!["b", "ab", "c"]),
            (json!({"SortBy": "Name"}), vec!["ab", "b", "c"]),
            (json!({"SortBy": "Name", "SortOrder": "Descending"}), vec!["c", "b", "ab"]),
            (json!({"SortBy": "Status"}), vec!["ab", "b", "c"]),
            (json!({"NameContains": "b"}), vec!["ab", "b"]),
            (json!({"StatusEquals": "PENDING"}), vec!["c"]),
            (json!({"CreationTimeAfter": 10}), vec!["c", "ab"]),
            (json!({"CreationTimeBefore": 20.5, "LastModifiedTimeAfter": 15}), vec!["ab"]),
            (json!({"LastModifiedTimeBefore": 10}), vec![]),
            (json!({"ModelNameEquals": "m-c"}), vec!["c"]),
            (json!({"ModelPackageVersionArnEquals": "x"}), vec![]),
        ] {
            assert_eq!(names(request.clone()), expected, "{request}");
        }
    }

    #[test]
    fn pages_follow_each_other_even_where_a_job_is_gone_in_between() {
        let orders = ["Name", "CreationTime", "Status"].map(|by| [(by, false), (by, true)]);
        for (by, is_gone) in orders.into_iter().flatten() {
            let mut all = three();
            let mut request = json!({"SortBy": by, "MaxResults": 1});
            let mut seen = Vec::new();
            loop {
                let reply = jobs(&request, all.iter()).unwrap();
                let name = reply.pointer("/InferenceRecommendationsJobs/0/JobName").unwrap();
                let name = name.as_str().unwrap().to_owned();
                all.retain(|it| !is_gone || super::name(it) != name);
                seen.push(name);
                match reply.get("NextToken") {
                    None => break,
                    Some(token) => request["NextToken"] = token.clone(),
                }
                assert!(seen.len() < 3, "{by}: {seen:?}");
            }
            assert_eq!(seen, names(json!({"SortBy": by})), "{by}");
        }
        let all = three();
        let token = jobs(&json!({"MaxResults": 1}), all.iter()).unwrap()["NextToken"].clone();
        for request in
            [json!({"NextToken": "x"}), json!({"NextToken": token, "SortOrder": "Ascending"})]
        {
            assert!(jobs(&request, all.iter()).is_err(), "{request}");
        }
    }

    #[test]
    fn an_entry_has_what_the_service_requires() {
        let reply = jobs(&json!({"NameContains": "c"}), three().iter()).unwrap();
        let entry = &reply["InferenceRecommendationsJobs"][0];
        assert_eq!(
            entry,
            &json!({"JobName": "c", "JobDescription": "", "JobType": "Default",
                "JobArn": "arn:aws:sagemaker:local:000000000000:inference-recommendations-job/c",
                "Status": "PENDING", "CreationTime": 30.0, "RoleArn": ROLE, "LastModifiedTime": 30.0,
                "ModelName": "m-c"})
        );
    }

    #[test]
    fn steps_have_pages_and_a_filter() {
        let step = |at: usize, status: &str| json!({"at": at, "Status": status});
        let all = vec![
            step(0, "COMPLETED"),
            step(1, "FAILED"),
            step(2, "COMPLETED"),
            step(3, "COMPLETED"),
        ];
        let request = json!({"Status": "COMPLETED", "MaxResults": 2});
        let first = steps(&request, &all).unwrap();
        assert_eq!(first["Steps"], json!([all[0], all[2]]));
        let mut next = request;
        next["NextToken"] = first["NextToken"].clone();
        let second = steps(&next, &all).unwrap();
        assert_eq!(second, json!({"Steps": [all[3]]}));
        let whole = steps(&json!({"MaxResults": 4}), &all).unwrap();
        assert!(whole.get("NextToken").is_none());
        assert!(steps(&json!({"NextToken": "4"}), &all).is_err());
    }
}
