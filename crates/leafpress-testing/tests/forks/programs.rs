//! Programs beside the process that forks: what they find open and what they find locked.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use leafpress::Profile;
use leafpress::load::Loader;
use leafpress::writer::Writer;
use rusqlite::Connection;

use crate::load::{INSERT, Load, open, open_queue};
use crate::system::{self, End, Side};

const LISTER: &str = "--as-lister";
const PROBE: &str = "--as-probe";
const MORTAL: &str = "--as-mortal";
const FULL: &str = "--as-full";
/// Programs that are started while a process writes.
const PROGRAMS: usize = 20;
/// Time by which a child outlives its parent, unless it is killed.
const SURVIVAL_S: u32 = 300;

/// This executable as one of these programs.
pub fn run(flag: &str, arguments: &[&str]) -> ExitCode {
    match (flag, arguments) {
        (LISTER, [file]) => std::fs::write(file, open_files().join("\n")).unwrap(),
        (PROBE, [path]) if take_alone(path.as_ref(), Duration::ZERO).is_ok() => {
            return ExitCode::from(1);
        }
        (PROBE, [_]) => {}
        (MORTAL, [profile, path]) => write_until_killed(profile.parse().unwrap(), path.as_ref()),
        (FULL, [profile, path]) => {
            fork_without_descriptors(profile.parse().unwrap(), path.as_ref());
        }
        _ => panic!("not known: {flag} {arguments:?}"),
    }
    ExitCode::SUCCESS
}

fn this_program() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// The files behind the descriptors of this process.
fn open_files() -> Vec<String> {
    let own = format!("/proc/{}/fd", std::process::id());
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|it| {
        let link = std::fs::read_link(it.unwrap().path()).ok()?;
        Some(link.to_str().unwrap().to_owned()).filter(|it| *it != own)
    });
    links.collect()
}

/// Time in which a child that was forked just before has let go of what it inherited: for that it must run
/// once.
const FIRST_STEP: Duration = Duration::from_secs(20);

/// Takes the database for a connection alone within `patience`, and gives it back.
fn take_alone(path: &Path, patience: Duration) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(patience)?;
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
}

/// Another process cannot have the database while the writer of this one has it.
pub fn find_locks(writer: &Writer, path: &Path) {
    let is_held = |path: &Path| {
        let status = Command::new(this_program()).arg(PROBE).arg(path).status().unwrap();
        assert!(status.success(), "the locks of this process are gone");
    };
    let profile = writer.in_force().unwrap().profile;
    if profile.is_wal() {
        return is_held(path);
    }
    // Between transactions it has none under this profile.
    let path = path.to_owned();
    let inside = writer.transaction(move |tx| {
        tx.execute(INSERT, (0, "to be undone"))?;
        is_held(&path);
        Err::<(), _>(leafpress::Error::aborted("it was only to see the locks"))
    });
    inside.unwrap_err();
}

/// Programs that are started under load find the descriptors that they find without us.
pub fn find_no_descriptor() {
    if !Path::new("/proc/self/fd").is_dir() {
        leafpress_testing::say_skipped("which descriptors programs find, as there is no /proc");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let spawn = || {
        let lister = Command::new(this_program()).arg(LISTER).arg(&list).status().unwrap();
        assert!(lister.success());
    };
    let vfork = || {
        let arguments = [LISTER, list.to_str().unwrap()];
        let lister = system::vfork_and_exec(&this_program(), &arguments);
        assert_eq!(system::wait(lister), End::Exited(0));
    };
    let found = || -> BTreeSet<String> {
        std::fs::read_to_string(&list).unwrap().lines().map(str::to_owned).collect()
    };
    spawn();
    let without_us = found();
    let path = folder.path().join("a.db");
    for profile in [Profile::Durable, Profile::Rollback] {
        let writer = open(&path, profile);
        writer.execute_batch("CREATE TABLE IF NOT EXISTS t(id INTEGER, who TEXT)").unwrap();
        let load = Load::start(&writer);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..PROGRAMS {
                    let made = folder.path().join(format!("{profile}-{number}.db"));
                    Loader::new(made).load_reader("a.csv", &b"a,b\n1,2\n"[..]).unwrap();
                }
            });
            for number in 0..PROGRAMS {
                if number % 2 == 0 {
                    spawn();
                } else {
                    vfork();
                }
                assert_eq!(found(), without_us, "program {number} under {profile}");
            }
        });
        load.end();
        writer.close().unwrap();
    }
    println!("{PROGRAMS} programs under load each: no descriptor of ours");
}

/// A process that writes, with a child that does nothing, until it is killed.
fn write_until_killed(profile: Profile, path: &Path) {
    let writer = open(path, profile);
    writer.execute_batch("CREATE TABLE t(id INTEGER, who TEXT)").unwrap();
    let load = Load::start(&writer);
    std::thread::sleep(Duration::from_millis(50));
    match system::fork() {
        Side::Parent(child) => {
            // In one write, so that the line is whole.
            std::io::stdout().write_all(format!("{child}\n").as_bytes()).unwrap();
            // In the middle of a transaction, as SQLite's locks are held then.
            let wait = writer.transaction(|tx| {
                tx.execute(INSERT, (-3, "never committed"))?;
                std::thread::sleep(Duration::from_secs(SURVIVAL_S.into()));
                Ok(())
            });
            unreachable!("it is killed before: {wait:?} {}", load.writer().stats().calls);
        }
        Side::Child => sleep_until_killed(),
    }
}

fn sleep_until_killed() -> ! {
    system::kill_me_in(SURVIVAL_S);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A process that forks in a transaction while it can open no more files, until it is killed.
fn fork_without_descriptors(profile: Profile, path: &Path) {
    let writer = open(path, profile);
    writer.execute_batch("CREATE TABLE t(id INTEGER, who TEXT)").unwrap();
    let wait = writer.transaction_scoped(|tx| {
        tx.execute(INSERT, (-3, "never committed"))?;
        let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        match system::fork() {
            Side::Parent(child) => {
                drop(all);
                std::io::stdout().write_all(format!("{child}\n").as_bytes()).unwrap();
                std::thread::sleep(Duration::from_secs(SURVIVAL_S.into()));
                Ok(())
            }
            Side::Child => sleep_until_killed(),
        }
    });
    unreachable!("it is killed before: {wait:?}");
}

/// Kills the child also if a check fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already, which the judge then finds out.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The locks of a process that was killed are free, though a child of its fork lives.
pub fn write_at_once_though_a_child_lives(profile: Profile) {
    for parent in [MORTAL, FULL] {
        write_at_once_after(parent, profile);
    }
    println!("{profile}: a killed process leaves no lock, though its child lives");
}

/// How the writer shares, once it is the only member or [`FIRST_STEP`] is over: a child that has just
/// been forked may have given up the locks of the database, and not yet its parent's membership.
fn sharing_once_alone(writer: &Writer) -> Option<(Option<String>, u64)> {
    let until = Instant::now() + FIRST_STEP;
    loop {
        let sharing = writer.stats().sharing.map(|it| (it.why_not, it.members));
        let is_alone = sharing.as_ref().is_none_or(|&(_, members)| members == 1);
        if is_alone || Instant::now() > until {
            return sharing;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn write_at_once_after(parent: &str, profile: Profile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // Few files, so that a program can open all that it may.
    let mortal = Command::new("sh")
        .args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\"", &this_program()])
        .args([parent, profile.name(), path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn();
    let mut mortal = Killed(mortal.unwrap());
    let mut line = String::new();
    BufReader::new(mortal.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let survivor: i32 = line.trim().parse().expect("a process");
    std::thread::sleep(Duration::from_millis(200));
    drop(mortal);
    // A child of the load's own forks may not have run yet when its parent dies.
    let alone = take_alone(&path, FIRST_STEP);
    let lives = Path::new("/proc").join(survivor.to_string()).exists();
    let writer = open(&path, profile);
    writer.execute(INSERT, (-4, "after the kill")).unwrap();
    let sharing = sharing_once_alone(&writer);
    open_queue(&writer, "mail").push("after the kill").unwrap();
    let uncommitted =
        writer
            .reader()
            .unwrap()
            .query_row("SELECT count(*) FROM t WHERE id = -3", [], |row| row.get::<_, i64>(0));
    system::kill(survivor);
    alone.expect("the child has kept locks of its parent");
    assert!(lives || !cfg!(target_os = "linux"), "the child was to live on");
    assert_eq!(uncommitted, Ok(0));
    assert_eq!(sharing, (profile == Profile::Durable).then_some((None, 1)));
}
