//! Which requests have too many rows, where that is asked for.

use serving::config::raw;

/// Most rows of one request, where a `max_batch_size` that is written down bounds it.
pub(crate) fn strict_rows(raw: Option<&raw::ModelConfig>, is_strict: bool) -> Option<usize> {
    let written = usize::try_from(raw?.max_batch_size?).ok();
    written.filter(|it| is_strict && 0 < *it)
}
