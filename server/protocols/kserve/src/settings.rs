//! Vertex AI: the routes that the platform chooses, and where it puts models.

use std::path::{Path, PathBuf};

use configuration::{
    Environment, Flag, PathKind, Sources,
    value::{self, Parse},
    variable_text,
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("allow-vertex-ai", "", "Serve the two routes of Vertex AI. Default: true where AIP_MODE is PREDICTION; the other ports but the metrics port are then off unless they are asked for"),
    Flag::value("vertex-ai-predict-route", "", "Where requests come by POST. Needed, and set by the platform as AIP_PREDICT_ROUTE").named("PATH"),
    Flag::value("vertex-ai-health-route", "", "Where readiness is asked by GET. Needed, and set by the platform as AIP_HEALTH_ROUTE").named("PATH"),
    Flag::value("vertex-ai-default-model", "", "The model that answers requests without a name. Default: the only one").named("NAME"),
];

/// Says whether the platform has started the process, and what for.
pub const MODE: &str = "AIP_MODE";

/// The mode in which it wants predictions.
pub const PREDICTION: &str = "PREDICTION";

/// Where the platform has models.
const STORAGE: &str = "AIP_STORAGE_URI";

/// What is served on the Vertex AI port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VertexAi {
    /// `--vertex-ai-predict-route`, `AIP_PREDICT_ROUTE`: where requests come by POST.
    pub predict_route: String,
    /// `--vertex-ai-health-route`, `AIP_HEALTH_ROUTE`: where readiness is asked by GET. Another one than the former.
    pub health_route: String,
    /// `--vertex-ai-default-model`: the model that answers requests without a name; `None` for the only model.
    pub default_model: Option<String>,
}

/// What is served on it; `None` where it is off.
pub fn resolve(on: bool, sources: &Sources, problems: &mut Vec<String>) -> Option<VertexAi> {
    let default_model = sources.read("vertex-ai-default-model", value::text, problems);
    let predict = sources.read("vertex-ai-predict-route", route, problems);
    let health = sources.read("vertex-ai-health-route", route, problems);
    if !on {
        return None;
    }
    for (setting, variable) in [
        ("vertex-ai-predict-route", "AIP_PREDICT_ROUTE"),
        ("vertex-ai-health-route", "AIP_HEALTH_ROUTE"),
    ] {
        if sources.last(setting).is_none() {
            problems.push(format!(
                "the Vertex AI port needs --{setting}, which the platform gives as {variable}, as \
                 /v1/endpoints/7/deployedModels/7:predict; without the platform, leave --allow-vertex-ai out"
            ));
        }
    }
    let (predict_route, health_route) = predict.zip(health)?;
    if predict_route == health_route {
        problems.push(format!(
            "--vertex-ai-predict-route and --vertex-ai-health-route are both '{predict_route}': expected two \
             addresses"
        ));
    }
    Some(VertexAi { predict_route, health_route, default_model })
}

/// The directory of models that the platform names, where the port is on.
pub fn storage(
    on: bool,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<PathBuf> {
    let text = on.then(|| variable_text(environment, STORAGE, problems)).flatten()?;
    if environment.kind_of(Path::new(&text)) != Some(PathKind::Directory) {
        let hint = match text.contains("://") {
            true => {
                "; this version does not fetch models: have them in the image, and name the directory with \
                     --model-repository"
            }
            false => "",
        };
        problems.push(format!(
            "{STORAGE}='{text}' (environment): expected a directory of models, there is none{hint}"
        ));
    }
    Some(PathBuf::from(text))
}

/// An address on a port, as `/predict`.
fn route(text: &str) -> Parse<String> {
    let fits = text.starts_with('/') && !text.contains(['?', '#', ' ']);
    fits.then(|| text.to_owned()).ok_or_else(|| "an address such as /predict".to_owned())
}
