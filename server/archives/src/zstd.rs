//! What zstd has compressed, read as a stream: frames one after the other, and frames that are to be skipped between
//! them (RFC 8878). Layers of images hold such, too.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// How a frame begins.
pub(super) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Most bytes that a frame may refer back to: what any decoder must be able to do, and what builders of images use,
/// takes 8 MiB; `--ultra` takes this.
const MOST_WINDOW: u64 = 128 << 20;

/// The frames of a source.
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    is_begun: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Frames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MOST_WINDOW);
        Frames { source, decoder, is_begun: false }
    }

    /// Goes to the next frame. False at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped =
                        io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(&error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_begun {
                let read = self.decoder.read(into)?;
                if 0 < read || into.is_empty() {
                    return Ok(read);
                }
            }
            if !self.is_begun || self.decoder.is_finished() {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.is_begun = true;
            }
            let some = BlockDecodingStrategy::UptoBytes(into.len().max(1));
            self.decoder.decode_blocks(&mut self.source, some).map_err(|it| invalid(&it))?;
        }
    }
}

fn invalid(error: &FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not valid zstd: {error}"))
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn zstd(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn read(compressed: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Frames::new(compressed).read_to_end(&mut content).map(|_| content)
    }

    #[test]
    fn frames_are_one_content_and_those_that_are_to_be_skipped_none_of_it() {
        let content: Vec<u8> = (0..300_000_u32).flat_map(|it| (it / 7).to_le_bytes()).collect();
        let mut compressed = zstd(&content[..700_000]);
        compressed.extend([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        compressed.extend(zstd(&content[700_000..]));
        compressed.extend(zstd(b""));
        assert_eq!(read(&compressed).unwrap(), content);
        assert_eq!(read(b"").unwrap(), b"");
        let cut = read(&compressed[..compressed.len() / 2]).unwrap_err();
        assert!(cut.to_string().contains("zstd"), "{cut}");
    }

    #[test]
    fn a_window_that_no_image_has_is_refused_before_it_is_held() {
        // A frame header with a window of 2^41 bytes.
        let error = read(&[&ZSTD[..], &[0, 0xff], &[0; 16]].concat()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
