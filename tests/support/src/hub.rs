//! A hub that speaks as Hugging Face's does (`tests/clients/hub_server.py`), over folders of models.

use serde_json::Value;

use super::{Process, Repository, faulty::Script, pipelines};

/// The token of models with a file `.private`.
pub const TOKEN: &str = "hub-secret";

/// The script, running.
pub struct Hub {
    script: Script,
    /// Of the host with TLS.
    pub tls_port: u16,
    /// The folders of its models: `<owner>/<name>/<files>`.
    pub models: Repository,
}

impl Hub {
    /// `None` without Python.
    pub fn start() -> Option<Hub> {
        Hub::start_with(&[])
    }

    /// The same, and a host with TLS that has its files.
    pub fn with_tls(certificate: &str, key: &str) -> Option<Hub> {
        Hub::start_with(&[certificate, key])
    }

    fn start_with(tls: &[&str]) -> Option<Hub> {
        let models = Repository::new();
        let folder = models.at("");
        let script = Script::start("hub_server.py", &[&[&*folder], tls].concat())?;
        let tls_port = script.ports[1];
        Some(Hub { script, tls_port, models })
    }

    /// The same, with a folder of a text classifier as `org/sst2`, and beside its graph what nobody needs.
    pub fn with_text_model() -> Option<Hub> {
        let hub = Hub::start()?;
        let folder = pipelines::fixtures().join("sst2/folder");
        let copied = pipelines::copy(Repository::new(), "sst2", &folder);
        for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
            hub.put(&format!("org/sst2/{file}"), &copied.at(&format!("sst2/{file}")));
        }
        hub.put("org/sst2/onnx/model.onnx", &copied.at("sst2/model.onnx"));
        for file in
            ["README.md", "model.safetensors", "onnx/model_quantized.onnx", "pytorch_model.bin"]
        {
            hub.write(&format!("org/sst2/{file}"), b"not for a server");
        }
        Some(hub)
    }

    /// A file of a model.
    pub fn write(&self, path: &str, content: &[u8]) {
        let path = self.models.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The same, with the content of a file.
    pub fn put(&self, path: &str, from: &str) {
        self.write(path, &std::fs::read(from).unwrap());
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("http://{}", self.script.faults().address)
    }

    /// As [`super::faulty::Faults::fail`].
    pub fn fail(&self, faults: Value) {
        self.script.faults().fail(faults);
    }

    /// As [`super::faulty::Faults::asked`].
    pub fn asked(&self) -> Vec<(String, bool, Option<String>)> {
        self.script.faults().asked()
    }

    /// The files whose contents were fetched, sorted.
    pub fn fetched(&self) -> Vec<String> {
        let asked = self.asked();
        let files = asked.iter().filter_map(|(it, ..)| {
            let path = it.strip_prefix("GET hub /").or(it.strip_prefix("GET cdn /"));
            let path = path.filter(|it| !it.starts_with("api/"))?;
            // Of what lies on the other host both are asked.
            Some(path.split("/resolve/").last()?.split_once('/')?.1.to_owned())
        });
        let mut files: Vec<String> =
            files.map(|it| it.strip_prefix("sst2/").unwrap_or(&it).to_owned()).collect();
        files.sort();
        files.dedup();
        files
    }

    /// `muster` with these arguments, over this hub and a cache of its own.
    pub fn muster(&self, cache: &Repository, args: &[&str], variables: &[(&str, &str)]) -> Process {
        let (address, home) = (self.address(), cache.at("home"));
        let own = [("HF_ENDPOINT", &*address), ("HF_HOME", &*home)];
        Process::command(args, &[&own, variables].concat())
    }

    /// From now on nobody listens there.
    pub fn stop(&mut self) {
        self.script.stop();
    }
}
