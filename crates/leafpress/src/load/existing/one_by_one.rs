//! Insert of rows one by one into a table that exists, after SQLite refused some of them.
//!
//! ```text
//! insert.rs: all rows in one statement ──► refused ──► here: in the order of the input,
//!                                                      each row by itself
//! ```
//!
//! Where the outcome is the same, the rows between two refused ones go in by one statement
//! (`stretches.rs`).
//!
//! A row stays if SQLite takes it after the rows before it that stay. Some foreign keys can hold
//! only when all rows are there, as they are deferred, refer to the table itself, or a later row of
//! an upsert changes them. They are checked at the end, as SQLite does for one statement. A row whose
//! foreign key then has no parent row goes, with all rows that refer to it. The rest is inserted anew
//! without them, until all foreign keys hold. So the number of passes does not grow with the length of
//! a chain of such rows.
//!
//! A row that goes may have held a key that another row needs ([`Consequences::undecided`]). So while
//! rows go whose keys other rows wait for, the first passes take out only rows without a parent, and
//! not yet those that refer to them.
//!
//! Must never: commit before the caller has agreed to leave the refused rows out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow::{self, Break, Continue};

use rusqlite::{Connection, Params, Row, Statement, ffi, params_from_iter};

use super::commit::commit;
use super::connect::{Steps, ask, constraint};
use super::insert::{Counts, Insert, InsertInto};
use super::inspect::Existing;
use super::order::InsertMode;
use super::references::{Identity, References};
use super::rows::{shown, values};
use super::staged::{attach, open};
use super::stretches::{Stretch, Stretches};
use super::task::{Outcome, Settings, Staged};
use crate::error::{Error, Result};
use crate::load::row_savepoint::{insert_whole, undo_row};
use crate::schema::declared::DeclaredTable;
use crate::schema::quote_identifier;
use crate::sqlite_error::{ROLLED_BACK_TO_DO, is_fault_of_a_row, sqlite_says};

/// Number of passes in which rows that refer to rows that go stay for one more pass, if other rows
/// wait for a key of them: then the result does not depend on the order in which rows go. After
/// these passes all go at once, so that a long chain does not take a pass for each of its rows.
pub(super) const PASSES_WITH_ALL_CHANGES: u64 = 16;

/// Number of rows between two looks at the cancel token.
const ROWS_BETWEEN_LOOKS: u64 = 1024;

/// A row that SQLite refused.
#[derive(Debug, Clone)]
pub(in crate::load) struct RefusedRow {
    /// Ordinal among the staged rows, from 0.
    pub number: u64,
    /// SQLite's reason.
    pub reason: String,
    /// SQLite's extended code.
    pub code: i32,
    /// The row's values as SQL literals, if wanted.
    pub values: Option<String>,
}

impl RefusedRow {
    fn new(number: u64, error: &rusqlite::Error) -> Self {
        let code = error.sqlite_error().map_or(0, |error| error.extended_code);
        Self { number, reason: sqlite_says(error), code, values: None }
    }

    /// Returns true if SQLite may take the row when other rows are not there.
    fn may_come_later(&self) -> bool {
        matches!(
            self.code,
            ffi::SQLITE_CONSTRAINT_UNIQUE
                | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                | ffi::SQLITE_CONSTRAINT_ROWID
                | ffi::SQLITE_CONSTRAINT_TRIGGER
        )
    }
}

/// Settings for refused rows.
pub(in crate::load) struct Refusals<'r> {
    /// True if the first refused row ends the insert.
    pub stops: bool,
    /// True if the values of refused rows are wanted.
    pub with_values: bool,
    /// True if the input is a transaction on the same database, which must be able to read until
    /// the commit.
    pub reads_database: bool,
    /// Callback that gets the refused rows before the commit, in order; its error ends the insert.
    pub decide: &'r mut dyn FnMut(&[RefusedRow]) -> Result<()>,
}

/// Inserts the staged rows into a table of the destination, in one transaction, without those that
/// SQLite refuses. After an error the destination is as it was.
pub(in crate::load) fn insert_one_by_one(
    existing: &Existing,
    staged: &Staged<'_>,
    into: &InsertInto<'_>,
    settings: &Settings,
    refusals: &mut Refusals<'_>,
) -> Result<Outcome> {
    let mode = into.mode;
    let target = &existing.target;
    let refused = |error| target.refused("insert the rows", error);
    let mut connection = target.open_to_change(settings)?;
    if refusals.reads_database {
        // With a rollback journal, pages that are written early lock readers out.
        connection.execute_batch("PRAGMA cache_spill=OFF").map_err(refused)?;
    }
    let attached = attach(&connection, existing, staged).map_err(refused)?;
    let counts = Counts::watch(&mut connection, into.table, settings).map_err(refused)?;
    let mut steps = Steps::start();
    let transaction = target.begin(&mut connection)?;
    steps.end("waiting for the lock");
    let insert = Insert::new(&transaction, target, staged, into, false, settings)?;
    let mut outcome = Outcome::default();
    if mode == InsertMode::Replace {
        outcome.rows_removed = insert.empty_table().map_err(refused)?;
        steps.end("removing the old rows");
    }
    let rows = OneByOne::new(&insert, refusals)?;
    let inserted = rows.run(attached, &counts, &mut outcome)?;
    let Inserted { changed, refused: refused_rows, passes, in_stretches } = inserted;
    steps.end("inserting");
    insert.analyze(&mut steps)?;
    outcome.rows_ignored = staged.rows.saturating_sub(changed + refused_rows.len() as u64);
    let in_passes = if passes > 1 { format!(" in {passes} passes") } else { String::new() };
    outcome.path = if in_stretches {
        "SQL: INSERT … SELECT between the rows that SQLite refused, one transaction".to_owned()
    } else {
        format!("SQL: row by row{in_passes}, as SQLite refused some, one transaction")
    };
    outcome.notes = insert.notes(&outcome);
    drop(insert);
    outcome.pages =
        ask::<i64>(&transaction, "PRAGMA main.page_count").map_err(refused)?.unsigned_abs();
    (refusals.decide)(&refused_rows)?;
    commit(&transaction, existing, ("the load", into.table), &settings.cancel, &mut steps)?;
    outcome.stages = steps.stages;
    Ok(outcome)
}

/// Result of all passes.
struct Inserted {
    /// Number of rows that changed the table.
    changed: u64,
    /// Refused rows, in the order of the input.
    refused: Vec<RefusedRow>,
    passes: u64,
    /// True if the rows between refused ones went in together.
    in_stretches: bool,
}

/// State of the insert.
#[expect(clippy::struct_excessive_bools, reason = "four facts, each by itself")]
struct OneByOne<'o> {
    insert: &'o Insert<'o>,
    stops: bool,
    with_values: bool,
    source: Connection,
    select: String,
    sql: String,
    /// None if no foreign key is checked at the end, or the rows have no names.
    references: Option<References>,
    /// True if a refused row may have had effects: a trigger's RAISE(FAIL) undoes none.
    has_triggers: bool,
    /// None if SQLite itself refuses a row whose key is taken.
    judge: Option<String>,
    /// True if a row that is refused for a key conflicts with one row only, which has all keys in
    /// question.
    has_one_key: bool,
}

impl<'o> OneByOne<'o> {
    fn new(insert: &'o Insert<'o>, refusals: &Refusals<'_>) -> Result<Self> {
        let refused = |error| insert.target.refused("insert the rows", error);
        let declared = &insert.declared;
        let mode_defers = matches!(insert.mode, InsertMode::Replace | InsertMode::Upsert);
        let defers = declared.has_deferred_keys || mode_defers;
        let keys_in_the_end = declared.is_child && (defers || declared.refers_to_itself());
        let (mut returning, mut references) = (String::new(), None);
        if keys_in_the_end {
            // Without names for its rows, a key that does not hold is an error of the commit.
            if let Some(identity) = Identity::of(declared) {
                returning = format!(" RETURNING {}", identity.sql(""));
                let read =
                    References::read(insert.transaction, declared, &identity, insert.columns);
                references = Some(read.map_err(refused)?);
            }
            // It stays on: SQLite forgets the broken keys when it is turned off.
            let defer = "PRAGMA defer_foreign_keys=ON";
            insert.transaction.execute_batch(defer).map_err(refused)?;
        }
        let columns = if insert.columns.is_empty() { "1".to_owned() } else { insert.column_list() };
        Ok(Self {
            insert,
            // A row that is refused first may stay in the end, if the row that holds its key goes.
            stops: refusals.stops && references.is_none(),
            with_values: refusals.with_values || refusals.stops,
            source: open(insert.staged).map_err(refused)?,
            select: format!("SELECT {columns} FROM main.{}", quote_identifier(insert.staged.table)),
            sql: format!("{}{returning}", insert.insert_sql()?),
            references,
            has_triggers: !declared.triggers.is_empty(),
            judge: insert.passes_over_keys().then(|| insert.judge_sql()).transpose()?,
            has_one_key: declared.unique_keys() == 1,
        })
    }

    /// Inserts all rows that SQLite takes.
    fn run(&self, attached: bool, counts: &Counts, outcome: &mut Outcome) -> Result<Inserted> {
        let failed = |error| self.failed(error);
        let mut stretches = if attached && self.references.is_none() {
            Stretches::prepare(self.insert, counts).map_err(failed)?
        } else {
            None
        };
        let sql = |sql: &str| self.insert.transaction.execute_batch(sql).map_err(failed);
        let dangling_before = self.dangling().map_err(failed)?;
        let mut without: BTreeMap<u64, RefusedRow> = BTreeMap::new();
        sql("SAVEPOINT leafpress_rows")?;
        let mut passes = 0;
        loop {
            passes += 1;
            let mut pass = Pass::default();
            match &mut stretches {
                Some(stretches) => self.pass_in_stretches(stretches, &mut pass)?,
                None => self.pass(&mut without, &mut pass)?,
            }
            let mut dangling = self.dangling().map_err(failed)?;
            dangling.retain(|identity, _| {
                pass.numbers.contains_key(identity) && !dangling_before.contains_key(identity)
            });
            if dangling.is_empty() {
                self.insert.record_rows(outcome, pass.changed);
                pass.refused.extend(without);
                sql("RELEASE leafpress_rows")?;
                let refused = pass.refused.into_values().collect();
                let in_stretches = stretches.is_some();
                return Ok(Inserted { changed: pass.changed, refused, passes, in_stretches });
            }
            let consequences = self.consequences(&pass, &without, &dangling);
            let mut consequences = consequences.map_err(failed)?;
            sql("ROLLBACK TO leafpress_rows")?;
            if self.insert.mode == InsertMode::Upsert {
                self.leave_changed_undecided(&mut consequences).map_err(failed)?;
            }
            let mut with_them = Vec::new();
            for (identity, reason) in dangling {
                let first = pass.numbers[&identity];
                without.insert(first, refers_to_nothing(first, reason));
                consequences.remove_with_dependants(first, |number| with_them.push(number));
            }
            if consequences.nothing_contested || passes > PASSES_WITH_ALL_CHANGES {
                for number in with_them {
                    let reason = no_such_row(&self.insert.declared.name);
                    let row = || refers_to_nothing(number, reason);
                    without.entry(number).or_insert_with(row);
                }
            }
        }
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        self.insert.target.refused("insert the rows", error)
    }

    /// Calls `visit` for each staged row with its ordinal, until `visit` ends it.
    fn each_row(
        &self,
        mut visit: impl FnMut(u64, &Row<'_>) -> rusqlite::Result<ControlFlow<()>>,
    ) -> rusqlite::Result<()> {
        let mut select = self.source.prepare(&self.select)?;
        let mut rows = select.query([])?;
        let mut number = 0_u64;
        while let Some(row) = rows.next()? {
            let this = number;
            number += 1;
            let is_look = number.is_multiple_of(ROWS_BETWEEN_LOOKS);
            if is_look && self.insert.settings.cancel.is_cancelled() {
                return Err(interrupted());
            }
            if visit(this, row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Inserts all rows except those in `without`.
    fn pass(&self, without: &mut BTreeMap<u64, RefusedRow>, pass: &mut Pass) -> Result<()> {
        let Insert { transaction, columns, .. } = *self.insert;
        let mut statement = transaction.prepare(&self.sql).map_err(|error| self.failed(error))?;
        let mut is_rolled_back = None;
        let passed = self.each_row(|number, row| {
            let show = || self.with_values.then(|| shown(row, columns.len()));
            if let Some(refused) = without.get_mut(&number) {
                refused.values = refused.values.take().or_else(show);
                return Ok(Continue(()));
            }
            let Err(error) = self.insert_row(&mut statement, row, number, pass) else {
                return Ok(Continue(()));
            };
            if !is_fault_of_a_row(&error) {
                return Err(error);
            }
            let refused = RefusedRow { values: show(), ..RefusedRow::new(number, &error) };
            if transaction.is_autocommit() {
                is_rolled_back = Some(refused.reason);
                return Ok(Break(()));
            }
            pass.refused.insert(number, refused);
            Ok(if self.stops { Break(()) } else { Continue(()) })
        });
        match is_rolled_back {
            Some(reason) => Err(self.rolled_back(reason)),
            None => passed.map_err(|error| self.failed(error)),
        }
    }

    /// Inserts all rows, those between two refused ones by one statement.
    fn pass_in_stretches(&self, stretches: &mut Stretches<'_>, pass: &mut Pass) -> Result<()> {
        let failed = |error| self.failed(error);
        let mut number = 0;
        loop {
            let Stretch { inserted, refused } = stretches.insert_from(number).map_err(failed)?;
            pass.changed += inserted;
            number += inserted;
            let Some(error) = refused else { return Ok(()) };
            if !is_fault_of_a_row(&error) {
                return Err(failed(error));
            }
            let mut refused = RefusedRow::new(number, &error);
            if self.insert.transaction.is_autocommit() {
                return Err(self.rolled_back(refused.reason));
            }
            if self.with_values {
                refused.values = Some(stretches.shown(number).map_err(failed)?);
            }
            pass.refused.insert(number, refused);
            if self.stops {
                return Ok(());
            }
            number += 1;
        }
    }

    fn insert_row(
        &self,
        statement: &mut Statement<'_>,
        row: &Row<'_>,
        number: u64,
        pass: &mut Pass,
    ) -> rusqlite::Result<()> {
        let mut execute = |pass: &mut Pass| {
            let values = params_from_iter(values(row, self.insert.columns.len())?);
            if self.references.is_some() {
                pass.insert_known(statement, values, number)?;
            } else {
                pass.changed += statement.execute(values)? as u64;
            }
            Ok(())
        };
        if !self.has_triggers {
            return execute(pass);
        }
        insert_whole(self.insert.transaction, || {
            let changed = pass.changed;
            execute(pass)?;
            let Some(judge) = self.judge.as_ref().filter(|_| pass.changed == changed) else {
                return Ok(());
            };
            // The row has taken a number of AUTOINCREMENT, and would get another one now.
            undo_row(self.insert.transaction)?;
            self.judge(judge, row)?;
            execute(pass)
        })
    }

    /// The refusal of a row that the statement passed over, if one of its keys is taken.
    fn judge(&self, sql: &str, row: &Row<'_>) -> rusqlite::Result<()> {
        let Insert { transaction, columns, ref declared, .. } = *self.insert;
        let values = params_from_iter(values(row, columns.len())?);
        let judged = transaction.prepare_cached(sql)?.execute(values);
        if transaction.is_autocommit() {
            return judged.map(drop);
        }
        undo_row(transaction)?;
        let Err(error) = judged else { return Ok(()) };
        // A trigger's statement, which inherits OR ABORT, may fail for a reason of its own.
        if names_key_of(declared, &sqlite_says(&error)) { Err(error) } else { Ok(()) }
    }

    /// Rows of the table with a foreign key that does not hold, each with the reason.
    fn dangling(&self) -> rusqlite::Result<HashMap<String, String>> {
        let mut found = HashMap::new();
        let Some(references) = &self.references else { return Ok(found) };
        let mut ask = |sql: &str, reason: fn(String) -> String| -> rusqlite::Result<()> {
            let mut statement = self.insert.transaction.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.insert(row.get(0)?, reason(row.get(1)?));
            }
            Ok(())
        };
        // A row that is changed finds itself, by any value of its key.
        if self.insert.mode != InsertMode::Upsert {
            references.unlike.iter().try_for_each(|sql| ask(sql, |reason| reason))?;
        }
        references.dangling.iter().try_for_each(|sql| ask(sql, |parent| no_such_row(&parent)))?;
        Ok(found)
    }

    /// The consequences for other rows if rows go. Called after a pass.
    fn consequences(
        &self,
        pass: &Pass,
        without: &BTreeMap<u64, RefusedRow>,
        dangling: &HashMap<String, String>,
    ) -> rusqlite::Result<Consequences> {
        let mut consequences = Consequences { nothing_contested: true, ..Consequences::default() };
        for sql in self.references.iter().flat_map(|it| &it.children) {
            let mut statement = self.insert.transaction.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (child, parent): (String, String) = (row.get(0)?, row.get(1)?);
                let numbers = (pass.numbers.get(&child), pass.numbers.get(&parent));
                if let (Some(&child), Some(&parent)) = numbers {
                    consequences.children.entry(parent).or_default().push(child);
                }
            }
        }
        if consequences.children.is_empty() && !self.has_one_key {
            return Ok(consequences);
        }
        let inserted: HashSet<u64> = pass.numbers.values().copied().collect();
        self.each_holder(
            |number| {
                !inserted.contains(&number)
                    && !without.contains_key(&number)
                    && pass.refused.get(&number).is_none_or(RefusedRow::may_come_later)
            },
            |number, identity, refers_alike| {
                let Some(&holder) = pass.numbers.get(&identity) else { return };
                if refers_alike && self.has_one_key {
                    consequences.substitutes.entry(holder).or_default().push(number);
                    return;
                }
                consequences.contested.insert(holder);
                if !refers_alike || dangling.contains_key(&identity) {
                    consequences.undecided.insert(holder);
                }
            },
        )?;
        Ok(consequences)
    }

    /// Notes rows that took the place of a row of the table before the pass. That row has the key
    /// again when they go.
    fn leave_changed_undecided(&self, consequences: &mut Consequences) -> rusqlite::Result<()> {
        let mut changed = Vec::new();
        self.each_holder(
            |number| consequences.children.contains_key(&number),
            |number, _, _| changed.push(number),
        )?;
        consequences.contested.extend(&changed);
        consequences.undecided.extend(changed);
        Ok(())
    }

    /// Calls `found` for each chosen row, with the row of the table that has one of its keys, and
    /// with true if both refer to the same rows.
    fn each_holder(
        &self,
        is_chosen: impl Fn(u64) -> bool,
        mut found: impl FnMut(u64, String, bool),
    ) -> rusqlite::Result<()> {
        let holders = self.references.iter().flat_map(|it| &it.holders);
        let prepare = |sql: &String| self.insert.transaction.prepare(sql);
        let mut queries = holders.map(prepare).collect::<Result<Vec<_>, _>>()?;
        if queries.is_empty() {
            return Ok(());
        }
        self.each_row(|number, row| {
            if !is_chosen(number) {
                return Ok(Continue(()));
            }
            for query in &mut queries {
                for (place, value) in values(row, query.parameter_count())?.iter().enumerate() {
                    query.raw_bind_parameter(place + 1, value)?;
                }
                let mut rows = query.raw_query();
                while let Some(holder) = rows.next()? {
                    found(number, holder.get(0)?, holder.get(1)?);
                }
            }
            Ok(Continue(()))
        })
    }

    fn rolled_back(&self, reason: String) -> Error {
        constraint(&self.insert.declared.name, reason).to_do(ROLLED_BACK_TO_DO)
    }
}

/// Returns true if SQLite's reason is that a key of this table is taken. It names the columns of the key,
/// or an index that has an expression.
fn names_key_of(declared: &DeclaredTable, reason: &str) -> bool {
    let Some(key) = reason.strip_prefix("UNIQUE constraint failed: ") else { return false };
    let mut indexes = declared.indexes.iter().map(|it| it.name.replace('\'', "''"));
    key.starts_with(&format!("{}.", declared.name))
        || indexes.any(|name| key == format!("index '{name}'"))
}

/// The reason for a row whose foreign key has no parent row.
pub(in crate::load) fn no_such_row(parent: &str) -> String {
    format!("FOREIGN KEY constraint failed: there is no such row of {parent}")
}

fn refers_to_nothing(number: u64, reason: String) -> RefusedRow {
    let code = ffi::SQLITE_CONSTRAINT_FOREIGNKEY;
    RefusedRow { number, reason, code, values: None }
}

/// One pass over the rows.
#[derive(Default)]
struct Pass {
    changed: u64,
    refused: BTreeMap<u64, RefusedRow>,
    /// Ordinals of the rows that are in, by their identities.
    numbers: HashMap<String, u64>,
}

impl Pass {
    /// Inserts a row by a statement that returns its identity.
    fn insert_known<P: Params>(
        &mut self,
        statement: &mut Statement<'_>,
        values: P,
        number: u64,
    ) -> rusqlite::Result<()> {
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            self.changed += 1;
            self.numbers.insert(row.get(0)?, number);
        }
        Ok(())
    }
}

/// Consequences for other rows when rows go.
#[derive(Default)]
struct Consequences {
    /// For each row: the rows that refer to it.
    children: HashMap<u64, Vec<u64>>,
    /// For each row: the rows that have its key and refer to the same rows. They take its place
    /// when it goes, and have to go, too.
    substitutes: HashMap<u64, Vec<u64>>,
    /// Rows whose key may go to another row in the next pass: to one that refers to other rows,
    /// or to the same rows, where one of these was only refused for a key. The next pass decides
    /// about them and the rows that go with them.
    ///
    /// With `id` as the key and `parent` referring to it, of the rows (1, 7), (1, NULL), (2, 1) the
    /// second one is refused, as 1 is taken, and the first one goes, as there is no 7. Then the second
    /// one may stay, and be the parent of the third.
    undecided: HashSet<u64>,
    /// Rows with a key that another row has, which may come when they go. It includes `undecided`.
    contested: HashSet<u64>,
    /// True while no row was removed whose key another row waits for: then nothing else changes in
    /// the table when the rows go.
    nothing_contested: bool,
}

impl Consequences {
    /// Removes a row and all rows that go with it, and calls `visit` for each of these.
    fn remove_with_dependants(&mut self, first: u64, mut visit: impl FnMut(u64)) {
        let mut waiting = vec![first];
        while let Some(number) = waiting.pop() {
            self.nothing_contested &= !self.contested.contains(&number);
            if self.undecided.contains(&number) {
                continue;
            }
            let substitutes = self.substitutes.remove(&number).unwrap_or_default();
            let children = self.children.remove(&number).unwrap_or_default();
            for row in substitutes.into_iter().chain(children) {
                if !self.undecided.contains(&row) {
                    visit(row);
                }
                waiting.push(row);
            }
        }
    }
}

fn interrupted() -> rusqlite::Error {
    let code = ffi::Error::new(ffi::SQLITE_INTERRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}
