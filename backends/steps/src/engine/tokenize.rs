//! The step `tokenize`: texts to token ids, padded to one length.
//!
//! Of a batch each text is one row. Without a dimension of rows (`max_batch_size: 0`) one text makes several: its
//! windows, or its pairs with each of the second texts.

use backend::{BackendError, NamedTensor};

use super::{
    call::{Call, invalid},
    kept::MASK,
    kind::{Opened, Run},
    padding::{Padding, Rows},
    ports::{INTEGERS, TEXT, optional, port, spec},
    settings::StepSettings,
    vocabulary::{self, Vocabulary},
};
use crate::{
    error::RowError,
    side::Side,
    task::{USUAL_LIMIT, smallest_limit},
    text::{Detail, Encode, Encoded, Strategy, TextLimits, Truncation},
};

pub(super) const PARAMETERS: &[&str] = &[
    "file",
    "max_length",
    "truncation",
    "truncation_side",
    "stride",
    "padding",
    "pad_to_multiple_of",
    "add_special_tokens",
    "lower_case",
    "prompt",
    "template",
];

/// Rows that one text may make.
const MOST_ROWS: usize = 2048;

struct Tokenize {
    vocabulary: Vocabulary,
    limits: TextLimits,
    /// `None`: texts that are too long are refused.
    truncation: Option<Truncation>,
    padding: Padding,
    adds_special: bool,
    /// In front of every text.
    prompt: Option<String>,
    /// What stands before and behind a second text.
    template: Option<(String, String)>,
    /// Does one text make several rows?
    is_unbatched: bool,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let lower_case = settings.flag("lower_case")?.unwrap_or(false);
    let vocabulary = vocabulary::open(settings, lower_case)?;
    let usual = smallest_limit(&vocabulary.config, [vocabulary.names.model_max_length, None]);
    let max_length = settings.count("max_length")?.or(usual).unwrap_or(USUAL_LIMIT);
    let is_unbatched = settings.is_unbatched();
    let truncation = truncation(settings, &vocabulary, max_length)?;
    if !is_unbatched && truncation.is_some_and(|it| it.stride.is_some()) {
        let problem = "windows are several rows of one text; write max_batch_size: 0";
        return Err(settings.wrong("stride", problem));
    }
    let adds_special = settings.flag("add_special_tokens")?.unwrap_or(true);
    let special = match adds_special {
        // A template is that of second texts.
        true => vocabulary.tokenizer.special(settings.text("template").is_some()),
        false => 0,
    };
    check_room(settings, special, max_length, truncation)?;
    let template = match settings.text("template") {
        None => None,
        Some(text) => match text.split_once("{}") {
            Some((before, behind)) => Some((before.to_owned(), behind.to_owned())),
            None => {
                let problem = "it has no {} where the second text would stand";
                return Err(settings.wrong("template", problem));
            }
        },
    };
    let side = vocabulary.names.padding_side.unwrap_or_default();
    let padding = Padding::read(settings, max_length, side)?;
    let bytes = TextLimits::DEFAULT_BYTES;
    let step = Tokenize {
        vocabulary,
        limits: TextLimits { bytes, tokens: max_length },
        truncation,
        padding,
        adds_special,
        prompt: settings.text("prompt").filter(|it| !it.is_empty()).map(str::to_owned),
        template,
        is_unbatched,
    };
    let inputs = match is_unbatched {
        true => [port("text", TEXT, &[Some(1)]), optional("text_pair", TEXT, &[None])],
        false => {
            [port("text", TEXT, &[None, Some(1)]), optional("text_pair", TEXT, &[None, Some(1)])]
        }
    };
    let tokens = |name| port(name, INTEGERS, &[None, None]);
    let outputs = [
        tokens("input_ids"),
        tokens(MASK),
        tokens("token_type_ids"),
        tokens("position_ids"),
        port("offsets", INTEGERS, &[None, None, Some(2)]),
        tokens("special_tokens_mask"),
        tokens("word_ids"),
    ];
    let spec = spec(settings.source, &inputs, &outputs);
    Ok(Opened { spec, run: Box::new(step) })
}

/// How texts that are too long are cut.
fn truncation(
    settings: &StepSettings<'_>,
    vocabulary: &Vocabulary,
    max_length: usize,
) -> Result<Option<Truncation>, BackendError> {
    let names = ["longest_first", "only_first", "only_second", "none"];
    let read = |name: &str| match name {
        "none" => Some(None),
        name => Strategy::from_name(name).map(Some),
    };
    let strategy = settings.named("truncation", &names, read)?;
    let strategy = strategy.unwrap_or(Some(Strategy::LongestFirst));
    let side = settings.named("truncation_side", &["left", "right"], Side::from_name)?;
    let side = side.or(vocabulary.names.truncation_side).unwrap_or_default();
    let stride = settings.count_from_zero("stride")?;
    match (strategy, stride) {
        (None, Some(_)) => Err(settings.wrong("stride", "windows are cut, and truncation is none")),
        (None, None) => Ok(None),
        (Some(strategy), stride) => Ok(Some(Truncation { max_length, strategy, side, stride })),
    }
}

/// Refuses lengths with which no text, or no text that is cut, could be taken. The tokenizer adds so many `special`
/// tokens to each.
fn check_room(
    settings: &StepSettings<'_>,
    special: usize,
    max_length: usize,
    truncation: Option<Truncation>,
) -> Result<(), BackendError> {
    let room = max_length.saturating_sub(special);
    if room == 0 {
        let problem = format!(
            "{max_length} leaves no room for a text: the tokenizer adds {special} tokens of its own; it is {} or more",
            special + 1
        );
        return Err(settings.wrong("max_length", problem));
    }
    match truncation.and_then(|it| it.stride) {
        Some(stride) if room <= stride => {
            let problem = format!(
                "windows of {room} tokens, which is max_length {max_length} less {special} that the tokenizer adds, \
                 cannot share {stride}; it is at most {}",
                room - 1
            );
            Err(settings.wrong("stride", problem))
        }
        Some(_) | None => Ok(()),
    }
}

impl Run for Tokenize {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let has_details = call.wants("offsets") || call.wants("word_ids");
        let detail = if has_details { Detail::Characters } else { Detail::Ids };
        let texts = call.texts("text")?;
        let pairs = call.optional_texts("text_pair")?;
        let has_pairs = pairs.is_some();
        let mut rows: Vec<Encoded> = Vec::with_capacity(texts.len());
        match (self.is_unbatched, pairs) {
            (true, pairs) => {
                let [text] = *texts else { return Err(invalid("text", "it is not one text")) };
                if pairs.as_ref().is_some_and(|it| it.len() > MOST_ROWS) {
                    let problem = format!("at most {MOST_ROWS} texts are taken at once");
                    return Err(invalid("text_pair", &problem));
                }
                let pairs = match pairs {
                    Some(pairs) => pairs.into_iter().map(Some).collect(),
                    None => vec![None],
                };
                for pair in pairs {
                    call.check()?;
                    rows.extend(self.encode(text, pair, detail)?);
                    if rows.len() > MOST_ROWS {
                        let problem = format!("its windows make more than {MOST_ROWS} rows");
                        return Err(invalid("text", &problem));
                    }
                }
            }
            (false, Some(pairs)) => {
                if pairs.len() != texts.len() {
                    return Err(invalid("text_pair", "it has not as many texts as 'text'"));
                }
                for (text, pair) in texts.into_iter().zip(pairs) {
                    call.check()?;
                    // As in the reference, where an empty second text is none.
                    let pair = Some(pair).filter(|it| !it.is_empty());
                    rows.extend(self.encode(text, pair, detail)?);
                }
            }
            (false, None) => {
                for text in texts {
                    call.check()?;
                    rows.extend(self.encode(text, None, detail)?);
                }
            }
        }
        let (pad, first) = (self.vocabulary.special.pad, self.vocabulary.config.first_position());
        let rows = Rows { rows: &rows, padding: self.padding, pad, first, has_pairs };
        rows.outputs(call)
    }
}

impl Tokenize {
    /// The windows of a text or a pair: one, unless it is cut into several.
    fn encode(
        &self,
        text: &str,
        pair: Option<&str>,
        detail: Detail,
    ) -> Result<Vec<Encoded>, BackendError> {
        let prompted: String;
        let text = match &self.prompt {
            Some(prompt) => {
                prompted = format!("{prompt}{text}");
                &prompted
            }
            None => text,
        };
        let filled: String;
        let pair = match (pair, &self.template) {
            (Some(pair), Some((before, behind))) => {
                filled = format!("{before}{pair}{behind}");
                Some(filled.as_str())
            }
            (pair, _) => pair,
        };
        let (text, pair) = (self.limited(text)?, pair.map(|it| self.limited(it)).transpose()?);
        let how =
            Encode { add_special_tokens: self.adds_special, detail, truncation: self.truncation };
        let encoding = self.vocabulary.tokenizer.encode(text, pair, &how)?;
        let (given, allowed) = (encoding.given, self.limits.tokens);
        if self.truncation.is_none() && given > allowed {
            return Err(RowError::TooManyTokens { given, allowed }.into());
        }
        if encoding.windows.iter().any(|it| it.ids.is_empty()) {
            return Err(RowError::Input("the text has no tokens".to_owned()).into());
        }
        Ok(encoding.windows)
    }

    /// The part of a text that reaches the tokenizer.
    fn limited<'t>(&self, text: &'t str) -> Result<&'t str, RowError> {
        match self.truncation {
            Some(Truncation { stride: Some(_), .. }) => self.limits.whole(text),
            truncation => self.limits.apply(text, truncation.map(|it| it.side)),
        }
    }
}
