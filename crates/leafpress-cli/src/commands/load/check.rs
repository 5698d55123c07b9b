//! Flags that contradict one another, and inputs that cannot be meant.
//!
//! Must never: open a file. What only reading can tell is the library's to say.

use std::path::{Path, PathBuf};

use crate::cluster::url_of;
use crate::flags::{FormatFlag, InputFlags, LoadFlags};
use crate::loading::{check_bad_rows, is_stdin};
use leafpress::load::endings;
use leafpress::path_text;
use leafpress::vfs::paths::companion_of;

/// Finds what contradicts. `inputs` are those of the flags, with patterns expanded.
///
/// # Errors
/// The contradiction, in words.
pub fn check(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<(), String> {
    check_cluster(flags, inputs)?;
    check_files(flags, inputs)?;
    check_bytes(flags)?;
    check_format(flags, inputs)?;
    check_types(flags)?;
    check_renames(flags)?;
    check_declaration(flags)?;
    check_conflicts(flags)?;
    check_bad_rows(&flags.bad_rows)
}

/// Rows for a table of a cluster get into a file first, in which that table has no row.
fn check_cluster(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<(), String> {
    let (Some(_), Some((_, way))) = (url_of(&flags.database), flags.existing.way()) else {
        return Ok(());
    };
    if flags.keys.on_conflict.is_some() {
        return Err(format!(
            "--on-conflict with {way} is for a database in a file: on a cluster {way} alone decides about \
             rows that share a key"
        ));
    }
    let is_named = flags.table.table.is_some();
    let needs_name = flags.table.create.is_some() || flags.table.schema.is_some();
    if !is_named && (needs_name || inputs.iter().any(|input| is_table(input))) {
        return Err(format!("{way} needs the name of the table of the cluster: add --table"));
    }
    Ok(())
}

fn check_files(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<(), String> {
    let database = &flags.database;
    if is_stdin(database) {
        return Err("the database must be a file; '-' is for the input".to_owned());
    }
    if let Some((name, table)) = database_and_table(database) {
        return Err(format!(
            "the table of a database to load into has a flag: leafpress load {name} … --table {table}"
        ));
    }
    if inputs.len() > 1 && inputs.iter().any(|input| is_stdin(input)) {
        return Err("'-' is standard input, which is loaded by itself".to_owned());
    }
    // The ending of an input is a hint that DB and INPUT are swapped.
    let is_named_input = |path: &Path| path.to_str().is_some_and(endings::is_input);
    let is_input = |path: &Path| is_named_input(path) || is_stdin(path);
    if is_named_input(database)
        && let Some(other) = inputs.iter().find(|input| !is_input(input) && !is_table(input))
    {
        let (first, second) = (path_text(database), path_text(other));
        return Err(format!(
            "the database comes first, then the input: leafpress load {second} {first}"
        ));
    }
    if inputs.contains(database) {
        let name = path_text(database);
        return Err(format!("the database and the input are the same file, {name}"));
    }
    let Some(rejects) = &flags.bad_rows.rejects else { return Ok(()) };
    let companions = ["-journal", "-wal", "-shm"].map(|suffix| companion_of(database, suffix));
    let overwritten = if rejects == database {
        "the database"
    } else if companions.contains(rejects) {
        "a file of the database"
    } else if inputs.contains(rejects) {
        "the input"
    } else {
        return Ok(());
    };
    Err(format!("--rejects {} would overwrite {overwritten}", path_text(rejects)))
}

/// Returns true if an input is a table of another database.
pub fn is_table(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("::"))
}

/// The parts of a DB such as `app.db::table`, the form of an input, unless it is the name of a file.
fn database_and_table(path: &Path) -> Option<(&str, &str)> {
    if url_of(path).is_some() || path.symlink_metadata().is_ok() {
        return None;
    }
    let (database, table) = path.to_str()?.rsplit_once("::")?;
    let is_in_a_folder = table.contains(std::path::is_separator);
    (!database.is_empty() && !table.is_empty() && !is_in_a_folder).then_some((database, table))
}

fn check_bytes(flags: &LoadFlags) -> Result<(), String> {
    let input = &flags.input;
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
fn check_format(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<(), String> {
    let input = &flags.input;
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
        ("--exact", flags.columns.exact),
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

fn check_types(flags: &LoadFlags) -> Result<(), String> {
    let types = &flags.columns.types;
    for (index, (column, named_type)) in types.iter().enumerate() {
        let before = types[..index].iter().find(|(other, _)| other == column);
        if before.is_some_and(|(_, other)| other != named_type) {
            return Err(format!("--type names two types for the column '{column}'"));
        }
    }
    Ok(())
}

fn check_renames(flags: &LoadFlags) -> Result<(), String> {
    let renames = &flags.columns.rename;
    for (index, (old, new)) in renames.iter().enumerate() {
        if renames[..index].iter().any(|(other, name)| other == old && name != new) {
            return Err(format!("--rename gives the column '{old}' two names"));
        }
    }
    Ok(())
}

/// A table that is declared by hand is declared there and nowhere else.
fn check_declaration(flags: &LoadFlags) -> Result<(), String> {
    let by_hand = match (&flags.table.create, &flags.table.schema) {
        (Some(_), _) => "--create",
        (None, Some(_)) => "--schema",
        (None, None) => return Ok(()),
    };
    let (columns, keys) = (&flags.columns, &flags.keys);
    let given = [
        ("--strict", flags.table.strict),
        ("--pk", !keys.pk.is_empty()),
        ("--without-rowid", keys.without_rowid),
        ("--not-null", !columns.not_null.is_empty()),
        ("--all-text", columns.all_text),
        ("--exact", columns.exact),
    ];
    if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(format!(
            "{by_hand} declares the table: leave out {name} and say it in the SQL"
        ));
    }
    Ok(())
}

fn check_conflicts(flags: &LoadFlags) -> Result<(), String> {
    if flags.keys.on_conflict.is_none() {
        return Ok(());
    }
    match flags.existing.way() {
        Some((_, name @ ("--ignore" | "--upsert"))) => Err(format!(
            "{name} says what becomes of rows that share a key: leave out --on-conflict"
        )),
        _ => Ok(()),
    }
}
