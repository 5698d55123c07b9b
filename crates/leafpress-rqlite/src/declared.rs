//! A table that is on the cluster: its declaration, and the statements that bring rows into it.
//!
//! The cluster's SQL is carried out on an empty database in memory, and SQLite says what it declares.
//!
//! Must never: insert a row under another rule than the one that was asked for.

use std::path::Path;

use leafpress::rusqlite::{self, Connection};
use leafpress::{Error, Result, quote_identifier};

use serde_json::Value;

/// Rows of the schema that belong to a table.
pub const SCHEMA: &str = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE \
     tbl_name = ?1 COLLATE NOCASE AND substr(name, 1, 7) <> 'sqlite_'";
/// Tables whose foreign keys refer to a table by a rule that would touch their rows, if foreign keys hold.
pub const REFERRING: &str = "SELECT DISTINCT t.name, f.on_delete FROM sqlite_schema AS t, \
     pragma_foreign_key_list(t.name) AS f, pragma_foreign_keys AS k WHERE t.type = 'table' AND \
     k.foreign_keys = 1 AND f.\"table\" = ?1 COLLATE NOCASE AND t.name <> ?1 COLLATE NOCASE \
     AND f.on_delete <> 'NO ACTION'";

/// Advice where only SQL reaches a table.
const BY_SQL: &str = "load into a new table, and bring its rows into this one by SQL";

/// Treatment of the rows of a table that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All new rows are added; one with a key that is there ends the load.
    Append,
    /// The new rows take the place of all that are there.
    Replace,
    /// New rows with a key that is there are left out.
    Ignore,
    /// New rows with a key that is there give the old row their values.
    Upsert,
}

/// A table, as far as a load has to know it.
#[derive(Debug)]
pub struct Declared {
    name: String,
    /// Its statement, and those of its indexes.
    sql: Vec<String>,
    /// A table of the same columns, without keys and rules between columns.
    pub staging_sql: String,
    columns: Vec<Column>,
    /// The column that is the rowid.
    pub rowid_alias: Option<String>,
    pub without_rowid: bool,
    /// Columns of the primary key.
    primary_key: Vec<String>,
    /// Unique keys that hold for all rows; `None` if a term is an expression.
    unique: Vec<Option<Terms>>,
    /// The order of the table's key.
    key_order: Terms,
    /// Number of unique indexes that hold for some of the rows.
    partial: usize,
    pub triggers: Vec<String>,
}

/// Columns of a key, and their collations, which may differ from those of the staging table.
type Terms = Vec<(String, String)>;

#[derive(Debug)]
struct Column {
    name: String,
    declared_type: String,
    not_null: bool,
    default: Option<String>,
}

impl Declared {
    /// Reads the table from the rows of [`SCHEMA`] and of [`REFERRING`]; `None` if it is not there.
    ///
    /// # Errors
    /// It is a view or a virtual table, or the mode cannot be kept.
    pub fn read(
        table: &str,
        mode: Mode,
        schema: &[Value],
        referring: &[Value],
    ) -> Result<Option<Self>> {
        let texts = |kind: &str| -> Vec<(String, String)> {
            let row = |row: &Value| {
                let text = |at: usize| row.get(at)?.as_str();
                (text(0)? == kind).then(|| Some((text(1)?.to_owned(), text(2)?.to_owned())))?
            };
            schema.iter().filter_map(row).collect()
        };
        if !texts("view").is_empty() {
            return Err(
                refused(table, "it is a view, and rows go into tables").to_do("name a table")
            );
        }
        let Some((name, create)) = texts("table").pop() else { return Ok(None) };
        let head: String = create.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        if head.eq_ignore_ascii_case("CREATE VIRTUAL") {
            return Err(refused(table, "it is a virtual table").to_do(BY_SQL));
        }
        let indexes: Vec<String> = texts("index").into_iter().map(|(_, sql)| sql).collect();
        let triggers = texts("trigger").into_iter().map(|(name, _)| name).collect();
        let read = Self::of_sql(name, &create, &indexes, triggers);
        let declared = read.map_err(|error| {
            refused(table, &format!("its declaration cannot be read: {error}")).to_do(BY_SQL)
        })?;
        if let (Mode::Replace, Some(row)) = (mode, referring.first()) {
            let text = |at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default();
            let (other, rule) = (text(0), text(1));
            return Err(refused(
                table,
                &format!("replacing its rows would touch those of {other}, which refers to it with ON DELETE {rule}"),
            )
            .to_do("load with ⟦upsert⟧, which leaves rows where they are"));
        }
        declared.check(mode, &create)?;
        Ok(Some(declared))
    }

    /// Reads a declaration by its SQL.
    ///
    /// # Errors
    /// SQLite refuses it here, such as for a collation of a program's own.
    pub fn of_sql(
        name: String,
        create: &str,
        indexes: &[String],
        triggers: Vec<String>,
    ) -> rusqlite::Result<Self> {
        let memory = Connection::open_in_memory()?;
        memory.execute_batch(create)?;
        indexes.iter().try_for_each(|sql| memory.execute_batch(sql))?;
        let is_of_table = |option: &str| -> rusqlite::Result<bool> {
            let sql = format!("SELECT {option} FROM pragma_table_list(?1)");
            memory.query_row(&sql, [&name], |row| row.get(0))
        };
        let (without_rowid, strict) = (is_of_table("wr")?, is_of_table("strict")?);
        let mut columns = Vec::new();
        let mut key = Vec::new();
        let mut statement = memory.prepare(
            "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_xinfo(?1) WHERE hidden = 0",
        )?;
        let mut rows = statement.query([&name])?;
        while let Some(row) = rows.next()? {
            let column = Column {
                name: row.get(0)?,
                declared_type: row.get(1)?,
                not_null: row.get(2)?,
                default: row.get(3)?,
            };
            let place: i64 = row.get(4)?;
            if place > 0 {
                key.push((place, column.name.clone()));
            }
            columns.push(column);
        }
        key.sort();
        let primary_key: Vec<String> = key.into_iter().map(|(_, name)| name).collect();
        let mut declared = Self {
            staging_sql: staging_sql(&name, &columns, strict),
            name,
            sql: [create.to_owned()].into_iter().chain(indexes.iter().cloned()).collect(),
            columns,
            rowid_alias: None,
            without_rowid,
            primary_key,
            unique: Vec::new(),
            key_order: Vec::new(),
            partial: 0,
            triggers,
        };
        let has_key_index = declared.read_indexes(&memory)?;
        if !has_key_index && !without_rowid {
            declared.rowid_alias = declared.primary_key.first().cloned();
        }
        if let Some(alias) = &declared.rowid_alias {
            declared.key_order = vec![(alias.clone(), "BINARY".to_owned())];
            declared.unique.push(Some(declared.key_order.clone()));
        }
        Ok(declared)
    }

    /// Makes the table in a new file, without rows and triggers.
    ///
    /// # Errors
    /// SQLite's.
    pub fn write(&self, file: &Path) -> Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a temporary file of this load alone")]
        let connection = Connection::open(file)?;
        Ok(self.sql.iter().try_for_each(|sql| connection.execute_batch(sql))?)
    }

    /// Names of the columns that take values.
    pub fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|it| it.name.clone()).collect()
    }

    /// Reads the unique indexes; returns true if one of them is that of the primary key.
    fn read_indexes(&mut self, memory: &Connection) -> rusqlite::Result<bool> {
        let mut has_key_index = false;
        let sql = "SELECT name, origin, partial FROM pragma_index_list(?1) WHERE \"unique\"";
        let mut indexes = memory.prepare(sql)?;
        let mut rows = indexes.query([&self.name])?;
        while let Some(row) = rows.next()? {
            let (index, origin, is_partial): (String, String, bool) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            has_key_index |= origin == "pk";
            if is_partial {
                self.partial += 1;
                continue;
            }
            let sql = "SELECT name, coll FROM pragma_index_xinfo(?1) WHERE key ORDER BY seqno";
            let mut statement = memory.prepare(sql)?;
            let term = |row: &rusqlite::Row<'_>| {
                let (name, collation): (Option<String>, String) = (row.get(0)?, row.get(1)?);
                Ok(name.map(|name| (name, collation)))
            };
            let terms = statement.query_map([&index], term)?;
            let terms = terms.collect::<rusqlite::Result<Option<Vec<_>>>>()?;
            self.unique.push(terms.clone());
            let is_first = self.primary_key.is_empty() && self.key_order.is_empty();
            if let Some(terms) = terms.filter(|_| origin == "pk" || is_first) {
                self.key_order = terms;
            }
        }
        Ok(has_key_index)
    }

    /// Refuses what would not be right.
    fn check(&self, mode: Mode, create: &str) -> Result<()> {
        let mut words = leafpress::sql_words(create).into_iter().filter_map(|word| match word {
            leafpress::SqlWord::Bare(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        });
        let declares_conflicts = words.any(|word| word == "CONFLICT");
        if declares_conflicts && !self.triggers.is_empty() {
            return Err(refused(
                &self.name,
                "its declaration has ON CONFLICT, and triggers, which would obey another rule",
            )
            .to_do(BY_SQL));
        }
        if mode == Mode::Upsert { self.upsert_key().map(|_| ()) } else { Ok(()) }
    }

    /// The columns that say which rows are the same.
    fn upsert_key(&self) -> Result<Vec<&String>> {
        if !self.primary_key.is_empty() {
            return Ok(self.primary_key.iter().collect());
        }
        match self.unique.as_slice() {
            [Some(terms)] => Ok(terms.iter().map(|it| &it.0).collect()),
            _ => Err(refused(
                &self.name,
                "it has no primary key, and not just one unique index of columns, so it is open which rows are the same",
            )
            .to_do("make a unique index of the columns that tell the rows apart, or load with ⟦append⟧")),
        }
    }

    /// Checks that the rows can go in, by the columns that they have.
    ///
    /// # Errors
    /// There is no column, or columns of the key are missing in an upsert.
    pub fn check_columns(&self, mode: Mode, columns: &[String]) -> Result<()> {
        let is_given = |name: &String| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
        if columns.is_empty() {
            return Err(refused(&self.name, "the input has no column of it")
                .to_do("name the columns of the input as the table does, with ⟦rename⟧"));
        }
        if mode != Mode::Upsert {
            return Ok(());
        }
        match self.upsert_key()?.into_iter().find(|it| !is_given(it)) {
            Some(missing) => Err(refused(
                &self.name,
                &format!("the input has no column {missing}, which is part of its key"),
            )
            .to_do("add the column to the input, or load with ⟦append⟧")),
            None => Ok(()),
        }
    }

    /// Statements that bring the rows of the table `stage`, a name in quotes, into this one.
    pub fn inserts(&self, mode: Mode, stage: &str, columns: &[String]) -> Vec<String> {
        let table = quote_identifier(&self.name);
        let mut statements = Vec::new();
        if mode == Mode::Replace {
            statements.push(format!("DELETE FROM {table}"));
        }
        let list: Vec<String> = columns.iter().map(|it| quote_identifier(it)).collect();
        let list = list.join(",");
        // Triggers would inherit the ABORT, so with them it is left to be the default.
        let verb = if self.triggers.is_empty() { "INSERT OR ABORT" } else { "INSERT" };
        let (order, on_conflict) = (self.order(mode, columns), self.on_conflict(mode, columns));
        let insert = |filter: &str| {
            format!(
                "{verb} INTO {table}({list}) SELECT {list} FROM {stage} WHERE {filter}{order}{on_conflict}"
            )
        };
        let alias = self
            .rowid_alias
            .as_ref()
            .filter(|alias| columns.iter().any(|it| it.eq_ignore_ascii_case(alias)));
        match alias.map(|it| quote_identifier(it)) {
            // SQLite could give the others rowids that these rows bring.
            Some(alias) => {
                statements.push(insert(&format!("{alias} IS NOT NULL")));
                statements.push(insert(&format!("{alias} IS NULL")));
            }
            None => statements.push(insert("true")),
        }
        statements
    }

    /// Queries for a key that SQLite refused with these words, each with the beginning of what it tells: of a row
    /// of the staging table whose key is in the table, or of two with one key. None if the words name no key.
    pub fn searches(&self, words: &str, mode: Mode, stage: &str) -> Vec<(&'static str, String)> {
        let says = |terms: &&Terms| {
            let columns: Vec<String> =
                terms.iter().map(|(column, _)| format!("{}.{column}", self.name)).collect();
            words.ends_with(&format!("UNIQUE constraint failed: {}", columns.join(", ")))
        };
        let Some(terms) = self.unique.iter().flatten().find(says) else { return Vec::new() };
        let of_each = |sql: fn(&str, &str) -> String, between: &str| {
            let each = |(column, collation): &(String, String)| {
                sql(&quote_identifier(column), &quote_identifier(collation))
            };
            terms.iter().map(each).collect::<Vec<_>>().join(between)
        };
        let table = quote_identifier(&self.name);
        let values =
            of_each(|column, _| format!("substr(quote(s.{column}), 1, 60)"), " || ', ' || ");
        let same = of_each(|it, collation| format!("t.{it} = s.{it} COLLATE {collation}"), " AND ");
        let given = of_each(|column, _| format!("s.{column} IS NOT NULL"), " AND ");
        let key = of_each(|column, collation| format!("s.{column} COLLATE {collation}"), ", ");
        let names: Vec<&str> = terms.iter().map(|it| &*it.0).collect();
        let names = format!("'{} = ' || ", names.join(", ").replace('\'', "''"));
        let in_table = format!(
            "SELECT {names}{values} FROM {stage} AS s CROSS JOIN {table} AS t ON {same} LIMIT 1"
        );
        let twice = format!(
            "SELECT {names}{values} FROM {stage} AS s WHERE {given} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        );
        let mut searches = vec![("two rows of the input have", twice)];
        if mode == Mode::Append {
            searches.insert(0, ("the table has a row already with", in_table));
        }
        searches
    }

    /// The order of the table's key, in which its pages are filled one after the other, by the collations of
    /// the key: of rows that share one the order is that of the input.
    fn order(&self, mode: Mode, columns: &[String]) -> String {
        let is_given = |name: &String| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
        // If two rows share one key, but not the other, the order decides which stays, or if one is refused.
        let merges = matches!(mode, Mode::Ignore | Mode::Upsert);
        let several = merges && self.unique.len() + self.partial > 1;
        let mut terms: Vec<String> = Vec::new();
        // Triggers see the order.
        if self.key_order.iter().all(|it| is_given(&it.0)) && !several && self.triggers.is_empty() {
            let term = |(name, collation): &(String, String)| {
                format!("{} COLLATE {}", quote_identifier(name), quote_identifier(collation))
            };
            terms.extend(self.key_order.iter().map(term));
        }
        let is_free =
            |name: &&str| !self.columns.iter().any(|it| it.name.eq_ignore_ascii_case(name));
        terms.extend(
            ["rowid", "_rowid_", "oid"].iter().find(|it| is_free(it)).map(|it| (*it).to_owned()),
        );
        if terms.is_empty() { String::new() } else { format!(" ORDER BY {}", terms.join(",")) }
    }

    fn on_conflict(&self, mode: Mode, columns: &[String]) -> String {
        match mode {
            Mode::Append | Mode::Replace => String::new(),
            // Not OR IGNORE, which leaves out rows for a NULL or a CHECK, too.
            Mode::Ignore => " ON CONFLICT DO NOTHING".to_owned(),
            Mode::Upsert => {
                let key = self.upsert_key().unwrap_or_default();
                let is_key = |name: &str| key.iter().any(|it| it.eq_ignore_ascii_case(name));
                let set: Vec<String> = columns
                    .iter()
                    .filter(|it| !is_key(it))
                    .map(|it| format!("{0} = excluded.{0}", quote_identifier(it)))
                    .collect();
                let key: Vec<String> = key.iter().map(|it| quote_identifier(it)).collect();
                let key = key.join(",");
                if set.is_empty() {
                    format!(" ON CONFLICT ({key}) DO NOTHING")
                } else {
                    format!(" ON CONFLICT ({key}) DO UPDATE SET {}", set.join(","))
                }
            }
        }
    }
}

fn staging_sql(name: &str, columns: &[Column], strict: bool) -> String {
    let column = |column: &Column| {
        let not_null = if column.not_null { " NOT NULL" } else { "" };
        let default =
            column.default.as_ref().map_or(String::new(), |it| format!(" DEFAULT ({it})"));
        format!("{} {}{not_null}{default}", quote_identifier(&column.name), column.declared_type)
    };
    let columns: Vec<String> = columns.iter().map(column).collect();
    let strict = if strict { " STRICT" } else { "" };
    format!("CREATE TABLE {}({}){strict}", quote_identifier(name), columns.join(", "))
}

fn refused(table: &str, reason: &str) -> Error {
    Error::destination(table, format!("it cannot be loaded on a cluster: {reason}"))
        .on_disk("nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a table after `seed` and after `rows`, which go in one by one or by way of a staging table.
    fn after(create: &[&str], mode: Mode, staged: bool) -> rusqlite::Result<Vec<[String; 3]>> {
        let memory = Connection::open_in_memory()?;
        memory.execute_batch(&create.join(";"))?;
        memory.execute_batch("INSERT INTO t(k, u, v) VALUES ('B', 'seed', 0)")?;
        let indexes: Vec<String> = create[1..].iter().map(|it| (*it).to_owned()).collect();
        let has_triggers = create.iter().any(|it| it.contains("TRIGGER"));
        let triggers = if has_triggers { vec!["i".to_owned()] } else { Vec::new() };
        let declared = Declared::of_sql("t".to_owned(), create[0], &indexes, triggers)?;
        let columns = ["k", "u", "v"].map(str::to_owned);
        let rows = "('a', 'x', 1), ('b', 'y', 2), ('A ', 'z', 3), ('A', 'y2', 4), ('B', 'x', 5), ('B ', 'y', 6)";
        let stage = declared.staging_sql.replacen("\"t\"", "stage", 1);
        memory.execute_batch(&format!("{stage}; INSERT INTO stage(k, u, v) VALUES {rows}"))?;
        let statements = if staged {
            declared.inserts(mode, "stage", &columns)
        } else {
            let on_conflict = declared.on_conflict(mode, &columns);
            let insert = |row: i64| {
                format!(
                    "INSERT INTO t(k, u, v) SELECT k, u, v FROM stage WHERE rowid = {row}{on_conflict}"
                )
            };
            (1..=6).map(insert).collect()
        };
        for sql in statements {
            memory.execute_batch(&sql)?;
        }
        let sql = if has_triggers { "SELECT k, '', v FROM seen" } else { "SELECT k, u, v FROM t" };
        let mut statement = memory.prepare(&format!("{sql} ORDER BY 1, 2, 3"))?;
        let row = |row: &rusqlite::Row<'_>| {
            let text = |at| row.get::<_, rusqlite::types::Value>(at).map(|it| format!("{it:?}"));
            Ok([text(0)?, text(1)?, text(2)?])
        };
        statement.query_map([], row)?.collect()
    }

    #[test]
    fn a_key_that_two_rows_have_is_found() {
        let create = "CREATE TABLE t(k INTEGER PRIMARY KEY, \"a, b\" TEXT, c)";
        let index = "CREATE UNIQUE INDEX i ON t(\"a, b\" COLLATE NOCASE, c)";
        let memory = Connection::open_in_memory().unwrap();
        let rows = "INSERT INTO t VALUES (1, 'It''s', 7), (2, 'x', NULL)";
        memory.execute_batch(&[create, index, rows].join(";")).unwrap();
        let of_sql = Declared::of_sql("t".to_owned(), create, &[index.to_owned()], Vec::new());
        let declared = of_sql.unwrap();
        memory.execute_batch(&declared.staging_sql.replacen("\"t\"", "stage", 1)).unwrap();
        let append = "the table has a row already with";
        let twice = "two rows of the input have";
        for (rows, key, mode, told) in [
            ("(2, 'y', 1)", "t.k", Mode::Append, Some((append, "k = 2"))),
            (
                "(3, 'IT''S', 7)",
                "t.a, b, t.c",
                Mode::Append,
                Some((append, "a, b, c = 'IT''S', 7")),
            ),
            ("(1, 'a', 7), (1, 'b', 7)", "t.k", Mode::Replace, Some((twice, "k = 1"))),
            (
                "(4, 'a', 7), (5, 'A', 7)",
                "t.a, b, t.c",
                Mode::Append,
                Some((twice, "a, b, c = 'a', 7")),
            ),
            ("(4, 'x', NULL)", "t.a, b, t.c", Mode::Append, None),
            ("(1, 'a', 7)", "t.other", Mode::Append, None),
        ] {
            memory
                .execute_batch(&format!("DELETE FROM stage; INSERT INTO stage VALUES {rows}"))
                .unwrap();
            let words = format!("UNIQUE constraint failed: {key}");
            let found =
                declared.searches(&words, mode, "stage").into_iter().find_map(|(begins, sql)| {
                    let value = memory.query_row(&sql, [], |row| row.get::<_, String>(0));
                    value.ok().map(|value| (begins, value))
                });
            let found = found.as_ref().map(|(begins, value)| (*begins, value.as_str()));
            assert_eq!(found, told, "{rows}");
        }
    }

    /// The table is that of INSERTs in the order of the input, whatever rows its keys call the same.
    #[test]
    fn of_rows_that_share_a_key_the_order_is_that_of_the_input() {
        let seen = "CREATE TABLE seen(k, v)";
        let trigger = "CREATE TRIGGER i AFTER INSERT ON t BEGIN
             INSERT INTO seen VALUES (new.k, (SELECT count(*) FROM seen)); END";
        for create in [
            &["CREATE TABLE t(k TEXT PRIMARY KEY COLLATE NOCASE, u, v)"][..],
            &["CREATE TABLE t(k TEXT PRIMARY KEY COLLATE RTRIM, u, v) WITHOUT ROWID"],
            &["CREATE TABLE t(k TEXT PRIMARY KEY, u, v)"],
            &["CREATE TABLE t(k TEXT, u, v, PRIMARY KEY (k COLLATE NOCASE))"],
            &["CREATE TABLE t(k, u, v)", "CREATE UNIQUE INDEX i ON t(k COLLATE NOCASE)"],
            &["CREATE TABLE t(k COLLATE NOCASE, u, v)", "CREATE UNIQUE INDEX i ON t(k, u)"],
            &["CREATE TABLE t(k COLLATE NOCASE PRIMARY KEY, u UNIQUE, v)"],
            &["CREATE TABLE t(k TEXT PRIMARY KEY, u, v)", seen, trigger],
        ] {
            for mode in [Mode::Ignore, Mode::Upsert] {
                let of = |staged| after(create, mode, staged).map_err(|error| error.to_string());
                assert_eq!(of(true), of(false), "{mode:?} {create:?}");
            }
        }
    }
}
