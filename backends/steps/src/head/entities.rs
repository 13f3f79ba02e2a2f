//! Scores of tokens to entities: tokens to words, words to groups.

use std::sync::Arc;

use super::{
    classify::check_numbers,
    embed::token_vectors,
    function::{argmax, softmax},
};
use crate::{
    error::RowError,
    outputs::RowOutput,
    reply::Entity,
    request::Strategy,
    text::{Encoded, Tokenizer},
};

/// The text whose tokens were scored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scored {
    /// The text.
    pub(crate) text: String,
    /// Its windows, one for each row.
    pub(crate) windows: Vec<Encoded>,
    /// How tokens become entities.
    pub(crate) strategy: Strategy,
    /// Labels that are no entities.
    pub(crate) ignored: Vec<String>,
    /// The token for what the vocabulary does not have.
    pub(crate) unknown: Option<u32>,
}

/// A token, or a word of several.
struct Piece<'a> {
    word: String,
    scores: &'a [f32],
    start: usize,
    end: usize,
    index: usize,
    is_continued: bool,
}

/// A piece with its class.
struct Tagged {
    class: usize,
    score: f32,
    word: String,
    start: usize,
    end: usize,
    index: usize,
}

/// The scores of each token of a row, one list behind the other.
///
/// # Errors
/// When the output has not the shape `[tokens, classes]`, or a value is no number.
pub(crate) fn token_scores(output: &RowOutput<'_>) -> Result<Vec<f32>, RowError> {
    let width = token_vectors(output)?.width;
    let mut values = output.values.to_vec();
    values.chunks_exact_mut(width).for_each(softmax);
    check_numbers(&values, output.name)?;
    Ok(values)
}

/// The entities of a text. Each row has the scores of the tokens of one window.
///
/// # Errors
/// When a row has not the scores of its window's tokens, or the tokenizer fails.
pub(crate) fn entities(
    tokenizer: &Tokenizer,
    labels: &[Arc<str>],
    scored: &Scored,
    rows: &[Vec<f32>],
    output: &str,
) -> Result<Vec<Entity>, RowError> {
    let characters: Vec<char> = scored.text.chars().collect();
    let mut found = Vec::new();
    for (window, scores) in scored.windows.iter().zip(rows) {
        if scores.len() != window.ids.len() * labels.len() {
            let problem = format!("it has {} scores for a window", scores.len());
            return Err(RowError::Output { output: output.to_owned(), problem });
        }
        let scores = scores.chunks_exact(labels.len().max(1));
        let pieces = pieces(tokenizer, scored, &characters, window, scores);
        let tagged = match scored.strategy {
            Strategy::None | Strategy::Simple => pieces.into_iter().map(tagged).collect(),
            Strategy::First | Strategy::Max | Strategy::Average => {
                let words = pieces.chunk_by(|_, next| next.is_continued);
                let tag = |word| tagged_word(tokenizer, scored.strategy, word);
                words.map(tag).collect::<Result<Vec<_>, _>>()?
            }
        };
        let given = match scored.strategy {
            Strategy::None => tagged.into_iter().map(|it| alone(it, labels)).collect(),
            _ => groups(tokenizer, &tagged, labels)?,
        };
        found.extend(
            given.into_iter().filter(|it| !scored.ignored.iter().any(|o| **o == *it.label)),
        );
    }
    Ok(if rows.len() > 1 { without_overlaps(found) } else { found })
}

/// The tokens of a window, special ones left out.
fn pieces<'a>(
    tokenizer: &Tokenizer,
    scored: &Scored,
    characters: &[char],
    window: &Encoded,
    scores: impl Iterator<Item = &'a [f32]>,
) -> Vec<Piece<'a>> {
    let knows_words = tokenizer.continuing_prefix().is_some();
    let mut pieces = Vec::with_capacity(window.ids.len());
    for (index, scores) in scores.enumerate().filter(|(index, _)| !window.is_special[*index]) {
        let id = window.ids[index];
        let (start, end) = window.offsets[index];
        let slice = characters.get(start..end).unwrap_or_default();
        let mut word = tokenizer.token(id).unwrap_or_default();
        let mut is_continued = match knows_words {
            // A continuing piece is longer than its text, by its prefix.
            true => word.chars().count() != slice.len(),
            false => {
                let around = &characters[start.saturating_sub(1)..characters.len().min(start + 1)];
                start > 0 && !around.contains(&' ')
            }
        };
        if Some(id) == scored.unknown {
            word = slice.iter().collect();
            is_continued = false;
        }
        pieces.push(Piece { word, scores, start, end, index, is_continued });
    }
    pieces
}

fn tagged(piece: Piece<'_>) -> Tagged {
    let class = argmax(piece.scores);
    let Piece { word, scores, start, end, index, .. } = piece;
    Tagged { class, score: scores[class], word, start, end, index }
}

/// A word of at least one piece as one.
fn tagged_word(
    tokenizer: &Tokenizer,
    strategy: Strategy,
    pieces: &[Piece<'_>],
) -> Result<Tagged, RowError> {
    let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
    let best = |it: &Piece<'_>| it.scores[argmax(it.scores)];
    let scores = match strategy {
        Strategy::Average => {
            let mut mean = vec![0.0f32; first.scores.len()];
            for piece in pieces {
                mean.iter_mut().zip(piece.scores).for_each(|(sum, score)| *sum += score);
            }
            mean.iter_mut().for_each(|it| *it /= pieces.len() as f32);
            mean
        }
        Strategy::Max => {
            let bests: Vec<f32> = pieces.iter().map(best).collect();
            pieces[argmax(&bests)].scores.to_vec()
        }
        Strategy::First | Strategy::None | Strategy::Simple => first.scores.to_vec(),
    };
    let class = argmax(&scores);
    let word = tokenizer.join(pieces.iter().map(|it| it.word.clone()).collect())?;
    let (start, end, index) = (first.start, last.end, first.index);
    Ok(Tagged { class, score: scores[class], word, start, end, index })
}

fn alone(it: Tagged, labels: &[Arc<str>]) -> Entity {
    Entity {
        label: labels[it.class].clone(),
        score: it.score,
        index: Some(it.index),
        word: it.word,
        start: it.start,
        end: it.end,
    }
}

/// Whether a label begins an entity, and its tag without `B-` or `I-`.
fn tag(label: &str) -> (bool, &str) {
    match (label.strip_prefix("B-"), label.strip_prefix("I-")) {
        (Some(tag), _) => (true, tag),
        (None, Some(tag)) => (false, tag),
        (None, None) => (false, label),
    }
}

/// Neighbours with the same tag as one entity, unless the second begins another.
fn groups(
    tokenizer: &Tokenizer,
    tagged: &[Tagged],
    labels: &[Arc<str>],
) -> Result<Vec<Entity>, RowError> {
    let belongs = |last: &Tagged, next: &Tagged| {
        let (begins, next) = tag(&labels[next.class]);
        !begins && next == tag(&labels[last.class]).1
    };
    let group = |members: &[Tagged]| {
        let (first, last) = (&members[0], &members[members.len() - 1]);
        let label = &labels[first.class];
        let sum: f32 = members.iter().map(|it| it.score).sum();
        Ok(Entity {
            label: label.split_once('-').map_or(&**label, |it| it.1).into(),
            score: sum / members.len() as f32,
            index: None,
            word: tokenizer.join(members.iter().map(|it| it.word.clone()).collect())?,
            start: first.start,
            end: last.end,
        })
    };
    tagged.chunk_by(belongs).map(group).collect()
}

/// Of entities of several windows that overlap the longer one, of equally long ones that with the higher score.
fn without_overlaps(mut entities: Vec<Entity>) -> Vec<Entity> {
    entities.sort_by_key(|it| it.start);
    let mut kept: Vec<Entity> = Vec::with_capacity(entities.len());
    for entity in entities {
        let Some(last) = kept.last_mut() else {
            kept.push(entity);
            continue;
        };
        if !(last.start <= entity.start && entity.start < last.end) {
            kept.push(entity);
            continue;
        }
        let (before, now) = (last.end - last.start, entity.end - entity.start);
        if now > before || (now == before && entity.score > last.score) {
            *last = entity;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(start: usize, end: usize, score: f32) -> Entity {
        Entity { label: "A".into(), score, index: None, word: String::new(), start, end }
    }

    #[test]
    fn of_overlapping_entities_the_longer_stays_then_the_surer() {
        let found = without_overlaps(vec![
            entity(8, 9, 0.5),
            entity(0, 2, 0.9),
            entity(1, 4, 0.1),
            entity(8, 9, 0.6),
        ]);
        let found: Vec<(usize, usize, f32)> =
            found.iter().map(|it| (it.start, it.end, it.score)).collect();
        assert_eq!(found, [(1, 4, 0.1), (8, 9, 0.6)]);
    }

    #[test]
    fn a_label_without_a_prefix_continues() {
        assert_eq!(tag("B-PER"), (true, "PER"));
        assert_eq!(tag("I-PER"), (false, "PER"));
        assert_eq!(tag("PER"), (false, "PER"));
    }
}
