//! A writer on a disk that fails, at each of its I/Os and in each way.
//!
//! For each fault a session of its own: callers write while the fault is met; then the
//! files are looked at as a killed process would leave them, and after the writer was
//! closed, and a writer that is opened again goes on. See `workload` for what must hold.

mod workload;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use leafpress::vfs::{PlatformVfs, Registration, register};
use leafpress::writer::Writer;
use leafpress::{ErrorKind, Profile};
use leafpress_testing::faults::{
    Fault, FaultControl, FaultFile, FaultyVfs, IoCounts, IoKind, Lasting, Rule,
};

use workload::{
    Outcome, assert_whole, busy_checkpoints, judge, make_database, parts_of, rows, start,
};

const CALLERS: i64 = 3;
const CALLS_EACH: i64 = 6;
/// So many I/Os of one kind on one kind of file are failed at, spread evenly.
const PLACES_MAX: u64 = 64;
/// A session takes milliseconds; this long only one that hangs.
const SESSION_MAX: Duration = Duration::from_secs(300);

struct Disk {
    registration: Registration,
    control: FaultControl,
}

impl Disk {
    fn new(name: &str) -> Self {
        let vfs = FaultyVfs::new(PlatformVfs::new()).skipping_syncs();
        let control = vfs.control();
        Self { registration: register(name, vfs).unwrap(), control }
    }

    fn open(&self, path: &Path, profile: Profile) -> leafpress::Result<Writer> {
        Writer::builder(path)
            .profile(profile)
            .vfs(self.registration.name().to_str().unwrap())
            .checkpoint_limits(busy_checkpoints())
            .busy_limit(Duration::from_secs(20))
            .open()
    }
}

/// Result of a session.
struct Session {
    outcomes: BTreeMap<i64, Outcome>,
    counts: IoCounts,
    faults: u64,
    stopped: Option<String>,
}

fn session(disk: &Disk, profile: Profile, rule: Option<Rule>) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    make_database(&path);
    let writer = disk.open(&path, profile).unwrap();
    disk.control.arm(rule);
    let mut outcomes = run_callers(&writer, CALLERS, CALLS_EACH, 1);
    let (counts, faults) = (disk.control.counts(), disk.control.faults());

    let killed = folder.path().join("killed");
    copy_as_if_killed(&path, &killed);
    judge(&killed.join("a.db"), &outcomes, &(profile, rule, "killed"));

    let lasts = rule.is_some_and(|rule| rule.lasting == Lasting::FromThenOn);
    if !lasts {
        disk.control.disarm();
        goes_on_or_says_why(&writer, &mut outcomes);
    }
    let stopped = writer.stopped();
    let unknown = outcomes.values().any(|outcome| matches!(outcome, Outcome::Unknown));
    let is_unsynced = |reason: &str| reason.contains("a sync of");
    let in_checkpoint = stopped.as_deref().is_some_and(is_unsynced);
    assert!(
        lasts || in_checkpoint || unknown == stopped.is_some(),
        "{stopped:?}, {outcomes:?}, {rule:?}"
    );
    // A disk that fails for good fails here too: an error or not, but an end. A sync
    // that failed in a checkpoint may not have been told to any call.
    let closed = writer.close();
    let is_well = closed.as_ref().map_or_else(|error| is_unsynced(&error.to_string()), |()| true);
    assert!(lasts || stopped.is_some() || is_well, "{closed:?}, {rule:?}");
    disk.control.disarm();
    judge(&path, &outcomes, &(profile, rule, "closed"));
    assert_eq!(disk.registration.open_files(), 0, "{rule:?}");

    let again = disk.open(&path, profile).unwrap();
    let outcome = start(&again, 1002)();
    assert!(matches!(outcome, Outcome::Acknowledged), "{outcome:?}, {rule:?}");
    again.close().unwrap();
    outcomes.insert(1002, outcome);
    judge(&path, &outcomes, &(profile, rule, "opened again"));
    Session { outcomes, counts, faults, stopped }
}

/// Callers in threads of their own, each with two calls on their way at a time, and a
/// reader beside them. `first` is the number of the first call.
fn run_callers(
    writer: &Writer,
    callers: i64,
    calls_each: i64,
    first: i64,
) -> BTreeMap<i64, Outcome> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                scope.spawn(move || {
                    let mut outcomes = Vec::new();
                    let numbers = first + caller * calls_each..first + (caller + 1) * calls_each;
                    for pair in numbers.collect::<Vec<_>>().chunks(2) {
                        let begun: Vec<_> =
                            pair.iter().map(|number| (*number, start(writer, *number))).collect();
                        outcomes.extend(begun.into_iter().map(|(number, wait)| (number, wait())));
                    }
                    outcomes
                })
            })
            .collect();
        for _ in 0..3 {
            // A reader may meet a fault too; what it sees is whole.
            if let Ok(reader) = writer.reader()
                && let Ok(found) = rows(&reader)
            {
                assert_whole(&found, &"what a reader sees");
            }
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Once the disk is well again, a writer takes calls, or has said that it does not.
fn goes_on_or_says_why(writer: &Writer, outcomes: &mut BTreeMap<i64, Outcome>) {
    let outcome = start(writer, 500)();
    // Asked afterwards: callers of the last group are answered before it stops.
    let stopped = writer.stopped();
    match (&stopped, &outcome) {
        (None, Outcome::Acknowledged) => {}
        (Some(reason), Outcome::Refused(error)) => {
            assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
            let is_good = reason.contains("not known") || reason.starts_with("a sync of");
            assert!(is_good, "it stops for two reasons only: {reason}");
        }
        _ => panic!("stopped: {stopped:?}, and a call: {outcome:?}"),
    }
    outcomes.insert(500, outcome);
}

/// The files as they are, without what SQLite does when it closes them. No call runs any more, but the
/// checkpointer may: if it has cut or begun the log anew meanwhile, the copy has pages of two moments, as no
/// kill leaves them, and is made again.
fn copy_as_if_killed(path: &Path, folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let file_name = path.file_name().unwrap().to_str().unwrap();
    let name = |end: &str| format!("{file_name}{end}");
    let read = |end: &str| std::fs::read(path.with_file_name(name(end))).ok();
    // What a checkpoint copies from the log meanwhile is in the log still.
    let logs = || ["-wal", "-journal"].map(read);
    let (before, database) = loop {
        let (before, database) = (logs(), read("").unwrap());
        if logs() == before {
            break (before, database);
        }
    };
    std::fs::write(folder.join(file_name), database).unwrap();
    for (end, bytes) in ["-wal", "-journal"].into_iter().zip(before) {
        if let Some(bytes) = bytes {
            std::fs::write(folder.join(name(end)), bytes).unwrap();
        }
    }
}

/// Runs a session in a thread of its own, to notice one that hangs.
fn watched<T: Send>(what: &impl std::fmt::Debug, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let thread = scope.spawn(move || {
            let value = run();
            let _ = sender.send(());
            value
        });
        if receiver.recv_timeout(SESSION_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            // The thread cannot be ended, and would be waited for.
            eprintln!("hangs: {what:?}");
            std::process::abort();
        }
        thread.join().unwrap_or_else(|panic| {
            eprintln!("in the session of {what:?}");
            std::panic::resume_unwind(panic)
        })
    })
}

/// Faults that an I/O of a kind can meet.
fn faults_of(io: IoKind) -> Vec<(Fault, Lasting)> {
    let slow = Fault::Slow(Duration::from_millis(3));
    let error = [(Fault::Error, Lasting::Once), (Fault::Error, Lasting::FromThenOn)];
    let full = [(Fault::Full, Lasting::Once), (Fault::Full, Lasting::FromThenOn)];
    let after = [(Fault::ErrorAfter, Lasting::Once)];
    match io {
        IoKind::Write => {
            [&error[..], &full, &after, &[(Fault::ShortWrite, Lasting::Once)]].concat()
        }
        IoKind::Sync => [&error[..], &after, &[(slow, Lasting::FromThenOn)]].concat(),
        IoKind::Truncate | IoKind::Delete => [&error[..], &after].concat(),
        IoKind::ShmMap => [&error[..], &full].concat(),
        _ => error.to_vec(),
    }
}

fn rules_for(counts: &IoCounts) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (&(io, file), &count) in counts {
        let places = count.min(PLACES_MAX);
        for place in 0..places {
            let nth = 1 + place * count / places;
            rules.extend(faults_of(io).into_iter().map(|(fault, lasting)| Rule {
                io: Some(io),
                file: Some(file),
                nth,
                fault,
                lasting,
            }));
        }
    }
    rules
}

fn fail_everywhere(name: &str, profile: Profile) {
    let disk = Disk::new(name);
    let quiet = watched(&"no fault", || session(&disk, profile, None));
    assert_eq!((quiet.faults, &quiet.stopped), (0, &None));
    for (number, outcome) in &quiet.outcomes {
        let is_well = matches!(outcome, Outcome::Acknowledged) == (parts_of(*number) > 0);
        assert!(is_well, "call {number}: {outcome:?}");
    }
    let rules = rules_for(&quiet.counts);
    let (mut met, mut refused, mut stopped) = (0, 0, 0);
    for rule in &rules {
        let session = watched(rule, || session(&disk, profile, Some(*rule)));
        met += u32::from(session.faults > 0);
        refused += u32::from(session.outcomes.iter().any(|(number, outcome)| {
            parts_of(*number) > 0 && !matches!(outcome, Outcome::Acknowledged)
        }));
        stopped += u32::from(session.stopped.is_some());
        assert_right_callers(&session, rule);
    }
    let all = rules.len() as u32;
    println!(
        "{profile}: {all} faults, {met} met, in {refused} a caller was told, {stopped} stopped"
    );
    // How often the checkpointer runs is a matter of time, so not each is met.
    assert!(met > all / 2, "{met} of {all} faults were met");
    assert!(refused > all / 10, "{refused} of {all} were told to a caller");
    assert!(stopped > 0, "a commit whose outcome is unknown stops the writer");
}

/// At most one call is told of one fault as its own; no call is told of slowness.
fn assert_right_callers(session: &Session, rule: &Rule) {
    if rule.lasting == Lasting::FromThenOn && !matches!(rule.fault, Fault::Slow(_)) {
        return;
    }
    let own_failures = session.outcomes.iter().filter(|(number, outcome)| {
        let Outcome::Refused(error) = outcome else { return false };
        let whole_group = matches!(
            error.kind(),
            ErrorKind::Stopped { .. } | ErrorKind::Sqlite { action: "begin a transaction", .. }
        );
        parts_of(**number) > 0 && !whole_group
    });
    let own_failures: Vec<_> = own_failures.collect();
    let allowed = usize::from(!matches!(rule.fault, Fault::Slow(_)));
    assert!(own_failures.len() <= allowed, "{rule:?}: {own_failures:?}");
}

#[test]
fn a_durable_writer() {
    fail_everywhere("faults-durable", Profile::Durable);
}

#[test]
fn a_relaxed_writer() {
    fail_everywhere("faults-relaxed", Profile::Relaxed);
}

#[test]
fn a_rollback_writer() {
    fail_everywhere("faults-rollback", Profile::Rollback);
}

/// A writer that cannot be opened says so, and what was there stays.
#[test]
fn faults_while_it_is_opened() {
    let disk = Disk::new("faults-opening");
    for profile in [Profile::Durable, Profile::Rollback] {
        let mut opened = 0;
        let mut nth = 1;
        loop {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            make_database(&path);
            let rule =
                Rule { io: None, file: None, nth, fault: Fault::Error, lasting: Lasting::Once };
            disk.control.arm([rule]);
            let writer = watched(&rule, || disk.open(&path, profile));
            let met = disk.control.faults() > 0;
            disk.control.disarm();
            let outcomes = match writer {
                Ok(writer) => {
                    opened += 1;
                    let outcomes = run_callers(&writer, 1, 4, 1);
                    writer.close().unwrap();
                    outcomes
                }
                Err(_) => BTreeMap::new(),
            };
            judge(&path, &outcomes, &(profile, rule));
            if !met {
                break;
            }
            nth += 1;
        }
        assert!(nth > 10 && opened < nth, "{nth} I/Os, opened {opened} times");
    }
}

/// Closing says an error or not; what was acknowledged is there in any case.
#[test]
fn faults_while_it_is_closed() {
    let disk = Disk::new("faults-closing");
    for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback] {
        let (mut nth, mut errors) = (1, 0);
        loop {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            make_database(&path);
            let writer = disk.open(&path, profile).unwrap();
            let outcomes = run_callers(&writer, 1, 4, 1);
            let (io, fault) = (None, Fault::Error);
            let rule = Rule { io, file: None, nth, fault, lasting: Lasting::FromThenOn };
            disk.control.arm([rule]);
            errors += u32::from(watched(&rule, || writer.close()).is_err());
            let met = disk.control.faults() > 0;
            disk.control.disarm();
            judge(&path, &outcomes, &(profile, rule));
            assert_eq!(disk.registration.open_files(), 0);
            if !met {
                break;
            }
            nth += 1;
        }
        // Without a log there is nothing left to do, and SQLite closes without a word.
        assert_eq!(errors > 0, profile.is_wal(), "{profile}: {nth} I/Os, {errors} errors");
    }
}

/// One call of a group writes more than fits: it alone is told so. The others of its
/// group are carried out again.
#[test]
fn a_call_too_large_for_the_disk_fails_alone() {
    let cases = [
        ("large-relaxed", Profile::Relaxed, FaultFile::Wal),
        ("large-durable", Profile::Durable, FaultFile::Wal),
        ("large-rollback", Profile::Rollback, FaultFile::MainDb),
    ];
    for (name, profile, file) in cases {
        for (fault, code) in [
            (Fault::Full, rusqlite::ErrorCode::DiskFull),
            (Fault::ShortWrite, rusqlite::ErrorCode::DiskFull),
            (Fault::Error, rusqlite::ErrorCode::SystemIoFailure),
        ] {
            let disk = Disk::new(name);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            make_database(&path);
            let writer = disk.open(&path, profile).unwrap();
            // The others need far fewer writes than that.
            let (io, file) = (Some(IoKind::Write), Some(file));
            let rule = Rule { io, file, nth: 400, fault, lasting: Lasting::Once };
            disk.control.arm([rule]);
            let outcomes = group_around_a_large_call(&writer);
            assert_eq!(disk.control.faults(), 1, "{profile}: {:?}", disk.control.counts());
            for (number, outcome) in &outcomes {
                match outcome {
                    Outcome::Acknowledged => assert_ne!(*number, LARGE),
                    Outcome::Refused(error) => {
                        let is_told = match error.kind() {
                            ErrorKind::Sqlite { source, .. } => {
                                source.sqlite_error_code() == Some(code)
                            }
                            ErrorKind::NoSpace { .. } => code == rusqlite::ErrorCode::DiskFull,
                            ErrorKind::Constraint { .. } => false,
                            _ => panic!("{profile}, call {number}: {error}"),
                        };
                        assert_eq!(is_told, *number == LARGE, "{profile}, call {number}: {error}");
                        assert!(is_told || parts_of(*number) == 0, "{profile}, call {number}");
                    }
                    Outcome::Unknown => panic!("{profile}: call {number} is unknown"),
                }
            }
            assert_eq!(writer.stopped(), None, "{profile}");
            writer.close().unwrap();
            judge(&path, &outcomes, &(profile, fault));
        }
    }
}

/// The number of the large call, between the others'.
const LARGE: i64 = 6;

/// Ten calls in one group, of which one writes ten times the page cache.
fn group_around_a_large_call(writer: &Writer) -> BTreeMap<i64, Outcome> {
    let (release, held) = mpsc::channel::<()>();
    // While this one waits, the others gather. It may be in their group and run again,
    // when there is no other caller to wait for any more.
    let holder = writer
        .submit_transaction(move |_| {
            let _ = held.recv_timeout(SESSION_MAX);
            Ok(())
        })
        .unwrap();
    let waits: Vec<_> = (1..=10)
        .map(|number| {
            if number == LARGE {
                let sql = "INSERT INTO t VALUES (6, 0, randomblob(20000000))";
                (number, Outcome::waiting(writer.submit(sql, ())))
            } else {
                (number, start(writer, number))
            }
        })
        .collect();
    drop(release);
    holder.wait().unwrap();
    waits.into_iter().map(|(number, wait)| (number, wait())).collect()
}

/// The disk is full for the log: callers are told, and when there is room again the same
/// writer goes on.
#[test]
fn a_disk_that_is_full_for_a_while() {
    for (name, profile) in
        [("full-relaxed", Profile::Relaxed), ("full-rollback", Profile::Rollback)]
    {
        let disk = Disk::new(name);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        make_database(&path);
        let writer = disk.open(&path, profile).unwrap();
        let mut outcomes = run_callers(&writer, CALLERS, CALLS_EACH, 1);
        let file = if profile == Profile::Rollback { FaultFile::Journal } else { FaultFile::Wal };
        let rule = Rule {
            io: Some(IoKind::Write),
            file: Some(file),
            nth: 1,
            fault: Fault::Full,
            lasting: Lasting::FromThenOn,
        };
        disk.control.arm([rule]);
        let during = run_callers(&writer, CALLERS, CALLS_EACH, 101);
        for (number, outcome) in &during {
            let Outcome::Refused(error) = outcome else { panic!("call {number}: {outcome:?}") };
            let is_full = matches!(error.kind(), ErrorKind::NoSpace { .. });
            assert!(is_full || parts_of(*number) == 0, "call {number}: {error}");
        }
        assert_eq!(writer.stopped(), None, "{profile}");
        disk.control.disarm();
        let after = run_callers(&writer, CALLERS, CALLS_EACH, 201);
        for (number, outcome) in &after {
            assert_eq!(matches!(outcome, Outcome::Acknowledged), parts_of(*number) > 0);
        }
        writer.close().unwrap();
        outcomes.extend(during.into_iter().chain(after));
        judge(&path, &outcomes, &profile);
    }
}

/// The judge itself: each way in which a promise can be broken is found.
#[test]
fn a_broken_promise_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    make_database(&path);
    let stock = rusqlite::Connection::open(&path).unwrap();
    let is_found = |outcomes: BTreeMap<i64, Outcome>| {
        let judged = || judge(&path, &outcomes, &"broken on purpose");
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(judged)).is_err()
    };
    let acknowledged = || BTreeMap::from([(1, Outcome::Acknowledged)]);
    let refused = || {
        let error = Writer::builder(folder.path()).open().unwrap_err();
        BTreeMap::from([(1, Outcome::Refused(error))])
    };
    assert!(is_found(acknowledged()), "lost");
    assert!(!is_found(refused()));
    stock.execute_batch("INSERT INTO t VALUES (1, 0, NULL)").unwrap();
    assert!(is_found(BTreeMap::from([(1, Outcome::Unknown)])), "half of a call");
    stock.execute_batch("INSERT INTO t VALUES (1, 1, NULL)").unwrap();
    assert!(!is_found(acknowledged()) && !is_found(BTreeMap::from([(1, Outcome::Unknown)])));
    assert!(is_found(refused()), "there, though it was refused");
    stock.execute_batch("DELETE FROM t WHERE number = 0").unwrap();
    assert!(is_found(acknowledged()), "what was there before is gone");
}
