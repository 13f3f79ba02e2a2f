//! What a server has made of its settings, as the line of its log says it that tells of a model that is ready.

use std::fmt;

use launch::Running;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::setting::{INSTANCES, ROWS, THREADS, Variables};

/// What runs in a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The engine of its first model.
    pub engine: String,
    /// The version of the library that the engine works with, where it tells.
    pub version: Option<String>,
    /// Where it runs.
    pub device: String,
    /// Copies of the model that run at a time.
    pub instances: u64,
    /// Threads of each.
    pub threads: u64,
    /// Rows of a run at most; 0 where each request runs alone.
    pub rows: u64,
}

impl Served {
    /// What a server has made of its first model.
    pub(crate) fn of_server(server: &Running) -> Option<Served> {
        server.loaded().iter().find_map(Served::of)
    }

    /// What a setting asks for and a server's only model has not taken, in words. Of several models one may take it.
    pub(crate) fn unheeded_by(server: &Running, asked: &Variables) -> Option<String> {
        match &server.loaded()[..] {
            [only] => Served::of(only)?.unheeded(asked),
            _ => None,
        }
    }

    /// What the line says; `None` where it says something else.
    pub(crate) fn of(event: &Value) -> Option<Served> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        Some(Served {
            engine: text("engine")?,
            version: text("engine_version"),
            device: text("device")?,
            instances: number("instances")?,
            threads: number("threads")?,
            rows: number("max_batch_size")?,
        })
    }
}

impl Served {
    /// What a setting asks for and the server has not made of it, in words.
    pub(crate) fn unheeded(&self, asked: &Variables) -> Option<String> {
        // On GPUs instances are asked for on each, and threads are few.
        let is_on_cpu = self.device == "CPU";
        let number = |name: &str| match name {
            INSTANCES if is_on_cpu => Some(self.instances),
            THREADS if is_on_cpu => Some(self.threads),
            ROWS => Some(self.rows),
            _ => None,
        };
        asked.iter().find_map(|(name, value)| {
            let (has, asked) = (number(name)?, value.parse::<u64>().ok()?);
            (has != asked).then(|| format!("{name}={asked} has no effect: {self}"))
        })
    }

    /// The variables that say so.
    pub(crate) fn variables(&self) -> Variables {
        let rows = (self.rows > 0).then_some(self.rows);
        let numbers =
            [(INSTANCES, Some(self.instances)), (THREADS, Some(self.threads)), (ROWS, rows)];
        let variable =
            |(name, number): (&str, Option<u64>)| Some((name.to_owned(), number?.to_string()));
        numbers.into_iter().filter_map(variable).collect()
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Served { engine, version, device, instances, threads, rows } = self;
        f.write_str(engine)?;
        if let Some(version) = version {
            write!(f, " ({version})")?;
        }
        write!(f, " on {device}, instances: {instances}, threads of each: {threads}, ")?;
        match rows {
            0 => f.write_str("each request alone"),
            rows => write!(f, "runs of {rows} rows at most"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_server_says_of_its_model_is_told_in_words() {
        let mut event = json!({"message": "model is ready", "engine": "onnxruntime",
            "device": "CPU", "instances": 2, "threads": 1, "max_batch_size": 4});
        let told = |event: &Value| Served::of(event).map(|it| it.to_string());
        let words = "onnxruntime on CPU, instances: 2, threads of each: 1, runs of 4 rows at most";
        assert_eq!(told(&event).as_deref(), Some(words));
        event["max_batch_size"] = json!(0);
        event["engine_version"] = json!("1.31.1");
        let words =
            "onnxruntime (1.31.1) on CPU, instances: 2, threads of each: 1, each request alone";
        assert_eq!(told(&event).as_deref(), Some(words));
        assert_eq!(told(&json!({"message": "model is ready"})), None);
    }

    #[test]
    fn what_a_server_has_not_made_of_a_setting_is_told() {
        let event = json!({"engine": "onnxruntime", "device": "CPU", "instances": 2, "threads": 1,
            "max_batch_size": 0});
        let served = Served::of(&event).unwrap();
        let unheeded = |name: &str, value: &str| {
            served.unheeded(&vec![
                ("OMP_NUM_THREADS".into(), "9".into()),
                (name.into(), value.into()),
            ])
        };
        assert_eq!(unheeded(INSTANCES, "2"), None);
        assert_eq!(unheeded(INSTANCES, "none"), None);
        let text = unheeded(ROWS, "8").unwrap();
        assert!(
            text.starts_with("MUSTER_DEFAULT_MAX_BATCH_SIZE=8 has no effect: onnxruntime on CPU")
        );
        let on_gpu = Served { device: "GPU 0, GPU 1".into(), ..served.clone() };
        assert_eq!(on_gpu.unheeded(&vec![(INSTANCES.into(), "1".into())]), None);
    }
}
