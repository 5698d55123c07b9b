//! Our copy, opened through `leafpress`, and a neighbour in the same process exclude each
//! other as two processes do, in both directions and under each profile.
#![cfg(unix)]

use std::sync::mpsc;
use std::time::Duration;

use leafpress::Profile;
use leafpress::writer::Writer;
use leafpress_neighbour::Neighbour;

const PROFILES: [Profile; 4] =
    [Profile::Durable, Profile::Relaxed, Profile::Rollback, Profile::Rebuildable];

/// A writer of a new database with an empty table.
fn writer(profile: Profile) -> (tempfile::TempDir, std::path::PathBuf, Writer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let builder = Writer::builder(&path).profile(profile).busy_limit(Duration::from_millis(50));
    let builder = if profile == Profile::Rebuildable { builder.rebuildable_ok() } else { builder };
    let writer = builder.open().unwrap();
    writer.execute_batch("CREATE TABLE t (x)").unwrap();
    (folder, path, writer)
}

#[test]
fn a_neighbours_transaction_keeps_the_writer_away() {
    for profile in PROFILES {
        let (_folder, path, writer) = writer(profile);
        let theirs = Neighbour::load().open(&path, Duration::ZERO).unwrap();
        theirs.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES ('theirs')").unwrap();
        let answer = writer.execute("INSERT INTO t VALUES ('ours')", ());
        let kind = answer.map_err(|error| error.kind().to_string());
        assert!(kind.is_err(), "{profile}: the Writer wrote beside the neighbour's transaction");
        theirs.execute("COMMIT").unwrap();
        writer.execute("INSERT INTO t VALUES ('ours')", ()).unwrap();
        assert_eq!(theirs.query_i64("SELECT count(*) FROM t"), Ok(2), "{profile}");
        drop(theirs);
        writer.close().unwrap();
    }
}

#[test]
fn the_writers_transaction_keeps_a_neighbour_away() {
    for profile in PROFILES {
        let (_folder, path, writer) = writer(profile);
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        let ticket = writer
            .submit_transaction(move |transaction| {
                transaction.execute("INSERT INTO t VALUES ('ours')", ())?;
                entered.send(()).unwrap();
                may_leave.recv().unwrap();
                Ok(())
            })
            .unwrap();
        has_entered.recv().unwrap();
        let theirs = Neighbour::load().open(&path, Duration::ZERO).unwrap();
        let answer = theirs.execute("BEGIN IMMEDIATE");
        assert!(
            answer.is_err_and(leafpress_neighbour::Error::is_busy),
            "{profile}: the neighbour got in: {answer:?}"
        );
        drop(theirs);
        let again = Neighbour::load().open(&path, Duration::ZERO).unwrap();
        let answer = again.execute("BEGIN IMMEDIATE");
        assert!(answer.is_err(), "{profile}: the neighbour got in once it had closed the file");
        leave.send(()).unwrap();
        ticket.wait().unwrap();
        again.execute("INSERT INTO t VALUES ('theirs')").unwrap();
        assert_eq!(again.query_i64("SELECT count(*) FROM t"), Ok(2), "{profile}");
        drop(again);
        writer.close().unwrap();
    }
}

/// The end of a neighbour's work must not be the end of ours.
#[test]
fn a_neighbour_that_closes_leaves_the_log_where_it_is() {
    let (folder, path, writer) = writer(Profile::Durable);
    let theirs = Neighbour::load().open(&path, Duration::ZERO).unwrap();
    assert_eq!(theirs.query_i64("SELECT count(*) FROM t"), Ok(0));
    drop(theirs);
    assert!(folder.path().join("a.db-wal").exists(), "the neighbour deleted the live log");
    writer.execute("INSERT INTO t VALUES (1)", ()).unwrap();
    writer.close().unwrap();
}
