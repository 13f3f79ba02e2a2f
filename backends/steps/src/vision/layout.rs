//! How the values of images lie in a tensor: their type, and which dimension is that of the channels.

use backend::{DataType, Shape, SizeMismatch, Tensor};
use half::f16;
use image::Pixels;

/// The form of the pixels that a graph takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PixelLayout {
    /// FP32, FP16 or UINT8.
    pub(crate) dtype: DataType,
    /// Do the channels of a pixel lie beside each other?
    pub(crate) is_channels_last: bool,
}

impl PixelLayout {
    /// The dimensions of an image of that height and width.
    pub(crate) fn dims<T>(&self, channels: T, height: T, width: T) -> [T; 3] {
        match self.is_channels_last {
            true => [height, width, channels],
            false => [channels, height, width],
        }
    }

    /// One image as a tensor of three dimensions. `byte_of_value` makes bytes of values.
    ///
    /// # Errors
    /// Only when sizes overflow.
    pub(crate) fn one(&self, pixels: Pixels, byte_of_value: f32) -> Result<Tensor, SizeMismatch> {
        let [channels, height, width] = pixels.shape;
        let shape = Shape::new(&self.dims(channels, height, width));
        let values = match self.is_channels_last {
            false => pixels.values,
            true => {
                let mut values = vec![0.0; pixels.values.len()];
                self.place(&pixels, &mut values, height, width);
                values
            }
        };
        self.tensor(shape, values, byte_of_value)
    }

    /// Images of one size as a tensor of four dimensions; smaller ones lie in the upper left of zeros.
    ///
    /// # Errors
    /// Only when sizes overflow.
    pub(crate) fn all(
        &self,
        images: &[&Pixels],
        [height, width]: [usize; 2],
        byte_of_value: f32,
    ) -> Result<Tensor, SizeMismatch> {
        let of_image = 3 * height * width;
        let mut values = vec![0.0f32; images.len() * of_image];
        for (pixels, out) in images.iter().zip(values.chunks_mut(of_image.max(1))) {
            self.place(pixels, out, height, width);
        }
        let dims = self.dims(3, height, width);
        let shape = std::iter::once(images.len()).chain(dims).collect();
        self.tensor(shape, values, byte_of_value)
    }

    /// Puts an image into the upper left of an area of that height and width.
    fn place(&self, pixels: &Pixels, out: &mut [f32], height: usize, width: usize) {
        let [_, rows, columns] = pixels.shape;
        let lines = pixels.values.chunks_exact(columns.max(1)).enumerate();
        for (line, values) in lines {
            let (channel, y) = (line / rows, line % rows);
            match self.is_channels_last {
                false => {
                    let from = (channel * height + y) * width;
                    out[from..from + columns].copy_from_slice(values);
                }
                true => {
                    let places = out[y * width * 3 + channel..].iter_mut().step_by(3);
                    places.zip(values).for_each(|(place, value)| *place = *value);
                }
            }
        }
    }

    fn tensor(
        &self,
        shape: Shape,
        values: Vec<f32>,
        byte_of_value: f32,
    ) -> Result<Tensor, SizeMismatch> {
        match self.dtype {
            DataType::Fp16 => {
                let halves: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
                Tensor::from_vec(shape, halves)
            }
            DataType::Uint8 => {
                let byte = |it: f32| (it * byte_of_value).round() as u8;
                let bytes: Vec<u8> = values.into_iter().map(byte).collect();
                Tensor::new(DataType::Uint8, shape, bytes.into())
            }
            _ => Tensor::from_vec(shape, values),
        }
    }
}
