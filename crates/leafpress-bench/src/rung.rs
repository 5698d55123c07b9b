//! One rung: one piece of work by one rival, in a process of its own, so that
//! processor time and peak memory are the rung's and nobody else's.
//!
//! The experiment starts its own executable again as
//!
//! ```text
//! leafpress bench --rung '{"kind":"csv_sql","csv":"…","database":"…"}'
//! ```
//!
//! and the child hands that text to [`run_rung`] and prints the answer as one
//! line. Only the work is timed: not the start of the process, not the making
//! of what both rivals are given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use leafpress::load::Report;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::generate::Areas;
use crate::report::{Io, Safety};
use crate::usage::Usage;
use crate::{ours, sql};

/// The hidden flag of `leafpress bench` that makes it a rung's process.
pub const RUNG_FLAG: &str = "--rung";

/// What there is to load: decides the table, and who can be compared with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The CSV file.
    Csv,
    /// Users made in memory.
    Users,
}

/// Which work, by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungKind {
    /// The CSV file by tuned SQL, types known, one row a statement.
    CsvSql,
    /// The same, 20 rows a statement.
    CsvBatchedSql,
    /// The CSV file by Leafpress, types detected.
    CsvLeafpress,
    /// The CSV file by Leafpress, types given.
    CsvTypedLeafpress,
    /// Users by tuned SQL, 50 rows a statement.
    UsersSql,
    /// Users by Leafpress, in parts on all cores.
    UsersLeafpress,
    /// Users by Leafpress, from a single iterator.
    UsersIteratorLeafpress,
}

impl RungKind {
    /// What is left after a crash right after the work.
    pub(crate) fn safety(self) -> Safety {
        match self {
            Self::CsvSql | Self::CsvBatchedSql | Self::UsersSql => Safety::Rebuildable,
            _ => Safety::Durable,
        }
    }

    /// Its name in the report, without the size of the work.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CsvSql => "csv, SQL, types known, one row a statement",
            Self::CsvBatchedSql => "csv, SQL, types known, 20 rows a statement",
            Self::CsvLeafpress => "csv, leafpress, types detected",
            Self::CsvTypedLeafpress => "csv, leafpress, types given",
            Self::UsersSql => "rows, SQL, 50 rows a statement",
            Self::UsersLeafpress => "rows, leafpress, in parts",
            Self::UsersIteratorLeafpress => "rows, leafpress, one iterator",
        }
    }
}

/// What a rung's process is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungRequest {
    /// Which work, by whom.
    pub kind: RungKind,
    /// The database to make; must not exist.
    pub database: PathBuf,
    /// The CSV file, where one is loaded.
    #[serde(default)]
    pub csv: PathBuf,
    /// Users to make, where they are made in memory.
    #[serde(default)]
    pub rows: u64,
}

/// What a rung's process answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RungResult {
    /// Wall seconds of the work.
    pub wall_s: f64,
    /// Rows loaded.
    pub rows: u64,
    /// Processor seconds of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Peak resident memory of the process up to the end of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mb: Option<f64>,
    /// Reading and writing of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// Seconds per stage, where the work reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages_s: BTreeMap<String, f64>,
}

/// Does what a rung's process is asked to do: takes [`RungRequest`] as JSON,
/// gives [`RungResult`] as JSON of one line.
///
/// # Errors
/// If the request does not parse, or the work fails; the database may then be
/// there, half made. Whoever asked removes it.
pub fn run_rung_line(request: &str) -> Result<String> {
    let request: RungRequest = serde_json::from_str(request)
        .map_err(|error| Error::Usage(format!("{RUNG_FLAG} {request}: {error}")))?;
    let result = run_rung(&request)?;
    serde_json::to_string(&result).map_err(|error| Error::Rung {
        name: request.kind.name().to_owned(),
        reason: error.to_string(),
    })
}

/// Does the work in this process and measures it.
///
/// # Errors
/// If the work fails; the database may then be there, half made.
pub fn run_rung(request: &RungRequest) -> Result<RungResult> {
    let work = prepare(request);
    let before = Usage::now();
    let start = Instant::now();
    let done = work()?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    Ok(RungResult {
        wall_s,
        rows: done.rows,
        cpu_s: used.cpu_s,
        peak_mb: used.peak_mb,
        io: used.io,
        stages_s: done.stages_s,
    })
}

/// The work, with all made that belongs to neither rival and is not to be timed.
fn prepare(request: &RungRequest) -> Box<dyn FnOnce() -> Result<Done> + '_> {
    let RungRequest { kind, database, csv, rows } = request;
    match kind {
        RungKind::CsvSql => Box::new(|| Ok(sql::load_csv(csv, database, 1)?.into())),
        RungKind::CsvBatchedSql => {
            Box::new(|| Ok(sql::load_csv(csv, database, sql::CSV_STATEMENT_ROWS)?.into()))
        }
        RungKind::CsvLeafpress => Box::new(|| Ok(ours::load_csv(csv, database, false)?.into())),
        RungKind::CsvTypedLeafpress => Box::new(|| Ok(ours::load_csv(csv, database, true)?.into())),
        RungKind::UsersSql => {
            let areas = Areas::new();
            Box::new(move || Ok(sql::load_users(&areas, *rows, database)?.into()))
        }
        RungKind::UsersLeafpress => {
            let areas = Areas::new();
            Box::new(move || Ok(ours::load_user_parts(&areas, *rows, database)?.into()))
        }
        RungKind::UsersIteratorLeafpress => {
            let areas = Areas::new();
            Box::new(move || Ok(ours::load_user_rows(&areas, *rows, database)?.into()))
        }
    }
}

/// What any rival's work says about itself.
struct Done {
    rows: u64,
    stages_s: BTreeMap<String, f64>,
}

impl From<u64> for Done {
    fn from(rows: u64) -> Self {
        Self { rows, stages_s: BTreeMap::new() }
    }
}

impl From<Report> for Done {
    fn from(report: Report) -> Self {
        let stages_s =
            report.stages.iter().map(|stage| (stage.name.to_owned(), stage.seconds)).collect();
        Self { rows: report.rows_loaded, stages_s }
    }
}

/// What the rung before left to be written or discarded must not slow down the
/// next one: a rival that syncs nothing leaves a gigabyte.
fn let_the_disk_rest() {
    #[cfg(target_os = "linux")]
    rustix::fs::sync();
    std::thread::sleep(REST);
}

/// How long the disk rests before a rung.
const REST: Duration = Duration::from_millis(500);

/// Runs a rung in a process of its own: this executable, as `bench --rung …`.
pub(crate) fn run_in_child(request: &RungRequest) -> Result<RungResult> {
    let failed = |reason: String| Error::Rung { name: request.kind.name().to_owned(), reason };
    let text = serde_json::to_string(request).map_err(|error| failed(error.to_string()))?;
    let program = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    let_the_disk_rest();
    let output = Command::new(&program)
        .args(["bench", RUNG_FLAG, &text])
        .output()
        .map_err(Error::io("start", &program))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}\n{}", output.status, said.trim_end())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}
