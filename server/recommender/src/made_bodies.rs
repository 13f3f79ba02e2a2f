//! Bodies for a job that names none: tensors that fit what the model says of its inputs.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use loadgen::{Input, MadeUp, Target, answers::TOLERANCE, json_body, metadata};

use crate::{
    child::{Launch, Limit, has_gpu},
    job::{Conditions, Job},
    journal::{Journal, Trouble},
    payload::{Body, described},
    setting::Variables,
    trial::Workload,
};

/// Of the random numbers: a job that goes on has the bodies that it began with.
const SEED: u64 = 0;
/// What `/invocations` takes them as.
const CONTENT_TYPE: &str = "application/json";

/// A server of the model of `job` is started with these variables and asked for its inputs. The bodies are the JSON of
/// the KServe v2 protocol, and the server has answered the first of them. `lock` is that of all jobs, where there is
/// one. `say` is told what they are like. Of a server that runs already nothing is asked: `made_up` says its inputs.
/// Blocks until the server has ended.
///
/// # Errors
/// Where the server does not start, has several models, or does not answer such a body, with what to give instead.
pub(crate) fn bodies(
    job: &Job,
    made_up: &MadeUp,
    program: &Path,
    environment: &Variables,
    stop: &Arc<AtomicBool>,
    lock: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Body>, String> {
    if job.endpoint.is_some() {
        return made(made_up, &[], say);
    }
    let model = job.model.as_deref().unwrap_or_default();
    let launch = Launch { program, model, environment, cpus: &[], gpu: has_gpu() };
    // It would disturb what another job measures. Whoever cannot keep it is told so by the job itself.
    let journal = lock.map(|it| Journal::alone(it, stop, say)).transpose();
    let mut journal = match journal {
        Err(Trouble::Stopped) => return Err(Trouble::Stopped.to_string()),
        journal => journal.ok().flatten().unwrap_or_default(),
    };
    let limit = Limit { over: None, stop: stop.clone() };
    let server = launch.start(&limit, &mut |it| journal.serves(it))?;
    let mut models = server.models();
    // Several versions of a model have one name.
    models.sort_unstable();
    models.dedup();
    let [name] = &models[..] else {
        let (number, names) = (models.len(), models.join(", "));
        return Err(format!(
            "no payload is given: tensors are made up for one model, and there are {number}: {names}"
        ));
    };
    let asked = |it: &Target| metadata(it, name, &[]).map_err(|it| it.to_string());
    let bodies = made(made_up, &server.http().as_ref().map_or(Ok(Vec::new()), asked)?, say)?;
    let first = bodies.iter().take(1).cloned().collect();
    let workload =
        Workload { bodies: first, conditions: Conditions::default(), tolerance: TOLERANCE };
    workload.answers(server.address()).map_err(|problem| {
        format!(
            "{problem}; no payload is given, and what is made up does not suit the model '{name}': give a payload of \
             what clients send, or say what inputs are like with --shape and --value"
        )
    })?;
    Ok(bodies)
}

/// The bodies for a model with these metadata.
fn made(made_up: &MadeUp, metadata: &[u8], say: &mut dyn FnMut(&str)) -> Result<Vec<Body>, String> {
    let body = |inputs: &[Input]| {
        let words: Vec<String> = inputs.iter().map(Input::to_string).collect();
        let body = json_body(inputs)?;
        let size = body.len();
        Ok(((body, words), size))
    };
    let all = made_up.each(metadata, SEED, body).map_err(|it| it.to_string())?;
    let inputs = all.first().map_or_else(String::new, |it| it.1.join(", "));
    let bodies: Vec<Body> = all
        .into_iter()
        .enumerate()
        .map(|(nth, (body, _))| Body {
            name: format!("made up {}", nth + 1),
            content_type: CONTENT_TYPE.to_owned(),
            bytes: body.into_bytes(),
        })
        .collect();
    say(&format!(
        "PAYLOAD made up, {}: {inputs}; a payload of what clients send tells more, and --shape says what else open \
         dimensions are",
        described(&bodies)
    ));
    Ok(bodies)
}
