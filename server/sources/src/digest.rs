//! Digests of files: how a hub, a registry and a lock file say them, and how they are computed.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
    str::FromStr,
};

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

/// The digest of a file's content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Digest {
    /// SHA-256, in hexadecimal: of large files of a hub, and of everything elsewhere.
    Sha256(String),
    /// The name that git gives to a content, in hexadecimal: of small files of a hub.
    Git(String),
}

/// The text is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoDigest;

impl Digest {
    /// The digest that the name of a blob is; `None` where it is another word.
    pub(crate) fn of_blob(name: &str) -> Option<Digest> {
        let text = name.to_ascii_lowercase();
        let is_hex = text.bytes().all(|it| it.is_ascii_hexdigit());
        match text.len() {
            64 if is_hex => Some(Digest::Sha256(text)),
            40 if is_hex => Some(Digest::Git(text)),
            _ => None,
        }
    }

    /// In hexadecimal, without its kind: the name of a blob.
    pub(crate) fn hex(&self) -> &str {
        match self {
            Digest::Sha256(text) | Digest::Git(text) => text,
        }
    }

    /// SHA-256 of bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Digest {
        let mut hash = Context::new(&SHA256);
        hash.update(bytes);
        Digest::Sha256(finish(hash))
    }

    /// Are both of one kind?
    pub(crate) fn is_like(&self, other: &Digest) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The digest of the same kind that a file has. Blocking.
    pub(crate) fn of_file(&self, path: &Path) -> io::Result<Digest> {
        match self {
            Digest::Sha256(_) => Digest::sha256(path),
            Digest::Git(_) => {
                let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
                hash.update(format!("blob {}\0", path.metadata()?.len()).as_bytes());
                Ok(Digest::Git(hash_file(hash, path)?))
            }
        }
    }

    /// SHA-256 of a file. Blocking.
    pub(crate) fn sha256(path: &Path) -> io::Result<Digest> {
        Ok(Digest::Sha256(hash_file(Context::new(&SHA256), path)?))
    }
}

fn hash_file(mut hash: Context, path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(finish(hash))
}

fn finish(hash: Context) -> String {
    hash.finish().as_ref().iter().map(|it| format!("{it:02x}")).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Digest::Sha256(text) => write!(f, "sha256:{text}"),
            Digest::Git(text) => write!(f, "git:{text}"),
        }
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Digest, NoDigest> {
        let (kind, hex) = text.split_once(':').ok_or(NoDigest)?;
        match (kind, Digest::of_blob(hex)) {
            ("sha256", Some(it @ Digest::Sha256(_))) | ("git", Some(it @ Digest::Git(_))) => Ok(it),
            _ => Err(NoDigest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_digests_that_git_and_sha256sum_say() {
        let path = std::env::temp_dir().join(format!("muster-digest-{}", std::process::id()));
        std::fs::write(&path, "hello\n").unwrap();
        // `git hash-object` and `sha256sum`.
        for text in [
            "git:ce013625030ba8dba906f756967f9e9ca394464a",
            "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        ] {
            let digest: Digest = text.parse().unwrap();
            assert_eq!(digest.of_file(&path).unwrap(), digest);
            assert_eq!(digest.to_string(), text);
        }
        std::fs::remove_file(path).unwrap();
        for text in ["", "sha256:ab", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256"] {
            assert_eq!(text.parse::<Digest>(), Err(NoDigest), "{text}");
        }
    }
}
