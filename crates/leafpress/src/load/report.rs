//! What a load or a dry run found, for people and programs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::BadRow;

/// A finished load.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The table's name.
    pub table: String,
    /// The database, complete and synced.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub database: PathBuf,
    /// The statement that declares the table.
    pub create_sql: String,
    /// Rows in the input, without the header and blank lines.
    pub rows_read: u64,
    /// Rows in the table.
    pub rows_loaded: u64,
    /// Bad rows that were left out.
    pub rows_rejected: u64,
    /// The first ten of them.
    pub rejects: Vec<BadRow>,
    /// Why rows were left out, and how many for each reason.
    pub reject_reasons: Vec<RejectReason>,
    /// Rows left out as another one has their key.
    pub rows_ignored: u64,
    /// Size of the input (compressed, where it is).
    pub bytes_read: u64,
    /// Size of the database.
    pub bytes_written: u64,
    /// Pages of the database.
    pub pages: u64,
    /// What sorting wrote to temporary files.
    pub spilled_bytes: u64,
    /// From the call to the synced database.
    #[serde(rename = "elapsed_s", serialize_with = "as_seconds")]
    pub elapsed: Duration,
    /// Where the time went.
    pub stages: Vec<Stage>,
    /// The columns and how their types came about.
    pub columns: Vec<ColumnReport>,
    /// What a careful person would want to know.
    pub notes: Vec<String>,
    /// How the rows went in: "pressed" and what was done besides, or "SQL: " and why.
    pub path: String,
}

/// A reason for which rows were rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectReason {
    /// The reason, without the values of a row: `column "age": '…' is not an INTEGER`.
    pub reason: String,
    /// How many rows.
    pub rows: u64,
}

pub(super) fn as_seconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// One stage of the work.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// Seconds spent in it, summed over all threads.
    pub seconds: f64,
}

/// A column and how its type came about.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// Its declared type.
    pub declared_type: String,
    /// The value that ruled a narrower type out, if one did.
    pub decided_by: Option<DecidedBy>,
    /// What of its values becomes of another form in a REAL column, if something does.
    pub changed_form: Option<ChangedForm>,
}

/// Values whose number is kept and whose form is not: `2.50` becomes 2.5. Counted are
/// needless zeros and exponents, digits missing beside the point, and negative zeros; not
/// the `.0` that a plain integer gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedForm {
    /// How many they are.
    pub values: u64,
    /// The input that the first of them is in, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its line.
    pub line: u64,
    /// The value, cut where long.
    pub value: String,
    /// Its number, in as few digits as it needs.
    pub becomes: String,
}

/// The note on columns whose values change their form; `None` if none does.
pub(super) fn changed_note(names: &[String], changed: &[Option<ChangedForm>]) -> Option<String> {
    const LISTED_MAX: usize = 3;
    let columns = names.iter().zip(changed);
    let changed: Vec<_> =
        columns.filter_map(|(name, changed)| Some((name, changed.as_ref()?))).collect();
    let listed = changed.iter().take(LISTED_MAX).map(|(name, changed)| {
        let ChangedForm { values, file, line, value, becomes } = changed;
        let of_file = file.as_ref().map_or(String::new(), |file| format!(" of {file}"));
        let values = if *values == 1 { "1 value".to_owned() } else { format!("{values} values") };
        format!("{name} ({values}, such as '{value}' in line {line}{of_file}, now {becomes})")
    });
    let mut listed = listed.collect::<Vec<_>>().join(", ");
    match changed.len() {
        0 => return None,
        count if count > LISTED_MAX => {
            let more = count - LISTED_MAX;
            let columns = if more == 1 { "column" } else { "columns" };
            let _ = write!(listed, " and {more} more {columns}");
        }
        _ => {}
    }
    Some(format!(
        "numbers keep their value and not their form in {listed}; ⟦type COL=text⟧ keeps the texts"
    ))
}

/// The value that decided a column's type.
#[derive(Debug, Clone, Serialize)]
pub struct DecidedBy {
    /// The input that it is in, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its line in the input.
    pub line: u64,
    /// The value, cut where long.
    pub value: String,
    /// What it ruled out, in words.
    pub reason: String,
}

/// What a load would do.
#[derive(Debug, Clone, Serialize)]
pub struct DryRun {
    /// The statement that would declare the table.
    pub create_sql: String,
    /// The table's name.
    pub table: String,
    /// The columns and what decided their types.
    pub columns: Vec<ColumnReport>,
    /// Rows in the input.
    pub rows_read: u64,
    /// Rows that would be rejected.
    pub would_reject: u64,
    /// The first twenty of them.
    pub rejects: Vec<BadRow>,
    /// Why rows would be rejected, and how many for each reason.
    pub reject_reasons: Vec<RejectReason>,
    /// What a careful person would want to know.
    pub notes: Vec<String>,
    /// How the rows would go in.
    pub path: String,
    /// What it would take: sorting, memory, disk.
    pub plan: Vec<String>,
}
