//! What files may cost that steps decode: bounds of the whole server, and the bytes that a call takes of its budget.

use std::sync::Arc;

use backend::{BackendError, Tensor};
use bytes::Bytes;
use image::JpegLibrary;
use inference::limits::{Budget, Permit};

use crate::folder::{LONGEST_SOUND, MOST_PIXELS};

/// Bounds of the files that steps decode.
#[derive(Debug, Clone, Default)]
pub struct FileBounds {
    /// Most pixels of one image, whatever a model says; `None`: what it says, else 50 million.
    pub max_image_pixels: Option<u64>,
    /// Seconds of the longest sound, whatever a model says; `None`: what it says, else 300.
    pub max_audio_seconds: Option<u32>,
    /// What decodes JPEG.
    pub jpeg_library: JpegLibrary,
    /// Of which decoded files take their bytes; `None`: they are not counted.
    pub budget: Option<Arc<Budget>>,
}

/// The bytes that one call has taken.
pub(super) struct Taken<'a> {
    budget: Option<&'a Arc<Budget>>,
    permit: Option<Permit>,
    kept: usize,
}

impl FileBounds {
    /// Most pixels of one image of a model for which this was given.
    pub(super) fn pixels(&self, given: Option<usize>) -> u64 {
        bound(given.map(|it| it as u64), self.max_image_pixels, MOST_PIXELS)
    }

    /// Seconds of its longest sound.
    pub(super) fn seconds(&self, given: Option<usize>) -> u64 {
        let most = self.max_audio_seconds.map(u64::from);
        bound(given.map(|it| it as u64), most, LONGEST_SOUND.into())
    }

    /// None of them yet.
    pub(super) fn taken(&self) -> Taken<'_> {
        Taken { budget: self.budget.as_ref(), permit: None, kept: 0 }
    }
}

/// What a model was given, at most what the server was.
fn bound(given: Option<u64>, most: Option<u64>, usual: u64) -> u64 {
    let given = given.or(most).unwrap_or(usual);
    most.map_or(given, |it| it.min(given))
}

impl Taken<'_> {
    /// Takes so many bytes beside those that are kept, before they are held.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`] where other requests hold them, [`BackendError::InvalidInput`] where all of the
    /// budget would not do.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), BackendError> {
        let Some(budget) = self.budget else { return Ok(()) };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let needed = self.kept.saturating_add(bytes);
        let limit = budget.limit();
        if limit < needed {
            return Err(BackendError::InvalidInput(format!(
                "the files of the request take up to {needed} bytes while they are decoded, more than all requests may \
                 take together (--max-inflight-bytes); send smaller ones, or fewer at once"
            )));
        }
        let granted = match &mut self.permit {
            Some(permit) => permit.grow_to(needed),
            None => {
                self.permit = budget.take(needed);
                self.permit.is_some()
            }
        };
        match granted {
            true => Ok(()),
            false => Err(BackendError::OutOfMemory(format!(
                "decoding the files of the request takes up to {needed} bytes, and {} of the {limit} bytes for bodies \
                 and what is decoded are taken (--max-inflight-bytes)",
                budget.used()
            ))),
        }
    }

    /// A file is decoded, and so many bytes are kept of it.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_add(bytes);
        if let Some(permit) = &mut self.permit {
            permit.resize(self.kept);
        }
    }

    /// The tensor, whose bytes are given back when the last who holds them has gone; the rest is given back now.
    pub(super) fn hold(self, tensor: Tensor) -> Tensor {
        let Some(mut permit) = self.permit else { return tensor };
        let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
        permit.resize(tensor.byte_len());
        let [bytes] = tensor.segments() else { return tensor };
        let held = Bytes::from_owner(Held { bytes: bytes.clone(), _permit: permit });
        Tensor::new(dtype, shape, held).unwrap_or(tensor)
    }
}

/// Bytes, and the part of the budget that they have.
struct Held {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;

    #[test]
    fn a_model_may_have_more_than_the_usual_and_no_more_than_the_server() {
        let seconds = |given, max_audio_seconds| {
            FileBounds { max_audio_seconds, ..FileBounds::default() }.seconds(given)
        };
        assert_eq!([seconds(None, None), seconds(Some(600), None)], [300, 600]);
        assert_eq!([seconds(None, Some(900)), seconds(Some(600), Some(900))], [900, 600]);
        assert_eq!(seconds(Some(600), Some(60)), 60);
        assert_eq!(FileBounds::default().pixels(Some(60_000_000)), 60_000_000);
    }

    #[test]
    fn bytes_are_taken_while_files_are_decoded_and_kept_as_long_as_the_tensor() {
        let budget = Budget::new(100);
        let bounds = FileBounds { budget: Some(budget.clone()), ..FileBounds::default() };
        let mut taken = bounds.taken();
        taken.take(60).unwrap();
        assert_eq!(budget.used(), 60);
        taken.keep(8);
        assert_eq!(budget.used(), 8);
        let other = budget.take(80).unwrap();
        assert!(matches!(taken.take(60), Err(BackendError::OutOfMemory(_))));
        assert!(matches!(taken.take(200), Err(BackendError::InvalidInput(_))));
        drop(other);
        let tensor = Tensor::from_vec::<f32>(Shape::new(&[2]), vec![1.0, 2.0]).unwrap();
        let tensor = taken.hold(tensor);
        assert_eq!((budget.used(), tensor.as_slice_of::<f32>().unwrap()), (8, &[1.0, 2.0][..]));
        drop(tensor);
        assert_eq!(budget.used(), 0);
    }
}
