//! The owners of pages, and the facts that the schema gives about them.
//!
//! After the script, the connection that ran it is asked: the virtual table `dbstat` walks a
//! B-tree and lists its pages. If SQLite has no such table, or the database is too large for a
//! walk, the owner is told from the page's kind and the tables that were written.
//!
//! Must never: run while figures are counted, as it reads many pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use leafpress::quote_identifier;
use rusqlite::Connection;

use super::trace::{Change, PageKind};

/// Number of pages above which only the B-trees that were written to are searched.
const PAGES_OF_WHOLE_SEARCH_MAX: u64 = 1 << 20;
/// Number of pages above which no B-tree is searched: 64 GB in pages of 4 KiB.
const PAGES_MAX: u64 = 1 << 24;

/// The owner of a page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    /// The table or index.
    pub tree: String,
    /// True if the page holds the rest of a long row or key.
    pub is_overflow: bool,
}

/// The kind of a B-tree, and the table that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    /// The table that it belongs to.
    pub table: String,
    /// True if it is an index of that table.
    pub is_index: bool,
    /// Made for a PRIMARY KEY or UNIQUE.
    pub is_automatic: bool,
    /// A table that is kept as an index is.
    pub is_without_rowid: bool,
}

/// A foreign key with which writing the parent writes the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    pub child: String,
    pub parent: String,
}

/// One database, as the script left it.
#[derive(Debug, Clone, Default)]
pub(super) struct Schema {
    /// The name by which it is attached.
    pub name: String,
    pub trees: BTreeMap<String, Tree>,
    /// Tables with AUTOINCREMENT.
    pub autoincrement: BTreeSet<String>,
    pub actions: Vec<Action>,
    pub has_pointer_map: bool,
    /// Bytes of a page that are used.
    usable_bytes: u32,
    owners: HashMap<u32, Owner>,
}

impl Schema {
    /// Returns true if a page belongs to the pointer map of `auto_vacuum`: it holds only which
    /// page names which.
    pub(super) fn is_pointer_map(&self, page: u32) -> bool {
        let covered = self.usable_bytes / 5 + 1;
        self.has_pointer_map && page >= 2 && (page - 2).is_multiple_of(covered)
    }

    /// The B-trees of these tables.
    fn trees_of<'a>(&'a self, tables: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
        let is_theirs = |tree: &&Tree| tables.iter().any(|it| it.eq_ignore_ascii_case(&tree.table));
        self.trees.iter().filter(move |(_, tree)| is_theirs(tree)).map(|(name, _)| name)
    }

    fn read(connection: &Connection, name: &str) -> rusqlite::Result<Self> {
        let quoted = quote_identifier(name);
        let mut schema = Self { name: name.to_owned(), ..Self::default() };
        let without_rowid: BTreeSet<String> = connection
            .prepare("SELECT name FROM pragma_table_list WHERE schema = ?1 AND wr")?
            .query_map([name], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let sql = format!(
            "SELECT type, name, tbl_name, sql FROM {quoted}.sqlite_schema
                           WHERE rootpage > 0"
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name, table): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let sql: Option<String> = row.get(3)?;
            let is_index = kind == "index";
            let declared = sql.as_deref().unwrap_or_default().to_ascii_uppercase();
            if !is_index && declared.contains("AUTOINCREMENT") {
                schema.autoincrement.insert(table.clone());
            }
            let is_without_rowid = !is_index && without_rowid.contains(&table);
            let is_automatic = sql.is_none();
            schema.trees.insert(name, Tree { table, is_index, is_automatic, is_without_rowid });
        }
        let schema_tree = Tree {
            table: "sqlite_schema".to_owned(),
            is_index: false,
            is_automatic: false,
            is_without_rowid: false,
        };
        schema.trees.insert("sqlite_schema".to_owned(), schema_tree);
        schema.actions = actions(connection, name)?;
        let ask = |pragma: &str| -> rusqlite::Result<u32> {
            connection.pragma_query_value(Some(name), pragma, |row| row.get(0))
        };
        schema.has_pointer_map = ask("auto_vacuum")? != 0;
        schema.usable_bytes = ask("page_size")?;
        Ok(schema)
    }

    /// Finds the owners of `pages`, those in the B-trees of `tables` first.
    fn find_owners(
        &mut self,
        connection: &Connection,
        mut pages: BTreeSet<u32>,
        tables: &BTreeSet<String>,
    ) -> rusqlite::Result<()> {
        let pages_total: i64 =
            connection.pragma_query_value(Some(&*self.name), "page_count", |row| row.get(0))?;
        let pages_total = pages_total.unsigned_abs();
        if pages_total > PAGES_MAX {
            return Ok(());
        }
        let likely: Vec<String> = ["sqlite_schema", "sqlite_sequence"]
            .into_iter()
            .filter(|name| self.trees.contains_key(*name))
            .map(str::to_owned)
            .chain(self.trees_of(tables).cloned())
            .collect();
        let others: Vec<String> =
            self.trees.keys().filter(|it| !likely.contains(it)).cloned().collect();
        let others = if pages_total > PAGES_OF_WHOLE_SEARCH_MAX { Vec::new() } else { others };
        let sql = "SELECT pageno, pagetype FROM dbstat(?1) WHERE name = ?2";
        let mut statement = connection.prepare(sql)?;
        for tree in likely.into_iter().chain(others) {
            let mut rows = statement.query([&self.name, &tree])?;
            while !pages.is_empty()
                && let Some(row) = rows.next()?
            {
                let page: u32 = row.get(0)?;
                if pages.remove(&page) {
                    let is_overflow = row.get_ref(1)?.as_str().is_ok_and(|it| it == "overflow");
                    self.owners.insert(page, Owner { tree: tree.clone(), is_overflow });
                }
            }
        }
        Ok(())
    }

    /// The owner of a page as the page was written: its owner now, if the content was of that
    /// owner's kind, since the rest of the script may have freed the page and used it anew;
    /// otherwise the only one of the tables' B-trees that can have held such a page.
    pub(super) fn owner_then(
        &self,
        page: u32,
        kind: PageKind,
        tables: &BTreeSet<String>,
    ) -> Option<Owner> {
        let now = self.owners.get(&page).filter(|owner| match kind {
            PageKind::Other => owner.is_overflow,
            _ => !owner.is_overflow && self.holds(&owner.tree, kind),
        });
        now.cloned().or_else(|| self.likely_owner(kind, tables))
    }

    /// Returns true if a B-tree can have pages of this kind.
    fn holds(&self, tree: &str, kind: PageKind) -> bool {
        let is_like_an_index = self.trees.get(tree).map(|it| it.is_index || it.is_without_rowid);
        match kind {
            PageKind::Table => is_like_an_index == Some(false),
            PageKind::Index => is_like_an_index == Some(true),
            PageKind::Other => false,
        }
    }

    fn likely_owner(&self, kind: PageKind, tables: &BTreeSet<String>) -> Option<Owner> {
        let mut candidates = self.trees_of(tables).filter(|tree| self.holds(tree, kind));
        let first = candidates.next()?;
        let is_only = candidates.next().is_none();
        is_only.then(|| Owner { tree: first.clone(), is_overflow: false })
    }
}

fn actions(connection: &Connection, schema: &str) -> rusqlite::Result<Vec<Action>> {
    let sql = format!(
        "SELECT DISTINCT it.name, key.\"table\"
         FROM {}.sqlite_schema AS it, pragma_foreign_key_list(it.name, ?1) AS key
         WHERE it.type = 'table' AND NOT (key.on_update IN ('NO ACTION', 'RESTRICT')
               AND key.on_delete IN ('NO ACTION', 'RESTRICT'))",
        quote_identifier(schema)
    );
    let read = |row: &rusqlite::Row<'_>| Ok(Action { child: row.get(0)?, parent: row.get(1)? });
    connection.prepare(&sql)?.query_map([schema], read)?.collect()
}

/// All databases that are attached, by their paths.
#[derive(Debug, Default)]
pub(super) struct Schemas(HashMap<String, Schema>);

impl Schemas {
    /// Reads the schemas, and finds the owners of the pages that were written.
    ///
    /// Schemas and owners that SQLite cannot tell are left out: they serve the diagnosis, not
    /// the figures.
    pub(super) fn read<'a>(
        connection: &Connection,
        changes: &(impl Iterator<Item = &'a Change> + Clone),
        tables: &BTreeSet<String>,
        with_dbstat: bool,
    ) -> Self {
        let mut schemas = HashMap::new();
        for (name, path) in attached(connection).unwrap_or_default() {
            let Ok(mut schema) = Schema::read(connection, &name) else { continue };
            let here = changes.clone().filter(|it| is_same_file(&it.path, &path));
            let pages: BTreeSet<u32> =
                here.flat_map(|it| it.kept.iter().map(|(page, _)| *page)).collect();
            if with_dbstat && !pages.is_empty() {
                // Without `dbstat` the owners that are not found are told from the schema.
                let _ = schema.find_owners(connection, pages, tables);
            }
            schemas.insert(path, schema);
        }
        Self(schemas)
    }

    /// The database with this path, if it is still attached.
    pub(super) fn of(&self, path: &str) -> Option<&Schema> {
        self.0.get(path).or_else(|| {
            self.0.iter().find(|(other, _)| is_same_file(path, other)).map(|(_, it)| it)
        })
    }
}

fn is_same_file(one: &str, other: &str) -> bool {
    one == other || Path::new(one) == Path::new(other)
}

fn attached(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare("SELECT name, file FROM pragma_database_list")?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?));
    let all: Vec<(String, Option<String>)> =
        statement.query_map([], read)?.collect::<rusqlite::Result<_>>()?;
    let named = |(name, file): (String, Option<String>)| Some((name, file?));
    Ok(all.into_iter().filter_map(named).filter(|(_, file)| !file.is_empty()).collect())
}
