//! A cluster of rqlite in place of a database: a file is pressed, and the cluster gets the file or its rows.
//!
//! Must never: choose the way of the rows without a note that says which and why.

use std::path::{Path, PathBuf};

use leafpress::Error;
use leafpress::load::CancelToken;

use super::both::Outcome;
use crate::flags::LoadFlags;
use crate::progress::LoadBar;

/// A load into a cluster.
#[cfg_attr(not(feature = "rqlite"), expect(dead_code, reason = "this build reaches no cluster"))]
pub struct Load<'a> {
    pub url: &'a str,
    pub flags: &'a LoadFlags,
    pub inputs: &'a [PathBuf],
    pub token: &'a CancelToken,
    pub bar: &'a LoadBar,
}

/// Facts about the place that the rows of a pressed file go to later, for its loader.
#[derive(Default)]
pub struct Later {
    /// A table that is there, without its keys.
    pub declaration: Option<String>,
    /// For a new table of a database that is there: the size of its pages, and names that are taken.
    pub database: Option<(u32, Vec<String>)>,
}

#[cfg(feature = "rqlite")]
mod with_rqlite {
    use std::time::Instant;

    use leafpress::ErrorKind;
    use leafpress::load::{IntoTable, Report, log_of_rejects, notes_of_triggers};
    use leafpress_rqlite::load::{Destination, Mode, Progress, Way};
    use leafpress_rqlite::{Address, boot};

    use super::{CancelToken, Error, Later, Load, Outcome, Path};
    use crate::cluster::shown;
    use crate::commands::load::both::{is_silent, makes_missing};
    use crate::commands::load::check::is_table;
    use crate::human;
    use crate::loading::is_stdin;

    impl Load<'_> {
        /// Does the work for a temporary file, by the declaration of a table that is there, and gives
        /// the file or its rows to the cluster, unless it was a dry run. `check` loads no row into a
        /// copy of that table, and so tells which flags contradict it.
        ///
        /// # Errors
        /// Those of the work: then nothing was sent; those of the cluster, which say what it has then.
        pub fn run(
            &self,
            check: impl FnOnce(&Path, &str) -> Result<(), Error>,
            work: impl FnOnce(&Path, Later) -> Result<Outcome, Error>,
        ) -> Result<Outcome, Error> {
            let address: Address = self.url.parse()?;
            let way = self.flags.existing.way().map(|(into, _)| into);
            let table = self.table_name()?;
            let makes_missing = way.is_some_and(|into| makes_missing(self.flags, into));
            let to =
                Destination::look(&address, table.as_deref(), way.and_then(mode), makes_missing)?;
            let parent = self.flags.run.tmpdir.clone().unwrap_or_else(std::env::temp_dir);
            let failed = |source| Error::io("make a folder in", &parent, source);
            #[expect(clippy::disallowed_methods, reason = "the folder is its owner's alone")]
            let folder = tempfile::Builder::new()
                .prefix("leafpress-")
                .tempdir_in(&parent)
                .map_err(failed)?;
            let (file, copy) = (folder.path().join("pressed.db"), folder.path().join("there.db"));
            if let (true, Some(table)) = (to.write_table(&copy)?, &table) {
                check(&copy, table)?;
            }
            let declaration = to.declaration().map(str::to_owned);
            let mut outcome = work(&file, Later { declaration, database: to.database() })?;
            match &mut outcome {
                Outcome::Loaded(report) => {
                    let began = Instant::now();
                    let sent = match to.way() {
                        Way::Boot => send_file(&address, &file, report),
                        Way::Groups(why) => self.send(&to, &file, report, why),
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
            for file in self.flags.bad_rows.rejects.iter().filter(|_| is_known) {
                let _ = std::fs::remove_file(file);
                let _ = std::fs::remove_file(log_of_rejects(file));
            }
        }

        /// The name of the table, if it can be told before the work.
        fn table_name(&self) -> Result<Option<String>, Error> {
            let table = &self.flags.table;
            match (&table.table, self.inputs.first()) {
                (Some(name), _) => Ok(Some(name.clone())),
                _ if table.create.is_some() || table.schema.is_some() => Ok(None),
                (None, Some(input)) if is_stdin(input) => Ok(Some("stdin".to_owned())),
                (None, Some(input)) if !is_table(input) => {
                    let name = leafpress::path_text(input);
                    leafpress::Loader::new("").table_name_for(&name).map(Some)
                }
                _ => Ok(None),
            }
        }

        fn send(
            &self,
            to: &Destination,
            file: &Path,
            report: &mut Report,
            why: &str,
        ) -> Result<(), Error> {
            let token: &CancelToken = self.token;
            let mut on_progress = |progress: Progress<'_>| {
                match progress {
                    Progress::Sent(rows, all) => self.bar.send(rows, all, is_silent(self.flags)),
                    Progress::Waiting(wait) => {
                        self.bar.wait(&wait, is_silent(self.flags), self.flags.run.quiet);
                    }
                    _ => {}
                }
                if token.is_cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
            };
            let analyze = self.flags.keys.analyze;
            let sent =
                to.load(file, &report.table, &report.given_columns, analyze, &mut on_progress)?;
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
            let adds = self.flags.existing.append || self.flags.existing.replace;
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
}

#[cfg(not(feature = "rqlite"))]
impl Load<'_> {
    /// Says that this build knows no clusters.
    ///
    /// # Errors
    /// Always.
    pub fn run(
        &self,
        _: impl FnOnce(&Path, &str) -> Result<(), Error>,
        _: impl FnOnce(&Path, Later) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        Err(crate::cluster::unreachable(self.url))
    }
}
