//! Which model answers a request that names none in its address: the one that the body names, else the one that the
//! target header names, else the only one that has the task.

use std::sync::Arc;

use hyper::HeaderMap;

use super::text_service::TextService;
use ::serving::ServedModel;
use frontend::http::service::{TARGET_MODEL, text};
use inference::{
    error::Error,
    signature::Signature,
    task::{self, Medium, Task},
};

/// What a model must do to answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedModel {
    /// That task.
    Task(Task),
    /// Any task of texts.
    Texts,
    /// Any task of images, or of sounds.
    Files(Medium),
    /// Any task. The body is of that medium, as far as it is known.
    Any(Option<Medium>),
}

impl WantedModel {
    fn fits(self, model: &ServedModel) -> bool {
        match self {
            WantedModel::Task(task) => model.signature.tasks().contains(&task),
            WantedModel::Texts => model.text_model().is_some(),
            WantedModel::Files(medium) => model.signature.medium() == Some(medium),
            WantedModel::Any(_) => model.signature.pipeline.is_some(),
        }
    }

    /// What the request sends, as far as it is known.
    fn given(self) -> Option<Medium> {
        match self {
            WantedModel::Task(task) => Some(task.medium()),
            WantedModel::Texts => Some(Medium::Text),
            WantedModel::Files(medium) => Some(medium),
            WantedModel::Any(given) => given,
        }
    }
}

impl std::fmt::Display for WantedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WantedModel::Task(task) => task.fmt(f),
            WantedModel::Texts | WantedModel::Files(_) | WantedModel::Any(_) => {
                f.write_str(task::sent(self.given()))
            }
        }
    }
}

/// The model for what is wanted. `named` is the name in the body.
///
/// # Errors
/// [`Error::NotFound`] where several models have the task and none of them is named. [`Error::NoSuchTask`] where the
/// named one has it not, or none has it. And why a named model cannot answer.
pub async fn choose(
    service: &TextService<'_>,
    wanted: WantedModel,
    named: Option<&str>,
    headers: &HeaderMap,
) -> Result<Arc<ServedModel>, Error> {
    let name = named.or_else(|| text(headers, &TARGET_MODEL));
    if let Some(name) = name
        && let Some(model) = of_name(service, name, headers).await?
    {
        return check(model, wanted);
    }
    let mut able = service.serving.models.of_texts();
    able.retain(|it| wanted.fits(it));
    // One that is made for the task goes before those that can also do it.
    let is_own = |it: &Arc<ServedModel>| {
        let own = it.signature.pipeline.as_ref().map(|it| it.task);
        own.is_some_and(|task| wanted == WantedModel::Task(task))
    };
    if able.iter().filter(|it| is_own(it)).count() == 1 {
        able.retain(is_own);
    }
    match able.as_slice() {
        [only] => {
            if let Some(name) = name.map(shown).filter(|it| is_other(service, it)) {
                let model = &only.shown_name;
                tracing::info!(%model, "requests for model '{name}' are answered by the only one for {wanted}");
            }
            Ok(only.clone())
        }
        [] => none(service, wanted, headers).await,
        several => {
            let names: Vec<&str> = several.iter().map(|it| &*it.shown_name).collect();
            let problem = match name {
                Some(name) => format!("there is no model '{}'", shown(name)),
                None => "the request names no model".to_owned(),
            };
            let names = names.join(", ");
            Err(Error::NotFound(format!("{problem}; those for {wanted} are {names}")))
        }
    }
}

/// The model, which must do what is wanted.
///
/// # Errors
/// [`Error::NoSuchTask`].
pub fn check(model: Arc<ServedModel>, wanted: WantedModel) -> Result<Arc<ServedModel>, Error> {
    if wanted.fits(&model) {
        return Ok(model);
    }
    Err(Error::NoSuchTask(refusal(&model.signature, &model.shown_name, wanted)))
}

/// Why a model of that name does not do what is wanted: what it takes, and what was sent.
fn refusal(signature: &Signature, name: &str, wanted: WantedModel) -> String {
    let Some(own) = signature.pipeline.as_ref().map(|it| it.task) else {
        let takes = task::takes_tensors(name, wanted.given());
        return format!("{takes}; ask for it at /v2/models/{name}/infer");
    };
    let place = |it: &Task| format!("{it} at /v2/models/{name}/{}", address_of(*it));
    let does: Vec<String> = signature.tasks().iter().map(place).collect();
    let (takes, does) = (own.facts().takes, does.join(", "));
    match wanted {
        WantedModel::Task(_) => format!("model '{name}' does not do {wanted}; it does {does}"),
        WantedModel::Texts | WantedModel::Files(_) | WantedModel::Any(_) => {
            format!("model '{name}' is no model of {wanted}: it takes {takes}; it does {does}")
        }
    }
}

/// Where a task is asked for, below the address of its model.
fn address_of(task: Task) -> &'static str {
    task.facts().tei_address.unwrap_or("pipeline")
}

/// The model of that name, which may end in `/<version>` or `@<version>`; `None` where there is none.
async fn of_name(
    service: &TextService<'_>,
    name: &str,
    headers: &HeaderMap,
) -> Result<Option<Arc<ServedModel>>, Error> {
    let with_version = name.rsplit_once(['/', '@']).and_then(|(name, version)| {
        let is_number = version.bytes().all(|it| it.is_ascii_digit());
        Some((name, Some(version.parse().ok().filter(|_| is_number)?)))
    });
    for (name, version) in std::iter::once((name, None)).chain(with_version) {
        let found = if service.serving.control.multi_model().is_ok() {
            service.serving.control.multi_model()?.labelled_or_only(Some(name), version)
        } else {
            service.serving.model(name, version, || service.deadline(headers)).await
        };
        match found {
            Ok(model) => return Ok(Some(model)),
            // What has a version of another number is no model of another name.
            Err(error @ Error::NotFound(_)) if version.is_none() => {
                // Another model's vectors would be of another space.
                if is_known(service, name) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    match name.rsplit_once(['/', '@']) {
        Some((known, version)) if is_known(service, known) => {
            let (known, version) = (shown(known), shown(version));
            Err(Error::NotFound(format!("model '{known}' has no version '{version}'")))
        }
        _ => Ok(None),
    }
}

/// Is it the name of a model, which may not serve?
fn is_known(service: &TextService<'_>, name: &str) -> bool {
    service.serving.models.names().iter().any(|it| **it == *name)
}

/// No model that serves has the task: perhaps the only one that there is has not been loaded.
async fn none(
    service: &TextService<'_>,
    wanted: WantedModel,
    headers: &HeaderMap,
) -> Result<Arc<ServedModel>, Error> {
    if let [only] = service.serving.models.names().as_slice() {
        let model = service.serving.model(only, None, || service.deadline(headers)).await?;
        return check(model, wanted);
    }
    Err(Error::NoSuchTask(match wanted {
        WantedModel::Task(task) => format!("no model does {task}"),
        WantedModel::Texts | WantedModel::Files(_) | WantedModel::Any(_) => {
            format!("no model takes {wanted}")
        }
    }))
}

/// Is it a name that operators have not given, and that was not logged before?
fn is_other(service: &TextService<'_>, name: &str) -> bool {
    let given = service.texts.served_model_name.as_deref();
    given != Some(name) && service.other_names.is_new(name)
}

/// As much of a client's name for a model as is repeated.
fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use inference::signature::Pipeline;

    fn model(task: Option<Task>) -> Signature {
        let pipeline = task.map(|task| {
            let forms = Vec::new();
            Pipeline { task, forms, row_independent: true, sampling_rate: None, jpeg: None }
        });
        Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size: 4,
            most_rows: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            on_request: Vec::new(),
            pipeline: pipeline.map(Arc::new),
        }
    }

    #[track_caller]
    fn check(task: Option<Task>, wanted: WantedModel, expected: &str) {
        assert_eq!(refusal(&model(task), "m", wanted), expected);
    }

    #[test]
    fn a_refusal_says_what_the_model_takes_and_what_was_sent() {
        let image = Some(Medium::Image);
        let sound = WantedModel::Task(Task::AutomaticSpeechRecognition);
        for (wanted, sent) in [
            (WantedModel::Any(image), "images"),
            (WantedModel::Files(Medium::Audio), "sounds"),
            (sound, "sounds"),
            (WantedModel::Texts, "texts"),
            (WantedModel::Any(None), "texts, images or sounds"),
        ] {
            let place = "ask for it at /v2/models/m/infer";
            check(None, wanted, &format!("model 'm' takes tensors, and no {sent}; {place}"));
        }
        let does = "it does image-classification at /v2/models/m/pipeline";
        let classifier = Some(Task::ImageClassification);
        let takes = "model 'm' is no model of texts: it takes the file of an image";
        check(classifier, WantedModel::Texts, &format!("{takes}; {does}"));
        let filling = WantedModel::Task(Task::FillMask);
        check(classifier, filling, &format!("model 'm' does not do fill-mask; {does}"));
        let takes = "model 'm' is no model of images: it takes a text or a pair of texts";
        let does = "it does text-classification at /v2/models/m/predict";
        let sent = WantedModel::Files(Medium::Image);
        check(Some(Task::TextClassification), sent, &format!("{takes}; {does}"));
    }
}
