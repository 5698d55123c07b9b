//! Commits of transactions that change one page: in place, where the disk writes pages whole, or
//! with a journal.
//!
//! Stands beside [`super::open`], which asks it for the VFS to go through, and
//! [`InForce`](super::InForce), which asks it for the outcome. The work is that of
//! [`crate::vfs::atomic`].
//!
//! Must never: let a connection through that was promised something else, or
//! fail an opening because only a journal can be had. A journal is as safe.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use super::settings::{JournalMode, Locking, MAIN, ask};
use super::{Profile, ProfileRequest, locking};
use crate::error::{Error, Result};
use crate::paths::folder_of;
use crate::vfs::atomic::{
    AtomicProof, AtomicState, AtomicUnits, WhyJournal, check_compile_options,
    compile_options_missing,
};
use crate::vfs::connection::vfs_name;
use crate::vfs::{LeafpressVfs, leafpress_vfs, leafpress_vfs_assumed};
use crate::words::path_text;

/// Wish for pages that are written in place, without a journal ([`Profile::Rollback`] only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AtomicWish {
    /// In place if kernel, file system and disk say that they write a page whole or not at all, and
    /// with a journal everywhere else.
    #[default]
    WhereProven,
    /// By your word: as if the disk did, without asking. For file systems that
    /// do it in other ways and do not say so, as ZFS with a `recordsize` of a
    /// page or more. If the word is wrong, a power cut can damage the file.
    Assume,
    /// Never: each transaction has a journal.
    Off,
}

/// The name of the VFS to open `path` through; `None` is SQLite's own default.
///
/// # Errors
/// If [`AtomicWish::Assume`] cannot be had: else the caller would rely on it in vain.
pub(super) fn vfs_for(path: &Path, request: &ProfileRequest) -> Result<Option<String>> {
    if request.vfs.is_some() || request.profile != Profile::Rollback {
        return Ok(request.vfs.clone());
    }
    let assume = request.atomic == AtomicWish::Assume;
    if request.atomic == AtomicWish::Off || !cfg!(target_os = "linux") {
        return Ok(None);
    }
    if compile_options_missing().is_some() {
        // The journal is as safe, so only the word is refused.
        return if assume { Ok(check_compile_options().map(|()| None)?) } else { Ok(None) };
    }
    if !is_utf8(path) {
        let reason = format!("{} is no UTF-8, as Leafpress's VFS needs it", path_text(path));
        return if assume { Err(Error::unsupported(reason)) } else { Ok(None) };
    }
    let vfs = if assume { leafpress_vfs_assumed()? } else { leafpress_vfs()? };
    Ok(Some(vfs.name().to_owned()))
}

/// A word that could not be kept.
pub(super) fn check_wish(request: &ProfileRequest) -> Result<()> {
    if request.atomic != AtomicWish::Assume {
        return Ok(());
    }
    let refused = |reason: String, advice: &str| Err(Error::misuse(reason).to_do(advice));
    if request.profile != Profile::Rollback {
        let reason = format!(
            "pages can be written in place under the profile rollback only, and profile {} was \
             asked for",
            request.profile
        );
        return refused(reason, "choose the profile rollback, or take the word back");
    }
    if let Some(vfs) = &request.vfs {
        let reason = format!(
            "the VFS '{vfs}' is not Leafpress's, and only it writes pages in place on your word"
        );
        return refused(reason, "leave the VFS out, or take the word back");
    }
    if !cfg!(target_os = "linux") {
        let reason = "pages are written in place on Linux only".to_owned();
        return refused(reason, "take the word back; a journal is used then");
    }
    Ok(())
}

/// Way in which this connection would commit a transaction of one page now.
///
/// It can change: with [`Locking::Exclusive`] a larger transaction leaves a journal open, a
/// `VACUUM` can change the size of the pages, a `PRAGMA` the journal mode. For a database that has
/// no page yet the answer holds once it has one. `None` if the connection does not go through
/// Leafpress's VFS, as it does under [`Profile::Rollback`] unless told otherwise.
///
/// ```
/// use leafpress::Profile;
/// use leafpress::profile::{self, page_writes};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// let (connection, in_force) = profile::open(&path, &Profile::Rollback.into())?;
/// assert_eq!(page_writes(&connection)?, in_force.page_writes);
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// # Errors
/// SQLite's, if it cannot be asked. Nothing was changed.
pub fn page_writes(connection: &Connection) -> Result<Option<AtomicState>> {
    let Some((vfs, path)) = ours(connection) else {
        return Ok(compile_options_missing().map(|what| journal(WhyJournal::CompileOptions(what))));
    };
    let state = vfs.state(Path::new(path));
    if state != Some(journal(WhyJournal::NotKnownYet)) {
        return Ok(state);
    }
    let page_bytes: u32 = ask(connection, "page_size")
        .map_err(|source| Error::sqlite("tell the size of its pages", source))?;
    Ok(vfs.units(Path::new(path)).map(|units| match units {
        Ok(units) if units.cover(page_bytes) => AtomicState::Whole { by: units.by, page_bytes },
        Ok(units) => journal(WhyJournal::PageSize { page_bytes, units }),
        Err(why) => journal(WhyJournal::NoAtomicWrites(why)),
    }))
}

fn journal(why: WhyJournal) -> AtomicState {
    AtomicState::Journal { why }
}

/// Leafpress's VFS, if the connection goes through one of the two, and the path
/// of its database as that VFS knows it.
pub(crate) fn ours(connection: &Connection) -> Option<(&'static LeafpressVfs, &str)> {
    Some((LeafpressVfs::named(&vfs_name(connection)?)?, connection.path()?))
}

/// Closes the journal that a transaction of several pages has left open, so that
/// transactions of one page are committed in place again.
///
/// It is needed with [`Locking::Exclusive`] only: SQLite keeps the journal open
/// there, to have it at hand for the next transaction, and writes each to it
/// from then on. This costs nothing itself; the next transaction of several
/// pages then makes a journal anew, which is one sync more than without. The
/// [`Writer`](crate::writer::Writer) does it by itself where it pays.
///
/// Returns true if there was a journal to close.
///
/// # Errors
/// Inside of a transaction, which must be ended first. If SQLite does not take
/// the journal back into a file: do not write with that connection any more,
/// since a crash would damage the database. What is on disk was not changed.
pub fn regain_atomic_pages(connection: &Connection) -> Result<bool> {
    if !connection.is_autocommit() {
        return Err(Error::misuse("the journal can be closed between two transactions only")
            .on_disk("nothing was changed")
            .to_do("end the transaction first"));
    }
    // First what costs no call: nearly always nothing stands open.
    let Some((vfs, path)) = ours(connection).filter(|(vfs, path)| vfs.journal_is_open_at(path))
    else {
        return Ok(false);
    };
    let unanswered = |source| Error::sqlite("tell its settings", source);
    let mode: JournalMode = connection
        .pragma_query_value(MAIN, "journal_mode", |row| row.get(0))
        .map_err(unanswered)?;
    let held = locking::ask_locking(connection).map_err(unanswered)?;
    // If no page can be written in place, an open journal costs nothing.
    let stands_in_the_way = vfs.state(Path::new(path)) == Some(journal(WhyJournal::JournalOpen));
    if mode != JournalMode::Delete || held != Locking::Exclusive || !stands_in_the_way {
        return Ok(false);
    }
    locking::roll_back_what_failed(connection).map_err(|source| {
        Error::sqlite("read the database", source).on_disk("nothing was changed")
    })?;
    locking::close_journal(connection)?;
    Ok(true)
}

/// Returns true if the whole path is UTF-8, with its folder and the targets of links. SQLite's own
/// VFS takes any bytes, ours text.
fn is_utf8(path: &Path) -> bool {
    let found = dunce::canonicalize(path).or_else(|_| dunce::canonicalize(folder_of(path)));
    path.to_str().is_some() && found.is_ok_and(|it| it.to_str().is_some())
}

/// Meaning of an [`AtomicState`], and advice about it.
pub(super) fn in_words(state: &AtomicState) -> String {
    match state {
        AtomicState::Whole { by: AtomicProof::Hardware, page_bytes } => format!(
            "in place, hardware atomic: the disk writes a page of {page_bytes} bytes whole or not \
             at all"
        ),
        AtomicState::Whole { by: AtomicProof::Software, page_bytes } => format!(
            "in place, software atomic: the file system writes a page of {page_bytes} bytes whole \
             or not at all"
        ),
        AtomicState::Whole { by: AtomicProof::Assumed, page_bytes } => format!(
            "in place, ASSUMED atomic by your word: nothing proves that a page of {page_bytes} bytes \
             is written whole, and if it is not, a power cut can damage the file"
        ),
        AtomicState::Journal { why } => match advice(why) {
            Some(advice) => format!("with a journal: {why}; {advice}"),
            None => format!("with a journal: {why}"),
        },
    }
}

fn advice(why: &WhyJournal) -> Option<String> {
    match why {
        WhyJournal::PageSize { page_bytes, units } => Some(format!(
            "to change it: PRAGMA page_size={}; VACUUM",
            nearest_page_size(*page_bytes, *units)
        )),
        WhyJournal::JournalOpen => {
            Some("regain_atomic_pages closes it, and the Writer does so where it pays".to_owned())
        }
        WhyJournal::Refused => Some(
            "close all connections and open it again; if it fails once more, switch atomic pages \
             off"
            .to_owned(),
        ),
        WhyJournal::CompileOptions(what) if what.contains("BATCH") => Some(
            "take that option out: with both, other connections can read stale pages".to_owned(),
        ),
        WhyJournal::CompileOptions(_) => Some(
            "to change it: LIBSQLITE3_FLAGS = \"-DSQLITE_ENABLE_ATOMIC_WRITE\" under [env] in \
             your program's .cargo/config.toml"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The size to change to: units are powers of two, as page sizes are.
fn nearest_page_size(page_bytes: u32, units: AtomicUnits) -> u32 {
    let largest = units.bytes_max.min(65536);
    page_bytes.clamp(units.bytes_min.min(largest), largest)
}

#[cfg(test)]
mod tests;
