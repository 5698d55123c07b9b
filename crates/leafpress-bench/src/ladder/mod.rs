//! The same rows under one setting after the other.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::check::Left;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::options::BenchOptions;
use crate::report::Safety;
use crate::rung::{Described, RungResult};

/// One rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LadderRung {
    /// Rows.
    pub rows: u64,
}

impl Described for LadderRung {
    fn name(&self) -> String {
        String::new()
    }

    fn label(&self) -> String {
        String::new()
    }

    fn chart(&self) -> String {
        String::new()
    }

    fn safety(&self) -> Safety {
        Safety::Durable
    }

    fn room_mb(&self) -> u64 {
        0
    }

    fn run(&self, _: &Path) -> Result<RungResult> {
        Err(Error::Usage(String::new()))
    }

    fn left(&self, _: &RungResult, _: &Path) -> Result<Left> {
        Err(Error::Usage(String::new()))
    }
}

/// The groups of the experiment.
pub(crate) fn ladder_groups(_: &BenchOptions) -> Vec<Group> {
    Vec::new()
}
