//! Profiles on every kind of file, and all that is refused. What is in force
//! is asked from outside too, by a connection that knows nothing of profiles.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::*;
use crate::candidate::Candidate;
use crate::paths::companion_of;
use crate::verify::VerifyOptions;

const PAGE_SIZES: [u32; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
pub(super) const SHORT: Duration = Duration::from_millis(30);

pub(super) fn request(profile: Profile) -> ProfileRequest {
    ProfileRequest {
        profile,
        may_be_rebuilt: true,
        busy_timeout: SHORT,
        ..ProfileRequest::default()
    }
}

pub(super) struct Place {
    pub(super) folder: TempDir,
    pub(super) path: PathBuf,
}

impl Place {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a b'ü.db");
        Self { folder, path }
    }

    /// A database with one row, closed again.
    pub(super) fn with_database(journal_mode: JournalMode, page_size: u32) -> Self {
        let place = Self::new();
        let connection = place.plain();
        connection
            .execute_batch(&format!(
                "PRAGMA page_size={page_size}; PRAGMA journal_mode={journal_mode}; \
                 CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob({page_size} * 3))"
            ))
            .unwrap();
        connection.close().unwrap();
        place
    }

    pub(super) fn plain(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(SHORT).unwrap();
        connection
    }

    pub(super) fn open(&self, profile: Profile) -> Result<(Connection, InForce)> {
        open(&self.path, &request(profile))
    }

    pub(super) fn refused(&self, profile: Profile) -> String {
        let error = self.open(profile).unwrap_err();
        assert!(error.state_on_disk().is_some(), "{error}");
        error.to_string()
    }
}

pub(super) fn rows(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

pub(super) fn pragma(connection: &Connection, name: &str) -> String {
    let value: rusqlite::types::Value =
        connection.pragma_query_value(None, name, |row| row.get(0)).unwrap();
    match value {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Integer(number) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

/// The journal mode that the file itself holds, for every connection.
fn mode_of_the_file(profile: Profile) -> &'static str {
    if profile.is_wal() { "wal" } else { "delete" }
}

#[test]
fn every_profile_opens_a_new_file_of_every_page_size() {
    for profile in Profile::ALL {
        for page_size in PAGE_SIZES {
            let place = Place::new();
            let wanted = ProfileRequest { page_size: Some(page_size), ..request(profile) };
            let (connection, in_force) = open(&place.path, &wanted).unwrap();
            assert_eq!(in_force.page_size_bytes, page_size);
            assert_eq!(in_force.journal_mode, profile.journal_mode());
            assert_eq!(in_force.synchronous, profile.synchronous());
            connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
            let beside = place.plain();
            assert_eq!(pragma(&beside, "journal_mode"), mode_of_the_file(profile));
            assert_eq!(pragma(&beside, "page_size"), page_size.to_string());
            assert_eq!(rows(&beside), 1);
        }
    }
}

#[test]
fn every_profile_takes_over_every_journal_mode_and_page_size() {
    for profile in Profile::ALL {
        for journal_mode in JournalMode::ALL {
            for page_size in PAGE_SIZES {
                let place = Place::with_database(journal_mode, page_size);
                let (connection, in_force) = place.open(profile).unwrap();
                assert_eq!(in_force.page_size_bytes, page_size);
                in_force.check().unwrap();
                connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
                assert_eq!(in_force, InForce::read(&connection, profile).unwrap());
                connection.close().unwrap();
                let plain = place.plain();
                assert_eq!(pragma(&plain, "journal_mode"), mode_of_the_file(profile));
                assert_eq!(rows(&plain), 2, "{profile} after {journal_mode}");
                assert_eq!(pragma(&plain, "integrity_check"), "ok");
            }
        }
    }
}

#[test]
fn what_is_in_force_is_what_the_connection_itself_says() {
    for profile in Profile::ALL {
        let place = Place::new();
        let wanted = ProfileRequest {
            foreign_keys: Some(true),
            busy_timeout: Duration::from_micros(1_500),
            ..request(profile)
        };
        let (connection, in_force) = open(&place.path, &wanted).unwrap();
        assert_eq!(pragma(&connection, "journal_mode"), profile.journal_mode().name());
        let synchronous = profile.synchronous() as u32;
        assert_eq!(pragma(&connection, "synchronous"), synchronous.to_string());
        let autocheckpoint = pragma(&connection, "wal_autocheckpoint");
        assert_eq!(autocheckpoint == "0", profile.is_wal());
        assert_eq!(autocheckpoint, in_force.wal_autocheckpoint_pages.to_string());
        assert_eq!(pragma(&connection, "foreign_keys"), "1");
        assert!(in_force.foreign_keys);
        assert_eq!(
            (pragma(&connection, "busy_timeout").as_str(), in_force.busy_timeout),
            ("2", Duration::from_millis(2))
        );
        let text = in_force.to_string();
        for part in [profile.name(), profile.promise(), in_force.sqlite_version, "enforced"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = serde_json::to_value(&in_force).unwrap();
        assert_eq!(json["profile"], profile.name());
        assert_eq!(json["journal_mode"], profile.journal_mode().name());
        assert_eq!(json["synchronous"], profile.synchronous().name());
    }
}

#[test]
fn foreign_keys_are_left_as_sqlite_has_them_unless_asked_for() {
    let place = Place::new();
    let default = pragma(&place.plain(), "foreign_keys") == "1";
    assert_eq!(place.open(Profile::Durable).unwrap().1.foreign_keys, default);
    for wanted in [true, false] {
        let request = ProfileRequest { foreign_keys: Some(wanted), ..request(Profile::Durable) };
        assert_eq!(open(&place.path, &request).unwrap().1.foreign_keys, wanted);
    }
}

#[test]
fn rebuildable_needs_the_word() {
    let place = Place::new();
    let careless = ProfileRequest { may_be_rebuilt: false, ..request(Profile::Rebuildable) };
    let error = open(&place.path, &careless).unwrap_err();
    assert!(error.to_string().contains("can destroy the whole database"), "{error}");
    assert!(!place.path.exists());
    place.open(Profile::Rebuildable).unwrap();
}

#[test]
fn an_old_database_keeps_its_page_size_also_through_a_vacuum() {
    let place = Place::with_database(JournalMode::Delete, 1024);
    let wanted = ProfileRequest { page_size: Some(8192), ..request(Profile::Rollback) };
    let (connection, in_force) = open(&place.path, &wanted).unwrap();
    assert_eq!(in_force.page_size_bytes, 1024);
    connection.execute_batch("VACUUM").unwrap();
    assert_eq!(pragma(&connection, "page_size"), "1024");
    for bytes in [0, 256, 1000, 4095, 131_072] {
        let wanted = ProfileRequest { page_size: Some(bytes), ..request(Profile::Rollback) };
        let error = open(&place.path, &wanted).unwrap_err();
        assert!(error.to_string().contains("no page size"), "{error}");
    }
}

#[test]
fn an_empty_file_is_a_new_database() {
    for profile in Profile::ALL {
        let place = Place::new();
        fs::write(&place.path, "").unwrap();
        let (connection, _) = place.open(profile).unwrap();
        connection.execute_batch("CREATE TABLE t(a)").unwrap();
        assert_eq!(rows(&place.plain()), 0);
    }
}

#[test]
fn a_log_that_others_use_is_not_taken_from_them() {
    for profile in [Profile::Rollback, Profile::Rebuildable] {
        let place = Place::with_database(JournalMode::Wal, 4096);
        let other = place.plain();
        assert_eq!(rows(&other), 1);
        let refused = place.refused(profile);
        assert!(refused.contains("open in other connections in journal mode WAL"), "{refused}");
        assert!(refused.contains("end the other programs"), "{refused}");
        other.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(pragma(&other, "journal_mode"), "wal");
        other.close().unwrap();
        assert_eq!(rows(&place.open(profile).unwrap().0), 2);
    }
}

#[test]
fn a_rollback_database_in_use_is_not_turned_to_a_log() {
    for begin in ["BEGIN; SELECT * FROM t", "BEGIN IMMEDIATE; INSERT INTO t VALUES (2)"] {
        for profile in [Profile::Durable, Profile::Relaxed] {
            let place = Place::with_database(JournalMode::Delete, 4096);
            let other = place.plain();
            other.execute_batch(begin).unwrap();
            let refused = place.refused(profile);
            assert!(refused.contains("in use by other connections"), "{refused}");
            other.execute_batch("COMMIT").unwrap();
            let (connection, _) = place.open(profile).unwrap();
            // An idle connection of the old kind moves over with the file.
            assert_eq!(rows(&other), rows(&connection));
            assert_eq!(pragma(&other, "journal_mode"), "wal");
        }
    }
}

#[test]
fn a_process_that_holds_the_database_alone_is_waited_for_and_then_named() {
    let place = Place::with_database(JournalMode::Delete, 4096);
    let other = place.plain();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let refused = place.refused(Profile::Rollback);
    assert!(refused.contains("is locked by another program"), "{refused}");
}

#[test]
fn a_log_left_by_a_crash_is_taken_in_by_every_profile() {
    for profile in Profile::ALL {
        let crashed = Place::new();
        let source = Place::with_database(JournalMode::Wal, 4096);
        let writer = source.plain();
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        for suffix in ["", "-wal"] {
            let name = |path: &Path| format!("{}{suffix}", path.display());
            fs::copy(name(&source.path), name(&crashed.path)).unwrap();
        }
        let (connection, _) = crashed.open(profile).unwrap();
        assert_eq!(rows(&connection), 2, "{profile}");
        connection.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        connection.close().unwrap();
        assert_eq!(rows(&crashed.plain()), 3, "{profile}");
    }
}

#[test]
fn a_hot_journal_is_rolled_back_by_every_profile() {
    for profile in Profile::ALL {
        let crashed = Place::new();
        let source = Place::with_database(JournalMode::Delete, 4096);
        let writer = source.plain();
        // So small a cache that pages reach the file before the commit.
        writer
            .execute_batch(
                "PRAGMA cache_size=1; BEGIN; INSERT INTO t VALUES (zeroblob(100000)); \
                 INSERT INTO t VALUES (zeroblob(100000))",
            )
            .unwrap();
        for suffix in ["", "-journal"] {
            let name = |path: &Path| format!("{}{suffix}", path.display());
            fs::copy(name(&source.path), name(&crashed.path)).unwrap();
        }
        let (connection, _) = crashed.open(profile).unwrap();
        assert_eq!(rows(&connection), 1, "{profile}");
        assert_eq!(pragma(&connection, "integrity_check"), "ok");
    }
}

#[test]
fn what_is_no_database_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let text = "name,age\nAda,36\n".repeat(100);
    let mut state = 1_u64;
    let random: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    })
    .take(8192)
    .collect();
    let cases: [(&[u8], &str); 4] = [
        (text.as_bytes(), "is not a database"),
        (b"short", "is not a database"),
        (&random, "looks encrypted"),
        (
            b"\x1f\x8b and so on, for as long as it takes to be more than a header's hundred bytes",
            "gzip",
        ),
    ];
    for profile in Profile::ALL {
        for (bytes, expected) in cases {
            fs::write(&place.path, bytes).unwrap();
            let refused = place.refused(profile);
            assert!(refused.contains(expected), "{profile}: {refused}");
            assert_eq!(fs::read(&place.path).unwrap(), bytes);
            let error = open_reader(&place.path, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_damaged_database_is_sent_to_verify() {
    let place = Place::with_database(JournalMode::Delete, 4096);
    let mut bytes = fs::read(&place.path).unwrap();
    bytes[100..4096].fill(0x5a);
    fs::write(&place.path, &bytes).unwrap();
    let refused = place.refused(Profile::Durable);
    assert!(refused.contains("damaged") && refused.contains("leafpress verify"), "{refused}");
}

#[test]
fn what_is_no_file_is_refused() {
    let place = Place::new();
    for profile in Profile::ALL {
        for (path, expected) in [
            (place.folder.path().to_owned(), "is a directory"),
            (place.folder.path().join("none/a.db"), "make the folder first"),
            (PathBuf::from(":memory:"), "./:memory:"),
            (PathBuf::new(), "outlives nothing"),
        ] {
            let error = open(&path, &request(profile)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.state_on_disk(), Some("nothing was changed"));
        }
    }
    let missing = open_reader(&place.path, None).unwrap_err().to_string();
    assert!(missing.contains("there is no database"), "{missing}");
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_name_that_looks_like_a_uri_is_a_name() {
    let place = Place::new();
    let path = place.folder.path().join("file:x.db?mode=memory");
    let (connection, _) = open(&path, &request(Profile::Durable)).unwrap();
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    assert!(path.is_file());
}

#[test]
fn a_uri_is_refused_as_it_leads_past_all_looks_at_the_path() {
    let place = Place::new();
    let orphan = companion_of(&place.path, "-wal");
    fs::write(&orphan, "rows").unwrap();
    let path = place.path.to_str().unwrap();
    for name in [format!("file:{path}"), format!("File:{path}?nolock=1")] {
        let says = |error: Error| {
            let text = error.to_string();
            assert!(text.contains("not by a URI; a file of that name is ./"), "{text}");
        };
        for profile in Profile::ALL {
            says(open(&name, &request(profile)).unwrap_err());
        }
        says(open_reader(&name, None).unwrap_err());
        says(crate::Writer::builder(&name).open().unwrap_err());
        says(crate::verify::verify(&name, &VerifyOptions::default()).unwrap_err());
        let writer = crate::Writer::builder(place.folder.path().join("b.db")).open().unwrap();
        says(writer.backup_to(&name).unwrap_err());
    }
    assert_eq!(fs::read(&orphan).unwrap(), b"rows");
    assert!(!place.path.exists());
}

#[test]
#[cfg(unix)]
fn links_are_followed_and_those_that_lead_nowhere_are_refused() {
    use std::os::unix::fs::symlink;

    let place = Place::with_database(JournalMode::Delete, 4096);
    let link = |name: &str, to: &Path| {
        let path = place.folder.path().join(name);
        symlink(to, &path).unwrap();
        path
    };
    let to_database = link("to-database", &place.path);
    let (connection, _) = open(&to_database, &request(Profile::Durable)).unwrap();
    connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(rows(&place.plain()), 2);

    // SQLite makes the file that the link names, as it does without us.
    let to_new = link("to-new", Path::new("new.db"));
    open(&to_new, &request(Profile::Durable)).unwrap();
    assert!(place.folder.path().join("new.db").is_file());

    let first = place.folder.path().join("one");
    link("two", &first);
    link("one", Path::new("two"));
    let to_no_folder = link("to-no-folder", Path::new("no/where.db"));
    for profile in Profile::ALL {
        let error = open(&first, &request(profile)).unwrap_err().to_string();
        assert!(error.contains("cannot open") && error.contains("check the path"), "{error}");
        let error = open(&to_no_folder, &request(profile)).unwrap_err().to_string();
        assert!(error.contains("make the folder first"), "{error}");
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_and_a_device_are_refused_without_waiting_for_them() {
    let place = Place::new();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &place.path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for path in [place.path.as_path(), Path::new("/dev/null")] {
        let error = open(path, &request(Profile::Rollback)).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        let error = open_reader(path, None).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn a_log_or_journal_whose_database_is_gone_is_kept() {
    for (suffix, what) in [("-wal", "write-ahead log"), ("-journal", "journal")] {
        for profile in Profile::ALL {
            let place = Place::new();
            let orphan = PathBuf::from(format!("{}{suffix}", place.path.display()));
            fs::write(&orphan, "all that is left").unwrap();
            let refused = place.refused(profile);
            assert!(refused.contains(what) && refused.contains("would delete it"), "{refused}");
            assert_eq!(fs::read(&orphan).unwrap(), b"all that is left");
            assert!(!place.path.exists());
            fs::write(&orphan, "").unwrap();
            place.open(profile).unwrap();
        }
    }
}

/// Runs `work` as a user who is not root, on this thread alone; root may do
/// whatever a mode forbids.
#[cfg(target_os = "linux")]
fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::process::{Uid, getuid};
    use rustix::thread::set_thread_res_uid;

    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if getuid().is_root() {
                let other_user = Uid::from_raw(65534);
                set_thread_res_uid(other_user, other_user, other_user).unwrap();
            }
            work()
        });
        thread.join().unwrap()
    })
}

#[cfg(target_os = "linux")]
fn change_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_can_only_be_read_refuses_profiles_that_need_a_journal_in_it() {
    for journal_mode in [JournalMode::Delete, JournalMode::Wal] {
        let place = Place::with_database(journal_mode, 4096);
        change_mode(&place.path, 0o666);
        change_mode(place.folder.path(), 0o555);
        for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback] {
            let refused = as_other_user(|| place.refused(profile));
            assert!(refused.contains("you may not write to"), "{refused}");
            assert!(refused.contains("change the permissions of the folder"), "{refused}");
        }
        let new = place.folder.path().join("new.db");
        let error = as_other_user(|| open(&new, &request(Profile::Rebuildable)).unwrap_err());
        assert!(error.to_string().contains("the database must be made there"), "{error}");
        if journal_mode == JournalMode::Delete {
            as_other_user(|| {
                let (connection, _) = place.open(Profile::Rebuildable).unwrap();
                connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
                assert_eq!(rows(&open_reader(&place.path, None).unwrap()), 2);
            });
        }
        change_mode(place.folder.path(), 0o755);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_synced_refuses_profiles_that_promise_anything() {
    let place = Place::with_database(JournalMode::Delete, 4096);
    change_mode(&place.path, 0o666);
    change_mode(place.folder.path(), 0o333);
    for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback] {
        let refused = as_other_user(|| place.refused(profile));
        assert!(refused.contains("you may not read"), "{refused}");
    }
    as_other_user(|| place.open(Profile::Rebuildable).map(drop)).unwrap();
    change_mode(place.folder.path(), 0o755);
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_can_only_be_read_is_refused() {
    for journal_mode in [JournalMode::Delete, JournalMode::Wal] {
        let place = Place::with_database(journal_mode, 4096);
        change_mode(&place.path, 0o444);
        change_mode(place.folder.path(), 0o777);
        for profile in Profile::ALL {
            let refused = as_other_user(|| place.refused(profile));
            assert!(refused.contains("cannot be written: you may not write to"), "{refused}");
        }
        change_mode(&place.path, 0o000);
        let refused = as_other_user(|| place.refused(Profile::Durable));
        assert!(refused.contains("Permission denied"), "{refused}");
    }
}

#[test]
#[cfg(unix)]
fn a_vfs_without_shared_memory_has_no_log() {
    for profile in Profile::ALL {
        let place = Place::new();
        let wanted = ProfileRequest { vfs: Some("unix-dotfile".to_owned()), ..request(profile) };
        let outcome = open(&place.path, &wanted);
        if profile.is_wal() {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("'unix-dotfile' has no shared memory"), "{error}");
            assert!(error.contains("choose the profile rollback"), "{error}");
        } else {
            let (connection, _) = outcome.unwrap();
            connection.execute_batch("CREATE TABLE t(a)").unwrap();
        }
    }
}

#[test]
fn a_log_is_refused_on_the_disk_of_another_machine() {
    use crate::storage::{FileSystem, Nature};

    let places = [
        ("ext4", Nature::Local, false),
        ("overlay", Nature::Overlay, false),
        ("tmpfs", Nature::Memory, false),
        ("fuse.mine", Nature::Unknown, false),
        ("nfs4", Nature::Network, true),
        ("9p", Nature::SharedByHost, true),
    ];
    for (kind, nature, is_far) in places {
        let mut found = FileSystem::of(TempDir::new().unwrap().path()).unwrap();
        (found.kind, found.nature) = (kind.to_owned(), nature);
        for profile in Profile::ALL {
            let outcome = open::refuse_far_file_system(&found, Path::new("a.db"), profile);
            assert_eq!(outcome.is_err(), is_far && profile.is_wal(), "{kind} {profile}");
            if let Err(error) = outcome {
                let text = error.to_string();
                assert!(text.contains(&format!("a.db: lies on {kind}, ")), "{text}");
                assert!(text.contains("choose the profile rollback"), "{text}");
            }
        }
    }
}

#[test]
fn an_unknown_vfs_is_named() {
    let place = Place::new();
    let wanted = ProfileRequest { vfs: Some("nope".to_owned()), ..request(Profile::Durable) };
    let error = open(&place.path, &wanted).unwrap_err().to_string();
    assert!(error.contains("'nope' is registered"), "{error}");
    let error = open_reader(&place.path, Some("nope")).unwrap_err().to_string();
    assert!(error.contains("'nope' is registered"), "{error}");
    assert!(!place.path.exists());
}

#[test]
fn a_changed_setting_is_noticed() {
    let place = Place::new();
    let (connection, in_force) = place.open(Profile::Durable).unwrap();
    in_force.check().unwrap();
    for (statement, what) in [
        ("PRAGMA synchronous=OFF", "synchronous = FULL, but OFF"),
        ("PRAGMA wal_autocheckpoint=1000", "wal_autocheckpoint = 0, but 1000"),
        ("PRAGMA journal_mode=DELETE", "journal_mode = WAL, but DELETE"),
    ] {
        connection.execute_batch(statement).unwrap();
        let error = InForce::read(&connection, Profile::Durable).unwrap().check().unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        connection
            .execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0",
            )
            .unwrap();
    }
}

#[test]
fn another_program_can_turn_a_rollback_database_and_that_shows() {
    let place = Place::new();
    let (connection, in_force) = place.open(Profile::Rollback).unwrap();
    place.plain().execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a)").unwrap();
    assert_eq!(rows(&connection), 0);
    assert_eq!(in_force.journal_mode, JournalMode::Delete);
    assert!(InForce::read(&connection, Profile::Rollback).unwrap().check().is_err());
}

#[test]
fn no_connection_can_take_the_log_away_from_an_open_connection() {
    for profile in [Profile::Durable, Profile::Relaxed] {
        for journal_mode in JournalMode::ALL {
            let place = Place::with_database(journal_mode, 4096);
            let (connection, in_force) = place.open(profile).unwrap();
            let other = place.plain();
            assert!(other.execute_batch("PRAGMA journal_mode=DELETE").is_err());
            assert_eq!(in_force, InForce::read(&connection, profile).unwrap());
        }
    }
}

#[test]
fn a_reader_reads_beside_the_writer_and_writes_nothing() {
    for profile in Profile::ALL {
        let place = Place::new();
        let (writer, _) = place.open(profile).unwrap();
        writer.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        let reader = open_reader(&place.path, None).unwrap();
        assert_eq!(rows(&reader), 1);
        assert_eq!(pragma(&reader, "query_only"), "1");
        assert_eq!(pragma(&reader, "wal_autocheckpoint"), "0");
        assert!(reader.execute_batch("INSERT INTO t VALUES (2)").is_err());
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(rows(&reader), 2);
    }
}

#[test]
fn a_reader_of_a_log_that_a_crash_left_sees_its_rows() {
    let source = Place::with_database(JournalMode::Wal, 4096);
    let writer = source.plain();
    writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    let crashed = Place::new();
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        fs::copy(name(&source.path), name(&crashed.path)).unwrap();
    }
    assert_eq!(rows(&open_reader(&crashed.path, None).unwrap()), 2);
}

#[test]
fn the_versions_with_the_wal_reset_bug_are_refused() {
    for bad in [3_007_000, 3_044_000, 3_044_005, 3_045_003, 3_050_006, 3_051_000, 3_051_002] {
        let error = check_background_checkpoints(bad).unwrap_err();
        assert!(error.to_string().contains("WAL-reset bug"), "{error}");
    }
    for good in
        [3_006_999, 3_044_006, 3_044_007, 3_050_007, 3_050_008, 3_051_003, 3_053_000, 3_054_001]
    {
        check_background_checkpoints(good).unwrap();
    }
    let error = check_background_checkpoints(3_045_003).unwrap_err().to_string();
    assert!(error.contains("SQLite 3.45.3 can damage"), "{error}");
    check_background_checkpoints(rusqlite::version_number()).unwrap();
}

#[test]
fn names_lead_back_to_profiles() {
    for profile in Profile::ALL {
        assert_eq!(profile.to_string().parse::<Profile>().unwrap(), profile);
        assert_eq!(profile.name().to_uppercase().parse::<Profile>().unwrap(), profile);
        assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
        assert!(!profile.promise().ends_with('.'));
    }
    let error = "fast".parse::<Profile>().unwrap_err().to_string();
    assert!(error.contains("'fast'") && error.contains("durable, relaxed"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// However often and in whatever order profiles change: the settings are
    /// those of the last, the rows are all there, and the file is sound.
    #[test]
    fn profiles_follow_one_another_without_a_loss(
        first in 0..JournalMode::ALL.len(),
        size in 0..PAGE_SIZES.len(),
        order in proptest::collection::vec((0..Profile::ALL.len(), 1..20_usize), 1..8),
    ) {
        let place = Place::with_database(JournalMode::ALL[first], PAGE_SIZES[size]);
        let mut expected = 1;
        for (index, new_rows) in order {
            let profile = Profile::ALL[index];
            let (connection, in_force) = place.open(profile).unwrap();
            prop_assert!(in_force.check().is_ok());
            for _ in 0..new_rows {
                connection.execute("INSERT INTO t VALUES (randomblob(700))", []).unwrap();
            }
            expected += new_rows as i64;
            connection.close().unwrap();
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
            let plain = Connection::open_with_flags(&place.path, flags).unwrap();
            prop_assert_eq!(rows(&plain), expected);
            prop_assert_eq!(pragma(&plain, "journal_mode"), mode_of_the_file(profile));
            prop_assert_eq!(pragma(&plain, "integrity_check"), "ok");
        }
    }
}

/// Memory keeps nothing, and no profile claims that it does.
#[test]
#[cfg(target_os = "linux")]
fn a_profile_claims_no_durability_on_a_file_system_in_memory() {
    let memory = Path::new("/dev/shm");
    let is_memory = |path: &Path| {
        crate::storage::FileSystem::of(path)
            .is_ok_and(|it| it.nature == crate::storage::Nature::Memory)
    };
    let Some(folder) =
        Some(memory).filter(|it| is_memory(it)).and_then(|it| tempfile::tempdir_in(it).ok())
    else {
        eprintln!("NOT TESTED: /dev/shm is no file system in memory here, or cannot be written");
        return;
    };
    for profile in Profile::ALL {
        let path = folder.path().join(format!("{profile}.db"));
        let request = ProfileRequest { profile, may_be_rebuilt: true, ..Default::default() };
        let (connection, in_force) = open(&path, &request).expect("it works there");
        assert!(in_force.not_durable[0].contains("is memory"), "{in_force}");
        assert!(!in_force.to_string().contains("survives a power cut"), "{in_force}");
        if profile != Profile::Rebuildable {
            assert!(in_force.promise.contains("none about power cuts here"), "{in_force}");
        }
        assert_eq!(
            InForce::read(&connection, profile).expect("the same").promise,
            in_force.promise
        );
    }
    // A caller that names its own VFS knows where the files are; `unix` is not such a one.
    let named = ProfileRequest { vfs: Some("unix".to_owned()), ..Default::default() };
    let (_connection, in_force) = open(folder.path().join("named.db"), &named).expect("it works");
    assert!(!in_force.not_durable.is_empty(), "that VFS is the system's");
    let folder = tempfile::tempdir().expect("a folder");
    if !is_memory(folder.path()) {
        let (_connection, in_force) =
            open(folder.path().join("a.db"), &Profile::Durable.into()).expect("it works");
        assert_eq!(
            (in_force.promise.as_str(), in_force.not_durable.len()),
            (Profile::Durable.promise(), 0)
        );
    }
}

/// SQLite opens the `-shm` file once for all connections of a process.
#[cfg(unix)]
#[test]
fn a_view_that_came_first_is_named_where_it_keeps_a_writer_from_writing() {
    let (used, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (other, path) = (used.path().join("a.db"), folder.path().join("a.db"));
    let (connection, _) = open(&other, &Profile::Durable.into()).unwrap();
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    // As after a crash.
    for suffix in ["", "-wal", "-shm"] {
        fs::copy(companion_of(&other, suffix), companion_of(&path, suffix)).unwrap();
    }
    let candidate = Candidate::look_at(&path).unwrap();
    let view = candidate.open().unwrap();
    view.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    let error = open(&path, &Profile::Durable.into()).unwrap_err();
    assert!(error.to_string().contains("only looks"), "{error}");
    drop(view);
    let (connection, _) = open(&path, &Profile::Durable.into()).unwrap();
    connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
}
