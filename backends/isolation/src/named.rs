//! Files that a model's configuration names for its engine to read or to write.

use std::path::Path;

use backend::ModelSource;

/// The settings of these names and what they say, those of accelerators included. A value without `/` is a file in a
/// directory that another setting names, or no file at all.
pub(crate) fn named_files<'a>(
    source: &'a ModelSource,
    settings: &'a [&str],
) -> impl Iterator<Item = (&'a str, &'a Path)> {
    let accelerators = source.accelerators.iter().flat_map(|it| &it.parameters);
    let all = source.options.iter().chain(accelerators);
    let named = all.filter(|(setting, _)| settings.contains(&&***setting));
    named
        .map(|(setting, value)| (&**setting, Path::new(value)))
        .filter(|(_, it)| !it.as_os_str().is_empty())
}
