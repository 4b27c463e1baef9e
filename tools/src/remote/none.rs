//! A build without the network: files at addresses cannot be read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bloomfile::report::{Explained, Inspection, PageInspection};
use bloomfile::{Key, hash::Hasher};

use super::{about, check_scheme};
use crate::failure::{Failure, Result};

fn refuse(address: &str) -> Failure {
    match check_scheme(address) {
        Err(failure) => failure,
        Ok(()) => about(
            address,
            "cannot be read: this bloomfile was built without the network; install it with \
             --features network, or fetch the file by other means",
        ),
    }
}

/// See `asked.rs`; there is none here.
pub(crate) enum AskedFile {}

impl AskedFile {
    pub(crate) fn open(address: &str, _key: Option<Key>) -> Result<Option<Self>> {
        Err(refuse(address))
    }

    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        match *self {}
    }

    pub(crate) fn hasher(&self) -> Hasher {
        match *self {}
    }

    pub(crate) fn ask(&self, _hashes: &[u64]) -> Result<Vec<Option<bool>>> {
        match *self {}
    }

    pub(crate) fn pages_unverified(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn damage(&self) -> Option<Failure> {
        match *self {}
    }
}

/// See `inspected.rs`; there is none here.
pub(crate) enum InspectedFile {}

impl InspectedFile {
    pub(crate) fn open(address: &str) -> Result<Self> {
        Err(refuse(address))
    }

    pub(crate) fn explain(
        address: &str,
        _take: &mut dyn FnMut(Explained) -> ControlFlow<()>,
    ) -> Result<()> {
        Err(refuse(address))
    }

    pub(crate) fn has_changed(&self) -> bool {
        match *self {}
    }

    pub(crate) fn inspect(&self) -> Inspection {
        match *self {}
    }

    pub(crate) fn pages(
        &self,
        _take: &mut dyn FnMut(PageInspection) -> ControlFlow<()>,
    ) -> Result<()> {
        match *self {}
    }
}
