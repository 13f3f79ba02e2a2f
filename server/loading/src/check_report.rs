//! `muster check`: what was found out of the models, for people and for programs.

use serde_json::{Value, json};

use crate::lifecycle::check::{CheckDepth, CheckedModel, CheckedModels};

/// A line for each model, the notes, and a summary.
pub fn text(checked: &CheckedModels, depth: CheckDepth) -> String {
    let models = &checked.models;
    let name_width = width(models, |it| it.id.to_string());
    let engine_width = width(models, engine);
    let mut text = String::new();
    for model in models {
        let (name, engine) = (model.id.to_string(), engine(model));
        let line = format!("{name:name_width$}  {engine:engine_width$}  {}", outcome(model, depth));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let of_models = models.iter().flat_map(|model| {
        model.notes.iter().map(|it| format!("note: model '{}': {}", model.id, one_line(it)))
    });
    let notes: Vec<String> =
        of_models.chain(checked.notes.iter().map(|it| format!("note: {}", one_line(it)))).collect();
    notes.iter().for_each(|it| text.extend([it, "\n"]));
    let served = models.iter().filter(|it| it.is_served()).count();
    let (all, lost) = (models.len(), models.len() - served);
    let plural = if all == 1 { "" } else { "s" };
    text.push_str(&match depth {
        CheckDepth::Load => format!("\n{all} model{plural}: {served} served, {lost} not served\n"),
        CheckDepth::Files => format!(
            "\n{all} model{plural}: {served} would be served, {lost} would not. Files and configurations were checked; \
             --load loads each model, too\n"
        ),
    });
    text
}

/// The same for programs.
pub fn to_json(checked: &CheckedModels, depth: CheckDepth) -> String {
    let models: Vec<Value> = checked.models.iter().map(model_json).collect();
    let is_served = checked.models.iter().all(CheckedModel::is_served);
    let loaded = depth == CheckDepth::Load;
    let all = json!({
        "served": is_served,
        "loaded": loaded,
        "models": models,
        "notes": checked.notes,
    });
    format!("{all:#}\n")
}

fn model_json(model: &CheckedModel) -> Value {
    let versions = model.versions.iter().map(|it| match &it.outcome {
        Ok(as_what) => json!({"version": it.version, "served": true, "as": as_what}),
        Err(reason) => json!({"version": it.version, "served": false, "reason": reason}),
    });
    json!({
        "name": &*model.id.name,
        "namespace": &*model.id.namespace,
        "platform": model.platform,
        "backend": model.backend,
        "served": model.is_served(),
        "reason": model.refusal(),
        "versions": versions.collect::<Vec<_>>(),
        "notes": model.notes,
    })
}

fn width(models: &[CheckedModel], column: impl Fn(&CheckedModel) -> String) -> usize {
    models.iter().map(|it| column(it).chars().count()).max().unwrap_or_default()
}

fn engine(model: &CheckedModel) -> String {
    let names = [&model.platform, &model.backend];
    let name = names.into_iter().find(|it| !it.is_empty());
    name.map_or_else(|| "-".to_owned(), String::clone)
}

fn outcome(model: &CheckedModel, depth: CheckDepth) -> String {
    if let Some(reason) = model.refusal() {
        return format!("NOT served: {}", one_line(&reason));
    }
    let is = if depth == CheckDepth::Load { "served" } else { "would be served" };
    let numbers: Vec<String> = model.versions.iter().map(|it| it.version.to_string()).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let as_what = model.versions.iter().rev().find_map(|it| it.outcome.as_ref().ok()?.as_deref());
    let as_what = as_what.map(|it| format!(" as {it}")).unwrap_or_default();
    format!("version{plural} {}: {is}{as_what}", numbers.join(", "))
}

fn one_line(text: &str) -> String {
    text.split('\n').map(|it| it.trim_start_matches("- ")).collect::<Vec<_>>().join("; ")
}
