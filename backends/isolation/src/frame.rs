//! Frames: a length, then so many bytes, which are a message. Pure.
//!
//! The server's own program writes messages by postcard. Another program, in whose language there is no reader of that,
//! gets and gives the same messages in JSON.

use std::io;

use backend::SizeMismatch;
use serde::{Deserialize, Serialize};

/// Why what came from the other side cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Garbage {
    #[error("a frame of {len} bytes, expected at most {longest}")]
    TooLong { len: usize, longest: usize },
    #[error(transparent)]
    NoMessage(#[from] postcard::Error),
    #[error("no message in JSON: {0}")]
    NoJson(String),
    #[error("outputs of {all} bytes, in memory of {memory}")]
    TooLarge { all: u64, memory: usize },
    #[error("output '{0}' lies outside of its memory")]
    Outside(String),
    #[error("output '{name}': {error}")]
    NoTensor { name: String, error: SizeMismatch },
    /// A frame, or a file, that is not what is waited for.
    #[error("{0}")]
    Unexpected(String),
}

/// Bytes of the length before a frame.
pub(crate) const HEAD: usize = 4;

/// The longest frame. A model's description is the longest that there is: it has labels and metadata of its file.
pub(crate) const LONGEST: usize = 256 << 20;

/// The longest frame of a run, or answer to one: a list of tensors, or the text of an error. It bounds the tensors that
/// a hostile worker can make the server hold at some tens of megabytes: one without a byte takes 5 bytes of the frame,
/// and some hundred of memory.
pub(crate) const LONGEST_ANSWER: usize = 512 << 10;

/// How messages are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Postcard,
    Json,
}

/// The message as a frame, in the memory of an older one. `None` where it is longer than any may be.
pub(crate) fn encode(
    encoding: Encoding,
    message: &impl Serialize,
    mut frame: Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    frame.clear();
    frame.extend([0; HEAD]);
    let mut frame = match encoding {
        Encoding::Postcard => postcard::to_extend(message, frame).map_err(io::Error::other)?,
        Encoding::Json => {
            serde_json::to_writer(&mut frame, message)?;
            frame
        }
    };
    let len = frame.len() - HEAD;
    if LONGEST < len {
        return Ok(None);
    }
    frame[..HEAD].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(Some(frame))
}

/// Where the frame ends that begins these bytes, if all of it is there.
///
/// # Errors
/// Those of [`len`].
pub(crate) fn end(bytes: &[u8], longest: usize) -> Result<Option<usize>, Garbage> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    Ok(Some(HEAD + len(*head, longest)?).filter(|end| *end <= bytes.len()))
}

/// The bytes of a frame behind its length.
///
/// # Errors
/// What is wrong with it: it would be longer than `longest`.
pub(crate) fn len(head: [u8; HEAD], longest: usize) -> Result<usize, Garbage> {
    let len = u32::from_le_bytes(head) as usize;
    if longest < len {
        return Err(Garbage::TooLong { len, longest });
    }
    Ok(len)
}

/// The message in a frame.
///
/// # Errors
/// Where its bytes are none.
pub(crate) fn decode<'a, T: Deserialize<'a>>(
    encoding: Encoding,
    frame: &'a [u8],
) -> Result<T, Garbage> {
    let body = frame.get(HEAD..).unwrap_or_default();
    match encoding {
        Encoding::Postcard => Ok(postcard::from_bytes(body)?),
        Encoding::Json => {
            serde_json::from_slice(body).map_err(|it| Garbage::NoJson(it.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backend::DataType;
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;
    use crate::{
        calls::CallsAnswer,
        message::{Answer, LoadAnswer, Opened, Placed},
    };

    fn answer() -> Vec<u8> {
        let of = |name: &'static str| Placed {
            name: name.into(),
            dtype: DataType::Fp32,
            dims: vec![2, 3],
            at: 64,
            len: 24,
        };
        let outputs = Ok(vec![of("scores"), of("labels")]);
        let answer = Answer { run: 3, took: Duration::from_micros(9), wide: false, outputs };
        encode(Encoding::Postcard, &answer, b"an older one".to_vec()).unwrap().unwrap()
    }

    #[test]
    fn a_frame_ends_where_its_length_says_and_is_not_there_before_that() {
        let frame = answer();
        for cut in 0..frame.len() {
            assert_eq!(end(&frame[..cut], LONGEST), Ok(None));
        }
        let two = [&frame[..], &frame].concat();
        assert_eq!(end(&two, LONGEST), Ok(Some(frame.len())));
        let Answer { run, outputs, .. } = decode(Encoding::Postcard, &frame).unwrap();
        let outputs = outputs.unwrap();
        assert_eq!((run, outputs.len(), &*outputs[1].name, outputs[1].len), (3, 2, "labels", 24));
        let len = frame.len() - HEAD;
        assert_eq!(end(&two, 3), Err(Garbage::TooLong { len, longest: 3 }));
    }

    proptest! {
        #[test]
        fn bytes_at_random_are_messages_or_errors(bytes in vec(any::<u8>(), 0..200)) {
            for encoding in [Encoding::Postcard, Encoding::Json] {
                let _ = decode::<Opened>(encoding, &bytes);
                let _ = decode::<LoadAnswer>(encoding, &bytes);
                let _ = decode::<Answer<'_>>(encoding, &bytes);
                let _ = decode::<CallsAnswer<'_>>(encoding, &bytes);
            }
            prop_assert!(end(&bytes, LONGEST).is_ok_and(|it| it.is_none_or(|end| end <= bytes.len()))
                || end(&bytes, LONGEST).is_err());
        }

        #[test]
        fn an_answer_that_is_changed_anywhere_is_a_message_or_an_error(
            changes in vec((any::<Index>(), any::<u8>()), 0..6),
        ) {
            let mut frame = answer();
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if let Ok(Answer { outputs: Ok(outputs), .. }) = decode(Encoding::Postcard, &frame) {
                // Names are parts of the frame.
                prop_assert!(outputs.iter().all(|it| it.name.len() <= frame.len()));
            }
        }
    }
}
