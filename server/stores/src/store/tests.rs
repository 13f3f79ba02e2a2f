//! A store without a network: objects in memory, behind the same code.

use std::{fs, sync::Arc};

use object_store::{ObjectStoreExt, memory::InMemory};

use super::*;
use crate::store_settings::Variables;

/// A store `s3://b/all`, and its directory of copies, which is removed at the end.
struct Fixture {
    memory: Arc<InMemory>,
    store: Option<Store>,
    dir: PathBuf,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let dir = std::env::temp_dir().join(format!("muster-stores-{}-{name}", std::process::id()));
        let memory = Arc::new(InMemory::new());
        let mut fixture = Fixture { memory, store: None, dir };
        fixture.restart();
        fixture
    }

    /// Another process, with the same copies.
    fn restart(&mut self) {
        self.store = None;
        let settings = StoreSettings {
            cache_dir: self.dir.clone(),
            anonymous: true,
            variables: Variables::default(),
        };
        let mut store = Store::open(&StoreUrl::parse("s3://b/all").unwrap(), &settings).unwrap();
        store.access.store = self.memory.clone();
        self.store = Some(store);
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn put(&self, key: &str, content: &str) {
        let key = Key::from(key);
        let put = self.memory.put(&key, content.to_owned().into());
        self.store().runtime.as_ref().unwrap().block_on(put).unwrap();
    }

    fn delete(&self, key: &str) {
        let key = Key::from(key);
        let delete = self.memory.delete(&key);
        self.store().runtime.as_ref().unwrap().block_on(delete).unwrap();
    }

    /// What there is below `objects` or `trees`, sorted.
    fn names(&self, of: &str) -> Vec<String> {
        let root = fs::read_dir(&self.dir).unwrap().next().unwrap().unwrap().path();
        let entries = fs::read_dir(root.join(of)).unwrap();
        let mut names: Vec<String> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.store = None;
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_model_becomes_a_directory_and_only_what_has_changed_is_fetched_again() {
    let mut fixture = Fixture::new("changes");
    fixture.put("all/m/config.pbtxt", "one");
    fixture.put("all/m/1/model.onnx", "large");
    fixture.put("all/other/1/model.onnx", "x");
    assert_eq!(fixture.store().names().unwrap(), ["m", "other"]);
    let first = fixture.store().fetch("m").unwrap();
    assert_eq!(first.file_name().unwrap(), "m");
    assert_eq!(fs::read_to_string(first.join("1/model.onnx")).unwrap(), "large");
    assert_eq!(fixture.store().refresh("m").unwrap(), Refreshed::Unchanged(first.clone()));
    let objects = fixture.names("objects");
    assert_eq!(objects.len(), 2, "{objects:?}");

    fixture.put("all/m/config.pbtxt", "two");
    let Refreshed::Changed(second) = fixture.store().refresh("m").unwrap() else { panic!() };
    assert_eq!(fs::read_to_string(second.join("config.pbtxt")).unwrap(), "two");
    // Who still serves the one before can still open its files.
    assert_eq!(fs::read_to_string(first.join("config.pbtxt")).unwrap(), "one");
    let now = fixture.names("objects");
    assert_eq!(objects.iter().filter(|it| now.contains(it)).count(), 2, "none was fetched again");
    assert_eq!(now.len(), 3);

    fixture.restart();
    assert_eq!(fixture.store().fetch("m").unwrap(), second);
    assert_eq!(fixture.names("objects").len(), 2, "what is in no tree any more is gone");
}

#[test]
fn the_last_copy_is_the_one_that_was_used_last_also_for_another_process() {
    let mut fixture = Fixture::new("copies");
    assert!(fixture.store().copies().unwrap().is_empty());
    let other =
        Cache::open(&fixture.dir, &fixture.store().access.url, &fixture.store().access.endpoint);
    fixture.put("all/m/1/x", "one");
    let first = fixture.store().fetch("m").unwrap();
    fixture.put("all/m/1/x", "two!");
    let second = fixture.store().fetch("m").unwrap();
    assert_eq!(fixture.store().newer(&first), Some(second.clone()));
    assert_eq!(fixture.store().newer(&second), None);
    fs::create_dir_all(second.ancestors().nth(2).unwrap().join("n@0.part-1/n")).unwrap();
    fixture.restart();
    assert_eq!(fixture.store().copies().unwrap(), BTreeMap::from([("m".to_owned(), second)]));
    drop(other);
}

#[test]
fn what_was_loaded_stays_whatever_is_fetched_after_it() {
    let fixture = Fixture::new("served");
    fixture.put("all/m/1/x", "good");
    let good = fixture.store().fetch("m").unwrap();
    fixture.store().serves(&good);
    fixture.store().serves(Path::new("/elsewhere/m"));
    for content in ["bad", "worse", "worst"] {
        fixture.put("all/m/1/x", content);
        fixture.store().fetch("m").unwrap();
    }
    assert!(good.join("1/x").is_file());
    assert_eq!(fixture.names("trees").len(), KEPT + 1);
    fixture.store().fetch_all().unwrap();
    assert!(good.join("1/x").is_file());
}

#[test]
fn two_that_fetch_one_model_at_the_same_time_get_the_same() {
    let fixture = Fixture::new("together");
    fixture.put("all/m/1/x", &"x".repeat(1 << 20));
    let dirs: Vec<PathBuf> = std::thread::scope(|scope| {
        let fetch = || fixture.store().fetch("m").unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(fetch)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(dirs.iter().all(|it| *it == dirs[0] && it.join("1/x").is_file()));
}

#[test]
fn a_model_that_has_gone_is_an_error_and_its_copies_go_with_the_next_start() {
    let mut fixture = Fixture::new("gone");
    fixture.put("all/a/1/x", "a");
    fixture.put("all/b/1/x", "b");
    assert_eq!(fixture.store().fetch_all().unwrap().len(), 2);
    fixture.delete("all/a/1/x");
    let error = fixture.store().fetch("a").unwrap_err();
    assert!(matches!(error, StoreError::NoModel { .. }), "{error}");
    fixture.restart();
    let all = fixture.store().fetch_all().unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!((fixture.names("objects").len(), fixture.names("trees").len()), (1, 1));
}

#[test]
fn while_another_process_has_the_copies_none_are_removed() {
    let fixture = Fixture::new("shared");
    fixture.put("all/m/1/x", "one");
    let first = fixture.store().fetch("m").unwrap();
    let other =
        Cache::open(&fixture.dir, &fixture.store().access.url, &fixture.store().access.endpoint);
    for content in ["two", "three", "four"] {
        fixture.put("all/m/1/x", content);
        fixture.store().fetch("m").unwrap();
    }
    assert!(first.join("1/x").is_file());
    drop(other);
    fixture.put("all/m/1/x", "five");
    fixture.store().fetch("m").unwrap();
    assert!(!first.exists());
    assert_eq!(fixture.names("trees").len(), KEPT);
}

#[test]
fn what_was_left_half_done_is_not_seen_and_not_kept() {
    let mut fixture = Fixture::new("half");
    fixture.put("all/m/1/x", "whole");
    let dir = fixture.store().fetch("m").unwrap();
    let object = fixture.names("objects").remove(0);
    let root = dir.ancestors().nth(3).unwrap();
    fs::rename(root.join("objects").join(&object), root.join("objects/0.part-1")).unwrap();
    fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    fs::create_dir_all(root.join("trees/m@0.part-1/m")).unwrap();
    fixture.restart();
    let dir = fixture.store().fetch("m").unwrap();
    assert_eq!(fs::read_to_string(dir.join("1/x")).unwrap(), "whole");
    assert_eq!(fixture.names("objects"), [object]);
    assert_eq!(fixture.names("trees").len(), 1);
}

#[test]
fn a_directory_that_cannot_be_made_names_the_option() {
    let settings = StoreSettings {
        cache_dir: "/proc/none".into(),
        anonymous: true,
        variables: Variables::default(),
    };
    let error =
        Store::open(&StoreUrl::parse("s3://b").unwrap(), &settings).unwrap_err().to_string();
    assert!(
        error.contains("/proc/none") && error.contains("--model-repository-cache-dir"),
        "{error}"
    );
}
