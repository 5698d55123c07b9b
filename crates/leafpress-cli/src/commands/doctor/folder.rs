//! Checks of the files in the folder: what was left behind, names, permissions.
//!
//! Must never: advise to delete a journal or a log that holds something.

use std::path::Path;

use leafpress::neighbours::{FileFacts, Which};
use leafpress::path_text;

use super::evidence::{Evidence, Journal, quoted};
use crate::human;
use crate::summary::finding::{Check, Finding};

/// Permissions of owner, group and others.
const RIGHTS: u32 = 0o777;
const GROUP_MAY_WRITE: u32 = 0o020;

/// Check 29.
pub fn left_behind(evidence: &Evidence) -> Finding {
    let check = Check(29, "journal and log beside the database");
    let path = quoted(&evidence.now.database);
    let log_bytes = evidence.bytes_of(Which::Log);
    let holds = !matches!(evidence.journal, Journal::None | Journal::Done | Journal::InUse);
    if evidence.bytes_of(Which::Database) == 0 && (log_bytes > 0 || holds) {
        let (what, bytes) = match log_bytes {
            0 => ("journal", evidence.bytes_of(Which::Journal)),
            bytes => ("write-ahead log", bytes),
        };
        let is_there = evidence.now.file(Which::Database).is_some();
        let how = if is_there { "is empty" } else { "is not there" };
        return check.care(
            format!("there is a {what} of {}, and the database {how}", human::bytes(bytes)),
            "it may hold the last of what was committed; SQLite deletes it as soon as a new \
             database of that name is opened",
            format!(
                "put {path} back beside it if there is a copy; else move the file away before the \
                 name is used again"
            ),
        );
    }
    match &evidence.journal {
        Journal::WithoutSuper(named) => without_super(check, evidence, named),
        Journal::Hot => check.care(
            format!(
                "a journal of {} holds a transaction that was cut off, and no process is at it",
                human::bytes(evidence.bytes_of(Which::Journal))
            ),
            "the database is half written until the journal is rolled back; who copies it without \
             the journal, or deletes the journal, has a damaged database",
            format!("sqlite3 {path} 'PRAGMA schema_version' (the first to open it rolls it back)"),
        ),
        Journal::Unreadable => check.unknown("the journal may not be read by this user"),
        _ if log_bytes > 0 && evidence.now.others().next().is_none() => check.ok(
            "the log holds what a program left that did not close the database; the next to open \
             it reads that too, so copy the files together",
        ),
        Journal::InUse => check.ok("the journal belongs to a transaction that is going on"),
        Journal::Done => check.ok("the journal is done with, and kept for the next transaction"),
        Journal::None => check.ok("nothing was left behind"),
    }
}

/// A journal whose super-journal is gone. That commits the transaction in all of its databases at
/// once. But SQLite finds the super-journal by its whole path, and so not either if the files were
/// moved or copied to another folder.
fn without_super(check: Check, evidence: &Evidence, named: &Path) -> Finding {
    let seen = format!(
        "a journal of a transaction over several databases, whose super-journal {} is not there",
        path_text(named)
    );
    let folder = evidence.now.database.parent();
    // Its name is that of one of the databases, and more behind.
    let name = named.to_str().and_then(|name| name.rsplit_once("-mj"));
    let of = name.map(|(database, _)| Path::new(database));
    let is_moved_along =
        folder.zip(named.file_name()).is_some_and(|(it, name)| it.join(name).exists());
    if is_moved_along || !of.is_some_and(Path::exists) {
        return check.care(
            if is_moved_along {
                format!("{seen}, but beside this database")
            } else {
                format!("{seen}, nor is its database")
            },
            "the files seem to be moved or copied: SQLite then takes the transaction for committed \
             and removes the journal, and the database may stay half written",
            "put all files of the transaction back to where they were before one of its databases \
             is opened",
        );
    }
    let committed = "to SQLite the transaction is committed, and the next to open the database \
                     removes the journal";
    if of.and_then(Path::parent) == folder {
        return check.ok(format!("{seen}: {committed}"));
    }
    check.unknown(format!(
        "{seen}: {committed}. That is right unless the database was moved or copied with its journal"
    ))
}

/// Check 30.
pub fn names(evidence: &Evidence) -> Finding {
    let check = Check(30, "names of the database");
    let file = evidence.now.file(Which::Database);
    let Some(names) = file.and_then(|file| file.names) else {
        return check.unknown("it is not there, or the system does not count names");
    };
    if names > 1 {
        return check.care(
            format!("the file has {names} names (hard links)"),
            "SQLite looks for journal and log beside the name by which it was opened: programs \
             with different names do not see each other's, and damage the database",
            format!(
                "find the others: find FOLDER -samefile {}; keep one, or make the others symbolic \
                 links",
                quoted(&evidence.now.database)
            ),
        );
    }
    let mount_point = evidence.now.file_system.as_ref().and_then(|it| it.mount_point.as_deref());
    if mount_point == Some(&*evidence.now.database) {
        return check.care(
            "the file is mounted alone, so it has another name elsewhere",
            "SQLite looks for journal and log beside the name by which it was opened, and these \
             stay outside of the mount: programs at both sides do not see each other's, and damage \
             the database; a container that is removed takes the log with it",
            "mount the folder of the database in the place of the file",
        );
    }
    let is_link = evidence.named.is_symlink();
    check.ok(if is_link {
        format!(
            "a link to {}, beside which journal and log stand",
            path_text(&evidence.now.database)
        )
    } else {
        "one".to_owned()
    })
}

/// Check 31.
pub fn permissions(evidence: &Evidence) -> Finding {
    let check = Check(31, "owners and permissions");
    let Some(database) = evidence.now.file(Which::Database) else {
        return check.unknown("the database is not there");
    };
    if database.mode.is_none() {
        return check.unknown("this system has none that could be compared");
    }
    let beside = evidence.now.files.iter().filter(|file| file.which != Which::Database);
    for file in beside {
        if let Some(difference) = difference(database, file) {
            let (from, to) = (quoted(&database.path), quoted(&file.path));
            return check.care(
                format!("{} {difference}", path_text(&file.path)),
                "a program that may open the database cannot open it: \"attempt to write a \
                 readonly database\", \"unable to open database file\", or data that it cannot see",
                format!("chown --reference={from} {to} && chmod --reference={from} {to}"),
            );
        }
    }
    check.ok("the files beside the database have its owner and permissions")
}

/// SQLite gives the files beside a database its permissions, and as root its owner too. Members
/// of a group may share one. The file by which writers share a database is for those alone who may
/// read and write it.
fn difference(database: &FileFacts, file: &FileFacts) -> Option<String> {
    let (of_database, of_file) = (database.mode? & RIGHTS, file.mode? & RIGHTS);
    let may_write = of_database & (of_database >> 1) & 0o222;
    let is_for_writers = file.which == Which::Sharing && of_file == may_write | may_write << 1;
    if of_database != of_file && !is_for_writers {
        return Some(format!("has the permissions {of_file:03o}, the database {of_database:03o}"));
    }
    if database.group != file.group {
        return Some(format!(
            "belongs to group {}, the database to group {}",
            file.group?, database.group?
        ));
    }
    let is_shared = of_file & GROUP_MAY_WRITE != 0;
    (database.owner != file.owner && !is_shared).then(|| {
        let number = |owner: Option<u32>| owner.map_or_else(String::new, |it| it.to_string());
        let (owner, other) = (number(file.owner), number(database.owner));
        format!("belongs to user {owner}, the database to user {other}")
    })
}
