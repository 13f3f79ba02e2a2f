//! What files may cost that steps decode: bounds of the whole server, and the bytes that a call takes of its budget.

use std::sync::Arc;

use backend::BackendError;
use inference::{error::Error, limits::Budget, room::Room};

use crate::{
    folder::{LONGEST_SOUND, MOST_PIXELS},
    jpeg_library::JpegLibrary,
};

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

    /// Room for one call's files.
    pub(super) fn room(&self) -> Room {
        Room::of(self.budget.as_ref(), Room::FILES)
    }
}

/// What a model was given, at most what the server was.
fn bound(given: Option<u64>, most: Option<u64>, usual: u64) -> u64 {
    let given = given.or(most).unwrap_or(usual);
    most.map_or(given, |it| it.min(given))
}

/// What a call has asked of its room, as an engine refuses it.
///
/// # Errors
/// [`BackendError::Busy`] where other requests hold the room, [`BackendError::InvalidInput`] where all of the
/// budget would not do.
pub(super) fn granted(asked: Result<(), Error>) -> Result<(), BackendError> {
    asked.map_err(|it| match it {
        Error::OutOfBudget(text) => BackendError::Busy(text),
        other => BackendError::InvalidInput(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_call_without_room_is_refused_as_engines_refuse() {
        let budget = Budget::new(1 << 20);
        let bounds = FileBounds { budget: Some(budget.clone()), ..FileBounds::default() };
        let mut room = bounds.room();
        let _other = budget.take(800 << 10).unwrap();
        assert!(matches!(granted(room.take(600 << 10)), Err(BackendError::Busy(_))));
        assert!(matches!(granted(room.take(2 << 20)), Err(BackendError::InvalidInput(_))));
        assert_eq!(granted(room.take(200 << 10)), Ok(()));
    }
}
