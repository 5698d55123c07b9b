//! Checks of the processes that have the database open.
//!
//! Must never: take a text in a library's file for more than thin evidence.

use leafpress::neighbours::{
    Asked, Library, LockHeld, LockStyle, Neighbour, OpenFile, SqliteLock, Standing, Which,
};
use leafpress::path_text;

use super::evidence::{Evidence, quoted};
use crate::human;
use crate::summary::finding::{Check, Finding};

const NOT_ASKED: &str = "this system does not say which processes have it open";

/// Check 1.
pub fn wal_reset_bug(evidence: &Evidence) -> Finding {
    let check = Check(1, "WAL-reset bug");
    let linked = &evidence.now.linked;
    if evidence.is_wal() == Some(false) {
        return check.ok("the bug is in the write-ahead log, and it has none");
    }
    let risk = "a checkpoint of one connection while another writes can damage the database";
    let fix = "SQLite 3.51.3 or later (or 3.50.7, 3.44.6) has the bug fixed";
    if linked.has_wal_reset_bug {
        let evidence = format!("SQLite {} is built into this program", linked.version);
        return check.care(evidence, risk, format!("build Leafpress anew: {fix}"));
    }
    let (mut bad, mut others) = (Vec::new(), Vec::new());
    for process in evidence.now.others() {
        match with_bug(process) {
            Some(files) => bad.push((process, files)),
            None => others.push(process),
        }
    }
    let why = |it: &Neighbour| why_untold(it).or_else(|| why_no_version(it));
    let untold = untold(evidence, others.iter().copied(), why);
    if !bad.is_empty() {
        let pids: Vec<String> = bad.iter().map(|(process, _)| process.pid.to_string()).collect();
        let processes = if pids.len() == 1 { "process" } else { "processes" };
        let seen = format!(
            "{} (thin evidence: a distribution may have fixed it){}",
            that_run(evidence, &bad),
            untold.map_or_else(String::new, |untold| format!("; {untold}"))
        );
        let fix = format!("give {processes} {} a newer SQLite: {fix}", pids.join(", "));
        return check.care(seen, risk, fix);
    }
    if let Some(untold) = untold {
        return check.unknown(untold);
    }
    check.ok(format!(
        "SQLite {} is built in here, and no older one was found in {}",
        linked.version,
        human::counted(others.len() as u64, "other process", "other processes")
    ))
}

/// The files of a process by whose text their SQLite has the bug; `None` if there are none.
fn with_bug(process: &Neighbour) -> Option<String> {
    let bad = process.libraries.iter().filter(|it| it.has_wal_reset_bug == Some(true));
    let one = |library: &Library| {
        let version = library.version.as_deref().unwrap_or("unknown");
        format!("{}, by its text SQLite {version}", path_text(&library.path))
    };
    let bad: Vec<String> = bad.map(one).collect();
    (!bad.is_empty()).then(|| bad.join(" and "))
}

/// `process 1 (a) runs X; process 2 (b) and process 3 (b) run Y`.
fn that_run(evidence: &Evidence, processes: &[(&Neighbour, String)]) -> String {
    let run = |(what, pids): (&str, Vec<u32>)| {
        let run = if pids.len() == 1 { "runs" } else { "run" };
        format!("{} {run} {what}", evidence.who(&pids))
    };
    by_text(processes).into_iter().map(run).collect::<Vec<_>>().join("; ")
}

/// `cannot be told for process 1 (a): no SQLite was found in the files that it runs`. `why` gives
/// the reason, if there is one; `None` if there is none for any process.
fn untold<'e>(
    evidence: &Evidence,
    processes: impl Iterator<Item = &'e Neighbour>,
    why: impl Fn(&Neighbour) -> Option<String>,
) -> Option<String> {
    let untold: Vec<(&Neighbour, String)> =
        processes.filter_map(|process| Some((process, why(process)?))).collect();
    let one = |(why, pids): (&str, Vec<u32>)| format!("{}: {why}", evidence.who(&pids));
    let all: Vec<String> = by_text(&untold).into_iter().map(one).collect();
    (!all.is_empty()).then(|| format!("cannot be told for {}", all.join("; ")))
}

/// The texts, each with the processes that it is about.
fn by_text<'p>(processes: &'p [(&Neighbour, String)]) -> Vec<(&'p str, Vec<u32>)> {
    let mut found: Vec<(&str, Vec<u32>)> = Vec::new();
    for (process, text) in processes {
        match found.iter_mut().find(|(known, _)| known == text) {
            Some((_, pids)) => pids.push(process.pid),
            None => found.push((text, vec![process.pid])),
        }
    }
    found
}

/// The reason why a process can have an SQLite that was not found. An SQLite in memory alone, as
/// of a WebAssembly program, shows in no file.
fn why_untold(process: &Neighbour) -> Option<String> {
    let unread = process.libraries.iter().find(|library| library.holds_sqlite.is_none());
    match unread {
        Some(library) => Some(format!("{} could not be read to its end", path_text(&library.path))),
        None if process.copies_of_sqlite().is_empty() => {
            Some("no SQLite was found in the files that it runs".to_owned())
        }
        None => None,
    }
}

fn why_no_version(process: &Neighbour) -> Option<String> {
    let copies = process.copies_of_sqlite();
    let library = copies.iter().find(|library| library.version.is_none())?;
    Some(format!("the SQLite in {} does not tell its version", path_text(&library.path)))
}

/// Check 23.
pub fn locks(evidence: &Evidence) -> Finding {
    let check = Check(23, "locks and competing processes");
    if evidence.now.asked == Asked::FolderOnly {
        return check.unknown(NOT_ASKED);
    }
    if let Some(held) = evidence.stuck.iter().find(|held| held.pids.len() > 1) {
        return check.care(
            format!(
                "{} hold the lock {} together: one is a fork of the other, and has its descriptor",
                evidence.who(&held.pids),
                held.lock
            ),
            "a connection that is used on both sides of a fork damages the database, and the lock \
             stays until both have ended",
            "open the database after the fork, in the child alone, or end the child",
        );
    }
    if let Some(held) = evidence.stuck.iter().max_by_key(|held| held.lock.keeps_readers_out()) {
        return held_for_long(check, evidence, held);
    }
    let others: Vec<u32> = evidence.now.others().map(|process| process.pid).collect();
    match others[..] {
        [] => check.ok("no other process has it open"),
        _ => check.ok(format!(
            "open in {}; no lock is held for long{}",
            human::cut(&evidence.who(&others), 200),
            sharing(evidence)
        )),
    }
}

/// A part of a sentence: the processes that share the database, if any do, and those that do not.
fn sharing(evidence: &Evidence) -> String {
    let is_writer = |held: &&LockHeld| held.lock == SqliteLock::SharingWriter;
    let locks = evidence.now.locks.iter().filter(is_writer);
    let sharing: Vec<u32> = locks.flat_map(|held| held.pids.iter().copied()).collect();
    if sharing.is_empty() {
        return String::new();
    }
    let has_database = |process: &&Neighbour| {
        process.open.iter().any(|file| file.which == Which::Database)
            && !sharing.contains(&process.pid)
    };
    let alone: Vec<u32> = evidence.now.others().filter(has_database).map(|it| it.pid).collect();
    let beside = if alone.is_empty() {
        String::new()
    } else {
        let who = human::cut(&evidence.who(&alone), 200);
        format!(", but not {who}: if it writes, it stands in no line and syncs for itself")
    };
    let processes = human::counted(sharing.len() as u64, "process shares", "processes share");
    format!("; {processes} it by the file -shared{beside}")
}

fn held_for_long(check: Check, evidence: &Evidence, held: &LockHeld) -> Finding {
    let whom = if held.lock.keeps_readers_out() {
        "no other connection can read or write"
    } else {
        "no other connection can write"
    };
    let fix = match held.pids.first() {
        Some(pid) => format!("let it end its transaction, or end the process: kill {pid}"),
        None => format!("find it as root: {}", evidence.as_root()),
    };
    check.care(
        format!(
            "{} held the lock {} for all of the {} of this look, without a commit",
            evidence.who(&held.pids),
            held.lock,
            human::duration(evidence.watched)
        ),
        format!(
            "{whom} meanwhile: \"database is locked\" once its busy_timeout is over, which is 0 \
             unless it is set (Python and Leafpress: 5 s)"
        ),
        fix,
    )
}

/// Check 27.
pub fn copies_of_sqlite(evidence: &Evidence) -> Finding {
    let check = Check(27, "two copies of SQLite in a process");
    if evidence.now.asked == Asked::FolderOnly {
        return check.unknown(NOT_ASKED);
    }
    let risk = "locks of one copy do not hold for the other, and are dropped when the other closes \
                the file: both write at once, and commits vanish";
    let fix = "let one copy alone open this database in that process, or use a process of its own";
    let (mut found, mut idle, mut kept_apart) = (Vec::new(), Vec::new(), Vec::new());
    for process in evidence.now.processes.iter().filter(|it| it.copies_of_sqlite().len() > 1) {
        let of = if is_kept_apart(evidence, process) {
            &mut kept_apart
        } else if is_open_twice(process) {
            &mut found
        } else {
            &mut idle
        };
        let copies = process.copies_of_sqlite().into_iter();
        let names: Vec<String> = copies.map(|it| path_text(&it.path)).collect();
        of.push((process, names.join(" and ")));
    }
    let idle = (!idle.is_empty()).then(|| {
        format!(
            "{}; now one copy alone has this database open, and two must not",
            that_run(evidence, &idle)
        )
    });
    let untold = untold(evidence, evidence.now.processes.iter(), why_untold);
    let unknown: Vec<String> = idle.into_iter().chain(untold).collect();
    if !found.is_empty() {
        let found = [that_run(evidence, &found)].into_iter().chain(unknown);
        return check.care(found.collect::<Vec<_>>().join("; "), risk, fix);
    }
    if let [first, ..] = &evidence.now.second_copy[..] {
        return check.care(format!("this process: {first}"), risk, fix);
    }
    if !unknown.is_empty() {
        return check.unknown(unknown.join("; "));
    }
    if kept_apart.is_empty() {
        return check.ok("no process was found that has two");
    }
    check.ok(format!(
        "{}: Leafpress takes locks of descriptors, which hold against the other copy",
        that_run(evidence, &kept_apart)
    ))
}

/// Returns true if one of two copies is Leafpress's with locks of descriptors. Two others take
/// locks of the process, which do not hold between them.
fn is_kept_apart(evidence: &Evidence, process: &Neighbour) -> bool {
    let of_process = evidence.now.locks.iter().filter(|held| held.pids.contains(&process.pid));
    let styles: Vec<LockStyle> = of_process.map(|held| held.style).collect();
    let copies = process.copies_of_sqlite();
    // The folder may be called so for another reason.
    let is_other = |it: &&&Library| {
        !it.path.file_name().is_some_and(|name| path_text(name).contains("leafpress"))
    };
    let others = copies.iter().filter(is_other).count();
    let is_careful = styles.is_empty() || styles.contains(&LockStyle::Ofd);
    others == 1 && copies.len() == 2 && is_careful
}

/// Returns true if two copies can have the database open now. One copy opens the index of the log
/// once for all of its connections, and the database once for each.
fn is_open_twice(process: &Neighbour) -> bool {
    let count = |which| {
        let is_it = |it: &&OpenFile| it.which == which && it.standing == Standing::InPlace;
        process.open.iter().filter(is_it).count()
    };
    match count(Which::SharedMemory) {
        0 => count(Which::Database) > 1,
        indexes => indexes > 1,
    }
}

/// Check 28.
pub fn open_files(evidence: &Evidence) -> Finding {
    let check = Check(28, "open files are those in the folder");
    if evidence.now.asked == Asked::FolderOnly {
        return check.unknown(NOT_ASKED);
    }
    let lost = evidence.now.lost_files().min_by_key(|(_, file)| file.which);
    if let Some((process, file)) = lost {
        return check.care(
            format!("{process} has {}", lost_in_words(file)),
            "what it commits goes to a file that no other program finds, and is gone when it ends",
            lost_fix(evidence, process, file),
        );
    }
    if let Some((process, which)) = evidence.now.with_other_files().next() {
        let what = if which == Which::Log { "log" } else { "database" };
        return check.care(
            format!("{process} uses the index of this database's log, with another {what}"),
            format!(
                "the {what} was renamed or replaced under it: two share one index, and both can \
                 be damaged"
            ),
            format!("end process {}, put back the {what} that it opened", process.pid),
        );
    }
    check.ok("no process has a file open that was deleted, renamed or replaced")
}

fn lost_in_words(file: &OpenFile) -> String {
    let name = match file.which {
        Which::Database => "the database",
        Which::Log => "the write-ahead log",
        Which::SharedMemory => "the log's index",
        Which::Sharing => "the file by which writers share the database",
        _ => "the journal",
    };
    let path = path_text(&file.path);
    match file.standing {
        Standing::Deleted => format!("{name} open, which is deleted: {path}"),
        Standing::Replaced => format!("{name} open, and another file has that name now: {path}"),
        _ => {
            format!("{name} open under the name that the database had before: {path}")
        }
    }
}

fn lost_fix(evidence: &Evidence, process: &Neighbour, file: &OpenFile) -> String {
    let (pid, descriptor) = (process.pid, file.descriptor);
    if file.standing == Standing::OfOtherName {
        return format!("end process {pid}, give the database its old name back, open it again");
    }
    if file.which == Which::Database {
        let save = |descriptor, ending: &str| {
            let mut copy = evidence.named.clone().into_os_string();
            copy.push(ending);
            format!("cp /proc/{pid}/fd/{descriptor} {}", quoted(std::path::Path::new(&copy)))
        };
        // The log has the commits that are not in the database yet.
        let log = process.open.iter().find(|it| it.which == Which::Log);
        let log = log.map(|it| save(it.descriptor, ".rescued-wal"));
        let all = [Some(save(descriptor, ".rescued")), log].into_iter().flatten();
        return format!(
            "do not end it yet: let it copy the database (VACUUM INTO), or save the file while it \
             does not write: {}",
            all.collect::<Vec<_>>().join(" && ")
        );
    }
    format!(
        "do not end it yet: let it copy the database (VACUUM INTO 'rescued.db'), then end it, and \
         never remove {} while the database is open",
        file.which.suffix()
    )
}
