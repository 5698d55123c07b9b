//! A cluster of rqlite in place of a database: a file is pressed, and the cluster gets the file or its rows.
//! The command and Python load so.
//!
//! Must never: choose the way of the rows without a note that says which and why.

use std::path::Path;
use std::time::Instant;

use leafpress::load::{IntoTable, Report, log_of_rejects, notes_of_triggers};
use leafpress::{Error, ErrorKind};
use leafpress_rqlite::load::{Destination, Mode, OnProgress, Way};
use leafpress_rqlite::{Address, boot};

use super::both::{Later, Outcome};
use crate::cluster::shown;
use crate::human;

/// A load into a cluster.
pub struct ClusterLoad<'a> {
    /// The cluster.
    pub url: &'a str,
    /// The name of the table, if it can be told before the work.
    pub table: Option<String>,
    /// The way into a table that is there.
    pub into: Option<IntoTable>,
    /// True if `into` makes a table that is missing.
    pub makes_missing: bool,
    /// True if the planner's statistics are wanted.
    pub analyze: bool,
    /// The folder for the pressed file; `None` for the system's.
    pub tmpdir: Option<&'a Path>,
    /// The file of rejected rows.
    pub rejects: Option<&'a Path>,
}

impl ClusterLoad<'_> {
    /// Does the work for a temporary file, by the declaration of a table that is there, and gives
    /// the file or its rows to the cluster, unless it was a dry run. `check` loads no row into a
    /// copy of that table, and so tells which options contradict it.
    ///
    /// # Errors
    /// Those of the work: then nothing was sent; those of the cluster, which say what it has then.
    pub fn run(
        &self,
        check: impl FnOnce(&Path, &str) -> Result<(), Error>,
        work: impl FnOnce(&Path, Later) -> Result<Outcome, Error>,
        on_progress: OnProgress<'_>,
    ) -> Result<Outcome, Error> {
        let address: Address = self.url.parse()?;
        let table = self.table.as_deref();
        let mode = self.into.and_then(mode);
        let to = Destination::look(&address, table, mode, self.makes_missing)?;
        let parent = self.tmpdir.map_or_else(std::env::temp_dir, Path::to_owned);
        let failed = |source| Error::io("make a folder in", &parent, source);
        #[expect(clippy::disallowed_methods, reason = "the folder is its owner's alone")]
        let folder =
            tempfile::Builder::new().prefix("leafpress-").tempdir_in(&parent).map_err(failed)?;
        let (file, copy) = (folder.path().join("pressed.db"), folder.path().join("there.db"));
        if let (true, Some(table)) = (to.write_table(&copy)?, table) {
            check(&copy, table)?;
        }
        let declaration = to.declaration().map(str::to_owned);
        let mut outcome = work(&file, Later { declaration, database: to.database() })?;
        match &mut outcome {
            Outcome::Loaded(report) => {
                let began = Instant::now();
                let sent = match to.way() {
                    Way::Boot => send_file(&address, &file, report),
                    Way::Groups(why) => self.send(&to, &file, report, why, on_progress),
                    _ => Err(Error::bug("an unknown way into a cluster")),
                };
                sent.inspect_err(|error| self.remove_rejects(error))?;
                report.elapsed += began.elapsed();
                report.database = shown(self.url).into();
            }
            Outcome::Dry(dry) => {
                let notes = notes_of_triggers(&dry.table, to.triggers(), 0, true);
                dry.notes.extend(notes);
            }
        }
        Ok(outcome)
    }

    /// Removes the files of rejected rows after a load that failed, as the load of a file does.
    fn remove_rejects(&self, error: &Error) {
        let is_known = !matches!(error.kind(), ErrorKind::OutcomeUnknown { .. });
        for file in self.rejects.iter().filter(|_| is_known) {
            let _ = std::fs::remove_file(file);
            let _ = std::fs::remove_file(log_of_rejects(file));
        }
    }

    fn send(
        &self,
        to: &Destination,
        file: &Path,
        report: &mut Report,
        why: &str,
        on_progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        let sent =
            to.load(file, &report.table, &report.given_columns, self.analyze, on_progress)?;
        report.notes.push(format!(
            "{why}: so the rows went in {} of {} to a staging table, and became visible in one last \
             transaction, which took {}",
            human::counted(sent.groups, "group", "groups"),
            human::bytes(sent.bytes),
            human::duration(sent.last)
        ));
        if to.declaration().is_some() {
            report.rows_ignored += sent.rows - sent.rows_changed;
            report.rows_loaded = sent.rows_changed;
            report.path = String::from("SQL: INSERT … SELECT of pressed rows, one transaction");
        }
        let adds = matches!(self.into, Some(IntoTable::Append | IntoTable::Replace));
        let passed_over = if adds { sent.rows - sent.rows_changed } else { 0 };
        let triggers = notes_of_triggers(&report.table, to.triggers(), passed_over, false);
        report.notes.extend(triggers);
        if sent.rows_removed > 0 {
            let rows = human::counted(sent.rows_removed, "row that was", "rows that were");
            report.notes.push(format!("the {rows} there went"));
        }
        if sent.left_over > 0 {
            let tables = human::counted(sent.left_over, "staging table", "staging tables");
            report.notes.push(format!("{tables} of loads that were cut off went"));
        }
        Ok(())
    }
}

fn send_file(address: &Address, file: &Path, report: &mut Report) -> Result<(), Error> {
    let booted = boot(address, file)?;
    report.notes.push(format!(
        "the node is new and alone, so it took the file whole, {} by /boot, and counts {} rows; \
         let other nodes join it now",
        human::bytes(booted.bytes),
        booted.tables.iter().map(|(_, rows)| rows).sum::<u64>()
    ));
    Ok(())
}

fn mode(into: IntoTable) -> Option<Mode> {
    match into {
        IntoTable::Append => Some(Mode::Append),
        IntoTable::Replace => Some(Mode::Replace),
        IntoTable::Ignore => Some(Mode::Ignore),
        IntoTable::Upsert => Some(Mode::Upsert),
        _ => None,
    }
}
