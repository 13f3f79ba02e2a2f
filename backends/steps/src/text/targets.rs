//! The only words that a mask may stand for, as tokens.

use std::{collections::HashSet, sync::Arc};

use audio::StillWanted;

use super::{
    encoded::{Detail, Encode},
    limits::TextLimits,
    tokenize::Tokenizer,
};
use crate::error::RowError;

/// Most targets of one text: as many as it has fills at most.
const MOST_TARGETS: usize = 10_000;

/// The tokens that are these words, or that these words begin with, each once.
///
/// # Errors
/// When there are too many words, one is too long, or none is in the vocabulary. [`RowError::Stopped`] where they are
/// not `wanted` any more, which is asked for each.
pub(crate) fn target_ids(
    tokenizer: &Tokenizer,
    limits: TextLimits,
    targets: &[String],
    wanted: StillWanted<'_>,
) -> Result<Arc<[u32]>, RowError> {
    let wrong = |problem| RowError::Parameter { name: "targets".to_owned(), problem };
    if MOST_TARGETS < targets.len() {
        let problem = format!("it has {} words, at most {MOST_TARGETS} are taken", targets.len());
        return Err(wrong(problem));
    }
    let how = Encode { add_special_tokens: false, detail: Detail::Ids, truncation: None };
    let (mut ids, mut known) = (Vec::new(), HashSet::new());
    for target in targets {
        if !wanted() {
            return Err(RowError::Stopped);
        }
        let text = limits.whole(target)?;
        let id = match tokenizer.id(text) {
            Some(id) => Some(id),
            None => tokenizer.encode(text, None, &how)?.windows[0].ids.first().copied(),
        };
        ids.extend(id.filter(|it| known.insert(*it)));
    }
    match ids.is_empty() {
        true => Err(wrong("no target is a word of the vocabulary".to_owned())),
        false => Ok(ids.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn tokenizer() -> Tokenizer {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/fixtures/pipelines/fill-mask/folder/tokenizer.json"
        );
        Tokenizer::from_bytes(&std::fs::read(path).unwrap(), "tokenizer.json", false).unwrap()
    }

    const LIMITS: TextLimits = TextLimits { bytes: 1000, tokens: usize::MAX };

    fn of(targets: &[String], wanted: StillWanted<'_>) -> Result<Vec<u32>, RowError> {
        target_ids(&tokenizer(), LIMITS, targets, wanted).map(|it| it.to_vec())
    }

    #[test]
    fn a_target_that_is_said_twice_is_one() {
        let words = ["a", "film", "a", "film", "film"].map(str::to_owned);
        let ids = of(&words, &|| true).unwrap();
        assert_eq!(ids.len(), 2);
        assert_eq!(ids, of(&words[..2], &|| true).unwrap());
    }

    #[test]
    fn targets_are_bounded_and_end_where_nobody_waits_for_them() {
        let asked = AtomicUsize::new(0);
        let wanted = || asked.fetch_add(1, Ordering::Relaxed) < 3;
        let most = vec!["a".to_owned(); MOST_TARGETS];
        assert_eq!(of(&most, &wanted), Err(RowError::Stopped));
        assert_eq!(asked.load(Ordering::Relaxed), 4);
        let more = vec!["a".to_owned(); MOST_TARGETS + 1];
        let error = of(&more, &wanted).unwrap_err().to_string();
        assert_eq!(error, "parameter 'targets': it has 10001 words, at most 10000 are taken");
    }
}
