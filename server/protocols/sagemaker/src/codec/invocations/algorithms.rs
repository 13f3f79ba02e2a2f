//! Replies of AWS's own containers to images and texts: those of its built-in image algorithms, and of JumpStart's
//! models. Sources: <https://docs.aws.amazon.com/sagemaker/latest/dg/IC-HowItWorks.html>,
//! <https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection-in-formats.html>.

use std::sync::Arc;

use backend::{DataType, NamedTensor, Tensor};

use super::dialect::Dialect;
use formats::{
    EncodedReply,
    json::write,
    negotiate::Media,
    parameter,
    reply_size::{self, TextForm},
    vectors::output,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceResponse, Parameter},
    signature::Signature,
    task::{BOX, CLASS, COUNT, EMBEDDING, LABEL, RETURN_ALL_SCORES, SCORE, SIZE, TOP_K, Task},
};

/// Such a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlgorithmReply {
    family: Family,
    content: Content,
    media: Media,
}

/// Whose form it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// That of the built-in algorithms.
    BuiltIn,
    /// That of JumpStart's models; with the names of classes where `is_verbose`.
    JumpStart { is_verbose: bool },
}

/// What is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A number for each class.
    Classes,
    /// Objects in an image.
    Objects,
    /// A vector.
    Vector,
}

/// The form of the reply to a request with these inputs, where the operator, by the dialect, or the client, by
/// `is_verbose`, wants one of these.
pub(super) fn reply(
    signature: &Signature,
    dialect: Option<Dialect>,
    is_verbose: bool,
    inputs: &[NamedTensor],
) -> Option<AlgorithmReply> {
    let family = match dialect {
        Some(Dialect::BuiltIn) => Family::BuiltIn,
        Some(Dialect::JumpStart) => Family::JumpStart { is_verbose },
        _ if is_verbose => Family::JumpStart { is_verbose },
        _ => return None,
    };
    let content = match (family, signature.of_inputs(inputs).0?) {
        (_, Task::ImageClassification) => Content::Classes,
        (_, Task::ObjectDetection) => Content::Objects,
        (Family::JumpStart { .. }, Task::TextClassification | Task::AudioClassification) => {
            Content::Classes
        }
        (Family::JumpStart { .. }, Task::SentenceEmbedding) => Content::Vector,
        _ => return None,
    };
    // Not every detector says how large its images are.
    let is_there = |name: &Arc<str>| signature.output(name).is_some();
    let reply = AlgorithmReply { family, content, media: Media::Json };
    reply.outputs().iter().all(is_there).then_some(reply)
}

impl AlgorithmReply {
    /// The same, sent as that type.
    pub(super) fn sent_as(self, media: Media) -> AlgorithmReply {
        AlgorithmReply { media, ..self }
    }

    /// The outputs that it is made of.
    pub(super) fn outputs(self) -> Vec<Arc<str>> {
        let names: &[&str] = match self.content {
            Content::Classes => &[LABEL, SCORE, CLASS],
            Content::Objects => &[BOX, SCORE, CLASS, COUNT, SIZE],
            Content::Vector => &[EMBEDDING],
        };
        names.iter().map(|it| Arc::from(*it)).collect()
    }

    /// Asks for all classes, however many the request asks for.
    pub(super) fn complete(self, parameters: &mut Vec<(Arc<str>, Parameter)>) {
        if self.content == Content::Classes {
            parameters.retain(|(name, _)| ![TOP_K, RETURN_ALL_SCORES].contains(&&**name));
            parameters.push(parameter::all_classes());
        }
    }

    /// The reply: as JSON that of one row by itself, of several rows in a list; in lines one for each row.
    pub(super) fn encode(
        self,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        grant.take(|loose| reply_size::of_response(response, TextForm::QUOTED, loose))?;
        let mut rows = match self.content {
            Content::Classes => self.classes(response)?,
            Content::Objects => self.objects(signature, response)?,
            Content::Vector => vectors(response)?,
        };
        if let Media::JsonLines(_) = self.media {
            let bare = self.family == Family::BuiltIn && self.content == Content::Classes;
            if bare {
                rows.iter_mut().for_each(|it| *it = prediction(it));
            }
            let mut out = rows.join(&b'\n');
            out.push(b'\n');
            let content_type = self.media.name().into();
            return Ok(EncodedReply { content_type, ..EncodedReply::json(out) });
        }
        Ok(EncodedReply::json(match rows.as_slice() {
            [only] => only.clone(),
            _ => [&b"["[..], &rows.join(&b','), b"]"].concat(),
        }))
    }

    /// Numbers of all classes, in the order of the classes.
    fn classes(self, response: &InferenceResponse) -> Result<Vec<Vec<u8>>, Error> {
        let (labels, scores) = (output(response, LABEL)?, output(response, SCORE)?);
        let numbers = integers(output(response, CLASS)?);
        let scores = floats(scores);
        let labels: Vec<&[u8]> = labels.strings().collect();
        let rows = rows(output(response, SCORE)?);
        let width = scores.len().checked_div(rows).unwrap_or(0);
        let mut replies = Vec::with_capacity(rows);
        for row in 0..rows {
            let range = row * width..(row + 1) * width;
            let mut order: Vec<usize> = range.clone().collect();
            order.sort_by_key(|at| numbers.get(*at));
            let score = |out: &mut Vec<u8>, at: &usize| {
                write::number(out, scores.get(*at).copied().unwrap_or_default());
            };
            let label = |out: &mut Vec<u8>, at: &usize| text(out, labels.get(*at));
            let mut out = Vec::new();
            match self.family {
                Family::BuiltIn => list(&mut out, &order, score),
                Family::JumpStart { is_verbose } => {
                    out.push(b'{');
                    write::key(&mut out, "probabilities");
                    list(&mut out, &order, score);
                    if is_verbose {
                        write::key(&mut out, "labels");
                        list(&mut out, &order, label);
                        write::key(&mut out, "predicted_label");
                        // The best one is first.
                        text(&mut out, labels.get(range.start));
                    }
                    out.push(b'}');
                }
            }
            replies.push(out);
        }
        Ok(replies)
    }

    /// Objects, with corners as parts of the width and height of their image.
    fn objects(
        self,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let boxes = floats(output(response, BOX)?);
        let scores = floats(output(response, SCORE)?);
        let classes = integers(output(response, CLASS)?);
        let counts = integers(output(response, COUNT)?);
        let sizes = integers(output(response, SIZE)?);
        let width = scores.len().checked_div(counts.len()).unwrap_or(0);
        let names = signature.output(CLASS).map(|it| it.labels.clone()).unwrap_or_default();
        let mut replies = Vec::with_capacity(counts.len());
        for (row, count) in counts.iter().enumerate() {
            let size =
                |at: usize| sizes.get(2 * row + at).map_or(1.0, |it| it.max(&1).to_owned() as f32);
            // As parts of the width for left and right, and of the height for top and bottom.
            let whole = [size(1), size(0), size(1), size(0)];
            let count = usize::try_from(*count).unwrap_or(0).min(width);
            let found: Vec<usize> = (row * width..row * width + count).collect();
            let corners = |out: &mut Vec<u8>, at: usize| {
                for (side, whole) in whole.iter().enumerate() {
                    write::item(out);
                    let corner = boxes.get(4 * at + side).copied().unwrap_or_default();
                    write::number(out, (corner / whole).clamp(0.0, 1.0));
                }
            };
            let class = |at: usize| classes.get(at).copied().unwrap_or_default();
            let score = |at: usize| scores.get(at).copied().unwrap_or_default();
            let mut out = b"{".to_vec();
            match self.family {
                Family::BuiltIn => {
                    write::key(&mut out, "prediction");
                    list(&mut out, &found, |out, at| {
                        out.push(b'[');
                        write::number(out, class(*at) as f32);
                        write::item(out);
                        write::number(out, score(*at));
                        corners(out, *at);
                        out.push(b']');
                    });
                }
                Family::JumpStart { is_verbose } => {
                    write::key(&mut out, "normalized_boxes");
                    list(&mut out, &found, |out, at| {
                        out.push(b'[');
                        corners(out, *at);
                        out.push(b']');
                    });
                    write::key(&mut out, "classes");
                    list(&mut out, &found, |out, at| write::number(out, class(*at)));
                    write::key(&mut out, "scores");
                    list(&mut out, &found, |out, at| write::number(out, score(*at)));
                    if is_verbose {
                        write::key(&mut out, "labels");
                        list(&mut out, &names, |out, it| write::string(out, it));
                    }
                }
            }
            out.push(b'}');
            replies.push(out);
        }
        Ok(replies)
    }
}

/// The vector of each row.
fn vectors(response: &InferenceResponse) -> Result<Vec<Vec<u8>>, Error> {
    let tensor = output(response, EMBEDDING)?;
    let (values, rows) = (floats(tensor), rows(tensor));
    let width = values.len().checked_div(rows).unwrap_or(0).max(1);
    let vector = |row: &[f32]| {
        let mut out = b"{".to_vec();
        write::key(&mut out, "embedding");
        list(&mut out, row, |out, it| write::number(out, *it));
        out.push(b'}');
        out
    };
    Ok(values.chunks(width).map(vector).collect())
}

/// `{"prediction": [..]}`.
fn prediction(list: &[u8]) -> Vec<u8> {
    [&b"{\"prediction\":"[..], list, b"}"].concat()
}

fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for it in items {
        write::item(out);
        write(out, it);
    }
    out.push(b']');
}

fn text(out: &mut Vec<u8>, bytes: Option<&&[u8]>) {
    write::string(out, &String::from_utf8_lossy(bytes.copied().unwrap_or_default()));
}

fn rows(tensor: &Tensor) -> usize {
    tensor.shape().rows().unwrap_or(1)
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    debug_assert_eq!(tensor.dtype(), DataType::Fp32);
    let bytes = tensor.to_bytes();
    bytes.chunks_exact(size_of::<f32>()).map(bytemuck::pod_read_unaligned).collect()
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    debug_assert_eq!(tensor.dtype(), DataType::Int64);
    let bytes = tensor.to_bytes();
    bytes.chunks_exact(size_of::<i64>()).map(bytemuck::pod_read_unaligned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;
    use formats::{negotiate::LinesName, samples};

    const LINES: Media = Media::JsonLines(LinesName::JsonLines);

    fn algorithm(family: Family, content: Content, media: Media) -> AlgorithmReply {
        AlgorithmReply { family, content, media }
    }

    fn response(outputs: Vec<(&str, Tensor)>) -> InferenceResponse {
        let mut response =
            samples::only("", Tensor::from_vec(Shape::new(&[1]), vec![0i64]).unwrap());
        let outputs = outputs.into_iter();
        response.outputs =
            outputs.map(|(name, tensor)| NamedTensor { name: name.into(), tensor }).collect();
        response
    }

    fn floats_of(dims: &[usize], values: &[f32]) -> Tensor {
        Tensor::from_vec(Shape::new(dims), values.to_vec()).unwrap()
    }

    fn integers_of(dims: &[usize], values: &[i64]) -> Tensor {
        Tensor::from_vec(Shape::new(dims), values.to_vec()).unwrap()
    }

    /// Classes of two images, best first.
    fn classes() -> InferenceResponse {
        let labels = ["c", "a", "b", "b", "c", "a"];
        response(vec![
            (LABEL, Tensor::from_strings(Shape::new(&[2, 3]), labels).unwrap()),
            (SCORE, floats_of(&[2, 3], &[0.5, 0.375, 0.125, 0.75, 0.25, 0.0])),
            (CLASS, integers_of(&[2, 3], &[2, 0, 1, 1, 2, 0])),
        ])
    }

    #[track_caller]
    fn check(reply: AlgorithmReply, response: &InferenceResponse, expected: &str) {
        let mut signature = samples::image_model();
        let mut class = samples::ports(&["class INT64 [-1]"]).remove(0);
        class.labels = ["cat".to_owned(), "dog".to_owned()].into();
        signature.outputs.push(class);
        let reply = reply.encode(&signature, response, &Grant::all(0)).unwrap();
        assert_eq!(samples::body(&reply), expected);
    }

    #[test]
    fn numbers_of_classes_are_in_the_order_of_the_classes() {
        use {Content::Classes, Family::BuiltIn};
        let one = "[0.375,0.125,0.5]";
        let other = "[0.0,0.75,0.25]";
        check(algorithm(BuiltIn, Classes, Media::Json), &classes(), &format!("[{one},{other}]"));
        let lines = format!("{{\"prediction\":{one}}}\n{{\"prediction\":{other}}}\n");
        check(algorithm(BuiltIn, Classes, LINES), &classes(), &lines);
        let mut single = classes();
        for it in &mut single.outputs {
            it.tensor = it.tensor.slice_rows(0, 1).unwrap();
        }
        check(algorithm(BuiltIn, Classes, Media::Json), &single, one);
        let jumpstart =
            |is_verbose| algorithm(Family::JumpStart { is_verbose }, Classes, Media::Json);
        check(jumpstart(false), &single, &format!("{{\"probabilities\":{one}}}"));
        let expected =
            format!(r#"{{"probabilities":{one},"labels":["a","b","c"],"predicted_label":"c"}}"#);
        check(jumpstart(true), &single, &expected);
    }

    #[test]
    fn corners_are_parts_of_width_and_height() {
        let found = response(vec![
            (BOX, floats_of(&[1, 2, 4], &[10.0, 5.0, 30.0, 45.0, -1.0, -1.0, -1.0, -1.0])),
            (SCORE, floats_of(&[1, 2], &[0.5, -1.0])),
            (CLASS, integers_of(&[1, 2], &[1, -1])),
            (COUNT, integers_of(&[1, 1], &[1])),
            (SIZE, integers_of(&[1, 2], &[50, 40])),
        ]);
        let built_in = |media| algorithm(Family::BuiltIn, Content::Objects, media);
        let one = r#"{"prediction":[[1.0,0.5,0.25,0.1,0.75,0.9]]}"#;
        check(built_in(Media::Json), &found, one);
        check(built_in(LINES), &found, &format!("{one}\n"));
        let jumpstart =
            |is_verbose| algorithm(Family::JumpStart { is_verbose }, Content::Objects, Media::Json);
        let parts = r#""normalized_boxes":[[0.25,0.1,0.75,0.9]],"classes":[1],"scores":[0.5]"#;
        check(jumpstart(false), &found, &format!("{{{parts}}}"));
        check(jumpstart(true), &found, &format!("{{{parts},\"labels\":[\"cat\",\"dog\"]}}"));
    }

    #[test]
    fn a_vector_is_an_object() {
        let vector = response(vec![(EMBEDDING, floats_of(&[1, 2], &[0.5, -1.0]))]);
        let family = Family::JumpStart { is_verbose: false };
        let reply = algorithm(family, Content::Vector, Media::Json);
        check(reply, &vector, r#"{"embedding":[0.5,-1.0]}"#);
    }
}
