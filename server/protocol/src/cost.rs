//! What a request to a model of texts has taken, as headers of its reply.

use crate::terms::Terms;

/// The device that computed the answer.
pub const TYPE: &str = "x-compute-type";
/// The time from the head of the request to its answer, in milliseconds.
pub const TIME: &str = "x-compute-time";
/// The same: all of it is counted as work.
pub const TOTAL_TIME: &str = "x-total-time";
const CHARACTERS: &str = "x-compute-characters";
const TOKENS: &str = "x-compute-tokens";

/// The headers of a reply to texts of so many characters and tokens.
pub(crate) fn headers(
    terms: &Terms,
    characters: usize,
    tokens: u64,
) -> Vec<(&'static str, String)> {
    vec![
        (TYPE, terms.device.to_owned()),
        (CHARACTERS, characters.to_string()),
        (TOKENS, tokens.to_string()),
    ]
}
