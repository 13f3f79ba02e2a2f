//! Files with bytes changed at random: none ends the process, runs on, or takes more memory than its size allows.

use allocation_counter::measure;

use crate::support::{explain, fixture, forest, load, walk};

/// One file of each format.
const FILES: [&str; 18] = [
    "xgboost-3.4.1/stump.json",
    "xgboost-3.4.1/categories_sets.json",
    "xgboost-3.4.1/stump.ubj",
    "xgboost-3.4.1/vectors.ubj",
    "xgboost-1.7.6/stump.bin",
    "xgboost-0.90/dart.bin",
    "xgboost-1.2.1/stump.pkl",
    "lightgbm-4.7.0/categories.txt",
    "lightgbm-4.7.0/linear.txt",
    "treelite-3.9.1/lightgbm_categories.tl",
    "treelite-3.9.1/sklearn_random_forest.tl",
    "treelite-4.8.1/xgboost_categories_sets.tl",
    "treelite-4.8.1/sklearn_random_forest_targets.tl",
    "sklearn-1.9.1/tree_regressor.joblib",
    "sklearn-1.3.2/tree.pkl",
    "sklearn-1.9.1/tree_regressor.skops",
    "../composed/1.9.1/lgbm_isotonic.pkl",
    "../composed/1.9.1/xgb_scaled.pkl",
];

/// Numbers that look random, the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn change(&mut self, file: &mut Vec<u8>) {
        const WORDS: [&[u8]; 8] = [
            &[0; 4],
            &[0xff; 4],
            &[0xff, 0xff, 0xff, 0x7f],
            b"-1",
            b"99999999",
            b"[",
            b"\x80\x04",
            b"NaN",
        ];
        for _ in 0..=self.below(4) {
            let at = self.below(file.len());
            match self.below(6) {
                0 => file[at] ^= 1 << self.below(8),
                1 => file[at] = self.below(256) as u8,
                2 => {
                    let word = WORDS[self.below(WORDS.len())];
                    let end = file.len().min(at + word.len());
                    file.splice(at..end, word.iter().copied());
                }
                3 => {
                    let end = file.len().min(at + 1 + self.below(16));
                    file.drain(at..end);
                }
                4 => {
                    let end = file.len().min(at + 1 + self.below(64));
                    let copy = file[at..end].to_vec();
                    let to = self.below(file.len());
                    file.splice(to..to, copy);
                }
                _ => file.truncate(at.max(1)),
            }
            if file.is_empty() {
                return;
            }
        }
    }
}

fn mutate(count: usize) {
    for path in FILES {
        let sound = fixture(path);
        assert_eq!(load(&sound), Ok(()), "{path}");
        let mut random = Random(7);
        for number in 0..count {
            let mut file = sound.clone();
            random.change(&mut file);
            let mut result = Err(String::new());
            let memory = measure(|| result = forest(&file)).bytes_max;
            let most = 3 * file.len() as u64 + (16 << 20);
            let length = file.len();
            assert!(memory <= most, "{path}, {number}: {memory} bytes for {length}");
            result.iter().for_each(walk);
            if result.is_ok() {
                explain(&file);
            }
        }
    }
}

#[test]
fn some_mutations() {
    mutate(if cfg!(debug_assertions) { 150 } else { 3000 });
}

#[test]
#[ignore = "minutes"]
fn mutations() {
    mutate(100_000);
}
