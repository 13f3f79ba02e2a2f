//! ONNX Runtime's own messages in the server's log: with the name of the model, and each once. A run that is strange is
//! so each time.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use ort::logging::{LogLevel, LoggerFunction};

/// What the environment is called; its messages are about no model.
pub(crate) const ENVIRONMENT: &str = "muster";

/// After so many different messages all of them are new again.
const MOST_REMEMBERED: usize = 4096;

/// Messages that were logged, by the model and the place in ONNX Runtime's source.
#[derive(Debug, Default)]
struct Heard(BTreeSet<(String, String)>);

impl Heard {
    fn is_new(&mut self, model: &str, place: &str) -> bool {
        if MOST_REMEMBERED <= self.0.len() {
            self.0.clear();
        }
        self.0.insert((model.to_owned(), place.to_owned()))
    }
}

/// What the environment is to call with each message.
pub(crate) fn logger() -> LoggerFunction {
    // Guards what was logged; held for a look.
    let heard = Mutex::new(Heard::default());
    Arc::new(move |level, _: &str, model: &str, place: &str, message: &str| {
        let is_loud = matches!(level, LogLevel::Warning | LogLevel::Error | LogLevel::Fatal);
        let is_new =
            is_loud && heard.lock().unwrap_or_else(PoisonError::into_inner).is_new(model, place);
        match (level, model) {
            _ if !is_new => tracing::debug!(model, place, "ONNX Runtime: {message}"),
            (LogLevel::Error | LogLevel::Fatal, ENVIRONMENT) => {
                tracing::error!("ONNX Runtime: {message}");
            }
            (LogLevel::Error | LogLevel::Fatal, _) => {
                tracing::error!(model, "ONNX Runtime: {message}");
            }
            (_, ENVIRONMENT) => tracing::warn!("ONNX Runtime: {message}"),
            _ => tracing::warn!(model, "ONNX Runtime, said once: {message}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_at_each_run_of_a_model_is_logged_once() {
        let mut heard = Heard::default();
        assert!(heard.is_new("m", "frame.cc:858"));
        assert!(!heard.is_new("m", "frame.cc:858"));
        assert!(heard.is_new("n", "frame.cc:858") && heard.is_new("m", "frame.cc:9"));
        for it in 0..MOST_REMEMBERED {
            heard.is_new("m", &it.to_string());
        }
        assert!(heard.0.len() <= MOST_REMEMBERED);
    }
}
