//! CMYK to RGB by Pillow's formula, which knows no profiles.

/// One pixel.
pub(crate) fn rgb([cyan, magenta, yellow, black]: [u8; 4]) -> [u8; 3] {
    let light = 255 - black;
    [cyan, magenta, yellow].map(|ink| {
        let product = u32::from(ink) * u32::from(light) + 128;
        let share = ((product >> 8) + product) >> 8;
        light.saturating_sub(share as u8)
    })
}
