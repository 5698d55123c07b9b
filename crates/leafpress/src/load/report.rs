//! Reports of loads and dry runs. People and programs read them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::error::BadRow;

/// Report of a finished load.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Name of the table.
    pub table: String,
    /// Path of the database, which is complete and synced.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub database: PathBuf,
    /// Statement that declares the table.
    pub create_sql: String,
    /// Number of rows in the input, without the header and blank lines.
    pub rows_read: u64,
    /// Number of rows that went into the table.
    pub rows_loaded: u64,
    /// Number of bad rows that were left out.
    pub rows_rejected: u64,
    /// First ten bad rows.
    pub rejects: Vec<BadRow>,
    /// Reasons for which rows were left out, with their numbers of rows.
    pub reject_reasons: Vec<RejectReason>,
    /// Number of rows left out because another row has their key, or because a trigger or an
    /// ON CONFLICT of the table passes over them.
    pub rows_ignored: u64,
    /// Size of the input; of a compressed input, the compressed size.
    pub bytes_read: u64,
    /// Size of the database.
    pub bytes_written: u64,
    /// Number of pages of the database.
    pub pages: u64,
    /// Number of bytes that sorting wrote to temporary files.
    pub spilled_bytes: u64,
    /// Time from the call to the synced database.
    #[serde(rename = "elapsed_s", serialize_with = "crate::times::seconds")]
    pub elapsed: Duration,
    /// Time by stage.
    pub stages: Vec<Stage>,
    /// Columns, with the reasons for their types.
    pub columns: Vec<ColumnReport>,
    /// Names of the columns that the input has; the others took their defaults.
    #[serde(skip)]
    pub given_columns: Vec<String>,
    /// Notes for the report, such as renamed columns.
    pub notes: Vec<String>,
    /// Way in which the rows went in: "pressed" and additional work, or "SQL: " and the reason.
    pub path: String,
}

/// A reason for which rows were rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RejectReason {
    /// The reason, without the values of a row: `column "age": '…' is not an INTEGER`.
    pub reason: String,
    /// Number of rows.
    pub rows: u64,
}

/// One stage of the work.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct Stage {
    /// Name of the stage.
    pub name: &'static str,
    /// Seconds that the stage took, summed over all threads.
    pub seconds: f64,
}

/// A column, with the reason for its type.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ColumnReport {
    /// Name of the column.
    pub name: String,
    /// Declared type of the column.
    pub declared_type: String,
    /// Value that ruled a narrower type out, if there is one.
    pub decided_by: Option<DecidedBy>,
    /// Values that change their form in a REAL column, if there are any.
    pub changed_form: Option<ChangedForm>,
}

/// Values whose number is kept and whose form is not: `2.50` becomes 2.5. Counted are needless
/// zeros and exponents, digits missing beside the point, and negative zeros; not the `.0` that a
/// plain integer gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChangedForm {
    /// Number of such values.
    pub values: u64,
    /// Name of the input with the first such value, if there are several inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line of the first such value.
    pub line: u64,
    /// First such value, cut if long.
    pub value: String,
    /// Number of that value, in as few digits as it needs.
    pub becomes: String,
}

/// The note on columns whose values change their form; `None` if there are none.
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
#[non_exhaustive]
pub struct DecidedBy {
    /// Name of its input, if there are several inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line of the value in the input.
    pub line: u64,
    /// Text of the value, cut if long.
    pub value: String,
    /// Reason, in words.
    pub reason: String,
}

/// Report of a dry run.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DryRun {
    /// Statement that would declare the table.
    pub create_sql: String,
    /// Name of the table.
    pub table: String,
    /// Columns, with the values that decided their types.
    pub columns: Vec<ColumnReport>,
    /// Number of rows in the input.
    pub rows_read: u64,
    /// Number of rows that would be rejected.
    pub would_reject: u64,
    /// First twenty rows that would be rejected.
    pub rejects: Vec<BadRow>,
    /// Reasons for which rows would be rejected, with their numbers of rows.
    pub reject_reasons: Vec<RejectReason>,
    /// Notes for the report, such as renamed columns.
    pub notes: Vec<String>,
    /// Way in which the rows would go in.
    pub path: String,
    /// Needs of the load: sorting, memory, disk.
    pub plan: Vec<String>,
}
