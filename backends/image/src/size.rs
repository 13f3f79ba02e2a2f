//! From the size of an image to the size that it is resized to. Divisions and roundings are those of Python.

use crate::{error::ImageError, limits::MOST_RESIZED};

/// A size, height first.
pub(crate) type Size = (u32, u32);

/// The field `size` of a processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeRule {
    /// Exactly this size.
    Exact {
        /// Of the result.
        height: u32,
        /// Of the result.
        width: u32,
    },
    /// The shorter side gets this length, and the longer keeps the ratio.
    ShortestEdge(u32),
    /// The same, unless the longer side becomes longer than `longest`.
    Edges {
        /// Wanted length of the shorter side.
        shortest: u32,
        /// Most that the longer side may have.
        longest: u32,
        /// Both sides are cut down to multiples of this.
        multiple: u32,
    },
    /// As large as fits into this size.
    Within {
        /// Most that the result may have.
        height: u32,
        /// Most that the result may have.
        width: u32,
    },
    /// As timm does for a target that is not square: the ratio is kept, and both sides reach the target.
    Cover {
        /// Least that the result has.
        height: u32,
        /// Least that the result has.
        width: u32,
    },
}

impl SizeRule {
    /// The size of the result for an image of this size. A side may become zero.
    pub fn target(self, height: u32, width: u32) -> (u32, u32) {
        match self {
            SizeRule::Exact { height, width } => (height, width),
            SizeRule::ShortestEdge(edge) => shortest_edge((height, width), edge),
            SizeRule::Edges { shortest, longest, multiple } => {
                let (height, width) = edges((height, width), shortest, longest, multiple > 1);
                (height - height % multiple, width - width % multiple)
            }
            SizeRule::Within { height: most_height, width: most_width } => {
                let (height, width) = (f64::from(height), f64::from(width));
                let scale = (f64::from(most_height) / height).min(f64::from(most_width) / width);
                ((height * scale) as u32, (width * scale) as u32)
            }
            SizeRule::Cover { height: target_height, width: target_width } => {
                let ratio_height = f64::from(height) / f64::from(target_height);
                let ratio_width = f64::from(width) / f64::from(target_width);
                let ratio = ratio_height.min(ratio_width);
                let scaled = |it: u32| (f64::from(it) / ratio).round_ties_even() as u32;
                (scaled(height), scaled(width))
            }
        }
    }

    /// The same, within bounds: a side of one pixel and a long one would become a very large image.
    ///
    /// # Errors
    ///
    /// A side would vanish, or the result would be too large.
    pub fn bounded(self, height: u32, width: u32) -> Result<(u32, u32), ImageError> {
        let (to_height, to_width) = self.target(height, width);
        let pixels = u64::from(to_height) * u64::from(to_width);
        if (1..=MOST_RESIZED).contains(&pixels) {
            return Ok((to_height, to_width));
        }
        let most = match pixels {
            0 => String::new(),
            _ => format!(", at most {MOST_RESIZED} in all are taken"),
        };
        let problem = format!("it would become {to_width} x {to_height} pixels{most}");
        Err(ImageError::Shape { width, height, problem })
    }

    /// The size, where it does not depend on the image.
    pub(crate) fn fixed(self) -> Option<Size> {
        match self {
            SizeRule::Exact { height, width } => Some((height, width)),
            _ => None,
        }
    }
}

/// `int(a * b / c)` in Python: the product is exact.
fn product_over(a: u32, b: u32, c: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) as f64 / f64::from(c)) as u32
}

fn shortest_edge((height, width): Size, edge: u32) -> Size {
    if width <= height {
        (product_over(edge, height, width), edge)
    } else {
        (edge, product_over(edge, width, height))
    }
}

fn edges((height, width): Size, shortest: u32, longest: u32, upright_first: bool) -> Size {
    let (short, long) = (f64::from(height.min(width)), f64::from(height.max(width)));
    let is_too_long = long / short * f64::from(shortest) > f64::from(longest);
    let raw = f64::from(longest) * short / long;
    let edge = if is_too_long { raw.round_ties_even() as u32 } else { shortest };
    let other = |long: u32, short: u32| {
        if is_too_long {
            (raw * f64::from(long) / f64::from(short)) as u32
        } else {
            product_over(edge, long, short)
        }
    };
    let is_there = (height <= width && height == edge) || (width <= height && width == edge);
    // The reference of YOLOS asks in the other order; the answers are the same but for what is cut off later.
    if is_there && !(upright_first && width < height) {
        (height, width)
    } else if width < height {
        (other(height, width), edge)
    } else {
        (edge, other(width, height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_does_not_become_a_very_large_image() {
        let rule = SizeRule::ShortestEdge(256);
        assert_eq!(rule.bounded(100, 200).unwrap(), (256, 512));
        let error = rule.bounded(1, 50_000).unwrap_err().to_string();
        assert!(error.contains("12800000 x 256 pixels, at most 100000000"), "{error}");
        let within = SizeRule::Within { height: 10, width: 10 };
        let error = within.bounded(1, 50_000).unwrap_err().to_string();
        assert!(error.ends_with("it would become 10 x 0 pixels"), "{error}");
    }
}
