//! Rows into a running cluster, all or none.
//!
//! ```text
//! pressed file ─► rows ─► groups, each applied once ─► a staging table ─► one last transaction
//! ```
//!
//! The last transaction renames the staging table, or inserts its rows into a table that is there and
//! drops it. No row travels in it, so it is a small entry of the log whatever the size of the table.
//!
//! Invariants:
//! 1. Until the last transaction only the staging table has changed: after an error, a kill or a
//!    lost connection the tables of the user are as they were.
//! 2. A staging table is dropped by its own load after an error, or by a later load once its load has
//!    sent nothing for 15 minutes (`KEPT`), or 35 after it began with an index or the last transaction.
//!
//! Must never: drop a staging table whose load may be going on, or change a value on its way.

mod pressed;
mod rows;

use std::path::Path;
use std::time::{Duration, Instant};

use leafpress::{Error, ErrorKind, Result, quote_identifier};
use serde_json::Value;

use self::pressed::{PressedTable, open};
use crate::address::Address;
use crate::answer::not_taken;
use crate::boot::TABLES;
pub use crate::declared::Mode;
use crate::declared::{Declared, REFERRING, SCHEMA};
use crate::limits::KEPT;
use crate::node::{Node, Peer};
use crate::statement::{OWN, Prepared, is_own_name};
use crate::target::RqliteTarget;
pub use crate::target::Wait;

/// The beginning of the name of a staging table; the session of the load follows.
const STAGE: &str = "_leafpress_load_";
/// Nodes need longer for an index, and for the last transaction, than for a group of rows. The rows of
/// such groups stay longer too.
const LAST_MAX: Duration = Duration::from_secs(30 * 60);

/// Time for which a load that failed tries to drop its staging table: a later load does so too.
const DROP_MAX: Duration = Duration::from_secs(5);

/// Progress of a load.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Rows that were sent, and all rows.
    Sent(u64, u64),
    /// The cluster does not answer.
    Waiting(Wait<'a>),
}

/// Told of the progress of a load; an error ends it, unless its last transaction was sent.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress<'_>) -> Result<()>;

/// A table of a cluster, to be loaded.
#[derive(Debug)]
pub struct Destination {
    address: Address,
    mode: Option<Mode>,
    declared: Option<Declared>,
    /// Size of the cluster's pages, and names of its tables, indexes and views.
    database: (u32, Vec<String>),
    way: Way,
}

/// The way of the rows, chosen by the state of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// The pressed file becomes the database of a node that is new and alone: see [`boot`](crate::boot()).
    Boot,
    /// Groups of rows go into a staging table, for this reason.
    Groups(String),
}

/// Result of [`Destination::load`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Rows that were sent.
    pub rows: u64,
    /// Rows of the table that were added or changed.
    pub rows_changed: u64,
    /// Rows that were there, and that `Replace` removed.
    pub rows_removed: u64,
    /// Groups in which the rows went.
    pub groups: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Duration of the last transaction.
    pub last: Duration,
    /// Staging tables of loads that were cut off, now dropped.
    pub left_over: u64,
}

impl Destination {
    /// Looks at the cluster, and chooses the way. `table` must be named for a `mode`; `makes_missing`
    /// says that it is made if it is not there.
    ///
    /// # Errors
    /// No node answers, or the table is not there, or is one that cannot be loaded by groups. Nothing was
    /// changed.
    pub fn look(
        address: &Address,
        table: Option<&str>,
        mode: Option<Mode>,
        makes_missing: bool,
    ) -> Result<Self> {
        table.map_or(Ok(()), refuse_own)?;
        let nodes = nodes_of(address)?;
        let mut target = RqliteTarget::new(address.clone());
        let tables = target.read(TABLES, &[])?;
        let database = (page_bytes(&mut target)?, names(&mut target)?);
        let declared = match (table, mode) {
            (Some(table), Some(mode)) => {
                let schema = target.read(SCHEMA, &[table])?;
                let referring = target.read(REFERRING, &[table])?;
                Declared::read(table, mode, &schema, &referring)?
            }
            _ => None,
        };
        if let (None, Some(table), Some(_), false) = (&declared, table, mode, makes_missing) {
            return Err(Error::destination(
                &address.nodes[0],
                format!("there is no table {table}"),
            )
            .on_disk("nothing was changed")
            .to_do("name a table that is there"));
        }
        if let (Some(table), None) = (table, mode) {
            refuse_existing(&mut target, address, table)?;
        }
        let is_lone = nodes.len() == 1 && nodes[0].leads && address.nodes.len() == 1;
        let way = if tables.is_empty() && is_lone {
            Way::Boot
        } else if !tables.is_empty() {
            Way::Groups("the cluster has tables, which a file would replace".to_owned())
        } else {
            let count = nodes.len().max(address.nodes.len());
            Way::Groups(format!("the cluster has {count} nodes, and only a lone one takes a file"))
        };
        Ok(Self {
            address: address.clone(),
            mode: mode.filter(|_| declared.is_some()),
            declared,
            database,
            way,
        })
    }

    /// The way that the rows take.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// For a table that is there, the declaration of a table of its columns without its keys: the file is
    /// pressed with it, so that values are checked, and keys meet the rows that are there.
    pub fn declaration(&self) -> Option<&str> {
        self.declared.as_ref().map(|it| it.staging_sql.as_str())
    }

    /// For a new table of a cluster that keeps its database, the size of its pages, and the names that no index
    /// of the table can have.
    pub fn database(&self) -> Option<(u32, Vec<String>)> {
        let makes_table = self.way != Way::Boot && self.declared.is_none();
        makes_table.then(|| self.database.clone())
    }

    /// The triggers of a table that is there.
    pub fn triggers(&self) -> &[String] {
        self.declared.as_ref().map_or(&[], |it| &it.triggers)
    }

    /// Makes the table that is there in a new file, without rows; false if it is not there. A load into it tells
    /// whether the options contradict the table.
    ///
    /// # Errors
    /// SQLite's.
    pub fn write_table(&self, file: &Path) -> Result<bool> {
        self.declared.as_ref().map_or(Ok(false), |it| it.write(file).map(|()| true))
    }

    /// Sends the rows of `table` in the file `pressed`, which this changes. Of a table that is there,
    /// `columns` are those that the rows have. `analyze` fills the planner's statistics.
    ///
    /// # Errors
    /// Those of SQLite on the cluster, such as a key that is there; no node answers; `on_progress` ends the
    /// load: then the tables are as they were. [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown) if the
    /// last transaction was not answered.
    pub fn load(
        &self,
        pressed: &Path,
        table: &str,
        columns: &[String],
        analyze: bool,
        on_progress: OnProgress<'_>,
    ) -> Result<Sent> {
        refuse_own(table)?;
        let mut target = RqliteTarget::new(self.address.clone());
        let stage = format!("{STAGE}{}", target.session()?);
        let connection = open(pressed)?;
        let source =
            PressedTable::prepare(&connection, table, &stage, columns, self.declared.is_some())?;
        match self.declared.as_ref().zip(self.mode) {
            Some((declared, mode)) => declared.check_columns(mode, &source.columns)?,
            None => refuse_existing(&mut target, &self.address, table)?,
        }
        let left_over = drop_left_over(&mut target)?;
        let into = self.declared.as_ref().zip(self.mode);
        let mut load = Load { target, stage, source: &source, table, into, on_progress };
        let sent = match load.send(pressed) {
            Ok(sent) => sent,
            Err(error) => {
                // A group that may arrive later finds no table.
                let error = match error.kind() {
                    ErrorKind::OutcomeUnknown { reason, .. } => not_taken(reason),
                    _ => error,
                };
                return Err(load.give_up(error));
            }
        };
        let (last, counts) = load.last(analyze).map_err(|error| load.give_up(error))?;
        Ok(Sent { left_over, ..counts.into_sent(&sent, last) })
    }
}

/// Size of the pages of the cluster's database.
fn page_bytes(target: &mut RqliteTarget) -> Result<u32> {
    let rows = target.read("SELECT page_size FROM pragma_page_size", &[])?;
    let bytes = rows.first().and_then(|row| u32::try_from(row.get(0)?.as_u64()?).ok());
    bytes.ok_or_else(|| not_taken("the size of its pages cannot be read"))
}

/// Names of the cluster's tables, indexes and views, which no other can have.
fn names(target: &mut RqliteTarget) -> Result<Vec<String>> {
    let rows = target.read("SELECT name FROM sqlite_schema WHERE type <> 'trigger'", &[])?;
    Ok(rows.iter().filter_map(|row| Some(row.get(0)?.as_str()?.to_owned())).collect())
}

/// Refuses to make a table whose name is taken.
fn refuse_existing(target: &mut RqliteTarget, address: &Address, table: &str) -> Result<()> {
    let named = "SELECT type FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE";
    let found = target.read(named, &[table])?;
    let Some(kind) = found.first().and_then(|row| row.get(0)?.as_str()) else { return Ok(()) };
    let to_do = if kind == "table" {
        "name another table with ⟦table⟧, or load into it with ⟦append⟧, ⟦ignore⟧, ⟦upsert⟧ or ⟦replace⟧"
    } else {
        "name another table with ⟦table⟧"
    };
    Err(Error::destination(&address.nodes[0], format!("there is a {kind} {table} already"))
        .on_disk("nothing was changed")
        .to_do(to_do))
}

/// Refuses a name of Leafpress's own tables, of which later loads drop some.
fn refuse_own(table: &str) -> Result<()> {
    if !is_own_name(table) {
        return Ok(());
    }
    let reason =
        format!("tables whose names begin with {OWN} belong to Leafpress, and {table} is one");
    Err(Error::misuse(reason)
        .on_disk("nothing was changed")
        .to_do("name another table with ⟦table⟧"))
}

/// The nodes of the cluster, as the first node that answers sees them.
fn nodes_of(address: &Address) -> Result<Vec<Peer>> {
    let mut last = None;
    for url in &address.nodes {
        match Node::new(address, url).nodes() {
            Ok(nodes) => return Ok(nodes),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::bug("an address without nodes")))
}

/// Drops staging tables whose loads have sent no group for [`KEPT`].
fn drop_left_over(target: &mut RqliteTarget) -> Result<u64> {
    let has_groups = "SELECT 1 FROM sqlite_schema WHERE name = '_leafpress_applied'";
    if target.read(has_groups, &[])?.is_empty() {
        // A load that begins now could have its staging table before the next query, and no row yet.
        return Ok(0);
    }
    // The clock is the leader's, as that of the rows.
    let sql = format!(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, {}) = '{STAGE}' \
         AND NOT EXISTS (SELECT 1 FROM _leafpress_applied WHERE \
         session = substr(name, {}) AND at > unixepoch('subsec') - {})",
        STAGE.len(),
        STAGE.len() + 1,
        KEPT.as_secs()
    );
    let names = target.read(&sql, &[])?;
    let names: Vec<&str> = names.iter().filter_map(|row| row.get(0)?.as_str()).collect();
    for name in &names {
        let drop = format!("DROP TABLE IF EXISTS {}", quote_identifier(name));
        target.apply_once(vec![own(&drop)], &mut |_| true)?;
    }
    Ok(names.len() as u64)
}

/// A statement of Leafpress itself, whose rows are counted if it begins with INSERT or DELETE.
fn own(sql: &str) -> Prepared {
    let is_counted = sql.starts_with("INSERT") || sql.starts_with("DELETE");
    Prepared::own(Value::from(sql).to_string(), is_counted)
}

/// One load, from its first group to its last.
struct Load<'a> {
    target: RqliteTarget,
    stage: String,
    source: &'a PressedTable,
    table: &'a str,
    /// The table that is there, if the rows go into one.
    into: Option<(&'a Declared, Mode)>,
    on_progress: OnProgress<'a>,
}

/// Counts of rows in the last transaction.
#[derive(Default)]
struct Last {
    changed: Option<u64>,
    removed: u64,
}

impl Last {
    fn into_sent(self, sent: &Sent, last: Duration) -> Sent {
        let rows_changed = self.changed.unwrap_or(sent.rows);
        Sent { rows_changed, rows_removed: self.removed, last, ..sent.clone() }
    }
}

impl Load<'_> {
    /// Makes the staging table, fills it and makes its indexes.
    fn send(&mut self, pressed: &Path) -> Result<Sent> {
        self.apply(vec![own(&self.source.create)])?;
        let mut sent = Sent {
            rows: 0,
            rows_changed: 0,
            rows_removed: 0,
            groups: 0,
            bytes: 0,
            last: Duration::ZERO,
            left_over: 0,
        };
        self.show(&sent)?;
        let (stage, source) = (self.stage.clone(), self.source);
        rows::each_group(pressed, &stage, &source.columns, |group| {
            sent.rows += group.rows;
            sent.groups += 1;
            sent.bytes += group.bytes() as u64;
            self.apply(group.statements)?;
            self.show(&sent)
        })?;
        if sent.rows != self.source.rows {
            return Err(Error::bug("the number of rows of the pressed table changed"));
        }
        self.target.set_time_limit(LAST_MAX);
        for sql in &source.indexes {
            self.show_life()?;
            self.apply(vec![own(sql)])?;
            self.show(&sent)?;
        }
        self.show_life()?;
        Ok(sent)
    }

    /// Applies a group without calls, whose row tells other loads for [`LAST_MAX`] and more that this one goes on.
    fn show_life(&mut self) -> Result<()> {
        self.apply(Vec::new())
    }

    fn show(&mut self, sent: &Sent) -> Result<()> {
        (self.on_progress)(Progress::Sent(sent.rows, self.source.rows))
    }

    /// Applies a group before the last one. Its wait for the cluster can be ended: only the staging table would
    /// change yet.
    fn apply(&mut self, statements: Vec<Prepared>) -> Result<()> {
        let mut ended = None;
        let mut on_wait = |wait: Wait<'_>| {
            ended = (self.on_progress)(Progress::Waiting(wait)).err();
            ended.is_none()
        };
        let applied = self.target.apply_once(statements, &mut on_wait).map(drop);
        ended.map_or(applied, Err)
    }

    /// The last transaction: the staging table becomes the table, or its rows go into it.
    fn last(&mut self, analyze: bool) -> Result<(Duration, Last)> {
        let began = Instant::now();
        let (into, source) = (self.into, self.source);
        let (stage, table) = (quote_identifier(&self.stage), quote_identifier(self.table));
        let mut statements = Vec::new();
        if let Some((declared, mode)) = into {
            statements.extend(declared.inserts(mode, &stage, &source.columns));
            statements.push(format!("DROP TABLE {stage}"));
            if analyze {
                statements.push(format!("ANALYZE {table}"));
            }
        } else {
            statements.push(format!("ALTER TABLE {stage} RENAME TO {table}"));
            statements.extend(source.triggers.iter().cloned());
            statements.extend(self.statistics(source));
        }
        let own = statements
            .iter()
            .map(|sql| Prepared { is_counted: into.is_some() && own(sql).is_counted, ..own(sql) });
        // Nothing ends the wait for it: its outcome would be unknown.
        let on_wait = &mut |wait: Wait<'_>| {
            let _ = (self.on_progress)(Progress::Waiting(wait));
            true
        };
        let mut counts = self.target.apply_once(own.collect(), on_wait)?.into_iter();
        let mut last = Last::default();
        if let Some((_, mode)) = into {
            last.removed = if mode == Mode::Replace { counts.next().unwrap_or(0) } else { 0 };
            last.changed = Some(counts.sum());
        }
        Ok((began.elapsed(), last))
    }

    /// Statements that bring the planner's statistics of the pressed table along.
    fn statistics(&self, source: &PressedTable) -> Vec<String> {
        if source.statistics.is_empty() {
            return Vec::new();
        }
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let row = |(index, stat): &(Option<String>, String)| {
            let index = index.as_deref().map_or("NULL".to_owned(), text);
            format!("({},{index},{})", text(self.table), text(stat))
        };
        let rows: Vec<String> = source.statistics.iter().map(row).collect();
        // It makes the table of statistics, and reads no other one.
        let make = "ANALYZE sqlite_schema".to_owned();
        vec![make, format!("INSERT INTO sqlite_stat1(tbl,idx,stat) VALUES {}", rows.join(","))]
    }

    /// Drops the staging table after an error, and says in the error how the cluster is.
    fn give_up(&mut self, error: Error) -> Error {
        let error = match error.kind() {
            ErrorKind::Constraint { reason, .. } => self.told_of_key(reason),
            _ => error,
        };
        let drop = format!("DROP TABLE IF EXISTS {}", quote_identifier(&self.stage));
        self.target.set_time_limit(DROP_MAX);
        let dropped = self.target.apply_once(vec![own(&drop)], &mut |wait| {
            (self.on_progress)(Progress::Waiting(wait)).is_ok()
        });
        if let ErrorKind::OutcomeUnknown { reason, .. } = error.kind() {
            let table = self.table;
            return Error::uncertain(reason)
                .on_disk(format!("all rows of this load are in {table}, or none of them"))
                .to_do(format!(
                    "look whether the rows are in {table}, and load again if they are not"
                ));
        }
        let tables = "the tables of the cluster are as they were";
        error.on_disk_instead(if dropped.is_ok() {
            tables.to_owned()
        } else {
            format!(
                "{tables}; beside them there may be {}, with rows of this load: a load 35 minutes later drops it",
                self.stage
            )
        })
    }

    /// The error for rows that break a rule, which tells of a key that two rows have.
    fn told_of_key(&mut self, reason: &str) -> Error {
        let stage = quote_identifier(&self.stage);
        let searches = self.into.map(|(table, mode)| table.searches(reason, mode, &stage));
        let found = searches.into_iter().flatten().find_map(|(begins, sql)| {
            self.target.search(&sql).map(|values| format!("{reason}: {begins} {values}"))
        });
        Error::constraint(found.as_deref().unwrap_or(reason)).to_do_instead(
            "look for the rows that break this rule, in the input and in the table; where rows may be there \
             already, load with ⟦ignore⟧ or ⟦upsert⟧",
        )
    }
}
