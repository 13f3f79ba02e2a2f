//! The vocabulary at a mask: the best tokens, and the text with each in its place.

use std::sync::Arc;

use audio::StillWanted;

use super::{classify::check_numbers, function::softmax};
use crate::{error::RowError, outputs::RowOutput, reply::Fill, text::Tokenizer};

/// Most fills of one text.
const MOST_FILLS: usize = 10_000;

/// Most tokens of all fills of one text together: each fill has the whole text, as a text and in the JSON.
const MOST_DECODED: usize = 1 << 22;

/// A text would have more fills than a reply may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyFills {
    #[error("{masks} masks have at most {MOST_FILLS} fills")]
    OfMasks { masks: usize },
    #[error(
        "a text of {tokens} tokens has at most {most} fills, and with {masks} masks it would have {fills}"
    )]
    OfText { tokens: usize, masks: usize, most: usize, fills: usize },
}

/// Fails where a text of so many tokens and masks would have too many fills: for each mask `top_k`, or one for each of
/// `choice` tokens where these are fewer.
///
/// # Errors
/// What is wrong with `top_k`.
pub(crate) fn check_fills(
    (tokens, masks): (usize, usize),
    top_k: usize,
    choice: usize,
) -> Result<(), TooManyFills> {
    if top_k.saturating_mul(masks) > MOST_FILLS {
        return Err(TooManyFills::OfMasks { masks });
    }
    let (fills, most) = (top_k.min(choice).saturating_mul(masks), MOST_DECODED / tokens.max(1));
    if fills > most {
        return Err(TooManyFills::OfText { tokens, masks, most, fills });
    }
    Ok(())
}

/// Which tokens are looked for, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MaskWork {
    /// Places of the masks in the row.
    pub(crate) positions: Vec<usize>,
    /// How many tokens.
    pub(crate) top_k: usize,
    /// The only tokens that count; `None`: all.
    pub(crate) targets: Option<Arc<[u32]>>,
}

/// The row in which masks are filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Its tokens.
    pub(crate) ids: Vec<u32>,
    /// Places of the masks in it.
    pub(crate) positions: Vec<usize>,
    /// The token for padding, which is left out of the text.
    pub(crate) pad: u32,
}

/// The best tokens at each mask and their scores.
///
/// # Errors
/// When the output has not the shape `[tokens, vocabulary]`, or a value is no number.
pub(crate) fn best(
    output: &RowOutput<'_>,
    work: &MaskWork,
) -> Result<Vec<Vec<(u32, f32)>>, RowError> {
    let error = |problem| RowError::Output { output: output.name.to_owned(), problem };
    let [_, width] = *output.dims else {
        let problem = format!("a row has the shape {:?}, not [tokens, vocabulary]", output.dims);
        return Err(error(problem));
    };
    let mut found = Vec::with_capacity(work.positions.len());
    for &position in &work.positions {
        let logits = output.values.get(position * width..(position + 1) * width);
        let mut scores = logits.ok_or_else(|| error("it has too few tokens".to_owned()))?.to_vec();
        softmax(&mut scores);
        check_numbers(&scores, output.name)?;
        let score = |id: u32| scores.get(id as usize).map(|score| (id, *score));
        let mut ranked: Vec<(u32, f32)> = match &work.targets {
            Some(targets) => targets.iter().filter_map(|&id| score(id)).collect(),
            None => (0..).zip(scores.iter().copied()).collect(),
        };
        let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if ranked.len() > work.top_k && work.top_k > 0 {
            ranked.select_nth_unstable_by(work.top_k - 1, order);
        }
        ranked.truncate(work.top_k);
        ranked.sort_by(order);
        found.push(ranked);
    }
    Ok(found)
}

/// The replies at each mask.
///
/// # Errors
/// When the tokenizer fails. [`RowError::Stopped`] where they are not `wanted` any more, which is asked for each.
pub(crate) fn fills(
    tokenizer: &Tokenizer,
    masked: &Masked,
    found: &[Vec<(u32, f32)>],
    wanted: StillWanted<'_>,
) -> Result<Vec<Vec<Fill>>, RowError> {
    // With several masks the others stay in the text, and so do all special tokens.
    let skips_special = masked.positions.len() == 1;
    let fill = |position: usize, &(token, score): &(u32, f32)| {
        if !wanted() {
            return Err(RowError::Stopped);
        }
        let mut ids = masked.ids.clone();
        ids[position] = token;
        ids.retain(|it| *it != masked.pad);
        Ok(Fill {
            score,
            token,
            token_str: tokenizer.decode(&[token], false)?,
            sequence: tokenizer.decode(&ids, skips_special)?,
        })
    };
    let at = |(&position, ranked): (&usize, &Vec<(u32, f32)>)| {
        ranked.iter().map(|it| fill(position, it)).collect()
    };
    masked.positions.iter().zip(found).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_all_or_of_the_targets_come_first() {
        let values = vec![9.0, 9.0, 9.0, 0.0, 2.0, 1.0].into();
        let output = RowOutput { name: "logits", dims: vec![2, 3], values };
        let run = |top_k, targets: Option<&[u32]>| {
            let targets = targets.map(Arc::from);
            let found = best(&output, &MaskWork { positions: vec![1], top_k, targets }).unwrap();
            found[0].iter().map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(run(2, None), [1, 2]);
        assert_eq!(run(5, None), [1, 2, 0]);
        assert_eq!(run(5, Some(&[0, 2])), [2, 0]);
        assert_eq!(run(5, Some(&[7])), [0; 0]);
    }

    #[test]
    fn the_fills_of_a_text_are_fewer_the_longer_it_is() {
        assert_eq!(check_fills((8192, 1), 512, 30_000), Ok(()));
        let error = check_fills((8192, 1), 10_000, 30_000).unwrap_err().to_string();
        let text =
            "a text of 8192 tokens has at most 512 fills, and with 1 masks it would have 10000";
        assert_eq!(error, text);
        assert!(check_fills((8192, 200), 3, 30_000).is_err());
        assert_eq!(check_fills((8192, 1), 10_000, 7), Ok(()), "there are only seven tokens");
        assert_eq!(check_fills((16, 1), 10_000, 30_000), Ok(()));
        let error = check_fills((16, 2), 5001, 30_000).unwrap_err().to_string();
        assert_eq!(error, "2 masks have at most 10000 fills");
    }
}
