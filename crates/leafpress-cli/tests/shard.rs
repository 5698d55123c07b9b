//! `leafpress shard` and `leafpress shards` from the outside: statuses, messages, JSON. What they
//! make is tested beside the library.

mod common;

use std::fs;
use std::time::Duration;

use common::{command, names_in, run};
use rusqlite::Connection;
use tempfile::TempDir;

#[test]
fn a_file_is_split_checked_and_rolled_back() {
    let folder = TempDir::new().unwrap();
    let line = |id: u32| format!("{id},name {id}\n");
    let rows: String = (0..1000).map(line).collect();
    fs::write(folder.path().join("people.csv"), format!("id,name\n{rows}")).unwrap();
    let arguments =
        ["shard", "people.csv", "--out", "p", "--by", "hash(id)", "--parts", "4", "--pk", "id"];
    let text = run(folder.path(), &arguments).expect_status(0).stdout;
    assert!(text.starts_with("split 1,000 rows into 4 parts of p\n"), "{text}");
    assert_eq!(names_in(&folder.path().join("p")), ["_CURRENT", "_LOCK", "runs"]);
    let ranges =
        ["shard", "people.csv", "-o", "p", "--by", "range(name)", "--parts", "3", "--json"];
    let object = run(folder.path(), &ranges).expect_status(0).json();
    assert_eq!((&object["rows"], &object["parts"]), (&1000.into(), &3.into()));

    let list = run(folder.path(), &["shards", "list", "p"]).expect_status(0).stdout;
    assert_eq!(list.lines().filter(|line| line.starts_with('*')).count(), 1, "{list}");
    let runs = run(folder.path(), &["shards", "list", "p", "--json"]).expect_status(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
    let verdict = run(folder.path(), &["shards", "verify", "p"]).expect_status(0).stdout;
    assert!(verdict.starts_with("sound: 3 parts of run "), "{verdict}");
    run(folder.path(), &["shards", "rollback", "p"]).expect_status(0);
    let verdict = run(folder.path(), &["shards", "verify", "p", "--json"]).expect_status(0).json();
    assert_eq!((&verdict["parts"], &verdict["sound"]), (&4.into(), &true.into()));
    let gc =
        run(folder.path(), &["shards", "gc", "p", "--older-than", "0s"]).expect_status(0).stdout;
    assert!(gc.starts_with("removed 0 files"), "{gc}");
    let missing = run(folder.path(), &["shards", "gc", "q"]).expect_status(3).stderr;
    assert!(missing.contains("no run is current in q: the folder does not exist"), "{missing}");

    let part = folder.path().join("p/runs").join(verdict["run"].as_str().unwrap()).join("parts");
    let name = names_in(&part).remove(0);
    fs::write(part.join(name), "").unwrap();
    let verdict = run(folder.path(), &["shards", "verify", "p"]).expect_status(1).stdout;
    assert!(verdict.contains("part 0: "), "{verdict}");
}

/// In the words of `leafpress load`.
#[test]
fn flags_that_contradict_are_refused_before_anything_is_read() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.csv"), "id\n1\n").unwrap();
    for (input, flags, expected) in [
        ("big.parquet", &["--trim"][..], "--trim is for CSV, and big.parquet seems to be none"),
        ("a.csv", &["--format", "json", "--null", "NA"], "--null is for CSV"),
        ("a.csv", &["--delimiter", "\""], "are the same byte"),
        ("a.csv", &["--type", "id=text", "--type", "id=integer"], "two types for the column 'id'"),
        ("a.csv", &["--rename", "id=a", "--rename", "id=b"], "gives the column 'id' two names"),
        ("a.csv", &["--rejects", "r"], "--rejects is for bad rows that are skipped"),
    ] {
        let arguments = [&["shard", input, "-o", "p", "--parts", "1"], flags].concat();
        let said = run(folder.path(), &arguments).expect_status(2);
        assert!(said.stderr.contains(expected), "{flags:?}: {}", said.stderr);
        let arguments = [&["load", "a.db", input], flags].concat();
        let said = run(folder.path(), &arguments).expect_status(2);
        assert!(said.stderr.contains(expected), "{flags:?}: {}", said.stderr);
        assert_eq!(names_in(folder.path()), ["a.csv"]);
    }
}

#[test]
fn a_damaged_manifest_is_told_at_the_end() {
    let folder = TempDir::new().unwrap();
    let runs = folder.path().join("p/runs");
    for rows in ["id\n1\n", "id\n1\n2\n"] {
        fs::write(folder.path().join("a.csv"), rows).unwrap();
        run(folder.path(), &["shard", "a.csv", "-o", "p", "--parts", "1"]).expect_status(0);
    }
    let names = names_in(&runs);
    fs::write(runs.join(&names[0]).join("manifest.json"), "{").unwrap();
    let list = run(folder.path(), &["shards", "list", "p"]).expect_status(1).stdout;
    assert!(list.contains("cannot be read: ") && list.contains("2 rows"), "{list}");
    let gc = run(folder.path(), &["shards", "gc", "p"]).expect_status(1).stdout;
    assert!(gc.contains("left alone") && gc.contains("manifest.json"), "{gc}");
    // A current run that is damaged can be left.
    run(folder.path(), &["shard", "a.csv", "-o", "p", "--parts", "1"]).expect_status(0);
    let newest = names_in(&runs).pop().unwrap();
    fs::write(runs.join(newest).join("manifest.json"), "{").unwrap();
    let list = run(folder.path(), &["shards", "list", "p", "--json"]).expect_status(1).json();
    let is_damaged = |run: &serde_json::Value| run["problem"].is_string();
    assert_eq!(list["runs"].as_array().unwrap().iter().filter(|run| is_damaged(run)).count(), 2);
    run(folder.path(), &["shards", "rollback", "p", "--to", &names[1]]).expect_status(0);
    run(folder.path(), &["shards", "verify", "p"]).expect_status(0);
    run(folder.path(), &["shards", "list", "none"]).expect_status(3);
}

/// A run that is killed at any moment leaves the one before it, and `gc` leaves nothing of it.
#[test]
fn a_killed_run_leaves_the_current_one() {
    let folder = TempDir::new().unwrap();
    let line = |id: u32| format!("{id},name {id}\n");
    let rows: String = (0..100_000).map(line).collect();
    fs::write(folder.path().join("a.csv"), format!("id,name\n{rows}")).unwrap();
    let arguments = ["shard", "a.csv", "-o", "p", "--by", "hash(id)", "--parts", "5", "--pk", "id"];
    run(folder.path(), &arguments).expect_status(0);
    let (mut killed, mut finished) = (0, 1);
    for round in 0..24 {
        let mut child = command(folder.path(), &arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + 30 * round));
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            finished += 1;
        } else {
            killed += 1;
        }
        let verdict =
            run(folder.path(), &["shards", "verify", "p", "--json"]).expect_status(0).json();
        assert_eq!(verdict["rows"], 100_000, "round {round}");
    }
    assert!(killed > 3, "{killed} were killed");
    run(folder.path(), &["shards", "gc", "p", "--older-than", "0s"]).expect_status(0);
    let runs = run(folder.path(), &["shards", "list", "p", "--json"]).expect_status(0).json();
    let published = runs["runs"].as_array().unwrap();
    // The one that was killed between its manifest and `_CURRENT` is complete.
    assert!(published.len() >= finished);
    assert_eq!(names_in(&folder.path().join("p/runs")).len(), published.len());
    for it in published {
        let run = folder.path().join("p/runs").join(it["run"].as_str().unwrap());
        assert_eq!(names_in(&run), ["manifest.db", "manifest.json", "parts"]);
        assert_eq!(names_in(&run.join("parts")).len(), 5);
    }
}

#[test]
fn rows_that_share_a_key_are_kept_as_asked() {
    let folder = TempDir::new().unwrap();
    let line = |row: u32| format!("{},{row}\n", row % 40);
    let rows: String = (0..100).map(line).collect();
    fs::write(folder.path().join("a.csv"), format!("id,row\n{rows}")).unwrap();
    // The rows 0 to 39 come first; the last of each key are 80 to 99 and 60 to 79.
    for (rule, sum) in [("ignore", 780), ("replace", 3180)] {
        let arguments = ["shard", "a.csv", "-o", "p", "--by", "hash(id)", "--parts", "3"];
        let rest = ["--pk", "id", "--on-conflict", rule, "--json"];
        let report = run(folder.path(), &[&arguments[..], &rest].concat()).expect_status(0).json();
        assert_eq!((&report["rows"], &report["rows_ignored"]), (&40.into(), &60.into()));
        let parts =
            folder.path().join("p/runs").join(report["run"].as_str().unwrap()).join("parts");
        let sum_of = |name: String| {
            let part = Connection::open(parts.join(name)).unwrap();
            part.query_row("SELECT sum(row) FROM a", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(names_in(&parts).into_iter().map(sum_of).sum::<i64>(), sum, "{rule}");
    }
    let arguments = ["shard", "a.csv", "-o", "p", "--parts", "1", "--pk", "id"];
    let text = run(folder.path(), &[&arguments[..], &["--on-conflict", "ignore"]].concat());
    let text = text.expect_status(0).stdout;
    assert!(text.contains("60 rows were ignored: others have their keys"), "{text}");
    // Each part would keep a row of the key.
    for by in ["rows", "bytes", "hash(row)", "hash(id,row)", "range(row)"] {
        let arguments = ["shard", "a.csv", "-o", "q", "--by", by, "--parts", "2", "--pk", "id"];
        for rule in ["ignore", "replace"] {
            let said = run(folder.path(), &[&arguments[..], &["--on-conflict", rule]].concat());
            let said = said.expect_status(2).stderr;
            assert!(said.contains("; split by the key: --by 'hash(id)'"), "{by}: {said}");
        }
    }
    assert_eq!(names_in(folder.path()), ["a.csv", "p"]);
}

#[test]
fn rows_with_wrong_keys_are_rejected_with_their_places() {
    let folder = TempDir::new().unwrap();
    let rows = "id,name\n1,a\n2,b\n,c\n1,d\n3,e\nx,f\n";
    fs::write(folder.path().join("a.csv"), rows).unwrap();
    let keys = ["--pk", "id", "--type", "id=INTEGER"];
    for by in ["hash(id)", "range(ID)"] {
        let arguments = ["shard", "a.csv", "-o", "p", "--by", by, "--parts", "2"];
        let skip = ["--on-error", "skip", "--rejects", "rejects.csv"];
        let skipping = [&arguments[..], &keys, &skip].concat();
        let text = run(folder.path(), &skipping).expect_status(1).stdout;
        assert!(text.contains("3 rows were rejected, and are in rejects.csv\n"), "{text}");
        for place in ["a.csv:4:1: ", "a.csv:5:1: ", "a.csv:7:1: "] {
            assert!(text.contains(place), "{text}");
        }
        let rejects = fs::read_to_string(folder.path().join("rejects.csv")).unwrap();
        for row in [",c", "1,d", "x,f"] {
            assert!(rejects.lines().any(|line| line == row), "{rejects}");
        }
        for name in ["rejects.csv", "rejects.csv.log"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        let object = run(folder.path(), &[&skipping[..], &["--json"]].concat());
        let object = object.expect_status(1).json();
        assert_eq!((&object["rows"], &object["rows_rejected"]), (&3.into(), &3.into()));
        let lines = |reject: &serde_json::Value| reject["line"].as_u64().unwrap();
        let mut lines: Vec<_> = object["rejects"].as_array().unwrap().iter().map(lines).collect();
        lines.sort_unstable();
        assert_eq!(lines, [4, 5, 7]);
        assert_eq!(object["reject_reasons"].as_array().unwrap().len(), 3, "{object}");
        for name in ["rejects.csv", "rejects.csv.log"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        // A row without a key has its place without that, too.
        let stopped = run(folder.path(), &[&arguments[..], &keys].concat()).expect_status(3).stderr;
        assert!(stopped.contains("a.csv:4:1: "), "{stopped}");
    }
    // Rows of two parts may share a key, and those of one part end the command.
    let arguments = ["shard", "a.csv", "-o", "p", "--parts", "1", "--on-error", "skip"];
    let part = run(folder.path(), &[&arguments[..], &keys].concat()).expect_status(3).stderr;
    assert!(part.contains("primary key already"), "{part}");
    let arguments = ["shard", "a.csv", "-o", "p", "--parts", "1", "--rejects", "other.csv"];
    let refused = run(folder.path(), &arguments).expect_status(2).stderr;
    assert!(refused.contains("--on-error skip"), "{refused}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.csv"), "id\n1\n").unwrap();
    let shard = |rest: &[&str], status| {
        run(folder.path(), &[&["shard", "a.csv", "--out", "p"], rest].concat())
            .expect_status(status)
    };
    let missing = shard(&["--parts", "2", "--by", "hash(x)"], 2).stderr;
    assert!(missing.contains("no column 'x'") && missing.contains("columns are: id"), "{missing}");
    assert!(shard(&["--parts", "2", "--by", "round(id)"], 2).stderr.contains("hash(COL"));
    assert!(shard(&["--parts", "0"], 2).stderr.contains("from 1 to 512"));
    assert!(shard(&[], 2).stderr.contains("--parts"));
    let none = run(folder.path(), &["shards", "list", "nowhere"]).expect_status(3);
    assert!(none.stderr.contains("no run is current in nowhere"), "{}", none.stderr);
    fs::write(folder.path().join("bad.csv"), "id\n1\n2,3\n").unwrap();
    let arguments = ["shard", "bad.csv", "--out", "p", "--by", "hash(id)", "--parts", "2"];
    let bad = run(folder.path(), &arguments).expect_status(3).stderr;
    assert!(bad.contains("bad.csv:3:1: ") && bad.contains("nothing was written to p\n"), "{bad}");
    fs::write(folder.path().join("bad.csv"), "id\n1\n2\n1\n").unwrap();
    let twice =
        run(folder.path(), &[&arguments[..], &["--pk", "id"]].concat()).expect_status(3).stderr;
    assert!(twice.contains("primary key already") && twice.contains("written to p\n"), "{twice}");
    assert!(twice.ends_with("or the last with --on-conflict replace\n"), "{twice}");
    assert_eq!(names_in(folder.path()), ["a.csv", "bad.csv"]);
}
