//! The vectors of images and of texts, of a graph with a tower for each.
//!
//! Such a graph runs both towers in each run. Beside texts without an image stands a black one, and beside an image
//! without a text an empty text; what comes of these is left out.

use backend::NamedTensor;
use image::Rgb;

use super::{
    graph::{ImageInputs, TowerOutputs},
    labels::LabelTexts,
    preparation::Preparation,
};
use crate::{
    context::WorkKind,
    error::{FolderError, RowError},
    head::{classify::check_numbers, reduced::Reduced},
    outputs::RowOutput,
    reply::{Reply, Towers},
};

/// Width and height of the image beside texts that come without one, before it is prepared.
const SIDE: u32 = 32;

/// What stands in the place of an image or a text that is not given.
#[derive(Debug)]
pub(super) struct Placeholders {
    image: Vec<NamedTensor>,
    text: Vec<NamedTensor>,
}

impl Placeholders {
    /// # Errors
    /// When a small image cannot be prepared for the graph, or no text can be empty.
    pub(super) fn make(
        preparation: &Preparation,
        pixels: &ImageInputs,
        texts: &LabelTexts,
        file: &str,
    ) -> Result<Placeholders, FolderError> {
        let failed = |problem: String| FolderError::key(file, "image_embeds", problem);
        let image = preparation.apply(&Rgb::new(SIDE, SIDE));
        let image = pixels.row(image.map_err(|it| failed(it.to_string()))?.pixels);
        let text = texts.runs_of_texts(&[""], true).map_err(|it| failed(it.to_string()))?;
        Ok(Placeholders {
            image: image.map_err(|it| failed(it.to_string()))?,
            text: text.into_iter().next().map(|(text, _)| text).unwrap_or_default(),
        })
    }

    /// The inputs of each run, and what it is for: an image as inputs of the graph, and any number of texts.
    ///
    /// # Errors
    /// When a text is too long, unless `cuts`.
    pub(super) fn runs(
        &self,
        image: Option<Vec<NamedTensor>>,
        given: &[&str],
        texts: &LabelTexts,
        cuts: bool,
    ) -> Result<Vec<(Vec<NamedTensor>, WorkKind)>, RowError> {
        let has_image = image.is_some();
        let image = image.unwrap_or_else(|| self.image.clone());
        let runs = match given {
            [] => vec![(self.text.clone(), 0)],
            given => texts.runs_of_texts(given, cuts)?,
        };
        let run = |(of_texts, texts): (Vec<NamedTensor>, usize)| {
            let inputs = image.iter().cloned().chain(of_texts).collect();
            (inputs, WorkKind::Towers { has_image, texts })
        };
        Ok(runs.into_iter().map(run).collect())
    }
}

/// The vectors of a run for an image, if `has_image`, and for so many texts.
///
/// # Errors
/// When the graph gives another number of vectors, or one has a number that is none.
pub(super) fn reduce<'a>(
    at: TowerOutputs,
    has_image: bool,
    texts: usize,
    output: impl Fn(usize) -> Result<&'a RowOutput<'a>, RowError>,
) -> Result<Reduced, RowError> {
    let image = match has_image {
        true => {
            let found = output(at.image)?;
            check_numbers(&found.values, found.name)?;
            Some(found.values.to_vec())
        }
        false => None,
    };
    if texts == 0 {
        return Ok(Reduced::Towers { image, texts: Vec::new() });
    }
    let found = output(at.texts)?;
    let &[rows, width] = found.dims.as_slice() else {
        let problem = format!("it has {} dimensions, vectors of texts have two", found.dims.len());
        return Err(RowError::Output { output: found.name.to_owned(), problem });
    };
    if rows != texts || width == 0 {
        let problem = format!("it has {rows} vectors of {width} numbers for {texts} texts");
        return Err(RowError::Output { output: found.name.to_owned(), problem });
    }
    check_numbers(&found.values, found.name)?;
    let texts = found.values.chunks_exact(width).map(<[f32]>::to_vec).collect();
    Ok(Reduced::Towers { image, texts })
}

/// The reply of these runs; `None` where they are of another pipeline.
pub(super) fn finish(rows: Vec<Reduced>) -> Option<Reply> {
    let (mut image, mut all) = (None, Vec::new());
    for row in rows {
        let Reduced::Towers { image: of_run, texts } = row else { return None };
        image = of_run.or(image);
        all.extend(texts);
    }
    let replies = match (image, all.as_slice()) {
        (Some(image), []) => vec![Towers { image, text: Vec::new() }],
        (Some(image), _) => {
            let of_text = |text| Towers { image: image.clone(), text };
            all.into_iter().map(of_text).collect()
        }
        (None, _) => {
            all.into_iter().map(|text| Towers { image: Vec::new(), text }).collect::<Vec<_>>()
        }
    };
    Some(Reply::Towers(replies))
}
