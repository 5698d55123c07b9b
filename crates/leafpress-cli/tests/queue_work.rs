//! `leafpress queue work` from the outside: what a program's end means for its
//! job, what reaches the program, and what signals do to both.
//!
//! 1. A job is done exactly if its program exited with 0.
//! 2. No byte of a job is ever seen by a shell that was not asked for.
//! 3. Whatever ends the worker, no job is lost, and none is done that was not.
//!
//! Nothing waits for a time to pass: programs say by files that they run, and
//! wait for files that they may go on. Unix only: signals, `sh`.
#![cfg(unix)]

mod common;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Outcome, command, names_in, run, send};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

const WORK: [&str; 4] = ["queue", "work", "jobs.db", "q"];

struct Scene {
    folder: TempDir,
}

impl Scene {
    /// A queue with jobs that have these payloads, whose retries come at once.
    fn new(payloads: &[&str]) -> Self {
        let scene = Self { folder: TempDir::new().unwrap() };
        let settings = ["--backoff", "0s", "--keep-done", "1h"];
        scene.queue(&[&["settings", "jobs.db", "q"], &settings[..]].concat()).expect_status(0);
        if !payloads.is_empty() {
            scene.queue(&[&["push", "jobs.db", "q", "--"], payloads].concat()).expect_status(0);
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn queue(&self, arguments: &[&str]) -> Outcome {
        run(self.folder.path(), &[&["queue"], arguments].concat())
    }

    fn work(&self, arguments: &[&str]) -> Outcome {
        run(self.folder.path(), &[&WORK, arguments].concat())
    }

    /// A worker that goes on until it is stopped.
    fn start(&self, arguments: &[&str]) -> Child {
        command(self.folder.path(), &[&WORK, arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn jobs(&self) -> Vec<Value> {
        let object = self.queue(&["list", "jobs.db", "q", "--json"]).expect_status(0).json();
        object["jobs"].as_array().unwrap().clone()
    }

    fn states(&self) -> Vec<String> {
        self.jobs().iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Until a program has made this file, whole.
    fn wait_for(&self, name: &str) -> String {
        let path = self.path(name);
        wait_until(name, || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n')))
    }

    fn let_go_on(&self) {
        fs::write(self.path("go"), "").unwrap();
    }
}

/// Looks until there is something. Fails only after so long that it never comes.
fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..60_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what} never came");
}

fn is_running(id: &str) -> bool {
    let kill = Command::new("kill").args(["-0", id.trim()]).stderr(Stdio::null()).status();
    kill.unwrap().success()
}

/// A shell line that says that it runs, and waits until it may go on.
const HELD_UP: &str =
    "echo $$ > pid.part && mv pid.part pid; while ! [ -e go ]; do sleep 0.01; done";

#[test]
fn a_program_gets_the_payload_and_its_end_decides() {
    let nasty = "$(touch pwned) `touch pwned`; touch pwned\n'\"\\";
    let scene = Scene::new(&[nasty, "-n", ""]);
    let outcome = scene.work(&["--until-empty", "--keep-output", "--exec", "cat"]);
    let outcome = outcome.expect_status(0);
    assert!(outcome.stderr.contains("3 jobs in ") && outcome.stderr.contains("3 done"));
    let jobs = scene.jobs();
    let results: Vec<&Value> = jobs.iter().map(|job| &job["result"]["text"]).collect();
    assert_eq!(results, [nasty, "-n", ""]);
    assert!(!scene.path("pwned").exists());
}

#[test]
fn bytes_of_any_kind_and_number_reach_the_program() {
    let scene = Scene::new(&[]);
    let bytes: Vec<u8> = (0..700_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let mut push = command(scene.folder.path(), &["queue", "push", "jobs.db", "q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    push.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(push.wait().unwrap().success());
    // The arguments are those that are given, with all their blanks.
    let line = "cat > \"$1\"";
    scene.work(&["--until-empty", "--exec", "sh", "-c", line, "-", "out put"]).expect_status(0);
    assert!(fs::read(scene.path("out put")).unwrap() == bytes);

    // One that reads nothing of it is no failure.
    let mut push = command(scene.folder.path(), &["queue", "push", "jobs.db", "q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    push.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(push.wait().unwrap().success());
    scene.work(&["--until-empty", "--exec", "true"]).expect_status(0);
    assert_eq!(scene.states(), ["done", "done"]);
}

#[test]
#[cfg(target_os = "linux")]
fn the_environment_tells_the_rest() {
    let scene = Scene::new(&[]);
    let push = [
        "push",
        "jobs.db",
        "q",
        "x",
        "--group",
        "a $(b)\n",
        "--correlation-id",
        "c",
        "--metadata",
        "{\"k\": 1}",
        "--priority",
        "-2",
        "--attempts",
        "3",
    ];
    scene.queue(&push).expect_status(0);
    let line = "env -0 | grep -z ^LEAFPRESS_JOB_ | sort -z | tr '\\0' '|'";
    let arguments = [&WORK[..], &["--until-empty", "--keep-output", "--shell", line]].concat();
    let output = command(scene.folder.path(), &arguments)
        .env("LEAFPRESS_JOB_METADATA_OLD", "of a worker around this one")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = "LEAFPRESS_JOB_ATTEMPT=1|LEAFPRESS_JOB_ATTEMPTS_MAX=3|LEAFPRESS_JOB_CORRELATION_ID=c|\
         LEAFPRESS_JOB_GROUP=a $(b)\n|LEAFPRESS_JOB_ID=1|LEAFPRESS_JOB_METADATA={\"k\": 1}|\
         LEAFPRESS_JOB_PRIORITY=-2|LEAFPRESS_JOB_QUEUE=q|LEAFPRESS_JOB_TOKEN=1.1|";
    assert_eq!(scene.jobs()[0]["result"]["text"], expected);
}

#[test]
fn exit_codes_mean_done_again_or_never() {
    for (line, state, error) in [
        ("exit 0", "done", None),
        ("echo a >&2; echo why >&2; exit 75", "dead", Some("exit code 75\na\nwhy")),
        ("exit 1", "dead", Some("exit code 1")),
        ("kill -9 $$", "dead", Some("killed by signal 9")),
    ] {
        let scene = Scene::new(&["x"]);
        // It is tried again until it has no attempts left.
        let jobs = if state == "dead" { "5" } else { "1" };
        let outcome = scene.work(&["--max-jobs", jobs, "--shell", line]);
        outcome.expect_status(i32::from(state == "dead"));
        let job = &scene.jobs()[0];
        assert_eq!(job["attempts"], if state == "dead" { 5 } else { 1 }, "{line}");
        assert_eq!((&job["state"], &job["error"]), (&json!(state), &json!(error)), "{line}");
    }
    // What is dead of itself is no longer so where other codes are.
    for (code, state) in [("66", "dead"), ("67", "dead"), ("65", "delayed")] {
        let scene = Scene::new(&[code]);
        scene.queue(&["settings", "jobs.db", "q", "--backoff", "1h"]).expect_status(0);
        let line = "read code; exit $code";
        let flags = ["--dead-on", "66,67", "--max-jobs", "1", "--shell", line];
        scene.work(&flags).expect_status(1);
        assert_eq!(scene.states(), [state], "{code}");
    }
    let scene = Scene::new(&["x"]);
    let outcome = scene.work(&["--until-empty", "--shell", "echo no such address >&2; exit 65"]);
    let outcome = outcome.expect_status(1);
    assert!(
        outcome.stderr.contains("job 1 is dead, attempt 1: exit code 65"),
        "{}",
        outcome.stderr
    );
    let job = &scene.jobs()[0];
    assert_eq!((&job["state"], &job["attempts"]), (&json!("dead"), &json!(1)));
}

#[test]
fn a_program_that_is_missing_costs_no_attempts() {
    let scene = Scene::new(&["x"]);
    let outcome = scene.work(&["--exec", "no-such-program-anywhere"]).expect_status(2);
    assert!(outcome.stderr.contains("there is no program no-such-program-anywhere"));
    fs::write(scene.path("not-executable"), "").unwrap();
    let outcome = scene.work(&["--exec", "./not-executable"]).expect_status(3);
    assert!(outcome.stderr.contains("cannot run ./not-executable"), "{}", outcome.stderr);
    scene.work(&["--chdir", "nowhere", "--exec", "cat"]).expect_status(2);
    let job = &scene.jobs()[0];
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)));
    scene.work(&["--until-empty"]).expect_status(2);
    scene.work(&["--until-empty", "--shell", "x", "--exec", "y"]).expect_status(2);
}

#[test]
fn texts_that_fit_no_environment_make_no_trouble() {
    let scene = Scene::new(&[]);
    let long = "x".repeat(1 << 18);
    let lines = format!(
        "{{\"text\":\"a\",\"group\":\"nul\\u0000\"}}\n{{\"text\":\"b\",\"correlation_id\":\"{long}\"}}\n"
    );
    fs::write(scene.path("in.ndjson"), lines).unwrap();
    scene.queue(&["push", "jobs.db", "q", "--ndjson", "in.ndjson"]).expect_status(0);
    let line = "test -z \"${LEAFPRESS_JOB_GROUP+set}\"";
    scene.work(&["--until-empty", "--shell", line]).expect_status(1);
    assert_eq!(scene.states(), ["done", "dead"]);
    assert!(scene.jobs()[1]["error"].as_str().unwrap().starts_with("cannot run sh: "));
}

#[test]
fn output_goes_on_unless_it_is_kept_or_stdout_is_ours() {
    let scene = Scene::new(&["a", "b"]);
    let outcome = scene.work(&["--max-jobs", "1", "--exec", "echo", "out"]).expect_status(0);
    assert_eq!(outcome.stdout, "out\n");
    let outcome =
        scene.work(&["--until-empty", "--json", "--exec", "echo", "out"]).expect_status(0);
    assert_eq!((&outcome.json()["done"], &outcome.json()["claimed"]), (&json!(1), &json!(1)));
    assert!(outcome.stderr.contains("out\n"), "{}", outcome.stderr);

    let scene = Scene::new(&["a"]);
    let much = "head -c 2000000 /dev/zero";
    let outcome = scene.work(&["--until-empty", "--keep-output", "--shell", much]).expect_status(0);
    assert!(outcome.stderr.contains("job 1: its output was not kept"), "{}", outcome.stderr);
    assert_eq!(scene.states(), ["done"]);
    scene.queue(&["push", "jobs.db", "q", "b"]).expect_status(0);
    let quiet = ["--until-empty", "--quiet", "--keep-output", "--shell", much];
    let outcome = scene.work(&quiet).expect_status(0);
    assert!(!outcome.stderr.contains("not kept"), "{}", outcome.stderr);
}

/// The system then looks in folders of its own.
#[cfg(unix)]
#[test]
fn a_program_is_found_without_path() {
    let scene = Scene::new(&["a"]);
    let arguments = [&WORK[..], &["--until-empty", "--exec", "cat"]].concat();
    let ended = command(scene.folder.path(), &arguments).env_remove("PATH").output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(scene.states(), ["done"]);
}

#[test]
fn several_programs_run_at_once() {
    let scene = Scene::new(&["1", "2", "3", "4"]);
    // Each waits for all four: fewer at once would never end.
    let line = "read n; touch at.$n; while [ $(ls at.* | wc -l) -lt 4 ]; do sleep 0.01; done";
    scene.work(&["-j", "4", "--until-empty", "-q", "--shell", line]).expect_status(0);
    assert_eq!(scene.states(), ["done"; 4]);
}

#[test]
fn a_program_that_takes_too_long_is_ended_with_its_children() {
    let scene = Scene::new(&[]);
    scene.queue(&["push", "jobs.db", "q", "x", "--attempts", "1"]).expect_status(0);
    let line = "sleep 600 & echo $! > child; echo going >&2; wait";
    let outcome = scene.work(&["--until-empty", "--timeout", "2s", "--shell", line]);
    outcome.expect_status(1);
    let error = scene.jobs()[0]["error"].clone();
    let error = error.as_str().unwrap();
    assert!(error.starts_with("it ran longer than 2.00 s"), "{error}");
    // On a very slow machine it did not come so far.
    if error.ends_with("\ngoing") {
        let child = fs::read_to_string(scene.path("child")).unwrap();
        wait_until("the end of the child", || (!is_running(&child)).then_some(()));
    }
}

#[test]
fn at_sigterm_what_runs_may_end_and_nothing_more_is_taken() {
    for signal in common::ending_signals() {
        let scene = Scene::new(&["a", "b"]);
        let worker = scene.start(&["--json", "--shell", HELD_UP]);
        scene.wait_for("pid");
        send(signal, worker.id());
        scene.let_go_on();
        let output = worker.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        // The signal may come after the end of the first, and before the second.
        let done = report["done"].as_u64().unwrap();
        assert_eq!(report["claimed"], report["done"]);
        let states = scene.states();
        assert_eq!(states.iter().filter(|state| *state == "done").count() as u64, done);
        assert!(done >= 1 && states.iter().all(|state| state == "done" || state == "ready"));
    }
}

#[test]
fn a_worker_that_was_to_empty_the_queue_says_what_a_signal_left() {
    let scene = Scene::new(&["a", "b"]);
    let worker = scene.start(&["--until-empty", "--grace", "0s", "--shell", HELD_UP]);
    scene.wait_for("pid");
    send("TERM", worker.id());
    let output = worker.wait_with_output().unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.contains("stopped by a signal: 2 jobs wait"), "{says}");
    assert_eq!(scene.states(), ["ready"; 2]);

    // One that was released is undone, whatever becomes of it then.
    fs::remove_file(scene.path("pid")).unwrap();
    let worker = scene.start(&["--max-jobs", "1", "--grace", "0s", "--shell", HELD_UP]);
    scene.wait_for("pid");
    send("TERM", worker.id());
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(1));
}

#[test]
fn jobs_that_the_rate_of_their_group_holds_off_are_not_done() {
    let scene = Scene::new(&[]);
    scene.queue(&["settings", "jobs.db", "q", "--group-rate", "1/1h"]).expect_status(0);
    scene.queue(&["push", "jobs.db", "q", "--group", "g", "a", "b", "c"]).expect_status(0);
    let says = "at the limit of --group-rate: 2 jobs wait";
    let outcome = scene.work(&["--until-empty", "--exec", "true"]).expect_status(1);
    assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
    let outcome = scene.queue(&["claim", "jobs.db", "q"]).expect_status(1);
    assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
}

/// After the first job the program is an empty file, which the system does not run.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_cannot_be_started_ends_the_worker_and_costs_no_attempt() {
    use std::os::unix::fs::PermissionsExt as _;

    let scene = Scene::new(&["a", "b"]);
    let program = scene.path("job");
    fs::write(&program, "#!/bin/sh\n: >job\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = scene.work(&["--json", "--exec", "./job"]).expect_status(1);
    let report = outcome.json();
    assert_eq!((&report["done"], &report["released"]), (&json!(1), &json!(1)));
    assert_eq!(report["error"]["on_disk"], "each job that was run is settled");
    let outcome = scene.work(&["--exec", "./job"]).expect_status(3);
    assert!(outcome.stderr.contains("cannot run ./job: Exec format error"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--shell"), "{}", outcome.stderr);
    let job = &scene.jobs()[1];
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)));
}

#[test]
fn jobs_that_are_done_count_where_the_database_fails_later() {
    let scene = Scene::new(&["a", "b"]);
    let connection = Connection::open(scene.path("jobs.db")).unwrap();
    let full = "CREATE TRIGGER full BEFORE UPDATE ON leafpress_job \
                WHEN old.id = 2 AND new.state = 4 BEGIN SELECT RAISE(ABORT, 'it is full'); END";
    connection.execute_batch(full).unwrap();
    let outcome = scene.work(&["--json", "--until-empty", "--exec", "true"]).expect_status(1);
    let report = outcome.json();
    assert_eq!((&report["claimed"], &report["done"]), (&json!(2), &json!(1)));
    let state = report["error"]["on_disk"].as_str().unwrap();
    assert!(state.contains("1 job will come again"), "{state}");
    assert!(outcome.stderr.contains("it is full"), "{}", outcome.stderr);
}

/// `timeout` signals the program, and then the program's group.
#[test]
fn a_signal_that_comes_twice_at_once_is_one_request() {
    let scene = Scene::new(&["x"]);
    let worker = scene.start(&["--shell", HELD_UP]);
    scene.wait_for("pid");
    let id = worker.id();
    let twice = format!("kill -s TERM {id}; sleep 0.01; kill -s TERM {id}");
    assert!(Command::new("sh").args(["-c", &twice]).status().unwrap().success());
    scene.let_go_on();
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(scene.states(), ["done"]);
}

#[test]
fn an_idle_worker_ends_at_sigterm() {
    let scene = Scene::new(&["x"]);
    let worker = scene.start(&["--shell", "touch ran; echo > ran"]);
    scene.wait_for("ran");
    wait_until("the ack", || (scene.states() == ["done"]).then_some(()));
    send("TERM", worker.id());
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn after_the_grace_a_program_is_ended_and_its_job_given_back() {
    let scene = Scene::new(&["x"]);
    let worker = scene.start(&["--grace", "0s", "--shell", HELD_UP]);
    let pid = scene.wait_for("pid");
    send("TERM", worker.id());
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    assert!(!is_running(&pid));
    let job = &scene.jobs()[0];
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)));
}

#[test]
fn a_second_signal_kills_what_runs_and_gives_the_jobs_back() {
    if common::is_skipped_without_ctrl_c() {
        return;
    }
    let scene = Scene::new(&["x"]);
    // It does not mind being asked.
    let line = format!("trap '' TERM INT; {HELD_UP}");
    let worker = scene.start(&["--grace", "1h", "--shell", &line]);
    let pid = scene.wait_for("pid");
    // Two of one kind might arrive as one.
    send("TERM", worker.id());
    send("INT", worker.id());
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    assert!(!is_running(&pid));
    let job = &scene.jobs()[0];
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)));
}

#[test]
fn a_ctrl_c_at_the_terminal_is_ours_alone() {
    let scene = Scene::new(&["x"]);
    let worker = scene.start(&["--shell", HELD_UP]);
    let pid = scene.wait_for("pid");
    let group = Command::new("ps").args(["-o", "pgid=", "-p", pid.trim()]).output().unwrap();
    let group = String::from_utf8(group.stdout).unwrap();
    assert_eq!(group.trim(), pid.trim(), "it is a process group of its own");
    scene.let_go_on();
    send("TERM", worker.id());
    worker.wait_with_output().unwrap();
}

#[test]
fn jobs_of_a_worker_that_was_killed_come_again() {
    let scene = Scene::new(&["x"]);
    let mut worker = scene.start(&["--lease", "4s", "--shell", HELD_UP]);
    scene.wait_for("pid");
    worker.kill().unwrap();
    worker.wait().unwrap();
    drop(worker);
    scene.let_go_on();
    // Another waits for the end of the lease, without being told of it.
    let other =
        scene.start(&["--max-jobs", "1", "--shell", "echo \"$LEAFPRESS_JOB_ATTEMPT\" > attempt"]);
    let output = other.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(scene.path("attempt")).unwrap(), "2\n");
    let shown = scene.queue(&["show", "jobs.db", "1", "--json"]).expect_status(0).json();
    assert_eq!(shown["attempts"][0]["outcome"], "expired", "{shown}");
    assert_eq!(scene.states(), ["done"]);
}

#[test]
fn a_lease_lives_as_long_as_the_program() {
    let scene = Scene::new(&["x"]);
    // Long enough that no slow machine loses it, and extended after a third.
    let worker = scene.start(&["--lease", "12s", "--max-jobs", "1", "--shell", HELD_UP]);
    scene.wait_for("pid");
    let lease_ends = || scene.jobs()[0]["lease_until_ms"].as_i64().unwrap();
    let first = lease_ends();
    wait_until("the extension", || (lease_ends() > first).then_some(()));
    scene.let_go_on();
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    let job = &scene.jobs()[0];
    assert_eq!((&job["state"], &job["attempts"]), (&json!("done"), &json!(1)));
}

#[test]
fn a_program_whose_job_was_taken_away_is_ended() {
    let scene = Scene::new(&["x"]);
    let worker =
        scene.start(&["--lease", "300ms", "--max-jobs", "1", "--json", "--shell", HELD_UP]);
    let pid = scene.wait_for("pid");
    scene.queue(&["remove", "jobs.db", "1"]).expect_status(0);
    let output = worker.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["lease_lost"], &report["claimed"]), (&json!(1), &json!(1)));
    assert_eq!(output.status.code(), Some(1));
    assert!(!is_running(&pid));
}

#[test]
fn workers_of_several_processes_do_each_job_once() {
    let scene = Scene::new(&[]);
    let lines = (0..60).fold(String::new(), |lines, number| lines + &format!("{number}\n"));
    // One write call for each line, so that those of three programs do not mix.
    fs::write(scene.path("lines"), &lines).unwrap();
    let push = command(scene.folder.path(), &["queue", "push", "jobs.db", "q", "--lines"])
        .stdin(fs::File::open(scene.path("lines")).unwrap())
        .stdout(Stdio::null())
        .status();
    assert!(push.unwrap().success());
    let flags =
        ["-j", "3", "--until-empty", "-q", "--shell", "read -r n; echo \"$n\" >> done.$PPID"];
    let workers = [scene.start(&flags), scene.start(&flags), scene.start(&flags)];
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut done: Vec<u32> = names_in(scene.folder.path())
        .iter()
        .filter(|name| name.starts_with("done."))
        .flat_map(|name| numbers_in(&scene.path(name)))
        .collect();
    done.sort_unstable();
    assert_eq!(done.len(), 60);
    assert_eq!(done, (0..60).collect::<Vec<_>>());
}

fn numbers_in(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn the_database_is_sound_after_all_of_it() {
    let scene = Scene::new(&["1", "2", "3"]);
    let worker = scene.start(&["-j", "2", "--shell", HELD_UP]);
    scene.wait_for("pid");
    send("KILL", worker.id());
    // The programs hold what was the worker's stdout, until they end.
    scene.let_go_on();
    worker.wait_with_output().unwrap();
    let connection = Connection::open(scene.path("jobs.db")).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert_eq!(scene.jobs().len(), 3);
}

#[test]
fn workers_and_a_push_share_the_database_and_each_job_is_done_once() {
    let scene = Scene::new(&["held up"]);
    let held_up = format!("{HELD_UP}; cat >> done");
    let first = scene.start(&["--until-empty", "--shell", &held_up]);
    scene.wait_for("pid");
    assert!(scene.path("jobs.db-shared").exists());
    let numbers = (0..40).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
    fs::write(scene.path("numbers"), &numbers).unwrap();
    let push = ["queue", "push", "jobs.db", "q", "--lines", "--batch", "3"];
    let mut push = command(scene.folder.path(), &push);
    push.stdin(fs::File::open(scene.path("numbers")).unwrap());
    assert!(push.output().unwrap().status.success());
    let line = "read -r number; echo $number >> done-$LEAFPRESS_JOB_ID";
    let workers: Vec<Child> = (0..3)
        .map(|_| scene.start(&["--until-empty", "--concurrency", "2", "--shell", line]))
        .collect();
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    scene.let_go_on();
    assert!(first.wait_with_output().unwrap().status.success());
    assert!(scene.states().iter().all(|state| state == "done"));
    let mut done: Vec<String> = names_in(scene.folder.path())
        .iter()
        .filter(|name| name.starts_with("done-"))
        .map(|name| fs::read_to_string(scene.path(name)).unwrap())
        .collect();
    done.sort_by_key(|number| number.trim().parse::<u32>().unwrap());
    assert_eq!(done.concat(), numbers);
    assert!(!scene.path("jobs.db-shared").exists(), "the last one removes it");
}

#[test]
fn a_worker_shares_unless_it_is_told_not_to_and_says_why_it_cannot() {
    let scene = Scene::new(&[""]);
    let held_up = ["--until-empty", "--shell", HELD_UP];
    let worker = scene.start(&[&["--no-shared"], &held_up[..]].concat());
    scene.wait_for("pid");
    assert!(!scene.path("jobs.db-shared").exists());
    scene.let_go_on();
    assert!(worker.wait_with_output().unwrap().status.success());

    fs::write(scene.path("jobs.db-shared"), "a file of mine").unwrap();
    let outcome = scene.work(&["--until-empty", "--exec", "true"]).expect_status(0);
    assert!(outcome.stderr.contains("--no-shared"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("it is no file of leafpress"), "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(scene.path("jobs.db-shared")).unwrap(), "a file of mine");
    let outcome = scene.work(&["--until-empty", "--no-shared", "--exec", "true"]).expect_status(0);
    assert!(!outcome.stderr.contains("--no-shared"), "{}", outcome.stderr);
}
