//! In the place of stores and their objects, where they were left out of the build: none can be opened.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    error::StoreError,
    store_settings::{StoreSettings, StoreUrl},
};

/// Why, and what to do.
const MISSING: &str = "this build has no object stores; build muster with --features stores";

/// A repository in an object store, which there cannot be.
#[derive(Debug)]
pub struct Store(Infallible);

impl Store {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(url: &StoreUrl, _: &StoreSettings) -> Result<Store, StoreError> {
        Err(StoreError::settings(url, MISSING))
    }

    /// Not to be called: there is no store.
    ///
    /// # Errors
    /// None.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        match self.0 {}
    }

    /// Not to be called: there is no store.
    ///
    /// # Errors
    /// None.
    pub fn fetch(&self, _model: &str) -> Result<PathBuf, StoreError> {
        match self.0 {}
    }

    /// Not to be called: there is no store.
    ///
    /// # Errors
    /// None.
    pub fn fetch_all(&self) -> Result<BTreeMap<String, Result<PathBuf, StoreError>>, StoreError> {
        match self.0 {}
    }

    /// Not to be called: there is no store.
    ///
    /// # Errors
    /// None.
    pub fn copies(&self) -> Result<BTreeMap<String, PathBuf>, StoreError> {
        match self.0 {}
    }

    /// Not to be called: there is no store.
    pub fn newer(&self, _dir: &Path) -> Option<PathBuf> {
        match self.0 {}
    }

    /// Not to be called: there is no store.
    pub fn serves(&self, _dir: &Path) {
        match self.0 {}
    }
}

/// Objects of which none can be opened.
#[derive(Debug)]
pub struct Objects(());

impl Objects {
    /// Opens nothing.
    pub fn new(_: StoreSettings, _endpoint: Option<String>) -> Objects {
        Objects(())
    }

    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub async fn open(&self, bucket: &str, _key: &str) -> Result<Object, StoreError> {
        Err(missing(bucket))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub async fn write(
        &self,
        bucket: &str,
        _key: &str,
        _body: Vec<Bytes>,
        _content_type: Option<&str>,
    ) -> Result<Written, StoreError> {
        Err(missing(bucket))
    }
}

fn missing(bucket: &str) -> StoreError {
    StoreError::Settings { url: format!("s3://{bucket}"), problem: MISSING.to_owned() }
}

/// What would have become of an object that was to be written.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there, whole.
    Whole,
    /// There is one of that name already.
    Taken,
}

/// An object, which there cannot be.
#[derive(Debug)]
pub struct Object {
    /// Bytes of it.
    pub length: u64,
    never: Infallible,
}

impl Object {
    /// Not to be called: there is no object.
    ///
    /// # Errors
    /// None.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_in_a_store_is_refused_by_the_name_of_the_feature() {
        let url = StoreUrl::parse("s3://b/models").unwrap();
        let text = Store::open(&url, &StoreSettings::default()).unwrap_err().to_string();
        assert_eq!(text, format!("repository 's3://b/models': {MISSING}"));
    }
}
