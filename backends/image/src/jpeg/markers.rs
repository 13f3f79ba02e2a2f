//! The markers of a JPEG file: its size, its components, its orientation, and how many scans it has.

use crate::{
    error::ImageError,
    exif::{self, Orientation},
    format::Format,
    header::Header,
};

/// Most scans of a file. Encoders write about ten; each costs as much as the whole image.
const MOST_SCANS: usize = 100;

/// Most pixels that all scans of a file decode: each goes over the whole image.
const MOST_SCANNED: u64 = 600_000_000;

/// So many scans are taken of an image of any size: what encoders write.
const LEAST_SCANS: usize = 12;

/// What stands in front of the first scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: u8,
    orientation: Orientation,
    /// Where the first scan's marker lies.
    scan: usize,
}

fn broken(problem: impl ToString) -> ImageError {
    ImageError::broken(Format::Jpeg, problem)
}

/// The marker of the end.
const END: u8 = 0xD9;

/// A segment behind its marker.
struct Segment<'a> {
    marker: u8,
    /// Behind the length.
    data: &'a [u8],
    /// Where the marker lies, and where the segment ends.
    at: usize,
    end: usize,
}

/// The segment at or behind `at`. Bytes in front of its marker are passed over.
fn segment(bytes: &[u8], at: usize) -> Option<Segment<'_>> {
    let mut at = at;
    loop {
        at += bytes.get(at..)?.iter().position(|it| *it == 0xFF)?;
        match *bytes.get(at + 1)? {
            // Filling, a byte of data, and markers without a segment.
            0xFF | 0 | 1 | 0xD0..=0xD8 => at += 1,
            END => return Some(Segment { marker: END, data: &[], at, end: at + 2 }),
            marker => {
                let length =
                    usize::from(u16::from_be_bytes([*bytes.get(at + 2)?, *bytes.get(at + 3)?]));
                let end = at + 2 + length.max(2);
                let data = bytes.get(at + 4..end.min(bytes.len())).unwrap_or_default();
                return Some(Segment { marker, data, at, end });
            }
        }
    }
}

pub(super) fn frame(bytes: &[u8]) -> Result<Frame, ImageError> {
    let mut at = 2;
    let mut orientation = None;
    let mut size = None;
    while let Some(segment) = segment(bytes, at) {
        match segment.marker {
            0xDA => {
                let (width, height, components) =
                    size.ok_or_else(|| broken("a scan comes before its size"))?;
                let orientation = orientation.unwrap_or(Orientation::Upright);
                return Ok(Frame { width, height, components, orientation, scan: segment.at });
            }
            0xC0..=0xC2 => {
                let [depth, a, b, c, d, components, ..] = *segment.data else {
                    return Err(broken("it ends within its header"));
                };
                if size.is_some() {
                    return Err(broken("it has two frames"));
                }
                if depth != 8 || !matches!(components, 1 | 3 | 4) {
                    let problem = format!("{components} components of {depth} bits");
                    return Err(ImageError::unsupported(Format::Jpeg, problem));
                }
                let number = |high, low| u32::from(u16::from_be_bytes([high, low]));
                size = Some((number(c, d), number(a, b), components));
            }
            // Other frames: lossless, hierarchical, arithmetic. C4, C8 and CC are no frames.
            0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return Err(ImageError::unsupported(
                    Format::Jpeg,
                    format!("a frame of kind {:x}", segment.marker),
                ));
            }
            0xE1 if orientation.is_none() => {
                orientation = segment.data.strip_prefix(b"Exif\0\0").map(exif::orientation);
            }
            END => break,
            _ => {}
        }
        at = segment.end;
    }
    Err(broken("it ends before its first scan"))
}

/// What the header of a JPEG says.
pub(crate) fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    let frame = frame(bytes)?;
    // Coefficients of 16 bits are kept for each component where there are several scans, and a copy of all components
    // where there are four.
    let held = 2 * u64::from(frame.components) + if frame.components == 4 { 4 } else { 0 };
    Header::new(Format::Jpeg, (frame.width, frame.height), frame.orientation, held)
}

/// Refuses a file of very many scans, and one without an end, as Pillow does. Reads all of it, and allocates nothing.
pub(super) fn check_scans(bytes: &[u8], frame: &Frame) -> Result<(), ImageError> {
    let pixels = u64::from(frame.width) * u64::from(frame.height);
    let most = MOST_SCANNED.checked_div(pixels).unwrap_or(u64::MAX);
    let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(LEAST_SCANS, MOST_SCANS);
    let mut at = frame.scan;
    let mut scans = 0;
    while let Some(segment) = segment(bytes, at) {
        if segment.marker == END {
            return Ok(());
        }
        scans += usize::from(segment.marker == 0xDA);
        if scans > most {
            return Err(ImageError::TooManyScans { limit: most });
        }
        at = segment.end;
    }
    Err(broken("it ends too soon"))
}
