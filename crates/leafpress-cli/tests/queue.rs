//! `leafpress queue` from the outside, but for `work`: each action, what it
//! says, how it ends, and that payloads go through as they are.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Output, Stdio};

use common::{Outcome, command, names_in, run};
use serde_json::{Value, json};
use tempfile::TempDir;

fn queue(folder: &TempDir, arguments: &[&str]) -> Outcome {
    run(folder.path(), &[&["queue"], arguments].concat())
}

/// As [`queue`], with bytes on stdin.
fn queue_fed(folder: &TempDir, arguments: &[&str], stdin: &[u8]) -> Output {
    let mut child = command(folder.path(), &[&["queue"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    child.wait_with_output().unwrap()
}

/// The ids that a push printed.
fn ids(outcome: &Outcome) -> Vec<i64> {
    outcome.stdout.lines().map(|line| line.parse().unwrap()).collect()
}

fn jobs(folder: &TempDir, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["list", "jobs.db", "q", "--json"], arguments].concat();
    let object = queue(folder, &arguments).expect_status(0).json();
    object["jobs"].as_array().unwrap().clone()
}

/// The token of the one job that is claimed.
fn claim(folder: &TempDir) -> String {
    let object = queue(folder, &["claim", "jobs.db", "q", "--json"]).expect_status(0).json();
    object["jobs"][0]["token"].as_str().unwrap().to_owned()
}

#[test]
fn payloads_go_through_as_they_are() {
    let folder = TempDir::new().unwrap();
    let nasty =
        ["$(rm -rf ~)", "`id`", "'; DROP TABLE leafpress_job; --", "a\"b'c\\", "é\n\t\r\n", ""];
    let push: Vec<&str> = ["push", "jobs.db", "q"].into_iter().chain(nasty).collect();
    assert_eq!(ids(&queue(&folder, &push).expect_status(0)), [1, 2, 3, 4, 5, 6]);
    let bytes = b"\0not UTF-8: \xff\xfe\0\n";
    assert_eq!(queue_fed(&folder, &["push", "jobs.db", "q"], bytes).stdout, b"7\n");
    assert_eq!(queue_fed(&folder, &["push", "jobs.db", "q", "-"], b"dash").stdout, b"8\n");
    queue(&folder, &["push", "jobs.db", "q", "--", "-x", "--json"]).expect_status(0);

    let object = queue(&folder, &["claim", "jobs.db", "q", "-n", "20", "--json"]);
    let object = object.expect_status(0).json();
    let claimed = object["jobs"].as_array().unwrap();
    let texts: Vec<&str> = claimed.iter().filter_map(|job| job["text"].as_str()).collect();
    assert_eq!(texts, [&nasty[..], &["dash", "-x", "--json"]].concat());
    assert_eq!(claimed[6]["hex"], "006e6f74205554462d383a20fffe000a");
}

#[test]
fn json_is_checked_before_anything_is_made_and_kept_to_the_letter() {
    let folder = TempDir::new().unwrap();
    let outcome = queue(&folder, &["push", "jobs.db", "q", "{}", "{\"a\": }", "--as-json"]);
    let outcome = outcome.expect_status(2);
    assert!(
        outcome.stderr.contains("the payload '{\"a\": }', with --as-json"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("column 7") && outcome.stderr.contains("nothing was pushed"));
    assert!(names_in(folder.path()).is_empty());

    let exact = r#"{"b": 1e400, "a":[ 12345678901234567890.10 ]}"#;
    queue(&folder, &["push", "jobs.db", "q", exact, "--as-json", "--metadata", exact]);
    let outcome = queue(&folder, &["claim", "jobs.db", "q", "--json"]).expect_status(0);
    assert_eq!(outcome.stdout.matches(exact).count(), 2, "{}", outcome.stdout);
}

#[test]
fn what_a_push_says_of_a_job_is_kept() {
    let folder = TempDir::new().unwrap();
    let push = |more: &[&str]| {
        queue(&folder, &[&["push", "jobs.db", "q", "x"], more].concat()).expect_status(0)
    };
    push(&["--delay", "1h30m", "--priority", "-5", "--correlation-id", "order 7"]);
    push(&["--due", "2126-01-01T00:00:00Z", "--attempts", "9", "--metadata", "{\"a\": 1}"]);
    push(&["--group", "g", "--expires", "1d"]);
    push(&["--group", "g", "--expires", "2126-01-01T00:00:00+02:00"]);
    let all = jobs(&folder, &[]);
    let states: Vec<_> = all.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["delayed", "delayed", "ready", "blocked"]);
    let due = |job: &Value| job["due_at_ms"].as_i64().unwrap();
    assert_eq!(due(&all[0]) - all[0]["pushed_at_ms"].as_i64().unwrap(), 5_400_000);
    assert_eq!((&all[0]["priority"], &all[0]["correlation_id"]), (&json!(-5), &json!("order 7")));
    assert_eq!(due(&all[1]), 4_922_899_200_000);
    assert_eq!((&all[1]["attempts_max"], &all[1]["metadata"]), (&json!(9), &json!({"a": 1})));
    assert_eq!(all[2]["group"], "g");
    assert_eq!(all[3]["expires_at_ms"], 4_922_892_000_000_i64);
    assert_eq!(jobs(&folder, &["--group", "g", "--newest"]).len(), 2);
    assert_eq!(
        jobs(&folder, &["--state", "delayed,blocked", "--limit", "2", "--after", "1"]).len(),
        2
    );

    let wrong: &[(&[&str], &str)] = &[
        (&["--delay", "5"], "such as 90s"),
        (&["--due", "tomorrow"], "2026-01-01T00:00:00Z"),
        (&["--delay", "5m", "--due", "2026-01-01T00:00:00Z"], "cannot be used with"),
        (&["--expires", "never"], "from now on"),
        (&["--unique-for", "ever"], "waiting, running, or a time"),
        (&["--attempts", "0"], "from 1 up"),
        (&["--batch", "3"], "--lines or --ndjson"),
        (&["--metadata", "{"], "not JSON"),
        (&["--profile", "rebuildable"], "durable, relaxed, rollback"),
        (&["--lines"], "cannot be used with"),
    ];
    for (flags, says) in wrong {
        let outcome = queue(&folder, &[&["push", "jobs.db", "q", "x"], *flags].concat());
        let outcome = outcome.expect_status(2);
        assert!(outcome.stderr.contains(says), "{flags:?}: {}", outcome.stderr);
    }
    assert_eq!(jobs(&folder, &[]).len(), 4);
}

#[test]
fn a_unique_key_that_is_taken_names_its_job() {
    let folder = TempDir::new().unwrap();
    let push = ["push", "jobs.db", "q", "x", "--unique", "key"];
    assert_eq!(ids(&queue(&folder, &push).expect_status(0)), [1]);
    let again = queue(&folder, &push).expect_status(0);
    assert_eq!(ids(&again), [1]);
    assert!(again.stderr.contains("1 job was not pushed"), "{}", again.stderr);
    let object = queue(&folder, &[&push[..], &["--json"]].concat()).expect_status(0).json();
    assert_eq!(object, json!({"pushed": 0, "jobs": [{"id": 1, "is_new": false}]}));
    let token = claim(&folder);
    queue(&folder, &["ack", "jobs.db", &token]).expect_status(0);
    assert_eq!(ids(&queue(&folder, &push).expect_status(0)), [2]);
}

#[test]
fn lines_are_jobs_and_a_batch_is_a_transaction() {
    let folder = TempDir::new().unwrap();
    let output = queue_fed(&folder, &["push", "jobs.db", "q", "--lines"], b"a\n\n b \r\nc");
    assert_eq!(output.stdout, b"1\n2\n3\n");
    let texts: Vec<_> = jobs(&folder, &[]).iter().map(|job| job["text"].clone()).collect();
    assert_eq!(texts, ["a", " b \r", "c"]);

    let lines: String = (0..25)
        .fold(String::new(), |lines, number| lines + &format!("{{\"text\":\"{number}\"}}\n"));
    fs::write(folder.path().join("in.ndjson"), &lines).unwrap();
    let bulk = ["push", "jobs.db", "q", "--ndjson", "in.ndjson", "--batch", "10", "--json"];
    assert_eq!(queue(&folder, &bulk).expect_status(0).json()["pushed"], 25);

    fs::write(folder.path().join("in.ndjson"), lines + "{\n").unwrap();
    let outcome = queue(&folder, &bulk).expect_status(1);
    assert_eq!(outcome.json()["pushed"], 20);
    assert!(outcome.stderr.contains("in.ndjson:26:1: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(
        "on disk: the 20 jobs that were pushed before it are in the queue; nothing of the rest"
    ));
}

#[test]
fn ids_of_a_batch_are_printed_when_it_is_committed() {
    for (flags, expected) in [
        (&[][..], "1\n2\n"),
        (&["--json"], r#"{"jobs":[{"id":1,"is_new":true},{"id":2,"is_new":true}"#),
    ] {
        let folder = TempDir::new().unwrap();
        let arguments = ["queue", "push", "jobs.db", "q", "--lines", "--batch", "2"];
        let mut child = command(folder.path(), &[&arguments, flags].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdin.write_all(b"a\nb\n").unwrap();
        // Standard input stays open until the ids of its first jobs are there.
        let mut begin = vec![0; expected.len()];
        stdout.read_exact(&mut begin).unwrap();
        assert_eq!(String::from_utf8(begin).unwrap(), expected);
        stdin.write_all(b"c\n").unwrap();
        drop(stdin);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let end =
            if flags.is_empty() { "3\n" } else { ",{\"id\":3,\"is_new\":true}],\"pushed\":3}\n" };
        assert_eq!(rest, end);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn an_object_that_is_begun_ends_with_the_error() {
    let folder = TempDir::new().unwrap();
    queue(&folder, &["push", "jobs.db", "q", "a", "--unique", "k"]).expect_status(0);
    fs::write(folder.path().join("in.ndjson"), "{\"text\":\"a\",\"unique\":\"k\"}\n{\n").unwrap();
    let push = ["push", "jobs.db", "q", "--ndjson", "in.ndjson", "--batch", "1", "--json"];
    let object = queue(&folder, &push).expect_status(3).json();
    assert_eq!(object["jobs"], json!([{"id": 1, "is_new": false}]));
    assert_eq!((&object["pushed"], &object["error"]["kind"]), (&json!(0), &json!("bad_row")));
}

#[test]
fn ndjson_describes_jobs_and_one_bad_line_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let good = r#"{"payload": {"to":  "ann"}, "priority": 7, "delay": "5m", "group": "g"}
{"text": "a\nb", "unique": "k", "unique_for": "1h", "attempts": 2, "correlation_id": "c"}

{"payload": null, "metadata": [1], "expires": "1h"}
"#;
    let output = queue_fed(
        &folder,
        &["push", "jobs.db", "q", "--ndjson", "--priority", "1"],
        good.as_bytes(),
    );
    assert_eq!(output.stdout, b"1\n2\n3\n", "{}", String::from_utf8_lossy(&output.stderr));
    let all = jobs(&folder, &[]);
    assert_eq!(all[0]["payload"], json!({"to": "ann"}));
    assert_eq!((&all[0]["priority"], &all[0]["state"]), (&json!(7), &json!("delayed")));
    assert_eq!((&all[1]["text"], &all[1]["attempts_max"]), (&json!("a\nb"), &json!(2)));
    assert_eq!((&all[1]["priority"], &all[1]["unique"]), (&json!(1), &json!("k")));
    assert_eq!((&all[2]["metadata"], &all[2]["payload"]), (&json!([1]), &json!(null)));

    let bad: &[(&str, &str)] = &[
        (r#"{"payload": 1"#, "bad.ndjson:2:13: the line ends inside an object"),
        (r#"{"payload": 1, "prio": 2}"#, "bad.ndjson:2:21: there is no member `prio`"),
        (r#"{"priority": 2}"#, "bad.ndjson:2:1: payload or text is missing"),
        (r#"{"payload": 1, "text": "x"}"#, "choose one"),
        (r#"{"text": "x", "delay": "5"}"#, "bad.ndjson:2:1: delay: name a time"),
        (r#"{"text": "x", "delay": "5s", "due": "2026-01-01T00:00:00Z"}"#, "delay and due"),
        (r#"{"text": "x", "attempts": 0}"#, "from 1 up"),
        (r#"{"text": "x", "priority": 3000000000}"#, "bad.ndjson:2:"),
        ("[1]", "bad.ndjson:2:"),
    ];
    for (line, says) in bad {
        let lines = format!("{{\"text\":\"good\"}}\n{line}\n{{\"text\":\"good\"}}\n");
        fs::write(folder.path().join("bad.ndjson"), lines).unwrap();
        let push = ["push", "new.db", "q", "--ndjson", "bad.ndjson"];
        let outcome = queue(&folder, &push).expect_status(3);
        assert!(outcome.stderr.contains(says), "{line}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("on disk: nothing was pushed"), "{}", outcome.stderr);
        let object = queue(&folder, &[&push[..], &["--json"]].concat()).expect_status(3).json();
        assert_eq!(
            (&object["error"]["kind"], &object["error"]["line"]),
            (&json!("bad_row"), &json!(2))
        );
        assert!(!folder.path().join("new.db").exists(), "{line}");
    }
    let outcome = queue(&folder, &["push", "new.db", "q", "--ndjson", "nope"]).expect_status(3);
    assert!(outcome.stderr.contains("cannot read nope"), "{}", outcome.stderr);
}

#[test]
fn a_job_goes_through_its_states_by_hand() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    act(&["settings", "jobs.db", "q", "--keep-done", "1h"]).expect_status(0);
    act(&["push", "jobs.db", "q", "work"]).expect_status(0);

    let token = claim(&folder);
    assert_eq!(token, "1.1");
    let object =
        act(&["extend", "jobs.db", &token, "--lease", "1h", "--json"]).expect_status(0).json();
    assert_eq!(jobs(&folder, &[])[0]["lease_until_ms"], object["lease_until_ms"]);
    act(&["release", "jobs.db", &token]).expect_status(0);
    let late = act(&["ack", "jobs.db", &token, "--json"]).expect_status(3);
    assert_eq!(late.json()["error"]["kind"], "lease_lost");
    assert_eq!(late.json()["error"]["why"], "given_back");

    let token = claim(&folder);
    let nack = ["nack", "jobs.db", &token, "--error", "no route", "--delay", "0s"];
    let said = act(&nack).expect_status(0).stdout;
    assert_eq!(said, "job 1 is tried again\n");
    let token = claim(&folder);
    act(&["fail", "jobs.db", &token, "--reason", "no such\x1b[2J customer"]).expect_status(0);
    let listed = act(&["list", "jobs.db", "q", "--state", "dead"]).expect_status(0).stdout;
    assert!(listed.contains("dead") && listed.contains("2/5"), "{listed}");
    let shown = act(&["show", "jobs.db", "1"]).expect_status(0).stdout;
    for part in
        ["job 1 of q: dead", "no such\\u{1b}[2J customer", "released", "retried", "no route"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let object = act(&["show", "jobs.db", "1", "--json"]).expect_status(0).json();
    assert_eq!(object["attempts"].as_array().unwrap().len(), 3);

    act(&["retry", "jobs.db", "1"]).expect_status(0);
    let token = claim(&folder);
    act(&["ack", "jobs.db", &token, "--result", "out"]).expect_status(0);
    let done = &jobs(&folder, &["--state", "done"])[0];
    assert_eq!(done["result"], json!({"text": "out"}));
    act(&["remove", "jobs.db", "1"]).expect_status(0);
    assert_eq!(act(&["claim", "jobs.db", "q"]).expect_status(1).stdout, "");
}

#[test]
fn of_several_the_status_says_whether_it_was_all_some_or_none() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    act(&["push", "jobs.db", "q", "a", "b", "c"]).expect_status(0);
    act(&["claim", "jobs.db", "q", "-n", "2"]).expect_status(0);
    act(&["release", "jobs.db", "2.1"]).expect_status(0);
    let some = act(&["ack", "jobs.db", "1.1", "2.1", "--json"]).expect_status(1);
    let some = some.json();
    assert_eq!((&some["acked"], &some["error"]["kind"]), (&json!(1), &json!("lease_lost")));
    assert_eq!(some["refused"], json!([{"token": "2.1", "why": "given_back"}]));
    act(&["ack", "jobs.db", "1.1", "2.1"]).expect_status(3);
    act(&["ack", "jobs.db", "2.1", "3.1", "--result", "x"]).expect_status(2);

    let some = act(&["remove", "jobs.db", "3", "99"]).expect_status(1);
    assert_eq!(some.stdout, "removed 3\n");
    assert!(some.stderr.contains("job 99 is not there"), "{}", some.stderr);
    act(&["remove", "jobs.db", "3"]).expect_status(3);
    let none = act(&["retry", "jobs.db", "3", "--json"]).expect_status(3).json();
    assert_eq!((&none["retried"], &none["not_done"]), (&json!([]), &json!([3])));
    assert_eq!(none["error"]["what"], "job");
    act(&["show", "jobs.db", "3"]).expect_status(3);
}

#[test]
fn dead_jobs_are_retried_and_purged_and_waiting_ones_only_with_a_yes() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    act(&["push", "jobs.db", "q", "a", "b", "c"]).expect_status(0);
    act(&["claim", "jobs.db", "q", "-n", "3"]).expect_status(0);
    for token in ["1.1", "2.1", "3.1"] {
        act(&["fail", "jobs.db", token, "--reason", "no"]).expect_status(0);
    }
    let object = act(&["retry", "jobs.db", "q", "--all-dead", "--json"]).expect_status(0).json();
    assert_eq!(object, json!({"retried": 3}));

    act(&["retry", "jobs.db", "q"]).expect_status(2);
    act(&["retry", "jobs.db", "q", "1", "--all-dead"]).expect_status(2);

    let refused = act(&["purge", "jobs.db", "q", "--state", "ready,dead"]).expect_status(2);
    assert!(refused.stderr.contains("add --yes"), "{}", refused.stderr);
    assert_eq!(jobs(&folder, &[]).len(), 3);
    let purge = |more: &[&str]| act(&[&["purge", "jobs.db", "q"], more].concat()).expect_status(0);
    assert_eq!(purge(&["--state", "dead"]).stdout, "removed 0 jobs\n");
    assert_eq!(
        purge(&["--state", "ready", "--yes", "--older-than", "1h"]).stdout,
        "removed 0 jobs\n"
    );
    assert_eq!(purge(&["--state", "ready", "--yes"]).stdout, "removed 3 jobs\n");
}

#[test]
fn a_paused_queue_gives_nothing_and_settings_hold() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    let flags = [
        "--lease",
        "2m",
        "--attempts",
        "7",
        "--backoff",
        "5s,3",
        "--keep-done",
        "1h30m",
        "--keep-dead",
        "7d",
        "--concurrency",
        "4",
        "--group-concurrency",
        "2",
        "--rate",
        "100/1m",
        "--group-rate",
        "5/s",
    ];
    let shown = act(&[&["settings", "jobs.db", "q"], &flags[..]].concat()).expect_status(0).stdout;
    for part in ["2m", "7", "5s,3,1h,0.2", "1h30m", "7d", "4", "2", "100/1m", "5/1s"] {
        assert!(shown.lines().any(|line| line.ends_with(&format!("  {part}"))), "{part}: {shown}");
    }
    let off = ["--keep-dead", "none", "--concurrency", "none", "--rate", "none", "--json"];
    let object = act(&[&["settings", "jobs.db", "q"], &off[..]].concat()).expect_status(0).json();
    for name in ["keep_dead", "concurrency", "rate"] {
        assert_eq!(object[name], json!(null), "{name}");
    }
    assert_eq!((&object["lease"], &object["backoff_factor"]), (&json!(120.0), &json!(3.0)));
    assert_eq!((&object["queue"], &object["group_rate"]), (&json!("q"), &json!([5, 1.0])));
    act(&["settings", "jobs.db", "q", "--lease", "0s"]).expect_status(2);
    let first_alone = ["settings", "jobs.db", "q", "--backoff", "2h", "--json"];
    let object = act(&first_alone).expect_status(0).json();
    assert_eq!(
        (&object["backoff_first"], &object["backoff_max"]),
        (&json!(7200.0), &json!(7200.0))
    );
    act(&["settings", "jobs.db", "q", "--backoff", "3h,2,2h"]).expect_status(2);

    act(&["push", "jobs.db", "q", "x"]).expect_status(0);
    act(&["pause", "jobs.db", "q"]).expect_status(0);
    act(&["claim", "jobs.db", "q"]).expect_status(1);
    assert!(act(&["stats", "jobs.db"]).expect_status(0).stdout.contains("q, paused"));
    act(&["resume", "jobs.db", "q"]).expect_status(0);
    act(&["claim", "jobs.db", "q"]).expect_status(0);
}

#[test]
fn stats_are_shown_once_or_line_by_line() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    act(&["push", "jobs.db", "q", "a", "b"]).expect_status(0);
    act(&["push", "jobs.db", "other", "a"]).expect_status(0);
    let text = act(&["stats", "jobs.db"]).expect_status(0).stdout;
    assert!(text.contains("other\n") && text.contains("\nq\n") && text.contains("ready"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let object = act(&["stats", "jobs.db", "q", "--json"]).expect_status(0).json();
    assert_eq!(object["queues"][0]["jobs"]["ready"], 2);
    act(&["stats", "jobs.db", "nope"]).expect_status(3);
}

#[test]
fn schedules_are_added_listed_and_removed() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    let add = |more: &[&str]| {
        act(&[&["schedule", "add", "jobs.db", "q", "nightly", "0 3 * * *"], more].concat())
    };
    let wrong = act(&["schedule", "add", "jobs.db", "q", "nightly", "61 3 * * *"]).expect_status(2);
    assert!(wrong.stderr.contains("nightly"), "{}", wrong.stderr);
    add(&["{", "--as-json"]).expect_status(2);
    assert!(names_in(folder.path()).is_empty());
    add(&["all", "--timezone", "Europe/Berlin", "--missed", "skip", "--priority", "3"])
        .expect_status(0);
    let text = act(&["schedule", "list", "jobs.db", "q"]).expect_status(0).stdout;
    assert!(text.contains("nightly") && text.contains("Europe/Berlin"), "{text}");
    let object = act(&["schedule", "list", "jobs.db", "q", "--json"]).expect_status(0).json();
    let schedule = &object["schedules"][0];
    assert_eq!((&schedule["cron"], &schedule["missed"]), (&json!("0 3 * * *"), &json!("skip")));
    act(&["schedule", "remove", "jobs.db", "q", "nightly"]).expect_status(0);
    act(&["schedule", "remove", "jobs.db", "q", "nightly"]).expect_status(3);
}

#[test]
fn what_is_missing_is_not_made_but_by_a_push_settings_or_a_schedule() {
    let folder = TempDir::new().unwrap();
    let actions: &[&[&str]] = &[
        &["claim", "no.db", "q"],
        &["ack", "no.db", "1.1"],
        &["nack", "no.db", "1.1"],
        &["fail", "no.db", "1.1", "--reason", "x"],
        &["release", "no.db", "1.1"],
        &["extend", "no.db", "1.1", "--lease", "1m"],
        &["list", "no.db", "q"],
        &["show", "no.db", "1"],
        &["stats", "no.db"],
        &["retry", "no.db", "1"],
        &["remove", "no.db", "1"],
        &["purge", "no.db", "q", "--state", "dead"],
        &["pause", "no.db", "q"],
        &["resume", "no.db", "q"],
        &["work", "no.db", "q", "--exec", "cat"],
        &["schedule", "list", "no.db", "q"],
        &["schedule", "remove", "no.db", "q", "s"],
    ];
    for action in actions {
        let outcome = queue(&folder, action).expect_status(3);
        assert!(outcome.stderr.contains("there is no such database"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("to do: "), "{action:?}: {}", outcome.stderr);
        assert!(names_in(folder.path()).is_empty(), "{action:?}");
    }
    // An application's database without any queue, not in WAL mode, stays as it is.
    let path = folder.path().join("no.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE mine(x)").unwrap();
    let before = fs::read(&path).unwrap();
    for action in actions.iter().filter(|action| action[0] != "stats") {
        let outcome = queue(&folder, action).expect_status(3);
        assert!(outcome.stderr.contains("error: no.db: "), "{action:?}: {}", outcome.stderr);
    }
    assert!(fs::read(&path).unwrap() == before, "nothing was made");
    queue(&folder, &["push", "no.db", "q", "x"]).expect_status(0);
    let mode: String = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete", "the journal mode stays");
    let other = queue(&folder, &["claim", "no.db", "other"]).expect_status(3);
    assert!(other.stderr.contains("there is no queue 'other'"), "{}", other.stderr);
    assert!(other.stderr.contains("it has q"), "{}", other.stderr);
    assert_eq!(queue(&folder, &["push", "w.db", "q", "x", "--profile", "relaxed"]).status, 0);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("text.db"), "not a database, but long enough to look at it")
        .unwrap();
    for action in [&["push", "text.db", "q", "x"][..], &["claim", "text.db", "q"]] {
        let outcome = queue(&folder, action).expect_status(3);
        assert!(outcome.stderr.contains("text.db"), "{}", outcome.stderr);
    }
    assert_eq!(names_in(folder.path()), ["text.db"]);
    queue(&folder, &["claim", ".", "q"]).expect_status(3);
}

#[test]
fn twenty_processes_push_at_once() {
    let folder = TempDir::new().unwrap();
    let children: Vec<_> = (0..20)
        .map(|number: u32| {
            let text = number.to_string();
            command(folder.path(), &["queue", "push", "jobs.db", "q", &text, "and", "more"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut pushed: Vec<i64> = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let stdout = String::from_utf8(output.stdout).unwrap();
        pushed.extend(stdout.lines().map(|line| line.parse::<i64>().unwrap()));
    }
    pushed.sort_unstable();
    assert_eq!(pushed, (1..=60).collect::<Vec<_>>());
    assert_eq!(jobs(&folder, &["--limit", "100"]).len(), 60);
}

#[test]
#[cfg(target_os = "linux")]
fn a_claim_that_cannot_be_printed_is_given_back() {
    let folder = TempDir::new().unwrap();
    queue(&folder, &["push", "jobs.db", "q", "x"]).expect_status(0);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(folder.path(), &["queue", "claim", "jobs.db", "q"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the jobs are given back"));
    assert_eq!(jobs(&folder, &[])[0]["state"], "ready");
}

#[test]
#[cfg(unix)]
fn readers_that_leave_early_cause_no_panic() {
    let folder = TempDir::new().unwrap();
    queue(&folder, &["push", "jobs.db", "q", "x"]).expect_status(0);
    for arguments in [
        &["queue", "list", "jobs.db", "q"][..],
        &["queue", "stats", "jobs.db"],
        &["queue", "stats", "jobs.db", "--watch", "0.01"],
        &["queue", "stats", "jobs.db", "--watch", "0.01", "--json"],
        &["queue", "push", "jobs.db", "q", "x"],
    ] {
        common::run_with_reader_gone(folder.path(), arguments);
    }
}

#[test]
fn a_waiting_claim_is_woken_by_a_push_of_another_process() {
    let folder = TempDir::new().unwrap();
    queue(&folder, &["settings", "jobs.db", "q", "--lease", "1m"]).expect_status(0);
    let waiting = command(folder.path(), &["queue", "claim", "jobs.db", "q", "--wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    queue(&folder, &["push", "jobs.db", "q", "at last"]).expect_status(0);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"1.1\tat last\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(queue(&folder, &["claim", "jobs.db", "q", "--wait", "1ms"]).status, 1);
}

#[test]
fn help_texts_have_examples_and_fit_the_terminal() {
    let folder = TempDir::new().unwrap();
    let actions = [
        "push",
        "work",
        "claim",
        "ack",
        "nack",
        "fail",
        "release",
        "extend",
        "list",
        "show",
        "stats",
        "retry",
        "remove",
        "purge",
        "pause",
        "resume",
        "settings",
        "schedule add",
        "schedule list",
        "schedule remove",
    ];
    for action in actions {
        let words: Vec<&str> = action.split(' ').chain(["--help"]).collect();
        let help = queue(&folder, &words).expect_status(0).stdout;
        assert!(help.contains("Example") && help.contains("Exit status: 0"), "{action}: {help}");
        assert!(help.contains("leafpress queue"), "{action}");
        let lines = help.lines().filter(|line| !line.starts_with("Usage:"));
        let wide: Vec<&str> = lines.filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{action}: {wide:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_push_that_is_stopped_prints_the_jobs_that_are_in_the_queue() {
    let arguments = ["queue", "push", "jobs.db", "q", "--lines", "--batch", "2"];
    for signal in common::ending_signals() {
        for (lines, expected) in [("a\nb\nc\n", "1\n2\n"), ("a\n", "")] {
            let folder = TempDir::new().unwrap();
            queue(&folder, &["settings", "jobs.db", "q", "--keep-done", "1h"]).expect_status(0);
            let mut child = command(folder.path(), &arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(lines.as_bytes()).unwrap();
            common::wait_for_handler(signal, child.id());
            // A whole batch is pushed before the signal.
            let mut printed = vec![0; expected.len()];
            child.stdout.as_mut().unwrap().read_exact(&mut printed).unwrap();
            common::send(signal, child.id());
            let output = child.wait_with_output().unwrap();
            drop(stdin);
            let ids = String::from_utf8([printed, output.stdout].concat()).unwrap();
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(ids, expected, "{message}");
            let status = if ids.is_empty() { 3 } else { 1 };
            assert_eq!(output.status.code(), Some(status), "{message}");
            assert!(message.starts_with("stopped; "), "{message}");
            let there: Vec<_> =
                jobs(&folder, &[]).iter().map(|job| job["id"].to_string()).collect();
            assert_eq!(there, ids.lines().collect::<Vec<_>>());
        }
    }
}

/// A script reads status 3 as "nothing changed".
#[test]
fn what_was_done_to_many_jobs_before_an_error_stays_and_is_told() {
    let folder = TempDir::new().unwrap();
    let act = |arguments: &[&str]| queue(&folder, arguments);
    let jobs: Vec<String> = (1..=1_200).map(|job| job.to_string()).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    act(&[&["push", "jobs.db", "q"], &jobs[..]].concat()).expect_status(0);
    // They are dead, and SQLite refuses a change of one of the second batch.
    let spoil = "UPDATE leafpress_job SET state = 5, due_at_ms = NULL;
                 CREATE TRIGGER stays BEFORE DELETE ON leafpress_job WHEN old.id = 700
                 BEGIN SELECT raise(ABORT, 'no'); END;
                 CREATE TRIGGER remains BEFORE UPDATE ON leafpress_job WHEN old.id = 1200
                 BEGIN SELECT raise(ABORT, 'no'); END";
    let path = folder.path().join("jobs.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(spoil).unwrap();

    let purged = act(&["purge", "jobs.db", "q", "--state", "dead"]).expect_status(1);
    for part in ["before it: removed 500 jobs", "what was done before it stays"] {
        assert!(purged.stderr.contains(part), "{part}: {}", purged.stderr);
    }
    let retried = act(&["retry", "jobs.db", "q", "--all-dead", "--json"]).expect_status(1).json();
    assert_eq!(retried["retried"], 500, "{retried}");
    act(&["retry", "jobs.db", "q", "--all-dead"]).expect_status(3);
}
