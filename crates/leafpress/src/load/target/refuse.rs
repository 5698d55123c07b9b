//! Refusals of what the destination cannot take, from the options and declarations alone.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::load::options::{IntoTable, LoadOptions, OnConflict};
use crate::load::passes::plan::{index_requests, made_table};
use crate::load::preset::Layout;
use crate::schema::ddl::IndexRequest;
use crate::schema::describe::describe_index;
use crate::schema::names::{column_named, names_there};
use crate::schema::shape::{IndexShape, TableShape};

/// Refuses what the final database of the table cannot have.
pub fn check_for_later(options: &LoadOptions, declared: Option<&TableShape>) -> Result<()> {
    let Some((page_bytes, names)) = &options.later_database else { return Ok(()) };
    refuse_other_order(options)?;
    refuse_other_page_size(options, *page_bytes)?;
    let is_taken = |name: &str| names.iter().any(|it| it.eq_ignore_ascii_case(name));
    let mut indexes = declared.into_iter().flat_map(|it| &it.indexes);
    match indexes.find(|it| it.sql.is_some() && is_taken(&it.name)) {
        None => Ok(()),
        Some(index) => Err(Error::destination(
            options.destination(),
            format!("its name {} for an index is taken already", index.name),
        )
        .to_do("give the index another name")),
    }
}

/// Refuses another order of pages for a database that exists.
pub fn refuse_other_order(options: &LoadOptions) -> Result<()> {
    if options.layout() == Layout::Local && options.preset.is_none() {
        return Ok(());
    }
    Err(Error::misuse(
        "only a new database can have a preset or another order of its pages, and this one exists",
    )
    .to_do("leave out ⟦preset⟧ and ⟦layout⟧, or load into a new file"))
}

/// Refuses another page size for a database that exists, with pages of this size.
pub fn refuse_other_page_size(options: &LoadOptions, page_bytes: u32) -> Result<()> {
    match options.given_page_bytes.filter(|&it| it != page_bytes) {
        None => Ok(()),
        Some(given) => Err(Error::misuse(format!(
            "{} exists, and its pages have {page_bytes} bytes, not {given}: only a new database can have \
             another page size",
            options.destination()
        ))
        .to_do("leave out ⟦page_size⟧, or load into a new file")),
    }
}

/// The way in which a missing table is made, for rows that are added, ignored or changed in one.
pub fn way_to_make(options: &LoadOptions) -> &'static str {
    match options.into {
        Some(IntoTable::Upsert) if !options.primary_key.is_empty() => {
            "⟦append⟧ with ⟦on_conflict_replace⟧ makes a missing table"
        }
        Some(IntoTable::Upsert | IntoTable::Ignore) => {
            "with ⟦primary_key⟧ a missing table is made, and the same call works again later"
        }
        _ => "load without ⟦append⟧ and the like to make a new table",
    }
}

/// Refuses a declaration of more than a table and its indexes: nothing else is moved into an
/// existing database.
pub fn refuse_others(declared: &TableShape) -> Result<()> {
    if declared.beside.is_empty() {
        return Ok(());
    }
    let first = declared.beside[0].lines().next().unwrap_or_default();
    Err(Error::misuse(format!(
        "the schema declares more than the table '{}' and its indexes, which is all that can be \
         moved into a database that is there: {first} …",
        declared.name
    ))
    .to_do(
        "run the other statements in the database itself; for a trigger that must see the \
            rows, declare all of it there and load with ⟦append⟧",
    ))
}

/// Finds a key, index or other rule that the options ask for and a table lacks, and names the option;
/// `None` if it has all, so that the call that made it may be repeated.
///
/// # Errors
/// If it has no column of a name in the options.
pub fn missing_rule(
    options: &LoadOptions,
    there: &TableShape,
    primary_key: &[&str],
) -> Result<Option<(String, &'static str)>> {
    if options.strict && !there.strict {
        return Ok(Some(("is not STRICT".to_owned(), "⟦strict⟧")));
    }
    let names = names_there(there.columns.iter().map(|column| column.name.as_str()));
    let types = there.columns.iter().map(|column| column.plain_type().to_owned());
    let columns: Vec<_> = names.iter().cloned().zip(types).collect();
    let asked = made_table(options, (&there.name, &[]), &columns)?;
    let has_index = |request: &IndexRequest| {
        let name = "leafpress probe";
        let asked = describe_index(there, request.create_sql(name, &there.name), name);
        let alike = |it: &IndexShape, asked: &IndexShape| {
            it.unique == asked.unique
                && it.entry == asked.entry
                && it.through_sql == asked.through_sql
        };
        asked.is_some_and(|asked| there.indexes.iter().any(|it| alike(it, &asked)))
    };
    // The index of a primary key comes before those that the options name.
    let of_key = asked.indexes.len().saturating_sub(options.indexes.len());
    let key = asked.constraint_columns(usize::from(of_key > 0)).into_iter().collect();
    let own = primary_key.iter().filter_map(|name| column_named(&names, name).ok());
    let own: BTreeSet<usize> = own.collect();
    let requests = index_requests(options, &names)?;
    let has_key = options.primary_key.is_empty()
        || own == key
        || (own.is_empty() && there.has_unique_index_of(&key));
    let takes_null = |name: &&String| {
        let at = column_named(&names, name).ok();
        at.is_none_or(|at| !there.columns[at].not_null && there.rowid_column != Some(at))
    };
    let missing_index = options.indexes.iter().zip(&requests).find(|(_, it)| !has_index(it));
    Ok(if !has_key {
        Some(("has another primary key".to_owned(), "⟦primary_key⟧"))
    } else if options.without_rowid && there.key.is_none() {
        Some(("is not WITHOUT ROWID".to_owned(), "⟦without_rowid⟧"))
    } else if let Some(((columns, is_unique), _)) = missing_index {
        let (kind, option) =
            if *is_unique { ("unique index", "⟦unique⟧") } else { ("index", "⟦index⟧") };
        Some((format!("has no {kind} of {columns}"), option))
    } else {
        let nullable = options.not_null.iter().find(takes_null);
        nullable.map(|name| (format!("takes NULL in its column '{name}'"), "⟦not_null⟧"))
    })
}

/// Refuses a choice among rows that share a key, for a table without any.
pub fn refuse_without_key(options: &LoadOptions, table: &TableShape) -> Result<()> {
    let ignores = options.into == Some(IntoTable::Ignore);
    if (options.on_conflict == OnConflict::Abort && !ignores) || table.is_unique() {
        return Ok(());
    }
    if ignores {
        let reason = format!("{} has no key, so no row is there already", table.name);
        return Err(Error::misuse(reason).to_do(
            "name the key of a new table by ⟦primary_key⟧ or ⟦unique⟧; make a unique index of the \
             columns that tell the rows of one that is there apart; or load with ⟦append⟧",
        ));
    }
    Err(Error::misuse(format!("{} has no key, so no two rows can share one", table.name))
        .to_do("name the key by ⟦primary_key⟧ or ⟦unique⟧, or leave out ⟦on_conflict⟧"))
}
