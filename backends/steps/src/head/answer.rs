//! Scores of first and last tokens to answers in the context.

use std::collections::{HashMap, hash_map::Entry};

use super::function::softmax;
use crate::{
    error::RowError, outputs::RowOutput, reply::Answer, request::AnswerParameters, text::Encoded,
};

/// Spans of one window that are looked at, however many answers are wanted.
const MOST_SPANS: usize = 10_000;

/// Answers to one question.
pub(crate) const MOST_ANSWERS: usize = 100;

/// A question and its context.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// The context.
    pub(crate) context: String,
    /// Question and context as windows, one for each row.
    pub(crate) windows: Vec<Encoded>,
    /// For each window which tokens may be in an answer.
    pub(crate) allowed: Vec<Vec<bool>>,
    /// Which of the two texts the context is.
    pub(crate) sequence: usize,
    /// How many answers.
    pub(crate) top_k: usize,
    /// What the request says.
    pub(crate) parameters: AnswerParameters,
}

/// Probabilities of each token of a row to be the first of an answer, or the last. Tokens that are not `allowed` do
/// not count.
///
/// # Errors
/// When the output has not as many values as the row has tokens, or one is no number.
pub(crate) fn probabilities(
    output: &RowOutput<'_>,
    allowed: &[bool],
) -> Result<Vec<f32>, RowError> {
    if output.values.len() != allowed.len() {
        let problem = format!("it has {} values, not {}", output.values.len(), allowed.len());
        return Err(RowError::Output { output: output.name.to_owned(), problem });
    }
    if let Some(position) = output.values.iter().position(|it| it.is_nan()) {
        return Err(RowError::NotANumber { output: output.name.to_owned(), position });
    }
    let logits = output.values.iter().zip(allowed);
    let mut values: Vec<f32> =
        logits.map(|(logit, allowed)| if *allowed { *logit } else { -10000.0 }).collect();
    softmax(&mut values);
    Ok(values)
}

/// The answers, best first. Each row has the probabilities of one window.
pub(crate) fn answers(question: &Question, rows: Vec<(Vec<f32>, Vec<f32>)>) -> Vec<Answer> {
    let parameters = &question.parameters;
    let wanted = match parameters.align_to_words {
        // Several spans may become the same words.
        true => question.top_k.saturating_mul(2).saturating_add(10),
        false => question.top_k,
    };
    let wanted = wanted.min(MOST_SPANS);
    let mut places: HashMap<String, usize> = HashMap::new();
    let characters: Vec<char> = question.context.chars().collect();
    let mut found: Vec<Scored> = Vec::new();
    let mut impossible = 1_000_000f64;
    for (at, (mut start, mut end)) in rows.into_iter().enumerate() {
        if parameters.handle_impossible_answer {
            impossible = impossible.min(f64::from(start[0] * end[0]));
        }
        (start[0], end[0]) = (0.0, 0.0);
        let (window, allowed) = (&question.windows[at], &question.allowed[at]);
        for (first, last, score) in spans(&start, &end, wanted, parameters.max_answer_len) {
            if !allowed[first] || !allowed[last] {
                continue;
            }
            let (from, to) = match parameters.align_to_words {
                true => whole_words(window, question.sequence, first, last),
                false => (window.offsets[first].0, window.offsets[last].1),
            };
            let text: String = characters.get(from..to).unwrap_or_default().iter().collect();
            let (key, score) = (text.to_lowercase(), f64::from(score));
            match places.entry(key) {
                Entry::Occupied(same) => found[*same.get()].score += score,
                Entry::Vacant(place) => {
                    place.insert(found.len());
                    found.push(Scored { text, score, from, to });
                }
            }
        }
    }
    if parameters.handle_impossible_answer {
        found.push(Scored { text: String::new(), score: impossible, from: 0, to: 0 });
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(question.top_k);
    let answer =
        |it: Scored| Answer { score: it.score as f32, start: it.from, end: it.to, answer: it.text };
    found.into_iter().map(answer).collect()
}

/// An answer in the making. Those that are equal but for case are one.
struct Scored {
    text: String,
    score: f64,
    from: usize,
    to: usize,
}

/// The best spans of at most `longest` tokens: first token, last token, score. Equal ones are in the order of their
/// tokens.
fn spans(start: &[f32], end: &[f32], wanted: usize, longest: usize) -> Vec<(usize, usize, f32)> {
    type Span = (usize, usize, f32);
    let order = |a: &Span, b: &Span| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1)));
    let mut spans: Vec<Span> = Vec::new();
    for (first, start) in start.iter().enumerate() {
        let last = end.len().min(first.saturating_add(longest));
        spans.extend((first..last).map(|last| (first, last, start * end[last])));
        // Of a long context with long answers there are millions.
        if spans.len() > 2 * MOST_SPANS && wanted > 0 {
            spans.select_nth_unstable_by(wanted - 1, order);
            spans.truncate(wanted);
        }
    }
    spans.sort_by(order);
    spans.truncate(wanted);
    spans
}

/// From the first character of the first token's word to the last of the last token's; offsets of the tokens where
/// one of them has no word.
fn whole_words(window: &Encoded, sequence: usize, first: usize, last: usize) -> (usize, usize) {
    let word = |token: usize| {
        let number = window.words[token]?;
        let is_in = |at: &usize| {
            window.sequences[*at] == Some(sequence) && window.words[*at] == Some(number)
        };
        let mut tokens = (0..window.ids.len()).filter(is_in);
        let from = tokens.next()?;
        let to = tokens.next_back().unwrap_or(from);
        Some((window.offsets[from].0, window.offsets[to].1))
    };
    match word(first).zip(word(last)) {
        Some((from, to)) => (from.0, to.1),
        None => (window.offsets[first].0, window.offsets[last].1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_forward_and_are_not_too_long() {
        let found = spans(&[0.1, 0.6, 0.3], &[0.5, 0.2, 0.3], 9, 2);
        let places: Vec<(usize, usize)> = found.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(places, [(1, 2), (1, 1), (2, 2), (0, 0), (0, 1)]);
    }

    #[test]
    fn of_many_spans_the_best_are_kept() {
        let mut scores = vec![0.1; 1000];
        scores[700] = 0.9;
        let found = spans(&scores, &scores, 2, usize::MAX);
        assert_eq!((found[0].0, found[0].1), (700, 700));
        assert_eq!((found[1].0, found[1].1), (0, 700));
    }

    #[test]
    fn tokens_that_are_not_allowed_do_not_count() {
        let values = vec![5.0, 1.0, 1.0].into();
        let output = RowOutput { name: "start_logits", dims: vec![3], values };
        let found = probabilities(&output, &[false, true, true]).unwrap();
        assert_eq!(found, [0.0, 0.5, 0.5]);
    }
}
