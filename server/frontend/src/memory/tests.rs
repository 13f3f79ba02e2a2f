//! Facts about regions of shared memory, against objects of the system.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;

use super::*;

/// A shared memory object of one test.
struct Object(PathBuf);

impl Object {
    fn new(content: &[u8]) -> Object {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-unit-{}-{number}", std::process::id());
        let object = Object(Path::new(DIRECTORY).join(name));
        fs::write(&object.0, content).unwrap();
        object
    }

    fn key(&self) -> String {
        format!("/{}", self.0.file_name().unwrap().to_str().unwrap())
    }

    fn region(&self, name: &str, offset: u64, byte_size: u64) -> Region {
        Region { name: name.to_owned(), key: self.key(), offset, byte_size }
    }

    fn cut(&self, length: u64) {
        OpenOptions::new().write(true).open(&self.0).unwrap().set_len(length).unwrap();
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

#[test]
fn what_is_written_into_a_region_is_read_from_its_object_and_back() {
    let object = Object::new(&[0; 100]);
    let memory = SharedMemory::new(true);
    memory.register(object.region("r", 10, 50)).unwrap();
    let window = memory.window("r", 5, 6).unwrap();
    window.write(&[Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cd")]).unwrap();
    assert_eq!(&fs::read(&object.0).unwrap()[14..20], b"\0abcd\0");
    let read = window.read().unwrap();
    assert_eq!(&read[..], b"abcd\0\0");
    assert_eq!(read.as_ptr() as usize % 64, 0);
    assert_eq!(memory.window("r", 50, 0).unwrap().read().unwrap(), Bytes::new());
}

#[test]
fn a_name_is_taken_once_and_free_again_when_it_is_unregistered() {
    let object = Object::new(&[0; 8]);
    let memory = SharedMemory::new(true);
    memory.register(object.region("r", 0, 8)).unwrap();
    assert!(matches!(memory.register(object.region("r", 0, 4)), Err(Error::AlreadyExists(_))));
    memory.register(object.region("q", 4, 4)).unwrap();
    let names = || memory.status(None).unwrap().into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(), ["q", "r"]);
    memory.unregister(Some("r")).unwrap();
    memory.unregister(Some("never")).unwrap();
    assert_eq!(names(), ["q"]);
    assert!(matches!(memory.status(Some("r")), Err(Error::NotFound(_))));
    memory.register(object.region("r", 0, 4)).unwrap();
    memory.unregister(None).unwrap();
    assert!(names().is_empty());
}

#[test]
fn a_region_in_use_is_there_until_its_last_user_is_gone() {
    let object = Object::new(b"12345678");
    let memory = SharedMemory::new(true);
    memory.register(object.region("r", 0, 8)).unwrap();
    let window = memory.window("r", 0, 8).unwrap();
    memory.unregister(Some("r")).unwrap();
    fs::remove_file(&object.0).unwrap();
    assert_eq!(&window.read().unwrap()[..], b"12345678");
    // It is there for others, too, and its name is not free.
    assert_eq!(memory.status(Some("r")).unwrap().len(), 1);
    let other = memory.window("r", 0, 4).unwrap();
    drop(window);
    memory.unregister(None).unwrap();
    assert_eq!(memory.status(None).unwrap().len(), 1);
    drop(other);
    assert!(memory.status(None).unwrap().is_empty());
    assert!(matches!(memory.window("r", 0, 8), Err(Error::NotFound(_))));
}

#[test]
fn an_object_that_its_client_makes_smaller_is_an_error_and_is_not_made_larger_again() {
    let object = Object::new(&[7; 8192]);
    let memory = SharedMemory::new(true);
    memory.register(object.region("r", 0, 8192)).unwrap();
    let window = memory.window("r", 4096, 4096).unwrap();
    object.cut(5000);
    let error = text(window.read().unwrap_err());
    assert!(error.contains("region 'r': the part from offset 4096 on cannot be read"), "{error}");
    let error = text(window.write(&[Bytes::from(vec![1; 4096])]).unwrap_err());
    assert!(error.contains("its object now has 5000 bytes"), "{error}");
    assert_eq!(fs::metadata(&object.0).unwrap().len(), 5000);
    // The part of the object that still exists may be used.
    window.write(&[Bytes::from(vec![1; 904])]).unwrap();
}

#[test]
fn parts_beyond_the_region_and_answers_that_do_not_fit_are_refused_with_the_numbers() {
    let object = Object::new(&[0; 100]);
    let memory = SharedMemory::new(true);
    memory.register(object.region("r", 10, 50)).unwrap();
    let (offset, end) = ("Invalid offset for", "Invalid offset + byte size for");
    for (at, size, opening) in [(0, 51, end), (51, 0, offset), (u64::MAX, 2, offset), (10, 41, end)]
    {
        let error = text(memory.window("r", at, size).unwrap_err());
        assert!(error.starts_with(&format!("{opening} shared memory region: 'r'")), "{error}");
        assert!(error.ends_with("not inside the region, which has 50 bytes"), "{error}");
    }
    let error = text(memory.window("r", 10, u64::MAX).unwrap_err());
    let overflow =
        "Integer overflow detected: byte_size (18446744073709551615) + offset (10) exceeds";
    assert!(error.starts_with(overflow), "{error}");
    let window = memory.window("r", 0, 3).unwrap();
    let error = text(window.write(&[Bytes::from_static(b"abcd")]).unwrap_err());
    assert!(error.ends_with("has 3 bytes, and 4 are needed"), "{error}");
    assert_eq!(fs::read(&object.0).unwrap(), [0; 100]);
}

#[test]
fn what_cannot_be_a_region_is_not_registered() {
    let object = Object::new(&[0; 100]);
    let memory = SharedMemory::new(true);
    let check = |region: Region, part: &str| {
        let error = memory.register(region).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    check(object.region("r", 0, 0), "byte_size above 0");
    // What else is wrong comes first.
    let none = || Region { key: "/muster-none".to_owned(), ..object.region("r", 0, 0) };
    check(none(), "Unable to open shared memory region: '/muster-none'");
    check(object.region("r", 101, 0), "invalid args: offset 101 and byte_size 0 end at byte 101");
    check(Region { key: "//".to_owned(), ..none() }, "region 'r' - invalid shm key '//'");
    check(
        object.region("r", 50, 51),
        "invalid args: offset 50 and byte_size 51 end at byte 101, the shared memory object",
    );
    check(object.region("r", u64::MAX, 2), "do not add up");
    check(Region { key: "/../etc/passwd".to_owned(), ..object.region("r", 0, 1) }, "'/name'");
    check(
        Region { key: "/muster-none".to_owned(), ..object.region("r", 0, 1) },
        "Unable to open shared memory region: '",
    );
    let link = Path::new(DIRECTORY).join(format!("muster-unit-link-{}", std::process::id()));
    std::os::unix::fs::symlink(&object.0, &link).unwrap();
    let key = link.file_name().unwrap().to_str().unwrap().to_owned();
    check(Region { key, ..object.region("r", 0, 1) }, "Unable to open shared memory region: '");
    fs::remove_file(link).unwrap();
    assert!(memory.status(None).unwrap().is_empty());
}

#[test]
fn without_leave_nothing_is_registered_and_the_status_is_empty() {
    let object = Object::new(&[0; 8]);
    let memory = SharedMemory::new(false);
    assert!(matches!(memory.register(object.region("r", 0, 8)), Err(Error::Unimplemented(_))));
    assert!(matches!(memory.register_cuda("r", &[0; 64]), Err(Error::Unimplemented(_))));
    assert_eq!(memory.status(None), Ok(Vec::new()));
}

#[test]
fn memory_of_gpus_is_refused_in_words() {
    let memory = SharedMemory::new(true);
    let error = memory.register_cuda("r", &[0; 3]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to register shared memory region 'r': invalid args: expected a raw_handle of 64 bytes, given 3"
    );
    assert!(matches!(memory.register_cuda("r", &[0; 64]), Err(Error::Unimplemented(_))));
}
