//! Flags that say how inputs are read, and contradict one another or the inputs.
//!
//! Must never: open a file. What only reading can tell is the library's to say.

use std::path::{Path, PathBuf};

use leafpress::load::endings;
use leafpress::path_text;

use crate::flags::{BadRowFlags, ColumnFlags, FormatFlag, InputFlags, OnErrorFlag};
use crate::loading::is_stdin;

/// Finds what contradicts. `inputs` are those of the flags, with patterns expanded.
///
/// # Errors
/// The contradiction, in words.
pub fn check_reading(
    input: &InputFlags,
    columns: &ColumnFlags,
    bad_rows: &BadRowFlags,
    inputs: &[PathBuf],
) -> Result<(), String> {
    check_bytes(input)?;
    check_format(input, columns, inputs)?;
    check_types(columns)?;
    check_renames(columns)?;
    check_bad_rows(bad_rows)
}

fn check_bytes(input: &InputFlags) -> Result<(), String> {
    let delimiter = if input.is_tsv() { Some(b'\t') } else { input.delimiter };
    let named = [
        ("--delimiter", delimiter),
        ("--quote", input.quote_byte()),
        ("--escape", input.escape),
        ("--comment", input.comment),
    ];
    for (index, (name, byte)) in named.iter().enumerate() {
        let twin = named[index + 1..].iter().find(|(_, other)| byte.is_some() && other == byte);
        if let (Some((twin_name, _)), Some(byte)) = (twin, byte) {
            let of_default = if input.quote.is_none() && [*name, *twin_name].contains(&"--quote") {
                " (the default of --quote)"
            } else {
                ""
            };
            return Err(format!(
                "{name} and {twin_name} are the same byte, '{}'{of_default}: name another one for \
                 one of them; nothing was read or written",
                shown_byte(*byte)
            ));
        }
    }
    Ok(())
}

/// A byte as a message shows it.
fn shown_byte(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        char::from(byte).to_string()
    } else {
        byte.escape_ascii().to_string()
    }
}

/// Returns true if the name of an input says that it is no CSV.
fn is_other_than_csv(input: &Path) -> bool {
    input.to_str().is_some_and(endings::is_other_than_csv)
}

/// Flags of CSV beside inputs of another format would do nothing.
fn check_format(
    input: &InputFlags,
    columns: &ColumnFlags,
    inputs: &[PathBuf],
) -> Result<(), String> {
    let of_csv = [
        ("--delimiter", input.delimiter.is_some()),
        ("--tsv", input.tsv),
        ("--quote", input.quote.is_some()),
        ("--escape", input.escape.is_some()),
        ("--no-header", input.no_header),
        ("--columns", input.columns.is_some()),
        ("--ragged", input.ragged.is_some()),
        ("--trim", input.trim),
        ("--skip-lines", input.skip_lines > 0),
        ("--comment", input.comment.is_some()),
        ("--null", !input.null.is_empty()),
        ("--empty-null", input.empty_null),
        ("--exact", columns.exact),
    ];
    if let Some(FormatFlag::Pgtext | FormatFlag::Mysqltext) = input.format {
        return check_database_text(input);
    }
    let Some((name, _)) = of_csv.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    match input.format {
        Some(FormatFlag::Json) => Err(format!("{name} is for CSV, and --format says json")),
        Some(FormatFlag::Tsv) if *name == "--delimiter" => {
            Err("--delimiter and --format tsv contradict; say --format csv".to_owned())
        }
        Some(_) => Ok(()),
        None => match inputs.iter().find(|input| is_other_than_csv(input)) {
            Some(other) => Err(format!(
                "{name} is for CSV, and {} seems to be none; if it is, add --format csv",
                path_text(other)
            )),
            None => Ok(()),
        },
    }
}

/// The text formats of databases say how text is escaped, and have neither quotes nor comments.
fn check_database_text(input: &InputFlags) -> Result<(), String> {
    let given = [
        ("--quote", input.quote.is_some()),
        ("--escape", input.escape.is_some()),
        ("--comment", input.comment.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(format!(
            "{name} is for CSV: --format pgtext and mysqltext say how their text is written"
        )),
        None => Ok(()),
    }
}

fn check_types(columns: &ColumnFlags) -> Result<(), String> {
    let types = &columns.types;
    for (index, (column, named_type)) in types.iter().enumerate() {
        let before = types[..index].iter().find(|(other, _)| other == column);
        if before.is_some_and(|(_, other)| other != named_type) {
            return Err(format!("--type names two types for the column '{column}'"));
        }
    }
    Ok(())
}

fn check_renames(columns: &ColumnFlags) -> Result<(), String> {
    let renames = &columns.rename;
    for (index, (old, new)) in renames.iter().enumerate() {
        if renames[..index].iter().any(|(other, name)| other == old && name != new) {
            return Err(format!("--rename gives the column '{old}' two names"));
        }
    }
    Ok(())
}

/// Finds flags for rejects that have no meaning.
///
/// # Errors
/// The contradiction, in words.
fn check_bad_rows(flags: &BadRowFlags) -> Result<(), String> {
    if flags.rejects.as_deref().is_some_and(is_stdin) {
        return Err("--rejects - names no file: rejects go to a file, with a log beside it, and \
                    stdout is for the report; for a file of that name, say ./-"
            .to_owned());
    }
    if flags.on_error == OnErrorFlag::Skip {
        return Ok(());
    }
    let given =
        [("--rejects", flags.rejects.is_some()), ("--max-rejects", flags.max_rejects.is_some())];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(format!(
            "{name} is for bad rows that are skipped, and the load stops at the first one: add \
             --on-error skip"
        )),
        None => Ok(()),
    }
}
