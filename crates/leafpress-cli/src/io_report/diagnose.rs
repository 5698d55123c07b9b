//! The reasons why a transaction was not one page written in place, and what to change.
//!
//! SQLite commits without a journal only where a transaction changes one page of
//! one database. So each page beyond the first is a reason, and its owner names it;
//! and where there was only one, the reason lies in the settings or the disk.
//!
//! Must never: give advice that changes what a commit promises.

use std::collections::{BTreeMap, BTreeSet};

use leafpress::vfs::atomic::{AtomicState, WhyJournal};

use super::causes::Cause;
use super::owners::{Owner, Schema, Schemas};
use super::report::HowCommitted;
use super::trace::{Change, PageKind};

/// A table that a statement writes to, as SQLite said when it was prepared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableWrite {
    pub table: String,
    /// The trigger that does it.
    pub trigger: Option<String>,
}

/// One transaction, with the facts that a diagnosis needs.
pub(super) struct Case<'a> {
    pub how: HowCommitted,
    pub changes: &'a [Change],
    pub writes: &'a BTreeSet<TableWrite>,
    /// The state before the transaction: how a commit of one page would have been made.
    pub state: &'a AtomicState,
    /// Its statements.
    pub sql: &'a dyn Fn() -> String,
}

/// The reasons that lie in what the transaction does: none if it changed one page.
pub(super) fn causes_in_pages(case: &Case<'_>, schemas: &Schemas) -> BTreeSet<Cause> {
    let mut causes = BTreeSet::new();
    if case.changes.len() > 1 {
        causes.insert(Cause::Attached { databases: case.changes.len() });
    }
    for change in case.changes {
        if change.has_new_schema() {
            causes.insert(Cause::Schema);
        } else if change.pages > 1 {
            causes.extend(causes_in_database(case, change, schemas.of(&change.path)));
        }
    }
    causes
}

/// The reasons that lie in the settings and the disk.
pub(super) fn causes_around(case: &Case<'_>, is_of_one_page: bool) -> BTreeSet<Cause> {
    let found = match (case.how, case.state) {
        (HowCommitted::InPlace, _) => None,
        (HowCommitted::Log, _) => Some(Cause::Log),
        (HowCommitted::Unprotected, _) => Some(Cause::Unprotected),
        (_, AtomicState::Journal { why }) => cause_of(why, is_of_one_page),
        (_, AtomicState::Whole { .. }) if is_of_one_page => Some(Cause::Unknown),
        _ => None,
    };
    found.into_iter().collect()
}

fn cause_of(why: &WhyJournal, is_of_one_page: bool) -> Option<Cause> {
    match why {
        WhyJournal::NoAtomicWrites(why) => Some(Cause::NoAtomicWrites(why.to_string())),
        WhyJournal::PageSize { page_bytes, units } => Some(Cause::PageSize {
            page_bytes: *page_bytes,
            bytes_min: units.bytes_min,
            bytes_max: units.bytes_max,
        }),
        WhyJournal::CompileOptions(what) => Some(Cause::CompileOptions(what)),
        WhyJournal::JournalOpen => is_of_one_page.then_some(Cause::JournalOpen),
        WhyJournal::Refused => Some(Cause::NoAtomicWrites(why.to_string())),
        // Not known yet, WAL mode, or a connection that only reads.
        _ => is_of_one_page.then_some(Cause::Unknown),
    }
}

/// The pages of one B-tree in one transaction.
#[derive(Default)]
struct Touched {
    pages: u32,
    overflow: u32,
    has_new: bool,
}

fn causes_in_database(
    case: &Case<'_>,
    change: &Change,
    schema: Option<&Schema>,
) -> BTreeSet<Cause> {
    let Some(schema) = schema else { return BTreeSet::from([Cause::Unknown]) };
    let names: BTreeSet<String> = case.writes.iter().map(|it| it.table.clone()).collect();
    let mut causes = BTreeSet::new();
    let mut trees: BTreeMap<String, Touched> = BTreeMap::new();
    let mut unowned = BTreeSet::new();
    for &(page, kind) in &change.kept {
        if schema.is_pointer_map(page) {
            causes.insert(Cause::PointerMap);
            continue;
        }
        let Some(Owner { tree, is_overflow }) = schema.owner_then(page, kind, &names) else {
            unowned.insert(kind);
            continue;
        };
        let touched = trees.entry(tree).or_default();
        touched.pages += u32::from(!is_overflow);
        touched.overflow += u32::from(is_overflow);
        touched.has_new |= change.is_new(page) && !is_overflow;
    }
    let mut tables = BTreeSet::new();
    for (name, touched) in &trees {
        let Some(tree) = schema.trees.get(name) else { continue };
        causes.extend(causes_in_tree(change, schema, (name, touched), &names));
        let is_own = !tree.is_index && !tree.table.starts_with("sqlite_");
        if is_own {
            tables.insert(tree.table.clone());
        }
    }
    if tables.len() > 1 {
        causes.extend(causes_of_tables(case, schema, &tables));
    }
    let is_freed = matches!((change.before, change.after), (Some(before), Some(after))
        if after.free_pages > before.free_pages);
    if is_freed {
        causes.insert(Cause::Freed);
    }
    if causes.is_empty() {
        causes.insert(cause_of_unowned(change, &unowned, &names));
    }
    causes
}

/// The cause if no page has an owner any more, since the rest of the script has freed the
/// pages: it is told from the pages' kinds and the tables written to.
fn cause_of_unowned(
    change: &Change,
    kinds: &BTreeSet<PageKind>,
    tables: &BTreeSet<String>,
) -> Cause {
    let is_overflow = !kinds.is_empty() && kinds.iter().all(|it| *it == PageKind::Other);
    match (tables.first(), tables.len()) {
        (None, _) => Cause::Unknown,
        (Some(table), 1) if !change.has_new_pages() => Cause::Pages { table: table.clone() },
        (Some(table), 1) if is_overflow => Cause::Overflow { table: table.clone() },
        (Some(table), 1) => Cause::Split { table: table.clone() },
        _ => Cause::Tables(tables.iter().cloned().collect()),
    }
}

fn causes_in_tree(
    change: &Change,
    schema: &Schema,
    (name, touched): (&str, &Touched),
    names: &BTreeSet<String>,
) -> BTreeSet<Cause> {
    let mut causes = BTreeSet::new();
    let Some(tree) = schema.trees.get(name) else { return causes };
    let table = tree.table.clone();
    if tree.is_index {
        let index = name.to_owned();
        let is_automatic = tree.is_automatic;
        causes.insert(Cause::Index { table: table.clone(), index, is_automatic });
    } else if name == "sqlite_sequence" {
        let is_written = |it: &&String| names.iter().any(|name| name.eq_ignore_ascii_case(it));
        let tables = schema.autoincrement.iter().filter(is_written);
        causes.extend(tables.map(|table| Cause::Autoincrement { table: table.clone() }));
        return causes;
    }
    if touched.overflow > 0 {
        causes.insert(Cause::Overflow { table: table.clone() });
    }
    let is_more = touched.pages > 1;
    let took_free = is_more && touched.overflow == 0 && change.has_new_pages();
    // Of an index, one changed page is too many already.
    if !tree.is_index && (touched.has_new || took_free) {
        causes.insert(Cause::Split { table });
    } else if is_more && !tree.is_index {
        causes.insert(Cause::Pages { table });
    }
    causes
}

/// The causes of writing to more than one table.
fn causes_of_tables(
    case: &Case<'_>,
    schema: &Schema,
    tables: &BTreeSet<String>,
) -> BTreeSet<Cause> {
    let mut causes = BTreeSet::new();
    let mut direct = Vec::new();
    let sql = (case.sql)().to_lowercase();
    for table in tables {
        let same = |it: &&TableWrite| it.table.eq_ignore_ascii_case(table);
        let mut writes = case.writes.iter().filter(same);
        let trigger = writes.clone().find_map(|it| it.trigger.clone());
        let is_direct = writes.any(|it| it.trigger.is_none());
        let action = schema.actions.iter().find(|it| {
            it.child.eq_ignore_ascii_case(table)
                && tables.iter().any(|other| other.eq_ignore_ascii_case(&it.parent))
        });
        match (trigger, action) {
            (Some(trigger), _) if !is_direct => {
                causes.insert(Cause::Trigger { table: table.clone(), trigger });
            }
            // SQLite does not say which writes are a foreign key's; but the
            // statement that makes it act need not name the child.
            (_, Some(action)) if !sql.contains(&table.to_lowercase()) => {
                let (parent, child) = (action.parent.clone(), action.child.clone());
                causes.insert(Cause::ForeignKey { parent, child });
            }
            _ => direct.push(table.clone()),
        }
    }
    if direct.len() > 1 {
        causes.insert(Cause::Tables(direct));
    }
    causes
}
