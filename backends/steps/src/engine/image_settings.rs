//! The parameters of the step `image`: an image processor from a file or from its keys, or a letterbox.

use ::image::{Decoder, Filter, JpegLibrary, Limits, Processor, letterbox::Letterbox};
use backend::{BackendError, DataType};
use serde_json::{Map, Value};

use super::{bounds::FileBounds, files, settings::StepSettings};
use crate::{
    folder::document::read_value,
    vision::{PixelLayout, Preparation, TO_NUMBERS},
};

/// The keys of a `preprocessor_config.json` that are parameters, too.
const KEYS: [&str; 21] = [
    "image_processor_type",
    "feature_extractor_type",
    "do_resize",
    "size",
    "default_to_square",
    "max_size",
    "resample",
    "crop_pct",
    "do_center_crop",
    "crop_size",
    "do_rescale",
    "rescale_factor",
    "rescale_offset",
    "do_normalize",
    "image_mean",
    "image_std",
    "include_top",
    "do_flip_channel_order",
    "do_pad",
    "pad_size",
    "pad_and_return_pixel_mask",
];

/// Longest side of what an image becomes.
const LONGEST_SIDE: u32 = 16_384;

/// What a step makes of images.
pub(super) struct ImageSettings {
    pub(super) decoder: Decoder,
    pub(super) limits: Limits,
    pub(super) bounds: FileBounds,
    pub(super) preparation: Preparation,
    pub(super) layout: PixelLayout,
}

/// All parameters.
pub(super) const PARAMETERS: &[&str] = &{
    let mut all = [""; KEYS.len() + 8];
    let own = ["file", "resize", "letterbox", "stride", "layout", "dtype", "jpeg", "max_pixels"];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < own.len() { own[at] } else { KEYS[at - own.len()] };
        at += 1;
    }
    all
};

impl ImageSettings {
    /// # Errors
    /// When a parameter or the file is wrong.
    pub(super) fn read(settings: &StepSettings<'_>) -> Result<ImageSettings, BackendError> {
        let dtype = settings.named("dtype", &["FP32", "FP16", "UINT8"], |name| match name {
            "FP32" => Some(DataType::Fp32),
            "FP16" => Some(DataType::Fp16),
            "UINT8" => Some(DataType::Uint8),
            _ => None,
        })?;
        let dtype = dtype.unwrap_or(DataType::Fp32);
        let layout = settings.named("layout", &["nchw", "nhwc"], |name| match name {
            "nchw" => Some(false),
            "nhwc" => Some(true),
            _ => None,
        })?;
        let bounds = settings.bounds;
        let library = settings.named("jpeg", &["auto", "none"], |name| match name {
            "auto" => Some(bounds.jpeg_library.clone()),
            "none" => Some(JpegLibrary::None),
            _ => None,
        })?;
        let decoder = Decoder::open(library.as_ref().unwrap_or(&bounds.jpeg_library))
            .map_err(|error| settings.wrong("jpeg", error))?;
        let limits = Limits { max_pixels: bounds.pixels(settings.count("max_pixels")?) };
        let preparation = match settings.text("letterbox") {
            Some(_) => Preparation::Letterbox(letterbox(settings)?),
            None => processor(settings, dtype)?,
        };
        let layout = PixelLayout { dtype, is_channels_last: layout.unwrap_or(false) };
        let bounds = bounds.clone();
        Ok(ImageSettings { decoder, limits, bounds, preparation, layout })
    }
}

/// A side, or height and width with a comma between them.
fn letterbox(settings: &StepSettings<'_>) -> Result<Letterbox, BackendError> {
    if let Some(key) = ["file"].iter().chain(&KEYS).find(|it| settings.text(it).is_some()) {
        let problem = "a letterbox is the whole preparation, and has no image processor";
        return Err(settings.wrong(key, problem));
    }
    settings.named("resize", &["opencv"], |name| (name == "opencv").then_some(()))?;
    let sides = settings.list("letterbox").unwrap_or_default();
    let sides: Vec<Option<u32>> = sides
        .iter()
        .map(|it| it.parse().ok().filter(|it| (1..=LONGEST_SIDE).contains(it)))
        .collect();
    let (height, width) = match *sides {
        [Some(side)] => (side, side),
        [Some(height), Some(width)] => (height, width),
        _ => {
            let problem = format!(
                "it is '{}', expected a side, or height and width with a comma, from 1 to {LONGEST_SIDE}",
                settings.text("letterbox").unwrap_or_default()
            );
            return Err(settings.wrong("letterbox", problem));
        }
    };
    Ok(match settings.count("stride")? {
        None => Letterbox::fixed(height, width),
        Some(stride) => match u32::try_from(stride).ok().filter(|it| *it <= LONGEST_SIDE) {
            Some(stride) => Letterbox::dynamic(height, width, stride),
            None => return Err(settings.wrong("stride", format!("it is above {LONGEST_SIDE}"))),
        },
    })
}

fn processor(settings: &StepSettings<'_>, dtype: DataType) -> Result<Preparation, BackendError> {
    if settings.text("stride").is_some() {
        return Err(settings.wrong("stride", "it is that of a letterbox, and there is none"));
    }
    let mut keys = match settings.text("file") {
        Some(_) => of_file(settings)?,
        None => Map::new(),
    };
    for key in KEYS {
        if let Some(text) = settings.text(key) {
            keys.insert(key.to_owned(), value(text));
        }
    }
    if dtype == DataType::Uint8 {
        for key in TO_NUMBERS {
            if settings.flag(key)? == Some(true) {
                return Err(settings.wrong(key, "dtype UINT8 has the bytes of pixels as they are"));
            }
            keys.insert(key.to_owned(), Value::Bool(false));
        }
    }
    let processor = Processor::from_config(&Value::Object(keys)).map_err(|error| {
        let key = error.key.split('.').next().unwrap_or_default();
        let of_file = settings.text("file").filter(|_| settings.text(key).is_none());
        match of_file {
            Some(file) => settings.wrong("file", format!("{file}: {error}")),
            None => settings.wrong(key, format!("{}; {}", error.problem, error.remedy)),
        }
    })?;
    let is_opencv = settings.named("resize", &["pillow", "opencv"], |name| match name {
        "pillow" => Some(false),
        "opencv" => Some(true),
        _ => None,
    })?;
    match (is_opencv.unwrap_or(false), processor.resize) {
        (false, _) | (true, None) => Ok(Preparation::Processor(processor)),
        (true, Some((rule, Filter::Bilinear))) => {
            Ok(Preparation::OpenCv(rule, Processor { resize: None, ..processor }))
        }
        (true, Some((_, filter))) => {
            let problem = format!("opencv resizes bilinearly, and resample is {}", filter.name());
            Err(settings.wrong("resize", problem))
        }
    }
}

/// The keys of the file.
fn of_file(settings: &StepSettings<'_>) -> Result<Map<String, Value>, BackendError> {
    let place = files::required(settings, "file")?;
    let json = read_value(&place.dir, &place.name).map_err(|it| settings.wrong("file", it))?;
    let keys = match json {
        Some(Value::Object(keys)) => keys,
        _ => return Err(settings.wrong("file", format!("{}: it is no JSON object", place.name))),
    };
    // A file of a whole processor has those of the images in an object of their own.
    Ok(match keys.get("image_processor") {
        Some(Value::Object(inner)) => inner.clone(),
        _ => keys,
    })
}

/// The value that a text stands for: JSON, several of them with commas, else the text itself.
fn value(text: &str) -> Value {
    match serde_json::from_str(&format!("[{text}]")) {
        Ok(Value::Array(mut all)) if all.len() == 1 => all.remove(0),
        Ok(all) => all,
        Err(_) => Value::String(text.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_the_values_that_a_file_would_have() {
        assert_eq!(value("true"), json!(true));
        assert_eq!(value("0.5, 0.4, 0.3"), json!([0.5, 0.4, 0.3]));
        assert_eq!(value("{\"height\": 8, \"width\": 4}"), json!({"height": 8, "width": 4}));
        assert_eq!(value("ViTImageProcessor"), json!("ViTImageProcessor"));
    }
}
