//! The metrics page, read by the letter of its format: what the format does not allow fails the test.

use std::{collections::BTreeMap, net::SocketAddr};

use super::{Client, wait_for};

/// What one look at `/metrics` showed.
pub struct Page(BTreeMap<String, f64>);

impl Page {
    /// Asks for the page.
    #[track_caller]
    pub fn read(address: SocketAddr) -> Page {
        let reply = Client::connect(address).get("/metrics").expect(200);
        assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        Page::parse(&reply.text())
    }

    /// Reads the text: families with a help and a type, every series once, every value a number from zero.
    #[track_caller]
    pub fn parse(text: &str) -> Page {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut values = BTreeMap::new();
        let mut lines = text.lines().peekable();
        while let Some(help) = lines.next() {
            let name = help.strip_prefix("# HELP ").and_then(|it| it.split_once(' '));
            let (name, _) = name.unwrap_or_else(|| panic!("expected a help: {help}"));
            let kind = lines.next().and_then(|it| it.strip_prefix(&format!("# TYPE {name} ")));
            assert!(
                kind.is_some_and(|it| {
                    ["counter", "gauge", "histogram", "summary"].contains(&it)
                }),
                "{name}"
            );
            while let Some(line) = lines.next_if(|it| !it.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(series.starts_with(name), "'{line}' is not of the family {name}");
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
                // A summary of nothing has no quantiles.
                assert!(value >= 0.0 || kind == Some("summary") && value.is_nan(), "{line}");
                assert!(values.insert(series.to_owned(), value).is_none(), "twice: {line}");
            }
        }
        Page(values)
    }

    /// The value of a series by its full name, as `muster_http_connections`.
    #[track_caller]
    pub fn value(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0.keys()))
    }

    /// Is there such a series?
    pub fn has(&self, series: &str) -> bool {
        self.0.contains_key(series)
    }

    /// The value of a family of version 1 of a model.
    #[track_caller]
    pub fn of(&self, model: &str, family: &str) -> f64 {
        self.value(&format!("{family}{{model=\"{model}\",version=\"1\"}}"))
    }

    /// Requests to a model that failed for that reason, as `REJECTED`.
    #[track_caller]
    pub fn failures(&self, model: &str, reason: &str) -> f64 {
        let labels = format!("model=\"{model}\",reason=\"{reason}\",version=\"1\"");
        self.value(&format!("nv_inference_request_failure{{{labels}}}"))
    }

    /// Answers with that status to requests of that protocol, as `kserve_v2`.
    pub fn answers(&self, protocol: &str, status: u16) -> f64 {
        let series =
            format!("muster_http_requests_total{{protocol=\"{protocol}\",status=\"{status}\"}}");
        self.0.get(&series).copied().unwrap_or(0.0)
    }

    /// Executions of a model with at most that many rows; a power of two.
    #[track_caller]
    pub fn batches_up_to(&self, model: &str, rows: usize) -> f64 {
        let labels = format!("model=\"{model}\",version=\"1\",le=\"{rows}\"");
        self.value(&format!("muster_batch_rows_bucket{{{labels}}}"))
    }
}

/// Waits until exactly so many requests wait for an instance of the model.
#[track_caller]
pub fn wait_queued(address: SocketAddr, model: &str, requests: usize) {
    wait_for(&format!("{requests} requests in the queue of '{model}'"), || {
        let depth = Page::read(address).of(model, "muster_queue_depth");
        (depth == requests as f64).then_some(())
    });
}
