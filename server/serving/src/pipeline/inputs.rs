//! The tensors of a request as inputs of a pipeline, one for each row. No text is copied.

use backend::NamedTensor;

use inference::{
    error::Error,
    task::{IMAGE, Medium, RowForm, TEXT, TOKEN_IDS, Task},
};
use steps::Input;

/// One input, with the list of those that belong to it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Row<'a> {
    Text(&'a str),
    Pair(&'a str, &'a str),
    Ids(Vec<u32>),
    Candidates(&'a str, Vec<&'a str>),
    Sentences(&'a str, Vec<&'a str>),
    Ranking(&'a str, Vec<&'a str>),
    File(&'a [u8]),
    FileCandidates(&'a [u8], Vec<&'a str>),
    FileTexts(Option<&'a [u8]>, Vec<&'a str>),
}

impl<'a> Row<'a> {
    /// The same as steps take it.
    pub fn input(&self) -> Input<'_> {
        match self {
            Row::Text(text) => Input::Text(text),
            Row::Pair(one, other) => Input::Pair(one, other),
            Row::Ids(ids) => Input::Ids(ids),
            Row::Candidates(text, labels) => Input::Candidates(text, labels),
            Row::Sentences(text, sentences) => Input::Sentences(text, sentences),
            Row::Ranking(text, texts) => Input::Ranking(text, texts),
            Row::File(bytes) => Input::File(bytes),
            Row::FileCandidates(bytes, labels) => Input::FileCandidates(bytes, labels),
            Row::FileTexts(bytes, texts) => Input::FileTexts(*bytes, texts),
        }
    }

    /// Rows of the graph that it makes at least.
    pub fn rows(&self) -> usize {
        match self {
            Row::Text(_) | Row::Pair(..) | Row::Ids(_) | Row::File(_) => 1,
            Row::Candidates(_, list)
            | Row::Sentences(_, list)
            | Row::Ranking(_, list)
            | Row::FileCandidates(_, list) => list.len(),
            Row::FileTexts(_, list) => list.len().max(1),
        }
    }
}

/// The inputs of a request of that task, whose tensors fit its face.
///
/// # Errors
/// [`Error::InvalidInput`] where a text is not UTF-8, and [`Error::InvalidRequest`] where there are no labels to choose
/// from.
pub fn of_rows<'a>(
    task: Task,
    inputs: &'a [NamedTensor],
    candidate_labels: Option<&'a [String]>,
) -> Result<Vec<Row<'a>>, Error> {
    if inputs.iter().any(|it| &*it.name == TOKEN_IDS) {
        return texts(inputs, TOKEN_IDS)?.into_iter().enumerate().map(ids).collect();
    }
    let facts = task.facts();
    let mut names = facts.inputs.first().into_iter().copied().flatten().map(|it| it.name);
    let (first, second) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    match (facts.row, facts.medium) {
        (RowForm::One, Medium::Text) => match optional(inputs, second)? {
            Some(second) => Ok(pairs(texts(inputs, first)?, second)),
            None => Ok(single(texts(inputs, first)?)),
        },
        (RowForm::One, Medium::Image | Medium::Audio) => Ok(files(inputs, first)),
        (RowForm::Labels, Medium::Text) => {
            let labels = labels(candidate_labels)?;
            let texts = texts(inputs, first)?.into_iter();
            Ok(texts.map(|it| Row::Candidates(it, labels.clone())).collect())
        }
        (RowForm::Labels, Medium::Image | Medium::Audio) => {
            let labels = labels(candidate_labels)?;
            let files = contents(inputs, first);
            Ok(files.map(|it| Row::FileCandidates(it, labels.clone())).collect())
        }
        (RowForm::Compared, _) => lists(inputs, first, second, Row::Sentences),
        (RowForm::Ranked, _) => lists(inputs, first, second, Row::Ranking),
        (RowForm::Towers, _) => images_and_texts(inputs),
    }
}

/// What the inputs of a request of that task are: of a model with two towers texts, where no image comes with them.
pub fn medium(task: Task, inputs: &[NamedTensor]) -> Medium {
    let has_image = || inputs.iter().any(|it| &*it.name == IMAGE);
    match task.facts().row {
        RowForm::Towers if !has_image() => Medium::Text,
        RowForm::Towers | RowForm::One | RowForm::Labels | RowForm::Compared | RowForm::Ranked => {
            task.medium()
        }
    }
}

/// Images, texts, or pairs of them. Texts by themselves share a run.
fn images_and_texts<'a>(inputs: &'a [NamedTensor]) -> Result<Vec<Row<'a>>, Error> {
    let mut files = contents(inputs, IMAGE).peekable();
    match (files.peek().is_some(), optional(inputs, TEXT)?) {
        (true, None) => Ok(files.map(|it| Row::FileTexts(Some(it), Vec::new())).collect()),
        (true, Some(texts)) => {
            let pair = |(file, text)| Row::FileTexts(Some(file), vec![text]);
            Ok(files.zip(texts).map(pair).collect())
        }
        (false, Some(texts)) => Ok(vec![Row::FileTexts(None, texts)]),
        (false, None) => {
            let problem = format!("expected the input '{IMAGE}', '{TEXT}' or both, found neither");
            Err(Error::InvalidRequest(problem))
        }
    }
}

fn single(texts: Vec<&str>) -> Vec<Row<'_>> {
    texts.into_iter().map(Row::Text).collect()
}

/// The classes to choose from.
fn labels(given: Option<&[String]>) -> Result<Vec<&str>, Error> {
    let problem = "parameters.candidate_labels: expected the classes to choose from, found none";
    let missing = || Error::InvalidRequest(problem.to_owned());
    Ok(given.ok_or_else(missing)?.iter().map(String::as_str).collect())
}

/// The files of that input.
fn files<'a>(inputs: &'a [NamedTensor], name: &'a str) -> Vec<Row<'a>> {
    contents(inputs, name).map(Row::File).collect()
}

fn contents<'a>(inputs: &'a [NamedTensor], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let tensors = inputs.iter().filter(move |it| &*it.name == name);
    tensors.flat_map(|it| it.tensor.strings())
}

/// A list of token ids.
fn ids<'a>((at, json): (usize, &str)) -> Result<Row<'a>, Error> {
    let problem = |problem: String| Error::input(TOKEN_IDS, format!("element {at}: {problem}"));
    if LONGEST_IDS < json.len() {
        let given = json.len();
        return Err(problem(format!("expected at most {LONGEST_IDS} bytes, found {given}")));
    }
    let ids: Result<Vec<u32>, _> = serde_json::from_str(json);
    match ids {
        Ok(ids) => Ok(Row::Ids(ids)),
        Err(error) => Err(problem(format!("expected a list of token ids, as [1, 2]: {error}"))),
    }
}

/// Most bytes of the ids of one row: a vector of them takes twice as much.
const LONGEST_IDS: usize = 1 << 20;

fn pairs<'a>(first: Vec<&'a str>, second: Vec<&'a str>) -> Vec<Row<'a>> {
    first.into_iter().zip(second).map(|(one, other)| Row::Pair(one, other)).collect()
}

/// A text and a list of them for each row.
fn lists<'a>(
    inputs: &'a [NamedTensor],
    one: &str,
    many: &str,
    input: fn(&'a str, Vec<&'a str>) -> Row<'a>,
) -> Result<Vec<Row<'a>>, Error> {
    let (first, all) = (texts(inputs, one)?, texts(inputs, many)?);
    // A row without any has none in the other rows, too: they are of one shape.
    let width = all.len().checked_div(first.len()).unwrap_or(0);
    let rows = first.into_iter().enumerate();
    let list = |row: usize| all.get(row * width..(row + 1) * width).unwrap_or_default().to_vec();
    Ok(rows.map(|(row, text)| input(text, list(row))).collect())
}

fn optional<'a>(inputs: &'a [NamedTensor], name: &str) -> Result<Option<Vec<&'a str>>, Error> {
    match inputs.iter().any(|it| &*it.name == name) {
        true => texts(inputs, name).map(Some),
        false => Ok(None),
    }
}

/// The texts of that input.
///
/// # Errors
/// [`Error::InvalidInput`] where one is not UTF-8.
pub fn texts<'a>(inputs: &'a [NamedTensor], name: &str) -> Result<Vec<&'a str>, Error> {
    let tensors = inputs.iter().filter(|it| &*it.name == name);
    let strings = tensors.flat_map(|it| it.tensor.strings()).enumerate();
    let text = |(at, bytes): (usize, &'a [u8])| {
        std::str::from_utf8(bytes).map_err(|error| {
            let offset = error.valid_up_to();
            Error::input(name, format!("element {at} is not UTF-8 at byte {offset}"))
        })
    };
    strings.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{Shape, Tensor};
    use inference::task::{QUERY, TEXT_PAIR, TEXTS};

    fn tensor(name: &str, dims: &[usize], texts: &[&str]) -> NamedTensor {
        let tensor = Tensor::from_strings(Shape::new(dims), texts).unwrap();
        NamedTensor { name: name.into(), tensor }
    }

    #[test]
    fn each_row_is_one_input() {
        let given = [tensor(TEXT, &[2, 1], &["a", "b"]), tensor(TEXT_PAIR, &[2, 1], &["c", "d"])];
        let pairs = of_rows(Task::TextClassification, &given, None).unwrap();
        assert_eq!(pairs, [Row::Pair("a", "c"), Row::Pair("b", "d")]);
        let given =
            [tensor(QUERY, &[2, 1], &["p", "q"]), tensor(TEXTS, &[2, 2], &["a", "b", "c", "d"])];
        let ranked = of_rows(Task::Rerank, &given, None).unwrap();
        assert_eq!(ranked, [Row::Ranking("p", vec!["a", "b"]), Row::Ranking("q", vec!["c", "d"])]);
    }

    #[test]
    fn token_ids_are_lists_in_json() {
        let given = [tensor(TOKEN_IDS, &[2, 1], &["[7, 4294967295]", "[]"])];
        let rows = of_rows(Task::SentenceEmbedding, &given, None).unwrap();
        assert_eq!(rows, [Row::Ids(vec![7, u32::MAX]), Row::Ids(Vec::new())]);
        for wrong in ["[1,", "[-1]", "7", "[4294967296]", "[\"a\"]"] {
            let given = [tensor(TOKEN_IDS, &[2, 1], &["[]", wrong])];
            let error = of_rows(Task::SentenceEmbedding, &given, None).unwrap_err().to_string();
            assert!(error.starts_with("input 'token_ids': element 1: expected a list"), "{error}");
        }
        let long = " ".repeat(LONGEST_IDS + 1);
        let given = [tensor(TOKEN_IDS, &[1, 1], &[&long])];
        let error = of_rows(Task::SentenceEmbedding, &given, None);
        assert!(error.unwrap_err().to_string().contains("at most 1048576 bytes"));
    }

    #[test]
    fn texts_of_a_model_with_two_towers_are_texts_unless_an_image_comes_with_them() {
        let (image, text) = (tensor(IMAGE, &[1, 1], &["i"]), tensor(TEXT, &[1, 1], &["t"]));
        let of = |inputs: &[NamedTensor]| medium(Task::ImageTextEmbedding, inputs);
        assert_eq!(of(std::slice::from_ref(&text)), Medium::Text);
        assert_eq!(of(std::slice::from_ref(&image)), Medium::Image);
        assert_eq!(of(&[image, text]), Medium::Image);
        assert_eq!(medium(Task::FillMask, &[]), Medium::Text);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_by_their_place() {
        let bytes = Tensor::from_strings(Shape::new(&[2, 1]), [&b"a"[..], &b"b\xff"[..]]).unwrap();
        let given = [NamedTensor { name: TEXT.into(), tensor: bytes }];
        let error = of_rows(Task::SentenceEmbedding, &given, None).unwrap_err().to_string();
        assert_eq!(error, "input 'text': element 1 is not UTF-8 at byte 1");
        let error = of_rows(Task::ZeroShotClassification, &given[..0], None).unwrap_err();
        assert!(error.to_string().starts_with("parameters.candidate_labels: "));
    }
}
