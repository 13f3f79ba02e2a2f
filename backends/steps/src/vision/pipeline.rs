//! A folder of an image model and the signature of its graph as one thing that answers images.

use backend::ModelSpec;
use image::{Decoder, ImageError, Limits, header};

use super::{
    graph::{ImageInputs, ImageOutputs},
    plan::{Boxes, Detector, ImageHead, ImagePlan, Preparation, head, processor},
    ultralytics,
};
use crate::{
    context::{Context, ContextKind, ObjectWork, Work, WorkKind},
    detect::{Letterbox, Queries, Thresholds, queries, yolo},
    error::{FolderError, RowError},
    folder::{Folder, Overrides, Ultralytics},
    head::{
        classify::{check_numbers, classify, whole_logits},
        reduced::Reduced,
    },
    outputs::RowOutput,
    reply::{Features, Object, Objects, Reply},
    request::{Function, Input, Parameters, TopK},
    step::{Prepared, Row},
};
use inference::task::Task;

/// Most pixels of an image where nothing is said.
const MOST_PIXELS: u64 = 50_000_000;

/// Classes of an image where the request does not say how many, as in the reference.
const MANY_CLASSES: usize = 5;

/// Numbers of the vectors of all patches of an image: some 257 patches of 1,024.
const USUAL_PATCH_NUMBERS: usize = 1 << 18;

/// Everything around a graph that answers images: immutable, shared by all threads.
#[derive(Debug)]
pub(crate) struct ImagePipeline {
    task: Task,
    decoder: Decoder,
    limits: Limits,
    preparation: Preparation,
    head: ImageHead,
    pub(crate) inputs: ImageInputs,
    pub(crate) outputs: ImageOutputs,
}

/// What a request asks of the head.
enum Asked {
    /// Classes: what makes their scores, and how many.
    Labels(Function, TopK),
    /// Objects that have this.
    Objects(Thresholds),
    /// Vectors: that of the whole image, or those of its patches.
    Features { is_pooled: bool },
}

impl ImagePipeline {
    /// From a folder that has been read, its task, and its graph as the engine describes it.
    ///
    /// # Errors
    /// When a file is missing or wrong, the library that decodes JPEG cannot be opened, or the graph has not the inputs
    /// and outputs that the task needs.
    pub(crate) fn open(
        folder: &Folder,
        task: Task,
        spec: &ModelSpec,
    ) -> Result<ImagePipeline, FolderError> {
        let preparation = Preparation::Processor(processor(folder)?);
        let head = head(folder, task)?;
        let plan = ImagePlan { task, preparation, head };
        ImagePipeline::around(plan, &folder.graph, &folder.overrides, spec)
    }

    /// From a single graph of Ultralytics' exports; otherwise why it is served as it is.
    ///
    /// # Errors
    /// When its metadata says something that its inputs and outputs contradict, or the library that decodes JPEG cannot
    /// be opened.
    pub(crate) fn of_ultralytics(
        file: &str,
        said: &Ultralytics,
        overrides: &Overrides,
        spec: &ModelSpec,
    ) -> Result<Result<ImagePipeline, String>, FolderError> {
        match ultralytics::plan(file, said, overrides, spec)? {
            Ok(plan) => ImagePipeline::around(plan, file, overrides, spec).map(Ok),
            Err(reason) => Ok(Err(reason)),
        }
    }

    fn around(
        plan: ImagePlan,
        file: &str,
        overrides: &Overrides,
        spec: &ModelSpec,
    ) -> Result<ImagePipeline, FolderError> {
        let ImagePlan { task, preparation, head } = plan;
        let outputs = ImageOutputs::plan(spec, &head, file)?;
        check_labels(&head, &outputs, file)?;
        let inputs = ImageInputs::plan(spec, &preparation, file)?;
        let decoder = Decoder::open(&overrides.jpeg_library)
            .map_err(|error| FolderError::file("--jpeg-library", error.to_string()))?;
        let max_pixels = overrides.max_image_pixels.unwrap_or(MOST_PIXELS);
        let limits = Limits { max_pixels };
        Ok(ImagePipeline { task, decoder, limits, preparation, head, inputs, outputs })
    }

    /// The task that the folder is for.
    pub(crate) fn task(&self) -> Task {
        self.task
    }

    /// Names of its classes.
    pub(crate) fn labels(&self) -> &[std::sync::Arc<str>] {
        match &self.head {
            ImageHead::Classifier(classes) => &classes.labels,
            ImageHead::Detector(detector) => &detector.labels,
            ImageHead::Features => &[],
        }
    }

    /// Length of the vector of an image, where the graph gives one and says it.
    pub(crate) fn dimensions(&self) -> Option<usize> {
        self.outputs.vector_width
    }

    /// Numbers of the vectors of all patches of an image: where the graph does not say it, those of a large model.
    pub(crate) fn patch_numbers(&self) -> usize {
        self.outputs.patch_numbers.unwrap_or(USUAL_PATCH_NUMBERS)
    }

    /// What was understood, in one line.
    pub(crate) fn describe(&self) -> String {
        let head = match &self.head {
            ImageHead::Classifier(classes) => {
                format!("{} labels, {}", classes.labels.len(), classes.function.name())
            }
            ImageHead::Detector(detector) => {
                let boxes = match detector.boxes {
                    Boxes::Yolo(layout) => layout.name(),
                    Boxes::Queries(queries) => queries.name(),
                };
                format!("{} labels, head {boxes}", detector.labels.len())
            }
            ImageHead::Features => "vectors of the graph".to_owned(),
        };
        let inputs: Vec<&str> = self.inputs.inputs.iter().map(|it| &*it.name).collect();
        format!(
            "{}, {head}; {}, JPEG by {}; graph takes {}",
            self.task,
            self.preparation.describe(),
            self.decoder.jpeg(),
            inputs.join(", ")
        )
    }

    /// Most bytes that preparing this image holds at one time, its row included. Reads the header only.
    ///
    /// # Errors
    /// When it is no image, has too many pixels, or would have on the way to the graph.
    pub(crate) fn bytes_to_prepare(&self, input: &Input<'_>) -> Result<usize, RowError> {
        let header = header(self.file(input)?).map_err(refused)?;
        header.check(&self.limits).map_err(refused)?;
        let (height, width) = header.upright();
        let bytes = self.preparation.bytes_to_apply(height, width).map_err(refused)?;
        let all = header.decoded_bytes.saturating_add(bytes);
        Ok(usize::try_from(all).unwrap_or(usize::MAX))
    }

    fn file<'a>(&self, input: &Input<'a>) -> Result<&'a [u8], RowError> {
        match input {
            Input::File(bytes) => Ok(bytes),
            _ => Err(RowError::Input(format!("{} takes the file of an image", self.task))),
        }
    }

    /// What the parameters of a request ask of the head.
    ///
    /// # Errors
    /// When a value is none that it can have.
    fn asked(&self, parameters: &Parameters) -> Result<Asked, RowError> {
        let wrong = |name: &str, problem: String| {
            Err(RowError::Parameter { name: name.to_owned(), problem })
        };
        match &self.head {
            ImageHead::Classifier(classes) => {
                let function = parameters.function.unwrap_or(classes.function);
                let top_k = match parameters.top_k {
                    TopK::Default => TopK::Best(MANY_CLASSES),
                    given => given,
                };
                Ok(Asked::Labels(function, top_k))
            }
            ImageHead::Detector(detector) => {
                let (asked, usual) = (parameters.detection, detector.thresholds);
                let thresholds = Thresholds {
                    confidence: asked.threshold.unwrap_or(usual.confidence),
                    iou: asked.iou.map_or(usual.iou, f64::from),
                    max_detections: asked.most.or(usual.max_detections),
                    agnostic: asked.agnostic.unwrap_or(usual.agnostic),
                };
                match thresholds.problem() {
                    None => Ok(Asked::Objects(thresholds)),
                    Some(("confidence", problem)) => wrong("threshold", problem),
                    Some((name, problem)) => wrong(name, problem),
                }
            }
            ImageHead::Features => match (parameters.pool, self.outputs.vector) {
                (true, None) => {
                    wrong("pool", "the graph gives no vector of the whole image".to_owned())
                }
                (is_pooled, _) => Ok(Asked::Features { is_pooled }),
            },
        }
    }

    pub(crate) fn prepare(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
    ) -> Result<Prepared, RowError> {
        if task != self.task {
            let (asked, known) = (task.name(), self.task.name().to_owned());
            return Err(RowError::Task { asked, known });
        }
        let file = self.file(input)?;
        let asked = self.asked(parameters)?;
        let image = self.decoder.decode(file, &self.limits).map_err(refused)?;
        let pixels = self.preparation.apply(&image).map_err(refused)?;
        let side = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let [height, width] = pixels.size.map(side);
        let [_, input_height, input_width] = pixels.shape.map(side);
        let (work, context) = match asked {
            Asked::Labels(function, top_k) => {
                (WorkKind::Logits, ContextKind::Labels { function, top_k })
            }
            Asked::Objects(thresholds) => {
                let (sent, input) = ([width, height], [input_width, input_height]);
                let work = ObjectWork { sent, input, thresholds };
                (WorkKind::Objects(work), ContextKind::Objects { size: [height, width] })
            }
            Asked::Features { is_pooled } => {
                (WorkKind::ImageFeatures, ContextKind::ImageFeatures { is_pooled })
            }
        };
        let inputs = self.inputs.row(pixels)?;
        let row = Row { inputs, tokens: 0, is_truncated: false, work: Work(work) };
        Ok(Prepared { rows: vec![row], context: Context(context) })
    }

    pub(crate) fn reduce(
        &self,
        work: &WorkKind,
        outputs: &[RowOutput<'_>],
    ) -> Result<Reduced, RowError> {
        let output = |at: usize| {
            let (output, problem) = (self.outputs.name(at), "the run did not give it");
            let missing =
                || RowError::Output { output: output.to_owned(), problem: problem.into() };
            outputs.get(at).ok_or_else(missing)
        };
        match (work, &self.head) {
            (WorkKind::Logits, _) => Ok(Reduced::Values(whole_logits(output(0)?)?)),
            (WorkKind::Objects(work), ImageHead::Detector(Detector { boxes, .. })) => {
                let found = match *boxes {
                    Boxes::Yolo(layout) => {
                        let letterbox = Letterbox::of(work.sent, work.input);
                        yolo(output(0)?, layout, &work.thresholds, &letterbox)?
                    }
                    Boxes::Queries(kind) => {
                        queries(output(0)?, output(1)?, kind, &work.thresholds, work.sent)?
                    }
                };
                Ok(Reduced::Objects(found))
            }
            (WorkKind::ImageFeatures, ImageHead::Features) => {
                let pooled = self.outputs.vector.map(output).transpose()?;
                let pooled = pooled.map_or_else(Vec::new, |it| it.values.to_vec());
                let (dims, values) = match self.outputs.patches {
                    Some(at) => {
                        let patches = output(at)?;
                        (patches.dims.clone(), patches.values.to_vec())
                    }
                    None => (vec![pooled.len()], pooled.clone()),
                };
                for values in [&pooled, &values] {
                    check_numbers(values, self.outputs.name(0))?;
                }
                Ok(Reduced::Features { dims, values, pooled })
            }
            _ => Err(foreign()),
        }
    }

    pub(crate) fn finish(
        &self,
        context: ContextKind,
        rows: Vec<Reduced>,
    ) -> Result<Reply, RowError> {
        let output = self.outputs.name(0);
        let mut rows = rows.into_iter();
        let row = rows.next().filter(|_| rows.len() == 0).ok_or_else(foreign)?;
        match (context, row, &self.head) {
            (
                ContextKind::Labels { function, top_k },
                Reduced::Values(logits),
                ImageHead::Classifier(classes),
            ) => {
                let found = classify(&classes.labels, logits, function, top_k, output)?;
                Ok(Reply::Labels(found))
            }
            (
                ContextKind::Objects { size },
                Reduced::Objects(found),
                ImageHead::Detector(detector),
            ) => {
                let object = |it: crate::detect::Detection| {
                    let (class, score, corners) = (it.class, it.score, it.corners);
                    let missing = || {
                        let problem = format!("class {class} of {} labels", detector.labels.len());
                        RowError::Output { output: output.to_owned(), problem }
                    };
                    let label = detector.labels.get(class).ok_or_else(missing)?.clone();
                    Ok(Object { label, class, score, corners })
                };
                let found = found.into_iter().map(object).collect::<Result<_, RowError>>()?;
                Ok(Reply::Objects(Objects { found, size }))
            }
            (
                ContextKind::ImageFeatures { is_pooled },
                Reduced::Features { dims, values, pooled },
                ImageHead::Features,
            ) => Ok(match is_pooled || dims.len() < 2 {
                true => Reply::Pooled(if pooled.is_empty() { values } else { pooled }),
                false => {
                    let width = dims.last().copied().unwrap_or(0);
                    let tokens = values.len().checked_div(width).unwrap_or(0);
                    Reply::Features(Features { tokens, width, values, pooled })
                }
            }),
            _ => Err(foreign()),
        }
    }
}

/// The graph's classes are as many as the labels.
fn check_labels(head: &ImageHead, outputs: &ImageOutputs, file: &str) -> Result<(), FolderError> {
    let Some(width) = outputs.width else { return Ok(()) };
    let (labels, width) = match head {
        ImageHead::Classifier(classes) => (classes.labels.len(), width),
        ImageHead::Detector(Detector { boxes: Boxes::Queries(kind), labels, .. }) => match kind {
            // The last class is "nothing".
            Queries::Softmax => (labels.len(), width.saturating_sub(1)),
            Queries::Sigmoid | Queries::BestOf(_) => (labels.len(), width),
        },
        // The layout of an output was found by its labels.
        ImageHead::Detector(Detector { boxes: Boxes::Yolo(_), .. }) | ImageHead::Features => {
            return Ok(());
        }
    };
    if labels == width {
        return Ok(());
    }
    let problem = format!("it has {width} classes, and {labels} labels are named");
    let error = FolderError::key(file, outputs.name(0), problem);
    Err(error.remedy("name every class of the graph"))
}

/// An image that cannot be taken, in the words of the decoder.
fn refused(error: ImageError) -> RowError {
    RowError::Input(error.to_string())
}

/// A row that is not of this pipeline.
fn foreign() -> RowError {
    let problem = "the row is of another pipeline".to_owned();
    RowError::Output { output: String::new(), problem }
}
