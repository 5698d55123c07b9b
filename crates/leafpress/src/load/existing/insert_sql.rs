//! SQL that inserts the staged rows: all of them at once, or one row.
//!
//! The mode decides about a row whose key is taken, not an ON CONFLICT in the declaration of the table.
//! Where the table has triggers, the statement has no OR: they would inherit it for their own statements.
//!
//! | mode | triggers | ON CONFLICT declared | statement |
//! |---|---|---|---|
//! | append, replace | none | any | `INSERT OR FAIL` or, of one row, `OR ABORT` |
//! | append, replace | some | no | `INSERT` |
//! | append, replace | some | yes | `INSERT … ON CONFLICT DO NOTHING`, judged |
//! | ignore | none | any | `INSERT OR FAIL` or `OR ABORT`, `… ON CONFLICT DO NOTHING` |
//! | ignore | some | any | `INSERT … ON CONFLICT DO NOTHING` |
//! | upsert | none | any | `INSERT OR FAIL` or `OR ABORT`, `… ON CONFLICT (key) DO UPDATE SET …` |
//! | upsert | some | no | `INSERT … ON CONFLICT (key) DO UPDATE SET …` |
//! | upsert | some | yes | `INSERT … ON CONFLICT (key) DO UPDATE SET … ON CONFLICT DO NOTHING`, judged |
//!
//! Judged: the insert of a row that was passed over is undone. `INSERT OR ABORT` shows why, and is undone too.
//! Where no key was taken, the row is inserted as before, for what its triggers write.
//!
//! Must never: run a statement.

use super::connect::UNCHANGED;
use super::insert::Insert;
use super::order::{BestOrder, InsertMode, order_of};
use crate::error::{Error, Result};
use crate::schema::declared::{ColumnList, insert_of_defaults};
use crate::schema::quote_identifier;

impl Insert<'_> {
    /// Verb of the statement for all rows. With OR FAIL SQLite need not keep a copy of each page for
    /// undoing this statement alone; the transaction is rolled back as a whole.
    pub fn verb(&self) -> &'static str {
        if self.declared.triggers.is_empty() { "INSERT OR FAIL" } else { "INSERT" }
    }

    /// Returns true if the statement passes over a row whose key is taken, and
    /// [`judge_sql`](Self::judge_sql) checks the row afterwards.
    pub fn passes_over_keys(&self) -> bool {
        self.declared.declares_conflicts
            && !self.declared.triggers.is_empty()
            && self.mode != InsertMode::Ignore
    }

    /// Statement that inserts one row.
    pub fn insert_sql(&self) -> Result<String> {
        let verb = if self.declared.triggers.is_empty() { "INSERT OR ABORT" } else { "INSERT" };
        Ok(self.one_row(verb, &self.on_conflict()?))
    }

    /// Statement that shows why a row was passed over. Its effects have to be undone.
    pub fn judge_sql(&self) -> Result<String> {
        Ok(self.one_row("INSERT OR ABORT", &self.on_conflict_of_mode()?))
    }

    fn one_row(&self, verb: &str, on_conflict: &str) -> String {
        let name = quote_identifier(&self.declared.name);
        if self.columns.is_empty() {
            let rowid = self.declared.rowid_name();
            return insert_of_defaults(verb, &format!("main.{name}"), rowid, on_conflict);
        }
        let marks = vec!["?"; self.columns.len()].join(",");
        let columns = self.column_list();
        format!("{verb} INTO main.{name}({columns}) VALUES ({marks}){on_conflict}")
    }

    /// The query for the staged rows, in the order in which they go in.
    pub fn select(&self, columns: &str, from: &str, of_piece: Option<&str>) -> String {
        let (filter, order) = (of_piece.unwrap_or("true"), self.order());
        format!("SELECT {columns} FROM {from} WHERE {filter}{order}")
    }

    fn order(&self) -> String {
        if self.sorted {
            return String::new();
        }
        match order_of(&self.declared, self.columns, self.mode) {
            // Rows with rowids that are not sorted stay as they are: SQLite numbers those among them
            // that have none.
            BestOrder::Any | BestOrder::Rowid(_) => String::new(),
            BestOrder::Columns(columns) => {
                let terms = columns.iter().map(|it| {
                    let direction = if it.descending { " DESC" } else { "" };
                    let (column, collation) =
                        (quote_identifier(&it.name), quote_identifier(&it.collation));
                    format!("{column} COLLATE {collation}{direction}")
                });
                format!(" ORDER BY {}", terms.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Returns true if the rows have a value for this column.
    pub fn gives(&self, column: &str) -> bool {
        self.columns.iter().any(|it| it.eq_ignore_ascii_case(column))
    }

    /// Names of the columns that the rows have values for, as SQL.
    pub fn column_list(&self) -> String {
        ColumnList::new(self.columns.iter().map(String::as_str)).sql
    }

    /// Clauses of the statement for rows whose key is taken.
    pub fn on_conflict(&self) -> Result<String> {
        let otherwise = if self.passes_over_keys() { " ON CONFLICT DO NOTHING" } else { "" };
        Ok(self.on_conflict_of_mode()? + otherwise)
    }

    fn on_conflict_of_mode(&self) -> Result<String> {
        match self.mode {
            InsertMode::Append | InsertMode::Replace => Ok(String::new()),
            // Not OR IGNORE, which leaves out rows for a NULL or a CHECK, too.
            InsertMode::Ignore => Ok(" ON CONFLICT DO NOTHING".to_owned()),
            InsertMode::Upsert => self.upsert_clause(),
        }
    }

    fn upsert_clause(&self) -> Result<String> {
        let key = self.upsert_key()?;
        let is_key = |name: &str| key.iter().any(|it| it.eq_ignore_ascii_case(name));
        let missing: Vec<&str> =
            key.iter().filter(|it| !self.gives(it)).map(String::as_str).collect();
        if !missing.is_empty() {
            let (missing, table) = (missing.join(", "), &self.declared.name);
            let reason =
                format!("the input has no column {missing}, which is part of the key of {table}");
            return Err(Error::not_found("column", missing, reason).on_disk(UNCHANGED).to_do(
                "give the input the columns of the key, which say what row each one changes; or \
                 add the rows with ⟦append⟧",
            ));
        }
        let assignments: Vec<String> = self
            .columns
            .iter()
            .filter(|it| !is_key(it))
            .map(|it| format!("{0} = excluded.{0}", quote_identifier(it)))
            .collect();
        let key = ColumnList::new(key.iter().map(String::as_str)).sql;
        Ok(if assignments.is_empty() {
            format!(" ON CONFLICT ({key}) DO NOTHING")
        } else {
            format!(" ON CONFLICT ({key}) DO UPDATE SET {}", assignments.join(", "))
        })
    }

    /// The columns of the primary key, else of the only unique index.
    fn upsert_key(&self) -> Result<Vec<String>> {
        let key = self.declared.primary_key();
        if !key.is_empty() {
            return Ok(key.into_iter().map(str::to_owned).collect());
        }
        let table = &self.declared.name;
        let unique = self.declared.indexes.iter().filter(|it| it.unique && !it.partial);
        let mut keys: Vec<Vec<String>> = unique
            .filter_map(|it| {
                it.columns.iter().map(|it| it.as_ref().map(|it| it.name.clone())).collect()
            })
            .collect();
        if keys.len() > 1 {
            let reason = format!(
                "{table} has no primary key and {} unique indexes, so it is open which rows are the same",
                keys.len()
            );
            return Err(self.target.refusal(reason).to_do(
                "load with ⟦ignore⟧, which leaves out rows with a taken key of any kind; or load \
                 into a table of its own, and change the rows by INSERT … SELECT … ON CONFLICT in SQL",
            ));
        }
        keys.pop().ok_or_else(|| {
            let others = if self.declared.indexes.iter().any(|it| it.unique) {
                " of columns for all rows (one with WHERE, or of an expression, does not serve)"
            } else {
                ""
            };
            self.target
                .refusal(format!(
                    "{table} has no primary key and no unique index{others}, so no two rows are \
                     the same"
                ))
                .to_do("load with ⟦append⟧, or make a unique index")
        })
    }
}
