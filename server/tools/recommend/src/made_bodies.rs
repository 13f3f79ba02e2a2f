//! Bodies for a job that names none: tensors, pictures or sounds that fit what the model says of its inputs.

use std::{
    fmt,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use launch::{Launch, Limit, StartError, has_gpu};
use loadgen::{Input, MadeUp, Target, answers::TOLERANCE, json_body, metadata};

use crate::{
    job::{Conditions, Job},
    journal::{Journal, Trouble},
    payload::{TypedBody, described},
    setting::Variables,
    trial::Workload,
};

/// Of the random numbers: a job that goes on has the bodies that it began with.
const SEED: u64 = 0;
/// What `/invocations` takes tensors as.
const CONTENT_TYPE: &str = "application/json";

/// Why no bodies can be made up, and what to give instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct MadeUpError {
    text: String,
}

impl MadeUpError {
    fn new(text: impl fmt::Display) -> MadeUpError {
        MadeUpError { text: text.to_string() }
    }
}

impl From<StartError> for MadeUpError {
    fn from(error: StartError) -> MadeUpError {
        MadeUpError::new(error)
    }
}

impl From<loadgen::Error> for MadeUpError {
    fn from(error: loadgen::Error) -> MadeUpError {
        MadeUpError::new(error)
    }
}

/// A server of the model of `job` is started with these variables and asked for its inputs. The bodies are the JSON of
/// the KServe v2 protocol, and the server has answered the first of them. `lock` is that of all jobs, where there is
/// one. `say` is told what they are like. Of a server that runs already nothing is asked: `made_up` says its inputs;
/// without it nobody can say what they are like. Blocks until the server has ended.
///
/// # Errors
/// Where the server does not start, has several models, or does not answer such a body, with what to give instead.
pub(crate) fn bodies(
    job: &Job,
    made_up: Option<&MadeUp>,
    program: &Path,
    environment: &Variables,
    stop: &Arc<AtomicBool>,
    lock: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<TypedBody>, MadeUpError> {
    if job.endpoint.is_some() {
        return made(made_up, &[], say);
    }
    let model = job.model.as_deref().unwrap_or_default();
    let launch = Launch { program, model, environment, cpus: &[], gpu: has_gpu() };
    // It would disturb what another job measures. Whoever cannot keep it is told so by the job itself.
    let journal = lock.map(|it| Journal::alone(it, stop, say)).transpose();
    let mut journal = match journal {
        Err(Trouble::Stopped) => return Err(MadeUpError::new(Trouble::Stopped)),
        journal => journal.ok().flatten().unwrap_or_default(),
    };
    let limit = Limit { over: None, stop: stop.clone() };
    let server = launch.start(&limit, &mut |it| journal.serves(it))?;
    let models = server.models();
    let [name] = &models[..] else {
        let (number, names) = (models.len(), models.join(", "));
        return Err(MadeUpError::new(format_args!(
            "no payload is given: tensors are made up for one model, and there are {number}: {names}"
        )));
    };
    let asked = |it: &Target| metadata(it, name, &[]);
    let http = server.http().map(Target::from);
    let bodies = made(made_up, &http.as_ref().map_or(Ok(Vec::new()), asked)?, say)?;
    let first = bodies.iter().take(1).cloned().collect();
    let workload =
        Workload { bodies: first, conditions: Conditions::default(), tolerance: TOLERANCE };
    workload.answers(&server.address().into()).map_err(|problem| {
        let way = made_up.map_or("", |_| ", or say what inputs are like with --shape and --value");
        MadeUpError::new(format_args!(
            "{problem}; no payload is given, and what is made up does not suit the model '{name}': give a payload of \
             what clients send{way}"
        ))
    })?;
    Ok(bodies)
}

/// The bodies for a model with these metadata.
fn made(
    said: Option<&MadeUp>,
    metadata: &[u8],
    say: &mut dyn FnMut(&str),
) -> Result<Vec<TypedBody>, MadeUpError> {
    let made_up = said.cloned().unwrap_or_default();
    let body = |inputs: &[Input]| {
        let words: Vec<String> = inputs.iter().map(Input::to_string).collect();
        // A picture or a sound goes as it is: JSON holds no such bytes.
        let file = inputs.first().filter(|_| inputs.len() == 1).and_then(Input::file);
        let (content_type, body) = match file {
            Some((content_type, bytes)) => (content_type, bytes.to_vec()),
            None => (CONTENT_TYPE, json_body(inputs)?.into_bytes()),
        };
        let size = body.len();
        Ok(((content_type, body, words), size))
    };
    let all = made_up.each(metadata, SEED, body)?;
    let inputs = all.first().map_or_else(String::new, |it| it.2.join(", "));
    let bodies: Vec<TypedBody> = all
        .into_iter()
        .enumerate()
        .map(|(nth, (content_type, bytes, _))| TypedBody {
            name: format!("made up {}", nth + 1),
            content_type: content_type.to_owned(),
            bytes,
        })
        .collect();
    let open = made_up.open(metadata);
    let shape = said.filter(|_| !open.is_empty()).map_or_else(String::new, |_| {
        let open = open.join(", ");
        format!(", and --shape says what else the open dimensions are of {open}")
    });
    say(&format!(
        "PAYLOAD made up, {}: {inputs}; a payload of what clients send tells more{shape}",
        described(&bodies)
    ));
    Ok(bodies)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        made_up: MadeUp,
    }

    const METADATA: &[u8] = br#"{"inputs":[{"name":"x","datatype":"FP32","shape":[-1,4]},
        {"name":"y","datatype":"FP32","shape":[1,4]}]}"#;

    #[track_caller]
    fn check(words: Option<&[&str]>, metadata: &[u8], ending: &str) {
        let command = words.map(|it| Command::parse_from([&["recommend"], it].concat()).made_up);
        let mut said = String::new();
        made(command.as_ref(), metadata, &mut |it| said = it.to_owned()).unwrap();
        assert!(said.starts_with("PAYLOAD made up, 16 bodies") && said.ends_with(ending), "{said}");
    }

    #[test]
    fn a_model_of_pictures_or_of_sounds_is_sent_such_files() {
        for (name, content_type) in [("image", "image/png"), ("audio", "audio/wav")] {
            let input = format!(r#"{{"name":"{name}","datatype":"BYTES","shape":[-1,1]}}"#);
            let metadata = format!(r#"{{"inputs":[{input}]}}"#);
            let bodies = made(None, metadata.as_bytes(), &mut |_| ()).unwrap();
            assert!(bodies.len() > 1 && bodies.iter().all(|it| it.content_type == content_type));
            assert!(bodies[0].bytes.len() > 30_000 && bodies[0].bytes != bodies[1].bytes);
        }
    }

    #[test]
    fn shapes_are_spoken_of_only_where_a_dimension_is_open_and_somebody_can_say_it() {
        check(
            Some(&[]),
            METADATA,
            "tells more, and --shape says what else the open dimensions are of x",
        );
        check(Some(&["--shape", "x:8,4"]), METADATA, "tells more");
        check(Some(&["--input", "x:FP32:1,4"]), METADATA, "tells more");
        let fixed = String::from_utf8_lossy(METADATA).replace("-1", "1");
        check(Some(&[]), fixed.as_bytes(), "tells more");
        check(None, METADATA, "tells more");
    }
}
