//! Models of a hosting platform: what may be in its folder, which are loaded at the start, and in which versions.

use std::path::{Path, PathBuf};

use super::user_scripts::UserScripts;
use configuration::{Environment, Flag, PathKind, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("root-model", "false", "Serve a model whose config.pbtxt lies directly in the platform's folder, as \"model\" whatever it says"),
];

/// Beside the folder of the model: further folders, by what the platform calls them.
const CHANNELS: &str = "additional-model-data-sources";

/// What the platform's folder may hold besides a repository, a model or versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlatformFolder {
    /// Further folders that may hold repositories, each in this one; `None` where there is none.
    pub channels: Option<PathBuf>,
    /// `--root-model`: `config.pbtxt` may lie directly in the folder.
    pub root_model: bool,
    /// Scripts that come with models.
    pub scripts: UserScripts,
    /// In whose way its models serve; in Triton's where there is no platform.
    pub way: HostedWay,
}

/// The models that a hosted server loads at its start, where no flag says how models are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedStart {
    /// Whose way.
    pub way: HostedWay,
    /// The model that is named, which must be there.
    pub default_model: Option<String>,
}

/// In the way of which container are models and their versions chosen?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostedWay {
    /// The model that is named, or the only one, and those that it is made of; the latest version of each whose
    /// configuration names none.
    #[default]
    Triton,
    /// All of them; the default is the one that is named, or the first by name. Every version of each whose
    /// configuration names none, as that container lists them all in the file of models that it writes. Source:
    /// `tfs_utils.py` and `serve.py` of <https://github.com/aws/sagemaker-tensorflow-serving-container>.
    TensorFlowServing,
    /// No setting says whose: in TensorFlow Serving's where all that lies there are SavedModels as its container has
    /// them, which needs no variable; else in Triton's. Versions of such a model serve in TensorFlow Serving's way
    /// whatever lies beside it.
    ByModels,
}

/// What there is beside the models in the platform's folder, and how they serve.
pub fn folder(
    sources: &Sources,
    environment: &dyn Environment,
    platforms: Option<&Path>,
    way: HostedWay,
    problems: &mut Vec<String>,
) -> PlatformFolder {
    let channels = platforms.and_then(Path::parent).map(|it| it.join(CHANNELS));
    PlatformFolder {
        channels: channels.filter(|it| environment.kind_of(it) == Some(PathKind::Directory)),
        root_model: sources.read("root-model", value::boolean, problems).unwrap_or(false),
        scripts: UserScripts::default(),
        way,
    }
}

/// The rule of a hosted start; `None` where a flag says how models are loaded.
pub fn start(
    sources: &Sources,
    way: HostedWay,
    default_model: Option<&String>,
) -> Option<HostedStart> {
    const CONTROLS: [&str; 4] =
        ["model-control-mode", "watch", "load-model", "model-load-on-demand"];
    if CONTROLS.iter().any(|it| sources.last(it).is_some()) {
        return None;
    }
    Some(HostedStart { way, default_model: default_model.cloned() })
}
