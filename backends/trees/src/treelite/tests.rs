//! Checkpoints made by hand: versions, shapes of leaves, and comparisons. Files of the library are in `tests/golden`.

use super::*;
use crate::forest::{
    document::{Comparison, Transform},
    double,
};

/// The bytes of a file, as they are written one behind the other.
#[derive(Default, Clone)]
struct File(Vec<u8>);

impl File {
    fn i32s(mut self, numbers: &[i32]) -> File {
        numbers.iter().for_each(|it| self.0.extend(it.to_le_bytes()));
        self
    }

    fn raw(mut self, bytes: &[u8]) -> File {
        self.0.extend(bytes);
        self
    }

    fn u64s(mut self, numbers: &[u64]) -> File {
        numbers.iter().for_each(|it| self.0.extend(it.to_le_bytes()));
        self
    }

    /// An array of elements of so many bytes.
    fn array(self, size: usize, bytes: &[u8]) -> File {
        let length = (bytes.len() / size) as u64;
        self.u64s(&[length]).raw(bytes)
    }

    fn doubles(self, numbers: &[f64]) -> File {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.array(8, &bytes)
    }

    fn words(self, numbers: &[i32]) -> File {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.array(4, &bytes)
    }
}

/// A model of 64 bits with two features and one tree for each entry of `ids`, each a pair of target and class.
struct Made {
    classes: Vec<i32>,
    shape: [i32; 2],
    ids: Vec<(i32, i32)>,
    post: &'static str,
    is_average: bool,
    scores: Vec<f64>,
}

impl Made {
    fn one(trees: usize) -> Made {
        Made {
            classes: vec![1],
            shape: [1, 1],
            ids: vec![(0, 0); trees],
            post: "identity",
            is_average: false,
            scores: vec![0.5],
        }
    }

    fn head(&self) -> File {
        let ids = |it: fn(&(i32, i32)) -> i32| self.ids.iter().map(it).collect::<Vec<_>>();
        File::default()
            .i32s(&[4, 1, 0])
            .raw(&[3, 3])
            .u64s(&[self.ids.len() as u64])
            .i32s(&[2])
            .raw(&[1, u8::from(self.is_average)])
            .i32s(&[self.classes.len() as i32])
            .words(&self.classes)
            .words(&self.shape)
            .words(&ids(|it| it.0))
            .words(&ids(|it| it.1))
            .array(1, self.post.as_bytes())
            .raw(&1_f32.to_le_bytes())
            .raw(&1_f32.to_le_bytes())
            .doubles(&self.scores)
            .array(1, b"{}")
            .i32s(&[0])
    }

    fn read(&self, trees: &[File]) -> Result<Document, String> {
        let file = trees.iter().fold(self.head(), |file, tree| file.raw(&tree.0));
        read(&file.0).map_err(|it| it.to_string())
    }
}

/// One split of feature 0 and two leaves: values 1 and 2, or vectors of so many values.
fn tree(comparison: u8, threshold: f64, values: usize) -> File {
    let vectors: Vec<f64> = (0..2 * values).map(|it| it as f64).collect();
    let width = values as u64;
    File::default()
        .i32s(&[3])
        .raw(&[0])
        .array(1, &[1, 0, 0])
        .words(&[1, -1, -1])
        .words(&[2, -1, -1])
        .words(&[0, 0, 0])
        .array(1, &[0, 0, 0])
        .doubles(&[0.0, 1.0, 2.0])
        .doubles(&[threshold, 0.0, 0.0])
        .array(1, &[comparison, 0, 0])
        .array(1, &[0, 0, 0])
        .doubles(&vectors)
        .u64s(&[3, 0, 0, width])
        .u64s(&[3, 0, width, 2 * width])
        .words(&[])
        .u64s(&[3, 0, 0, 0])
        .u64s(&[3, 0, 0, 0])
        .u64s(&[0; 6])
        .i32s(&[0, 0])
}

#[test]
fn the_base_score_is_added_last() {
    let document = Made::one(1).read(&[tree(2, 0.5, 0)]).unwrap();
    assert_eq!((document.base, document.added_last), (vec![0.0], vec![0.5]));
    assert_eq!(document.transform, Transform::Double(double::Transform::Identity));
    assert_eq!(document.comparison, Comparison::Less);
}

#[test]
fn other_comparisons_become_that_of_the_first_split() {
    let of = |comparison, threshold: f64| {
        let both = [tree(3, 0.5, 0), tree(comparison, threshold, 0)];
        let document = Made::one(2).read(&both).unwrap();
        assert_eq!(document.comparison, Comparison::LessOrEqual);
        let it = &document.trees[1];
        (it.condition[0], it.left[0], it.default_left[0])
    };
    assert_eq!(of(3, 2.0), (2.0, 1, false));
    assert_eq!(of(4, 2.0), (2.0, 2, true));
    assert_eq!(of(2, 2.0), (2_f64.next_down(), 1, false));
    assert_eq!(of(5, 2.0), (2_f64.next_down(), 2, true));
    // Nothing is less than negative infinity, and what is not greater is no number, either.
    assert!(of(2, f64::NEG_INFINITY).0.is_nan());
    let (threshold, left, _) = of(4, f64::NAN);
    assert!(threshold.is_nan() && left == 1);
    let both = [tree(2, 0.5, 0), tree(3, f64::INFINITY, 0)];
    let document = Made::one(2).read(&both).unwrap();
    let it = &document.trees[1];
    assert!(it.condition[0].is_nan() && it.left[0] == 2 && it.default_left[0]);
}

#[test]
fn leaves_with_a_part_of_the_outputs_add_nothing_to_the_others() {
    let of_classes =
        Made { classes: vec![2, 2], shape: [1, 2], scores: vec![0.0; 4], ..Made::one(0) };
    let document = Made { ids: vec![(1, -1)], ..of_classes }.read(&[tree(2, 0.5, 2)]).unwrap();
    let values = document.trees[0].vectors.clone().unwrap().values;
    assert_eq!(values, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0]);
    let of_targets =
        Made { classes: vec![2, 2], shape: [2, 1], scores: vec![0.0; 4], ..Made::one(0) };
    let document = Made { ids: vec![(-1, 1)], ..of_targets }.read(&[tree(2, 0.5, 2)]).unwrap();
    let values = document.trees[0].vectors.clone().unwrap().values;
    assert_eq!(values, [0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 3.0]);
}

#[test]
fn classes_that_a_target_does_not_have_are_zero() {
    let made = Made {
        classes: vec![1, 2],
        shape: [2, 2],
        ids: vec![(-1, -1)],
        scores: vec![1.0; 4],
        ..Made::one(0)
    };
    let document = made.read(&[tree(2, 0.5, 4)]).unwrap();
    assert_eq!(document.added_last, [1.0, 0.0, 1.0, 1.0]);
    let values = document.trees[0].vectors.clone().unwrap().values;
    assert_eq!(values, [0.0, 0.0, 2.0, 3.0, 4.0, 0.0, 6.0, 7.0]);
}

#[test]
fn averages_are_over_the_trees_of_an_output() {
    let average = |ids: &[(i32, i32)]| {
        let (classes, scores) = (vec![2], vec![0.0; 2]);
        let made = Made { classes, scores, ids: ids.to_vec(), is_average: true, ..Made::one(0) };
        made.read(&vec![tree(2, 0.5, 0); ids.len()]).map(|it| it.average_over)
    };
    assert_eq!(average(&[(0, 0), (0, 1), (0, 0), (0, 1)]), Ok(Some(2.0)));
    assert!(average(&[(0, 0), (0, 1), (0, 0)]).unwrap_err().contains("not shared out evenly"));
    assert!(average(&[]).unwrap_err().contains("not shared out evenly"));
}

#[test]
fn averages_are_over_the_trees_that_add_to_several_outputs_too() {
    let average = |classes: &[i32], shape, id: (i32, i32), trees| {
        let sums = classes.len() * classes[0] as usize;
        let made =
            Made { classes: classes.to_vec(), shape, scores: vec![0.0; sums], ..Made::one(0) };
        let head = Made { is_average: true, ..made }.head().0;
        let header = Header::read(&mut Bytes::new(&head)).unwrap();
        let id_of = |it| vec![u32::try_from(it).ok(); trees];
        let (target_of_tree, class_of_tree) = (id_of(id.0), id_of(id.1));
        let header = Header { trees, target_of_tree, class_of_tree, ..header };
        Outputs::of(&header).unwrap().average(&header).map_err(|it| it.to_string())
    };
    let started = std::time::Instant::now();
    // Each tree adds to all sums that there are: looked at one by one, these are 2^36.
    let many = 1 << 20;
    assert_eq!(average(&[1 << 16], [1, 1 << 16], (0, -1), many), Ok(Some(f64::from(1 << 20))));
    assert_eq!(average(&[1; 1 << 16], [1 << 16, 1], (-1, 0), many), Ok(Some(f64::from(1 << 20))));
    assert_eq!(average(&[2, 2], [2, 2], (-1, -1), 3), Ok(Some(3.0)));
    assert!(average(&[2, 2], [1, 2], (1, -1), 3).unwrap_err().contains("not shared out evenly"));
    assert!(average(&[2, 2], [2, 1], (-1, 1), 3).unwrap_err().contains("not shared out evenly"));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[track_caller]
fn refused(made: &Made, tree: File, expect: &str) {
    let error = made.read(&[tree]).expect_err("it is read");
    assert!(error.contains(expect), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let one = || Made::one(1);
    let sound = || tree(2, 0.5, 0);
    refused(&one(), tree(1, 0.5, 0), "tree 0, node 0: comparison 1 is not one of");
    refused(&one(), tree(2, 0.5, 2), "tree 0, node 1: a leaf of 2 values, expected 1");
    refused(&Made { ids: vec![(1, 0)], ..one() }, sound(), "tree 0: target 1, there are 1");
    refused(&Made { ids: vec![(0, 1)], ..one() }, sound(), "tree 0: class 1, there are 1");
    refused(&Made { shape: [1, 2], ..one() }, sound(), "leaves of 1 by 2 values, expected 1 by 1");
    refused(
        &Made { post: "mine", ..one() },
        sound(),
        "post-processor \"mine\" of treelite is not known",
    );
    refused(&Made { scores: vec![], ..one() }, sound(), "0 base scores, the model has 1 outputs");
    let two = || Made { classes: vec![2], scores: vec![0.0; 2], ..Made::one(1) };
    refused(
        &Made { post: "sigmoid", ..two() },
        sound(),
        "for 1 targets and 2 outputs is not served",
    );
    let targets = Made { classes: vec![1, 1], scores: vec![0.0; 2], post: "softmax", ..one() };
    refused(&targets, sound(), "for 2 targets and 2 outputs is not served");
    refused(&Made { classes: vec![0], ..one() }, sound(), "classes of a target is 0");
    refused(&Made { classes: vec![65_536; 2], ..one() }, sound(), "131072 outputs; at most");
}

#[test]
fn versions_that_are_not_read_are_named() {
    let of = |version: [i32; 3]| {
        let file = File::default().i32s(&version).raw(&[2, 2]).u64s(&[0; 40]);
        read(&file.0).unwrap_err().to_string()
    };
    assert!(
        of([2, 4, 0]).contains("it is a checkpoint of treelite 2.4.0; those of 3.9 and 4 are read")
    );
    assert!(of([3, 8, 0]).contains("treelite 3.8.0"));
    assert!(of([5, 0, 1]).contains("treelite 5.0.1"));
}

#[test]
fn additions_of_later_versions_are_passed() {
    let sound = tree(2, 0.5, 0).0;
    let without = &sound[..sound.len() - 8];
    let addition = File::default().array(1, b"new").u64s(&[4, 3]).raw(&[7; 12]);
    let tree = File::default().raw(without).i32s(&[1]).raw(&addition.0).i32s(&[0]);
    assert_eq!(Made::one(1).read(std::slice::from_ref(&tree)).unwrap().trees.len(), 1);
    let large = File::default().raw(without).i32s(&[i32::MAX]).u64s(&[0, u64::MAX, 2]);
    refused(&Made::one(1), large, "reaches past the end");
}
