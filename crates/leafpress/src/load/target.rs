//! Where the rows go: a new database, a new table in an existing one, or an
//! existing table.
//!
//! Whichever it is, the rows are first built into a hidden file beside it.

use std::time::Duration;

use leafpress_format::PageLayout;

use super::Loader;
use super::monitor::Monitor;
use super::plan::declared_table;
use super::publish::{Destination, refuse_if_taken};
use crate::error::{Error, Result};
use crate::schema::shape::TableShape;

/// The destination of a load.
pub struct Target {
    table: String,
    /// As it was declared by hand.
    declared: Option<TableShape>,
}

/// What publishing changed.
#[derive(Debug, Default)]
pub struct Published {
    /// Where they are not those of the built file.
    pub rows: Option<u64>,
    pub rows_ignored: u64,
    pub bytes: Option<u64>,
    pub pages: Option<u64>,
    pub path: Option<String>,
    pub notes: Vec<String>,
    pub elapsed: Duration,
}

impl Target {
    /// Looks at the destination, before any work is done.
    pub fn open(loader: &Loader, table: &str) -> Result<Self> {
        refuse_if_taken(&loader.database)?;
        Self::look(loader, table)
    }

    /// The same for a dry run, which a destination that is there does not stop.
    pub fn look(loader: &Loader, table: &str) -> Result<Self> {
        let declared =
            loader.declaration.as_deref().map(|sql| declared_table(loader, sql)).transpose()?;
        let table = declared.as_ref().map_or(table, |shape| &shape.name).to_owned();
        Ok(Self { table, declared })
    }

    /// The hidden file that is built.
    pub fn stage(&self, loader: &Loader) -> Result<Destination> {
        Destination::create(&loader.database)
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    /// The table to be built, if its declaration is there already.
    pub fn declared(&self) -> Option<&TableShape> {
        self.declared.as_ref()
    }

    /// Whether the built file is to be the database.
    pub fn is_new(&self) -> bool {
        true
    }

    /// The layout of the pages.
    pub fn layout(&self, loader: &Loader) -> Result<PageLayout> {
        PageLayout::new(loader.page_bytes).map_err(|error| Error::usage(error.to_string()))
    }

    /// Whether rows with the same key all go on, as the table they go to decides.
    pub fn keeps_repeats(&self) -> bool {
        false
    }

    /// The declaration of the table that the rows go to, if it is not the built one.
    pub fn create_sql(&self) -> Option<String> {
        None
    }

    /// Brings the built file to its place.
    pub fn publish(
        &self,
        _loader: &Loader,
        staged: Destination,
        _given: &[String],
        _monitor: &Monitor,
    ) -> Result<Published> {
        staged.publish()?;
        Ok(Published::default())
    }
}
