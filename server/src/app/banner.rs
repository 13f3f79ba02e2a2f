//! What a person at a terminal sees once the models are loaded: what is served, where, and a line to paste.

use std::{fmt::Write, net::SocketAddr};

use super::announce;
use crate::config::ServerConfig;
use frontend::serving::Serving;
use inference::task::Medium;

/// Most models that are named.
const MOST_MODELS: usize = 12;

/// The banner.
#[derive(Debug, Clone, PartialEq)]
pub struct Banner {
    /// Each with what it takes, where that is not tensors.
    models: Vec<String>,
    /// Known models that do not serve.
    missing: usize,
    /// Services and their addresses.
    addresses: Vec<(&'static str, SocketAddr)>,
    /// A request that works; `None` where no model has answered any.
    line: Option<String>,
}

impl Banner {
    pub(super) fn of(
        serving: &Serving,
        addresses: &[(&'static str, SocketAddr)],
        config: &ServerConfig,
    ) -> Banner {
        let ready = serving.models.ready_names();
        let model = |name: &str| {
            let found = serving.models.get(name, None).ok();
            let task = found.and_then(|it| it.signature.pipeline.as_ref().map(|it| it.task));
            let takes = task.map(|it| match it.medium() {
                Medium::Text => "texts",
                Medium::Image => "images",
                Medium::Audio => "sounds",
            });
            takes.map_or(name.to_owned(), |it| format!("{name} ({it})"))
        };
        Banner {
            models: ready.iter().map(|it| model(it)).collect(),
            missing: serving.models.index().len().saturating_sub(ready.len()),
            addresses: addresses.to_vec(),
            line: announce::line(serving, addresses, config),
        }
    }

    /// The text, with colours or without.
    pub fn text(&self, colours: bool) -> String {
        let style = |code: &str, text: &str| match colours {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let bold = |text: &str| style("1", text);
        let count = match self.models.len() {
            1 => "1 model".to_owned(),
            count => format!("{count} models"),
        };
        let mut text = format!("\n  {} serves {}\n", bold("muster"), bold(&count));
        // A string takes all that is written.
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(text, "  {}  {value}", style("2", &format!("{name:<9}")));
        };
        if !self.models.is_empty() {
            let shown = self.models.get(..MOST_MODELS).unwrap_or(&self.models);
            let more = match self.models.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            row("models", &format!("{}{more}", shown.join(", ")));
        }
        if 0 < self.missing {
            row("missing", &format!("{} that did not load: see above", self.missing));
        }
        for (service, address) in &self.addresses {
            let address = match (*service, address.ip().is_unspecified()) {
                ("grpc" | "tfs-grpc", _) => address.to_string(),
                (_, true) => {
                    format!("http://localhost:{}, and from other machines", address.port())
                }
                (_, false) => format!("http://{address}"),
            };
            row(service, &address);
        }
        if let Some(line) = &self.line {
            row("try it", &style("36", line));
        }
        row("stop", "Ctrl-C");
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner() -> Banner {
        Banner {
            models: vec!["fraud".to_owned(), "sentiment (texts)".to_owned()],
            missing: 1,
            addresses: vec![
                ("http", SocketAddr::from(([127, 0, 0, 1], 8000))),
                ("metrics", SocketAddr::from(([0, 0, 0, 0], 8002))),
            ],
            line: Some("curl -s http://localhost:8000/x".to_owned()),
        }
    }

    #[test]
    fn models_addresses_and_a_line_to_paste_are_named() {
        let text = banner().text(false);
        for part in [
            "muster serves 2 models",
            "fraud, sentiment (texts)",
            "http://127.0.0.1:8000",
            "http://localhost:8002, and from other machines",
            "1 that did not load",
            "curl -s http://localhost:8000/x",
        ] {
            assert!(text.contains(part), "no '{part}' in {text}");
        }
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.lines().all(|it| it.len() < 100), "{text}");
    }

    #[test]
    fn colours_are_there_where_they_are_wanted() {
        assert!(banner().text(true).contains("\x1b[1mmuster\x1b[0m"));
    }

    #[test]
    fn of_many_models_some_are_named() {
        let models = (0..30).map(|it| format!("m{it}")).collect();
        let text = Banner { models, ..banner() }.text(false);
        assert!(text.contains("m11 and 18 more") && !text.contains("m12,"), "{text}");
    }
}
