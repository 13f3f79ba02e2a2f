//! Arrays of NumPy's for a pipeline of images or sounds: pixels and samples that their sender has decoded. Each becomes
//! a file that is read without loss, a TIFF or a WAV, so that the bounds of files are theirs, too.

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use super::{Decoded, ReplyFormat, huggingface::PipelineReply};
use formats::{expansion, inputs, negotiate::Media, npy};
use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature},
    task::Medium,
};

/// Bytes of the length in front of an element, and of the longest header of a file.
const IN_FRONT: usize = size_of::<u32>() + TIFF_HEADER;
/// Bytes in front of the pixels of a TIFF: its entries, and the bits of its three samples.
const TIFF_HEADER: usize = 128;
/// Bytes in front of the samples of a WAV.
const WAV_HEADER: usize = 44;

/// Does a pipeline take what is in arrays?
pub(super) fn are_taken(signature: &Signature) -> bool {
    signature.medium().is_some_and(|it| it != Medium::Text)
}

/// The images or the sound in an array.
///
/// # Errors
/// When the array has not the type and the shape that the model takes.
pub(super) fn decode(signature: &Signature, body: &Bytes, grant: &Grant) -> Result<Decoded, Error> {
    let take = |files: usize, data: usize| {
        let in_front = files.saturating_mul(IN_FRONT);
        grant.hold(data.saturating_add(in_front))?;
        expansion::hold_ports(signature, grant)
    };
    let (dtype, shape) = npy::described(body)?;
    let dims = shape.dims();
    let is_sound = signature.medium() == Some(Medium::Audio);
    let (files, rows) = match (is_sound, dtype, dims) {
        _ if dims.contains(&0) => return Err(wrong(format!("{shape} has no elements"))),
        (true, DataType::Fp16 | DataType::Fp32 | DataType::Fp64, [count]) => {
            let rate = signature.pipeline.as_ref().and_then(|it| it.sampling_rate);
            let rate = rate.ok_or_else(|| wrong("the model says no rate of samples".to_owned()))?;
            let samples = npy::decode(&port_of(DataType::Fp32), body, grant)?.to_bytes();
            take(1, samples.len())?;
            (elements(&wav(rate, *count)?, std::iter::once(&*samples))?, 1)
        }
        (false, DataType::Uint8, [.., height, width, 3]) if matches!(dims.len(), 3 | 4) => {
            let pixels = npy::decode(&port_of(DataType::Uint8), body, grant)?.to_bytes();
            let of_image = height * width * 3;
            let images = pixels.chunks_exact(of_image);
            let rows = images.len();
            take(rows, pixels.len())?;
            (elements(&tiff(*height, *width)?, images)?, rows)
        }
        _ => {
            let expected = match is_sound {
                true => "FP32 [samples] at the rate of the model",
                false => "UINT8 [height, width, 3], or [n, height, width, 3] of several images",
            };
            return Err(wrong(format!("expected {expected}, found {dtype} {shape}")));
        }
    };
    let port = inputs::only_input(signature).ok_or_else(|| {
        let names = inputs::names_of(signature);
        Error::InvalidRequest(format!("npy carries one input, the model has {names}"))
    })?;
    let tensor = Tensor::new(DataType::Bytes, Shape::new(&[rows, 1]), files.into())
        .map_err(|it| Error::input(&*port.name, it))?;
    let inputs = vec![NamedTensor { name: port.name.clone(), tensor }];
    let one = PipelineReply::IMAGE;
    let reply = if dims.len() < 4 { one } else { one.of_list() };
    Ok(Decoded {
        json_reply: ReplyFormat::HuggingFace(reply),
        ..Decoded::whole(inputs, Media::Json)
    })
}

fn wrong(problem: String) -> Error {
    Error::InvalidRequest(format!("npy: {problem}"))
}

/// An input of that type, for the decoder of arrays.
fn port_of(dtype: DataType) -> Port {
    let (name, labels) = ("array".into(), Default::default());
    Port {
        name,
        dtype,
        dims: Vec::new(),
        any_rank: false,
        scalar: false,
        optional: false,
        labels,
        text_codes: Default::default(),
    }
}

/// Files of one header as the elements of a tensor.
fn elements<'a>(
    header: &[u8],
    contents: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) -> Result<Vec<u8>, Error> {
    let each = contents.clone().next().map_or(0, <[u8]>::len).saturating_add(header.len());
    let length = u32::try_from(each)
        .map_err(|_| wrong("expected an image or a sound below 4 GiB".to_owned()))?;
    let mut elements = Vec::with_capacity((each + size_of::<u32>()) * contents.len());
    for content in contents {
        elements.extend_from_slice(&length.to_le_bytes());
        elements.extend_from_slice(header);
        elements.extend_from_slice(content);
    }
    Ok(elements)
}

/// The beginning of a TIFF of red, green and blue, whose pixels follow.
fn tiff(height: usize, width: usize) -> Result<Vec<u8>, Error> {
    let long = |it: usize| u32::try_from(it).map_err(|_| wrong(format!("{it} pixels in a row")));
    let (width, height, bytes) = (long(width)?, long(height)?, long(height * width * 3)?);
    const BITS_AT: u32 = TIFF_HEADER as u32 - 6;
    const LONG: u16 = 4;
    const SHORT: u16 = 3;
    // Tag, type, how many, and the value or where it lies.
    let entries: [(u16, u16, u32, u32); 9] = [
        (256, LONG, 1, width),
        (257, LONG, 1, height),
        (258, SHORT, 3, BITS_AT),
        // No compression; red, green and blue.
        (259, SHORT, 1, 1),
        (262, SHORT, 1, 2),
        (273, LONG, 1, TIFF_HEADER as u32),
        (277, SHORT, 1, 3),
        (278, LONG, 1, height),
        (279, LONG, 1, bytes),
    ];
    let mut header = b"II*\0\x08\0\0\0".to_vec();
    header.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in entries {
        header.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        header.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
    }
    header.extend(0u32.to_le_bytes());
    [8u16; 3].iter().for_each(|it| header.extend(it.to_le_bytes()));
    Ok(header)
}

/// The beginning of a WAV of one channel of floating-point numbers, which follow.
fn wav(rate: u32, samples: usize) -> Result<Vec<u8>, Error> {
    let bytes = samples.checked_mul(4).and_then(|it| u32::try_from(it + WAV_HEADER).ok());
    let bytes = bytes.ok_or_else(|| wrong("expected a sound below 4 GiB".to_owned()))?;
    let mut header = b"RIFF".to_vec();
    header.extend((bytes - 8).to_le_bytes());
    header.extend(b"WAVEfmt ");
    header.extend(16u32.to_le_bytes());
    // Floating-point numbers, one channel.
    header.extend([3u16.to_le_bytes(), 1u16.to_le_bytes()].concat());
    header.extend([rate.to_le_bytes(), rate.saturating_mul(4).to_le_bytes()].concat());
    header.extend([4u16.to_le_bytes(), 32u16.to_le_bytes()].concat());
    header.extend(b"data");
    header.extend((bytes - WAV_HEADER as u32).to_le_bytes());
    Ok(header)
}
