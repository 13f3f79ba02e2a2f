//! What findings are of, for those who read them elsewhere: the program and the machine, the models, the engines.

use std::path::Path;

use loadgen::{Stated, Target, Trust, server_of};

use crate::{model_files::hash, run::Done, setting::FORM, step::Step};

/// What all findings of a job are of.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// The program, the machine, the payload and the time scale.
    pub(crate) stated: Stated,
    /// The model and its other forms, each with a hash of its files.
    models: Vec<(String, String)>,
}

impl Surroundings {
    /// The names of the columns that state them in each line of a table.
    pub(crate) fn columns() -> Vec<&'static str> {
        Stated::COLUMNS.into_iter().chain(["engine", "model_hash"]).collect()
    }

    /// Of a job that is over. Reads its models, and asks a server that ran already what it is.
    pub(crate) fn of(done: &Done, trust: &Trust) -> Surroundings {
        let endpoint = done.job.endpoint.as_ref();
        let server = endpoint.and_then(|it| server_of(&Target::trusted(it, trust).ok()?, &[]));
        let given = done.job.model.iter();
        let forms = done.job.variants.iter().filter(|it| it.0 == FORM).map(|it| &it.1);
        let hashed = given.chain(forms).filter_map(|it| Some((it.clone(), hash(Path::new(it))?)));
        Surroundings {
            stated: Stated::new(server, done.payload.clone(), done.time_scale),
            models: hashed.collect(),
        }
    }

    /// The values of the columns for a setting.
    pub(crate) fn values(&self, step: &Step) -> Vec<String> {
        let engine = step.served.as_ref().map_or_else(String::new, |it| {
            let version = it.version.iter().map(|it| format!(" {it}"));
            version.fold(it.engine.clone(), |engine, it| engine + &it)
        });
        let form = step.setting.environment.iter().find(|it| it.0 == FORM).map(|it| &it.1);
        let hashed = match form {
            Some(form) => self.models.iter().find(|it| it.0 == *form),
            None => self.models.first(),
        };
        let hash = hashed.map_or_else(String::new, |it| it.1.clone());
        self.stated.values().into_iter().chain([engine, hash]).collect()
    }

    /// The models, a line each.
    pub(crate) fn models(&self) -> impl Iterator<Item = String> {
        self.models.iter().map(|(path, hash)| format!("{path}: BLAKE3 {hash}"))
    }
}
