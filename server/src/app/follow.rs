//! Polling of the model directories, and of the file that names models, so that models come and go while the server
//! runs.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
};

use crate::config::ServerConfig;
use loading::{
    Control,
    settings::{ControlMode, ModelsFrom, NamedModels},
};

/// Starts to follow the repository and the model config file, where the settings say so, until the returned value is
/// dropped.
pub(super) fn start(
    config: &ServerConfig,
    control: &Arc<Control>,
) -> io::Result<Vec<mpsc::Sender<()>>> {
    let mut following = Vec::new();
    let mut spawn = |name: &str, work: Box<dyn FnOnce(mpsc::Receiver<()>) + Send>| {
        let (stop, stopped) = mpsc::channel();
        following.push(stop);
        let builder = thread::Builder::new().name(name.to_owned());
        builder.spawn(move || work(stopped)).map(drop)
    };
    if let ControlMode::Poll(every) = config.control.mode {
        let control = control.clone();
        spawn("poll", Box::new(move |stopped| control.follow(every, &stopped)))?;
    }
    let named = match &config.repository.from {
        ModelsFrom::Named(named) => Some(named.clone()),
        ModelsFrom::Repositories(_) | ModelsFrom::Path(_) | ModelsFrom::Fetched(_) => None,
    };
    if let Some(NamedModels::File { path, every: Some(every) }) = named {
        let control = control.clone();
        spawn(
            "config-file",
            Box::new(move |stopped| control.named_models().follow_file(&path, every, &stopped)),
        )?;
    }
    Ok(following)
}
