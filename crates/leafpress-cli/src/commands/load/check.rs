//! Flags that contradict one another, and inputs that cannot be meant.
//!
//! Must never: open a file. What only reading can tell is the library's to say.

use std::path::{Path, PathBuf};

use crate::cluster::url_of;
use crate::flags::LoadFlags;
use crate::loading::check::check_reading;
use crate::loading::is_stdin;
use leafpress::load::endings;
use leafpress::path_text;
use leafpress::vfs::paths::companion_of;
use leafpress::vfs::text::shell_word;

/// Finds what contradicts. `inputs` are those of the flags, with patterns expanded.
///
/// # Errors
/// The contradiction, in words.
pub fn check(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<(), String> {
    check_cluster(flags, inputs)?;
    check_files(flags, inputs)?;
    check_reading(&flags.input, &flags.columns, &flags.bad_rows, inputs)?;
    check_declaration(flags)?;
    check_conflicts(flags)
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
            "the table of a database to load into has a flag: leafpress load {} … --table {}",
            shell_word(name),
            shell_word(table)
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
        let [first, second] = [database, other].map(|path| shell_word(&path_text(path)));
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
