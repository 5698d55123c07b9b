//! The way in that is taken, the refusals, and their words. Writes to a real file are tested in
//! `tests/rollback_pages.rs`.

use super::super::tests::{Place, pragma, request, rows};
use super::*;
use crate::profile::{InForce, open};
use crate::vfs::atomic::NoAtomicWrites;

const PAGES: AtomicUnits =
    AtomicUnits { bytes_min: 4096, bytes_max: 16384, by: AtomicProof::Hardware };

fn wishing(atomic: AtomicWish) -> ProfileRequest {
    ProfileRequest { atomic, ..request(Profile::Rollback) }
}

fn whole(by: AtomicProof) -> AtomicState {
    AtomicState::Whole { by, page_bytes: 4096 }
}

#[test]
fn each_state_is_said_with_what_can_be_done_about_it() {
    let without = "this SQLite was compiled without SQLITE_ENABLE_ATOMIC_WRITE";
    let with = "this SQLite was compiled with SQLITE_ENABLE_BATCH_ATOMIC_WRITE";
    let sized = |page_bytes| journal(WhyJournal::PageSize { page_bytes, units: PAGES });
    let none = |why| journal(WhyJournal::NoAtomicWrites(why));
    for (state, parts) in [
        (whole(AtomicProof::Hardware), ["in place, hardware atomic: the disk", "4096 bytes"]),
        (whole(AtomicProof::Software), ["in place, software atomic: the file system", "whole"]),
        (whole(AtomicProof::Assumed), ["ASSUMED atomic by your word", "damage the file"]),
        (none(NoAtomicWrites::NotOffered), ["with a journal: neither the disk", "offers"]),
        (none(NoAtomicWrites::NotTold), ["with a journal", "the kernel does not say"]),
        (sized(1024), ["pages of 1024 bytes", "PRAGMA page_size=4096; VACUUM"]),
        (sized(65536), ["pages of 65536 bytes", "PRAGMA page_size=16384; VACUUM"]),
        (journal(WhyJournal::CompileOptions(without)), ["compiled without", "LIBSQLITE3_FLAGS"]),
        (journal(WhyJournal::CompileOptions(with)), ["compiled with SQLITE_ENABLE_BATCH", "stale"]),
        (journal(WhyJournal::JournalOpen), ["a journal stands open", "regain_atomic_pages"]),
        (journal(WhyJournal::Refused), ["an atomic write has failed", "atomic pages off"]),
        (journal(WhyJournal::Wal), ["with a journal", "WAL mode"]),
    ] {
        let words = in_words(&state);
        for part in parts {
            assert!(words.contains(part), "{part}: {words}");
        }
        let is_journal = matches!(state, AtomicState::Journal { .. });
        assert_eq!(words.starts_with("with a journal: "), is_journal, "{words}");
    }
}

#[test]
fn the_page_size_to_change_to_is_the_nearest_that_is_covered() {
    let units = |bytes_min, bytes_max| AtomicUnits { bytes_min, bytes_max, ..PAGES };
    assert_eq!(nearest_page_size(512, units(4096, 4096)), 4096);
    assert_eq!(nearest_page_size(65536, units(512, 16384)), 16384);
    assert_eq!(nearest_page_size(1024, units(131_072, 1 << 20)), 65536);
}

#[test]
fn a_word_that_means_nothing_is_refused() {
    let other_profile =
        |profile| ProfileRequest { profile, may_be_rebuilt: true, ..wishing(AtomicWish::Assume) };
    let own_vfs = ProfileRequest { vfs: Some("unix".into()), ..wishing(AtomicWish::Assume) };
    for (wanted, part) in [
        (other_profile(Profile::Durable), "profile durable was asked for"),
        (other_profile(Profile::Relaxed), "profile relaxed was asked for"),
        (other_profile(Profile::Rebuildable), "profile rebuildable was asked for"),
        (own_vfs, "the VFS 'unix' is not Leafpress's"),
    ] {
        let place = Place::new();
        let error = open(&place.path, &wanted).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.state_on_disk(), Some("nothing was changed"));
        assert!(error.advice().unwrap().contains("take the word back"), "{error}");
        assert!(!place.path.exists());
    }
}

#[test]
fn what_needs_no_word_has_no_meaning_elsewhere() {
    for atomic in [AtomicWish::WhereProven, AtomicWish::Off] {
        for profile in [Profile::Durable, Profile::Relaxed, Profile::Rebuildable] {
            let place = Place::new();
            let wanted = ProfileRequest { atomic, ..request(profile) };
            let (_kept, in_force) = open(&place.path, &wanted).unwrap();
            assert_eq!(in_force.page_writes, None);
            assert!(!in_force.to_string().contains("a transaction of one page"), "{in_force}");
        }
    }
}

#[test]
#[cfg(unix)]
fn a_vfs_of_one_s_own_is_left_to_itself() {
    let place = Place::new();
    let wanted =
        ProfileRequest { vfs: Some("unix-dotfile".to_owned()), ..wishing(AtomicWish::WhereProven) };
    let (_kept, in_force) = open(&place.path, &wanted).unwrap();
    assert_eq!(in_force.vfs.as_deref(), Some("unix-dotfile"));
    assert_eq!(in_force.page_writes, None);
    assert!(in_force.to_string().contains("unless the VFS 'unix-dotfile' says"), "{in_force}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_wish_chooses_the_vfs() {
    let place = Place::new();
    let usual = vfs_name(&place.plain());
    for (atomic, name) in [
        (AtomicWish::WhereProven, Some("leafpress".to_owned())),
        (AtomicWish::Assume, Some("leafpress-assume-atomic".to_owned())),
        (AtomicWish::Off, usual),
    ] {
        let (connection, in_force) = open(&place.path, &wishing(atomic)).unwrap();
        assert_eq!(vfs_name(&connection), name);
        assert_eq!(in_force.vfs, name);
        let states = (in_force.page_writes.clone(), page_writes(&connection).unwrap());
        assert_eq!(states.0, states.1);
        match atomic {
            AtomicWish::WhereProven => assert!(states.0.is_some()),
            AtomicWish::Assume => assert_eq!(states.0, Some(whole(AtomicProof::Assumed))),
            AtomicWish::Off => assert_eq!(states.0, None),
        }
        let is_said = in_force.to_string().contains("a transaction of one page: ");
        assert!(is_said, "{in_force}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_state_follows_what_the_connection_does() {
    for page_bytes in [512, 4096, 65536] {
        let place = Place::new();
        let wanted = ProfileRequest { page_size: Some(page_bytes), ..wishing(AtomicWish::Assume) };
        let (connection, in_force) = open(&place.path, &wanted).unwrap();
        // Before its first page, what holds once it has one.
        let expected = Some(AtomicState::Whole { by: AtomicProof::Assumed, page_bytes });
        assert_eq!(in_force.page_writes, expected);
        connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        assert_eq!(page_writes(&connection).unwrap(), expected);
        connection.execute_batch("PRAGMA journal_mode=WAL; INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(page_writes(&connection).unwrap(), Some(journal(WhyJournal::Wal)));
        assert!(InForce::read(&connection, Profile::Rollback).unwrap().check().is_err());
        connection
            .execute_batch("PRAGMA journal_mode=DELETE; PRAGMA page_size=8192; VACUUM")
            .unwrap();
        let now = page_writes(&connection).unwrap();
        assert_eq!(now, Some(AtomicState::Whole { by: AtomicProof::Assumed, page_bytes: 8192 }));
        assert_eq!(rows(&connection), 2);
        assert_eq!(pragma(&connection, "integrity_check"), "ok");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_name_that_is_no_text_has_a_journal() {
    use std::os::unix::ffi::OsStrExt as _;

    let place = Place::new();
    let path = place.folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff.db"));
    let (connection, in_force) = open(&path, &wishing(AtomicWish::WhereProven)).unwrap();
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    assert_eq!(in_force.page_writes, None);
    let error = open(&path, &wishing(AtomicWish::Assume)).unwrap_err().to_string();
    assert!(error.contains("is no UTF-8"), "{error}");
}

#[test]
fn a_journal_is_closed_between_transactions_and_where_it_stands_open() {
    for locking in [Locking::Shared, Locking::Exclusive] {
        let place = Place::new();
        let wanted = ProfileRequest { locking, ..wishing(AtomicWish::Off) };
        let (connection, _) = open(&place.path, &wanted).unwrap();
        connection.execute_batch("CREATE TABLE t(a); BEGIN").unwrap();
        let error = regain_atomic_pages(&connection).unwrap_err().to_string();
        assert!(error.contains("end the transaction first"), "{error}");
        connection.execute_batch("COMMIT").unwrap();
        // A journal of another VFS is none of ours.
        assert!(!regain_atomic_pages(&connection).unwrap());
        assert_eq!(pragma(&connection, "journal_mode"), "delete");
    }
}
