//! Memory that a client shares with the server.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::Server;

/// The addresses of such memory begin so.
pub const SYSTEM: &str = "/v2/systemsharedmemory";

/// A shared memory object of one test.
pub struct Object(PathBuf);

impl Object {
    /// An object with this content.
    pub fn new(content: &[u8]) -> Object {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("/dev/shm/muster-tests-{}-{number}", std::process::id());
        fs::write(&path, content).unwrap();
        Object(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its name, as clients give it.
    pub fn key(&self) -> &str {
        self.0.to_str().unwrap().strip_prefix("/dev/shm").unwrap()
    }

    /// Writes from `offset` on, as a client does.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = OpenOptions::new().write(true).open(&self.0).unwrap();
        file.write_all_at(bytes, offset as u64).unwrap();
    }

    /// What it holds now.
    pub fn content(&self) -> Vec<u8> {
        fs::read(&self.0).unwrap()
    }

    /// Registers all of it, or what is asked for.
    #[track_caller]
    pub fn register(&self, server: &Server, name: &str) {
        let size = self.content().len();
        let body = json!({"key": self.key(), "offset": 0, "byte_size": size}).to_string();
        let reply = server.post(&format!("{SYSTEM}/region/{name}/register"), body).expect(200);
        assert_eq!(reply.body, b"");
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A part of a region, as the parameters of an input or output name it.
pub fn part(region: &str, offset: usize, size: usize) -> Value {
    json!({"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size})
}

/// A request of `rows` rows, from one part into another.
pub fn request(rows: usize, input: &Value, output: &Value) -> String {
    json!({
        "id": "7",
        "inputs": [{"name": "INPUT0", "shape": [rows, 4], "datatype": "FP32", "parameters": input}],
        "outputs": [{"name": "OUTPUT0", "parameters": output}],
    })
    .to_string()
}
