//! A writer's process is killed in the middle of its work, on the real file system.
//!
//! This executable starts itself again as the process that writes, so it has no test
//! harness. The child says on its standard output which calls were acknowledged, after
//! they were; this process looks at the database beside it, kills it, and judges.

#[path = "writer_faults/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leafpress::Profile;
use leafpress::vfs::{PlatformVfs, register};
use leafpress::writer::Writer;
use rusqlite::{Connection, OpenFlags};

use workload::{Outcome, assert_whole, busy_checkpoints, judge, make_database, rows, start};

const CHILD_FLAG: &str = "--write-until-killed";
/// SQLite's own VFS, through ours: each second child writes through it, and this
/// process, beside it, never does.
const OUR_VFS: &str = "through-ours";
const SQLITES_OWN: &str = "sqlite's own";
const KILLS_EACH: u32 = 10;
const CALLERS: i64 = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, CHILD_FLAG, profile, path, first, vfs] => {
            let (profile, first) = (profile.parse().unwrap(), first.parse().unwrap());
            write_until_killed(profile, path.as_ref(), first, vfs);
        }
        [_, flags @ ..] if flags.contains(&"--list") => {}
        _ => {
            for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback] {
                kill_again_and_again(profile);
            }
        }
    }
}

/// The child: callers that write for ever, and tell each acknowledged call.
fn write_until_killed(profile: Profile, path: &Path, first: i64, vfs: &str) {
    let mut builder = Writer::builder(path).profile(profile).checkpoint_limits(busy_checkpoints());
    let registration = register(OUR_VFS, PlatformVfs::new()).unwrap();
    if vfs == OUR_VFS {
        builder = builder.vfs(OUR_VFS);
    }
    let writer = builder.open().unwrap();
    assert_eq!(registration.open_files() > 0, vfs == OUR_VFS);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let writer = &writer;
            scope.spawn(move || {
                for number in (first + caller..).step_by(CALLERS as usize) {
                    match start(writer, number)() {
                        // One write for the whole line, so that no line is torn.
                        Outcome::Acknowledged => {
                            let line = format!("{number}\n");
                            std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                        }
                        outcome => assert_eq!(number % 6, 4, "call {number}: {outcome:?}"),
                    }
                }
            });
        }
    });
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

fn kill_again_and_again(profile: Profile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    make_database(&path);
    let mut outcomes = BTreeMap::new();
    let mut random = 0x1234_5678_u64;
    for kill in 0..KILLS_EACH {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // After a number of answers, at once or a little later.
        let (answers, pause_us) = (1 + (random >> 33) % 60, (random >> 45) % 3_000);
        // Of seven digits, so that a line torn by the kill is no number of this child.
        let first = i64::from(kill + 1) * 1_000_000;
        let vfs = if kill % 2 == 0 { SQLITES_OWN } else { OUR_VFS };
        let arguments =
            [CHILD_FLAG, profile.name(), path.to_str().unwrap(), &first.to_string(), vfs];
        let acknowledged = killed_after(&arguments, &path, first, answers, pause_us);
        assert!(acknowledged.len() as u64 >= answers, "the child ended by itself");
        outcomes.extend(acknowledged.into_iter().map(|number| (number, Outcome::Acknowledged)));
        // A copy is judged first, so that the next child meets what the kill left.
        let context = (profile, kill, answers, pause_us, vfs);
        let copy = folder.path().join(format!("copy-{kill}"));
        std::fs::create_dir(&copy).unwrap();
        for end in ["", "-wal", "-journal"] {
            let from = path.with_file_name(format!("a.db{end}"));
            if from.exists() {
                std::fs::copy(from, copy.join(format!("a.db{end}"))).unwrap();
            }
        }
        judge(&copy.join("a.db"), &outcomes, &context);
    }
    judge(&path, &outcomes, &profile);
    println!("{profile}: {KILLS_EACH} kills, {} calls acknowledged, all there", outcomes.len());
}

/// Lets a child write, looks at the database beside it, and kills it; what it said.
fn killed_after(
    arguments: &[&str],
    path: &Path,
    first: i64,
    answers: u64,
    pause_us: u64,
) -> Vec<i64> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    for line in lines.by_ref().take(answers as usize) {
        acknowledged.push(line.unwrap().parse().unwrap());
    }
    look_from_beside(path, &acknowledged);
    std::thread::sleep(Duration::from_micros(pause_us));
    drop(child);
    // What it still said before it died.
    for line in lines.map_while(Result::ok) {
        acknowledged.extend(line.parse::<i64>().ok().filter(|number| *number >= first));
    }
    acknowledged
}

/// Another process sees whole calls, and all that were acknowledged.
fn look_from_beside(path: &Path, acknowledged: &[i64]) {
    let reader = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    reader.busy_timeout(Duration::from_secs(60)).unwrap();
    let found = rows(&reader).unwrap();
    assert_whole(&found, &"from beside");
    for number in acknowledged {
        assert!(found.contains_key(number), "call {number} is not seen by another process");
    }
}
