//! What is looked at before a model is loaded: the checksums that its configuration asks for, and a plug-in in its
//! directory that would change what it does.

use std::{
    io::{self, Read},
    path::Path,
};

use md5::{Digest, Md5};

use crate::{
    config::check::report::{Report, file_name},
    load::load_error::LoadError,
    repository::local::FoundModel,
};
use inference::signature::nearest;
use serving::config::raw::{ModelConfig as RawConfig, model_repository_agents::Agent};

/// The agents that are here.
const AGENTS: [&str; 1] = ["checksum"];

/// Triton's batching plug-in, which it takes from the directory of a model or of a version.
const BATCH_STRATEGY: &str = "batchstrategy.so";

/// Looks at the files of a model before anything is loaded. Blocking: it reads the files that are to be checked.
///
/// # Errors
/// What is wrong: file, expected and found checksum; an agent that is not known; a plug-in that is not supported.
pub(crate) fn check_files(raw: Option<&RawConfig>, found: &FoundModel) -> Result<(), LoadError> {
    let directories = std::iter::once(&found.dir).chain(found.versions.values());
    if let Some(plugin) = directories.map(|it| it.join(BATCH_STRATEGY)).find(|it| it.is_file()) {
        let plugin = plugin.display();
        return Err(LoadError::Refused(format!(
            "the batching plug-in '{plugin}' is not supported; remove it where the model does without"
        )));
    }
    let agents = raw.and_then(|it| it.model_repository_agents.as_ref());
    let agents = agents.map(|it| it.agents.as_slice()).unwrap_or_default();
    agents.iter().enumerate().try_for_each(|(index, agent)| {
        let place = format!("model_repository_agents.agents[{index}]");
        check_agent(agent, &found.dir).map_err(|it| format!("{place}: {it}").into())
    })
}

fn check_agent(agent: &Agent, dir: &Path) -> Result<(), LoadError> {
    if !AGENTS.contains(&&*agent.name) {
        let hint = nearest(&agent.name, AGENTS).map(|it| format!("; did you mean '{it}'?"));
        let (name, known) = (&agent.name, AGENTS.join(" or "));
        let hint = hint.unwrap_or_default();
        return Err(format!("the agent '{name}' is not known; expected {known}{hint}").into());
    }
    let mut parameters: Vec<_> = agent.parameters.iter().collect();
    parameters.sort();
    for (key, expected) in parameters {
        let Some(name) = key.strip_prefix("MD5:") else {
            let problem = format!("checksum: '{key}' is not known; expected MD5:<path of a file>");
            return Err(problem.into());
        };
        let mut report = Report::default();
        file_name("checksum", name, &mut report);
        if let Some(problem) = report.problems.pop() {
            return Err(problem.into());
        }
        let path = dir.join(name);
        let found =
            md5(&path).map_err(|it| format!("checksum: cannot read {}: {it}", path.display()))?;
        let (path, expected) = (path.display(), expected.trim());
        if !found.eq_ignore_ascii_case(expected) {
            let problem = format!("checksum: {path} has the MD5 {found}, expected {expected}");
            return Err(problem.into());
        }
    }
    Ok(())
}

/// In hexadecimal.
fn md5(path: &Path) -> io::Result<String> {
    let mut file = backend::open_file(path)?;
    let mut hash = Md5::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(hash.finalize().iter().map(|it| format!("{it:02x}")).collect())
}
