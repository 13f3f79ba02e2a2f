//! How large a usual request is where a graph leaves sizes open: what the model's files say of it, else what such
//! inputs usually are. A run of the least size tells nothing of how long a request takes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{DataType, NamedTensor, Shape, Tensor};
use serde_json::Value;

use inference::{
    request::InferenceRequest,
    signature::{Port, Signature},
};

/// Sides of a picture, tokens of a text, samples of a sound and steps of another series, where no file says.
const SIDE: usize = 224;
const TOKENS: usize = 128;
const SAMPLES: usize = 16_000;
const STEPS: usize = 128;

/// Beyond these a file does not speak of requests.
const LARGEST_SIDE: usize = 2048;
const MOST_TOKENS: usize = 512;

/// No larger tensor is made.
const MOST_ELEMENTS: usize = 16 << 20;

/// Files of a folder that say how large pictures are, and those that say how long texts are.
const PICTURES: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];
const TEXTS: &str = "tokenizer_config.json";

/// A longer file is none of these.
const LONGEST_FILE: u64 = 16 << 20;

/// The size of a usual request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsualSize {
    /// Height and width of a picture.
    sides: [usize; 2],
    /// Of a text.
    tokens: usize,
}

impl UsualSize {
    /// What the metadata of the graph says (`imgsz`, as Ultralytics writes it), else the files of its folders, the
    /// first that has them.
    pub(crate) fn read(metadata: &BTreeMap<String, String>, folders: [&Path; 2]) -> UsualSize {
        let file = |name: &str| -> Option<Value> {
            let mut paths = folders.iter().map(|it| it.join(name));
            let is_short = |it: &PathBuf| fs::metadata(it).is_ok_and(|it| it.len() <= LONGEST_FILE);
            serde_json::from_slice(&fs::read(paths.find(is_short)?).ok()?).ok()
        };
        UsualSize::said(metadata, PICTURES.iter().find_map(|it| file(it)), file(TEXTS))
    }

    fn said(
        metadata: &BTreeMap<String, String>,
        pictures: Option<Value>,
        texts: Option<Value>,
    ) -> UsualSize {
        let of_metadata = metadata.get("imgsz").and_then(|it| serde_json::from_str(it).ok());
        let sides = of_metadata.as_ref().and_then(sides_of);
        let of_folder = || {
            let pictures = pictures.as_ref()?;
            let pictures = pictures.get("image_processor").unwrap_or(pictures);
            ["crop_size", "size"].iter().find_map(|it| pictures.get(*it).and_then(sides_of))
        };
        let tokens = texts.as_ref().and_then(|it| it.get("model_max_length")?.as_f64());
        let tokens = tokens.filter(|it| 1.0 <= *it).map(|it| (it as usize).min(MOST_TOKENS));
        UsualSize {
            sides: sides.or_else(of_folder).unwrap_or([SIDE; 2]),
            tokens: tokens.unwrap_or(TOKENS),
        }
    }

    /// The dimensions of a usual row of that input.
    fn dims(&self, port: &Port, has_batch: bool) -> Vec<usize> {
        let mut dims: Vec<Option<usize>> = port.dims.to_vec();
        // Without a batch dimension of the configuration, an open first one is the batch.
        if let Some(first @ None) = dims.first_mut().filter(|_| !has_batch) {
            *first = Some(1);
        }
        let open: Vec<usize> = (0..dims.len()).filter(|it| dims[*it].is_none()).collect();
        let is_float =
            matches!(port.dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64);
        let is_picture = is_float || port.dtype == DataType::Uint8;
        let channels = |it: &Option<usize>| matches!(it, Some(1 | 3 | 4));
        match open[..] {
            // Channels before or behind the sides, or left open, too.
            [top, left] if is_picture && top + 1 == left && dims.iter().any(channels) => {
                (dims[top], dims[left]) = (Some(self.sides[0]), Some(self.sides[1]));
            }
            [channels, top, left] if is_picture && channels + 2 == left => {
                (dims[channels], dims[top], dims[left]) =
                    (Some(3), Some(self.sides[0]), Some(self.sides[1]));
            }
            [only]
                if is_float
                    && dims.iter().enumerate().all(|(at, it)| at == only || *it == Some(1)) =>
            {
                dims[only] = Some(SAMPLES);
            }
            _ if is_float => open.iter().for_each(|it| dims[*it] = Some(STEPS)),
            _ if port.dtype == DataType::Bytes => open.iter().for_each(|it| dims[*it] = Some(1)),
            _ => open.iter().for_each(|it| dims[*it] = Some(self.tokens)),
        }
        dims.into_iter().map(|it| it.unwrap_or(1)).collect()
    }

    /// A row of zeros of the usual size. `None` where the model leaves no size open, or it cannot be made.
    pub(crate) fn request(&self, signature: &Signature) -> Option<InferenceRequest> {
        let required = signature.inputs.iter().filter(|it| !it.optional);
        let is_open = |it: &Port| it.dims.contains(&None) && it.dtype != DataType::Bytes;
        if required.clone().any(|it| it.any_rank) || !required.clone().any(is_open) {
            return None;
        }
        let batch = signature.batches().then_some(1);
        let inputs = required.map(|port| {
            let dims = self.dims(port, batch.is_some());
            let shape: Shape = batch.into_iter().chain(dims).collect();
            shape.elements().filter(|it| *it <= MOST_ELEMENTS)?;
            let tensor = Tensor::zeros(port.dtype, shape).ok()?;
            Some(NamedTensor { name: Arc::clone(&port.name), tensor })
        });
        let inputs = inputs.collect::<Option<_>>()?;
        Some(InferenceRequest { inputs, ..InferenceRequest::default() })
    }
}

/// A side, two of them, or an object of them.
fn sides_of(value: &Value) -> Option<[usize; 2]> {
    let side = |it: &Value| {
        let side = usize::try_from(it.as_u64()?).ok()?;
        (1..=LARGEST_SIDE).contains(&side).then_some(side)
    };
    match value {
        Value::Array(list) => match &list[..] {
            [only] => Some([side(only)?; 2]),
            [height, width] => Some([side(height)?, side(width)?]),
            _ => None,
        },
        Value::Object(it) => match (it.get("height"), it.get("width"), it.get("shortest_edge")) {
            (Some(height), Some(width), _) => Some([side(height)?, side(width)?]),
            (_, _, Some(shortest)) => Some([side(shortest)?; 2]),
            _ => None,
        },
        one => Some([side(one)?; 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn port(dtype: DataType, dims: &[i64]) -> Port {
        let dims = dims.iter().map(|it| usize::try_from(*it).ok()).collect();
        Port {
            name: "x".into(),
            dtype,
            dims,
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Arc::default(),
            text_codes: Default::default(),
        }
    }

    fn said(imgsz: Option<&str>, pictures: Value, texts: Value) -> UsualSize {
        let metadata = imgsz.map(|it| ("imgsz".to_owned(), it.to_owned())).into_iter().collect();
        let given = |it: Value| Some(it).filter(|it| !it.is_null());
        UsualSize::said(&metadata, given(pictures), given(texts))
    }

    fn nothing() -> UsualSize {
        said(None, Value::Null, Value::Null)
    }

    #[test]
    fn the_sides_of_a_picture_are_what_metadata_or_the_folder_say() {
        let of = |imgsz, pictures| said(imgsz, pictures, Value::Null).sides;
        assert_eq!(of(Some("[640, 480]"), json!({"size": 100})), [640, 480]);
        assert_eq!(of(Some("320"), Value::Null), [320, 320]);
        assert_eq!(of(None, json!({"size": {"height": 384, "width": 256}})), [384, 256]);
        assert_eq!(of(None, json!({"size": {"shortest_edge": 256}, "crop_size": 240})), [240, 240]);
        assert_eq!(of(None, json!({"image_processor": {"size": 128}})), [128, 128]);
        for strange in ["[1, 2, 3]", "99999999", "big", "[]"] {
            assert_eq!(of(Some(strange), Value::Null), [SIDE; 2], "{strange}");
        }
    }

    #[test]
    fn a_text_is_as_long_as_its_tokenizer_says_within_reason() {
        let of =
            |length: Value| said(None, Value::Null, json!({"model_max_length": length})).tokens;
        assert_eq!([of(json!(64)), of(json!(1e30)), of(json!("x"))], [64, MOST_TOKENS, TOKENS]);
    }

    #[test]
    fn open_dimensions_of_each_kind_of_input_get_their_usual_size() {
        let size = UsualSize { sides: [480, 640], tokens: 99 };
        for (dtype, dims, expected) in [
            (DataType::Fp32, &[3, -1, -1][..], &[3, 480, 640][..]),
            (DataType::Uint8, &[-1, -1, 3], &[480, 640, 3]),
            (DataType::Fp32, &[-1, -1, -1], &[3, 480, 640]),
            (DataType::Fp32, &[3, 32, 32], &[3, 32, 32]),
            (DataType::Int64, &[-1], &[99]),
            (DataType::Int32, &[2, -1], &[2, 99]),
            (DataType::Fp32, &[-1], &[SAMPLES]),
            (DataType::Fp32, &[1, -1], &[1, SAMPLES]),
            (DataType::Fp32, &[80, -1], &[80, STEPS]),
        ] {
            assert_eq!(size.dims(&port(dtype, dims), true), expected, "{dims:?}");
        }
        // The first dimension of a model without a batch dimension of its own.
        assert_eq!(size.dims(&port(DataType::Fp32, &[-1, 3, -1, -1]), false), [1, 3, 480, 640]);
        assert_eq!(size.dims(&port(DataType::Int64, &[-1, -1]), false), [1, 99]);
    }

    #[test]
    fn a_model_whose_sizes_are_all_fixed_needs_no_such_run() {
        let signature = |dims: &[i64]| Signature {
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size: 0,
            graph_checks_shapes: false,
            most_rows: None,
            inputs: vec![port(DataType::Fp32, dims)],
            outputs: Vec::new(),
            on_request: Vec::new(),
            pipeline: None,
            named: None,
        };
        assert!(nothing().request(&signature(&[4])).is_none());
        let request = nothing().request(&signature(&[1, 3, -1, -1])).unwrap();
        assert_eq!(request.inputs[0].tensor.shape().dims(), [1, 3, SIDE, SIDE]);
    }
}
