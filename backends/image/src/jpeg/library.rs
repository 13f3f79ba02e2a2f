//! Which library decodes JPEG, and where it is looked for.

use std::path::PathBuf;

/// Which library decodes JPEG.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum JpegLibrary {
    /// libjpeg-turbo from beside the program or from the system, else zune-jpeg.
    #[default]
    Auto,
    /// libjpeg-turbo from this file.
    File(PathBuf),
    /// zune-jpeg, which is part of the program.
    None,
}

/// The file that was named is no library that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the JPEG library '{file}' cannot be opened: {problem}")]
pub struct LibraryError {
    /// What was opened.
    pub file: String,
    /// What the loader says.
    pub problem: String,
}

/// The name under which Debian and others install the TurboJPEG functions, of versions 1 to 3.
const NAME: &str = "libturbojpeg.so.0";

impl JpegLibrary {
    /// What to open, in this order.
    pub(super) fn candidates(&self) -> Vec<PathBuf> {
        match self {
            JpegLibrary::None => Vec::new(),
            JpegLibrary::File(path) => vec![path.clone()],
            JpegLibrary::Auto => {
                let program = std::env::current_exe().ok();
                let folder = program.as_deref().and_then(|it| it.parent());
                let beside =
                    folder.into_iter().flat_map(|it| [it.join("lib").join(NAME), it.join(NAME)]);
                // Without a folder the loader looks where the system has its libraries.
                beside.filter(|it| it.exists()).chain([PathBuf::from(NAME)]).collect()
            }
        }
    }
}
