//! The same bytes in every way.

use super::{across, bilinear, bilinear_portable, down, portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, bilinear_avx2, sse2};
use crate::{
    filter::Filter,
    neighbours::{of_column, of_row},
    part::{ImagePart, View},
    rgb::Rgb,
    weights::{BITS, Weights},
};

fn noise(width: u32, height: u32) -> Rgb {
    let mut image = Rgb::new(width, height);
    for (at, value) in image.pixels.iter_mut().enumerate() {
        *value = (at.wrapping_mul(2_654_435_761) >> 13) as u8;
    }
    image
}

/// What each way that this processor has makes of it.
fn all_across(image: &View<'_>, weights: &Weights) -> Vec<Rgb> {
    let mut found = vec![across(image, weights)];
    #[cfg(target_arch = "x86_64")]
    found.extend(
        [Some(sse2::across(image, weights)), avx2::across(image, weights)].into_iter().flatten(),
    );
    found
}

fn all_down(image: &View<'_>, weights: &Weights) -> Vec<Rgb> {
    let mut found = vec![down(image, weights)];
    #[cfg(target_arch = "x86_64")]
    found.extend(
        [Some(sse2::down(image, weights)), avx2::down(image, weights)].into_iter().flatten(),
    );
    found
}

#[track_caller]
fn check_all(image: &View<'_>, of_width: &Weights, of_height: &Weights) {
    let (expected, found) = (portable::across(image, of_width), all_across(image, of_width));
    assert!(found.iter().all(|it| *it == expected), "across, {} pixels", image.width);
    let (expected, found) = (portable::down(image, of_height), all_down(image, of_height));
    assert!(found.iter().all(|it| *it == expected), "down, {} pixels", image.width);
}

#[test]
fn all_ways_give_the_same_bytes() {
    for (from, to) in [(300, 40), (300, 299), (40, 300), (2, 1), (1, 2), (33, 64), (9, 5)] {
        for filter in Filter::ALL {
            let weights = || Weights::new(from, to, filter, 0..to);
            for (width, height) in [(from, from), (from, 3)] {
                let image = noise(width, height);
                let of_height = Weights::new(height, to, filter, 0..to);
                check_all(&View::of(&image), &weights(), &of_height);
            }
        }
    }
}

#[test]
fn a_part_of_an_image_ends_where_it_ends() {
    let image = noise(61, 23);
    for (columns, rows) in [(7..50, 3..20), (0..61, 22..23), (60..61, 0..23), (11..61, 5..23)] {
        let view = View::new(&image, &ImagePart { columns: columns.clone(), rows: rows.clone() });
        let copy = view.to_rgb();
        let of_width = Weights::new(copy.width, 17, Filter::Lanczos, 0..17);
        let of_height = Weights::new(copy.height, 9, Filter::Bicubic, 0..9);
        check_all(&view, &of_width, &of_height);
        let same = |a: Rgb, b: Rgb| assert!(a == b, "{columns:?} {rows:?}");
        same(across(&view, &of_width), across(&View::of(&copy), &of_width));
        same(down(&view, &of_height), down(&View::of(&copy), &of_height));
    }
}

#[test]
fn the_largest_weights_are_exact() {
    let largest = 1 << BITS;
    for weight in [largest, -largest, largest + 20_000, largest - 1, 5, -5, 255, 256, -256, -257] {
        let weights = || Weights { spans: vec![(0, 0, 1)], all: vec![weight] };
        check_all(&View::of(&noise(1, 1)), &weights(), &weights());
        let image = noise(40, 1);
        check_all(&View::of(&image), &weights(), &weights());
    }
}

/// Numbers of 16 bits hold no weight that is far larger than one.
#[cfg(target_arch = "x86_64")]
#[test]
fn weights_without_bounds_are_left_to_whole_numbers() {
    let weights = Weights { spans: vec![(0, 0, 1)], all: vec![1 << 23] };
    let image = noise(40, 1);
    let view = View::of(&image);
    assert!(avx2::across(&view, &weights).is_none());
    assert!(avx2::down(&view, &weights).is_none());
    check_all(&view, &weights, &weights);
}

#[test]
fn two_neighbours_are_the_same_in_all_ways() {
    let sizes = [(300, 200), (33, 64), (64, 33), (9, 5), (2, 1), (1, 2), (1, 1), (100, 50)];
    for ((from, to), height) in sizes.into_iter().zip([1, 7, 2, 3, 1, 5, 4, 9]) {
        let image = noise(from, height);
        let view = View::of(&image);
        let columns: Vec<_> = (0..to).map(|it| of_column(it, from, to)).collect();
        let rows: Vec<_> = (0..11).map(|it| of_row(it, height, 11)).collect();
        let expected = bilinear_portable::bilinear(&view, &columns, &rows);
        assert!(bilinear(&view, &columns, &rows) == expected, "{from} to {to}");
        #[cfg(target_arch = "x86_64")]
        if let Some(found) = bilinear_avx2::bilinear(&view, &columns, &rows) {
            assert!(found == expected, "{from} to {to}");
        }
    }
}
