//! Bytes of pixels to the numbers that a graph takes, by a table of 256 numbers for each channel.

use crate::rgb::Rgb;

/// How a byte becomes a number before it is normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rescale {
    /// It stays the number that it is.
    None,
    /// Multiplied in 64 bits, then rounded to 32; then `offset` is added in 32 bits.
    Factor {
        /// Usually 1/255.
        factor: f64,
        /// Usually zero; EfficientNet has -1.
        offset: f32,
    },
    /// Divided by 255 in 32 bits, as torchvision does.
    DivideBy255,
}

/// Which channel comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
}

/// The table from bytes to numbers.
#[derive(Clone, PartialEq)]
pub struct Values {
    /// By the channel of the output.
    tables: Box<[[f32; 256]; 3]>,
    order: ChannelOrder,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ends = self.tables.each_ref().map(|it| (it[0], it[255]));
        write!(out, "Values({:?}, {ends:?})", self.order)
    }
}

impl Values {
    /// Each of `normalize` is a mean and a deviation for each channel of the output, applied one behind the other.
    pub fn new(
        rescale: Rescale,
        normalize: &[([f32; 3], [f32; 3])],
        order: ChannelOrder,
    ) -> Values {
        let mut tables = Box::new([[0.0; 256]; 3]);
        for (channel, table) in tables.iter_mut().enumerate() {
            for (byte, value) in table.iter_mut().enumerate() {
                let rescaled = match rescale {
                    Rescale::None => byte as f32,
                    Rescale::Factor { factor, offset } => (byte as f64 * factor) as f32 + offset,
                    Rescale::DivideBy255 => byte as f32 / 255.0,
                };
                *value = normalize.iter().fold(rescaled, |it, (mean, deviation)| {
                    (it - mean[channel]) / deviation[channel]
                });
            }
        }
        Values { tables, order }
    }

    /// The numbers of an image as `[3, height, width]` of the frame.
    pub(crate) fn planes(&self, image: &Rgb, frame: &Frame) -> Vec<f32> {
        let mut out = Vec::with_capacity(3 * frame.height * frame.width);
        let [red, green, blue] = &*self.tables;
        // Each channel has its own loop, in which the place of its byte is a constant.
        match self.order {
            ChannelOrder::Rgb => {
                plane(&mut out, image, frame, red, |it| it[0]);
                plane(&mut out, image, frame, green, |it| it[1]);
                plane(&mut out, image, frame, blue, |it| it[2]);
            }
            ChannelOrder::Bgr => {
                plane(&mut out, image, frame, red, |it| it[2]);
                plane(&mut out, image, frame, green, |it| it[1]);
                plane(&mut out, image, frame, blue, |it| it[0]);
            }
        }
        out
    }
}

/// What lies around an image, which is no larger.
pub(crate) struct Frame {
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Rows above the image.
    pub(crate) top: usize,
    /// Columns in front of it.
    pub(crate) left: usize,
    /// The byte around it; where there is none, numbers around it are zeros.
    pub(crate) shade: Option<u8>,
}

/// Appends one channel.
fn plane(
    out: &mut Vec<f32>,
    image: &Rgb,
    frame: &Frame,
    table: &[f32; 256],
    byte: impl Fn(&[u8; 3]) -> u8,
) {
    let around = frame.shade.map_or(0.0, |it| table[usize::from(it)]);
    let end = out.len() + frame.height * frame.width;
    out.resize(out.len() + frame.top * frame.width, around);
    for row in image.pixels.chunks_exact(image.stride().max(1)) {
        let row_end = out.len() + frame.width;
        out.resize(out.len() + frame.left, around);
        out.extend(row.as_chunks::<3>().0.iter().map(|it| table[usize::from(byte(it))]));
        out.resize(row_end, around);
    }
    out.resize(end, around);
}
