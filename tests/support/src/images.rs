//! A registry of images: the program `docker-registry` of Debian's, with images that are pushed over its own API.

use std::{net::SocketAddr, process::Command};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{Client, Process, Repository, say_skipped};

/// The registry, running.
pub struct Images {
    #[expect(dead_code, reason = "it ends with this")]
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

/// The type of a manifest.
pub const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The type of a list of manifests.
pub const LIST: &str = "application/vnd.oci.image.index.v1+json";
/// The type of a layer: an archive, also of what ORAS pushes as a file.
pub const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

/// The user `anna` with the password `swordfish`, as a registry reads users.
const USERS: &str = "anna:$2b$04$3jvpiPk3NN9T4K4RiXMKKOC.8fkShfYDJwOhQDL8dUByr8I1driCO\n";

impl Images {
    /// A registry over a folder; `None`, which is said, where the program is not installed.
    pub fn start(files: &Repository) -> Option<Images> {
        Images::start_with(files, "")
    }

    /// The same of one that wants to know who asks.
    pub fn with_users(files: &Repository) -> Option<Images> {
        std::fs::write(files.at("users"), USERS).unwrap();
        let users = files.at("users");
        Images::start_with(files, &format!("auth: {{htpasswd: {{realm: tests, path: {users}}}}}\n"))
    }

    fn start_with(files: &Repository, more: &str) -> Option<Images> {
        let program = "/usr/bin/docker-registry";
        if !Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success()) {
            say_skipped("models of a registry of images: there is no docker-registry");
            return None;
        }
        let config = files.at("registry.yml");
        let text = format!(
            "version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\nhttp: {{addr: \"127.0.0.1:0\"}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\n{more}",
            files.at("registry")
        );
        std::fs::write(&config, text).unwrap();
        let mut process = Process::program(program, &["serve", &config], &[]);
        let line = process.wait_for_line("listening on ");
        let address = line.split("listening on ").nth(1).unwrap();
        let address = address.split(['"', ' ']).next().unwrap().parse().unwrap();
        Some(Images { process, address })
    }

    /// Puts a content into a repository: what a manifest says of it.
    pub fn content(&self, repository: &str, kind: &str, content: &[u8]) -> Value {
        let mut client = Client::connect(self.address);
        let path = format!("/v2/{repository}/blobs/uploads/");
        let begun = client.post(&path, &[], "").expect(202);
        let address = begun.header("location").unwrap().to_owned();
        let path = &address[address.find("/v2/").unwrap()..];
        let digest = sha256(content);
        let sign = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sign}digest={digest}");
        let headers = [("Content-Type", "application/octet-stream")];
        client.request("PUT", &path, &headers, Some(content)).expect(201);
        json!({"mediaType": kind, "digest": digest, "size": content.len()})
    }

    /// Puts a file into a repository, as ORAS does.
    pub fn file(&self, repository: &str, name: &str, content: &[u8]) -> Value {
        let mut layer = self.content(repository, TAR, content);
        layer["annotations"] = json!({"org.opencontainers.image.title": name});
        layer
    }

    /// Puts an image of layers into a repository under a tag: its digest.
    pub fn image(&self, repository: &str, tag: &str, layers: &[Value]) -> String {
        let config = self.content(repository, "application/vnd.oci.image.config.v1+json", b"{}");
        let manifest =
            json!({"schemaVersion": 2, "mediaType": IMAGE, "config": config, "layers": layers});
        self.manifest(repository, tag, IMAGE, &manifest)
    }

    /// Puts a manifest into a repository under a tag: its digest.
    pub fn manifest(&self, repository: &str, tag: &str, kind: &str, manifest: &Value) -> String {
        let text = manifest.to_string();
        let path = format!("/v2/{repository}/manifests/{tag}");
        let mut client = Client::connect(self.address);
        client.request("PUT", &path, &[("Content-Type", kind)], Some(text.as_bytes())).expect(201);
        sha256(text.as_bytes())
    }
}

/// A digest as a registry says it.
pub fn sha256(content: &[u8]) -> String {
    let digest = digest(&SHA256, content);
    let hex: String = digest.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256:{hex}")
}

/// A file of an archive.
pub struct Entry<'a> {
    /// Its path there.
    pub path: &'a str,
    /// As an archive says it: `b'0'` for a file, `b'2'` for a link.
    pub kind: u8,
    /// Its bytes.
    pub content: &'a [u8],
}

/// An archive of files, without anything that keeps them within a folder.
pub fn tar(files: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    for Entry { path, kind, content } in files {
        let mut header = [0; 512];
        let mut put =
            |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, path);
        put(100, "0000400");
        put(124, &format!("{:011o}", content.len()));
        put(136, "00000000000");
        put(148, "        ");
        put(257, "ustar\u{0}00");
        header[156] = *kind;
        if *kind == b'2' {
            header[157..168].copy_from_slice(b"/etc/passwd");
        }
        let sum: u32 = header.iter().map(|it| u32::from(*it)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(*content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}
