//! Members, where processes cannot share a page of memory: there are none.

use std::path::Path;

use super::page::Page;

/// A membership: on this system there is none.
#[derive(Debug)]
pub(super) enum Membership {}

impl Membership {
    pub(super) fn join(_database: &Path) -> Result<(Self, Page), String> {
        Err("processes cannot share syncs on this system".to_owned())
    }

    pub(super) fn slot(&self) -> usize {
        match *self {}
    }

    pub(super) fn members(&self) -> u64 {
        match *self {}
    }

    pub(super) fn is_gone(&self, _slot: usize) -> bool {
        match *self {}
    }

    pub(super) fn take_baton(&self) -> bool {
        match *self {}
    }

    pub(super) fn take_checkpoints(&self) -> bool {
        match *self {}
    }

    pub(super) fn leave_baton(&self) {
        match *self {}
    }
}
