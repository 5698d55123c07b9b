//! A question about a program, and the answer to it.

use leafpress::Profile;
use serde::Serialize;

use crate::numbers;

/// Needs of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Rows that come at once.
    pub rows: Option<u64>,
    /// Their size in bytes.
    pub bytes: Option<u64>,
    /// Permitted effect of a power cut.
    pub power_cut: PowerCut,
    /// Threads or processes that write.
    pub writers: u32,
    /// True if transactions span attached databases.
    pub attached: bool,
}

impl Question {
    /// Checks that it makes sense.
    ///
    /// # Errors
    /// If it contradicts itself; the text says how.
    pub fn check(&self) -> Result<(), String> {
        if self.attached && self.power_cut == PowerCut::Rebuildable {
            return Err(
                "--attached asks for transactions that are whole over several databases, and a \
                    power cut may destroy a database that is rebuildable: leave one of both out"
                    .to_owned(),
            );
        }
        match (self.rows, self.bytes) {
            (Some(rows), Some(bytes)) if bytes < rows => Err(format!(
                "{} rows cannot fit into {} bytes: --size is that of all rows together",
                numbers::count(rows),
                numbers::count(bytes)
            )),
            _ => Ok(()),
        }
    }
}

/// Permitted effect of a power cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PowerCut {
    /// Acknowledged changes survive it.
    #[default]
    Survives,
    /// It may take the last moments.
    MayLoseLast,
    /// It may destroy the file, which can be made anew.
    Rebuildable,
}

/// Answer: what fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The profile.
    pub profile: Profile,
    /// Its settings of SQLite: "WAL, FULL".
    pub settings: String,
    /// Promise of the profile.
    pub promise: String,
    /// Reasons for this choice, a sentence each.
    pub why: Vec<String>,
    /// Ways to write, the best first.
    pub ways: Vec<Way>,
    /// Warnings, a sentence each.
    pub warnings: Vec<String>,
    /// The command that measures what is missing, where something is.
    pub to_measure: Option<String>,
}

/// A way in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Way {
    /// Name: "leafpress load", "Writer", "one connection".
    pub name: &'static str,
    /// When it is the one to take.
    pub what: String,
    /// The command, where there is one.
    pub command: Option<String>,
    /// The lines of Rust.
    pub rust: Vec<String>,
    /// Time that it takes, if that was measured.
    pub estimate: Option<Estimate>,
    /// The experiment that measures it, where one does.
    #[serde(skip)]
    pub measured_by: Option<&'static str>,
}

/// A time by what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Rows a second that were measured.
    pub rows_per_second: f64,
    /// Seconds for what was asked about, if that was said.
    pub seconds: Option<f64>,
    /// Beside what.
    pub beside: String,
    /// Rows a second of that.
    pub beside_rows_per_second: f64,
    /// Seconds of that.
    pub beside_seconds: Option<f64>,
    /// Measured rung: "ladder, pressed".
    pub by: String,
    /// When.
    pub measured_at: Option<String>,
    /// True for a run with small inputs: the order of magnitude only.
    pub quick: bool,
}
