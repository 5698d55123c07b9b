//! A cluster of rqlite in place of a database: a file is pressed, and the cluster gets the file or its rows.
//! The command and Python load so.
//!
//! Must never: choose the way of the rows without a note that says which and why.

use std::path::Path;
use std::time::Instant;

use leafpress::load::{
    CancelToken, InputFormat, IntoTable, Loader, Report, log_of_rejects, notes_of_triggers,
};
use leafpress::{Error, ErrorKind};
use leafpress_rqlite::load::{Destination, Mode, Progress, Way};
use leafpress_rqlite::{Address, boot};

use super::both::Outcome;
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
    /// Ends the load, unless its last transaction was sent.
    pub cancel: &'a CancelToken,
}

impl ClusterLoad<'_> {
    /// The name of the table, if it can be told before the work: the one that is given, or that of the first input,
    /// unless that is a table of a database or a declaration names it.
    ///
    /// # Errors
    /// The input's name gives none.
    pub fn table_name(
        given: Option<&str>,
        is_declared: bool,
        input: Option<&str>,
    ) -> Result<Option<String>, Error> {
        match (given, input) {
            (Some(name), _) => Ok(Some(name.to_owned())),
            (None, Some(input)) if !is_declared && !input.contains("::") => {
                Loader::new("").table_name_for(input).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Does the work for a temporary file, by the declaration of a table that is there, and gives
    /// the file or its rows to the cluster, unless it was a dry run.
    ///
    /// `make` makes the loader of a file by all options, or by those that are not about keys and rows that are there:
    /// keys meet the rows of the cluster. A copy of the table that is there tells which options contradict it.
    ///
    /// # Errors
    /// Those of the work: then nothing was sent; those of the cluster, which say what it has then.
    pub fn run(
        &self,
        make: impl Fn(&Path, bool) -> Result<Loader, Error>,
        work: impl FnOnce(Loader) -> Result<Outcome, Error>,
        tell: &mut dyn FnMut(Progress<'_>),
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
            let loader = make(&copy, true)?.table(table).format(InputFormat::Json);
            loader.dry_run_reader("no.json", std::io::empty())?;
        }
        let mut outcome = work(self.loader(&to, &file, make)?)?;
        match &mut outcome {
            Outcome::Loaded(report) => {
                let began = Instant::now();
                let sent = match to.way() {
                    Way::Boot => send_file(&address, &file, report),
                    Way::Groups(why) => self.send(&to, &file, report, why, tell),
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

    /// The loader of the file that is pressed.
    fn loader(
        &self,
        to: &Destination,
        file: &Path,
        make: impl Fn(&Path, bool) -> Result<Loader, Error>,
    ) -> Result<Loader, Error> {
        let mut loader = make(file, to.declaration().is_none())?.bound_for(shown(self.url));
        if let Some((page_bytes, names)) = to.database() {
            loader = loader.later_database(page_bytes, names);
        }
        if let Some(sql) = to.declaration() {
            loader = loader.declaration(sql);
            if self.into == Some(IntoTable::Upsert) {
                loader = loader.later_upsert();
            }
        }
        Ok(loader)
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
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Error> {
        let mut on_progress = |progress: Progress<'_>| {
            tell(progress);
            if self.cancel.is_cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
        };
        let (columns, analyze) = (&report.given_columns, self.analyze);
        let sent = to.load(file, &report.table, columns, analyze, &mut on_progress)?;
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
