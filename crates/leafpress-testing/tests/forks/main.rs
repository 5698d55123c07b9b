//! Forks of a process that has a writer, queues and readers, under load.
//!
//! This executable starts itself again as programs that look from beside, so it has no
//! test harness. Of each child is asked:
//!
//! 1. Each call on what it inherited fails as [`Forked`](leafpress::ErrorKind::Forked), at
//!    once: a child that is not done after [`HANG_S`] seconds is killed, and that is a failure.
//! 2. A writer, readers, a queue and a load of its own work.
//! 3. However it ends, by dropping all and returning from `main` or at once, the parent
//!    loses no row, no job and no lock.
//!
//! And of programs that are started by `exec`: they find no descriptor of ours open.
//!
//! `LEAFPRESS_FORKS=500 cargo test -p leafpress-testing --test forks` forks more often
//! than the 20 times under each profile that are the rule.

#[cfg(unix)]
mod calls;
#[cfg(unix)]
mod child;
#[cfg(unix)]
mod closures;
#[cfg(unix)]
mod load;
#[cfg(unix)]
mod programs;
#[cfg(unix)]
mod system;

use std::process::ExitCode;

/// A child takes less than a second, and more only on a machine with much else to do.
pub const HANG_S: u32 = 60;

#[cfg(not(unix))]
fn main() -> ExitCode {
    println!("SKIPPED: this system has no fork");
    ExitCode::SUCCESS
}

/// In which process a test came back: a child goes on to the end of `main`.
#[cfg(unix)]
#[must_use]
pub enum Ended {
    /// In the process that forked.
    Parent,
    /// In a child, which exits with this status.
    Child(u8),
}

#[cfg(unix)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [flag, rest @ ..] if flag.starts_with("--as-") => programs::run(flag, rest),
        flags if flags.contains(&"--list") => ExitCode::SUCCESS,
        _ => tests(),
    }
}

#[cfg(unix)]
fn tests() -> ExitCode {
    use leafpress::Profile;

    let forks = std::env::var("LEAFPRESS_FORKS").map_or(20, |it| it.parse().expect("a number"));
    programs::find_no_descriptor();
    let profiles = [Profile::Durable, Profile::Relaxed, Profile::Rollback];
    // One of them alone, to look closer.
    let asked = std::env::var("LEAFPRESS_FORKS_PROFILE").ok();
    let is_asked = |it: &Profile| asked.as_ref().is_none_or(|asked| asked == it.name());
    for profile in profiles.into_iter().filter(is_asked) {
        programs::write_at_once_though_a_child_lives(profile);
        let under_load = || under_load::fork(profile, forks);
        let in_closure = || closures::fork_inside(profile);
        let in_thread = || closures::fork_inside_the_writers_thread(profile);
        let in_handler = || closures::fork_inside_a_handler(profile);
        let tests: [&dyn Fn() -> Ended; 4] = [&in_closure, &in_thread, &in_handler, &under_load];
        for test in tests {
            if let Ended::Child(code) = test() {
                return code.into();
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(unix)]
mod under_load {
    //! Forks beside eight callers, a consumer, a worker and another thread that forks.

    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::time::Instant;

    use leafpress::Profile;
    use leafpress::queue::Queue;
    use rusqlite::Connection;

    use crate::child::{Child, IDS_EACH, gather, heard, settle};
    use crate::load::{Done, Load, open};
    use crate::system::{self, Side};
    use crate::{Ended, programs};

    pub fn fork(profile: Profile, forks: i64) -> Ended {
        let began = Instant::now();
        let mut folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let writer = open(&path, profile);
        writer.execute_batch("CREATE TABLE t(id INTEGER, who TEXT)").unwrap();
        let load = Load::start(&writer);
        let mut ids = Vec::new();
        for number in 0..forks {
            let first_id = (number + 1) * IDS_EACH;
            let inherited = gather(&writer, load.stop(), first_id);
            let (from_child, to_parent) = std::io::pipe().unwrap();
            match system::fork() {
                Side::Child => {
                    folder.disable_cleanup(true);
                    let forks_again = number % 5 == 0;
                    let child =
                        Child { path: &path, profile, first_id: first_id + 100, forks_again };
                    let code = child.run(inherited, to_parent);
                    if number % 2 == 0 {
                        system::leave(code.into());
                    }
                    load.abandon();
                    return Ended::Child(code);
                }
                Side::Parent(process) => {
                    drop(to_parent);
                    ids.extend(heard(from_child, process));
                    ids.extend(settle(inherited, first_id));
                }
            }
            if number == forks / 2 {
                programs::find_locks(&writer, &path);
            }
        }
        programs::find_locks(&writer, &path);
        let held = Queue::open(&writer, "held").unwrap();
        assert_eq!(held.stats().unwrap().jobs.open(), 0, "all claims were settled");
        let done = load.end();
        ids.extend(&done.acknowledged);
        judge_jobs(&done);
        writer.close().unwrap();
        judge_rows(&path, &ids);
        println!(
            "{profile}: {forks} forks and {} beside them, 0 hangs; {} rows acknowledged and {} \
             jobs pushed, 0 lost; {:.1} s",
            done.forks,
            ids.len(),
            done.pushed.len(),
            began.elapsed().as_secs_f64()
        );
        Ended::Parent
    }

    fn judge_jobs(done: &Done) {
        let handled: BTreeSet<&String> = done.handled.iter().collect();
        assert_eq!(handled.len(), done.handled.len(), "no job came twice");
        assert!(done.pushed.iter().all(|it| handled.contains(it)), "every job came");
    }

    fn judge_rows(path: &Path, acknowledged: &[i64]) {
        let connection = Connection::open(path).unwrap();
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        let mut statement = connection.prepare("SELECT id, count(*) FROM t GROUP BY id").unwrap();
        let found: BTreeMap<i64, i64> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        let twice: Vec<_> = found.iter().filter(|(_, times)| **times != 1).collect();
        assert!(twice.is_empty(), "rows that came more than once: {twice:?}");
        let lost: Vec<_> = acknowledged.iter().filter(|id| !found.contains_key(id)).collect();
        assert!(lost.is_empty(), "lost after they were acknowledged: {lost:?}");
        assert_eq!(found.len(), acknowledged.len(), "rows that no caller was told of");
    }
}
