//! What the graph of an image model takes and gives.

use std::sync::Arc;

use backend::{DataType, ModelSpec, NamedTensor, Shape, Tensor, TensorSpec};
use image::{OutputShape, Pixels};
use inference::task::{IMAGE_EMBEDS, TEXT_EMBEDS};

use super::{
    layout::PixelLayout,
    plan::{Boxes, Detector, ImageHead},
    preparation::Preparation,
};
use crate::{
    detect::Queries,
    error::{FolderError, RowError},
    outputs::GraphOutput,
    step::{GraphInput, RowShape},
};

/// The inputs of a graph, and how an image fills them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImageInputs {
    /// The pixels, and their mask where the graph takes one.
    pub(crate) inputs: Vec<GraphInput>,
    /// How pixels lie in the first of them.
    pub(crate) layout: PixelLayout,
    /// By what a value is multiplied where the graph takes bytes.
    byte_of_value: f32,
}

/// The name of the mask of the pixels that are no padding.
pub(super) const MASK: &str = "pixel_mask";

impl ImageInputs {
    /// What fills the inputs of `spec`. `file` is the graph's name in errors.
    ///
    /// # Errors
    /// When an input is required that no image fills, or the pixels have not the shape that the preparation gives.
    pub(crate) fn plan(
        spec: &ModelSpec,
        preparation: &Preparation,
        file: &str,
    ) -> Result<ImageInputs, FolderError> {
        let mut inputs = Vec::new();
        let Some(pixels) = pixels_of(spec) else {
            let problem = "the graph has no such input, so it takes no image";
            return Err(FolderError::key(file, "pixel_values", problem));
        };
        let layout = layout_of(pixels);
        check_pixels(pixels, layout, preparation.output(), file)?;
        inputs.push(port(pixels));
        for other in spec.inputs.iter().filter(|it| it.name != pixels.name) {
            if &*other.name == MASK && preparation.has_mask() {
                check_mask(other, file)?;
                inputs.push(port(other));
            } else if !other.optional {
                let problem = "the graph requires this input, and an image does not fill it";
                return Err(FolderError::key(file, &*other.name, problem));
            }
        }
        Ok(ImageInputs { inputs, layout, byte_of_value: preparation.byte_of_value() })
    }

    /// The row of these pixels.
    ///
    /// # Errors
    /// Only when sizes overflow.
    pub(crate) fn row(&self, pixels: Pixels) -> Result<Vec<NamedTensor>, RowError> {
        let ([_, height, width], mask) = (pixels.shape, pixels.mask);
        let mut pixels = Some(pixels);
        let fill = |input: &GraphInput| {
            let tensor = match pixels.take_if(|_| &*input.name != MASK) {
                Some(pixels) => self.layout.one(pixels, self.byte_of_value),
                None => {
                    let filled = mask.unwrap_or([height, width]);
                    of_mask(input.dtype, [height, width], filled)
                }
            };
            let tensor = tensor.map_err(|error| RowError::Input(error.to_string()))?;
            Ok(NamedTensor { name: input.name.clone(), tensor })
        };
        self.inputs.iter().map(fill).collect()
    }
}

fn port(input: &TensorSpec) -> GraphInput {
    GraphInput { name: input.name.clone(), dtype: input.dtype, shape: RowShape::Varying }
}

/// The input of the pixels.
pub(super) fn pixels_of(spec: &ModelSpec) -> Option<&TensorSpec> {
    let named = spec.inputs.iter().find(|it| &*it.name == "pixel_values");
    named.or_else(|| spec.inputs.iter().find(|it| it.dims.len() == 4))
}

/// The form of the pixels, told from the dimensions: channels are the one that is 3.
pub(super) fn layout_of(pixels: &TensorSpec) -> PixelLayout {
    let is_channels_last = match *pixels.dims {
        [_, first, _, Some(3)] => first != Some(3),
        _ => false,
    };
    PixelLayout { dtype: pixels.dtype, is_channels_last }
}

fn check_pixels(
    pixels: &TensorSpec,
    layout: PixelLayout,
    output: OutputShape,
    file: &str,
) -> Result<(), FolderError> {
    let error = |problem: String| Err(FolderError::key(file, &*pixels.name, problem));
    if ![DataType::Fp32, DataType::Fp16, DataType::Uint8].contains(&pixels.dtype) {
        return error(format!("it is {}, pixels are FP32, FP16 or UINT8", pixels.dtype));
    }
    if pixels.any_rank {
        return Ok(());
    }
    let &[_, first, second, third] = &*pixels.dims else {
        let given = pixels.dims.len();
        return error(format!("it has {given} dimensions, pixels have four"));
    };
    let [channels, height, width] = match layout.is_channels_last {
        true => [third, first, second],
        false => [first, second, third],
    };
    if let Some(found) = channels.filter(|it| *it != 3) {
        return error(format!("it has {found} channels, an image has 3"));
    }
    let OutputShape::Fixed([_, given_height, given_width]) = output else { return Ok(()) };
    let differs =
        height.is_some_and(|it| it != given_height) || width.is_some_and(|it| it != given_width);
    match (differs, height, width) {
        (true, Some(height), Some(width)) => error(format!(
            "it takes {height} x {width} pixels, the image processor gives {given_height} x {given_width}"
        )),
        _ => Ok(()),
    }
}

fn check_mask(mask: &TensorSpec, file: &str) -> Result<(), FolderError> {
    match mask.dtype {
        DataType::Int64 | DataType::Int32 | DataType::Bool | DataType::Fp32 => Ok(()),
        other => {
            let problem = format!("it is {other}, a mask is INT64, INT32, BOOL or FP32");
            Err(FolderError::key(file, &*mask.name, problem))
        }
    }
}

/// One in the upper left, where the image is, and zero elsewhere.
fn of_mask(
    dtype: DataType,
    [height, width]: [usize; 2],
    [filled_height, filled_width]: [usize; 2],
) -> Result<Tensor, backend::SizeMismatch> {
    let rows = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
    let is_filled = rows.map(|(y, x)| y < filled_height && x < filled_width);
    let shape = Shape::new(&[height, width]);
    match dtype {
        DataType::Bool => {
            let bytes: Vec<u8> = is_filled.map(u8::from).collect();
            Tensor::new(DataType::Bool, shape, bytes.into())
        }
        DataType::Int32 => Tensor::from_vec::<i32>(shape, is_filled.map(i32::from).collect()),
        DataType::Fp32 => {
            Tensor::from_vec::<f32>(shape, is_filled.map(|it| f32::from(u8::from(it))).collect())
        }
        _ => Tensor::from_vec::<i64>(shape, is_filled.map(i64::from).collect()),
    }
}

/// Where the vectors stand among the outputs that are read, and how long they are, where the graph says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TowerOutputs {
    pub(super) image: usize,
    pub(super) texts: usize,
    pub(super) image_width: Option<usize>,
    pub(super) text_width: Option<usize>,
}

/// The outputs that a head reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageOutputs {
    /// In the order in which the head gets them.
    pub(crate) outputs: Vec<GraphOutput>,
    /// The place of the vectors of patches among them.
    pub(crate) patches: Option<usize>,
    /// The place of the vector of the whole image.
    pub(crate) vector: Option<usize>,
    /// The places of the vectors of an image and of texts, where the graph gives both.
    pub(crate) towers: Option<TowerOutputs>,
    /// Length of the last dimension of the output that is read first, where the graph says it.
    pub(crate) width: Option<usize>,
    /// The same of the vector of the whole image.
    pub(crate) vector_width: Option<usize>,
    /// Numbers of the vectors of all patches of an image, where the graph says it.
    pub(crate) patch_numbers: Option<usize>,
    /// The output that was taken for its shape, since none has the name that the task looks for.
    pub(crate) by_shape: Option<Arc<str>>,
}

impl ImageOutputs {
    /// The outputs of `spec` that `head` reads.
    ///
    /// # Errors
    /// When there is none that it can read.
    pub(crate) fn plan(
        spec: &ModelSpec,
        head: &ImageHead,
        file: &str,
    ) -> Result<ImageOutputs, FolderError> {
        let mut plan = ImageOutputs {
            outputs: Vec::new(),
            patches: None,
            vector: None,
            towers: None,
            width: None,
            vector_width: None,
            patch_numbers: None,
            by_shape: None,
        };
        match head {
            ImageHead::Classifier(_) => {
                plan.find(spec, "logits", &[2], file)?;
            }
            ImageHead::Detector(detector) => match detector.boxes {
                Boxes::Queries(_) => {
                    plan.find(spec, "logits", &[3], file)?;
                    plan.add(named(spec, &["pred_boxes"], file)?);
                }
                Boxes::Yolo(_) => plan.find(spec, "output0", &[3], file)?,
            },
            ImageHead::Candidates => {
                plan.add(named(spec, &["logits_per_image"], file)?);
                let vectors = [IMAGE_EMBEDS, TEXT_EMBEDS].map(|it| named(spec, &[it], file));
                if let [Ok(image), Ok(texts)] = vectors {
                    plan.add_towers(image, texts);
                }
            }
            ImageHead::Towers => {
                let vector = |name: &str| named(spec, &[name], file);
                plan.add_towers(vector(IMAGE_EMBEDS)?, vector(TEXT_EMBEDS)?);
            }
            ImageHead::Features => {
                let patches = named(spec, &["last_hidden_state"], file);
                let vector = named(spec, &["pooler_output", "image_embeds"], file);
                if let Ok(patches) = patches {
                    plan.patches = Some(0);
                    let dims = patches.dims.get(1..).unwrap_or_default();
                    plan.patch_numbers = dims.iter().copied().product();
                    plan.add(patches);
                }
                match vector {
                    Ok(vector) => {
                        plan.vector = Some(plan.outputs.len());
                        plan.vector_width = vector.dims.last().copied().flatten();
                        plan.add(vector);
                    }
                    Err(_) if plan.patches.is_some() => {}
                    Err(_) => {
                        plan.patches = Some(0);
                        plan.find(spec, "last_hidden_state", &[2, 3, 4], file)?;
                    }
                }
            }
        }
        Ok(plan)
    }

    /// The name of the output in that place, for errors.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.outputs.get(at).map_or("", |it| &it.name)
    }

    fn add_towers(&mut self, image: &TensorSpec, texts: &TensorSpec) {
        let width = |it: &TensorSpec| it.dims.last().copied().flatten();
        self.towers = Some(TowerOutputs {
            image: self.outputs.len(),
            texts: self.outputs.len() + 1,
            image_width: width(image),
            text_width: width(texts),
        });
        self.add(image);
        let name = texts.name.clone();
        self.outputs.push(GraphOutput { name, has_tokens: false, is_whole: true });
    }

    /// Adds the output of that name, else the first one of numbers with one of these numbers of dimensions.
    fn find(
        &mut self,
        spec: &ModelSpec,
        name: &str,
        ranks: &[usize],
        file: &str,
    ) -> Result<(), FolderError> {
        let fits = |it: &&TensorSpec| it.any_rank || ranks.contains(&it.dims.len());
        match named(spec, &[name], file) {
            Ok(found) if fits(&found) => self.add(found),
            Ok(found) => {
                let problem =
                    format!("it has {} dimensions, the task needs {}", found.dims.len(), ranks[0]);
                return Err(FolderError::key(file, &*found.name, problem));
            }
            Err(error) => {
                let floats = [DataType::Fp32, DataType::Fp16];
                let mut all = spec.outputs.iter().filter(|it| floats.contains(&it.dtype));
                let found = all.find(fits).ok_or(error)?;
                self.by_shape = Some(found.name.clone());
                self.add(found);
            }
        }
        Ok(())
    }

    fn add(&mut self, found: &TensorSpec) {
        if self.outputs.is_empty() {
            self.width = found.dims.last().copied().flatten();
        }
        let name: Arc<str> = found.name.clone();
        self.outputs.push(GraphOutput { name, has_tokens: false, is_whole: false });
    }
}

/// The output with the first of these names.
fn named<'a>(
    spec: &'a ModelSpec,
    names: &[&str],
    file: &str,
) -> Result<&'a TensorSpec, FolderError> {
    let found = names.iter().find_map(|name| spec.outputs.iter().find(|it| &&*it.name == name));
    let problem = "the graph has no such output";
    found.ok_or_else(|| FolderError::key(file, names.join(" or "), problem))
}

/// The graph's classes are as many as the labels.
///
/// # Errors
/// When they are not.
pub(super) fn check_labels(
    head: &ImageHead,
    outputs: &ImageOutputs,
    file: &str,
) -> Result<(), FolderError> {
    let Some(width) = outputs.width else { return Ok(()) };
    let (labels, width) = match head {
        ImageHead::Classifier(classes) => (classes.labels.len(), width),
        ImageHead::Detector(Detector { boxes: Boxes::Queries(kind), labels, .. }) => match kind {
            // The last class is "nothing".
            Queries::Softmax => (labels.len(), width.saturating_sub(1)),
            Queries::Sigmoid | Queries::BestOf(_) => (labels.len(), width),
        },
        // The layout of an output was found by its labels.
        ImageHead::Detector(Detector { boxes: Boxes::Yolo(_), .. })
        | ImageHead::Features
        | ImageHead::Candidates
        | ImageHead::Towers => return Ok(()),
    };
    if labels == width {
        return Ok(());
    }
    let problem = format!("it has {width} classes, and {labels} labels are named");
    let error = FolderError::key(file, outputs.name(0), problem);
    Err(error.remedy("name every class of the graph"))
}
