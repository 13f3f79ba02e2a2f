//! Names of shared memory objects. Pure.

/// Prefix of the objects of Triton's Python backend, which clients must not register.
const RESERVED: &str = "triton_python_backend_shm_region_";

/// The name of the object's file in its directory: the key without its leading slashes.
///
/// # Errors
/// A sentence, for a key that is not the name of a file, and for reserved names.
pub(super) fn object_name(key: &str) -> Result<&str, String> {
    let name = key.trim_start_matches('/');
    let shown: String = key.chars().take(128).collect();
    if name.is_empty() {
        return Err(format!("expected a key such as '/name', given '{shown}'"));
    }
    if name == "." || name == ".." || name.contains(['/', '\0']) {
        let expected = "expected a key such as '/name', without further slashes";
        return Err(format!("{expected}, given '{shown}'"));
    }
    if name.starts_with(RESERVED) {
        return Err(format!("keys that begin with '{RESERVED}' are reserved, given '{shown}'"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_in_front_do_not_matter() {
        for key in ["input", "/input", "///input"] {
            assert_eq!(object_name(key), Ok("input"));
        }
        assert_eq!(object_name("/..data"), Ok("..data"));
    }

    #[test]
    fn no_key_leads_out_of_the_directory() {
        for key in ["", "/", "//", ".", "..", "/..", "/../etc/passwd", "a/b", "/a/", "a\0b"] {
            let error = object_name(key).unwrap_err();
            assert!(error.starts_with("expected a key such as '/name'"), "{key:?}: {error}");
        }
    }

    #[test]
    fn reserved_keys_are_refused_with_any_number_of_slashes() {
        for key in ["triton_python_backend_shm_region_1", "//triton_python_backend_shm_region_"] {
            assert!(object_name(key).unwrap_err().contains("reserved"), "{key}");
        }
    }
}
