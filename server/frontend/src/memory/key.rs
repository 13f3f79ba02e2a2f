//! Names of shared memory objects. Pure.

use inference::{error::Error, messages};

/// Prefix of the objects of Triton's Python backend, which clients must not register.
const RESERVED: &str = "triton_python_backend_shm_region_";

/// The name of the file of that region's object in its directory: the key without its leading slashes.
///
/// # Errors
/// [`Error::InvalidRequest`] for a key that is not the name of a file, and for reserved names.
pub(super) fn object_name<'k>(region: &str, key: &'k str) -> Result<&'k str, Error> {
    let name = key.trim_start_matches('/');
    let shown: String = key.chars().take(128).collect();
    if name.is_empty() {
        let opening = messages::invalid_key(region, &shown);
        let problem = format!("{opening}: expected a key such as '/name'");
        return Err(Error::InvalidRequest(problem));
    }
    if name == "." || name == ".." || name.contains(['/', '\0']) {
        let opening = messages::no_object(&shown);
        let problem = format!("{opening}: expected a key such as '/name', without further slashes");
        return Err(Error::InvalidRequest(problem));
    }
    if name.starts_with(RESERVED) {
        let problem = messages::reserved_key(region, &shown, RESERVED);
        return Err(Error::InvalidRequest(problem));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_in_front_do_not_matter() {
        for key in ["input", "/input", "///input"] {
            assert_eq!(object_name("r", key).unwrap(), "input");
        }
        assert_eq!(object_name("r", "/..data").unwrap(), "..data");
    }

    #[test]
    fn no_key_leads_out_of_the_directory() {
        for key in [".", "..", "/..", "/../etc/passwd", "a/b", "/a/", "a\0b"] {
            let error = object_name("r", key).unwrap_err().to_string();
            let opening = format!("Unable to open shared memory region: '{key}': expected a key");
            assert!(error.starts_with(&opening), "{key:?}: {error}");
        }
        for key in ["", "/", "///"] {
            let error = object_name("r", key).unwrap_err().to_string();
            let opening = "cannot register shared memory region 'r' - invalid shm key";
            assert!(error.starts_with(&format!("{opening} '{key}'")), "{key:?}: {error}");
        }
    }

    #[test]
    fn reserved_keys_are_refused_with_any_number_of_slashes() {
        for key in ["triton_python_backend_shm_region_1", "//triton_python_backend_shm_region_"] {
            let error = object_name("r", key).unwrap_err().to_string();
            let opening = "cannot register shared memory region 'r' with key '";
            assert!(error.starts_with(opening) && error.contains("the reserved prefix"), "{error}");
        }
    }
}
